"""The worst record of a chain and its best quilt: max over records of min over quilts, exactly, at a cost free of T.

Quilts of record i: {i−a, i+b} with a+b−1 records inside, {i−a} with T−i+a, {i+b} with i+b−1, and the empty one with T.
Records are searched like quilts, by branch and bound: for a range of records any quilt gives an upper bound on all of
them. A two-sided quilt that sticks out on one side is no better than the one-sided quilt that is left of it (fewer
records inside, less influence), so one bound serves a range whatever its ends.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats, Mask
from pufferdp.leakage.chains.powers import ratios_of
from pufferdp.leakage.chains.starts import NodeRange, start_of
from pufferdp.leakage.quilts.search import (
    SHORT_LINE,
    BestQuilt,
    LeftSide,
    Objective,
    QuiltSide,
    RightSide,
    diagonal,
    one_sided,
    two_sided,
)
from pufferdp.models.chain import MarkovChain

_CLOSE: Final = 1e-12
"""Records whose bound is within this factor of the worst one found are not looked at; the bound is what is returned."""
_MOST_STEPS: Final = 400
"""In chains of over 500 records bounds are taken for values after so many steps: sound, perhaps a little loose.

It happens when a long chain is still short for its mixing time and its start is given."""

_MOST_WORK: Final = 10**10
"""The same after so many ratios, about half a minute: chains of many states that take thousands of steps to mix."""


@dataclass(frozen=True)
class WorstRecord:
    """The record that decides, and its active quilt."""

    value: float
    """The objective at the active quilt: the noise multiplier σ for a score, the leakage for a curve."""
    node: int
    """Position of the record, counted from 1."""
    left: int | None
    """Distance of the left end, or None."""
    right: int | None
    """Distance of the right end, or None."""
    nearby: int
    """Records inside the quilt."""
    influence: float
    """Influence of the record on the ends."""


def worst_record(
    chain: MarkovChain, length: int, objective: Objective, adversary: Adversary, floor: float = -np.inf
) -> WorstRecord | None:
    """Max over records, min over quilts. None when no record passes ``floor``."""
    return _Search(chain, length, objective, adversary).run(floor)


class _Search:
    def __init__(self, chain: MarkovChain, length: int, objective: Objective, adversary: Adversary) -> None:
        self.length, self.objective = length, objective
        self.ratios = ratios_of(chain)
        self.start = start_of(chain, self.ratios, length)
        self.everyone = adversary is Adversary.BDP
        self.trivial = BestQuilt(objective.scalar(length, 0.0), None, None, length, 0.0)
        self._known: list[tuple[int, int]] = []  # two-sided quilts that were best somewhere
        self._right_known: list[int] = []  # distances of right ends that were best without a left end
        self._interior: BestQuilt | None = None
        self._rights: dict[object, RightSide] = {}

    def run(self, floor: float) -> WorstRecord | None:
        """Best first: the range with the highest bound is looked at next, until no bound passes the worst record."""
        best, reached, aside = None, floor, floor
        number = itertools.count()  # breaks ties, first come first served
        ranges = [(-self.trivial.value, next(number), nodes, self.trivial) for nodes in self.first_ranges()]
        for i, quilt in self.likely_records():
            if quilt.value > reached:
                best, reached = _worst(i, quilt), quilt.value
        most_work = self.ratios.work + _MOST_WORK
        steps, most_steps = 0, max(_MOST_STEPS, 4 * self.length if self.length <= 500 else 0)
        while ranges and -ranges[0][0] > reached * (1 + _CLOSE):
            _, _, nodes, bound = heapq.heappop(ranges)
            if steps > most_steps or self.ratios.work > most_work:
                return _worst(nodes.first, bound)  # the highest bound that is left holds for all records
            quilt = self.best_quilt(nodes, reached * (1 + _CLOSE))
            steps += 1
            if quilt.value <= reached * (1 + _CLOSE):
                aside = max(aside, quilt.value)
            elif nodes.single:
                best, reached = _worst(nodes.first, quilt), quilt.value
            else:
                for part in _split(nodes, best.node if best else None):
                    heapq.heappush(ranges, (-quilt.value, next(number), part, quilt))
        # Records set aside within _CLOSE of the worst count with their bound.
        return replace(best, value=max(best.value, aside)) if best else None

    def likely_records(self) -> Iterator[tuple[int, BestQuilt]]:
        """Records that are likely to be the worst. Only a start for the search: what it misses, the search finds.

        The middle first. Quilts without a left end serve early records and get worse towards the middle, the others
        get better as the start is forgotten; the worst record is often where the two meet.
        """
        low, high, reached, peak, nearby = 1, self.length, -np.inf, 1, 0
        while low <= high:
            i = (low + high) // 2 if high <= 8 * low or high == self.length else int((low * high) ** 0.5)
            quilt = self.best_quilt(NodeRange(i, i, 1), reached * 1.002)
            if quilt.value > reached * 1.002:
                yield i, quilt
                reached, peak, nearby = quilt.value, i, quilt.nearby
            if self.start.same_everywhere or reached >= self.trivial.value:
                return
            low, high = (i + 1, high) if quilt.left is None else (low, i - 1)
        # Then uphill from the best of these, where that is a short way: one step changes it by about 1/nearby.
        for step in (1, -1) if nearby < 1000 else ():
            i = peak + step
            while 1 <= i <= self.length and (quilt := self.best_quilt(NodeRange(i, i, 1), reached)).value > reached:
                yield i, quilt
                i, reached = i + step, quilt.value

    def first_ranges(self) -> Iterator[NodeRange]:
        """Records before the supports repeat one by one, then one range for each set in their cycle."""
        supports, last = self.start.supports, self.length
        alone = 1 if self.start.same_everywhere else min(last, max(supports.settled, 2))
        for i in range(1, alone):
            yield NodeRange(i, i, 1)
        for i in range(alone, min(last, alone + supports.period - 1) + 1):
            yield NodeRange(i, i + (last - i) // supports.period * supports.period, supports.period)

    def best_quilt(self, nodes: NodeRange, enough: float) -> BestQuilt:
        """The best quilt of one record, or one that bounds every record of a range; any within ``enough`` will do."""
        best, reach, most = self.trivial, self.reach(nodes), self.length - nodes.first
        left, right = self.sides(nodes)
        to_left, to_right = reach > 0 and self.useful(left, reach), most > 0 and self.useful(right, most)
        for known in self.cheap_quilts(nodes, left if to_left else None, right if to_right else None, reach):
            best = known if known.value < best.value else best
            if best.value <= enough:
                return best
        if nodes.single and to_left and to_right:
            best = self.better_quilt(best, self.two_sided(nodes.first, left, right, best.value))
        return best

    def useful(self, side: LeftSide | RightSide, farthest: int) -> bool:
        """Influence is least at the farthest end: a side that is too much even there has no quilts at all."""
        if self._known or self.ratios.powers.positive(1):  # such chains have quilts, so the question is not worth it
            return True
        return self.objective.scalar(1, float(side.peaks(np.array([farthest]))[0])) < self.trivial.value

    def cheap_quilts(
        self, nodes: NodeRange, left: LeftSide | None, right: RightSide | None, reach: int
    ) -> Iterator[BestQuilt]:
        """Quilts that are cheap to find: those known to be good, equal distances, and one-sided ones."""
        limit = self.trivial.value
        most = self.length if not nodes.single else self.length - nodes.first
        if left and right:
            for a, b in reversed(self._known[-6:]):
                if a <= reach and b <= most:
                    influence = float((left.at(np.array([a]), None) + right.at(np.array([b]), None)).max())
                    quilt = BestQuilt(self.objective.scalar(a + b - 1, influence), a, b, a + b - 1, influence)
                    yield self.with_slack(quilt)
                    limit = min(limit, quilt.value)
            if not self._known:
                quilt = diagonal(left, right, self.objective, min(reach, most), limit)
                yield self.with_slack(quilt)
                limit = min(limit, quilt.value)
        if right:
            inside, farthest = nodes.last - 1, self.length - nodes.first
            for b in self._right_known[-2:]:
                if b <= farthest:
                    influence = float(right.peaks(np.array([b]))[0])
                    quilt = BestQuilt(self.objective.scalar(inside + b, influence), None, b, inside + b, influence)
                    yield self.with_slack(quilt)
                    limit = min(limit, quilt.value)
            # A range only wants a bound, and a distance that was best nearby is nearly as good as the best.
            if nodes.single or not self._right_known:
                quilt = one_sided(right, self.objective, inside, farthest, True, limit)
                if quilt.right is not None and quilt.right not in self._right_known:
                    self._right_known.append(quilt.right)
                yield self.with_slack(quilt)
                limit = min(limit, quilt.value)
        if left:
            yield self.with_slack(one_sided(left, self.objective, self.length - nodes.first, reach, False, limit))

    def two_sided(self, i: int, left: LeftSide, right: RightSide, limit: float) -> BestQuilt:
        """The best two-sided quilt of one record."""
        most = (i - 1, self.length - i)
        if self.start.same_everywhere:
            if self._interior is None:
                inner = self.sides(NodeRange(1, self.length, 1))
                ends = (self.length, self.length)
                self._interior = two_sided(*inner, self.objective, ends, self.trivial.value)
            if self.objective.most_nearby(self._interior.value) + 2 < min(most):
                return self._interior  # quilts that touch an end of the chain cost more than this one
        return two_sided(left, right, self.objective, most, limit, close=bool(self._known))

    def sides(self, nodes: NodeRange) -> tuple[LeftSide, RightSide]:
        """Influence for one record, or an upper bound for all records of a range."""
        supports, same = self.start.supports, self.start.same_everywhere
        valid = _pairs_of(supports.at(nodes.first))
        to_left = nodes.first - 1 if nodes.single else max(nodes.last - 1, 1)
        left = LeftSide(
            self.ratios,
            marginal=self.start.tilt(nodes),
            valid=valid,
            seen=(lambda n: supports.at(1)) if same else (lambda n: supports.over(nodes, n)),
            steady=2**62 if same else supports.steady_before(nodes),
            beyond=to_left if self.everyone else None,
        )
        # For an adversary who knows no record all records with one support share a right side and what it remembers.
        key = valid.tobytes() if not self.everyone else nodes
        if key not in self._rights:
            beyond = self.length - nodes.first if self.everyone else None
            self._rights[key] = RightSide(self.ratios, valid=valid, beyond=beyond)
        return left, self._rights[key]

    def reach(self, nodes: NodeRange) -> int:
        """How far to the left a quilt's end may be for every record of the range."""
        return self.length if self.start.same_everywhere and not nodes.single else nodes.first - 1

    def better_quilt(self, best: BestQuilt, quilt: BestQuilt) -> BestQuilt:
        """The better of two, remembered if it is two-sided."""
        if quilt.value >= best.value or (quilt.left is None and quilt.right is None):
            return best
        if quilt.left and quilt.right and (quilt.left, quilt.right) not in self._known:
            self._known.append((quilt.left, quilt.right))
        return self.with_slack(quilt)

    def with_slack(self, quilt: BestQuilt) -> BestQuilt:
        """A quilt with the rounding of its influence counted against it."""
        if quilt.left is None and quilt.right is None:
            return self.trivial
        slack = sum(self.ratios.powers.slack(n) for n in (quilt.left, quilt.right) if n) * (3 if self.everyone else 2)
        influence = quilt.influence + slack
        return replace(quilt, influence=influence, value=self.objective.scalar(quilt.nearby, influence))


