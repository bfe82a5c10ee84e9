"""Runs: private records so close together that nothing between them can be released, hidden by one stretch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pufferdp.leakage.redaction import Block, Hiding, blocks_of, leakages
from pufferdp.leakage.redaction_sides import Side
from pufferdp.models.markov import Mask, Matrix, Vector

GRID, ROUNDS = 17, 10
"""The smallest feasible probability is looked for on a grid, again and again between two neighbours."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """Private records and everything between them, and the two sides of that."""

    hiding: Hiding
    private: tuple[int, ...]
    ends_only: bool = False
    """Look at the first and the last private record only, which are nearest to a release: for a search, whose result
    is then checked for all."""

    @property
    def looked_at(self) -> tuple[int, ...]:
        """The private records whose leakage is computed."""
        return (self.private[0], self.private[-1]) if self.ends_only and len(self.private) > 2 else self.private

    @property
    def first(self) -> int:
        """The first private record."""
        return self.private[0]

    @property
    def last(self) -> int:
        """The last private record."""
        return self.private[-1]

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """To the left of the first private record, and to the right of the last."""
        return self.hiding.sides(self.first)[0], self.hiding.sides(self.last)[1]

    def stretch(self, left: Matrix, right: Matrix) -> tuple[int, Matrix]:
        """First record and redaction probabilities, from those of each side by distance."""
        middle = np.ones((self.last - self.first + 1, self.hiding.chain.size))
        return self.first - len(left), np.concatenate([left[::-1], middle, right])

    def leakage(self, first: int, marks: Matrix) -> Vector:
        """The exact leakage about the hardest private record, for one or several designs."""
        each = [leakages(self.hiding, p, first, marks) for p in self.looked_at]
        return np.asarray(np.max(each, axis=0))

    def keeps(self, first: int, marks: Matrix) -> Mask:
        """Which designs keep the promise."""
        return np.asarray(self.leakage(first, marks) <= self.hiding.epsilon)

    def blocks(self, first: int, marks: Matrix) -> tuple[Block, ...]:
        """The design as blocks."""
        return blocks_of(self.hiding, first, marks)

    def released(self, first: int, marks: Matrix) -> float:
        """Expected number of released records less the length of the series: what is to be made large."""
        return -math.fsum((marks @ self.hiding.chain.stationary).tolist())

    def least(self, first: int, base: Matrix, rise: Matrix, known: float = 1.0, rounds: int = ROUNDS) -> float:
        """The smallest s in [0, 1] found such that base + s·rise keeps the promise; ``known`` is one that does."""
        low, high = 0.0, known
        for _ in range(rounds):
            grid = np.linspace(low, high, GRID)
            fine = self.keeps(first, np.clip(base + grid[:, None, None] * rise, 0.0, 1.0))
            fine[-1] = True
            at = int(np.argmax(fine))
            if at == 0:
                return float(grid[0])
            low, high = float(grid[at - 1]), float(grid[at])
        return high

    def wholes(self, most: int, side: int) -> Matrix:
        """The largest log-ratios (x, x') of a side when its first 0, 1, …, ``most`` records are redacted, no others.

        Seen from the private record at the other end of the run, whose side is longer by the run.
        """
        far = self.hiding.sides(self.last)[0] if side == 0 else self.hiding.sides(self.first)[1]
        if far.known is not None:
            return np.array([far.worst(np.ones((h, far.size))) for h in range(most + 1)])
        seen = far.influences(min(most + 1, far.records))
        out = np.zeros((most + 1, far.size, far.size))  # a side that is redacted whole says nothing
        out[: len(seen)] = np.maximum(np.where(np.isnan(seen), 0.0, seen).max(axis=-1), 0.0)
        return out


def runs(hiding: Hiding) -> Iterator[Run]:
    """The private records, grouped: two stay together when nothing between them can be released at all."""
    group = [hiding.private[0]]
    if len(hiding.private) > 1:
        # Any two interior records have the same sides but for their ends, so the distances are those of the first.
        right, left = (nearest(side, hiding.epsilon) for side in reversed(hiding.sides(hiding.length // 2 + 1)))
    for p in hiding.private[1:]:
        if p - group[-1] <= right + left + 1:
            group.append(p)
        else:
            yield Run(hiding=hiding, private=tuple(group), ends_only=True)
            group = [p]
    yield Run(hiding=hiding, private=tuple(group), ends_only=True)


def nearest(side: Side, epsilon: float) -> int:
    """How many records must be redacted on a side for a sure release to be possible there at all."""

    def kept(count: int) -> bool:
        return bool(side.worst(np.ones((count, side.size))).max() <= epsilon)

    if side.size == 1 or side.records == 0 or kept(0):
        return 0
    step = 1
    while step < side.records and not kept(step):
        step *= 2
    low, high = step // 2, min(step, side.records)  # everything redacted always keeps the promise
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if kept(middle) else (middle, high)
    return high
