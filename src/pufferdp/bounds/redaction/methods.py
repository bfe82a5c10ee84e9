"""Designs for private records: windows, and the mechanisms with three regions of Maßny et al. 2024 (3R).

The regions follow from the influence of a private record on single records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from pufferdp.basics.arrays import Mask, Matrix, Vector
from pufferdp.basics.bisection import least_count
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.redaction.design import (
    Block,
    Design,
    RedactionProblem,
    Span,
    blocks_of,
    design_of,
    drawable,
    leakages,
    runs_of,
)
from pufferdp.bounds.redaction.sides import RedactionSide, log_ratios

MarkedRecords = tuple[int, Matrix]
"""First record and redaction probabilities of an interval; everything else is released."""
ALMOST = 1 - 2.0**-20
"""The largest redaction probability of a value that can be seen at all."""
MOST_DISTANCE = 1 << 20
"""Designs reach at most this far from a private record, so that they fit into memory."""


def pointwise(side: RedactionSide, distances: int) -> Matrix:
    """The influence of the private record on each value at each distance from 1: one row a distance."""
    power, out = side.kernel, np.zeros((distances, side.size))
    for row in out:
        row[:] = np.nan_to_num(log_ratios(power), nan=0.0, posinf=np.inf).max(axis=(0, 1))
        power = power @ side.kernel
    return out


def reach(side: RedactionSide, budget: float) -> int:
    """Δ*: the smallest distance at which no value is influenced by more than the budget; one beyond the side if none.

    Max-influence never rises with the distance (a row of P^(n+1) is a mixture of rows of P^n), so it is bisected.
    """
    if side.records == 0 or peak(side, side.records) > budget:
        return side.records + 1
    return least_count(lambda distance: peak(side, distance) <= budget, side.records)


def peak(side: RedactionSide, distance: int) -> float:
    """The largest influence at one distance."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(side.power(distance))
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


def regions(side: RedactionSide, budget: float) -> Regions:
    """S: every value within the budget. M: some are. L: none is. With a budget of 0 or less all of a side is L."""
    small = reach(side, budget) if budget > 0 else side.records + 1
    if small > MOST_DISTANCE:
        raise NotApplicableError(
            f"records {small} apart still show more than epsilon = {budget:g}; so long an interval is not designed: "
            "raise epsilon, or redact the whole series",
            value=small,
        )
    if budget <= 0:
        return Regions(np.zeros((side.records, side.size), dtype=bool), np.zeros((side.records, side.size)), small)
    influence = pointwise(side, min(small, side.records))
    before = influence[: small - 1]
    return Regions(before <= budget, influence, small)


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateCluster:
    """Private records and everything between them, and the two sides of that."""

    hiding: RedactionProblem
    private: tuple[int, ...]
    ends_only: bool = False
    """Look at the first and the last secret only, which are nearest to a release: for a search, whose result is then
    checked for all."""

    @cached_property
    def secrets(self) -> tuple[Span, ...]:
        """The secrets among the private records about which the leakage is computed."""
        every = self.hiding.only(*self.private).secrets
        return (every[0], every[-1]) if self.ends_only and len(every) > 2 else every

    @cached_property
    def sides(self) -> tuple[RedactionSide, RedactionSide]:
        """To the left of the first private record, and to the right of the last."""
        return self.hiding.sides(self.secrets[0])[0], self.hiding.sides(self.secrets[-1])[1]

    def join_sides(self, left: Matrix, right: Matrix) -> tuple[int, Matrix]:
        """First record and redaction probabilities of an interval, from those of each side by distance."""
        middle = np.ones((self.private[-1] - self.private[0] + 1, self.hiding.chain.size))
        return self.private[0] - len(left), np.concatenate([left[::-1], middle, right])

    def leakage(self, first: int, marks: Matrix) -> Vector:
        """The exact leakage about the hardest secret, for one or several designs."""
        return np.asarray(np.max([leakages(self.hiding, secret, first, marks) for secret in self.secrets], axis=0))

    def keeps(self, first: int, marks: Matrix) -> Mask:
        """Which designs keep the guarantee."""
        return np.asarray(self.leakage(first, marks) <= self.hiding.epsilon)

    def released(self, first: int, marks: Matrix) -> float:
        """Expected number of released records less the length of the series: the objective of every search."""
        return -math.fsum((marks @ self.hiding.chain.stationary).tolist())

    def least_share(self, first: int, low: Matrix, high: Matrix) -> float:
        """The smallest s found such that low + s·(high − low) keeps the guarantee, where ``high`` keeps it.

        The feasible s need not form one interval, so a grid is refined around its first feasible point: sixteenths of
        sixteenths, until nothing is left below a relative 2^-32.
        """
        below, above = 0.0, 1.0
        while above - below > 2.0**-32 * above:
            grid = np.linspace(below, above, 17)
            kept = self.keeps(first, np.clip(low + grid[:, None, None] * (high - low), 0.0, 1.0))
            kept[-1] = True
            at = int(np.argmax(kept))
            if at == 0:
                return float(grid[0])
            below, above = float(grid[at - 1]), float(grid[at])
        return above


