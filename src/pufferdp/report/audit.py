"""The figure of an audit: what leaks, from proof to bound, and how often the attacker's event is seen."""

from __future__ import annotations

from typing import Any

from pufferdp.report.charts import Axis, BarKind, Bars, Chart, Layer, Panels, Points, Text
from pufferdp.report.text import number


def audit_panels(report: dict[str, Any]) -> Panels:
    """Above, what is proved, known, bounded and claimed; below, the event that proves most, under both values."""
    title = f"{report['mechanism']}, {report['records']:,} records, adversary {report['adversary']}"
    parts = [_leakage(report)]
    if report["attacks"]:
        parts.append(_event(report["attacks"][0], report["confidence"]))
    return Panels(title=title, parts=tuple(parts), alt=f"{title}. {' '.join(part.alt for part in parts)}")


def _leakage(report: dict[str, Any]) -> Chart:
    rows: list[tuple[str, float | None, BarKind]] = [
        ("claimed as DP", report["claim"]["dp_epsilon"], "hatched"),
        ("at most, by theory", report["upper"], "pale"),
        ("exactly", report["exact"], "pale"),
        ("at least, by attack", report["lower"], "full"),
    ]
    shown = [(name, value, kind) for name, value, kind in rows if value is not None]
    layers: list[Layer] = []
    for place, (_, value, kind) in enumerate(shown):
        layers.append(Bars(at=(place,), values=(value,), kind=kind))
        layers.append(Text(x=value, y=place, words=number(value), align="left", right=5))
    said = "; ".join(f"{name} {number(value)}" for name, value, _ in reversed(shown))
    return Chart(
        title="",
        x=Axis(name="leakage about one record", low=0.0, high=1.2 * max(value for _, value, _ in shown) or 1.0),
        y=Axis(scale="names", names=tuple(name for name, _, _ in shown)),
        layers=tuple(layers),
        alt=f"Leakage about one record: {said}.",
        height=1.0 + 0.42 * len(shown),
    )


def _event(attack: dict[str, Any], confidence: float) -> Chart:
    """How often the event is seen for either value, on a logarithmic axis, with the bounds that carry the proof."""
    shares, edges = attack["shares"][::-1], (attack["high"], attack["low"])  # the first value stands above
    least = min(share for share in (*shares, *edges) if share > 0) / 3
    values = (attack["instead"], attack["concludes"])
    layers: list[Layer] = []
    for place, (share, edge) in enumerate(zip(shares, edges, strict=True)):
        layers.append(Bars(at=(place,), values=(max(share, least),), kind="pale", start=least))
        layers.append(Text(x=max(share, edge, least), y=place, words=number(share), align="left", right=9))
    bounds = tuple(max(edge, least) for edge in edges)
    layers.append(Points(x=bounds, y=(0.0, 1.0), series=3, label="bound used in the proof"))
    said = f"Event: {attack['event']}. Seen, they say {attack['concludes']} and are right at least "
    said += f"{number(attack['right'])} of the time ({number(attack['before'])} before); {100 * confidence:g} % sure."
    return Chart(
        title=said,
        x=Axis(name="how often the event is seen", scale="log", low=least, high=3.0),
        y=Axis(scale="names", names=tuple(f"{attack['record']} is {value}" for value in values)),
        layers=tuple(layers),
        alt=f"{said} It is seen in {number(shares[1])} of the runs where {attack['record']} is {values[1]}, in "
        f"{number(shares[0])} where it is {values[0]}.",
        height=2.6,
        legend="lower right",
    )
