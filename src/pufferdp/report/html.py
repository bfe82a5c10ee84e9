"""A report as one HTML file: read without a network, printed, kept beside the release.

The certificate is embedded, and ``pufferdp verify REPORT.html`` recomputes it. The only script recomputes its hash.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import os
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from pufferdp.assess.comparison import comparison_of
from pufferdp.basics.errors import ParameterError
from pufferdp.basics.extras import install_advice
from pufferdp.basics.files import check_file, write_whole
from pufferdp.report.certificate_table import certificate_table
from pufferdp.report.draw.matplotlib import inline_svg
from pufferdp.report.page import Block, Figure, Medium, Page, Section, Table, Words
from pufferdp.report.registry import page_of
from pufferdp.report.theme import style_sheet

if TYPE_CHECKING:
    import jinja2

_REVIEWER: Final = "For a reviewer: how it was made"


def check_report(path: str | os.PathLike[str]) -> None:
    """Refuse a report that could not be written, before anything is released."""
    check_file(path, "report", (".html",))
    _template()


def write_report(subject: object, path: str | os.PathLike[str]) -> None:
    """Write the report of a plan, a release, a series, a flow, or a certificate of one of them."""
    check_report(path)
    write_whole(path, report_html(subject))


def report_html(subject: object) -> str:
    """The whole report, with its figures, its certificate and its style sheet inside."""
    page = page_of(subject, comparison_of(subject))
    template = _template()
    seal = (files("pufferdp.report") / "templates" / "seal.js").read_text(encoding="utf-8") if page.certified else ""
    return template.render(
        seal=seal,
        seal_digest=base64.b64encode(hashlib.sha256(seal.encode()).digest()).decode(),
        page=page,
        sections=[
            (section.title, "".join(map(_block, section.blocks)))
            for section in (*page.sections_for(Medium.REPORT), *_closing(page))
        ],
        colours=style_sheet(),
        embedded=script_json(page.data),
        written=json.dumps(page.data, indent=1, ensure_ascii=False),
    )


def _closing(page: Page) -> Iterator[Section]:
    """The limits of the guarantee for a lawyer, and how it was made for a reviewer."""
    if page.words:
        yield Section(title="Limits of the guarantee", blocks=(Words(page.words),))
    facts = tuple((name, value) for name, value in page.facts if value)
    if page.certified:
        yield Section(title=_REVIEWER, blocks=(certificate_table(page.data),))
    elif facts:
        yield Section(
            title=_REVIEWER, blocks=(Table(caption="What it rests on", head=("fact", "value"), rows=facts, left=2),)
        )


def script_json(content: dict[str, Any]) -> str:
    """JSON that may stand inside a ``script`` element: no character of it can end one, or begin a comment."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _template() -> jinja2.Template:
    for name in ("jinja2", "matplotlib"):
        if importlib.util.find_spec(name) is None:
            raise ParameterError(f"a report needs {name}; install it with: {install_advice('report')}")
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pufferdp.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")


def notebook(page: Page) -> str:
    """A page in brief: the guarantee and the accuracy. All text is escaped; the page loads and runs nothing."""
    verdict, warnings = Words(page.verdict), Words(tuple(f"Warning: {warning}" for warning in page.warnings))
    blocks = (block for section in page.sections_for(Medium.NOTEBOOK) for block in section.blocks)
    lead = Words((page.lead,) if page.lead else ())
    shown = "".join(_block(block) for block in (verdict, lead, warnings, *blocks))
    return f'<div style="max-width: 50em"><p><strong>{escape(page.title)}</strong></p>{shown}</div>'


def _block(block: Block) -> str:
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Figure):
        chart = block.make()
        # Several figures share a page, and their ids must differ.
        name = "chart-" + hashlib.sha256(repr(chart).encode()).hexdigest()[:12]
        try:
            drawn = inline_svg(chart, name)
        except ParameterError:  # no matplotlib: the table has it all
            return ""
        return f"<figure>{drawn}<figcaption>{escape(block.caption)}</figcaption></figure>"
    return "".join(f"<p>{escape(sentence)}</p>\n" for sentence in (block.heading, *block.sentences) if sentence)


def _table(table: Table) -> str:
    kinds = tuple(' class="words"' if n < table.left else "" for n in range(len(table.head)))
    # A heading without words would be one that cannot be read aloud.
    head = "".join(
        f'<th scope="col"{kind}>{escape(cell)}</th>' if cell else "<td></td>"
        for kind, cell in zip(kinds, table.head, strict=True)
    )
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds[1:], row[1:], strict=True))
        + "</tr>\n"
        for row in table.rows
    )
    whole = ' class="fields"' if table.left == len(table.head) else ""  # nothing but words
    caption, below = escape(table.caption), f"<p>{escape(table.below)}</p>" if table.below else ""
    return (
        f'<div class="scroll" role="region" aria-label="{caption}" tabindex="0"><table{whole}>'
        f"<caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table>{below}</div>\n"
    )