def private_clusters(hiding: RedactionProblem) -> Iterator[PrivateCluster]:
    """The private records, grouped: two stay together when nothing between them can be released at all."""
    group = [hiding.private[0]]
    if len(hiding.private) > 1:
        # Any two interior records have the same sides but for their ends, so the distances are those of the first.
        right, left = (nearest(side, hiding.epsilon) for side in reversed(hiding.sides((hiding.length // 2 + 1,) * 2)))
    for p in hiding.private[1:]:
        if p - group[-1] > right + left + 1:
            yield PrivateCluster(hiding=hiding, private=tuple(group), ends_only=True)
            group = []
        group.append(p)
    yield PrivateCluster(hiding=hiding, private=tuple(group), ends_only=True)


def nearest(side: RedactionSide, epsilon: float) -> int:
    """How many records must be redacted on a side for a sure release to be possible there at all."""

    def keeps(count: int) -> bool:
        return bool(side.worst(np.empty((0, side.size)), count).max() <= epsilon)

    if side.size == 1 or side.records == 0 or keeps(0):
        return 0
    return least_count(keeps, side.records)  # everything redacted always keeps the guarantee


def combine(hiding: RedactionProblem, method: str, solve: Callable[[PrivateCluster], MarkedRecords]) -> Design:
    """A design for every cluster, put together; where two meet each record takes the larger probability."""
    rows: dict[int, Vector] = {}
    for first, marks in map(solve, private_clusters(hiding)):
        for record, row in enumerate(marks, start=first):
            rows[record] = np.maximum(row, rows.get(record, 0.0))
    blocks: list[Block] = []
    for run in runs_of(sorted(rows)):
        blocks += blocks_of(hiding, run[0], tighten(hiding, run[0], np.array([rows[record] for record in run])))
    design = design_of(hiding, method, blocks)
    if design is None:
        raise AssertionError(f"{method} leaks more than its guarantee; this is a bug in pufferdp")
    return design


def tighten(hiding: RedactionProblem, first: int, marks: Matrix) -> Matrix:
    """Marks raised towards a window until the guarantee holds; a mark alone can say something, a window cannot."""
    inside = tuple(p for p in hiding.private if first <= p < first + len(marks))
    cluster = PrivateCluster(hiding=hiding, private=inside)
    marks = marks.copy()
    marks[[p - first for p in inside]] = 1.0
    marks = drawable(marks)
    if cluster.keeps(first, marks):
        return marks
    share = cluster.least_share(first, marks, np.ones_like(marks))
    for larger in (share, share + 1e-9):  # rounding to drawable probabilities may need a little more
        raised = drawable(np.clip(marks + larger * (1.0 - marks), 0.0, 1.0))
        if cluster.keeps(first, raised):
            return raised
    return np.ones_like(marks)


def window(hiding: RedactionProblem) -> Design:
    """The fewest records redacted whatever they hold; the two sides of the window may differ."""
    return combine(hiding, "window", best_window)


def best_window(cluster: PrivateCluster) -> MarkedRecords:
    """The smallest window around a cluster, by its exact leakage; of several the most symmetric."""
    hiding, size = cluster.hiding, cluster.hiding.chain.size
    records = [side.records for side in cluster.sides]
    low = [nearest(side, hiding.epsilon) for side in cluster.sides]
    half = [nearest(side, hiding.epsilon / 2) for side in cluster.sides]
    if max(*half, *low) > MOST_DISTANCE:
        raise NotApplicableError(
            f"more than {MOST_DISTANCE} records would have to be redacted; raise epsilon, or keep the series back",
            value=hiding.epsilon,
        )

    @cache
    def worst(secret: Span, n: int, count: int) -> Matrix:
        side = hiding.sides(secret)[n]
        return np.where(side.comparable, side.worst(np.empty((0, size)), count), -np.inf)

    def keeps(i: int, j: int) -> bool:
        """Whether redacting i records to the left of the cluster and j to its right keeps the guarantee."""
        for start, end in cluster.secrets:
            left = worst((start, end), 0, i + start - cluster.private[0])
            right = worst((start, end), 1, j + cluster.private[-1] - end)
            if hiding.both_sides((start, end), left, right) > hiding.epsilon:
                return False
        return True

    # Each of these keeps the guarantee: a side that is redacted whole says nothing, and halves of the budget add up.
    pairs = {(records[0], low[1]), (low[0], records[1]), (half[0], half[1])}
    total = min(map(sum, pairs))
    j = max(low[1], min(records[1], total - low[0]))
    for i in range(low[0], min(records[0], total - low[1]) + 1):
        while j > low[1] and keeps(i, j - 1):  # the more is redacted to the left, the less is needed to the right
            j -= 1
        if i + j <= total and keeps(i, j):
            pairs.add((i, j))
    i, j = min(pairs, key=lambda pair: (sum(pair), abs(pair[0] - pair[1])))
    return cluster.join_sides(np.ones((i, size)), np.ones((j, size)))


def numerical(hiding: RedactionProblem) -> Design:
    """3R with the smallest constant q that the exact leakage allows."""
    return combine(hiding, "3r-numerical", lambda c: best_of(c, numerical_designs(c, splits(c))))


def best_of(cluster: PrivateCluster, designs: Iterable[MarkedRecords]) -> MarkedRecords:
    """The design that releases most records."""
    return max(designs, key=lambda design: cluster.released(*design))


def splits(cluster: PrivateCluster) -> list[tuple[float, float]]:
    """The paper's splits of the budget between the sides: half each, or all to one.

    Giving a whole side up is left out where that alone redacts more than half each does.
    """
    left, right = cluster.sides
    epsilon = cluster.hiding.epsilon
    if not left.records or not right.records:
        return [(epsilon if left.records else 0.0, epsilon if right.records else 0.0)]
    most = sum(reach(side, epsilon / 2) - 1 for side in cluster.sides)
    out = [(epsilon / 2, epsilon / 2)]
    out += [(0.0, epsilon)] if left.records < most else []
    return out + ([(epsilon, 0.0)] if right.records < most else [])


def numerical_designs(cluster: PrivateCluster, shares: Iterable[tuple[float, float]]) -> Iterator[MarkedRecords]:
    """For each split of the budget the regions of the paper with the smallest constant q, by the exact leakage."""
    for split in shares:
        # Known records make the regions too wide for the budget: then they are drawn for a smaller one.
        for factor in 0.9 ** np.arange(40):
            zones = [regions(side, factor * budget) for side, budget in zip(cluster.sides, split, strict=True)]
            first, base = cluster.join_sides(*(np.where(zone.allowed, 0.0, 1.0) for zone in zones))
            rare = base + ALMOST * (1.0 - base)
            if cluster.keeps(first, rare):
                yield first, base + cluster.least_share(first, base, rare) * (rare - base)
                break
            if cluster.keeps(first, np.ones_like(base)):
                yield first, np.ones_like(base)
