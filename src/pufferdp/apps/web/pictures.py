"""Figures for the page, as Vega-Lite, and reports to take along: all of it the library's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pufferdp.basics.errors import ParameterError
from pufferdp.basics.words import number
from pufferdp.report.charts import Axis, Chart, Drawn, Line
from pufferdp.report.html import report_html
from pufferdp.report.pages.answers import plan_comparison, release_chart
from pufferdp.report.pages.leakage import leakage_curves
from pufferdp.report.pages.ledger import budget_over_time
from pufferdp.report.pages.redaction import redaction_map
from pufferdp.report.theme import DARK, LIGHT

if TYPE_CHECKING:
    from pufferdp.publish.answers.plan import Plan
    from pufferdp.publish.answers.release import Release
    from pufferdp.publish.redaction.result import Redaction


Specification = dict[str, Any]


def _vega(drawn: Drawn, theme: str) -> Specification:
    return drawn.to_vega_lite(DARK if theme == "dark" else LIGHT)


def plan(found: Plan, theme: str) -> Specification:
    """The error of each mechanism."""
    return _vega(plan_comparison(found.to_dict()), theme)


def errors(rows: list[dict[str, Any]], theme: str) -> Specification:
    """The error that the best mechanism stays below, for each epsilon."""
    places, found = tuple(row["epsilon"] for row in rows), tuple(float(row["alpha"]) for row in rows)
    said = "; ".join(f"epsilon {number(x)}: {number(y)}" for x, y in zip(places, found, strict=True))
    chart = Chart(
        title="",
        x=Axis(name="epsilon", scale="log"),
        y=Axis(name="errs by less than (95 % sure)", scale="log"),
        layers=(Line(x=places, y=found, marked=True),),
        alt=f"What every number of the answer errs by, with probability 0.95, for each epsilon. {said}.",
        height=3.4,
    )
    return _vega(chart, theme)


def release(made: Release, theme: str) -> Specification:
    """The released numbers."""
    return _vega(release_chart(made.certificate.to_dict()), theme)


def leakage(found: dict[str, Any], theme: str) -> Specification:
    """Every curve and the exact points."""
    return _vega(leakage_curves(found), theme)


def redaction(found: Redaction, theme: str) -> Specification:
    """The regions around the first private row."""
    return _vega(redaction_map(found), theme)


def budget(found: dict[str, Any], releases: list[dict[str, Any]], theme: str) -> Specification:
    """What was spent, release by release."""
    return _vega(budget_over_time(found, releases), theme)


def report(made: Release | Redaction) -> str:
    """The report as one HTML file; empty where it cannot be had, for what was released must not be lost with it."""
    try:
        return report_html(made)
    except ParameterError:
        return ""
