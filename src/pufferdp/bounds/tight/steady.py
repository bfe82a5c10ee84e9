"""Series of one chain that keeps its law, with the same loss on every record: all records are looked at together.

What a side adds depends on the number of its records alone, and on the end behind them. The signed vector of a pass
(see ``sides``) knows nothing of its end, so one pass at one μ says something about every number of records, every known
value and the end of the series: a pair of values needs a few passes for the whole series, not for each record. More
records never say less, because nothing need be asked of them; so the bounds of longer sides hold for shorter ones.

``WholeSeries`` does the same for long series that end before their chain has forgotten: a side may begin with a given
law, and a series may have 10^5 records. As long as the questions do not change, many steps are one product with a power
of the kernel. Chains that forget slowly change theirs seldom. A product with a wrong sign is done again step by step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.inputs import Chain
from pufferdp.bounds.tight.odds import closed_side
from pufferdp.bounds.tight.outlook import MOST_LOSS, OPEN_END, quotient, scaled

_PASSES: Final = 60
"""After so many passes brackets are given out as they are."""
_PROBES: Final = 24
"""μ of one pass for each pair."""
_AHEAD: Final = 0.45
"""The share of what is left that a side is allowed to take."""
_ROUNDING: Final = 80 * 2.0**-53
"""More than the rounding of one step, as a share of the quotient."""
_CHORD: Final = 1e-14
"""Room for the rounding of a chord."""
_FAR_BELOW: Final = -0.5
"""What is reached so far below μ has lost its digits."""
_NEAR_BEST: Final = 0.97
MOST_SPENT: Final = 300.0
"""Losses of all records together up to which no vector needs to be scaled."""
MOST_ENDS: Final = 400_000
"""Ends of one side of all pairs, so that memory stays bounded."""
LONG_WIDTH: Final = 1e-7
"""How narrow brackets are, as a share of the leakage."""
_LONG_PROBES: Final = 16
"""μ of one pass for each pair."""
_BLOCK: Final = 64
"""Steps that are made at once."""
_DEEP: Final = 1 << 14
_DEEP_BLOCK: Final = 512
"""The same where sides are so long that questions hardly change from one block to the next."""
_MOST_GAINED: Final = 100.0
"""And so much loss at most, so that powers of kernels stay numbers."""
_LARGEST_LOG: Final = 600.0
_MOST_LONG_ENDS: Final = 3_000_000
"""Ends of one side of all pairs, so that memory stays bounded."""
_LEAST: Final = 1e-200
"""Where a path between two states is rarer than this, products may lose it."""
_FEW_STATES: Final = 8
"""With more there are too many questions to keep the powers of each."""
_CLOSED_FORM: Final = 14
"""Twofold steps that the closed form is tried with."""
_AS_MUCH: Final = 1e-10
"""Records that leak as much up to this share are equally bad: the first is told."""


@dataclass(frozen=True, eq=False)
class Steady:
    """What is found for each record of the series; logs, the records' own losses included."""

    lower: Floats
    """(n,)."""
    upper: Floats
    """(n,): for records that are not the worst it may be as large as for that one."""
    likelier: Ints
    other: Ints
    distance: Ints
    """(2, n): of the ends behind ``lower``, before and after the record."""
    state: Ints
    added: Floats
    mu: Floats
    """(2, n): logs."""


