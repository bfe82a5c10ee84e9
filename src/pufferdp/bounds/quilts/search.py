"""The best quilt of a record: branch and bound over the distances of its two ends.

A quilt around a record leaves ``nearby`` records inside and pays the ``influence`` of the record on its ends (Song et
al. 2017, Definitions 4.1 and 4.2). The mechanism minimises nearby/(ε − influence), the leakage bound nearby·τ +
influence; both rise with both. Influence falls as an end moves away, so all quilts with distances in [a0,a1]×[b0,b1]
cost at least what nearby(a0,b0) and influence(a1,b1) cost together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Ints

TOLERANCE: Final = 1e-3
"""Quilts that could improve the best one by a smaller share are not looked at."""
_MOST_CELLS: Final = 2**18
"""The search ends with more open cells than this: the best quilt so far is a quilt, and bounds the leakage."""

Side = Callable[[Ints], Floats]
"""Influence on one end of a quilt: a row for each distance, a column for each pair of values; falls with distance."""


class Objective(Protocol):
    """What is minimised over quilts; rises with both arguments. Its hash lets results be kept."""

    def __hash__(self) -> int: ...

    def __call__(self, nearby: npt.ArrayLike, influence: npt.ArrayLike) -> Floats:
        """The cost of quilts with so many records inside and so much influence on their ends."""


@dataclass(frozen=True)
class Score:
    """The noise multiplier of the quilt mechanism: nearby/(ε − influence)."""

    epsilon: float

    def __call__(self, nearby: npt.ArrayLike, influence: npt.ArrayLike) -> Floats:
        """The noise that each quilt needs, infinite where the influence is ε or more."""
        margin = self.epsilon - np.asarray(influence, dtype=float)
        # 1e-290 only keeps the division quiet where the result is infinite anyway.
        return np.asarray(np.where(margin > 0, np.asarray(nearby, dtype=float) / np.maximum(margin, 1e-290), np.inf))


@dataclass(frozen=True)
class Quilt:
    """A quilt around a record of a chain, and its cost."""

    value: float
    """The objective: the noise multiplier σ for a score, the leakage for a curve."""
    left: int | None
    """Distance of the left end, or None."""
    right: int | None
    """Distance of the right end, or None."""
    nearby: int
    """Records inside the quilt."""
    influence: float
    """Influence of the record on the ends."""


def best_quilt(
    sides: tuple[Side, Side], objective: Objective, absent: tuple[int, int], most: tuple[int, int], best: Quilt
) -> Quilt:
    """The quilt of least cost, or ``best`` where none costs less.

    Args:
        sides: influence on a left and on a right end.
        objective: the cost of a quilt.
        absent: the records counted on the left and on the right where there is no such end, with the record itself.
        most: the largest distance of a left and of a right end.
        best: a quilt to begin with.
    """
    # No end, and the distances up to the largest between powers of two.
    ranges = ([(0, 0), *((1 << n, min((2 << n) - 1, far)) for n in range(far.bit_length()))] for far in most)
    cells = np.array([(*a, *b) for a, b in itertools.product(*ranges) if a[1] + b[1] > 0])
    cells = cells.reshape(-1, 4)  # least and largest distance on the left, on the right; 0: no end
    while 0 < len(cells) <= _MOST_CELLS:
        left, right = (np.where(cells[:, i : i + 2] > 0, cells[:, i : i + 2], absent[i // 2]) for i in (0, 2))
        least, nearby = left[:, 0] + right[:, 0] - 1, left[:, 1] + right[:, 1] - 1
        influence = _influence(sides, cells)
        values = objective(nearby, influence)
        n = int(np.argmin(values))
        if values[n] < best.value:
            a, b = (int(cells[n, i]) for i in (1, 3))
            best = Quilt(float(values[n]), a or None, b or None, int(nearby[n]), float(influence[n]))
        single = (cells[:, 0] == cells[:, 1]) & (cells[:, 2] == cells[:, 3])
        cells = _quarters(cells[~single & (objective(least, influence) < best.value * (1 - TOLERANCE))])
    return best


def _influence(sides: tuple[Side, Side], cells: Ints) -> Floats:
    """The largest influence over pairs of values at the far corner of each cell, at least 0."""
    rows, at = list[Floats](), list[Ints]()
    for side, distances in zip(sides, (cells[:, 1], cells[:, 3]), strict=True):
        unique, inverse = np.unique(distances, return_inverse=True)
        some = side(unique[unique > 0]) if unique[-1] > 0 else np.zeros((0, 1))
        rows.append(np.concatenate([np.zeros((len(unique) - len(some), some.shape[1])), some]))
        at.append(inverse)
    parts = np.array_split(np.arange(len(cells)), 1 + len(cells) * max(table.shape[1] for table in rows) // 2**20)
    most = [(rows[0][at[0][part]] + rows[1][at[1][part]]).max(axis=1) for part in parts]
    return np.asarray(np.maximum(np.concatenate(most), 0.0))


def _quarters(cells: Ints) -> Ints:
    """Each cell cut in the middle of both sides."""
    a0, a1, b0, b1 = cells.T
    am, bm = (a0 + a1) // 2, (b0 + b1) // 2
    halves = [((a0, am), (am + 1, a1)), ((b0, bm), (bm + 1, b1))]
    parts = np.concatenate([np.stack([*x, *y], axis=1) for x, y in itertools.product(*halves)])
    return np.asarray(parts[(parts[:, 0] <= parts[:, 1]) & (parts[:, 2] <= parts[:, 3])])
