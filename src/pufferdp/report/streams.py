"""The figure of a stream: what leaks about the record of each step, from outputs before, after and all."""

from __future__ import annotations

from typing import Any

from pufferdp.report.charts import Axis, Chart, Line
from pufferdp.report.text import number

_NAMES = {
    "total": "all outputs",
    "backward": "outputs so far",
    "forward": "outputs from then on",
    "dp_epsilon": "DP loss of the step",
}


def stream_chart(stream: dict[str, Any]) -> Chart:
    """Leakage over time, beside the DP loss of each step."""
    steps, few = tuple(map(float, stream["steps"])), len(stream["steps"]) <= 40
    lines = [
        Line(x=steps, y=tuple(map(float, stream[part])), label=label, series=n, marked=few, bold=part == "total")
        for n, (part, label) in enumerate(_NAMES.items())
    ]
    title = f"{stream['length']:,} steps, adversary {stream['adversary']}"
    return Chart(
        title=title,
        x=Axis(name="step", whole=True),
        y=Axis(name="leakage about the step's record, at most", low=0.0),
        layers=tuple(lines),
        alt=f"Leakage over {title}: at most {number(max(stream['total']))} from all outputs, "
        f"{number(max(stream['backward']))} from those so far, {number(max(stream['forward']))} from those later.",
        height=4.2,
        legend="outside",
    )
