"""Long series that end before their chain has forgotten: one kernel, one loss, a law of the first record, every record.

As in ``steady``, one pass of a pair of values at one μ says something about every number of records on a side, every
known value and the end of the series. Here a side may begin with a given law, and a series may have 10^5 records: as
long as the questions do not change, many steps are one product with a power of the kernel. Chains that forget slowly
change theirs seldom. What a product gets wrong is seen by its signs and is done again step by step.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.leakage.tight import inputs
from pufferdp.leakage.tight.inputs import Chain
from pufferdp.leakage.tight.odds import largest_log_odds, side_bound
from pufferdp.leakage.tight.outlook import MOST_LOSS, OPEN_END, quotient
from pufferdp.leakage.tight.series import SeriesLeakage

WIDTH: Final = 1e-7
"""How narrow brackets are, as a share of the leakage."""
_PASSES: Final = 60
_PROBES: Final = 16
"""μ of one pass for each pair."""
_AHEAD: Final = 0.45
"""The share of what is left that a side is allowed to take."""
_NEAR_BEST: Final = 0.97
_ROUNDING: Final = 80 * 2.0**-53
"""More than the rounding of one step, as a share of the quotient."""
_CHORD: Final = 1e-14
_FAR_BELOW: Final = -0.5
"""What is reached so far below μ has lost its digits."""
_BLOCK: Final = 64
"""Steps that are made at once."""
_MOST_GAINED: Final = 100.0
"""And so much loss at most, so that powers of kernels stay numbers."""
_LARGEST_LOG: Final = 600.0
_MOST_ENDS: Final = 3_000_000
"""Ends of one side of all pairs, so that memory stays bounded."""
_LEAST: Final = 1e-200
"""Where a path between two states is rarer than this, products may lose it."""
_FEW_STATES: Final = 8
"""With more there are too many questions to keep the powers of each."""
_CLOSED_FORM: Final = 14
"""Twofold steps that the closed form is tried with."""


class WholeSeries:
    """All records of a series of a primitive chain whose first record has a law."""

    def __init__(self, chain: Chain, n: int, adversary: str) -> None:
        """See ``whole_series``, which refuses what this cannot do."""
        assert chain.start is not None
        self.chain, self.n, self.adversary = chain, n, adversary
        kernel, k, known = chain.kernels[0], chain.size, adversary == "bdp"
        self.x, self.y = np.nonzero(~np.eye(k, dtype=bool))
        possible = inputs.supports(chain, min(n, k * k + 2))
        short = np.flatnonzero(~possible.all(axis=1))
        self._first = int(short[-1]) + 1 if len(short) else 0
        """Records before this one cannot have every value; the others can."""
        self._possible = possible[: self._first]
        before, end = kernel.T, chain.start
        if chain.stationary:
            before, end = kernel.T * chain.start / chain.start[:, None], np.ones(k)
        self._lanes = (
            _Lane(before, end, n, known, self.x, self.y),
            _Lane(kernel, np.ones(k), n, known, self.x, self.y),
        )
        self._near = np.arange(len(self.x))
        self.path, reach = 1, kernel > 0
        """Steps in which every state leads to every other."""
        while not reach.all():
            self.path, reach = self.path + 1, reach @ (kernel > 0)

    def serves(self, loss: float) -> bool:
        """Whether products keep all that is positive: no entry is rarer than such a path without gain."""
        return 0 < loss <= MOST_LOSS and loss * self.path <= -math.log(_LEAST) / 2

    def quick(self, loss: float) -> float:
        """What those pairs leak that leaked most the last time: what a search for the right loss needs."""
        return float(self._solved(loss, self._near)[2].max())

    def at(self, loss: float) -> SeriesLeakage:
        """Brackets; records that are not the worst have upper ends that may be as large as that one's."""
        pairs = np.arange(len(self.x))
        sides, most, least = self._solved(loss, pairs)
        by_pair = least.max(axis=1)
        self._near = np.flatnonzero(by_pair >= _NEAR_BEST * by_pair.max())
        worst, n = least.argmax(axis=0), self.n
        lower = least[worst, np.arange(n)]
        alive = np.isfinite(lower)
        distance, state = np.zeros((2, n), dtype=np.int64), np.full((2, n), OPEN_END)
        added, mu = np.zeros((2, n)), np.zeros((2, n))
        found = SeriesLeakage(
            losses=np.full(n, loss),
            lower=np.where(alive, lower, 0.0),
            upper=np.where(alive, np.minimum(most.max(axis=0), loss * n), 0.0),
            likelier=np.where(alive, self.x[worst], 0),
            other=np.where(alive, self.y[worst], 0),
            adversary=self.adversary,
            ends=(distance, state),
            added=added,
            mu=mu,
        )
        record = found.worst - 1  # of this one alone the ends are told
        for lane, records in ((0, record), (1, n - 1 - record)):
            late = self._late(record) if lane == 0 else None
            end = sides[lane].behind(int(worst[record]), records, late)
            distance[lane, record], state[lane, record], added[lane, record], mu[lane, record] = end
        return found

    def _solved(self, loss: float, pairs: Ints) -> tuple[list[_Ends], Floats, Floats]:
        """Both sides, and what each record leaks at most and at least, for each pair: logs, (pair, n)."""
        side = self._side_bound(loss)
        sides = [_Ends(lane, pairs, loss, side) for lane in self._lanes]
        room = _ROUNDING * (self.n + self.chain.size)
        turns = [slice(None), slice(None, None, -1)]
        for turn in range(_PASSES):
            lower, upper = ([self._by_record(ends, name) for ends in sides] for name in ("low", "high"))
            least, most = (loss + part[0] + part[1][:, ::-1] for part in (lower, upper))
            goal = float(least.max())
            goal += max(WIDTH * goal, 8 * room)
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

    def _side_bound(self, loss: float) -> float:
        """What the closed form says of a side, with one step or many at once: where passes begin."""
        bounds, power = [loss * (self.n - 1)], self.chain.kernels[0]
        for doublings in range(_CLOSED_FORM):
            bounds.append(side_bound(loss, largest_log_odds(power), 1 << doublings))
            power = power @ power
        return min(bounds) * (1 + 1e-12)

    def _late(self, record: int) -> tuple[int, Mask]:
        """Distances before a record up to which every value can be known, and which can at those beyond."""
        return max(0, record - self._first), self._possible[:record][::-1][-self._first :]

    def _by_record(self, ends: _Ends, name: str) -> Floats:
        """The most that any end of each number of records says, (pair, n); −∞: a record cannot have both values."""
        table: Floats = getattr(ends, name)
        out = np.zeros((len(table), self.n))
        out[:, 1:] = table[..., -1]
        first = self._first if ends.lane is self._lanes[0] else 0
        if ends.lane.known:
            best = np.maximum.accumulate(table[..., :-1].max(axis=2), axis=1)
            out[:, 1 + first :] = np.maximum(out[:, 1 + first :], best[:, : best.shape[1] - first])
            for record, values in enumerate(self._possible[:first] if first else ()):
                here = np.where(values, table[..., :-1], -np.inf).max(axis=2)  # record is that many from the first
                out[:, record + 1 :] = np.maximum(out[:, record + 1 :], here[:, : here.shape[1] - record])
        if name == "high" and ends.lane.plain:
            out = np.minimum.accumulate(out[:, ::-1], axis=1)[:, ::-1]
        if first:
            alive = self._possible[:, self.x[ends.pairs]] & self._possible[:, self.y[ends.pairs]]
            out = np.maximum(out, 0.0)
            out[:, :first] = np.where(alive.T, out[:, :first], -np.inf)
            return out
        return np.maximum(out, 0.0)