def worst_record_by_distance(left: QuiltSide, right: QuiltSide, length: int, objective: Objective) -> WorstRecord:
    """Max over records, min over quilts, where the influence depends on the distances alone.

    A record's value is then min(two-sided, no left end, no right end, trivial). Without a left end it rises along the
    chain, without a right end it falls, so the worst record is where the two meet.
    """
    trivial = BestQuilt(objective.scalar(length, 0.0), None, None, length, 0.0)
    middle = two_sided(left, right, objective, (length, length), trivial.value)

    def at(i: int) -> tuple[BestQuilt, BestQuilt]:
        limit = middle.value
        return (
            one_sided(right, objective, i - 1, length - i, True, limit, SHORT_LINE),
            one_sided(left, objective, length - i, i - 1, False, limit, SHORT_LINE),
        )

    low, high = 1, length
    if objective.scalar(length // 2, 0.0) >= middle.value:
        low = high = (length + 1) // 2
    while low < high:  # the last record that does at least as well without a left end as without a right end
        i = (low + high + 1) // 2
        no_left, no_right = at(i)
        low, high = (i, high) if no_left.value <= no_right.value else (low, i - 1)
    around = [(i, min(*at(i), key=lambda f: f.value)) for i in (low, min(low + 1, length))]
    node, quilt = max(around, key=lambda pair: pair[1].value)
    if quilt.left is None and quilt.right is None:  # nothing one-sided is below the limit
        quilt = middle if middle.left is not None else trivial
    return _worst(node, quilt)


def _worst(node: int, quilt: BestQuilt) -> WorstRecord:
    return WorstRecord(quilt.value, node, quilt.left, quilt.right, quilt.nearby, quilt.influence)


def _pairs_of(support: Mask) -> Mask:
    return np.asarray((support[:, None] & support[None, :]).ravel(), dtype=np.bool_)


def _split(nodes: NodeRange, seen: int | None) -> Iterator[NodeRange]:
    """Cut a range in three: at, before and after its middle, the geometric one where it spans decades.

    The worst record so far (``seen``) is a better place to cut, and need not be looked at again.
    """
    wide = nodes.last > 8 * nodes.first
    middle = int((nodes.first * nodes.last) ** 0.5) if wide else (nodes.first + nodes.last) // 2
    middle = nodes.first + (middle - nodes.first) // nodes.step * nodes.step
    if seen is not None and nodes.first <= seen <= nodes.last and (seen - nodes.first) % nodes.step == 0:
        middle = seen
    else:
        yield NodeRange(middle, middle, nodes.step)
    if nodes.first < middle:
        yield NodeRange(nodes.first, middle - nodes.step, nodes.step)
    if middle < nodes.last:
        yield NodeRange(middle + nodes.step, nodes.last, nodes.step)


_WORTH_IT: Final = 8
_SMALL: Final = 8
_AT_ONCE: Final = 8192


@lru_cache(maxsize=32)
def worst_of_chains(
    chains: tuple[MarkovChain, ...], length: int, objective: Objective, adversary: Adversary
) -> WorstRecord:
    """The worst record of the worst chain. Kept: the quilt mechanism and the quilt curve ask for the same."""
    worst: WorstRecord | None = None
    for bound, chain in worst_first(chains, length, objective, adversary):
        floor = worst.value if worst else -np.inf
        if bound <= floor:
            break
        worst = worst_record(chain, length, objective, adversary, floor) or worst
    assert worst is not None
    return worst


def worst_first(
    chains: Sequence[MarkovChain], length: int, objective: Objective, adversary: Adversary
) -> Iterator[tuple[float, MarkovChain]]:
    """Chains with an upper bound on the objective of their worst record, highest bound first."""
    if len(chains) < _WORTH_IT or chains[0].size > _SMALL:
        yield from ((np.inf, chain) for chain in chains)
        return
    everyone = adversary is Adversary.BDP
    tables = [np.stack([c.transition for c in chains[s : s + _AT_ONCE]]) for s in range(0, len(chains), _AT_ONCE)]
    bounds = np.concatenate([_bounds(table, length, objective, everyone) for table in tables])
    for n in np.argsort(-bounds, kind="stable"):
        yield float(bounds[n]), chains[n]


def _bounds(transitions: Floats, length: int, objective: Objective, everyone: bool) -> Floats:
    best = np.full(len(transitions), objective.scalar(length, 0.0))
    still = np.arange(len(transitions))  # chains that a wider quilt may still help
    power, distance = transitions, 1
    while True:
        keep = objective(2 * distance - 1, 0.0) < best[still]
        if not keep.all():
            still, power = still[keep], power[keep]
        if not len(still):
            return best * (1 + 1e-9)  # covers the rounding of the powers; this is only a screen
        best[still] = np.minimum(best[still], objective(2 * distance - 1, _influence(power, everyone)))
        power, distance = power @ transitions[still], distance + 1


def _influence(power: Floats, everyone: bool) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(power)
        back = np.fmax.reduce(logs[:, :, :, None] - logs[:, :, None, :], axis=1, initial=-np.inf)
        ahead = np.fmax.reduce(logs[:, :, None, :] - logs[:, None, :, :], axis=3, initial=-np.inf)
        right = ahead + ahead.transpose(0, 2, 1) if everyone else ahead
        total = back + back.transpose(0, 2, 1) + right
    return np.asarray(np.nan_to_num(total, nan=np.inf, posinf=np.inf, neginf=-np.inf).max(axis=(1, 2)))
