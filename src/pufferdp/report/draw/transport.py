"""The figure of a transport between two distributions of an answer, with matplotlib (extra ``report``)."""

from __future__ import annotations

import itertools
import math
import os
from typing import TYPE_CHECKING, Final

from pufferdp.basics.words import number
from pufferdp.publish.answers.distributions import Moves, moves_between
from pufferdp.report.draw.matplotlib import drawing, write
from pufferdp.report.theme import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pufferdp.publish.answers.distributions import AnswerDistribution

_FEW: Final = 20
"""Up to here every bar has its number."""
_INK: Final = LIGHT.series[0]


def transport_figure(
    distribution_first: AnswerDistribution,
    distribution_second: AnswerDistribution,
    path: str | os.PathLike[str],
    *,
    labels: tuple[str, str] = ("given the first secret", "given the second secret"),
) -> None:
    """Bars for the two distributions; between them each move, as wide as its mass, the longest one dark."""
    transport = moves_between(distribution_first, distribution_second)
    answers, count = transport.answers, len(transport.answers)
    step = min((b - a for a, b in itertools.pairwise(answers)), default=1.0)
    most = max(*transport.first, *transport.second)
    wide, band, head = 0.7 * step, 0.6 * most, 1.22 * most
    with drawing() as figures:
        figure = figures(figsize=(min(max(6.0, 2.0 + 0.75 * count), 11.0), 5.6), layout="constrained")
        axes = figure.subplots()
        for distribution, side in ((transport.first, 1), (transport.second, -1)):
            bars = [(x, p) for x, p in zip(answers, distribution, strict=True) if p]
            heights = [side * p for _, p in bars]
            axes.bar(
                [x for x, _ in bars], heights, wide, bottom=side * band, color=LIGHT.pale, edgecolor=_INK, linewidth=0.8
            )
            axes.axhline(side * band, color="black", linewidth=0.8)
            for x, p in bars if count <= _FEW else ():
                place = "bottom" if side > 0 else "top"
                axes.text(x, side * (band + p + 0.02 * most), f"{p:.3g}", ha="center", va=place, fontsize=9)
        _ribbons(axes, transport, wide / most, band)
        axes.set_ylim(-band - head, band + head)
        axes.set_yticks([side * (band + head / 2) for side in (1, -1)], labels, rotation=90, va="center", fontsize=10)
        axes.tick_params(axis="y", length=0)
        if count <= _FEW:
            axes.set_xticks(answers, [number(x) for x in answers])
        axes.set_xlabel("exact answer")
        axes.spines[["left", "right", "top"]].set_visible(False)
        write(figure, path)


def _ribbons(axes: Axes, transport: Moves, width: float, band: float) -> None:
    """The moves between the two rows of bars; at a bar they stand side by side."""
    leaving = _places([i for i, _, _ in transport.moves], transport)
    arriving = _places([j for _, j, _ in transport.moves], transport)
    longest = [n for n, move in enumerate(transport.moves) if math.isclose(transport.length(move), transport.distance)]
    for n, (i, j, mass) in enumerate(transport.moves):
        half = mass * width / 2  # a mass too small to see keeps its outline
        up, down = transport.answers[i] + leaving[n] * width, transport.answers[j] + arriving[n] * width
        dark = n in longest
        axes.fill(
            [up - half, up + half, down + half, down - half],
            [band, band, -band, -band],
            facecolor=_INK if dark else LIGHT.pale,
            edgecolor=_INK,
            linewidth=0.8,
            zorder=3 if dark else 2,
        )
    if not longest:
        axes.set_title(f"W = {number(transport.distance)}, for a mass too small to be drawn", fontsize=10)
        return
    n = max(longest, key=lambda m: transport.moves[m][2])
    i, j, _ = transport.moves[n]
    middle = (transport.answers[i] + transport.answers[j] + (leaving[n] + arriving[n]) * width) / 2
    frame = {"facecolor": "white", "edgecolor": _INK, "boxstyle": "round,pad=0.3"}
    distance = f"W = {number(transport.distance)}"
    axes.text(middle, 0, distance, ha="center", va="center", fontsize=11, fontweight="bold", zorder=4, bbox=frame)


def _places(bars: list[int], transport: Moves) -> list[float]:
    """Where each move stands at its bar, in mass right of the bar's middle: side by side, in the order of the moves."""
    total: dict[int, float] = {}
    for bar, (_, _, mass) in zip(bars, transport.moves, strict=True):
        total[bar] = total.get(bar, 0.0) + mass
    used, out = dict.fromkeys(total, 0.0), []
    for bar, (_, _, mass) in zip(bars, transport.moves, strict=True):
        out.append(used[bar] + mass / 2 - total[bar] / 2)
        used[bar] += mass
    return out
