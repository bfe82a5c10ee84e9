"""Long series whose first record may have any law: the worst law, the worst algorithm and the worst record together.

Let Φ_b be what b records before a target add for the worst law of the first one (see ``tight.any_start``). Who knows
record i knows a series that begins there, for certain with that value, which is one of the laws. And a side after the
target never says less the more records it has. So a known record before the target says no more than a shorter series,
and both adversaries are told by the largest of Φ_b + (what n − 1 − b records after the target add) over b.

One pass at one μ serves every b. At μ a law s reaches μ where Σ s(u) α_u(μ) ≥ 0, and leaks μ·z(y)/z(x) at least. The
largest z(y)/z(x) over such laws, G(μ), is a quotient of linear functions on a half of the simplex: one value or two of
the first record are enough. G falls with μ. So between two μ that were tried nothing leaks more than the larger of them
times G at the smaller one. Intervals that this does not settle are bounded by chords of α, and cut.

Series without end: once α has no positive entry at μ, every b farther away adds μ·max z(y)/z(x) at most.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.bounds.tight.any_start import MOST_STATES
from pufferdp.bounds.tight.inputs import Chain
from pufferdp.bounds.tight.long.passes import BLOCK, DEEP, DEEP_BLOCK, Passes, beyond
from pufferdp.bounds.tight.long.slow import SlowStart
from pufferdp.bounds.tight.long.spans import forgets, largest_prior, on_chord, path_length
from pufferdp.bounds.tight.odds import closed_side
from pufferdp.bounds.tight.outlook import MOST_LOSS, OPEN_END
from pufferdp.bounds.tight.steady import LongEnds, LongSide

WIDTH: Final = 1e-7
"""How narrow brackets are, as a share of the leakage."""
_GRID: Final = 25
"""μ that are tried first."""
_PIECES: Final = 4
"""Parts that an interval is cut into."""
_CUTS: Final = 6
"""Intervals that are cut in a round."""
_STRIDE: Final = 0.04
"""Where numbers of records stand for those that follow, these add such a share of the closed form at most."""
_STRIDES: Final = 256
_WIDE: Final = 1.0
"""Intervals that are wider are cut before chords are looked at."""
_STEP: Final = 8.0
"""How far an interval without end is followed, in logs."""
_ROUNDS: Final = 60
_AHEAD: Final = 0.45
"""The share of what is left that a side is allowed to take."""
_ROUNDING: Final = 80 * 2.0**-53
"""More than the rounding of one step, as a share of the quotient."""
_AT_ONCE: Final = 20_000
"""Intervals that are bounded by chords at a time."""
_LARGEST_LOG: Final = 600.0
_DEEPEST: Final = 1 << 17
"""Records on a side that are looked at one by one."""
_SLOW: Final = 1024
"""Chains that remember so many records are followed in leaps (see ``slow``)."""
_MOST_MOVES: Final = 3000.0
"""As long as no state is left more often than that meanwhile: a state that is left soon cannot be leapt over."""
_COMPARED: Final = 12
"""Pairs that are compared, roughly, to see where to begin."""
_CLIMBED: Final = 2
"""Pairs that are climbed before all others are compared with them."""
_LEAST: Final = 1e-200
"""Where a path between two states is rarer than this, products may lose it."""
_DOUBLINGS: Final = 14
_NEAR_BEST: Final = 0.97
_MOST_WORK: Final = 10_000_000
"""Ends of all pairs up to which each pair is followed."""
_FEW_PAIRS: Final = 2
"""Pairs that are followed where there are more: the likeliest one, and the same turned round."""


class FirstSide:
    """The side before a target, for one pair of values, by number of records: logs, from none to ``depth``."""

    def __init__(self, passes: Passes, depth: int, most: float) -> None:
        """No side adds more than ``most``."""
        self.passes, self.depth = passes, depth
        self.plain = passes.plain(depth)
        possible = np.concatenate([[True], (self.plain > 0).any(axis=2).all(axis=0)])
        self.low = np.where(possible, 0.0, -np.inf)
        self.group = np.where(possible, np.minimum(passes.loss * np.arange(depth + 1), most), -np.inf)
        self.mu = np.zeros(depth + 1)
        """Log μ behind the lower ends."""
        self._settled = np.where(possible, 0.0, -np.inf)
        self._grid = self._first(most)
        self._open = _Intervals.none()
        self._begun = False

    def _first(self, most: float) -> Floats:
        x, y = self.plain
        fine = (x > 0) & (y > 0)
        said = np.log(y[fine] / x[fine]) if fine.any() else np.zeros(1)
        ends = np.clip([-said.max(), most - said.min()], -_LARGEST_LOG / 2, _LARGEST_LOG / 2)
        return np.linspace(ends[0] - 0.1, ends[1] + 0.1, _GRID)

    @property
    def high(self) -> Floats:
        """Upper ends; before the first round group privacy."""
        if not self._begun:
            return self.group
        out = self._settled.copy()
        np.maximum.at(out, self._open.records, self._open.most)
        return np.asarray(np.minimum(np.maximum(out, self.low), self.group))

    def reach(self) -> None:
        """Better lower ends, at the μ that are tried first."""
        for d, after, _ in self.passes.follow(self._grid, self.depth):
            part = slice(d, d + after.shape[1])
            found = largest_prior(after, *self.plain[:, part]) + self._grid[:, None]
            best = found.argmax(axis=0)
            self._keep(np.arange(d + 1, part.stop + 1), found[best, np.arange(len(best))], self._grid[best])

    def prove(self, enough: Floats, level: Floats) -> bool:
        """One round: intervals that may pass the levels of their numbers of records are bounded again, or cut, if any.

        What is at most ``enough`` need not be known better, now or later.
        """
        if not self._begun:
            self._begin(enough, level)
            return True
        done = self._open.most <= enough[self._open.records]
        self._settle(self._open.pick(done))
        self._open = self._open.pick(~done)
        over = self._open.most > level[self._open.records]
        if not over.any():
            return False
        lows, which = np.unique(self._open.low, return_inverse=True)
        worth, highs = np.full(len(lows), -np.inf), np.empty(len(lows))
        np.maximum.at(worth, which[over], (self._open.most - level[self._open.records])[over])
        highs[which] = self._open.high
        cut = np.argsort(-worth)[: min(_CUTS, int(np.isfinite(worth).sum()))]
        place = np.full(len(lows), -1)
        place[cut] = np.arange(len(cut))
        some = over & (place[which] >= 0)
        order = np.argsort(self._open.records[some], kind="stable")
        records, numbers = self._open.records[some][order], place[which][some][order]
        self._open = self._open.pick(~some)
        self._bound([_pieces(float(lows[i]), float(highs[i])) for i in cut], records, numbers, enough, level)
        return True

    def _begin(self, enough: Floats, level: Floats) -> None:
        """The first round: of many numbers of records some stand for those that follow, as long as that is enough.

        Whatever m more records are asked adds m losses at most, and leaves any law for the first of the others:
        Φ_{b+m} ≤ Φ_b + m·loss.
        """
        self._begun, loss = True, self.passes.loss
        grid = [np.concatenate([[-np.inf], self._grid, [np.inf]])]
        stride = int(np.clip(_STRIDE * float(self.group.max()) / loss, 1, _STRIDES))
        every = np.arange(1, self.depth + 1)
        if stride > 1:
            more = (stride - 1) * loss
            self._bound(
                grid, every[::stride], np.zeros(len(every[::stride]), dtype=np.int64), enough - more, level - more
            )
            still = np.zeros(self.depth + 1, dtype=bool)
            still[self._open.records] = True
            first = every - (every - 1) % stride
            self._settled[1:] = np.where(still[first], self._settled[0], self._settled[first] + loss * (every - first))
            self._settled[1:] = np.where(np.isneginf(self.group[1:]), -np.inf, self._settled[1:])
            self._open, every = _Intervals.none(), every[still[first]]
        if len(every):
            self._bound(grid, every, np.zeros(len(every), dtype=np.int64), enough, level)

    def _settle(self, done: _Intervals) -> None:
        np.maximum.at(self._settled, done.records, done.most)

    def _bound(self, intervals: list[Floats], records: Ints, which: Ints, enough: Floats, level: Floats) -> None:
        """Bounds on the pieces of some intervals for the numbers of records that ask for them, in rising order."""
        logs = np.unique(np.concatenate([ends[ends < np.inf] for ends in intervals]))
        parts = [self._open]
        for d, after, sizes in self.passes.follow(logs, self.depth):
            first, last = np.searchsorted(records, [d + 1, d + 1 + after.shape[1]])
            for number, ends in enumerate(intervals):
                here = records[first:last][which[first:last] == number]
                if not len(here):
                    continue
                x, y = self.plain[:, here - 1]
                at = np.searchsorted(logs, ends[ends < np.inf])
                for i, (low, high) in enumerate(itertools.pairwise(ends.tolist())):
                    near, far = at[i], at[min(i + 1, len(at) - 1)]
                    vectors, scales = after[near, here - d - 1], sizes[near, here - d - 1]
                    prior = largest_prior(vectors, x, y)
                    if np.isfinite(low):
                        self._keep(here, prior + low, np.full(len(here), low))
                    most = np.where(np.isneginf(prior), -np.inf, self.group[here])
                    if np.isfinite(high):
                        most = np.minimum(most, prior + high)
                    wide = _WIDE < high - low < np.inf  # there a chord says little and costs much
                    todo = np.flatnonzero(most > level[here]) if not wide else np.zeros(0, dtype=np.int64)
                    for begin in range(0, len(todo), _AT_ONCE):
                        some = todo[begin : begin + _AT_ONCE]
                        where = here[some] - d - 1
                        chord = _on_scale(after[far, where], sizes[far, where] - scales[some])
                        ends_of = np.full(len(some), low), np.full(len(some), high)
                        bound = on_chord(*ends_of, vectors[some], chord, scales[some], x[some], y[some])
                        most[some] = np.minimum(most[some], bound)
                    over = most > enough[here]
                    np.maximum.at(self._settled, here[~over], most[~over])
                    count = int(over.sum())
                    parts.append(_Intervals(np.full(count, low), np.full(count, high), here[over], most[over]))
        self._open = _Intervals.joined(parts)

    def _keep(self, records: Ints, found: Floats, logs: Floats) -> None:
        better = (found > self.low[records]) & np.isfinite(found)
        self.low[records[better]] = np.minimum(found, self.group[records])[better]
        self.mu[records[better]] = logs[better]

    def law(self, records: int) -> tuple[tuple[int, float], ...]:
        """The law of the first of so many records behind the lower end; a value may have no more than a limit."""
        if records == 0:
            return ()
        vector = np.zeros(self.passes.size)
        for _, after, _ in self.passes.follow(self.mu[records : records + 1], records):
            vector = after[0, -1]
        x, y = self.plain[:, records - 1]
        best, law = -math.inf, np.zeros(self.passes.size)
        for u in range(self.passes.size):
            for v in range(u, self.passes.size):
                tried = np.zeros(self.passes.size)
                if u == v and vector[u] >= 0:
                    tried[u] = 1.0
                elif vector[u] * vector[v] < 0:
                    tried[[u, v]] = abs(vector[v]), abs(vector[u])
                if tried @ x > 0 and (tried @ y) / (tried @ x) > best:
                    best, law = float((tried @ y) / (tried @ x)), tried / tried.sum()
        return tuple((int(u), float(law[u])) for u in np.flatnonzero(law))


@dataclass(frozen=True, eq=False)
class _Intervals:
    """Intervals of log μ for some numbers of records, and what is leaked inside at most."""

    low: Floats
    high: Floats
    records: Ints
    most: Floats

    @classmethod
    def none(cls) -> _Intervals:
        nothing = np.zeros(0)
        return cls(nothing, nothing, np.zeros(0, dtype=np.int64), nothing)

    @classmethod
    def joined(cls, parts: list[_Intervals]) -> _Intervals:
        names = ("low", "high", "records", "most")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def pick(self, some: Mask) -> _Intervals:
        return _Intervals(self.low[some], self.high[some], self.records[some], self.most[some])


def _on_scale(vectors: Floats, more: Floats) -> Floats:
    """On another scale; what is no number there bounds nothing."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(vectors * np.exp(more)[:, None])


