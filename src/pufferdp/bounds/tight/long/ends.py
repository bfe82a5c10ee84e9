"""The side after targets of a slow chain: ends of the series and known records, in spans of numbers of records.

See ``spans`` for the bounds. Functions of μ that fall and are convex have their roots between tangents and chords.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.bounds.tight.long.leaps import Leaps
from pufferdp.bounds.tight.long.spans import ENDLESS, NEWTON, SETTLED, Cells, climb, spans

_CHORD: Final = 1e-14
"""Room for the rounding of a chord."""
_FAR_BELOW: Final = -0.5
"""What is reached so far below μ has lost its digits."""
_LARGEST_WEIGHT: Final = 1e250
_FARTHER: Final = np.array([0.0, 1e-4, 1e-2, 0.3, 4.0, 300.0])
"""Steps of log μ into an interval without end."""
_SHARED: Final = 24
"""Log μ that the ends of a pair share."""
_ROWS: Final = 3_000
_HOPE: Final = 100.0
"""Newton's method is given up where the last step, so many times, would not be enough."""
_LARGEST_LOG: Final = 600.0


@dataclass(eq=False)
class _Ends:
    """Ends of the side after targets: rows of one pair and span of records (G,), by known value or without (G, V)."""

    pair: Ints
    first: Ints
    many: Ints
    left: Floats
    """Log μ where the root is, for all of a span."""
    right: Floats
    low: Floats
    """What the first end of a span adds at least."""
    high: Floats
    """What any end of a span adds at most; −∞: it is none, or another row has it."""
    mu: Floats
    """Log μ behind the lower end."""

    _NAMES = ("pair", "first", "many", "left", "right", "low", "high", "mu")

    def __len__(self) -> int:
        return len(self.pair)

    def pick(self, some: Mask | Ints) -> _Ends:
        return _Ends(*(getattr(self, name)[some] for name in self._NAMES))

    def put(self, some: Mask | Ints, other: _Ends) -> None:
        for name in self._NAMES[3:]:
            getattr(self, name)[some] = getattr(other, name)

    @classmethod
    def joined(cls, parts: list[_Ends]) -> _Ends:
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls._NAMES))


