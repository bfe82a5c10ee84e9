"""The figure of an audit: what leaks, from proof to bound, and how often the attacker's event is seen."""

from __future__ import annotations

import os
import textwrap
from typing import Any, Final

from pufferdp.report.figures import INK, PALE, new_figure, save_figure
from pufferdp.report.text import number

_MARKS: Final = (
    ("lower", ">", "proved by attack: at least"),
    ("exact", "D", "exact"),
    ("upper", "<", "theory: at most"),
)


def audit_figure(report: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Above, a line from the lower bound to the upper with the claim across; below, the event under both values."""
    figure = new_figure(7.0, 5.0 if report["attacks"] else 2.6)
    parts = figure.subplots(2, 1, height_ratios=[1, 1.1]) if report["attacks"] else [figure.subplots()]
    axes = parts[0]
    shown = [(report[key], mark, words) for key, mark, words in _MARKS if report[key] is not None]
    axes.hlines(0, min(v for v, _, _ in shown), max(v for v, _, _ in shown), color=PALE, linewidth=8)
    for n, (value, mark, words) in enumerate(shown):
        axes.plot([value], [0], mark, color=INK, markersize=10, label=f"{words} {number(value)}")
        axes.annotate(
            number(value), (value, 0), (0, 12 if n % 2 == 0 else -20), textcoords="offset points", ha="center"
        )
    claim = report["claim"]["dp_epsilon"]
    if claim is not None:
        axes.axvline(claim, color=INK, linestyle="--", linewidth=1.2, label=f"claimed as DP {number(claim)}")
    axes.set_ylim(-1, 1)
    axes.set_xlim(left=0)
    axes.margins(x=0.1)
    axes.set_yticks([])
    axes.set_xlabel("leakage about one record")
    axes.legend(frameon=False, fontsize=8, loc="upper center", ncols=2)
    over = f"{report['records']:,} records, adversary {report['adversary']}"
    axes.set_title(f"{report['mechanism']}, {over}", fontsize=10)
    if report["attacks"]:
        _event(parts[1], report["attacks"][0], report["confidence"])
    save_figure(figure, path)


def _event(axes: Any, attack: dict[str, Any], confidence: float) -> None:
    """How often the event is seen for either value, on a logarithmic axis, with the bounds that carry the proof."""
    low, high = attack["low"], attack["high"]
    least = min(share for share in (*attack["shares"], low, high) if share > 0) / 3
    for place, (share, edge) in enumerate(zip(attack["shares"], (low, high), strict=True)):
        axes.barh(place, max(share, least), height=0.5, color=PALE, edgecolor=INK)
        axes.plot([max(edge, least)] * 2, [place - 0.35, place + 0.35], color=INK, linewidth=2)
        axes.annotate(f" {number(share)}", (max(share, edge, least), place), va="center", fontsize=9)
    axes.set_yticks([0, 1], [f"{attack['record']} is {v}" for v in (attack["concludes"], attack["instead"])])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(least, 3)
    axes.set_xlabel("how often the event is seen; upright: the bound used in the proof")
    said = f"Event: {attack['event']}. Seen, they say {attack['concludes']} and are right at least "
    said += f"{number(attack['right'])} of the time ({number(attack['before'])} before); {100 * confidence:g} % sure."
    axes.set_title(textwrap.fill(said, 90), fontsize=8)
