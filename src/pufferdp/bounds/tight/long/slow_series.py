"""Slow chains in the law that they keep: all pairs and numbers of records, by branch and bound.

Both sides of a target are series that begin at it: the one before it goes backwards. A side never says less the more
records it has. So where b to c records lie before the target, nothing leaks more than c of them and all that follow
the first b add. Such a span of places is cut where that is too much. A series without end is one span, and so is one
that is much longer than its chain remembers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints
from pufferdp.bounds.tight.inputs import Chain
from pufferdp.bounds.tight.long.ends import SpansAfter
from pufferdp.bounds.tight.long.leaps import Leaps
from pufferdp.bounds.tight.long.spans import ENDLESS, NEWTON, climb, first_logs, forgets, path_length
from pufferdp.bounds.tight.odds import closed_side
from pufferdp.bounds.tight.outlook import MOST_LOSS

WIDTH: Final = 1e-7
"""How narrow brackets are, as a share of the leakage."""
_SLOW: Final = 8192
"""Chains that remember so many records are followed in leaps."""
_MOST_MOVES: Final = 3000.0
"""Where a state is left more often meanwhile, spans of records that are known to be in it hardly say anything."""
_MOST_STATES: Final = 8
"""Of more there are too many pairs and questions."""
_LEAST: Final = 1e-200
"""Where a path between two states is rarer than this, products may lose it."""
_DOUBLINGS: Final = 24
"""Twofold steps that the closed form is tried with."""
_ROUNDS: Final = 80
_PARTS: Final = 8
"""Spans that a span is cut into."""
_MOST_SPANS: Final = 30_000
"""Spans of places and of known records beyond which a bracket is given out as it is."""
_FEW_SPANS: Final = 3_000
"""The same where another way is likely to be better."""
_FEW_CELLS: Final = 64
"""Of more spans of places lower ends are not looked for: the best place is known by then."""
_AHEAD: Final = 0.45
"""The share of what is left that a side is allowed to take."""
_WORTH: Final = 1e-8
"""A smaller share more is not worth another climb."""
_NEAR_BEST: Final = 0.97
_COMPARED: Final = 2
"""Pairs that are climbed before all others are compared with them."""
_SAMPLED: Final = 400
"""Distances at which two values are compared for a first guess."""
_ROUNDING: Final = 80 * 2.0**-53
"""More than the rounding of one step, as a share of the quotient."""


@dataclass(frozen=True, eq=False)
class SlowWorst:
    """What a series leaks: logs, the record's own loss included; and what is behind the lower end."""

    lower: float
    upper: float
    pair: tuple[int, int]
    records: int | None
    """Before the target; None: without end."""
    sides: tuple[tuple[int, int, float, float], tuple[int, int, float, float]]
    """The ends before and after the target: distance, known value or −1, what is added, and log μ."""


