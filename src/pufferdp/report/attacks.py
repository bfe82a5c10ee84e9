"""The figure of an attack: how often each attacker is right, with what the promises allow."""

from __future__ import annotations

import os
from typing import Any

from pufferdp.report.figures import INK, PALE, new_figure, save_figure
from pufferdp.report.text import number


def attacks_figure(report: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """A bar for each attacker with its interval; what the record's own output and the series allow, across."""
    attacks = report["attacks"]
    figure = new_figure(7.0, 4.2)
    axes = figure.subplots()
    places = range(len(attacks))
    rates = [a["success"] for a in attacks]
    axes.bar(places, rates, width=0.55, color=PALE, edgecolor=INK)
    if attacks[0]["low"] is not None:
        # An interval at an effective number of records need not hold the rate to the last digit.
        below = [max(0.0, a["success"] - a["low"]) for a in attacks]
        above = [max(0.0, a["high"] - a["success"]) for a in attacks]
        axes.errorbar(places, rates, yerr=[below, above], fmt="none", ecolor=INK, capsize=5)
    for place, attack in zip(places, attacks, strict=True):
        charge = "" if attack["charged"] is None else f"charges {number(attack['charged'])}"
        axes.annotate(charge, (place, 0.02), ha="center", fontsize=8)
    for name, style, label in (
        ("dp", "--", "bound from the record's own output (DP)"),
        ("pufferfish", "-", "bound from the whole series"),
    ):
        axes.axhline(report["bounds"][name], color=INK, linestyle=style, linewidth=1.2, label=label)
    axes.set_xticks(list(places), [a["attacker"] for a in attacks])
    axes.set_ylim(0, 1.18)
    axes.set_ylabel("right, share of records")
    axes.legend(frameon=False, loc="upper left", fontsize=8)
    axes.set_title(f"{report['runs']:,} series of {report['length']:,} records", fontsize=10)
    save_figure(figure, path)