class SpansAfter:
    """The side after targets: to the end of the series, or to a record that is known."""

    def __init__(
        self, kernel: Floats, x: Ints, y: Ints, loss: float, most: float, top: int, endless: bool, known: bool
    ) -> None:
        """Up to ``top`` records one by one; whether there may be more."""
        self.leaps, self.x, self.y, self.loss, self.most = Leaps(kernel, loss), x, y, loss, most
        self.top, self.endless, self.known = top, endless, known
        self._near = _Near(kernel)
        self._tables: dict[int, tuple[Ints, Ints, Floats, Floats, Ints, Floats, Floats]] = {}
        pairs = np.arange(len(x))
        self.open = self._ends(pairs, np.full(len(x), top), np.full(len(x), ENDLESS if endless else 1), 1, 1)
        self.seen = self._ends(pairs[:0], pairs[:0], pairs[:0], len(kernel), 2)
        """Known records."""
        self.far = self._ends(pairs[:0], pairs[:0], pairs[:0], 1, 2)
        """Those behind all that are looked at, whatever their value."""
        if known and top > 0:
            first, many = spans(top, endless)
            if endless:
                first, many = first[:-1], many[:-1]
                self.far = self._ends(pairs, np.full(len(x), top), np.full(len(x), ENDLESS), 1, 2)
            pair, number = (part.ravel() for part in np.meshgrid(pairs, np.arange(len(first)), indexing="ij"))
            self.seen = self._ends(pair, first[number], many[number], len(kernel), 2)
        self.ends = self._ends(pairs[:0], pairs[:0], pairs[:0], 1, 1)
        self.points = self._ends(pairs[:0], pairs[:0], pairs[:0], len(kernel), 2)
        """Numbers of records of which only lower ends are known: up to the end of the series, and by known value."""
        self._sort(pairs)

    def _ends(self, pair: Ints, first: Ints, many: Ints, columns: int, less: int) -> _Ends:
        """Before anything is known of them: group privacy and the closed form."""
        group = np.maximum(np.minimum(self.loss * (first + many - less), self.most), 0.0)
        high = np.repeat(group[:, None], columns, axis=1)
        nothing = np.full_like(high, -np.inf)
        return _Ends(pair, first, many.copy(), nothing, -nothing, nothing.copy(), high, np.zeros_like(high))

    def begin(self, logs: Floats, pairs: Ints, numbers: Ints) -> None:
        """First bounds, at the same log μ for all ends of a pair, and for these numbers of records."""
        numbers = np.unique(numbers[(numbers > 0) & (numbers < self.top)])
        pair, number = (part.ravel() for part in np.meshgrid(pairs, numbers, indexing="ij"))
        self.open = _Ends.joined([self.open, self._ends(pair, number, np.ones_like(pair), 1, 1)])
        table = np.broadcast_to(logs, (len(self.x), len(logs)))
        for ends, look in ((self.open, self._look_open), (self.seen, self._look_seen), (self.far, self._look_far)):
            some = np.flatnonzero(np.isin(ends.pair, pairs))
            if len(some):
                part = ends.pick(some)
                look(part, table[part.pair])
                ends.put(some, part)
        self._sort(pairs)

    def _sort(self, pairs: Ints) -> None:
        """Tables by number of records of each pair: more records never say less."""
        for pair in pairs.tolist():
            one = self.open.pick(self.open.pair == pair)
            at = np.where(one.many >= ENDLESS, ENDLESS, one.first)
            order = np.argsort(at)
            at = at[order]
            reached = np.where(at >= ENDLESS, self.top, at)  # what is reached with so many is reached with more
            high = np.minimum.accumulate(one.high[order, 0][::-1])[::-1]
            low = np.maximum(one.low[order, 0], 0.0)
            end, point = (ends.pick(ends.pair == pair) for ends in (self.ends, self.points))
            reached, low = np.append(reached, end.first), np.append(low, end.low[:, 0])
            order = np.argsort(reached, kind="stable")
            opened = at, reached[order], np.maximum.accumulate(low[order]), high
            two, three = (ends.pick(ends.pair == pair) for ends in (self.seen, self.far))
            none = np.full(len(point), -np.inf)
            first = np.concatenate([two.first, three.first, point.first])
            least = np.concatenate([two.low.max(axis=1), three.low[:, 0], point.low.max(axis=1)])
            most = np.concatenate([two.high.max(axis=1), three.high[:, 0], none])
            order = np.argsort(first, kind="stable")
            known = first[order], np.maximum.accumulate(least[order]), np.maximum.accumulate(most[order])
            self._tables[pair] = *opened, *known

    def between(self, pair: Ints, records: Ints) -> tuple[Floats, Floats]:
        """What so many records add, at least and at most."""
        low, high = self._open_between(pair, records)
        for one in np.unique(pair) if self.known else ():
            ours = np.flatnonzero(pair == one)
            at, least, most = self._tables[int(one)][4:]
            if len(at):
                near = np.searchsorted(at, records[ours], side="right") - 1
                some = ours[near >= 0]
                near = near[near >= 0]
                low[some], high[some] = np.maximum(low[some], least[near]), np.maximum(high[some], most[near])
        return low, high

    def _open_between(self, pair: Ints, records: Ints) -> tuple[Floats, Floats]:
        """Where nothing is known."""
        low, high = np.zeros(len(pair)), np.zeros(len(pair))
        for one in np.unique(pair):
            ours = pair == one
            at, reached, least, most = self._tables[int(one)][:4]
            asked = records[ours]
            under = np.searchsorted(reached, asked, side="right") - 1
            low[ours] = np.where(under >= 0, least[np.maximum(under, 0)], 0.0)
            bound = most[np.minimum(np.searchsorted(at, asked), len(most) - 1)]
            high[ours] = np.where(asked > 0, np.maximum(np.minimum(bound, self.loss * asked), low[ours]), 0.0)
        return low, high

    def reach(self, pair: Ints, records: Ints, steps: int = NEWTON) -> None:
        """Better lower ends for sides of so many records, where that may matter."""
        low, records = self.between(pair, records)[0], np.minimum(records, self.top)
        some = self._open_between(pair, records)[1] > low
        fresh = self._fresh(self.ends, pair[some], records[some], 1)
        if len(fresh):
            enough = self.between(fresh.pair, fresh.first)[0]
            self._newton(fresh, self._open_between(fresh.pair, fresh.first)[0][:, None], enough, steps)
            self.ends = _Ends.joined([self.ends, fresh])
            self._sort(np.unique(fresh.pair))
        if self.known:
            nearer = np.zeros(len(pair), dtype=bool)
            for one in np.unique(pair):
                nearer |= (pair == one) & (records < self.best_known(int(one)))
            self.reach_known(pair[nearer], records[nearer], steps)

    def reach_known(self, pair: Ints, records: Ints, steps: int = NEWTON) -> None:
        """Better lower ends for known records at exactly this distance."""
        fresh = self._fresh(self.points, pair, records, 2)
        if not len(fresh):
            return
        guess = np.empty_like(fresh.low)
        for one in np.unique(fresh.pair):
            ours = np.flatnonzero(fresh.pair == one)
            rows, known = np.flatnonzero(self.seen.pair == one), np.flatnonzero(self.points.pair == one)
            first = np.concatenate([self.points.first[known], self.seen.first[rows]])
            least = np.concatenate([self.points.low[known], self.seen.low[rows]])
            near = np.abs(first[None] - fresh.first[ours, None]).argmin(axis=1)
            guess[ours] = np.maximum(least[near], 0.0)
        # Values that say much less nearby are not looked at.
        guess[guess < 0.9 * guess.max(axis=1, keepdims=True)] = -np.inf
        self._newton(fresh, guess, np.zeros(len(fresh)), steps)
        self.points = _Ends.joined([self.points, fresh])
        self._sort(np.unique(fresh.pair))

    def _fresh(self, ends: _Ends, pair: Ints, records: Ints, less: int) -> _Ends:
        """Numbers of records that were not looked at yet."""
        base = 2 * ENDLESS
        keys = np.unique((pair * base + records)[records > 0])
        keys = keys[~np.isin(keys, ends.pair * base + ends.first)]
        return self._ends(keys // base, keys % base, np.ones(len(keys), dtype=np.int64), ends.low.shape[1], less)

    def _newton(self, fresh: _Ends, guess: Floats, enough: Floats, steps: int) -> None:
        """Lower ends from what they are about, where they may be more than enough; −∞: not looked at.

        One column: the end of the series.
        """
        said, known = np.zeros_like(guess), guess.shape[1] > 1
        if known:
            x, y = self._plain(fresh)
            with np.errstate(divide="ignore", invalid="ignore"):
                said = np.log(y) - np.log(x)
        row, column = np.nonzero(np.isfinite(said) & np.isfinite(guess))
        logs, gain = guess - np.where(np.isfinite(said), said, 0.0), math.exp(self.loss)
        for _ in range(steps):
            if not len(row):
                break
            asked, prior, who = (
                np.clip(logs[row, column], -_LARGEST_LOG, _LARGEST_LOG),
                said[row, column],
                fresh.pair[row],
            )
            vectors, below, _ = self.leaps.ask(self.x[who], self.y[who], asked, fresh.first[row])
            signed, under = vectors.sum(axis=1), below.sum(axis=1)
            if known:
                at = np.arange(len(row)), column
                lift = np.where(vectors[at] > 0, 1.0, gain)
                signed, under = vectors[at] * lift, below[at] * lift
            with np.errstate(divide="ignore", invalid="ignore"):
                share = signed / under
                fine = (under > 0) & (share > _FAR_BELOW)
                found = np.where(fine, asked + prior + np.log1p(np.where(fine, share, 0.0)), -np.inf)
            better = found > fresh.low[row, column]
            fresh.low[row[better], column[better]], fresh.mu[row[better], column[better]] = found[better], asked[better]
            logs[row, column] = np.where(fine, found - prior, asked)
            enough = np.maximum(enough, fresh.low.max(axis=1))
            more = fine & (share > SETTLED * found) & (found + _HOPE * share > enough[row])
            row, column = row[more], column[more]
        fresh.low = np.minimum(fresh.low, fresh.high)

    def climb(self, pairs: Ints, near: dict[int, int]) -> None:
        """Better lower ends for known records, around the best of each pair."""
        low, high = np.empty(len(pairs), dtype=np.int64), np.empty(len(pairs), dtype=np.int64)
        for i, one in enumerate(pairs.tolist()):
            if one in near:
                low[i], high[i] = max(1, int(0.8 * near[one])), min(self.top, math.ceil(1.25 * near[one]))
                continue
            rows = np.flatnonzero(self.seen.pair == one)
            rows = rows[np.argsort(self.seen.first[rows])]
            at = int(self.seen.low[rows].max(axis=1).argmax())
            low[i], high[i] = (self.seen.first[rows[np.clip(at + step, 0, len(rows) - 1)]] for step in (-1, 1))
        climb(low, high, self.top, lambda tried: self._known_at(pairs, tried))

    def _known_at(self, pairs: Ints, records: Ints) -> Floats:
        who = np.repeat(pairs, records.shape[1])
        self.reach_known(who, records.ravel())
        base = 2 * ENDLESS
        keys = self.points.pair * base + self.points.first
        order = np.argsort(keys)
        at = order[np.searchsorted(keys[order], who * base + records.ravel())]
        return np.asarray(self.points.low[at].max(axis=1).reshape(records.shape))

    def best_known(self, pair: int) -> int:
        """The distance of the known record that says most."""
        rows = np.flatnonzero(self.points.pair == pair)
        if not self.known or not len(rows):
            return 1
        return int(self.points.first[rows[self.points.low[rows].max(axis=1).argmax()]])

    def prove(self, pair: Ints, records: Ints, level: Floats) -> None:
        """One round for numbers of records whose upper ends should not pass a level."""
        some = records > 0
        pair, level = pair[some], np.maximum(level[some], 0.0)
        records = np.where(records[some] > self.top, ENDLESS, records[some])
        base = 2 * ENDLESS
        keys, where = np.unique(pair * base + records, return_inverse=True)
        wanted = np.full(len(keys), np.inf)
        np.minimum.at(wanted, where, level)
        pair, records = keys // base, keys % base
        self._prove_open(pair, records, wanted)
        if self.known:
            self._prove_known(pair, records, wanted)
        self._sort(np.unique(pair))

    def _prove_open(self, pair: Ints, records: Ints, wanted: Floats) -> None:
        low, high = self._open_between(pair, records)
        todo = high > wanted
        if not todo.any():
            return
        pair, records, low, high = pair[todo], records[todo], low[todo, None], high[todo, None]
        base = 2 * ENDLESS
        here = self.open.pair * base + np.where(self.open.many >= ENDLESS, ENDLESS, self.open.first)
        endless = records >= ENDLESS
        fresh = self._ends(pair, np.where(endless, self.top, records), np.where(endless, ENDLESS, 1), 1, 1)
        order = np.argsort(here)
        at = order[np.minimum(np.searchsorted(here[order], pair * base + records), len(here) - 1)]
        old = here[at] == pair * base + records
        fresh.put(old, self.open.pick(at[old]))
        fresh.left, fresh.right, fresh.high = low, high, np.minimum(fresh.high, high)
        self._look_open(fresh, _probes(low[:, 0], high[:, 0]))
        self.open = _Ends.joined([self.open.pick(~np.isin(here, pair * base + records)), fresh])

    def _prove_known(self, pair: Ints, records: Ints, wanted: Floats) -> None:
        """Known records matter to all sides that are no shorter."""
        levels = [np.full(len(ends), np.inf) for ends in (self.seen, self.far)]
        for one in np.unique(pair):
            ours = pair == one
            order = np.argsort(records[ours])
            at, least = records[ours][order], np.minimum.accumulate(wanted[ours][order][::-1])[::-1]
            for ends, level in zip((self.seen, self.far), levels, strict=True):
                rows = np.flatnonzero(ends.pair == one)
                place = np.searchsorted(at, ends.first[rows])
                level[rows] = np.where(place < len(at), least[np.minimum(place, len(at) - 1)], np.inf)
        rows = np.flatnonzero(self.far.high[:, 0] > levels[1])
        if len(rows):
            part = self.far.pick(rows)
            self._look_far(part, _probes(part.left[:, 0], part.right[:, 0]))
            self.far.put(rows, part)
        over = self.seen.high > levels[0][:, None]
        rows = np.flatnonzero(over.any(axis=1))
        if not len(rows):
            return
        ends, over, level = self.seen.pick(rows), over[rows], levels[0][rows, None]
        with np.errstate(invalid="ignore"):
            gap = np.where(np.isfinite(ends.left) & np.isfinite(ends.right), ends.right - ends.left, np.inf)
            split = over & (ends.many > 1)[:, None] & (gap < 0.5 * (ends.high - level))
        divided = split.any(axis=1)
        children: list[_Ends] = []
        if divided.any():
            parent = ends.pick(divided)
            some, level = split[divided], level[divided]
            with np.errstate(invalid="ignore"):
                need = level - parent.low
                share = 0.7 * need / np.maximum(parent.high - parent.low, 1e-300)
                share = np.where((need > 0) & np.isfinite(share), share, 0.25)
            share = np.where(some, np.clip(share, 0.0, 0.5), 0.5).min(axis=1)
            many = np.maximum((share * parent.many).astype(np.int64), 1)
            which = np.arange(len(parent))
            blank = np.zeros(len(parent))
            cells = Cells.unbounded(which, parent.first, parent.many, blank, blank, blank).cut_records(many)
            child = parent.pick(cells.pair)
            child.first, child.many = cells.first, cells.many
            child.low = np.full_like(child.low, -np.inf)
            child.high = np.where(some[cells.pair], child.high, -np.inf)
            children.append(child)
            ends.high[divided] = np.where(some, -np.inf, parent.high)
            over &= ~split
        if over.any():
            again = np.flatnonzero(over.any(axis=1))
            part = ends.pick(again)
            self._look_seen(part, self._shared(part, over[again], 0.0))
            ends.put(again, part)
        for child in children:
            self._look_seen(child, self._shared(child, np.isfinite(child.high), 1.0))
        self.seen.put(rows, ends)
        kept = np.flatnonzero(np.isfinite(self.seen.high).any(axis=1))
        self.seen = _Ends.joined([self.seen.pick(kept), *children])

    def _shared(self, ends: _Ends, some: Mask, wider: float) -> Floats:
        """Log μ for some ends of each pair, the same for all of the pair: (G, probe)."""
        out = np.empty((len(ends), _SHARED))
        for one in np.unique(ends.pair):
            ours = np.flatnonzero(ends.pair == one)
            open_ends = some[ours]
            left, right = ends.left[ours][open_ends], ends.right[ours][open_ends]
            if len(left) <= _SHARED // len(_FARTHER):
                logs = _probes(left, right).ravel()
            else:
                worst = np.argsort(-ends.high[ours][open_ends])[: _SHARED // 4 // 2]
                fine = [part[np.isfinite(part)] for part in (left, right)]
                spread = np.concatenate(fine)
                logs = np.concatenate([left[worst], right[worst]])
                logs = logs[np.isfinite(logs)]
                if len(spread) and np.isneginf(left).any():
                    logs = np.append(logs, spread.min() - _FARTHER[1:])
                if len(spread) and np.isposinf(right).any():
                    logs = np.append(logs, spread.max() + _FARTHER[1:])
                share = np.linspace(0.0, 1.0, _SHARED - len(logs))
                logs = np.append(logs, np.quantile(spread, share) if len(spread) else share * _LARGEST_LOG)
            if wider and len(logs) <= _SHARED - 4:
                far = max(1e-3, float(np.ptp(logs)))
                logs = np.concatenate(
                    [logs, [logs.min() - far, logs.min() - 9 * far, logs.max() + far, logs.max() + 9 * far]]
                )
            logs = np.sort(np.clip(logs, -_LARGEST_LOG, _LARGEST_LOG))
            out[ours] = np.pad(logs, (0, _SHARED - len(logs)), mode="edge")[:_SHARED]
        return out

    def _asked(self, ends: _Ends, logs: Floats) -> tuple[Floats, Floats, Floats]:
        """Vectors, their parts below, (G, probe, k), and logs of their scales."""
        shape, count = logs.shape, logs.shape[1]
        pair, first = np.repeat(ends.pair, count), np.repeat(ends.first, count)
        vectors, below, sizes = self.leaps.ask(self.x[pair], self.y[pair], logs.ravel(), first)
        return vectors.reshape(*shape, -1), below.reshape(*shape, -1), sizes.reshape(shape)

    def _look_open(self, ends: _Ends, logs: Floats) -> None:
        """Better bounds from log μ in rising order, (G, probe)."""
        vectors, below, sizes = self._asked(ends, logs)
        more = np.where(ends.many > 1, np.exp(min(self.most, _LARGEST_LOG)), 1.0)[:, None]
        above = np.maximum(vectors, 0.0).sum(axis=2)
        whole = vectors.sum(axis=2)
        signed = whole + (more - 1) * above
        slope = below.sum(axis=2) + (more - 1) * (below * (vectors > 0)).sum(axis=2)
        _reach(ends, logs, whole[..., None], below.sum(axis=2)[..., None], np.zeros((len(ends), 1)))
        _narrow(ends, logs, signed[..., None], slope[..., None], sizes, np.zeros((len(ends), 1)))

    def _look_far(self, ends: _Ends, logs: Floats) -> None:
        """The same for all known records from some on: of whatever value, and j steps behind the first of them."""
        vectors, below, sizes = self._asked(ends, logs)
        x, y = self._plain(ends)
        with np.errstate(divide="ignore", invalid="ignore"):
            prior = np.where(y > 0, np.log(y) - np.log(x), -np.inf).max(axis=1, keepdims=True)
        above = vectors > 0
        signed, slope = ((part * above).sum(axis=2)[..., None] for part in (vectors, below))
        _narrow(ends, logs, signed, slope, sizes, prior)

    def _look_seen(self, ends: _Ends, logs: Floats) -> None:
        """The same for known records, by value."""
        for begin in range(0, len(ends), _ROWS):
            some = np.arange(begin, min(begin + _ROWS, len(ends)))
            part = ends.pick(some)
            self._look_some(part, logs[some])
            ends.put(some, part)

    def _look_some(self, ends: _Ends, logs: Floats) -> None:
        vectors, below, sizes = self._asked(ends, logs)
        gain = math.exp(self.loss)
        positive = vectors > 0
        seen, under = (np.where(positive, part, part * gain) for part in (vectors, below))
        x, y = self._plain(ends)
        with np.errstate(divide="ignore", invalid="ignore"):
            said = np.log(y) - np.log(x)
        _reach(ends, logs, seen, under, said)
        weights = self._near.weights(ends.many)
        lift = np.where(
            ends.many > 1,
            np.exp(np.minimum(self.loss * (ends.many - 1), min(self.most + self.loss, _LARGEST_LOG))),
            1.0,
        )
        lift = lift[:, None, None]
        others = weights.swapaxes(1, 2)
        with np.errstate(over="ignore", invalid="ignore"):
            signed = lift * ((seen * positive) @ others) + np.minimum(seen, 0.0)
            slope = lift * ((under * positive) @ others) + np.where(positive, 0.0, under)
        _narrow(ends, logs, signed, slope, sizes, self._largest_prior(ends, weights, x, y, said))

    def _plain(self, ends: _Ends) -> tuple[Floats, Floats]:
        powers, at = self.leaps.plain(ends.first), np.arange(len(ends))
        return powers[at, self.x[ends.pair]], powers[at, self.y[ends.pair]]

    @staticmethod
    def _largest_prior(ends: _Ends, weights: Floats, x: Floats, y: Floats, said: Floats) -> Floats:
        """The most that ends of a span say by themselves: a quotient of sums of those that have most to say."""
        k = x.shape[1]
        p, q = (part[:, None] * weights for part in (x, y))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(q > 0, q / p, 0.0)
            ratio[:, np.arange(k), np.arange(k)] = np.inf  # it counts in any case
            order = np.argsort(-ratio, axis=2)
            top, bottom = (np.cumsum(np.take_along_axis(part, order, axis=2), axis=2) for part in (q, p))
            out = np.log(np.where(top > 0, top / bottom, 0.0).max(axis=2))
        alone = np.where(np.isfinite(said), said, -np.inf)
        return np.where((ends.many == 1)[:, None], alone, out)

    def behind(self, pair: int, records: int) -> tuple[int, int, float, float]:
        """The end behind what is reached: its distance, its value or −1, what it adds, and log μ."""
        best, end = 0.0, (min(records, self.top), -1, 0.0, 0.0)
        for ends in (self.open, self.ends, self.seen, self.points):
            some = ends.pick((ends.pair == pair) & (ends.first <= records))
            if len(some):
                row, column = np.unravel_index(int(some.low.argmax()), some.low.shape)
                if some.low[row, column] > best:
                    best = float(some.low[row, column])
                    value = int(column) if ends is self.seen or ends is self.points else -1
                    end = int(some.first[row]), value, best, float(some.mu[row, column])
        return end


def _reach(ends: _Ends, logs: Floats, signed: Floats, below: Floats, said: Floats) -> None:
    """What algorithms at log μ reach, (G, probe, V)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = signed / below
        found = logs[..., None] + said[:, None] + np.log1p(np.maximum(share, _FAR_BELOW))
        found = np.where((below > 0) & (share > _FAR_BELOW) & np.isfinite(found), found, -np.inf)
    best = found.argmax(axis=1)
    most = np.take_along_axis(found, best[:, None], axis=1)[:, 0]
    better = (most > ends.low) & np.isfinite(ends.high)
    ends.low = np.where(better, np.minimum(most, ends.high), ends.low)
    ends.mu = np.where(better, np.take_along_axis(logs, best, axis=1), ends.mu)


def _narrow(ends: _Ends, logs: Floats, signed: Floats, slope: Floats, sizes: Floats, prior: Floats) -> None:
    """Roots from convex falling functions of μ, (G, probe, V): below by a tangent, above by a chord."""
    over = (signed > 0).sum(axis=1)
    low, high = np.maximum(over - 1, 0), np.minimum(over, logs.shape[1] - 1)

    def at(table: Floats, where: Ints) -> Floats:
        return np.asarray(np.take_along_axis(table, where, axis=1))

    def at_each(table: Floats, where: Ints) -> Floats:
        return np.asarray(np.take_along_axis(table, where[:, None], axis=1)[:, 0])

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        up, near = at_each(signed, low), at(logs, low)
        down = at_each(signed, high) * np.exp(np.clip(at(sizes, high) - at(sizes, low), -_LARGEST_LOG, _LARGEST_LOG))
        root = near + np.log1p(np.expm1(at(logs, high) - near) * up / (up - down))
        root = np.fmin(root, at(logs, high))
        root = np.where(over == 0, logs[:, :1], np.where(over == logs.shape[1], np.inf, root))
        bound = np.where(np.isneginf(prior), -np.inf, root + _CHORD + prior)
        tangent = near + np.log1p(np.maximum(up / at_each(slope, low), 0.0))
        left = np.where(over > 0, np.where(np.isfinite(tangent), tangent, near), -np.inf)
        # At the first end of a span the root is no less than what is reached says, and for all of it it is no smaller.
        left = np.fmax(left, np.where(np.isfinite(prior), ends.low - prior, -np.inf))
    ends.high = np.minimum(ends.high, np.where(np.isnan(bound), np.inf, bound))
    ends.left, ends.right = np.minimum(left, root), root


def _probes(left: Floats, right: Floats) -> Floats:
    """Log μ all over some intervals, (E, probe), which may have no end on one side."""
    closed = (np.isfinite(left) & np.isfinite(right))[:, None]
    with np.errstate(invalid="ignore"):
        between = left[:, None] + (right - left)[:, None] * np.linspace(0.0, 1.0, len(_FARTHER))
        up, down = left[:, None] + _FARTHER, right[:, None] - _FARTHER[::-1]
    wide = np.linspace(-0.5, 0.5, len(_FARTHER)) * _LARGEST_LOG
    one_sided = np.where(np.isfinite(left)[:, None], up, np.where(np.isfinite(right)[:, None], down, wide))
    return np.asarray(np.where(closed, between, one_sided))


class _Near:
    """P^j(u, v)/P^j(v, v) at most, for all j below a number."""

    def __init__(self, kernel: Floats) -> None:
        k, count = len(kernel), ENDLESS.bit_length()
        stay = np.diag(kernel)
        self._stay = stay
        caught = np.broadcast_to(kernel, (k, k, k)).copy()  # v keeps whoever comes
        caught[np.arange(k), np.arange(k)] = np.eye(k)
        self._met = np.empty((count, k, k))  # (doublings, v, u): from u to v within so many steps
        least, self._least = np.ones(k), np.empty((count, k))  # P^j(v, v) for all j below twice that
        power = kernel
        for doublings in range(count):
            self._met[doublings] = caught[np.arange(k), :, np.arange(k)]
            with np.errstate(under="ignore"):
                lower = np.maximum(power.min(axis=0), np.diag(power) * stay ** (2.0**doublings))
                lower = np.maximum(lower, stay ** (2.0 ** (doublings + 1)))
            self._least[doublings] = least = np.minimum(least, lower)
            caught, power = caught @ caught, power @ power

    def weights(self, many: Ints) -> Floats:
        """By known value and value of the record that begins a span, (G, v, u)."""
        steps = many - 1
        doublings = np.where(steps > 1, np.frexp(np.maximum(steps - 1, 1).astype(float))[1], 0)
        with np.errstate(under="ignore", divide="ignore", invalid="ignore"):
            least = np.maximum(self._least[doublings], self._stay ** steps[:, None])
            out = self._met[doublings] / least[:, :, None]
        k = out.shape[1]
        out = np.where((steps > 0)[:, None, None], out, 0.0)
        out[:, np.arange(k), np.arange(k)] = 1.0
        return np.where(np.isnan(out), _LARGEST_WEIGHT, np.minimum(out, _LARGEST_WEIGHT))