class SlowSeries:
    """All records of a long series of one slow kernel; ``length`` None: without end."""

    def __init__(self, chain: Chain, length: int | None, known: bool) -> None:
        """See ``slow_series``, which refuses what this cannot do."""
        assert chain.start is not None
        kernel = chain.kernels[0]
        self.length, self.known, self.path = length, known, path_length(kernel)
        self.kernels = np.ascontiguousarray((kernel * chain.start[:, None]).T / chain.start[:, None]), kernel
        self.alike = bool((np.abs(self.kernels[0] - kernel) <= 8 * 2.0**-52 * kernel).all())
        """Whether the chain is the same backwards, so that one side stands for both."""
        depth = forgets(kernel)
        self.depth = depth if length is None else min(length - 1, depth)
        self.most_spans = _FEW_SPANS if known and _left_soon(kernel, self.depth) else _MOST_SPANS
        self._slopes = self._small_losses()
        x, y = np.nonzero(~np.eye(len(kernel), dtype=bool))
        self.pairs = [(int(x[i]), int(y[i])) for i in np.argsort(-self._slopes, kind="stable")]
        """By what they add where losses are small."""
        self._near = list(range(len(self.pairs)))[:_COMPARED]
        self._hints: dict[int, tuple[int, int, int]] = {}
        """Of pairs that were climbed: records before the target, and distances of known records on either side."""

    def _small_losses(self) -> Floats:
        """What each pair leaks where losses are small, as a share of the loss: how far apart two values keep a side."""
        last = self.depth if self.length is None else min((self.length - 1) // 2, self.depth)
        steps = np.unique(np.rint(np.geomspace(1, last, _SAMPLED)).astype(np.int64)) if last > 0 else np.zeros(0, int)
        x, y = np.nonzero(~np.eye(len(self.kernels[1]), dtype=bool))
        total = np.ones(len(x))
        for kernel in self.kernels if len(steps) else ():
            powers = Leaps(kernel, 0.0).plain(steps)
            apart = np.abs(powers[:, x] - powers[:, y]).sum(axis=2) / 2
            total += apart[0] + np.trapezoid(apart, steps + 0.5, axis=0)
        return total

    def likely(self, epsilon: float) -> float:
        """A loss that leaks about so much: the leakage is nearly a multiple of it."""
        return epsilon / float(self._slopes.max())

    def forget(self) -> None:
        """A search begins anew."""
        self._near, self._hints = list(range(len(self.pairs)))[:_COMPARED], {}

    def serves(self, loss: float) -> bool:
        """Whether products keep all that is positive: no entry is rarer than such a path without gain."""
        return 0 < loss <= MOST_LOSS and loss * self.path <= -math.log(_LEAST) / 2

    def quick(self, loss: float) -> float:
        """What those pairs leak that leaked most the last time: what a search for the right loss needs."""
        search = _Search(self, loss)
        found = search.climb(np.array(self._near), self._hints)
        self._hints.update(search.hints)
        self._near = [pair for pair, total in zip(self._near, found, strict=True) if total >= _NEAR_BEST * found.max()]
        return float(found.max())

    def at(self, loss: float, width: float = WIDTH) -> SlowWorst:
        """The worst of all pairs and records."""
        search = _Search(self, loss)
        search.compare()
        search.climb(np.array(self._near), self._hints)
        upper = search.prove(width)
        pair, records = search.at
        self._hints.update(search.hints)
        self._near = list(dict.fromkeys([pair, *self._near]))[:_COMPARED]
        group = math.inf if self.length is None else loss * self.length
        behind = ENDLESS if self.length is None else self.length - 1 - records
        sides = search.sides[0].behind(pair, records), search.sides[1].behind(pair, behind)
        place = None if self.length is None else records
        return SlowWorst(search.best, min(upper, group), self.pairs[pair], place, sides)

    def side_bound(self, loss: float) -> float:
        """What the closed form says of a side, with one step or many at once."""
        return closed_side(self.kernels[1], loss, math.inf if self.length is None else self.length - 1, _DOUBLINGS)


class _Search:
    """At one loss."""

    def __init__(self, series: SlowSeries, loss: float) -> None:
        self.loss, self.length = loss, series.length
        x, y = (np.array(part) for part in zip(*series.pairs, strict=True))
        most, top = series.side_bound(loss), series.depth
        endless = series.length is None or series.length - 1 > top
        kernels = series.kernels[1:] if series.alike else series.kernels
        ends = [SpansAfter(kernel, x, y, loss, most, top, endless, series.known) for kernel in kernels]
        self.sides = ends[0], ends[-1]
        self._each = ends
        self.top, self.known, self.most_spans = top, series.known, series.most_spans
        self.room = _ROUNDING * (top + len(series.kernels[1]))
        powers = Leaps(series.kernels[1], loss).plain(np.array([1, top]))
        self.grid = first_logs(powers, x, y, most)
        self.best = -math.inf
        self.at: tuple[int, int] = 0, 0
        """Behind it: the pair, and the records before the target."""
        self.hints: dict[int, tuple[int, int, int]] = {}
        self._begun = np.zeros(len(x), dtype=bool)

    def _begin(self, pairs: Ints) -> None:
        fresh = pairs[~self._begun[pairs]]
        self._begun[fresh] = True
        for side in self._each if len(fresh) else ():
            side.begin(self.grid, fresh, np.zeros(0, dtype=np.int64))

    def compare(self) -> None:
        """First bounds for all pairs."""
        self._begin(np.arange(len(self._begun)))

    def _behind(self, records: Ints) -> Ints:
        """Records after a target that has so many before it."""
        return np.full(len(records), ENDLESS) if self.length is None else self.length - 1 - records

    def climb(self, pairs: Ints, near: dict[int, tuple[int, int, int]]) -> Floats:
        """What each of some pairs reaches at least."""
        self._begin(pairs)
        if self.known:
            for place, side in enumerate(self._each):
                side.climb(pairs, {pair: hint[1 + place] for pair, hint in near.items()})
        middle = ENDLESS if self.length is None else (self.length - 1) // 2
        best = self._reach(pairs, np.full(len(pairs), middle))
        where = np.full(len(pairs), middle)
        if self.length is not None and self.length - 1 < 2 * self.top:
            self._climb_places(pairs, near, best, where)
        for pair, place in zip(pairs.tolist(), where.tolist(), strict=True):
            known = [side.best_known(pair) for side in (self._each[0], self._each[-1])]
            self.hints[pair] = place, known[0], known[1]
        return best

    def _climb_places(self, pairs: Ints, near: dict[int, tuple[int, int, int]], best: Floats, where: Ints) -> None:
        """Places between two, nearer and nearer to the best."""
        assert self.length is not None
        last, rows = self.length - 1, np.arange(len(pairs))
        low, high = np.ones(len(pairs), dtype=np.int64), np.full(len(pairs), last)
        for i, pair in enumerate(pairs.tolist()):
            if pair in near:
                low[i], high[i] = max(1, int(0.9 * near[pair][0])), min(last, math.ceil(1.1 * near[pair][0]) + 1)

        def values(tried: Ints) -> Floats:
            found = self._reach(np.repeat(pairs, tried.shape[1]), tried.ravel()).reshape(tried.shape)
            at = found.argmax(axis=1)
            better = found[rows, at] > best
            where[better], best[better] = tried[rows, at][better], found[rows, at][better]
            return found

        climb(low, high, last, values)

    def _reach(self, pair: Ints, records: Ints, steps: int = NEWTON) -> Floats:
        """What targets with so many records before them leak at least."""
        behind = self._behind(records)
        self.sides[0].reach(pair, records, steps)
        self.sides[1].reach(pair, behind, steps)
        total = self.loss + self.sides[0].between(pair, records)[0] + self.sides[1].between(pair, behind)[0]
        self._keep(pair, records, total)
        return np.asarray(total)

    def _keep(self, pair: Ints, records: Ints, total: Floats) -> None:
        """The most that is reached."""
        if len(total) and total.max() > self.best:
            best = int(total.argmax())
            self.best, self.at = float(total[best]), (int(pair[best]), int(records[best]))

    def prove(self, width: float) -> float:
        """What no pair passes: spans of places, from ``low`` to ``high`` records before the target."""
        pair = np.arange(len(self._begun))
        low = np.zeros(len(pair), dtype=np.int64)
        high = np.full(len(pair), ENDLESS if self.length is None else self.length - 1)
        settled = -math.inf
        for turn in range(_ROUNDS):
            before, after = self.sides[0].between(pair, high), self.sides[1].between(pair, self._behind(low))
            total = self.loss + before[1] + after[1]
            alone = (low == high) | (self.length is None)
            reached = self.best
            self._keep(pair[alone], high[alone], (self.loss + before[0] + after[0])[alone])
            if self.best > reached * (1 + _WORTH):  # somewhere else than was climbed: to the top of that
                who, place = self.at
                known = [side.best_known(who) for side in (self._each[0], self._each[-1])]
                self.climb(np.array([who]), {who: (place, known[0], known[1])})
            goal = self.best + max(width * self.best, 8 * self.room)
            over = total > goal
            settled = max(settled, float(np.max(total, initial=-np.inf, where=~over)))
            pair, low, high, total = pair[over], low[over], high[over], total[over]
            looked = len(pair) + sum(len(side.seen) for side in self._each)
            if not len(pair) or turn == _ROUNDS - 1 or looked > self.most_spans:
                break
            sides = [(part[0][over], part[1][over]) for part in (before, after)]
            unsure = sum(most - least for least, most in sides)
            cut = (high > low) & (unsure < 0.5 * (total - goal)) & (self.length is not None)
            spare = _AHEAD * np.maximum(goal - (total - unsure), 0.0)
            for side, records, (least, most) in zip(self.sides, (high, self._behind(low)), sides, strict=True):
                some = ~cut
                wanted = np.maximum(least + spare, most - (total - goal))[some]
                wanted = np.where((total - unsure)[some] < goal, np.minimum(wanted, (least + spare)[some]), wanted)
                side.prove(pair[some], records[some], wanted)
            if cut.any():
                kept = pair[~cut], low[~cut], high[~cut]
                cells = _cut(pair[cut], low[cut], high[cut])
                pair, low, high = (np.concatenate(parts) for parts in zip(kept, cells, strict=True))
                if len(cells[0]) <= _FEW_CELLS:
                    self._reach(cells[0], cells[1], 1)
        return max(settled, float(np.max(total, initial=-np.inf)), self.best) + 2 * self.room


def _cut(pair: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
    """Spans in parts of nearly the same size."""
    share = np.linspace(0.0, 1.0, _PARTS + 1)
    edges = np.rint(low[:, None] + (high + 1 - low)[:, None] * share).astype(np.int64)
    first, last = edges[:, :-1], edges[:, 1:] - 1
    some = last >= first
    return np.repeat(pair, _PARTS).reshape(some.shape)[some], first[some], last[some]


def _left_soon(kernel: Floats, depth: int) -> bool:
    """Whether some state is left very often within so many records."""
    return depth * (1 - float(np.diag(kernel).min())) > _MOST_MOVES


def slow_series(chain: Chain, length: int | None, known: bool) -> SlowSeries | None:
    """None for what cannot be worked out this way, or is better worked out another way."""
    if not chain.stationary or chain.period > 1 or not 3 <= chain.size <= _MOST_STATES:
        return None
    if chain.start is None or not (chain.start > 0).all():
        return None
    kernel = chain.kernels[0]
    depth = forgets(kernel) if length is None else min(length - 1, forgets(kernel))
    if depth < _SLOW or (_left_soon(kernel, depth) and chain.size > 3 and not known):
        return None  # leaps of more than three states are short there
    path = path_length(kernel)
    rare = path == 0 or math.log(float(kernel[kernel > 0].min())) * path < math.log(_LEAST)
    return None if rare else SlowSeries(chain, length, known)
