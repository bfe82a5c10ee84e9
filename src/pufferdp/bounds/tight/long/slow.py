"""Slow chains whose first record may have any law: all pairs and numbers of records, by branch and bound.

See ``any_start`` for what is looked for, and ``spans`` for the bounds. First a few pairs are climbed: coarse numbers of
records, then finer ones around the best. What they reach is compared with upper ends of spans and intervals of μ, for
all pairs together. Those that may pass it are cut, along the records or along μ, whichever says more.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints
from pufferdp.bounds.tight.long.ends import SpansAfter
from pufferdp.bounds.tight.long.spans import ENDLESS, NEWTON, SETTLED, Cells, SpansBefore, climb, first_logs, spans

_ROUNDS: Final = 60
_MOST_CELLS: Final = 400_000
_FEW_PAIRS: Final = 6
_WORTH: Final = 1e-8
"""A smaller share more is not worth another climb."""
_ROUNDING: Final = 80 * 2.0**-53
"""More than the rounding of one step, as a share of the quotient."""


class SlowStart:
    """One chain, one loss, some pairs of values."""

    def __init__(
        self,
        kernel: Floats,
        pairs: list[tuple[int, int]],
        loss: float,
        most: float,
        length: int | None,
        depth: int,
        known: bool,
    ) -> None:
        """No side adds more than ``most``; behind ``depth`` records hardly anything is said."""
        x, y = (np.array(part) for part in zip(*pairs, strict=True))
        self.loss, self.most, self.length, self.pairs = loss, most, length, pairs
        self.top = depth if length is None else min(length - 1, depth)
        self.endless = length is None or length - 1 > depth
        self.before = SpansBefore(kernel, x, y, loss, most)
        self.after = SpansAfter(kernel, x, y, loss, most, self.top, self.endless, known)
        self.room = _ROUNDING * (self.top + len(kernel))
        self.spans = spans(self.top, self.endless)
        if self.endless and length is not None:
            self.spans[1][-1] = min(ENDLESS, length - self.spans[0][-1])
        powers = self.before.leaps.plain(self.spans[0])
        self.possible = np.array([((powers[:, a] > 0).any(1) & (powers[:, b] > 0).any(1)) for a, b in pairs])
        self.grid = first_logs(powers, x, y, most)
        self.best = -math.inf
        self.at: tuple[int, int, float] = 0, 0, 0.0
        """Behind it: the pair, the records before the target, and log μ."""
        self.hints: dict[int, tuple[int, float, int]] = {}
        """Of pairs that were climbed: records before the target, log μ, and the distance of a known record after it."""
        self._begun = np.zeros(len(pairs), dtype=bool)

    def _behind(self, records: Ints) -> Ints:
        """Records after a target that has so many before it."""
        return np.full(len(records), ENDLESS) if self.length is None else self.length - 1 - records

    def _begin(self, pairs: Ints) -> None:
        fresh = pairs[~self._begun[pairs]]
        if len(fresh):
            self._begun[fresh] = True
            numbers = np.zeros(0, dtype=np.int64) if self.endless else self._behind(self.spans[0])
            self.after.begin(self.grid, fresh, numbers)

    def climb(self, pairs: Ints, near: dict[int, tuple[int, float, int]]) -> Floats:
        """What each of some pairs reaches, from coarse numbers of records to fine ones.

        ``near``: for some pairs about how many records before the target are best, log μ, and the distance of the known
        record that is best after it.
        """
        self._begin(pairs)
        if self.top == 0:
            self._keep(int(pairs[0]), 0, 0.0, self.loss)
            return np.full(len(pairs), self.loss)
        if self.after.known:
            self.after.climb(pairs, {pair: hint[2] for pair, hint in near.items()})
        self.after.reach(pairs, np.full(len(pairs), self.top))
        best = self.loss + self.after.between(pairs, self._behind(0 * pairs))[0]
        for pair, total in zip(pairs.tolist(), best.tolist(), strict=True):
            self._keep(pair, 0, 0.0, total)
        low, high, log = (np.zeros(len(pairs), dtype=kind) for kind in (np.int64, np.int64, float))
        new = np.array([i for i, pair in enumerate(pairs.tolist()) if pair not in near], dtype=np.int64)
        if len(new):
            low[new], high[new], log[new] = self._coarse(pairs[new])
        for i, pair in enumerate(pairs.tolist()):
            if pair in near:
                records, log[i], _ = near[pair]
                low[i], high[i] = int(0.8 * records), min(self.top, math.ceil(1.25 * records))
        where = np.zeros(len(pairs), dtype=np.int64)

        def values(tried: Ints) -> Floats:
            rows, count = np.arange(len(pairs)), tried.shape[1]
            total, mu = self._reach(np.repeat(pairs, count), tried.ravel(), np.repeat(log, count))
            total = total.reshape(-1, count)
            at = total.argmax(axis=1)
            log[:] = mu.reshape(-1, count)[rows, at]
            better = total[rows, at] > best
            where[better], best[better] = tried[rows, at][better], total[rows, at][better]
            return total

        climb(np.maximum(low, 1), np.maximum(high, 1), self.top, values)
        for i in np.flatnonzero(where > 0).tolist():
            pair = int(pairs[i])
            self.hints[pair] = int(where[i]), float(log[i]), self.after.best_known(pair)
        return np.asarray(best)

    def _rough(self, pairs: Ints) -> Floats:
        """What coarse numbers of records before the target add, at the log μ that are tried first: (pair, span, μ)."""
        first = self.spans[0]
        pair, records, logs = (part.ravel() for part in np.meshgrid(pairs, first, self.grid, indexing="ij"))
        found = self.before.prior(pair.astype(np.int64), records.astype(np.int64), logs.astype(np.float64))
        return np.where(np.isfinite(found), found, -np.inf).reshape(len(pairs), len(first), -1)

    def compare(self) -> Floats:
        """What each pair reaches, roughly."""
        pairs = np.arange(len(self.pairs))
        self._begin(pairs)
        before = self._rough(pairs).max(axis=2)
        behind = self._behind(self.spans[0])
        after = np.stack([self.after.between(np.full(len(behind), pair), behind)[0] for pair in pairs])
        return np.asarray((before + after).max(axis=1))

    def _coarse(self, pairs: Ints) -> tuple[Ints, Ints, Floats]:
        """Between which numbers of records each pair is worst, and log μ there."""
        inside, rough = self.spans[0], self._rough(pairs)
        mu = self.grid[rough.argmax(axis=2)]
        who, records = (part.ravel() for part in np.meshgrid(pairs, inside, indexing="ij"))
        total, better = self._reach(who, records, mu.ravel())
        at, last = total.reshape(mu.shape).argmax(axis=1), len(inside) - 1
        log = better.reshape(mu.shape)[np.arange(len(pairs)), at]
        return inside[np.maximum(at - 1, 0)], inside[np.minimum(at + 1, last)], log

    def _reach(self, pair: Ints, records: Ints, mu: Floats, steps: int = NEWTON) -> tuple[Floats, Floats]:
        """What is reached, and better log μ."""
        found = np.full(len(pair), -np.inf)
        where = mu
        for _ in range(steps):
            step, last = self.before.reach(pair, records, mu), found.max()
            where = np.where(step.added > found, mu, where)
            found, mu = np.maximum(found, step.added), step.mu
            if found.max() <= max(last, 0.0) * (1 + SETTLED):
                break
        behind = self._behind(records)
        self.after.reach(pair, behind)
        total = self.loss + found + self.after.between(pair, behind)[0]
        best = int(total.argmax())
        self._keep(int(pair[best]), int(records[best]), float(where[best]), float(total[best]))
        return total, mu

    def _keep(self, pair: int, records: int, mu: float, total: float) -> None:
        if total > self.best:
            self.best, self.at = total, (pair, records, mu)

    def prove(self, width: float) -> float:
        """What no pair passes."""
        every = np.arange(len(self.pairs))
        self._begin(every)
        first, many = self.spans
        edges = np.concatenate([[-np.inf], self.grid, [np.inf]])
        pair, number, interval = (
            part.ravel() for part in np.meshgrid(every, np.arange(len(first)), np.arange(len(edges) - 1), indexing="ij")
        )
        fine = self.possible[pair, number]
        pair, number, interval = pair[fine], number[fine], interval[fine]
        ends = edges[interval], edges[interval + 1]
        cells = Cells.unbounded(pair, first[number], many[number], *ends, np.full(len(pair), self.most))
        cells = self.before.bound(cells, self._level(cells, width))
        settled = -math.inf
        for turn in range(_ROUNDS):
            goal = self._goal(width)
            low, high = self.after.between(cells.pair, self._behind(cells.first))
            nothing = self.loss + self.after.between(every, self._behind(0 * every))[1]
            total = self.loss + cells.most + high
            over = total > goal
            settled = max(settled, float(np.max(total, initial=-np.inf, where=~over)))
            cells, low, high, total = cells.pick(over), low[over], high[over], total[over]
            alone = np.flatnonzero(nothing > goal)
            if not (len(cells) or len(alone)) or turn == _ROUNDS - 1 or len(cells) > _MOST_CELLS:
                break
            excess, unsure = total - goal, high - low
            # What lies after the target counts for many cells at once.
            some = unsure > 0.3 * excess
            rest = 0.2 if len(np.unique(cells.pair)) > _FEW_PAIRS else 0.0  # of few pairs it is known well at once
            wanted = np.maximum(high - excess, low + np.maximum(rest * unsure, 0.05 * width * goal))
            self.after.prove(
                np.concatenate([cells.pair[some], alone]),
                np.concatenate([self._behind(cells.first)[some], self._behind(0 * alone)]),
                np.concatenate([wanted[some], np.full(len(alone), goal - self.loss)]),
            )
            waits = unsure > np.maximum(cells.by_records, cells.by_logs)
            moved = _cut(cells.pick(~waits), excess[~waits])
            moved = self.before.bound(moved, self._level(moved, width))
            self._improve(moved)
            cells = Cells.joined([cells.pick(waits), moved])
        top = max(settled, float(np.max(total, initial=-np.inf)), float(nothing.max()))
        return max(top, self.best) + 2 * self.room

    def _goal(self, width: float) -> float:
        """What upper ends need not pass."""
        return self.best + max(width * self.best, 8 * self.room)

    def _level(self, cells: Cells, width: float) -> Floats:
        """What the side before the target may add in each cell."""
        return self._goal(width) - self.loss - self.after.between(cells.pair, self._behind(cells.first))[1]

    def _improve(self, cells: Cells) -> None:
        """The likeliest of the new cells may reach more."""
        if not len(cells):
            return
        low = self.after.between(cells.pair, self._behind(cells.first))[0]
        value = np.where(np.isfinite(cells.low), cells.most + low, -np.inf)
        at = np.argsort(-value)[:8]
        at = at[np.isfinite(value[at])]
        if len(at):
            best = self.best
            self._reach(cells.pair[at], cells.first[at], cells.low[at], 1)
            if self.best > best * (1 + _WORTH):
                pair, records, mu = self.at
                hint = {} if records == 0 else {pair: (records, mu, self.after.best_known(pair))}
                self.climb(np.array([pair]), hint)

    def law(self) -> tuple[tuple[int, float], ...]:
        """The law of the first record behind what is reached; a value may have no more than a limit."""
        pair, records, mu = self.at
        if records == 0:
            return ()
        who, asked = np.array([pair]), np.array([records])
        found, weights = self.before.reach(who, asked, np.array([mu])), self.before.weights(who, asked)
        (u, v), odds = found.values[0].tolist(), float(found.odds[0])
        for state, sure in ((u, u == v or odds == 0), (v, math.isinf(odds))):
            if sure and all(part[0, state] > 0 for part in weights):
                return ((state, 1.0),)
        share = 1.0 if math.isinf(odds) else odds / (1 + odds)
        return ((u, 1 - share), (v, share))


def _cut(cells: Cells, excess: Floats) -> Cells:
    """Along the records where their number says more than the interval of μ does, or else along μ."""
    split = (cells.many > 1) & (cells.by_records >= cells.by_logs)
    need = cells.by_records - excess  # what may be left
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(need > 0, 0.7 * need / cells.by_records, 0.25)
    some = cells.pick(split)
    many = np.maximum((np.minimum(share[split], 0.5) * np.minimum(some.many, 1 << 30)).astype(np.int64), 1)
    many = 1 << (np.frexp(many.astype(float))[1] - 1)
    return Cells.joined([some.cut_records(many), cells.pick(~split).cut_logs()])
