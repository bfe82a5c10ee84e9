"""Series of one chain that keeps its law, with the same loss on every record: all records are looked at together.

What a side adds depends on the number of its records alone, and on the end behind them. The signed vector of a pass
(see ``sides``) knows nothing of its end, so one pass at one μ says something about every number of records, every known
value and the end of the series: a pair of values needs a few passes for the whole series, not for each record. More
records never say less, because nothing need be asked of them; so the bounds of longer sides hold for shorter ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.leakage.tight.outlook import OPEN_END, quotient

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