class SteadySeries:
    """A chain of n records in the law that it keeps, every value of which has a chance."""

    def __init__(self, before: Floats, after: Floats, n: int, known: bool) -> None:
        """The kernels backwards and onwards; whether records may be known."""
        k = len(after)
        self.n, self.known = n, known
        self.x, self.y = np.nonzero(~np.eye(k, dtype=bool))
        self._lanes = [_Lane(kernel, n, known, self.x, self.y) for kernel in (before, after)]
        self._near = np.arange(len(self.x))

    def at(self, loss: float, width: float) -> Steady:
        """All pairs, up to a share ``width`` of the leakage."""
        found, least = self._solved(loss, width, np.arange(len(self.x)))
        self._near = np.flatnonzero(least >= _NEAR_BEST * least.max())
        return found

    def quick(self, loss: float, width: float) -> float:
        """Of those pairs that leaked most the last time: what a search for the right loss needs."""
        return float(self._solved(loss, width, self._near)[0].lower.max())

    def _solved(self, loss: float, width: float, pairs: Ints) -> tuple[Steady, Floats]:
        """And what each pair leaks at least."""
        sides = [_Ends(lane, pairs, loss) for lane in self._lanes]
        active, room = np.arange(len(pairs)), _ROUNDING * (self.n + len(self._lanes[0].kernel))
        for turn in range(_PASSES):
            lower = [side.lower() for side in sides]
            upper = [side.upper() for side in sides]
            least, most = (loss + part[0] + part[1][:, ::-1] for part in (lower, upper))
            best = float(least.max())
            goal = best + max(width * best, 8 * room)
            active = np.flatnonzero((most > goal).any(axis=1))
            if not len(active):
                break
            # A record that could leak more is to be proved to leak no more than the goal, each side half of the rest.
            spare = np.maximum(_AHEAD * (goal - least[active]), 0.0)
            open_rows = most[active] > goal
            levels = [lower[0][active] + spare, (lower[1][active][:, ::-1] + spare)[:, ::-1]]
            wanted = [open_rows, open_rows[:, ::-1]]
            for side, level, rows in zip(sides, levels, wanted, strict=True):
                side.look(active, side.first() if turn == 0 else side.aims(active, level, rows))
        return self._collected(pairs, loss, sides, least, most + 2 * room), np.asarray(least.max(axis=1))

    def _collected(self, pairs: Ints, loss: float, sides: list[_Ends], least: Floats, most: Floats) -> Steady:
        worst, at = least.argmax(axis=0), np.arange(self.n)
        ends = [side.behind(worst, at if lane == 0 else at[::-1]) for lane, side in enumerate(sides)]
        distance, state, added, mu = (np.stack(part) for part in zip(*ends, strict=True))
        group = loss * self.n
        return Steady(
            lower=least[worst, at],
            upper=np.minimum(most.max(axis=0), group),
            likelier=self.x[pairs[worst]],
            other=self.y[pairs[worst]],
            distance=distance,
            state=state,
            added=added,
            mu=mu,
        )


class _Lane:
    """One side of every record: what its ends say by themselves."""

    def __init__(self, kernel: Floats, n: int, known: bool, x: Ints, y: Ints) -> None:
        self.kernel, self.n, self.known, self.x, self.y = kernel, n, known, x, y
        k = len(kernel)
        self.ratio = np.ones((len(x), n - 1, k * known + 1))
        power = np.eye(k)
        for d in range((n - 1) * known):
            power = power @ kernel
            both = (power[x] > 0) & (power[y] > 0)
            self.ratio[:, d, :-1] = np.where(both, quotient(power[y], power[x]), 0.0)
        with np.errstate(divide="ignore"):
            self.said = np.log(self.ratio)


