"""A report as one HTML file: read without a network and without scripts, printed, kept beside the release.

The certificate is embedded, and ``pufferdp verify REPORT.html`` recomputes it.
"""

from __future__ import annotations

import importlib.util
import json
import os
from typing import TYPE_CHECKING, Any

from pufferdp.errors import ParameterError
from pufferdp.models.files import check_file, write_whole
from pufferdp.report.blocks import Shown, Table
from pufferdp.report.subjects import page_of
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
