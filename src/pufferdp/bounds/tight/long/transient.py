"""Series of chains with states that are left for good, whose first record has a law: every record, in logs.

Who is in a state that can be left for good was never elsewhere than where it can be reached from, and all records
before say so. Such values become ever rarer, and tell ever more: weights of two values come to differ by e^(n·rate),
far beyond what a double holds. So vectors are followed as in ``steady``, numerator and denominator apart, each entry by
its log. As long as the questions do not change, many steps are one product with a power of the kernel. Entries that are
not too far from each other are multiplied as numbers; others are added in logs, one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.attack import LISTED, NOTHING, SideAttack
from pufferdp.bounds.tight.inputs import Chain
from pufferdp.bounds.tight.outlook import OPEN_END
from pufferdp.bounds.tight.steady import LongEnds, LongSide, WholeSeries

_STEPS: Final = 256
"""Steps that are made at once."""
_RANGE: Final = 300.0
"""Logs of factors that differ by no more are multiplied as numbers: products of two are numbers still."""
_FEWEST: Final = 8
"""Where factors differ by more within so many steps, all is done in logs."""
_PROBES: Final = 16
"""μ of one pass for each pair."""
_ROUNDING: Final = 4 * 2.0**-53
_LARGE: Final = 16.0
"""With larger losses an entry whose sign is lost in rounding may matter: what it says is not used."""
_MOST_ENDS: Final = 3_000_000
"""Ends of one side of all pairs, so that memory stays bounded."""
_AT_ONCE: Final = 1 << 20
"""Entries of a table of logs, so that memory stays bounded."""
_MOST_STATES: Final = 16
_LEAST_RECORDS: Final = 512
_FORGOTTEN: Final = 24.0
"""Series of so many times the distance at which a share of 1/e is left stand for all that are longer."""
_PASSES: Final = 60
_AHEAD: Final = 0.45
"""The share of what is left that a side is allowed to take."""
_NEAR_BEST: Final = 0.97


class LogKernel:
    """Products with powers of one kernel, in logs."""

    def __init__(self, kernel: Floats, loss: float, n: int) -> None:
        self.kernel, self.loss, self.size = kernel, loss, len(kernel)
        self.steps, self.scaled = self._steps(n)
        self._powers: dict[bytes, tuple[Floats, Floats, float]] = {}

    def _steps(self, n: int) -> tuple[int, bool]:
        """Steps that are made at once, and whether their factors are numbers on one scale."""
        power, low, high, steps = self.kernel, 0.0, 0.0, 0
        while steps < min(_STEPS, max(n - 1, 1)):
            logs = np.log(power[power > 0])
            low, high = min(low, float(logs.min())), max(high, float(logs.max()))
            if high - low + (steps + 1) * self.loss > _RANGE:
                break
            power, steps = power @ self.kernel, steps + 1
        return (steps, True) if steps >= _FEWEST else (_FEWEST, False)

    def _power(self, asked: Mask) -> tuple[Floats, Floats, float]:
        """(K D)^j K for j = 0, 1, …, where D multiplies the states asked for: logs, numbers and the log of their scale.

        Numbers stay within a double: each step is worth a factor of e^loss at most, and is scaled back by half of it.
        """
        key = asked.tobytes()
        if key not in self._powers:
            with np.errstate(divide="ignore"):
                step, first = np.log(self.kernel) + self.loss * asked, np.log(self.kernel)
            if self.scaled:
                back = np.exp(self.loss * asked - self.loss / 2)
                numbers = [self.kernel]
                for _ in range(self.steps - 1):
                    numbers.append((self.kernel * back) @ numbers[-1])
                with np.errstate(divide="ignore"):
                    logs = np.log(np.stack(numbers, axis=1)) + self.loss / 2 * np.arange(self.steps)[:, None]
            else:
                rows = [first]
                for _ in range(self.steps - 1):
                    rows.append(log_sum(step[:, :, None] + rows[-1][None], axis=1))
                logs = np.stack(rows, axis=1)
            top = float(logs.max())
            self._powers[key] = logs, np.exp(logs - top), top
        return self._powers[key]

    def products(self, vectors: Floats, asked: Mask, steps: int) -> Floats:
        """Logs of vectors before each gain: (rows, k) to (rows, steps, k)."""
        logs, numbers, scale = self._power(asked)
        k, out = self.size, np.empty((len(vectors), steps, self.size))
        top = vectors.max(axis=1)
        top = np.where(np.isfinite(top), top, 0.0)
        low = np.min(vectors, axis=1, initial=np.inf, where=np.isfinite(vectors))
        near = np.flatnonzero(top - low <= _RANGE) if self.scaled else np.zeros(0, dtype=np.int64)
        far = np.setdiff1d(np.arange(len(vectors)), near)
        if len(near):
            flat = np.exp(vectors[near] - top[near, None]) @ numbers[:, :steps].reshape(k, -1)
            with np.errstate(divide="ignore"):
                out[near] = (np.log(flat) + (top[near, None] + scale)).reshape(-1, steps, k)
        many = max(1, _AT_ONCE // (k * k * steps))
        for begin in range(0, len(far), many):
            some = far[begin : begin + many]
            out[some] = log_sum(vectors[some][:, :, None, None] + logs[None, :, :steps], axis=1)
        return out


def log_sum(logs: Floats, axis: int) -> Floats:
    """Log of a sum of exponentials; −∞ for nothing."""
    top = logs.max(axis=axis)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(logs - np.expand_dims(top, axis)).sum(axis=axis)) + top)


class LogSide(LongSide):
    """One side of every record: what its ends say by themselves, however rare they are."""

    def __init__(self, kernel: Floats, end: Floats, n: int, known: bool, x: Ints, y: Ints) -> None:
        """See ``LongSide``."""
        self.kernel, self.end, self.n, self.known, self.x, self.y = kernel, end, n, known, x, y
        self.plain = bool((end == 1).all())
        k = len(kernel)
        self.said = np.zeros((len(x), n - 1, k * known + 1))
        with np.errstate(divide="ignore"):
            self.log_end, now = np.log(end), np.log(np.eye(k))
        self.largest = 0.0
        """The largest log of a weight."""
        plain, nothing = LogKernel(kernel, 0.0, n), np.zeros(k, dtype=bool)
        for d in range(0, n - 1, plain.steps):
            laws = plain.products(now, nothing, min(plain.steps, n - 1 - d))
            now = laws[:, -1]
            self.largest = max(self.largest, float(np.max(np.abs(now), initial=0.0, where=np.isfinite(now))))
            ends = log_sum(laws + self.log_end, axis=2)[..., None]
            logs = np.concatenate([laws, ends], axis=2) if known else ends
            both = np.isfinite(logs[x]) & np.isfinite(logs[y])
            with np.errstate(invalid="ignore"):
                self.said[:, d : d + laws.shape[1]] = np.where(both, logs[y] - logs[x], -np.inf)
        if self.plain:
            self.said[..., -1] = 0.0

    def room(self, kernel: LogKernel, distance: int) -> float:
        """For the rounding of logs up to a distance: of all numbers that are added, and of powers."""
        blocks = -(-distance // kernel.steps)
        largest = self.largest + distance * kernel.loss
        return _ROUNDING * blocks * (largest + (kernel.steps + 8) * (kernel.size + 2))


class LogEnds(LongEnds):
    """Bounds on every end of one side at one loss."""

    lane: LogSide

    def __init__(self, lane: LogSide, pairs: Ints, loss: float, most: float) -> None:
        """See ``LongEnds``."""
        super().__init__(lane, pairs, loss, most)
        self.powers = LogKernel(lane.kernel, loss, lane.n)

    def first(self, active: Ints) -> Floats:
        """Log μ to begin with, all over the range."""
        said, high = self.said[active].reshape(len(active), -1), self.high[active].reshape(len(active), -1)
        fine = np.isfinite(said)
        low = np.min(-said, axis=1, initial=np.inf, where=fine)
        top = np.max(high - np.where(fine, said, 0.0), axis=1, initial=-np.inf, where=fine)
        low, top = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(top), top, 1.0)
        return np.asarray(low[:, None] + (top - low)[:, None] * np.linspace(0.0, 1.0, _PROBES))

    def _within(self, logs: Floats) -> Floats:
        return logs

    def look(self, active: Ints, logs: Floats) -> None:
        """One pass of some pairs: better bounds on all their ends."""
        k, pairs = len(self.lane.kernel), np.repeat(self.pairs[active], logs.shape[1])
        vectors, mu = np.full((2, logs.size, k), -np.inf), logs.reshape(-1, 1)
        index = np.arange(logs.size)
        vectors[0, index, self.lane.x[pairs]] = 0.0
        vectors[1, index, self.lane.y[pairs]] = 0.0
        asked, doubtful = vectors[0] > vectors[1] + mu, np.zeros(logs.size, dtype=bool)
        for d in range(0, self.lane.n - 1, self.powers.steps):
            steps = min(self.powers.steps, self.lane.n - 1 - d)
            seen, positive = self._block(vectors, asked, mu, steps)
            if self.loss > _LARGE:
                with np.errstate(invalid="ignore"):
                    near = np.abs(seen[0] - seen[1] - mu[..., None]) <= 4 * self.lane.room(self.powers, d + steps)
                doubtful |= near.any(axis=(1, 2))
            after = seen + self.loss * positive
            vectors, asked = after[:, :, -1], positive[:, -1]
            ends = log_sum(after + self.lane.log_end, axis=3)[..., None]
            tables = np.concatenate([seen, ends], axis=3) if self.lane.known else ends
            shape = (2, *logs.shape, steps, tables.shape[-1])
            self._bound_logs(active, slice(d, d + steps), tables.reshape(shape), logs, doubtful.reshape(logs.shape))

    def _block(self, vectors: Floats, asked: Mask, mu: Floats, steps: int) -> tuple[Floats, Mask]:
        """Vectors before each gain, (2, rows, steps, k), and which entries are positive: until questions change."""
        vectors, asked = vectors.copy(), asked.copy()
        seen = np.empty((2, len(asked), steps, asked.shape[1]))
        positive = np.empty(seen.shape[1:], dtype=bool)
        done = np.zeros(len(asked), dtype=np.int64)
        while (left := np.flatnonzero(done < steps)).size:
            codes = asked[left] @ (1 << np.arange(asked.shape[1]))
            for code in np.unique(codes):
                rows = left[codes == code]
                many = steps - int(done[rows].min())
                pattern = asked[rows[0]].copy()
                found = np.stack([self.powers.products(part[rows], pattern, many) for part in vectors])
                here = found[0] > found[1] + mu[rows, :, None]
                wrong = (here != pattern).any(axis=2)
                good = np.minimum(np.where(wrong.any(axis=1), wrong.argmax(axis=1) + 1, many), steps - done[rows])
                row, at = np.nonzero(np.arange(many) < good[:, None])
                seen[:, rows[row], done[rows][row] + at] = found[:, row, at]
                positive[rows[row], done[rows][row] + at] = here[row, at]
                last = np.arange(len(rows)), good - 1
                asked[rows] = here[last]
                vectors[:, rows] = found[:, last[0], last[1]] + self.loss * asked[rows]
                done[rows] += good
        return seen, positive

    def _bound_logs(self, active: Ints, part: slice, tables: Floats, logs: Floats, doubtful: Mask) -> None:
        """What weights say of the ends at some distances: tables of (2, pair, probe, distance, end), logs.

        A doubtful μ proves nothing: what it says lies too low.
        """
        room = self.lane.room(self.powers, part.stop)
        said, low, where = self.said[active, part], self.low[active, part], self.mu[active, part]
        above, below = tables[0], tables[1] + logs[:, :, None, None]
        turn = (above > below).sum(axis=1, keepdims=True)
        found = []
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for at in (np.maximum(turn - 1, 0), np.minimum(turn, logs.shape[1] - 1)):
                up, down = (np.take_along_axis(table, at, axis=1)[:, 0] for table in (above, below))
                asked: Floats = np.take_along_axis(logs[..., None, None], at, axis=1)[:, 0]
                lost: Mask = np.take_along_axis(doubtful[..., None, None], at, axis=1)[:, 0]
                found.append((up, down, asked, lost))
                reached = np.where(np.isfinite(down), up - down + asked + said - 2 * room, -np.inf)
                better = reached > low
                low, where = np.where(better, reached, low), np.where(better, asked, where)
            (up, down, left, no_chord), (less, more, right, unsure) = found
            # The signed weight falls with μ and is convex: where its sign changes, the chord lies above. Both ends of
            # the chord are moved up by what rounding may have hidden.
            high = np.where(turn[:, 0] > 0, up + np.log(-np.expm1(down - up) + room), -np.inf)
            low_end = more + np.log(-np.expm1(less - more) - room)
            share = 1 / (1 + np.exp(low_end - high))
            gap = right - left
            root = np.where(gap < _RANGE, left + np.log1p(np.expm1(np.minimum(gap, _RANGE)) * share), right)
            root = np.where(no_chord, right, root)
            root = np.where(turn[:, 0] > 0, np.minimum(root, right), left)
            proved = (turn[:, 0] < logs.shape[1]) & ~np.isnan(low_end) & ~unsure
            bound = np.where(proved, root + said + 2 * room, np.inf)
        self.low[active, part], self.mu[active, part] = low, where
        self.high[active, part] = np.minimum(self.high[active, part], np.where(np.isnan(bound), np.inf, bound))

    def signs(self, pair: int, log_mu: float, count: int) -> Mask:
        """Which states are asked for at each distance, (count, k)."""
        k, number = len(self.lane.kernel), self.pairs[pair]
        vectors = np.full((2, 1, k), -np.inf)
        vectors[0, 0, self.lane.x[number]] = vectors[1, 0, self.lane.y[number]] = 0.0
        mu, out, done = np.array([[log_mu]]), np.zeros((count, k), dtype=bool), 0
        asked = vectors[0] > vectors[1] + mu
        while done < count:
            steps = min(self.powers.steps, count - done)
            seen, positive = self._block(vectors, asked, mu, steps)
            vectors, asked = (seen + self.loss * positive)[:, :, -1], positive[:, -1]
            out[done : done + steps], done = positive[0], done + steps
        return out

    def questions(self, pair: int, log_mu: float, count: int) -> tuple[tuple[int, ...], ...]:
        """The same as lists of states; where all would be asked for, nothing is asked."""
        signs = self.signs(pair, log_mu, min(count, LISTED))
        return tuple(() if row.all() else tuple(row.nonzero()[0].tolist()) for row in signs)


class TransientSeries(WholeSeries):
    """All records of a series whose first record has a law, whatever the chain; or what a longer one leaks.

    Let Q(n) be what n records leak to who knows none, and B_i(x, y) what the records before record i add to its own
    loss. Then Q(n + 1) ≤ Q(n) + loss. For a target before the last record the last one adds its loss at most. For the
    last record itself, B_{n+1}(x, y) is a quotient of means over the values u, v of record n: at most the largest
    loss + B_n(u, v), and that is Q(n) at most. So n·loss − Q(n) never falls, and where it has settled nothing is lost.

    Who knows records may know the last one. Then the same holds for the sum of the largest B and the largest A, each
    over all pairs: both grow by one loss a record at most, because the record next to the target can be left out.
    """

    def __init__(self, chain: Chain, n: int, adversary: str, length: int) -> None:
        """A series of n records that stands for one of ``length``."""
        super().__init__(chain, n, adversary)
        self.length = length

    def serves(self, loss: float) -> bool:
        """Logs are numbers, however large a loss is."""
        return loss > 0

    @cached_property
    def _lanes(self) -> tuple[LogSide, LogSide]:
        known = self.adversary == "bdp"
        before, after = (LogSide(kernel, end, self.n, known, self.x, self.y) for kernel, end in self._kernels)
        return before, after

    def _ends(self, lane: LongSide, pairs: Ints, loss: float, most: float) -> LongEnds:
        assert isinstance(lane, LogSide)
        return LogEnds(lane, pairs, loss, most)

    def _room(self, _: float) -> float:
        return 0.0  # every end has its own

    def _side_bound(self, loss: float) -> float:
        return loss * (self.n - 1)

    @cached_property
    def _supports(self) -> Mask:
        """Values of each record, (n, k)."""
        later = self._parts[np.arange(max(0, self.n - self._first)) % len(self._parts)]
        return np.concatenate([self._possible, later])[: self.n]

    def _late(self, record: int) -> tuple[int, Mask]:
        return 0, self._supports[:record][::-1]

    def _by_record(self, ends: LongEnds, name: str) -> Floats:
        """The most that any end of each number of records says, (pair, n); −∞: a record cannot have both values."""
        table: Floats = getattr(ends, name)
        out, before = np.zeros((len(table), self.n)), ends.lane is self._lanes[0]
        out[:, 1:] = table[..., -1]
        if ends.lane.known and not before:
            out[:, 1:] = np.maximum(out[:, 1:], np.maximum.accumulate(table[..., :-1].max(axis=2), axis=1))
        elif ends.lane.known:
            self._known_before(table, out)
        if name == "high" and ends.lane.plain:
            out = np.minimum.accumulate(out[:, ::-1], axis=1)[:, ::-1]
        out = np.maximum(out, 0.0)
        if before:
            both = self._supports[:, self.x[ends.pairs]] & self._supports[:, self.y[ends.pairs]]
            return np.where(both.T, out, -np.inf)
        return out

    def _known_before(self, table: Floats, out: Floats) -> None:
        """A record may be known to have a value that it can have: one of the first, or of those that come again."""
        first, turns, n = self._first, len(self._parts), self.n
        for record in range(min(first, n - 1)):
            here = np.where(self._possible[record], table[..., :-1], -np.inf).max(axis=2)
            out[:, record + 1 :] = np.maximum(out[:, record + 1 :], here[:, : n - 1 - record])
        distance, target = np.arange(1, n), np.arange(first + 1, n)
        for part, values in enumerate(self._parts):
            most = np.where(values, table[..., :-1], -np.inf).max(axis=2)
            for turn in range(turns):
                best = np.maximum.accumulate(np.where(distance % turns == turn, most, -np.inf), axis=1)
                some = target[(target - first - part) % turns == turn]
                out[:, some] = np.maximum(out[:, some], best[:, some - first - 1])

    def quick(self, loss: float) -> float:
        """What those pairs leak that leaked most the last time."""
        return super().quick(loss) + (self.length - self.n) * loss

    def attack(self, loss: float) -> TransientAttack:
        """A bracket, and who learns as much as its lower end."""
        sides, most, least = self._solved(loss, np.arange(len(self.x)))
        by_pair = least.max(axis=1)
        self._near = np.flatnonzero(by_pair >= _NEAR_BEST * by_pair.max())
        worst, at = (int(i) for i in np.unravel_index(int(least.argmax()), least.shape))
        if least[worst, at] == -np.inf:  # no record has two values
            return TransientAttack(0.0, 0.0, (0, 0), (NOTHING, NOTHING), 1)
        lower, upper, more = float(least[worst, at]), float(most.max()), self.length - self.n
        ends = [
            one.behind(worst, records, late)
            for one, records, late in zip(sides, (at, self.n - 1 - at), (self._late(at), None), strict=True)
        ]
        counts, record = (at, self.n - 1 - at), at + 1
        if more:
            upper = more * loss + (self._apart(sides, loss) if self.adversary == "bdp" else upper)
            longer = [self._longer(sides[lane], worst, counts[lane], more) for lane in (0, 1)]
            lane = int(longer[1] + ends[0][2] > longer[0] + ends[1][2])  # the side that has the records more
            if loss + longer[lane] + ends[1 - lane][2] > lower:
                lower, record = loss + longer[lane] + ends[1 - lane][2], record + more * (1 - lane)
                ends[lane] = counts[lane] + more, OPEN_END, longer[lane], 0.0
        attacks = []
        for lane, (distance, state, added, _) in enumerate(ends):
            one = sides[lane]
            assert isinstance(one, LogEnds)
            count = distance - 1 if state != OPEN_END else distance
            asked: tuple[tuple[int, ...], ...] = ()
            if added > 0 and count > 0:
                log_mu = float(one.mu[worst, min(distance, counts[lane]) - 1, state])
                asked = one.questions(worst, log_mu, min(count, counts[lane]))
            known = (distance, state) if state != OPEN_END else None
            attacks.append(SideAttack(added=added, known=known, records=count, questions=asked))
        upper = min(upper, loss * self.length)
        pair = int(self.x[worst]), int(self.y[worst])
        return TransientAttack(lower, upper, pair, (attacks[0], attacks[1]), record)

    def _apart(self, sides: list[LongEnds], loss: float) -> float:
        """What both sides leak at most, each for its own pair of values that one record can have."""
        together = (self._supports[:, self.x] & self._supports[:, self.y]).any(axis=0)
        for _ in range(_PASSES):
            low, high = ([self._by_record(ends, name)[together] for ends in sides] for name in ("low", "high"))
            least, most = (loss + part[0].max(axis=0) + part[1].max(axis=0)[::-1] for part in (low, high))
            goal = float(least.max()) * (1 + self.width)
            over = most > goal
            if not over.any():
                break
            spare = np.where(over, np.maximum(_AHEAD * (goal - np.where(over, least, 0.0)), 0.0), 0.0)
            for ends, part, tables, way in zip(sides, low, high, (slice(None), slice(None, None, -1)), strict=True):
                level = np.where(over, part.max(axis=0)[way] + spare, np.inf)[way]
                active = np.flatnonzero(together)[(tables > level).any(axis=1)]
                if len(active):
                    ends.look(active, ends.aims(active, np.broadcast_to(level, (len(active), self.n))))
        return float(most.max())

    def _longer(self, ends: LongEnds, pair: int, records: int, more: int) -> float:
        """What a side with more records adds at least: the questions in its middle are asked so many times more."""
        if records == 0 or not np.isfinite(ends.low[pair, records - 1, -1]):
            return -math.inf
        assert isinstance(ends, LogEnds)
        lane, number = ends.lane, ends.pairs[pair]
        vectors = np.full((2, len(lane.kernel)), -np.inf)
        vectors[0, lane.x[number]] = vectors[1, lane.y[number]] = 0.0
        with np.errstate(divide="ignore"):
            moves = np.log(lane.kernel)
        weights = log_sum(log_power(vectors, moves, records + more) + lane.log_end, axis=1)
        asked = ends.signs(pair, float(ends.mu[pair, records - 1, -1]), records)
        begins = np.flatnonzero(np.append(True, (asked[1:] != asked[:-1]).any(axis=1)))
        counts = np.diff(np.append(begins, records))
        counts[np.searchsorted(begins, records // 2, side="right") - 1] += more
        for begin, count in zip(begins.tolist(), counts.tolist(), strict=True):
            vectors = log_power(vectors, moves + ends.loss * asked[begin], count)
        reached = log_sum(vectors + lane.log_end, axis=1)
        largest = lane.largest / lane.n * (records + more) + ends.loss * (records + more)
        room = _ROUNDING * ((records + more) * (len(moves) + 2) + 64 * len(counts) * largest)
        return float(reached[0] - reached[1] + weights[1] - weights[0] - room)


@dataclass(frozen=True, eq=False)
class TransientAttack:
    """What a series leaks, and who learns it."""

    lower: float
    upper: float
    pair: tuple[int, int]
    sides: tuple[SideAttack, SideAttack]
    record: int


def log_power(vectors: Floats, matrix: Floats, power: int) -> Floats:
    """Vectors times a power of a matrix, all in logs."""
    while power:
        if power & 1:
            vectors = log_sum(vectors[:, :, None] + matrix, axis=1)
        matrix, power = log_sum(matrix[:, :, None] + matrix[None], axis=1), power >> 1
    return vectors


def transient_series(chain: Chain, length: int, adversary: str) -> TransientSeries | None:
    """None for what cannot be worked out this way."""
    k = chain.size
    if chain.period > 1 or chain.start is None or not 2 <= k <= _MOST_STATES:
        return None
    parts = inputs.supports(chain, 2 * k * k + 2)
    if not any((parts[-1] == parts[-1 - m]).all() for m in range(1, k + 1)):
        return None
    values = np.abs(np.linalg.eigvals(chain.kernels[0]))
    slow = float(np.max(values, initial=0.5, where=values < 1 - 1e-9))
    settled = max(len(parts), _LEAST_RECORDS, math.ceil(_FORGOTTEN / -math.log(slow)))
    if not inputs.tells_ever_more(chain):  # then no record adds its loss for ever: none stands for more
        settled = length
    most = _MOST_ENDS // (k * (k - 1) * (k * (adversary == "bdp") + 1))
    n = min(length, settled, most)
    return TransientSeries(chain, n, adversary, length) if n >= min(length, len(parts)) else None
