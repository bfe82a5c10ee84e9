"""The figure of a drift: what is left of a promise while one transition probability moves away from the model."""

from __future__ import annotations

from typing import Any

from pufferdp.report.charts import Axis, Chart, Layer, Line, Points, Rule, Text
from pufferdp.report.text import number


def drift_chart(drift: dict[str, Any]) -> Chart:
    """A curve over the probability; the model is where it touches the promise, the belief a point on it."""
    points = [p for p in drift["points"] if p["epsilon"] is not None]
    belief, promised = drift["belief"], drift["promised"]
    layers: list[Layer] = [
        Line(x=tuple(p["probability"] for p in points), y=tuple(p["epsilon"] for p in points)),
        Rule(at=promised, pale=True, series=1),
        Points(x=(drift["probability"],), y=(promised,), label="the model", hollow=True),
    ]
    title = f"epsilon {promised:g} was promised, {drift['length']:,} records, adversary pufferfish"
    alt = f"What is kept of the promise while one probability drifts: {title}."
    if belief is not None and belief["epsilon"] is not None:
        at, kept = belief["probability"], belief["epsilon"]
        layers.append(Points(x=(at,), y=(kept,), label="the belief", series=3))
        layers.append(Text(x=at, y=kept, words=number(kept), align="left", right=8, up=-7))
        alt += f" The belief, at {number(at)}, keeps {number(kept)}."
    return Chart(
        title=title,
        x=Axis(name=f"probability that {drift['to']} follows {drift['from']}"),
        y=Axis(name="epsilon kept towards a belief at this place", low=0.0),
        layers=tuple(layers),
        alt=alt,
    )
