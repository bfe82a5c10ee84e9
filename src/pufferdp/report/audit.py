"""The figure of an audit: what leaks, from proof to bound, and how often the attacker's event is seen."""

from __future__ import annotations

from typing import Any, Final

from pufferdp.report.charts import Axis, Bars, Chart, Layer, Panels, Points, Range, Rule, Text
from pufferdp.report.text import number

_MARKS: Final = (("lower", "proved: at least"), ("exact", "exact"), ("upper", "theory: at most"))


def audit_chart(report: dict[str, Any]) -> Panels:
    """Above, from the lower bound to the upper with the claim across; below, the event under both values."""
    parts = [_leakage(report)]
    if report["attacks"]:
        parts.append(_event(report["attacks"][0], report["confidence"]))
    title = f"{report['mechanism']}, {report['records']:,} records, adversary {report['adversary']}"
    return Panels(title=title, parts=tuple(parts), alt=f"{title}. " + " ".join(part.alt for part in parts))


def _leakage(report: dict[str, Any]) -> Chart:
    shown = [(report[key], words) for key, words in _MARKS if report[key] is not None]
    places = tuple(float(n) for n in range(len(shown)))
    layers: list[Layer] = [
        Points(x=(value,), y=(place,), series=n)
        for n, (place, (value, _)) in enumerate(zip(places, shown, strict=True))
    ]
    layers += [
        Text(x=value, y=place, words=number(value), align="left", right=8)
        for place, (value, _) in zip(places, shown, strict=True)
    ]
    claim = report["claim"]["dp_epsilon"]
    said = ", ".join(f"{words} {number(value)}" for value, words in shown)
    if claim is not None:
        layers.append(Rule(at=claim, along="x", series=3, label=f"claimed as DP: {number(claim)}"))
        said += f"; claimed as DP {number(claim)}"
    top = max([value for value, _ in shown] + ([] if claim is None else [claim]))
    return Chart(
        title="leakage about one record",
        x=Axis(low=0.0, high=1.2 * top if top > 0 else 1.0),
        y=Axis(scale="names", names=tuple(words for _, words in shown)),
        layers=tuple(layers),
        alt=f"Leakage: {said}.",
        height=2.4,
        legend="outside",
    )


def _event(attack: dict[str, Any], confidence: float) -> Chart:
    """How often the event is seen for either value, on a logarithmic axis, with the bounds that carry the proof."""
    edges, shares = (attack["low"], attack["high"]), attack["shares"]
    least = min(share for share in (*shares, *edges) if share > 0) / 3
    seen = tuple(max(float(share), least) for share in shares)
    proof = tuple(max(float(edge), least) for edge in edges)
    said = f"Seen, they say {attack['concludes']} and are right at least {number(attack['right'])} of the time "
    said += f"({number(attack['before'])} before); {100 * confidence:g} % sure."
    texts = [
        Text(x=max(a, b), y=float(n), words=number(share), align="left", right=6)
        for n, (a, b, share) in enumerate(zip(seen, proof, shares, strict=True))
    ]
    return Chart(
        title=f"event: {attack['event']}",
        x=Axis(name="how often it is seen (bars), and the bound used in the proof", scale="log", low=least, high=3.0),
        y=Axis(
            scale="names", names=tuple(f"{attack['record']} is {v}" for v in (attack["concludes"], attack["instead"]))
        ),
        layers=(
            Bars(at=(0.0, 1.0), values=seen, kind="pale", width=0.5, start=least),
            Range(
                at=(0.0, 1.0),
                low=tuple(map(min, seen, proof)),
                high=tuple(map(max, seen, proof)),
                along="x",
            ),
            *texts,
        ),
        alt=f"The event: {attack['event']}. {said}",
        height=2.4,
    )
