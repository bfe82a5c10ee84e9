"""Figures for the page, as Vega-Lite, and reports to take along: all of it the library's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pufferdp.basics.errors import ParameterError
from pufferdp.basics.words import number
from pufferdp.report.charts import Axis, Chart, Drawable, Line
from pufferdp.report.html import report_html
from pufferdp.report.pages.answers import plan_comparison, release_chart
from pufferdp.report.pages.leakage import leakage_curves
from pufferdp.report.pages.ledger import budget_calendar, budget_over_time
from pufferdp.report.pages.redaction import redaction_map
from pufferdp.report.theme import DARK, LIGHT

if TYPE_CHECKING:
    from pufferdp.ledger.balance import DataSet
    from pufferdp.publish.answers.plan import Plan
    from pufferdp.publish.answers.release import Release
    from pufferdp.publish.redaction.result import Redaction


Specification = dict[str, Any]


def _vega(figure: Drawable, theme: str) -> Specification:
    return figure.to_vega_lite(DARK if theme == "dark" else LIGHT)


def plan(planned: Plan, theme: str) -> Specification:
    """The error of each mechanism."""
    return _vega(plan_comparison(planned.to_dict()), theme)


def errors(rows: list[dict[str, Any]], theme: str) -> Specification:
    """The error that the best mechanism stays below, for each epsilon."""
    places, alphas = tuple(row["epsilon"] for row in rows), tuple(float(row["alpha"]) for row in rows)
    points = "; ".join(f"epsilon {number(x)}: {number(y)}" for x, y in zip(places, alphas, strict=True))
    chart = Chart(
        title="",
        x=Axis(name="epsilon", scale="log"),
        y=Axis(name="errs by less than (95 % sure)", scale="log"),
        layers=(Line(x=places, y=alphas, marked=True),),
        alt=f"What every number of the answer errs by, with probability 0.95, for each epsilon. {points}.",
        height=3.4,
    )
    return _vega(chart, theme)


def release(made: Release, theme: str) -> Specification:
    """The released numbers and how far they may be off."""
    return _vega(release_chart(made.certificate.to_dict()), theme)


def leakage(curves: dict[str, Any], theme: str) -> Specification:
    """Every curve and the exact points."""
    return _vega(leakage_curves(curves), theme)


def redaction(design: Redaction, theme: str) -> Specification:
    """The regions around the first private row."""
    return _vega(redaction_map(design), theme)


def budget(dataset: dict[str, Any], releases: list[dict[str, Any]], theme: str) -> Specification:
    """What was spent, release by release."""
    return _vega(budget_over_time(dataset, releases), theme)


def calendar(dataset: DataSet, theme: str) -> Specification:
    """What was charged where."""
    return _vega(budget_calendar(dataset), theme)


def report(made: Release | Redaction) -> str:
    """The report as one HTML file; empty where it cannot be had, for what was released must not be lost with it."""
    try:
        return report_html(made)
    except ParameterError:
        return ""
