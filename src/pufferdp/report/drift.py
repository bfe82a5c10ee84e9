"""The figure of a drift: what is left of a promise while one transition probability moves away from the model."""

from __future__ import annotations

import os
from typing import Any

from pufferdp.report.figures import INK, PALE, new_figure, save_figure
from pufferdp.report.text import number


def drift_figure(drift: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """A curve over the probability; the model is where it touches the promise, the belief a point on it."""
    points = [p for p in drift["points"] if p["epsilon"] is not None]
    figure = new_figure(7.0, 4.2)
    axes = figure.subplots()
    axes.plot([p["probability"] for p in points], [p["epsilon"] for p in points], color=INK)
    axes.axhline(drift["promised"], color=PALE, linestyle="--", zorder=0)
    axes.plot([drift["probability"]], [drift["promised"]], "o", color="white", markeredgecolor=INK, label="the model")
    belief = drift["belief"]
    if belief is not None and belief["epsilon"] is not None:
        axes.plot([belief["probability"]], [belief["epsilon"]], "D", color=INK, label="the belief")
        axes.annotate(
            number(belief["epsilon"]),
            (belief["probability"], belief["epsilon"]),
            textcoords="offset points",
            xytext=(8, -10),
            fontsize=9,
        )
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"probability that {drift['to']} follows {drift['from']}")
    axes.set_ylabel("epsilon kept towards a belief at this place")
    axes.set_title(
        f"epsilon {drift['promised']:g} was promised, {drift['length']:,} records, adversary pufferfish", fontsize=10
    )
    axes.legend(frameon=False)
    save_figure(figure, path)
