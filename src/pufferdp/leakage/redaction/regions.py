"""Influence of a private record on single records, the regions it makes, and what data-independent designs can reach.

Maßny et al. 2024 (3R). Their bound for data-independent designs has 2Δ*(ε/2) − 1 where its proof gives
2Δ*(ε/2) − 2 besides the private record itself; the printed one is beaten by a lopsided window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pufferdp.basics.arrays import Ints, Mask, Matrix, Vector
from pufferdp.basics.bisection import least_count
from pufferdp.basics.errors import NotApplicableError
from pufferdp.leakage.redaction.design import Block, RedactionProblem, Span, blocks_of, leakages
from pufferdp.leakage.redaction.sides import RedactionSide
from pufferdp.models.chain import MarkovChain

MOST_DISTANCE = 1 << 20


def pointwise(side: RedactionSide, distances: int) -> Matrix:
    """The influence of the private record on each value at each distance from 1: one row a distance."""
    return np.asarray(np.nan_to_num(side.influences(distances), nan=0.0, posinf=np.inf).max(axis=(1, 2)))


def reach(side: RedactionSide, budget: float) -> int:
    """Δ*: the smallest distance at which no value is influenced by more than the budget; one beyond the side if none.

    Max-influence never rises with the distance (a row of P^(n+1) is a mixture of rows of P^n), so it is bisected.
    """
    if side.records == 0 or peak(side, side.records) > budget:
        return side.records + 1
    return least_count(lambda distance: peak(side, distance) <= budget, side.records)


def peak(side: RedactionSide, distance: int) -> float:
    """The largest influence at one distance."""
    law = side.power(distance)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(law)
        spread = logs.max(axis=0) - logs.min(axis=0)
    return float(np.nan_to_num(spread, nan=0.0, posinf=np.inf).max())


@dataclass(frozen=True, eq=False)
class Regions:
    """Which values of which records may be released on one side, within a budget for that side."""

    allowed: Mask
    """One row for each distance before S, one column a value: influence within the budget."""
    influence: Matrix
    """The influence on each value at each of those distances, and at the first record of S where there is one."""
    small: int
    """Distance of the first record in S; one beyond the side if there is none."""

    @property
    def medium(self) -> Ints:
        """Distances in M, where some values may be released and others not."""
        return np.asarray(np.flatnonzero(self.allowed.any(axis=1)) + 1)


def regions(side: RedactionSide, budget: float) -> Regions:
    """S: every value within the budget. M: some are. L: none is. With a budget of 0 or less all of a side is L."""
    small = reach(side, budget) if budget > 0 else side.records + 1
    if small > MOST_DISTANCE:
        raise NotApplicableError(
            f"records {small} apart still show more than epsilon = {budget:g}; so long a stretch is not designed: "
            "raise epsilon, or redact the whole series",
            value=small,
        )
    if budget <= 0:
        return Regions(np.zeros((side.records, side.size), dtype=bool), np.zeros((side.records, side.size)), small)
    influence = pointwise(side, min(small, side.records))
    before = influence[: small - 1]
    return Regions(before <= budget, influence, small)


def independent_bound(chain: MarkovChain, length: int, private: int, epsilon: float, *, printed: bool = False) -> float:
    """No data-independent design of a binary chain with one private record releases a larger share than this.

    Args:
        chain: a binary chain.
        length: records in the series.
        private: the private record, counted from 1.
        epsilon: the promise, towards somebody who knows no record.
        printed: the bound as the paper prints it, which is too small by one record in places.
    """
    if chain.size != 2:
        raise NotApplicableError(f"the bound is for two states; this chain has {chain.size}", value=chain)
    p = min(private, length + 1 - private)  # mirror: a binary chain is reversible
    side = RedactionSide(chain.transition, length - p)
    if side.records == 0 or epsilon < peak(side, length - p):
        return 0.0
    one_sided = reach(side, epsilon) + p - 1
    least = one_sided
    if p > 1 and epsilon >= peak(side, p - 1) + peak(side, length - p):
        least = min(one_sided, 2 * reach(side, epsilon / 2) - (1 if printed else 2))
    return 1 - max(least, 1) / length


GRID, ROUNDS = 17, 10
"""The smallest feasible probability is looked for on a grid, again and again between two neighbours."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateCluster:
    """Private records and everything between them, and the two sides of that."""

    hiding: RedactionProblem
    private: tuple[int, ...]
    ends_only: bool = False
    """Look at the first and the last private record only, which are nearest to a release: for a search, whose result
    is then checked for all."""

    @cached_property
    def secrets(self) -> tuple[Span, ...]:
        """The secrets among the private records of the cluster."""
        return self.hiding.only(*self.private).secrets

    @property
    def looked_at(self) -> tuple[Span, ...]:
        """The secrets about which the leakage is computed."""
        return (self.secrets[0], self.secrets[-1]) if self.ends_only and len(self.secrets) > 2 else self.secrets

    @property
    def first(self) -> int:
        """The first private record."""
        return self.private[0]

    @property
    def last(self) -> int:
        """The last private record."""
        return self.private[-1]

    @cached_property
    def sides(self) -> tuple[RedactionSide, RedactionSide]:
        """To the left of the first private record, and to the right of the last."""
        return self.hiding.sides(self.secrets[0])[0], self.hiding.sides(self.secrets[-1])[1]

    def stretch(self, left: Matrix, right: Matrix) -> tuple[int, Matrix]:
        """First record and redaction probabilities, from those of each side by distance."""
        middle = np.ones((self.last - self.first + 1, self.hiding.chain.size))
        return self.first - len(left), np.concatenate([left[::-1], middle, right])

    def leakage(self, first: int, marks: Matrix) -> Vector:
        """The exact leakage about the hardest secret, for one or several designs."""
        each = [leakages(self.hiding, secret, first, marks) for secret in self.looked_at]
        return np.asarray(np.max(each, axis=0))

    def keeps(self, first: int, marks: Matrix) -> Mask:
        """Which designs keep the promise."""
        return np.asarray(self.leakage(first, marks) <= self.hiding.epsilon)

    def blocks(self, first: int, marks: Matrix) -> tuple[Block, ...]:
        """The design in blocks, the records that it surely releases left out."""
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

        Seen from the secret at the other end of the cluster, whose side is longer by the cluster.
        """
        far = self.hiding.sides(self.secrets[-1])[0] if side == 0 else self.hiding.sides(self.secrets[0])[1]
        if far.known is not None:
            return np.array([far.worst(np.ones((h, far.size))) for h in range(most + 1)])
        seen = far.influences(min(most + 1, far.records))
        out = np.zeros((most + 1, far.size, far.size))  # a side that is redacted whole says nothing
        out[: len(seen)] = np.maximum(np.where(np.isnan(seen), 0.0, seen).max(axis=-1), 0.0)
        return out


def private_clusters(hiding: RedactionProblem) -> Iterator[PrivateCluster]:
    """The private records, grouped: two stay together when nothing between them can be released at all."""
    group = [hiding.private[0]]
    if len(hiding.private) > 1:
        # Any two interior records have the same sides but for their ends, so the distances are those of the first.
        right, left = (nearest(side, hiding.epsilon) for side in reversed(hiding.sides((hiding.length // 2 + 1,) * 2)))
    for p in hiding.private[1:]:
        if p - group[-1] <= right + left + 1:
            group.append(p)
        else:
            yield PrivateCluster(hiding=hiding, private=tuple(group), ends_only=True)
            group = [p]
    yield PrivateCluster(hiding=hiding, private=tuple(group), ends_only=True)


def nearest(side: RedactionSide, epsilon: float) -> int:
    """How many records must be redacted on a side for a sure release to be possible there at all."""

    def keeps(count: int) -> bool:
        return bool(side.worst(np.ones((count, side.size))).max() <= epsilon)

    if side.size == 1 or side.records == 0 or keeps(0):
        return 0
    return least_count(keeps, side.records)  # everything redacted always keeps the promise