class _Lane:
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


class _Ends:
    """Bounds on every end of one side at one loss: logs, (pair, distance, known value or the end of the series)."""

    def __init__(self, lane: _Lane, pairs: Ints, loss: float, most: float) -> None:
        self.lane, self.pairs, self.loss, self.most = lane, pairs, loss, most
        self.said = lane.said[pairs]
        fine = np.isfinite(self.said)
        self.low = np.where(fine, 0.0, -np.inf)  # who asks nothing learns nothing, and no less
        self.high = np.where(fine, np.minimum(loss * np.arange(1, lane.n), most)[:, None], -np.inf)
        if lane.known:  # a known record adds nothing itself
            group = np.minimum(loss * np.arange(lane.n - 1), most)[:, None]
            self.high[..., :-1] = np.where(fine[..., :-1], group, -np.inf)
        self.mu = np.zeros_like(self.low)
        self.steps = max(1, min(_BLOCK, int(_MOST_GAINED / loss))) if loss > 0 else _BLOCK
        self._powers: dict[int, Floats] = {}

    def first(self, active: Ints) -> Floats:
        """Log μ to begin with."""
        steps = np.linspace(0.0, 1.0, _PROBES) * min(self.most, _LARGEST_LOG)
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
        out = np.zeros((len(active), _PROBES))
        for row in range(len(active)):
            open_ends = undecided[row]
            values, gap = asked[row][open_ends] - said[row][open_ends], (high[row] - asked[row])[open_ends]
            if len(values):  # the ends with most to lose, and others all over the range
                top = np.argpartition(-gap, min(_PROBES // 2, len(gap) - 1))[: _PROBES // 2]
                share = np.linspace(0.0, 1.0, _PROBES - len(top))
                out[row] = np.sort(np.concatenate([values[top], np.quantile(values, share, method="nearest")]))
        return np.clip(out, -_LARGEST_LOG, _LARGEST_LOG)

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
    if k < 3 or chain.period > 1 or not chain.primitive or chain.start is None:
        return None
    if chain.stationary and not (chain.start > 0).all():
        return None
    kernel = chain.kernels[0]
    if k * (k - 1) * n * (k * (adversary == "bdp") + 1) > _MOST_ENDS:
        return None
    found = WholeSeries(chain, n, adversary)
    return found if math.log(kernel[kernel > 0].min()) * found.path >= math.log(_LEAST) else None
