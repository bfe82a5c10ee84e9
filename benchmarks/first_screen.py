"""The numbers and the picture at the top of the README: one week, counted with DP noise and with ours.

``python -m benchmarks.first_screen`` draws docs/images/first-screen.png.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pufferdp
from pufferdp.report.charts import Axis, BarKind, Bars, Chart, Layer, Panels, Text

ROOT = Path(__file__).parents[1]
WEARER = ROOT / "src" / "pufferdp" / "apps" / "demo" / "wearer.json"
IMAGE = ROOT / "docs" / "images" / "first-screen.png"
RECORDS = 7 * 24 * 12
EPSILON = 1.0
BETA = 0.05
"""How often an error may exceed its bound."""


@dataclass(frozen=True)
class Cost:
    """A statistic with plain DP noise and with noise that accounts for correlation, at the same epsilon."""

    query: str
    dp_scale: float
    dp_error: float
    """The 95 % error bound, as is ``error``."""
    mechanism: str
    scale: float
    error: float


def odds() -> tuple[float, float]:
    """By how much DP noise on the count lets anyone's odds about one record shift, and by how much ours does."""
    report = pufferdp.leakage_of(WEARER, dp_epsilon=EPSILON, length=RECORDS, query="count:active")
    assert report.exact is not None
    return math.exp(report.exact), math.exp(EPSILON)


def cost(query: str) -> Cost:
    """What the guarantee costs for one statistic of the week, for an adversary who may know any records."""
    plan = pufferdp.plan(WEARER, query, epsilon=EPSILON, length=RECORDS)
    best, dp = plan.best.calibration, plan.candidate("per-record-dp").calibration
    assert best is not None
    assert dp is not None
    return Cost(
        query=query,
        dp_scale=dp.scale,
        dp_error=dp.distribution.accuracy(BETA).alpha,
        mechanism=plan.best.mechanism,
        scale=best.scale,
        error=best.distribution.accuracy(BETA).alpha,
    )


def _bars(axis: str, dp: float, ours: float, written: str) -> Chart:
    rows: list[tuple[str, float, BarKind]] = [("pufferdp", ours, "full"), ("plain DP noise", dp, "hatched")]
    layers: list[Layer] = []
    for place, (_, value, kind) in enumerate(rows):
        layers.append(Bars(at=(place,), values=(value,), kind=kind))
        layers.append(Text(x=value, y=place, words=written.format(f"{value:.3g}"), align="left", right=5))
    return Chart(
        title="",
        x=Axis(name=axis, low=0.0, high=1.2 * max(dp, ours)),
        y=Axis(scale="names", names=tuple(name for name, _, _ in rows)),
        layers=tuple(layers),
        alt=f"{axis}: {'; '.join(f'{name} {value:.3g}' for name, value, _ in reversed(rows))}.",
        width=8.0,
        height=1.6,
    )


def figure() -> Panels:
    """What one count gives away and how far off it is, with either noise."""
    leaked, guaranteed = odds()
    week = cost("count:active")
    parts = (
        _bars("factor by which someone's odds about one moment can shift, at most", leaked, guaranteed, "×{}"),
        _bars(f"95 % error bound of the count, out of {RECORDS:,} records", week.dp_error, week.error, "{}"),
    )
    title = f"How often was the wearer active? One count over a week, epsilon {EPSILON:g}"
    return Panels(title=title, parts=parts, alt=f"{title}. {' '.join(part.alt for part in parts)}")


if __name__ == "__main__":
    figure().save(IMAGE)
    print(f"{IMAGE}: {odds()}, {cost('count:active')}, {cost('histogram')}")
