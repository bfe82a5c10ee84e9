"""A report as one HTML file: read without a network and without scripts, printed, kept beside the release.

The certificate is embedded, and ``pufferdp verify REPORT.html`` recomputes it.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pufferdp.certificate import FLOW_SCHEMA, REDACTION_SCHEMA, SCHEMA, SERIES_SCHEMA
from pufferdp.errors import ParameterError
from pufferdp.models.files import check_file, write_whole
from pufferdp.report.answer_pages import answer_page, plan_page
from pufferdp.report.flow_pages import flow_page, flow_plan_page
from pufferdp.report.pages import Page, Shown, Table
from pufferdp.report.series_pages import flip_design_page, redaction_of, redaction_page, series_page
from pufferdp.report.theme import style_sheet

if TYPE_CHECKING:
    import jinja2


def check_report(path: str | os.PathLike[str]) -> None:
    """Refuse a report that could not be written, before anything is released."""
    check_file(path, "report", (".html",))
    _template()


def write_report(subject: object, path: str | os.PathLike[str]) -> None:
    """Write the report of a plan, a release, a series, a flow, or a certificate of one of them."""
    check_report(path)
    write_whole(path, report_html(subject))


def report_html(subject: object) -> str:
    """The report as text."""
    page = page_of(subject)
    charts = {
        id(block): block.chart.svg(f"chart-{n}")
        for n, block in enumerate(block for s in page.sections for block in s.blocks if isinstance(block, Shown))
    }
    return _template().render(
        page=page,
        chart=lambda block: charts[id(block)],
        colours=style_sheet(),
        embedded=embedded(page.data),
        written=json.dumps(page.data, indent=1, ensure_ascii=False),
        is_table=lambda block: isinstance(block, Table),
        is_chart=lambda block: isinstance(block, Shown),
    )


def page_of(subject: object) -> Page:
    """What there is to say about something."""
    from pufferdp.flipping import Flip, FlipDesign
    from pufferdp.flowing import FlowPlan, FlowRelease
    from pufferdp.planning import Plan
    from pufferdp.redaction_result import Redaction
    from pufferdp.releasing import Release

    if isinstance(subject, Plan):
        return plan_page(subject)
    if isinstance(subject, FlowPlan):
        return flow_plan_page(subject)
    if isinstance(subject, FlipDesign):
        return flip_design_page(subject)
    if isinstance(subject, Redaction):
        return redaction_page(subject)
    if isinstance(subject, Release | Flip | FlowRelease):
        return _certified(subject.certificate.to_dict())
    if isinstance(subject, dict):
        return _certified(subject)
    if hasattr(subject, "to_dict"):
        return _certified(subject.to_dict())
    raise ParameterError(
        f"there is no report of a {type(subject).__name__}; hand over a plan, a release or a certificate"
    )


def _certified(certificate: dict[str, Any]) -> Page:
    pages: dict[str, Callable[[dict[str, Any]], Page]] = {
        SCHEMA: answer_page,
        SERIES_SCHEMA: series_page,
        FLOW_SCHEMA: flow_page,
        REDACTION_SCHEMA: _redaction_page,
    }
    schema = certificate.get("schema")
    if schema not in pages:
        raise ParameterError(f"schema is {schema!r}; a certificate has one of {', '.join(pages)}", value=schema)
    return pages[schema](certificate)


def _redaction_page(certificate: dict[str, Any]) -> Page:
    return redaction_page(redaction_of(certificate))


def embedded(content: dict[str, Any]) -> str:
    """JSON that may stand inside a ``script`` element: no character of it can end one, or begin a comment."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _template() -> jinja2.Template:
    for name in ("jinja2", "matplotlib"):
        if importlib.util.find_spec(name) is None:
            raise ParameterError(f"a report needs {name}; install it with: pip install 'pufferdp[report]'")
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pufferdp.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")
