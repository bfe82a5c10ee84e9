"""The figure of leakage curves: DP loss against leakage, every curve that applies, exact points on top."""

from __future__ import annotations

import os
from typing import Any, Final

from pufferdp.report.figures import INK, PALE, new_figure, save_figure
from pufferdp.report.text import number

_STYLES: Final = {
    "independent": "-.",
    "general": "--",
    "gaussian": ":",
    "gaussian-class": (0, (1, 3)),
    "gaussian-exact": "-",
    "markov": ":",
    "zhao": (0, (1, 3)),
    "quilt": "-",
}
"""Told apart without colour."""


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
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("DP loss that is spent")
    axes.set_ylabel("leakage about one record, at most")
    over = f", {leakage['length']:,} records" if leakage["length"] else ""
    axes.set_title(f"{question}{over}, adversary {leakage['adversary']}", fontsize=10)
    axes.legend(frameon=False)
    save_figure(figure, path)
