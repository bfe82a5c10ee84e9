"""The figure of leakage curves: DP loss against leakage, every curve that applies, exact points on top."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pufferdp.leakage.curves import Curve
from pufferdp.report.figures import INK, PALE, new_figure, save_figure
from pufferdp.report.text import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES: Final = {
    "independent": "-.",
    "general": "--",
    "gaussian": ":",
    "gaussian-class": (0, (1, 3)),
    "gaussian-exact": "-",
    "markov": ":",
    "zhao": (0, (1, 3)),
    "quilt": "-",
    "pedigree": (0, (6, 3)),
}
"""Told apart without colour."""


def curves_figure(
    curves: Mapping[str, Curve], path: str | os.PathLike[str], *, least: float = 0.01, most: float = 10.0
) -> None:
    """Every curve that applies, between two DP losses; both axes logarithmic."""
    losses = [least * (most / least) ** (n / 60) for n in range(61)]
    figure = new_figure(7.0, 4.6)
    axes = figure.subplots()
    for name, curve in curves.items():
        if curve.applies:
            axes.plot(losses, [curve(loss) for loss in losses], color=INK, linestyle=_STYLES[name], label=name)
    _finish(axes)
    save_figure(figure, path)


def leakage_figure(leakage: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Both axes logarithmic; the line of the question is pale: a DP loss upright, a target across."""
    lines, points = leakage["lines"], leakage["lines"]["exact"]
    figure = new_figure(7.0, 4.6)
    axes = figure.subplots()
    for name, values in lines["curves"].items():
        best = name == leakage["best"]
        axes.plot(
            lines["dp_epsilon"], values, color=INK, linestyle=_STYLES[name], linewidth=2.2 if best else 1.2, label=name
        )
    if points:
        places, found = [p["dp_epsilon"] for p in points], [p["leakage"] for p in points]
        axes.plot(places, found, "o", color="white", markeredgecolor=INK, label=f"exact, {leakage['query']}")
    if "target" in leakage:
        axes.axhline(leakage["target"], color=PALE, zorder=0)
        question = f"leakage of at most {number(leakage['target'])}"
    else:
        axes.axvline(leakage["spent"], color=PALE, zorder=0)
        question = f"DP loss {number(leakage['spent'])}"
    over = f", {leakage['length']:,} records" if leakage["length"] else ""
    axes.set_title(f"{question}{over}, adversary {leakage['adversary']}", fontsize=10)
    _finish(axes)
    save_figure(figure, path)


def _finish(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("DP loss that is spent")
    axes.set_ylabel("leakage about one record, at most")
    axes.legend(frameon=False)