def _pieces(low: float, high: float) -> Floats:
    """The ends of an interval and what lies between."""
    if np.isneginf(low):
        return np.concatenate([[low], np.linspace(high - _STEP, high, _PIECES + 1)])
    if np.isposinf(high):
        return np.append(np.linspace(low, low + _STEP, _PIECES + 1), high)
    return np.linspace(low, high, _PIECES + 1)


class LastSide:
    """The side after a target, for one pair of values, by number of records: logs, from none to ``depth``."""

    def __init__(self, kernel: Floats, x: int, y: int, loss: float, depth: int, known: bool, most: float) -> None:
        pair = np.array([x]), np.array([y])
        self.ends = LongEnds(
            LongSide(kernel, np.ones(len(kernel)), depth + 1, known, *pair), np.zeros(1, int), loss, most
        )
        self.low, self.high = np.zeros(depth + 1), np.zeros(depth + 1)
        self._read()

    def _read(self) -> None:
        for name in ("low", "high"):
            table = getattr(self.ends, name)[0]
            out = np.zeros(len(table) + 1)
            out[1:] = table[:, -1]
            if table.shape[1] > 1:
                out[1:] = np.maximum(out[1:], np.maximum.accumulate(table[:, :-1].max(axis=1)))
            if name == "high":  # more records never say less
                out = np.minimum.accumulate(out[::-1])[::-1]
            setattr(self, name, np.maximum(out, 0.0))

    def reach(self) -> None:
        """Better bounds, at the μ that are tried first."""
        self.ends.look(np.zeros(1, int), self.ends.first(np.zeros(1, int)))
        self._read()

    def prove(self, level: Floats) -> None:
        """One round: ends that may pass the levels of their numbers of records are bounded again."""
        self.ends.look(np.zeros(1, int), self.ends.aims(np.zeros(1, int), level[None]))
        self._read()


