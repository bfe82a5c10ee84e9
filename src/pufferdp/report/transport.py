"""The figure behind the Wasserstein mechanism: two laws of an answer, and how the one is carried onto the other."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from pufferdp.errors import ParameterError
from pufferdp.leakage.transport import Pairs, coupling
from pufferdp.report.drawing import drawing, write
from pufferdp.report.text import number
from pufferdp.report.theme import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pufferdp.answering import AnswerLaw

MOST_ANSWERS: Final = 200
"""More bars than this are a grey block."""
_FEW: Final = 20
"""Up to here every bar has its number."""
_INK: Final = LIGHT.series[0]
_ROUNDING: Final = 1e-11
"""Masses that are equal in truth may differ by this factor; it is a picture, nobody's noise depends on it."""


@dataclass(frozen=True)
class Moves:
    """A transport between two laws on the same answers that carries nothing farther than it must."""

    answers: tuple[float, ...]
    """The answers that are possible under either law, rising."""
    first: tuple[float, ...]
    """Probability of each answer under the first law,"""
    second: tuple[float, ...]
    """and under the second."""
    moves: tuple[tuple[int, int, float], ...]
    """(from, to, mass), as places among the answers."""
    distance: float
    """W-infinity: the length of the longest move, unless the mass that must go so far is lost in rounding."""

    def length(self, move: tuple[int, int, float]) -> float:
        """How far a move carries its mass."""
        return abs(self.answers[move[0]] - self.answers[move[1]])


def moves_between(law_first: AnswerLaw, law_second: AnswerLaw) -> Moves:
    """The quantile coupling of two laws of an answer that is one number."""
    if law_first.answers.ndim != 1 or law_second.answers.ndim != 1:
        raise ParameterError("the answer is several numbers; a figure of a transport needs an answer of one number")
    laws = [
        {float(x): float(p) for x, p in zip(law.answers, law.probabilities, strict=True) if p > 0}
        for law in (law_first, law_second)
    ]
    answers = sorted({x for law in laws for x in law})
    if len(answers) > MOST_ANSWERS:
        raise ParameterError(
            f"the laws have {len(answers):,} possible answers; a figure shows at most {MOST_ANSWERS}",
            value=len(answers),
        )
    first, second = ([law.get(x, 0.0) for x in answers] for law in laws)
    points = np.array(answers)
    if all(x.is_integer() for x in answers):
        points = points.astype(np.int64)
    with np.errstate(divide="ignore"):
        worst = Pairs(points, np.log(first), np.log(second), _ROUNDING).worst()
    distance = 0.0 if worst is None else worst.distance
    # Masses that differ in their last digits leave dust, which would be carried on to the next answer.
    kept = [(i, j, mass) for i, j, mass in coupling(answers, first, second) if abs(answers[i] - answers[j]) <= distance]
    return Moves(tuple(answers), tuple(first), tuple(second), tuple(kept), distance)


def transport_figure(
    law_first: AnswerLaw,
    law_second: AnswerLaw,
    path: str | os.PathLike[str],
    *,
    labels: tuple[str, str] = ("given the first secret", "given the second secret"),
) -> None:
    """Bars above and below for the two laws; between them every move, as wide as its mass, the longest one dark."""
    found = moves_between(law_first, law_second)
    answers, count = found.answers, len(found.answers)
    step = min(np.diff(answers), default=1.0)
    most = max(*found.first, *found.second)
    wide, band, head = 0.7 * step, 0.6 * most, 1.22 * most
    with drawing() as figures:
        figure = figures(figsize=(min(max(6.0, 2.0 + 0.75 * count), 11.0), 5.6), layout="constrained")
        axes = figure.subplots()
        for law, side in ((found.first, 1), (found.second, -1)):
            bars = [(x, p) for x, p in zip(answers, law, strict=True) if p]
            heights = [side * p for _, p in bars]
            axes.bar(
                [x for x, _ in bars], heights, wide, bottom=side * band, color=LIGHT.pale, edgecolor=_INK, linewidth=0.8
            )
            axes.axhline(side * band, color="black", linewidth=0.8)
            for x, p in bars if count <= _FEW else ():
                place = "bottom" if side > 0 else "top"
                axes.text(x, side * (band + p + 0.02 * most), f"{p:.3g}", ha="center", va=place, fontsize=9)
        _ribbons(axes, found, wide / most, band)
        axes.set_ylim(-band - head, band + head)
        axes.set_yticks([side * (band + head / 2) for side in (1, -1)], labels, rotation=90, va="center", fontsize=10)
        axes.tick_params(axis="y", length=0)
        if count <= _FEW:
            axes.set_xticks(answers, [number(x) for x in answers])
        axes.set_xlabel("exact answer")
        axes.spines[["left", "right", "top"]].set_visible(False)
        write(figure, path)


def _ribbons(axes: Axes, found: Moves, width: float, band: float) -> None:
    """The moves between the two rows of bars; at a bar they stand side by side."""
    leaving = _places([i for i, _, _ in found.moves], found)
    arriving = _places([j for _, j, _ in found.moves], found)
    longest = [n for n, move in enumerate(found.moves) if math.isclose(found.length(move), found.distance)]
    for n, (i, j, mass) in enumerate(found.moves):
        half = mass * width / 2  # a mass too small to see keeps its outline
        up, down = found.answers[i] + leaving[n] * width, found.answers[j] + arriving[n] * width
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
        axes.set_title(f"W = {number(found.distance)}, for a mass too small to be drawn", fontsize=10)
        return
    n = max(longest, key=lambda m: found.moves[m][2])
    i, j, _ = found.moves[n]
    middle = (found.answers[i] + found.answers[j] + (leaving[n] + arriving[n]) * width) / 2
    frame = {"facecolor": "white", "edgecolor": _INK, "boxstyle": "round,pad=0.3"}
    said = f"W = {number(found.distance)}"
    axes.text(middle, 0, said, ha="center", va="center", fontsize=11, fontweight="bold", zorder=4, bbox=frame)


def _places(bars: list[int], found: Moves) -> list[float]:
    """Where each move stands at its bar, in mass right of the bar's middle: side by side, in the order of the moves."""
    total: dict[int, float] = {}
    for bar, (_, _, mass) in zip(bars, found.moves, strict=True):
        total[bar] = total.get(bar, 0.0) + mass
    used, out = dict.fromkeys(total, 0.0), []
    for bar, (_, _, mass) in zip(bars, found.moves, strict=True):
        out.append(used[bar] + mass / 2 - total[bar] / 2)
        used[bar] += mass
    return out
