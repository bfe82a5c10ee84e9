"""A leakage bound for chains of hidden states: any DP algorithm, every adversary, any length (docs/theory/hidden.md).

Hidden states z follow a Markov chain, and each shows one record value x = f(z). An algorithm with privacy loss τ for
every record has a privacy loss of at most τ for every hidden state, so the recursion of Theorem 1 bounds what it adds
on one side of a record, between two hidden states z and z' of that record: V(z, z') ≥ log E[L | z]/E[L | z'].

- **Nothing known on a side**: the series ends behind n records.
- **Nearest known record at distance d**: the d − 1 records before it are unknown. The adversary knows the value of the
  record, not its hidden state. What is known beyond it gives the hidden states c that show the value any weights h(c),
  and two states decide (the lemma of "Any start" in docs/theory/tight.md). What the algorithm says about records beyond
  it differs between two such states by at most e^V̄, where V̄ bounds V(c, c') for states of one value. So the known
  record is a last record with privacy loss V̄ and free weights.
- **V̄** is any number that is at least the largest V(c, c') computed with it. Induction on the number of known records
  proves that it is a bound.

**The target** shows a or b. Let M(z, z') = V(z, z') of both sides together, for z showing a and z' showing b. If
φ(z) − ψ(z') ≥ M(z, z') for all of them, then E[L | a]/E[L | b] ≤ e^τ · mean(e^φ)/mean(e^ψ): with κ the least
L(z')e^{−ψ(z')}, every L(z) is at most e^τ κ e^{φ(z)} and every L(z') is at least κ e^{ψ(z')}. The means are over hidden
states given the value and what is known: their weights are those of the chain times weights whose ratio between two
states is at most e^ρ, the largest ratio of transition probabilities over d records. The largest such mean gives one
group of states the largest weight and the others the least.

**By time of day** each slot of a period has its own transition probabilities: all of this holds for the targets of each
slot, with one V̄ for all slots.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.basics.errors import ModelError, NotApplicableError
from pufferdp.bounds.chains.powers import log_ratios
from pufferdp.bounds.inverse import LeakageBound, largest_loss
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.odds import contraction
from pufferdp.bounds.tight.recursion import TINY, Ends, Pass, Rows, Side, block_size, bool_product
from pufferdp.bounds.tight.search import ENDLESS
from pufferdp.bounds.tight.series import TOLERANCE, reversed_kernel, small_loss_slope
from pufferdp.models.hidden import HiddenSeries

_MOST_PAIRS: Final = 1024
"""Pairs of hidden states, of all slots of a period, that are looked at one by one; half as many by time of day."""
_LEVELS: Final = np.array([0.0, 0.3, 0.6, 0.8, 0.9, 0.96, 1.0, 1.02, 1.05, 1.1, 1.18, 1.3, 1.5, 2.0])
"""Shares of that evidence at which known records are bounded."""
_WIDE: Final = 0.5 ** np.arange(6)
"""Shares of the largest prior ratio at which known records are bounded."""
MOST_EVIDENCE: Final = 40.0
"""Evidence above this says that everything is learned."""
_SHORT: Final = 48
"""Records up to which every position of a series is bounded by itself."""


def has_few_pairs(states: int, slots: int = 1) -> bool:
    """Whether the bound is computed for these hidden states at these slots of a period: it takes a minute at most."""
    return slots * states**2 <= (_MOST_PAIRS if slots == 1 else _MOST_PAIRS // 2)


@dataclass(frozen=True, eq=False)
class SideClasses:
    """Bounds on one side of a record, by what is known there."""

    distance: Ints
    """(C,): the nearest known record lies at this distance, or up to the next distance of the list; rising."""
    evidence: Floats
    """(C, m, h, h): log E[L | z]/E[L | z'] is at most this for targets of each slot."""
    weights: Floats
    """(C, m, h, h): by what is known, z has at most this log weight more than z'."""
    records: Ints
    """(E,): rising numbers of records on a side of which nothing is known."""
    ended: Floats
    """(E, m, h, h): the evidence of at most that number of records, of which none is known."""

    def up_to(self, records: int) -> tuple[Floats, Floats]:
        """Evidence and weights of all classes of a side of some number of records, (C', m, h, h) each."""
        known = self.distance <= records
        evidence, weights = self.evidence[known], self.weights[known]
        if len(self.ended):
            ended = self.ended[min(int(np.searchsorted(self.records, records)), len(self.ended) - 1)][None]
            evidence, weights = np.concatenate([ended, evidence]), np.concatenate([np.zeros_like(ended), weights])
        return evidence, weights


class PotentialBound(LeakageBound):
    """The largest leakage about a record value, for any algorithm with privacy loss τ for every record.

    >>> stay = [[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.2, 0.2, 0.6]]
    >>> bound = PotentialBound(stay, [0, 0, 1], length=1000)
    >>> round(bound(0.1), 2)
    0.74
    """

    tolerance = 0.03

    def __init__(
        self,
        transition: npt.ArrayLike,
        shown: npt.ArrayLike,
        *,
        start: str | npt.ArrayLike = "stationary",
        length: int | None = None,
        adversary: str = "bdp",
    ) -> None:
        """Prepare the bound for one chain of hidden states.

        Args:
            transition: transition probabilities of the hidden states; several matrices repeat with a period, and the
                first record may lie at any of its slots.
            shown: the record value that each hidden state shows, as a number.
            start: the distribution of the first hidden state, "stationary" or "any"; a given one is bounded as any.
            length: the number of records; None: without end.
            adversary: bdp, pufferfish or dp.
        """
        self.length = None if length is None else checks.length(length)
        self.adversary = inputs.adversary(adversary)
        chain = inputs.chain(transition, start)
        if chain.period > 1 and not chain.stationary:
            raise ModelError("several matrices need the start that repeats with the period: start='stationary'")
        if chain.stationary:
            priors = chain.marginals
            used = np.flatnonzero((priors > 0).any(axis=0))
            pairs = zip(priors, chain.kernels, strict=True)
            before = np.array([reversed_kernel(prior, kernel) for prior, kernel in pairs])[::-1]
        else:
            priors, used = np.ones((1, chain.size)), np.arange(chain.size)
            before = chain.kernels.swapaxes(1, 2)
        self.shown = np.asarray(shown, dtype=np.int64)[used]
        self.forgets = chain.primitive or not chain.stationary
        """Whether distant hidden states are nearly independent; taken for granted of a given start."""
        self._stationary, self._priors = chain.stationary, priors[:, used]
        self._kernels = tuple(np.ascontiguousarray(side[:, used[:, None], used]) for side in (before, chain.kernels))

    def _value(self, tau: float) -> float:
        pairs = self._pairs(1, self.shown[:, None] != self.shown)
        if not len(pairs):  # no record has two values
            return 0.0
        own, leakage = self._own_losses(tau), 0.0
        largest = float(own[self.shown[pairs.x], self.shown[pairs.y]].max())
        if self.adversary == "dp" or self.length == 1:
            return largest
        for before, after in self._sides(tau):
            leakage = max(leakage, self._both_sides(before, after, own, leakage))
        return min(self.group_privacy(largest), leakage)

    def inverse(self, epsilon: float) -> float:
        """The largest privacy loss whose bound is at most ``epsilon``; 0 where there is none."""
        allowed, rows = inputs.target(epsilon), [self._pairs(n, ~np.eye(len(self.shown), dtype=bool)) for n in (0, 1)]
        slopes = (small_loss_slope(self._open_side(n, 1.0), rows[n], self.length).max(initial=0.0) for n in (0, 1))
        return largest_loss(self, allowed, self.tolerance, guess=allowed / (1 + float(sum(slopes))))

    def _own_losses(self, tau: float) -> Floats:
        """(values, values): what an output shows of the target itself, between two of its values."""
        values = int(self.shown.max()) + 1
        return np.full((values, values), tau)

    def group_privacy(self, tau: float) -> float:
        """The privacy loss of all records together."""
        return math.inf if self.length is None else tau * self.length

    def largest_evidence(self, tau: float, place: tuple[int, int] | None = None) -> float:
        """The largest evidence of both sides of an interval, over all pairs of hidden states at its ends.

        Args:
            tau: the privacy loss of every record.
            place: the numbers of records before and after the interval; None: every place in the series.
        """
        if not len(self._pairs(1, self.shown[:, None] != self.shown)):
            return 0.0
        sides = self._sides(tau, place)
        return max((sum(float(side[0].max(initial=0.0)) for side in both) for both in sides), default=0.0)

    def _sides(
        self, tau: float, place: tuple[int, int] | None = None
    ) -> Iterator[tuple[tuple[Floats, Floats], tuple[Floats, Floats]]]:
        """The classes of both sides at a place in the series, or at every one; nothing where sides add nothing."""
        if self.adversary == "dp" or self.length == 1:
            return
        before, after = (self._side(number, tau) for number in (0, 1))
        most = np.iinfo(np.int64).max if self.length is None else self.length - 1
        everywhere = [(most, most)] if most >= _SHORT else [(i, most - i) for i in range(most + 1)]
        for i, j in everywhere if place is None else [place]:
            yield before.up_to(i), after.up_to(j)

    def _side(self, number: int, tau: float) -> SideClasses:
        """The classes of the side before (0) or after (1) a record."""
        size, slots = len(self.shown), self._offsets(number)
        free_start = number == 0 and not self._stationary
        rows = self._pairs(number, np.ones((size, size), dtype=bool))
        if len(rows) > _MOST_PAIRS // 5 and not free_start and self.adversary == "bdp":
            classes = self._contracted(number, tau, rows)
            if classes is not None:
                return classes
        # Without a distribution that the chain keeps, a series ends as if its last record were known with any weights.
        records, ended = self._nothing_known(self._open_side(number, tau), rows)
        level = ended[-1]
        if free_start:
            records, ended = records[:0], ended[:0]
        elif self.adversary == "pufferfish":
            return SideClasses(records[:0], ended[:0], ended[:0], records, ended[:, slots])
        beyond = self._evidence_beyond(number, tau, level, free_start) if self.adversary == "bdp" else 0.0
        free = np.where(np.eye(size, dtype=bool), 0.0, np.inf)[None, None].repeat(len(slots), axis=1)
        if math.isinf(beyond):  # everything may be learned
            return SideClasses(np.zeros(1, dtype=np.int64), free, free, records, ended[:, slots])
        side, flat = self._known_side(number, tau, beyond, free_start), level[rows.offsets, rows.x, rows.y]
        distance, evidence, weights = self._nearest_known(side, rows, flat)
        if free_start:  # the target may be the first record
            distance = np.concatenate([[0], distance])
            evidence = np.concatenate([np.zeros_like(free), evidence])
            weights = np.concatenate([free, weights])
        return SideClasses(distance, evidence[:, slots], weights[:, slots], records, ended[:, slots])

    def _contracted(self, number: int, tau: float, rows: Rows) -> SideClasses | None:
        """The classes of a side of many pairs of states, of which only those of one value are followed.

        If W bounds all evidence on a side, then j unknown records have at most the evidence of a last record j that may
        have any state and the privacy loss τ + W, whatever is known beyond it. None: no such W was found.
        """
        same = self._pairs(number, self.shown[:, None] == self.shown)
        level = self._nothing_known(self._open_side(number, tau), same)[1][-1]
        beyond = self._evidence_beyond(number, tau, level, free_start=False)
        if math.isinf(beyond):
            return None
        side = self._known_side(number, tau, beyond, free_start=False)
        near = list(self._closed_form(side, rows, _SHORT))
        if not near:
            return None
        spent, odds = np.swapaxes(list(self._odds_of_ends(replace(side, mixes_values=True), rows, _SHORT)), 0, 1)

        def classes(largest: float) -> Floats:
            """The evidence of records known at distance 1, 2, … and farther, (C, Q), if W = ``largest`` bounds it."""
            far = np.minimum.accumulate(spent + contraction(odds, np.full_like(odds, tau + largest)))
            return np.concatenate([near[:1], np.minimum(near[1:], far[:-1]), far[-1:]])

        largest, bounded = beyond, False
        while not bounded:
            most = float(classes(largest).max())
            bounded = most <= largest
            largest = max(most, beyond) if bounded else 1.1 * most
            if largest > MOST_EVIDENCE + _SHORT * tau:
                return None
        for _ in range(_SHORT):  # what W gives is again such a W, and smaller
            table = classes(largest)
            largest = max(beyond, float(table.max()))
        weights, power = list[Floats](), side.kernels
        for distance in range(1, len(near) + 2):
            weights.append(log_ratios(power.swapaxes(1, 2)).max(axis=1))
            power = _move_on(power, side.kernels, distance, 1)
        slots, evidence = self._offsets(number), _tables(list(table), rows, side)[:, self._offsets(number)]
        distances, known = np.arange(1, len(near) + 2), np.array(weights)[:, slots]
        return SideClasses(distances, evidence, known, np.zeros(1, dtype=np.int64), evidence[-1:])

    def _offsets(self, number: int) -> Ints:
        """For each slot of a period, the number of the first kernel that a side of its targets meets."""
        slots = np.arange(len(self._priors))
        return slots if number else -slots % len(slots)

    def _pairs(self, number: int, which: Mask) -> Rows:
        """Ordered pairs of different hidden states that a target can have at each slot, of those that are marked."""
        possible = self._priors > 0
        both = possible[:, :, None] & possible[:, None] & which & ~np.eye(len(which), dtype=bool)
        slot, x, y = np.nonzero(both)
        return Rows(self._offsets(number)[slot], x, y)

    def _open_side(self, number: int, tau: float) -> Side:
        """A side on which nothing is known."""
        return Side(self._kernels[number], np.array([tau]), np.ones(len(self.shown)), False, None, self.shown)

    def _known_side(self, number: int, tau: float, beyond: float, free_start: bool) -> Side:
        """A side whose nearest known record shows a value, and the evidence beyond it is at most ``beyond``."""
        # A first record that is not known may have any distribution of all states, and loses its own τ.
        last_loss = max(tau, beyond) if free_start else beyond
        kernels = self._kernels[number]
        return Side(kernels, np.array([tau]), None, False, last_loss, self.shown, mixes_values=free_start)

    def _evidence_beyond(self, number: int, tau: float, level: Floats, free_start: bool) -> float:
        """V̄: a number that is at least the largest evidence between states of one value computed with it.

        The nearest known records and few pairs of states decide most often, so that all are looked at in the end only.
        """
        rows = self._pairs(number, self.shown[:, None] == self.shown)
        if not len(rows):
            return 0.0
        flat = level[rows.offsets, rows.x, rows.y]
        least = 0.0 if free_start else float(flat.max())
        # Group privacy over the records beyond a known neighbour of the target.
        most = math.inf if self.length is None else max(0, self.length - 2) * tau

        def evidence(beyond: float, at: Ints, near: int = _SHORT // 2) -> Floats:
            side, some = self._known_side(number, tau, beyond, free_start), rows.pick(at)
            tables = self._nearest_known(side, some, flat[at], near)[1]
            return np.asarray(tables[:, some.offsets, some.x, some.y].max(axis=0, initial=least))

        # Nearly a straight line: where a line through two points of it meets the diagonal, and a little beyond.
        before, margin, limit = max(least, 1e-3 * tau), 1.002, min(most, MOST_EVIDENCE)
        every = few = np.arange(len(rows))
        value = before
        if before < limit:
            each = evidence(before, every)
            value, few = float(each.max()), np.sort(np.argsort(-each)[: _SHORT // 3])
        high = before if value <= before else margin * value
        while high < limit:
            largest = value if high == before else float(evidence(high, few).max())
            if largest <= high:
                largest = float(evidence(high, every, ENDLESS).max())
                if largest <= high:
                    return high
            slope = (largest - value) / (high - before) if high > before else 1.0
            meets = high + (largest - high) / (1 - slope) if slope < 1 else 0.0
            before, value, margin = high, largest, margin * margin
            high = margin * max(largest, meets)
        return most if most < MOST_EVIDENCE else math.inf

    def _nothing_known(self, side: Side, rows: Rows) -> tuple[Ints, Floats]:
        """Rising numbers of records, and the evidence of at most that number of them, (E, m, h, h) by offset."""
        level = (1.2 * small_loss_slope(side, rows, self.length) + 1e-3).clip(max=MOST_EVIDENCE)
        shares = np.concatenate([np.linspace(0.0, 1.0, len(_LEVELS)), [1.2, 2.0, 4.0]])
        for _ in range(2):  # the second time closer to what was found
            work = Pass(side, rows, level[:, None] * shares, TOLERANCE)
            records, evidence = [0], [np.zeros(len(rows))]
            for first, ends in self._read(work):
                records += [*range(first, first + len(ends.upper) - 1), work.distance - 1]
                evidence += list(ends.upper[..., -1])
                if ends.decided[-1].all():
                    break
            if self.length is None or work.distance < self.length:
                records.append(records[-1] + 1)
                evidence.append(ends.tail[-1])
            evidence[-1] = np.where(evidence[-1] > MOST_EVIDENCE, np.inf, evidence[-1])
            level = np.where(np.isfinite(evidence[-1]), evidence[-1], level.clip(max=MOST_EVIDENCE)) + 1e-9
            shares = np.sort(
                np.concatenate([np.linspace(0.0, 0.8, len(_LEVELS) // 2), np.linspace(0.85, 1.0, len(_LEVELS)), [4.0]])
            )
        return np.array(records), _tables(evidence, rows, side)

    def _nearest_known(self, side: Side, rows: Rows, level: Floats, most: int = ENDLESS) -> tuple[Ints, Floats, Floats]:
        """Distances of the nearest known record up to the ``most``, with evidence and weights, (C, m, h, h) by offset.

        Values of μ lie close to a ``level``, (Q,), the evidence of a side on which nothing is known, and wide apart
        where prior ratios are far from 1.
        """
        kernels = power = side.kernels
        closed = self._closed_form(side, rows)
        level = np.where(np.isfinite(level), level, 4.0) + 0.1 * (side.last_loss or 0.0) + 1e-3
        far = min(50.0, math.log(kernels.max() / kernels[kernels > 0].min())) + 2 * level
        grid = [level[:, None] * _LEVELS, far[:, None] * np.concatenate([-_WIDE, [0.0], _WIDE])]
        grid += [(far + share * (side.last_loss or 0.0))[:, None] for share in (0.5, 1.0)]
        work = Pass(side, rows, np.sort(np.concatenate(grid, axis=1), axis=1), TOLERANCE)
        distance, evidence, weights = list[int](), list[Floats](), list[Floats]()
        for first, ends in self._read(work):
            many, behind = len(ends.upper), work.distance
            distance += range(first, first + many)
            if behind - first > many:  # a block of records
                closed = iter(())
            evidence += [np.minimum(upper, next(closed, np.inf)) for upper in ends.upper[..., -1]]
            for _ in range(many):
                weights.append(log_ratios(power.swapaxes(1, 2)).max(axis=1))
                power = _move_on(power, kernels, distance[len(weights) - 1], (behind - first) // many)
            largest, spread = ends.largest[-1], ends.spread[-1]
            if behind > most:
                return np.array(distance), _tables(evidence, rows, side), np.array(weights)
            if spread.max() <= 20 * TOLERANCE and np.isfinite(ends.tail[-1]).all():
                break
            finite = np.isfinite(largest) & np.isfinite(spread)
            lowest = np.where(finite, largest, np.inf)
            work.narrow(-lowest, 1.5 * level + np.where(finite, spread, np.inf) - np.where(finite, largest, 0.0))
        if self.length is None or work.distance < self.length:
            distance.append(work.distance)
            evidence.append(ends.tail[-1])
            weights.append(log_ratios(power.swapaxes(1, 2)).max(axis=1))
        return np.array(distance), _tables(evidence, rows, side), np.array(weights)

    def _closed_form(self, side: Side, rows: Rows, most: int = _SHORT // 2) -> Iterator[Floats]:
        """The evidence of a record known at distance 1, 2, … by the Lemma of Theorem 6, (Q,) each.

        It has no grid of μ, which is coarse where little is learned: the unknown records lose τ each, unless their
        value is certain and the same given either state, and the states of the known record differ by ``last_loss``.
        """
        for spent, odds in self._odds_of_ends(side, rows, most):
            yield spent + contraction(odds, np.full_like(odds, side.last_loss or 0.0))

    def _odds_of_ends(self, side: Side, rows: Rows, most: int) -> Iterator[tuple[Floats, Floats]]:
        """For each distance what the unknown records lose, and the largest log odds ratio of two states behind them."""
        loss = float(side.losses[0])
        shows = self.shown == np.unique(self.shown)[:, None]
        sets = [np.ones_like(shows[0])] if side.mixes_values else list(shows)
        kernels = power = side.kernels
        reach, spent, certain = kernels > 0, np.zeros(len(rows)), np.ones(len(rows), dtype=bool)
        for distance in range(1, most):
            of_x, of_y = reach[rows.offsets, rows.x], reach[rows.offsets, rows.y]
            odds = np.zeros(len(rows))
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = np.log(power)[rows.offsets, rows.x] - np.log(power)[rows.offsets, rows.y]
                for states in sets:
                    seen = (of_x | of_y) & states
                    high, low = (np.where(seen, ratios, fill) for fill in (-np.inf, np.inf))
                    both = (of_x & states).any(axis=1) & (of_y & states).any(axis=1)
                    odds = np.maximum(odds, np.where(both, high.max(axis=1) - low.min(axis=1), 0.0))
            if (reach & (power < TINY)).any():
                return
            yield spent, odds + 1e-9
            certain &= bool_product(of_x | of_y, shows.T).sum(axis=1) == 1
            spent = spent + np.where(certain, 0.0, loss * (1 + 1e-12))
            following = np.roll(kernels, -distance, axis=0)
            power, reach = power @ following, bool_product(reach, following > 0)

    def _read(self, work: Pass) -> Iterator[tuple[int, Ends]]:
        """The first distance of each step of a pass with its ends: some single records, or a block of them."""
        most = 1 << 20 if self.length is None else min(self.length - 1, 1 << 20)
        while work.distance <= most:
            first = work.distance
            size = block_size(work.side, first, most - first + 1)
            single = min(work.together(), most - first + 1, max(1, first // 4))
            yield first, work.singles(single) if size == 1 else work.block(size)

    def _both_sides(
        self, before: tuple[Floats, Floats], after: tuple[Floats, Floats], own: Floats, least: float
    ) -> float:
        """The largest log E[L | a]/E[L | b], over all values and pairs of classes; ``least`` or more."""
        for slot, prior in enumerate(self._priors):
            states = [np.flatnonzero((self.shown == value) & (prior > 0)) for value in np.unique(self.shown)]
            for a, b in itertools.permutations([part for part in states if len(part)], 2):
                loss = float(own[self.shown[a[0]], self.shown[b[0]]])
                cross = [side[0][:, slot, a[:, None], b] for side in (before, after)]
                inside = [[side[1][:, slot, part[:, None], part] for side in (before, after)] for part in (a, b)]
                # The largest entry of each class bounds what two classes give, so that few pairs are looked at.
                simple = loss + np.add.outer(*(part.max(axis=(1, 2)) for part in cross))
                i, j = np.nonzero(simple > least)
                for some in np.array_split(np.argsort(-simple[i, j]), max(1, len(i) // 1024)):
                    some = some[simple[i[some], j[some]] > least]
                    if not len(some):
                        break
                    m = cross[0][i[some]] + cross[1][j[some]]
                    with np.errstate(invalid="ignore"):
                        odds = [part[0][i[some]] + part[1][j[some]] for part in inside]
                    least = max(least, loss + float(_target(m, odds[0], odds[1], prior[a], prior[b]).max()))
        return least


@dataclass(frozen=True, eq=False)
class IntervalPotential(LeakageBound):
    """The largest leakage about the records of an interval together (docs/theory/hidden.md, "Intervals").

    Given the first and the last hidden state of the interval its sides do not depend on its records.
    """

    tolerance = PotentialBound.tolerance

    records: PotentialBound
    """The bound for single records of the series."""
    own: int = 1
    """The privacy loss of the interval itself, at a privacy loss of 1."""
    spread: int = 1
    """The number of records over which a privacy loss of 1 is spread evenly; 1: every record may lose all of it."""
    place: tuple[int, int] | None = None
    """Numbers of records before and after the interval; None: at any position."""

    def _value(self, tau: float) -> float:
        each = tau / self.spread
        bound = self.own * tau + self.records.largest_evidence(each, self.place)
        return min(self.records.group_privacy(each), bound)


def potential_bound(model: HiddenSeries, length: int | None, adversary: str) -> PotentialBound:
    """The bound for the records of a model.

    Raises:
        NotApplicableError: where the model has too many pairs of hidden states, or never forgets and has no end.
    """
    kernels, shown, start = model.hidden_steps
    states, slots = len(shown), len(kernels)
    if not has_few_pairs(states, slots):
        times = f" at {slots:,} times of a period" if slots > 1 else ""
        raise NotApplicableError(
            f"{states} hidden states{times} have {slots * states**2:,} pairs, which takes too long"
        )
    bound = PotentialBound(kernels, shown, start=start, length=length, adversary=adversary)
    if length is None and not bound.forgets:
        raise NotApplicableError("hidden states never forget where they were, so the bound is infinite: give a length")
    return bound


def _target(m: Floats, odds_a: Floats, odds_b: Floats, prior_a: Floats, prior_b: Floats) -> Floats:
    """Bounds on log E[L | a]/E[L | b] less the target's own loss, (N,), from M = ``m``, (N, |a|, |b|)."""
    out = m.max(axis=(1, 2))
    with np.errstate(invalid="ignore"):
        options = [((m - m[:, z : z + 1]).max(axis=2), -m[:, z]) for z in range(m.shape[1])]
        options += [(m[:, :, z], (m[:, :, z : z + 1] - m).min(axis=1)) for z in range(m.shape[2])]
        for above, below in options:
            bound = _largest_mean(above, odds_a, prior_a) + _largest_mean(-below, odds_b, prior_b, harmonic=True)
            out = np.fmin(out, np.where(np.isnan(bound), np.inf, bound))
    return np.asarray(out)


def _largest_mean(values: Floats, odds: Floats, prior: Floats, harmonic: bool = False) -> Floats:
    """The largest log of the mean of e^values, (N,), or of one over the mean of e^−values, over all weights allowed."""
    spread = odds.max(axis=(1, 2))[:, None]  # the ratio of weights between any two states is at most e^spread
    sign = -1.0 if harmonic else 1.0
    order = np.argsort(-values, axis=1)
    values, log_prior = np.take_along_axis(values, order, axis=1), np.log(prior)[order]
    best = values[:, 0] if values.shape[1] == 1 else np.full(len(values), -np.inf)
    for raised in range(1, values.shape[1]):
        weights = log_prior - np.where(np.arange(values.shape[1]) < raised, 0.0, spread)
        mean = np.logaddexp.reduce(sign * values + weights, axis=1) - np.logaddexp.reduce(weights, axis=1)
        best = np.maximum(best, sign * mean)
    return np.asarray(best)


def _move_on(power: Floats, kernels: Floats, distance: int, records: int) -> Floats:
    """Transition probabilities over a distance, (m, h, h) by offset, and some more records, up to factors."""
    if len(kernels) == 1:
        power = power @ np.linalg.matrix_power(kernels[0], records)
    else:
        for step in range(distance, distance + records):
            power = power @ np.roll(kernels, -step, axis=0)
    return np.asarray(power / power.max(axis=(1, 2), keepdims=True))


def _tables(values: Sequence[Floats], rows: Rows, side: Side) -> Floats:
    """Values of pairs of hidden states, (Q,) each, as tables, (n, m, h, h) by offset."""
    out = np.zeros((len(values), *side.kernels.shape))
    out[:, rows.offsets, rows.x, rows.y] = np.maximum(np.nan_to_num(values, nan=np.inf, posinf=np.inf), 0.0)
    return out