@dataclass(frozen=True, eq=False)
class Worst:
    """What a series leaks: logs, the record's own loss included; and the record and pair behind the lower end."""

    lower: float
    upper: float
    pair: tuple[int, int]
    records: int
    """Before the target."""
    added: tuple[float, float]
    law: tuple[tuple[int, float], ...]
    after: tuple[int, int, float]
    """The end after the target: its distance, its value or the end of the series, and log μ."""


class AnyStart:
    """All records of a long series of one kernel; ``length`` None: without end."""

    def __init__(self, chain: Chain, length: int | None, known: bool) -> None:
        """See ``any_start_series``, which refuses what this cannot do."""
        self.kernel, self.length, self.known = chain.kernels[0], length, known
        self.path = path_length(self.kernel)
        depth = forgets(self.kernel)
        slow = depth if length is None else min(length - 1, depth)
        self.slow = slow >= _SLOW and slow * (1 - float(np.diag(self.kernel).min())) <= _MOST_MOVES
        """Whether the chain is followed in leaps."""
        self.depth = slow if self.slow else min(slow, _DEEPEST)
        self._hints: dict[tuple[int, int], tuple[int, float, int]] = {}
        self._order = self._likeliest()
        self._near = self._order[:1]
        self.width = WIDTH
        self._powers: tuple[float, dict[bytes, Floats], dict[bytes, Floats]] = (0.0, {}, {})

    def _likeliest(self) -> list[tuple[int, int]]:
        """Pairs by what they add where losses are small."""
        k, near, power, far = len(self.kernel), 0.0, self.kernel, 1
        x, y = np.nonzero(~np.eye(k, dtype=bool))
        total = np.zeros(len(x))
        while near < self.depth:
            for table in (power, power.T / np.maximum(power.sum(axis=0)[:, None], 1e-300)):
                total += np.abs(table[x] - table[y]).sum(axis=1) * (far - near)
            power, near, far = power @ power, far, 2 * far
        return [(int(x[i]), int(y[i])) for i in np.argsort(-total, kind="stable")]

    def serves(self, loss: float) -> bool:
        """Whether products keep all that is positive: no entry is rarer than such a path without gain."""
        return 0 < loss <= MOST_LOSS and loss * self.path <= -math.log(_LEAST) / 2

    def quick(self, loss: float) -> float:
        """What those pairs leak that leaked most the last time: what a search for the right loss needs."""
        if self.slow:
            self._choose(loss)
            found = self._climbed(self._series(loss, self._near), self._near)
            self._near = [
                pair for pair, total in zip(self._near, found, strict=True) if total >= _NEAR_BEST * found.max()
            ]
            return float(found.max())
        return max(self._of_pair(pair, loss, 0.0, proof=False).lower for pair in self._near)

    def _choose(self, loss: float) -> None:
        """Which pairs of a slow chain to begin with."""
        if not self._hints:
            some = self._order[:_COMPARED]
            rough = self._series(loss, some).compare()
            order = np.argsort(-rough)
            self._near = [
                some[i] for n, i in enumerate(order[:_CLIMBED]) if n == 0 or rough[i] >= _NEAR_BEST * rough.max()
            ]

    def _series(self, loss: float, pairs: list[tuple[int, int]]) -> SlowStart:
        """Of a slow chain."""
        return SlowStart(self.kernel, pairs, loss, self._side_bound(loss), self.length, self.depth, self.known)

    def _climbed(self, series: SlowStart, pairs: list[tuple[int, int]]) -> Floats:
        """What some pairs reach, from where they were worst the last time."""
        place = {pair: i for i, pair in enumerate(series.pairs)}
        hints = {place[pair]: self._hints[pair] for pair in pairs if pair in self._hints}
        found = series.climb(np.array([place[pair] for pair in pairs]), hints)
        self._hints.update({series.pairs[i]: hint for i, hint in series.hints.items()})
        return found

    def _of_slow(self, loss: float) -> Worst:
        """All pairs of a slow chain."""
        self._choose(loss)
        series, pairs = self._series(loss, self._order), self._near
        reached = self._climbed(series, pairs)
        upper = series.prove(self.width)
        at, records, mu = series.at
        if records > 0:
            self._hints[series.pairs[at]] = records, mu, series.after.best_known(at)
        best = [pair for pair, total in zip(pairs, reached.tolist(), strict=True) if total >= _NEAR_BEST * series.best]
        self._near = list(dict.fromkeys([series.pairs[at], *best]))
        rest = series.top if self.length is None else self.length - 1 - records
        distance, state, added, log_mu = series.after.behind(at, rest)
        group = math.inf if self.length is None else loss * self.length
        return Worst(
            series.best,
            min(upper, group),
            series.pairs[at],
            records,
            (max(0.0, series.best - loss - added), added),
            series.law(),
            (distance, state if state >= 0 else OPEN_END, log_mu),
        )

    def at(self, loss: float) -> Worst:
        """The worst of all pairs and records."""
        if self.slow:
            return self._of_slow(loss)
        best: Worst | None = None
        upper, leaks, k = 0.0, [], len(self.kernel)
        followed = self._order
        if self.depth * k * (k - 1) * (k + 1) > _MOST_WORK:  # minutes: the closed form bounds the other pairs
            followed, upper = self._order[:_FEW_PAIRS], loss + 2 * self._side_bound(loss)
        for pair in followed:
            found = self._of_pair(pair, loss, 0.0 if best is None else best.lower)
            upper = max(upper, found.upper)
            leaks.append((found.lower, pair))
            if best is None or found.lower > best.lower:
                best = found
        assert best is not None
        self._near = [pair for lower, pair in leaks if lower >= _NEAR_BEST * best.lower]
        group = math.inf if self.length is None else loss * self.length
        return Worst(best.lower, min(upper, group), best.pair, best.records, best.added, best.law, best.after)

    def _of_pair(self, pair: tuple[int, int], loss: float, reached: float, proof: bool = True) -> Worst:
        """One pair: followed until it is known, or proved to leak no more than what is reached elsewhere."""
        x, y, depth = *pair, self.depth
        most = self._side_bound(loss)
        passes = self._passes(pair, loss)
        before = FirstSide(passes[1], depth, most)
        after = LastSide(self.kernel, x, y, loss, depth, self.known, most)
        room = _ROUNDING * (depth + len(self.kernel))
        records = np.arange(depth + 1)
        behind = np.full(depth + 1, depth) if self.length is None else np.minimum(self.length - 1 - records, depth)
        endless = self.length is None or self.length - 1 > depth
        recurs = bool(np.isfinite(before.low[-1]))  # otherwise no record farther from the first has these values
        tails = -math.inf, 0.0
        if endless and proof:
            tails = beyond(passes[1], depth, most) if recurs else -math.inf, beyond(passes[0], depth, most)
        farther = np.full(depth + 1, endless) & (behind == depth)
        before.reach()
        after.reach()
        for turn in range(_ROUNDS):
            least = loss + before.low + after.low[behind]
            goal = max(float(least.max()), reached)
            goal += max(self.width * goal, 8 * room)
            high = after.high[behind]
            total = loss + before.high + high
            over = total > goal
            if not over.any() or turn == _ROUNDS - 1:
                break
            spare = np.where(over, np.maximum(_AHEAD * (goal - np.where(over, least, 0.0)), 0.0), 0.0)
            wanted = np.where(over, before.low + spare, np.inf)
            later = np.full(depth + 1, np.inf)
            np.minimum.at(later, behind[over], (after.low[behind] + spare)[over])
            looked = before.prove(goal - loss - high, wanted)
            if (after.high > later).any():
                after.prove(later)
            elif not looked:
                break
        upper = float((total + np.where(farther, np.maximum(tails[1] - high, 0.0), 0.0)).max())
        if endless and proof:
            upper = max(upper, loss + tails[0] + max(tails[1], float(after.high.max())))
        at = int(least.argmax())
        distance, state, added, log_mu = after.ends.behind(0, int(behind[at]), None)
        return Worst(
            float(least[at]),
            upper + 2 * room,
            pair,
            at,
            (float(before.low[at]), float(added)),
            before.law(at),
            (distance, state, log_mu),
        )

    def _passes(self, pair: tuple[int, int], loss: float) -> tuple[Passes, Passes]:
        """After and before a target; all pairs share the powers of their kernels."""
        if self._powers[0] != loss:
            self._powers = loss, {}, {}
        turned = np.ascontiguousarray(self.kernel.T)
        block = BLOCK if self.depth < DEEP else DEEP_BLOCK
        after, before = self._powers[1:]
        return Passes(self.kernel, *pair, loss, after, block), Passes(turned, *pair, loss, before, block)

    def _side_bound(self, loss: float) -> float:
        """What the closed form says of a side, with one step or many at once."""
        return closed_side(self.kernel, loss, math.inf if self.length is None else self.length - 1, _DOUBLINGS)


def any_start_series(chain: Chain, length: int | None, known: bool) -> AnyStart | None:
    """None for what cannot be worked out this way."""
    if chain.start is not None or chain.period > 1 or not 3 <= chain.size <= MOST_STATES:
        return None
    kernel = chain.kernels[0]
    path = path_length(kernel)
    rare = math.log(float(kernel[kernel > 0].min())) * path < math.log(_LEAST)
    return None if path == 0 or rare else AnyStart(chain, length, known)


__all__ = ["OPEN_END", "AnyStart", "Worst", "any_start_series"]
