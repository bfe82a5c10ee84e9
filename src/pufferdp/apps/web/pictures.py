"""Figures for the page, as Vega-Lite, and reports to take along: all of it the library's own."""

from __future__ import annotations

from typing import Any, Final

from pufferdp.basics.errors import ParameterError
from pufferdp.basics.words import number
from pufferdp.report.charts import Axis, Chart, Drawable, Line
from pufferdp.report.html import report_html
from pufferdp.report.page import Block, Figure, Medium, Table
from pufferdp.report.registry import page_of
from pufferdp.report.theme import DARK, LIGHT

Specification = dict[str, Any]


def vega(figure: Drawable, theme: str) -> Specification:
    """A figure in the colours of the page."""
    return figure.to_vega_lite(DARK if theme == "dark" else LIGHT)


def errors(rows: list[dict[str, Any]], theme: str) -> Specification:
    """The error that the best mechanism stays below, for each epsilon."""
    places, alphas = tuple(row["epsilon"] for row in rows), tuple(float(row["alpha"]) for row in rows)
    points = "; ".join(f"epsilon {number(x)}: {number(y)}" for x, y in zip(places, alphas, strict=True))
    chart = Chart(
        title="",
        x=Axis(name="epsilon", scale="log"),
        y=Axis(name="95 % error bound", scale="log"),
        layers=(Line(x=places, y=alphas, marked=True),),
        alt=f"What every number of the answer errs by, with probability 0.95, for each epsilon. {points}.",
        height=3.4,
    )
    return vega(chart, theme)


UNREAD: Final = "; no data was read"


def page(result: object, theme: str, *, read: bool = False) -> dict[str, Any]:
    """What there is to say about a result, as the report has it: words, tables and figures, section by section.

    With ``read`` it is the plan of data that was counted.
    """
    subject = page_of(result)
    return {
        "title": subject.title,
        "verdict": list(subject.verdict),
        "lead": subject.lead.removesuffix(UNREAD) if read else subject.lead,
        "warnings": list(subject.warnings),
        "words": list(subject.words),
        "sections": [
            {"title": section.title, "blocks": [_block(block, theme) for block in section.blocks]}
            for section in subject.sections_for(Medium.REPORT)
        ],
    }


def _block(block: Block, theme: str) -> dict[str, Any]:
    if isinstance(block, Table):
        rows = [list(row) for row in block.rows]
        table = {"caption": block.caption, "head": list(block.head), "rows": rows, "left": block.left}
        return {"table": {**table, "below": block.below}}
    if isinstance(block, Figure):
        return {"chart": vega(block.make(), theme), "caption": block.caption}
    return {"words": [words for words in (block.heading, *block.sentences) if words]}


def report(made: object) -> str:
    """The report as one HTML file; empty where it cannot be had, for what was released must not be lost with it."""
    try:
        return report_html(made)
    except ParameterError:
        return ""