class _Ends:
    """Bounds on every end of one side at one loss: logs, (pair, distance, known value or the end of the series)."""

    def __init__(self, lane: _Lane, pairs: Ints, loss: float) -> None:
        self.lane, self.pairs, self.loss = lane, pairs, loss
        self.ratio, self.said = lane.ratio[pairs], lane.said[pairs]
        self.low = np.where(self.ratio > 0, 0.0, -np.inf)  # who asks nothing learns nothing, and no less
        group = loss * np.arange(1, lane.n)[:, None]
        self.high = np.where(self.ratio > 0, group, -np.inf)
        if lane.known:  # a known record adds nothing itself
            self.high[..., :-1] = np.where(self.ratio[..., :-1] > 0, group - loss, -np.inf)
        self.mu = np.zeros_like(self.low)

    def lower(self) -> Floats:
        """By the number of records, (pair, n)."""
        return self._by_length(self.low)

    def upper(self) -> Floats:
        """More records say no less: what holds for them holds for fewer."""
        most = self._by_length(self.high)
        return np.asarray(np.minimum.accumulate(most[:, ::-1], axis=1)[:, ::-1])

    def _by_length(self, ends: Floats) -> Floats:
        out = np.zeros((len(self.pairs), self.lane.n))
        out[:, 1:] = ends[..., -1]
        if self.lane.known:
            out[:, 1:] = np.maximum(out[:, 1:], np.maximum.accumulate(ends[..., :-1].max(axis=2), axis=1))
        return np.maximum(out, 0.0)

    def first(self) -> Floats:
        """Log μ to begin with, for every pair."""
        steps = np.linspace(0.0, 1.0, _PROBES) ** 2
        return np.broadcast_to(steps * self.loss * (self.lane.n - 1), (len(self.pairs), _PROBES))

    def aims(self, active: Ints, level: Floats, rows: Mask) -> Floats:
        """Log μ at which the ends that may exceed the levels of their records are decided, (pair, probe).

        A known record matters to all sides that are no shorter, so it is asked at the least of their levels.
        """
        wanted = np.where(rows, level, np.inf)[:, 1:]
        asked = np.broadcast_to(wanted[..., None], self.said[active].shape).copy()
        asked[..., :-1] = np.minimum.accumulate(wanted[:, ::-1], axis=1)[:, ::-1, None]
        high, said = self.high[active], self.said[active]
        undecided = high > asked
        over = np.where(undecided, high - np.where(undecided, asked, 0.0), -np.inf).reshape(len(active), -1)
        logs = np.where(undecided, asked - np.where(undecided, said, 0.0), np.nan).reshape(len(active), -1)
        out = np.empty((len(active), _PROBES))
        for row, (gap, values) in enumerate(zip(over, logs, strict=True)):
            some = np.flatnonzero(np.isfinite(values))
            if not len(some):
                out[row] = 0.0
                continue
            # The ends with most to lose, and others all over the range.
            top = some[np.argsort(-gap[some])[: _PROBES // 2]]
            spread = np.quantile(values[some], np.linspace(0.0, 1.0, _PROBES - len(top)), method="nearest")
            out[row] = np.sort(np.concatenate([values[top], spread]))
        return out

    def look(self, active: Ints, logs: Floats) -> None:
        """One pass of some pairs: better bounds on all their ends."""
        signed, below = self._walked(self.lane.x[self.pairs[active]], self.lane.y[self.pairs[active]], np.exp(logs))
        mu, ratio, said = np.exp(logs), self.ratio[active], self.said[active]
        # The signed weight of an end falls with μ and is convex: where its sign changes, the chord lies above.
        turn = (signed > 0).sum(axis=1, keepdims=True)
        under, over = np.maximum(turn - 1, 0), np.minimum(turn, logs.shape[1] - 1)
        low, where = self.low[active], self.mu[active]
        parts = []
        for at in (under, over):
            value, base = (np.take_along_axis(table, at, axis=1)[:, 0] for table in (signed, below))
            asked, log_asked = (np.take_along_axis(table[..., None, None], at, axis=1)[:, 0] for table in (mu, logs))
            parts.append((value, asked))
            share = quotient(value, base)
            with np.errstate(divide="ignore", invalid="ignore"):
                reached = np.where((share > _FAR_BELOW) & (ratio > 0), log_asked + said + np.log1p(share), -np.inf)
            better = reached > low
            low, where = np.where(better, reached, low), np.where(better, log_asked, where)
        (up, left), (down, right) = parts
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.where(up > 0, left + (right - left) * quotient(up, up - down), left)
            bound = np.where(down <= 0, np.log(root * (1 + _CHORD)) + said, np.inf)
        self.low[active], self.mu[active] = low, where
        self.high[active] = np.minimum(self.high[active], np.where(np.isnan(bound), np.inf, bound))

    def _walked(self, x: Ints, y: Ints, mu: Floats) -> tuple[Floats, Floats]:
        """Signed weights of all ends, and what is below the line in them: (pair, probe, distance, end)."""
        k, gain = len(self.lane.kernel), np.expm1(self.loss)
        vectors = np.zeros((2, *mu.shape, k))
        run = np.arange(len(x))
        vectors[0, run, :, x] = 1.0
        vectors[0, run, :, y] = -mu
        vectors[1, run, :, y] = mu
        out = np.empty((2, *mu.shape, self.lane.n - 1, self.ratio.shape[2]))
        for d in range(self.lane.n - 1):
            vectors = vectors @ self.lane.kernel
            if self.lane.known:
                out[..., d, :-1] = vectors
            vectors *= 1.0 + gain * (vectors[:1] > 0)
            out[..., d, -1] = vectors.sum(axis=-1)
        return out[0], out[1]

    def behind(self, pair: Ints, records: Ints) -> tuple[Ints, Ints, Floats, Floats]:
        """The ends behind what is reached: their distances and values, what they add, and log μ."""
        distance, state = np.zeros(len(pair), dtype=np.int64), np.full(len(pair), OPEN_END)
        added, mu = np.zeros(len(pair)), np.zeros(len(pair))
        for i, (row, m) in enumerate(zip(pair.tolist(), records.tolist(), strict=True)):
            if m == 0:
                continue
            best, at, which = self.low[row, m - 1, -1], m, OPEN_END
            mu[i] = self.mu[row, m - 1, -1]
            if self.lane.known:
                known = self.low[row, :m, :-1]
                d, v = divmod(int(known.argmax()), known.shape[1])
                if known[d, v] > best:
                    best, at, which, mu[i] = known[d, v], d + 1, v, self.mu[row, d, v]
            distance[i], state[i], added[i] = at, which, max(best, 0.0)
        return distance, state, added, mu


class WholeSeries:
    """All records of a series whose first record has a law, of a chain that is primitive or goes round in a cycle."""

    def __init__(self, chain: Chain, n: int, adversary: str) -> None:
        """See ``whole_series``, which refuses what this cannot do."""
        assert chain.start is not None
        self.chain, self.n, self.adversary = chain, n, adversary
        self.width = LONG_WIDTH
        k = chain.size
        self.x, self.y = np.nonzero(~np.eye(k, dtype=bool))
        possible = inputs.supports(chain, 2 * k * k + 2)
        turns = next(m for m in range(1, k + 1) if (possible[-1] == possible[-1 - m]).all())
        settled = possible[-turns:][(np.arange(len(possible)) - len(possible)) % turns]
        short = np.flatnonzero((possible != settled).any(axis=1))
        self._first = min(n, int(short[-1]) + 1) if len(short) else 0
        """Records before this one cannot have every value of their part of the cycle; the others can."""
        self._possible = possible[: self._first]
        self._parts = settled[self._first : self._first + turns]
        """The values of the records that follow, again and again."""
        self.highs: list[Floats] = []
        """What the sides before and after each record add at most, (pair, number of their records), at the last loss;
        −∞: a record cannot have both values."""
        self.forget()

    @property
    def kernels(self) -> tuple[Floats, Floats]:
        """Of both sides: what leads away from a record, one step further."""
        return self._kernels[0][0], self._kernels[1][0]

    @cached_property
    def path(self) -> int:
        """Steps in which every state leads to every other of its part of the cycle."""
        moves = self.chain.kernels[0] > 0
        steps, reach = 1, moves
        around = np.linalg.matrix_power(moves.astype(float), len(self._parts)) > 0
        while not ((reach @ around) == reach).all():
            steps, reach = steps + 1, reach @ moves
        return steps

    @cached_property
    def _kernels(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Of both sides: the kernel that leads away from a record, and the weights at the end of the series."""
        chain, ones = self.chain, np.ones(self.chain.size)
        assert chain.start is not None
        kernel = chain.kernels[0]
        before = (kernel.T * chain.start / chain.start[:, None], ones) if chain.stationary else (kernel.T, chain.start)
        return before, (kernel, ones)

    @cached_property
    def _lanes(self) -> tuple[LongSide, LongSide]:
        """Both sides. Megabytes, so that they are made when they are first asked."""
        known = self.adversary == "bdp"
        before, after = (LongSide(kernel, end, self.n, known, self.x, self.y) for kernel, end in self._kernels)
        return before, after

    def let_go(self) -> None:
        """Keep nothing that can be worked out again."""
        self.__dict__.pop("_lanes", None)
        self.highs = []

    def forget(self) -> None:
        """A search begins anew."""
        self._near = self._steepest

    @cached_property
    def _steepest(self) -> Ints:
        """Pairs that leak most where losses are small, by total variations at all distances: to begin a search with."""
        slopes = np.zeros(len(self.x))
        for power, _ in self._kernels:
            far, before = 1, 0
            while far < self.n:
                law = quotient(power, power.sum(axis=1, keepdims=True))
                slopes += np.abs(law[self.x] - law[self.y]).sum(axis=1) * (far - before)
                power, far, before = scaled(power @ power, (0, 1)), 2 * far, far
        slopes *= (self._parts[:, self.x] & self._parts[:, self.y]).any(axis=0)  # a record can have both values
        return np.flatnonzero(slopes >= _NEAR_BEST * slopes.max())

    def recurs(self, pair: int) -> bool:
        """Whether records far from the first can have both values of a pair."""
        return bool((self._parts[:, self.x[pair]] & self._parts[:, self.y[pair]]).any())

    def serves(self, loss: float) -> bool:
        """Whether products keep all that is positive: no entry is rarer than such a path without gain."""
        return 0 < loss <= MOST_LOSS and loss * self.path <= -math.log(_LEAST) / 2

    def quick(self, loss: float) -> float:
        """What those pairs leak that leaked most the last time: what a search for the right loss needs."""
        return float(self._solved(loss, self._near)[2].max())

    def at(self, loss: float) -> Steady:
        """Brackets; records that are not the worst have upper ends that may be as large as that one's."""
        pairs = np.arange(len(self.x))
        sides, most, least = self._solved(loss, pairs)
        self.highs = [self._by_record(ends, "high") for ends in sides]
        by_pair = least.max(axis=1)
        self._near = np.flatnonzero(by_pair >= _NEAR_BEST * by_pair.max())
        worst, n = least.argmax(axis=0), self.n
        lower = least[worst, np.arange(n)]
        alive = np.isfinite(lower)
        distance, state = np.zeros((2, n), dtype=np.int64), np.full((2, n), OPEN_END)
        added, mu = np.zeros((2, n)), np.zeros((2, n))
        most_of_all = float(np.max(lower, initial=0.0, where=alive))
        record = int(np.argmax(lower >= most_of_all - _AS_MUCH * (1 + most_of_all)))  # of this one the ends are told
        for lane, records in ((0, record), (1, n - 1 - record)):
            late = self._late(record) if lane == 0 else None
            end = sides[lane].behind(int(worst[record]), records, late)
            distance[lane, record], state[lane, record], added[lane, record], mu[lane, record] = end
        return Steady(
            lower=np.where(alive, lower, 0.0),
            upper=np.where(alive, np.minimum(most.max(axis=0), loss * n), 0.0),
            likelier=np.where(alive, self.x[worst], 0),
            other=np.where(alive, self.y[worst], 0),
            distance=distance,
            state=state,
            added=added,
            mu=mu,
        )

    def _solved(self, loss: float, pairs: Ints) -> tuple[list[LongEnds], Floats, Floats]:
        """Both sides, and what each record leaks at most and at least, for each pair: logs, (pair, n)."""
        side = self._side_bound(loss)
        sides = [self._ends(lane, pairs, loss, side) for lane in self._lanes]
        room = self._room(loss)
        turns = [slice(None), slice(None, None, -1)]
        for turn in range(_PASSES):
            lower, upper = ([self._by_record(ends, name) for ends in sides] for name in ("low", "high"))
            least, most = (loss + part[0] + part[1][:, ::-1] for part in (lower, upper))
            goal = float(least.max())
            goal += max(self.width * goal, 8 * room)
            active = np.flatnonzero((most > goal).any(axis=1))
            if not len(active):
                break
            open_records = most[active] > goal
            with np.errstate(invalid="ignore"):
                spare = np.where(open_records, np.maximum(_AHEAD * (goal - least[active]), 0.0), 0.0)
                levels = [
                    np.where(open_records, part[active][:, way] + spare, np.inf)
                    for part, way in zip(lower, turns, strict=True)
                ]
            for ends, level, way in zip(sides, levels, turns, strict=True):
                ends.look(active, ends.first(active) if turn == 0 else ends.aims(active, level[:, way]))
        return sides, most + 2 * room, least

    def _ends(self, lane: LongSide, pairs: Ints, loss: float, most: float) -> LongEnds:
        """Bounds on the ends of one side, before the first pass."""
        return LongEnds(lane, pairs, loss, most)

    def _room(self, _: float) -> float:
        """For rounding."""
        return _ROUNDING * (self.n + self.chain.size)

    def _side_bound(self, loss: float) -> float:
        """What the closed form says of a side, with one step or many at once: where passes begin."""
        return closed_side(self.chain.kernels[0], loss, self.n - 1, _CLOSED_FORM)

    def _late(self, record: int) -> tuple[int, Mask]:
        """Distances before a record up to which every value can be known, and which can at those beyond."""
        return max(0, record - self._first), self._possible[:record][::-1][-self._first :]

    def _by_record(self, ends: LongEnds, name: str) -> Floats:
        """The most that any end of each number of records says, (pair, n); −∞: a record cannot have both values."""
        table: Floats = getattr(ends, name)
        out = np.zeros((len(table), self.n))
        out[:, 1:] = table[..., -1]
        first = self._first if ends.lane is self._lanes[0] else 0
        if ends.lane.known:
            best = np.maximum.accumulate(table[..., :-1].max(axis=2), axis=1)
            out[:, 1 + first :] = np.maximum(out[:, 1 + first :], best[:, : max(0, best.shape[1] - first)])
            for record, values in enumerate(self._possible[:first] if first else ()):
                here = np.where(values, table[..., :-1], -np.inf).max(axis=2)  # record is that many from the first
                out[:, record + 1 :] = np.maximum(out[:, record + 1 :], here[:, : here.shape[1] - record])
        if name == "high" and ends.lane.plain:
            out = np.minimum.accumulate(out[:, ::-1], axis=1)[:, ::-1]
        out = np.maximum(out, 0.0)
        if ends.lane is self._lanes[0] and (first or len(self._parts) > 1):
            later = self._parts[np.arange(max(0, self.n - first)) % len(self._parts)]
            values = np.concatenate([self._possible, later])[: self.n]
            return np.where((values[:, self.x[ends.pairs]] & values[:, self.y[ends.pairs]]).T, out, -np.inf)
        return out


class LongSide:
    """One side of every record: what its ends say by themselves."""

    def __init__(self, kernel: Floats, end: Floats, n: int, known: bool, x: Ints, y: Ints) -> None:
        self.kernel, self.end, self.n, self.known, self.x, self.y = kernel, end, n, known, x, y
        k = len(kernel)
        self.said = np.zeros((len(x), n - 1, k * known + 1))
        """Log z(y)/z(x), (pair, distance, end); −∞: an end that one of the values rules out."""
        self.plain = bool((end == 1).all())
        """Whether the end of the series says nothing by itself: then a longer side never says less."""
        steps = [kernel]
        for _ in range(_BLOCK - 1):
            steps.append(steps[-1] @ kernel)
        powers, begun = np.stack(steps), np.eye(k)
        with np.errstate(divide="ignore", invalid="ignore"):
            for d in range(0, n - 1, _BLOCK) if known or not self.plain else ():
                laws = begun @ powers[: n - 1 - d]
                begun = laws[-1] / laws[-1].max()
                logs = np.log(np.concatenate([laws, laws @ end[:, None]], axis=2)[..., 0 if known else k :])
                both = np.isfinite(logs[:, x]) & np.isfinite(logs[:, y])
                self.said[:, d : d + _BLOCK] = np.where(both, logs[:, y] - logs[:, x], -np.inf).swapaxes(0, 1)
        if self.plain:
            self.said[..., -1] = 0.0


class LongEnds:
    """Bounds on every end of one side at one loss: logs, (pair, distance, known value or the end of the series)."""

    def __init__(self, lane: LongSide, pairs: Ints, loss: float, most: float) -> None:
        self.lane, self.pairs, self.loss, self.most = lane, pairs, loss, most
        self.said = lane.said[pairs]
        fine = np.isfinite(self.said)
        self.low = np.where(fine, 0.0, -np.inf)  # who asks nothing learns nothing, and no less
        self.high = np.where(fine, np.minimum(loss * np.arange(1, lane.n), most)[:, None], -np.inf)
        if lane.known:  # a known record adds nothing itself
            group = np.minimum(loss * np.arange(lane.n - 1), most)[:, None]
            self.high[..., :-1] = np.where(fine[..., :-1], group, -np.inf)
        self.mu = np.zeros_like(self.low)
        block = _BLOCK if lane.n < _DEEP else _DEEP_BLOCK
        self.steps = max(1, min(block, int(_MOST_GAINED / loss))) if loss > 0 else block
        self._powers: dict[int, Floats] = {}

    def first(self, active: Ints) -> Floats:
        """Log μ to begin with."""
        steps = np.linspace(0.0, 1.0, _LONG_PROBES) * min(self.most, _LARGEST_LOG)
        said = self.said[active, :, -1]
        shift = np.where(np.isfinite(said), said, 0.0)[:, -1]
        return np.clip(np.sort(steps - shift[:, None], axis=1), -_LARGEST_LOG, _LARGEST_LOG)

    def aims(self, active: Ints, level: Floats) -> Floats:
        """Log μ at which the ends that may exceed the levels of their records are decided, (pair, probe).

        A known record matters to all sides that are no shorter, so it is asked at the least of their levels.
        """
        wanted = level[:, 1:]
        high, said = self.high[active], self.said[active]
        asked = np.broadcast_to(wanted[..., None], said.shape).copy()
        asked[..., :-1] = np.minimum.accumulate(wanted[:, ::-1], axis=1)[:, ::-1, None]
        undecided = high > asked
        out = np.zeros((len(active), _LONG_PROBES))
        for row in range(len(active)):
            open_ends = undecided[row]
            values, gap = asked[row][open_ends] - said[row][open_ends], (high[row] - asked[row])[open_ends]
            if len(values):  # the ends with most to lose, and others all over the range
                top = np.argpartition(-gap, min(_LONG_PROBES // 2, len(gap) - 1))[: _LONG_PROBES // 2]
                share = np.linspace(0.0, 1.0, _LONG_PROBES - len(top))
                out[row] = np.sort(np.concatenate([values[top], np.quantile(values, share, method="nearest")]))
        return self._within(out)

    def _within(self, logs: Floats) -> Floats:
        """Log μ that may be asked for: their exponentials must be numbers."""
        return np.clip(logs, -_LARGEST_LOG, _LARGEST_LOG)

    def look(self, active: Ints, logs: Floats) -> None:
        """One pass of some pairs: better bounds on all their ends."""
        pairs, k = self.pairs[active], len(self.lane.kernel)
        index, mu = np.arange(len(active)), np.exp(logs)
        vectors = np.zeros((2, *logs.shape, k))
        vectors[0, index, :, self.lane.x[pairs]] = 1.0
        vectors[0, index, :, self.lane.y[pairs]] = -mu
        vectors[1, index, :, self.lane.y[pairs]] = mu
        vectors, sizes = vectors.reshape(2, -1, k), np.zeros(logs.size)
        for d in range(0, self.lane.n - 1, self.steps):
            steps = min(self.steps, self.lane.n - 1 - d)
            seen, after = self._walked(vectors, steps)
            vectors = after[:, :, -1]
            ends = (after @ self.lane.end)[..., None]
            tables = np.concatenate([seen, ends], axis=3) if self.lane.known else ends
            tables = tables.reshape(2, *logs.shape, steps, -1)
            self._bound(active, slice(d, d + steps), tables, logs, sizes.reshape(logs.shape))
            scale = np.abs(vectors).max(axis=(0, 2))
            vectors, sizes = vectors / scale[:, None], sizes + np.log(scale)

    def _walked(self, vectors: Floats, steps: int) -> tuple[Floats, Floats]:
        """Vectors before and after each gain, (2, rows, steps, k)."""
        kernel, gain = self.lane.kernel, math.exp(self.loss)
        k = len(kernel)
        asked = vectors[0] @ kernel > 0
        seen = np.empty((2, len(asked), steps, k))
        changed = np.arange(len(asked))
        if k <= _FEW_STATES:
            codes = asked @ (1 << np.arange(k))
            for code in np.unique(codes):
                rows = codes == code
                flat = self._power(int(code), asked[rows.argmax()])[:, :steps].reshape(k, -1)
                seen[:, rows] = (vectors[:, rows] @ flat).reshape(2, -1, steps, k)
            changed = np.flatnonzero(((seen[0] > 0) != asked[:, None]).any(axis=(1, 2)))
        if len(changed):
            now = vectors[:, changed]
            for j in range(steps):
                now = now @ kernel
                seen[:, changed, j] = now
                now = now * np.where(now[:1] > 0, gain, 1.0)
        return seen, seen * np.where(seen[:1] > 0, gain, 1.0)

    def _power(self, code: int, asked: Mask) -> Floats:
        """(K D)^j K for j = 0, 1, …, where D multiplies the states asked for: (k, steps, k)."""
        if code not in self._powers:
            step = self.lane.kernel * np.where(asked, math.exp(self.loss), 1.0)
            out = [self.lane.kernel]
            for _ in range(self.steps - 1):
                out.append(step @ out[-1])
            self._powers[code] = np.stack(out, axis=1)
        return self._powers[code]

    def _bound(self, active: Ints, part: slice, tables: Floats, logs: Floats, sizes: Floats) -> None:
        """What signed weights say of the ends at some distances: tables of (2, pair, probe, distance, end)."""
        (signed, below), mu = tables, np.exp(logs)
        said, low, where = self.said[active, part], self.low[active, part], self.mu[active, part]
        # The signed weight of an end falls with μ and is convex: where its sign changes, the chord lies above.
        turn = (signed > 0).sum(axis=1, keepdims=True)
        found = []
        for at in (np.maximum(turn - 1, 0), np.minimum(turn, logs.shape[1] - 1)):
            value, base = (np.take_along_axis(table, at, axis=1)[:, 0] for table in (signed, below))
            asked, log_asked = (np.take_along_axis(table[..., None, None], at, axis=1)[:, 0] for table in (mu, logs))
            size = np.take_along_axis(sizes[..., None, None], at, axis=1)[:, 0]
            found.append((value, asked, size))
            share = quotient(value, base)
            with np.errstate(divide="ignore", invalid="ignore"):
                reached = np.where(share > _FAR_BELOW, log_asked + said + np.log1p(share), -np.inf)
            better = (reached > low) & (base > 0)
            low, where = np.where(better, reached, low), np.where(better, log_asked, where)
        (up, left, scale), (down, right, other) = found
        down = down * np.exp(np.clip(other - scale, -_LARGEST_LOG, _LARGEST_LOG))
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.where(up > 0, left + (right - left) * quotient(up, up - down), left)
            bound = np.where(down <= 0, np.log(root * (1 + _CHORD)) + said, np.inf)
        self.low[active, part], self.mu[active, part] = low, where
        self.high[active, part] = np.minimum(self.high[active, part], np.where(np.isnan(bound), np.inf, bound))

    def behind(self, pair: int, records: int, late: tuple[int, Mask] | None) -> tuple[int, int, float, float]:
        """The end behind what is reached: its distance and value, what it adds, and log μ."""
        if records == 0:
            return 0, OPEN_END, 0.0, 0.0
        best, at, which = float(self.low[pair, records - 1, -1]), records, OPEN_END
        mu = float(self.mu[pair, records - 1, -1])
        if self.lane.known:
            known = self.low[pair, :records, :-1].copy()
            if late is not None and late[0] < records:
                known[late[0] :] = np.where(late[1][: records - late[0]], known[late[0] :], -np.inf)
            d, v = divmod(int(known.argmax()), known.shape[1])
            if known[d, v] > best:
                # In the words of the chain read backwards, which divides by what the values' own chances say.
                shift = float(self.said[pair, records - 1, -1])
                best, at, which, mu = float(known[d, v]), d + 1, v, float(self.mu[pair, d, v]) + shift
        return at, which, max(best, 0.0), mu


def whole_series(chain: Chain, n: int, adversary: str) -> WholeSeries | None:
    """None for what cannot be worked out this way."""
    k = chain.size
    if k < 3 or chain.period > 1 or chain.start is None or not (chain.primitive or _goes_round(chain)):
        return None
    if chain.stationary and not (chain.start > 0).all():
        return None
    kernel = chain.kernels[0]
    if k * (k - 1) * n * (k * (adversary == "bdp") + 1) > _MOST_LONG_ENDS:
        return None
    found = WholeSeries(chain, n, adversary)
    return found if math.log(kernel[kernel > 0].min()) * found.path >= math.log(_LEAST) else None


def _goes_round(chain: Chain) -> bool:
    """Whether every state leads to every other, in a cycle of parts, and the first record is in one of them."""
    reach = np.eye(chain.size, dtype=bool) | (chain.kernels[0] > 0)
    for _ in range(chain.size.bit_length()):
        reach = reach @ reach
    parts = inputs.supports(chain, 2 * chain.size**2 + 2)
    turns = next((m for m in range(1, chain.size + 1) if (parts[-1] == parts[-1 - m]).all()), 0)
    if not reach.all() or turns < 2 or not (parts[-turns:].sum(axis=0) == 1).all():
        return False
    # One round leads from every value to all of its part, sooner or later: there are no smaller parts (Wielandt).
    around = np.eye(chain.size, dtype=bool)
    for _ in range(turns):
        around = around @ (chain.kernels[0] > 0)
    for _ in range(int(chain.size**2 + 1).bit_length()):
        around = around @ around
    part = parts[-turns:].argmax(axis=0)
    return bool((around == (part[:, None] == part[None, :])).all())
