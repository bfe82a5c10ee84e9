"""The side before a target where the first record may have any law: its worst law and the worst algorithm together.

For one algorithm the leakage is N(x) z(y) / (N(y) z(x)), each a mean over the law s of the first record. With z(y)/z(x)
held fixed it is a quotient of linear functions of s, so two values u, v of the first record are enough, and only their
odds t are open. For a signed vector α(μ) as in ``sides``, a law reaches μ when Σ s(u) α_u(μ) ≥ 0, and then leaks
μ·z(y)/z(x): the side is the largest of these over μ and s.

Every α_u is convex in μ. Between two μ that were tried it lies below its chord, behind the last one below a line with
the slope of the plain law, and with lines in place of α the best odds are the root of a quadratic. So each interval has
an upper bound, each μ tried has an algorithm that is reached, and intervals are cut where their bound is largest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.bounds.tight.outlook import MOST_LOSS

MOST_STATES: Final = 8
"""With more states the worst law takes too long and too much memory to find: the closed form bounds it."""
_ROUNDS: Final = 40
_EVEN: Final = 25
"""μ that are tried first."""
_CUTS: Final = 2
"""Intervals that are cut in a round, in each row."""
_ROUNDING: Final = 80 * 2.0**-53
_SLACK: Final = 1e-13
"""Room at the ends of an interval, for rounding."""
_DIGITS: Final = 1e-14
_LARGE: Final = 500.0
_LEAST: Final = 1e-3


@dataclass(frozen=True, eq=False)
class Starts:
    """What a side adds for the worst law of the first record, (R, D): by row and number of records, or (R, 1)."""

    lower: Floats
    upper: Floats
    beyond: Floats
    """(R,): for every larger number of records."""
    values: Ints
    """(R, D, 2): the two values of the first record behind ``lower``."""
    odds: Floats
    """(R, D): of the second against the first; infinite: the second for sure."""


@dataclass(frozen=True, eq=False)
class Before:
    """Rows of targets: kernels and losses outwards, as in ``sides``, one lane."""

    kernels: Floats
    """(m, k, k)."""
    losses: Floats
    """(n,) by offset; n = 1: the same for all."""
    offsets: Ints
    records: Ints
    """(R,): records before each target; or the most of them, where all numbers up to that are asked about."""
    every: bool
    """Whether all numbers of records are asked about."""
    x: Ints
    y: Ints

    def __len__(self) -> int:
        return len(self.x)

    def pick(self, rows: Mask) -> Before:
        """Some of them; those with the most records decide how far all are followed."""
        parts = self.offsets[rows], self.records[rows], self.every, self.x[rows], self.y[rows]
        return Before(self.kernels, self.losses, *parts)

    @property
    def depth(self) -> int:
        """The largest distance."""
        return int(self.records.max())

    def follow(self, mu: Floats) -> tuple[Floats, Floats, Floats, Mask]:
        """Vectors at μ, (R, C, G, k), and their parts below; the plain laws of x and y, (R, C, 2, k); which μ died.

        C is the number of records asked about. Vectors are scaled by the plain laws, so that passes can be compared.
        """
        rows, many = mu.shape
        k, depth, at = self.kernels.shape[-1], self.depth, np.arange(len(mu))
        vectors = np.zeros((rows, 2 * many + 2, k))
        signed, below, plain = (vectors[:, part] for part in np.split(np.arange(2 * many + 2), [many, 2 * many]))
        signed[at, :, self.x] += 1.0
        signed[at, :, self.y] -= mu
        below[at, :, self.y] = mu
        plain[at, 0, self.x] = plain[at, 1, self.y] = 1.0
        vectors = np.concatenate([signed, below, plain], axis=1)
        seen = np.zeros((rows, depth if self.every else 1, 2 * many + 2, k))
        # Deep down gains may pass what a double holds. Such numbers prove nothing, here and in ``_bounded``.
        with np.errstate(over="ignore", invalid="ignore"):
            for d in range(1, depth + 1):
                kernels = self.kernels
                if len(kernels) > 1:
                    kernels = kernels[(self.offsets + d - 1) % len(kernels)]
                vectors = vectors @ kernels
                gain = np.exp(np.minimum(self._losses(d), MOST_LOSS))[:, None, None]
                gains = np.where(vectors[:, :many] > 0, gain, 1.0)
                vectors[:, :many] *= gains
                vectors[:, many : 2 * many] *= gains
                scale = vectors[:, 2 * many :].max(axis=(1, 2), keepdims=True)
                vectors /= np.where(scale > 0, scale, 1.0)
                if self.every:
                    seen[:, d - 1] = vectors
                else:
                    seen[self.records == d, 0] = vectors[self.records == d]
        alive = (vectors[:, :many] > 0) | ~np.isfinite(vectors[:, :many])
        died = np.asarray(~alive.any(axis=2), dtype=np.bool_)
        return seen[:, :, :many], seen[:, :, many : 2 * many], seen[:, :, 2 * many :], died

    def _losses(self, d: int) -> Floats:
        if len(self.losses) == 1:
            return np.broadcast_to(self.losses, self.offsets.shape)
        at = self.offsets + d - 1
        return np.where(at < len(self.losses), self.losses[np.minimum(at, len(self.losses) - 1)], 0.0)

    def spent(self) -> Floats:
        """All losses up to each number of records, (R, C)."""
        sums = np.cumsum([self._losses(d + 1) for d in range(self.depth)], axis=0).T
        return sums if self.every else np.take_along_axis(sums, self.records[:, None] - 1, axis=1)


def worst_starts(
    before: Before, width: float, *, each: bool, beside: tuple[Floats, Floats] | None = None, reached: float = 0.0
) -> Starts:
    """Brackets no wider than a share of what they bound: of each number of records, or of the largest over all.

    Args:
        before: rows of targets.
        width: of brackets, as a share.
        each: whether each number of records counts, or the largest over all.
        beside: what rows leak apart from this side, at least and at most; where it is given, only the row that leaks
            most of all counts, and the upper ends of others may be as large as that.
        reached: what is known to be leaked elsewhere.
    """
    full = before.spent()
    search = _Search(before, np.minimum(full, _LARGE))
    for _ in range(_ROUNDS):
        most = search.lower if each else search.lower.max(axis=1, keepdims=True)
        level = most + width * np.maximum(most, _LEAST)
        if beside is not None:
            best = max(reached, float((beside[0][:, None] + search.lower).max()))
            level = np.maximum(level, best - beside[1][:, None])
        wide = np.log(search.bound) > level
        if not wide.any():
            break
        search.cut(wide)
    room = _ROUNDING * (before.depth + before.kernels.shape[-1])
    lost = np.maximum(before.losses - MOST_LOSS, 0.0).sum() * (1 if len(before.losses) > 1 else before.depth)
    upper = np.where(full < _LARGE, np.minimum(np.log(np.maximum(search.bound, 1.0)) + room + lost, full), full)
    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = search.plain[:, -1, 0], search.plain[:, -1, 1]
        prior = np.where(y > 0, y / x, 0.0).max(axis=1)
        beyond = np.log(np.where(search.died, search.mu, np.inf).min(axis=1)) + np.log(prior) + room
        beyond = np.where(np.isnan(beyond), np.inf, beyond)
    return Starts(search.lower, upper, beyond, search.values, search.odds)


class _Search:
    """All μ that were tried, in order, with their vectors; and bounds for each row and number of records."""

    def __init__(self, before: Before, spent: Floats) -> None:
        self.before = before
        rows, many = spent.shape
        self.lower = np.zeros((rows, many))
        self.values, self.odds = np.zeros((rows, many, 2), dtype=np.int64), np.zeros((rows, many))
        self.group = np.exp(spent)
        self.bound = self.group.copy()
        reach = np.minimum(spent.max(axis=1, keepdims=True) + 2.0, 30.0)
        mu = np.concatenate([np.zeros((rows, 1)), np.exp(np.linspace(-1.0, 1.0, _EVEN) * reach)], axis=1)
        self.signed, self.below, self.plain, self.died = before.follow(mu)
        self.mu = mu
        self.intervals = np.zeros((rows, many, 0))
        self._look(np.ones((rows, many), dtype=bool))

    def cut(self, wide: Mask) -> None:
        """Try new μ where bounds are largest."""
        worth = np.zeros((len(wide), self.mu.shape[1]))
        for row, column in zip(*np.nonzero(wide), strict=True):
            worth[row] = np.maximum(worth[row], self.intervals[row, column])
        at = np.argsort(-worth, axis=1)[:, :_CUTS]
        low = np.take_along_axis(self.mu, at, axis=1)
        above = np.concatenate([self.mu[:, 1:], 4 * self.mu[:, -1:]], axis=1)
        high = np.take_along_axis(above, at, axis=1)
        middle = np.where(low > 0, np.sqrt(low * high), high / 4)
        new = np.concatenate(
            [middle, np.sqrt(np.where(low > 0, low, high / 64) * middle), np.sqrt(middle * high)], axis=1
        )
        rows: Mask = np.asarray(wide.any(axis=1))
        found = self._followed(new, rows)
        new = np.where(rows[:, None], new, self.mu[:, -1:])
        mu = np.concatenate([self.mu, new], axis=1)
        order = np.argsort(mu, axis=1)
        self.mu = np.take_along_axis(mu, order, axis=1)
        self.died = np.take_along_axis(np.concatenate([self.died, found[2]], axis=1), order, axis=1)
        self.signed, self.below = (
            np.take_along_axis(np.concatenate([old, more], axis=2), order[:, None, :, None], axis=2)
            for old, more in ((self.signed, found[0]), (self.below, found[1]))
        )
        self._look(wide)

    def _followed(self, new: Floats, rows: Mask) -> tuple[Floats, Floats, Mask]:
        """Vectors of some rows at new μ; others repeat their last one, which changes nothing."""
        signed, below, _, died = self.before.pick(rows).follow(new[rows])
        count = new.shape[1]
        all_signed, all_below = (np.repeat(part[:, :, -1:], count, axis=2) for part in (self.signed, self.below))
        all_died = np.repeat(self.died[:, -1:], count, axis=1)
        all_signed[rows], all_below[rows], all_died[rows] = signed, below, died
        return all_signed, all_below, all_died

    def _look(self, wide: Mask) -> None:
        """Bounds and what is reached, of some rows and numbers of records."""
        with np.errstate(over="ignore", invalid="ignore"):
            self._look_closely(wide)

    def _look_closely(self, wide: Mask) -> None:
        row, column = np.nonzero(wide)
        signed, below, plain = self.signed[row, column], self.below[row, column], self.plain[row, column]
        mu = self.mu[row]
        if self.intervals.shape[2] < mu.shape[1]:
            self.intervals = np.zeros((*wide.shape, mu.shape[1]))
        first, second = np.triu_indices(plain.shape[2])
        here = self._reached(mu, signed, below, plain, first, second)
        best = here[0].argmax(axis=1)
        at = np.arange(len(row))
        better = here[0][at, best] > self.lower[row, column]
        self.lower[row, column] = np.maximum(self.lower[row, column], here[0][at, best])
        pair = here[1][at, best]
        self.values[row[better], column[better]] = np.stack([first[pair], second[pair]], axis=1)[better]
        self.odds[row[better], column[better]] = here[2][at, best][better]
        bounds = _bounded(mu, signed, plain, first, second)
        self.intervals[row, column] = bounds
        self.bound[row, column] = np.minimum(self.bound[row, column], bounds.max(axis=1))

    @staticmethod
    def _reached(
        mu: Floats, signed: Floats, below: Floats, plain: Floats, first: Ints, second: Ints
    ) -> tuple[Floats, Ints, Floats]:
        """What laws of two values and the questions at each μ reach, (M, G): logs, pairs and odds."""
        # Less than it is, by what rounding may have added.
        top = np.where(plain[:, :1] > 0, np.maximum(signed + below * (1 - _DIGITS), 0.0), 0.0)
        bottom = below / np.where(mu > 0, mu, 1.0)[..., None]
        s, t = plain[:, 1][:, None], plain[:, 0][:, None]
        parts = [(part[..., first], part[..., second]) for part in (top, bottom, s, t)]
        values, odds = best_odds(parts, np.zeros((1, 1, 1)), np.full((1, 1, 1), np.inf))
        values = np.where(mu[..., None] > 0, values, 0.0)
        pair = values.argmax(axis=2)
        pick = pair[..., None]
        with np.errstate(divide="ignore"):
            logs = np.log(np.take_along_axis(values, pick, axis=2)[..., 0])
            return logs, pair, np.take_along_axis(odds, pick, axis=2)[..., 0]


def _bounded(mu: Floats, signed: Floats, plain: Floats, first: Ints, second: Ints) -> Floats:
    """Upper bounds on each interval from one μ to the next, the last one without end, (M, G)."""
    x, y = plain[:, 0], plain[:, 1]
    gaps = np.diff(mu, axis=1)[..., None]
    # Behind the last μ a vector falls at least as fast as the plain law of y: what is negative never gains.
    slope = np.repeat(y[:, None], mu.shape[1], axis=1)
    np.divide(signed[:, :-1] - signed[:, 1:], gaps, out=slope[:, :-1], where=gaps > 0)
    # Rounding must not hide which values of the first record rule out x or y.
    slope = np.where(y[:, None] > 0, slope, 0.0)
    line = np.where(x[:, None] > 0, signed + mu[..., None] * slope, 0.0)
    high = np.concatenate([mu[:, 1:], np.full((len(mu), 1), np.inf)], axis=1)[..., None]
    parts = [(part[..., first], part[..., second]) for part in (line, slope, y[:, None], x[:, None])]
    values, _ = best_odds(parts, mu[..., None] * (1 - _SLACK), high * (1 + _SLACK))
    # What a double cannot hold says nothing: group privacy is left.
    lost: Mask = np.asarray(~(np.isfinite(line) & np.isfinite(slope)).all(axis=2))
    values = np.where(lost[..., None], np.inf, values)
    return np.asarray(values.max(axis=2))


def best_odds(parts: list[tuple[Floats, Floats]], low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The largest min(N/D, high)·s/t over odds at which N/D is at least ``low``; 0 where there are none; and the odds.

    N, D, s, t are linear in the odds. The best are 0, infinite, where N/D crosses an end, or where the derivative, a
    quadratic, is zero.
    """
    (a0, a1), (b0, b1), _, _ = parts
    # Each pair is scaled to its larger entry for the quadratic, which has products of four of them.
    (n0, n1), (d0, d1), (s0, s1), (t0, t1) = (_scaled_pair(*pair) for pair in parts)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        one, two = n1 * d0 - n0 * d1, s1 * t0 - s0 * t1
        a = one * s1 * t1 + two * n1 * d1
        b = one * (s0 * t1 + s1 * t0) + two * (n0 * d1 + n1 * d0)
        c = one * s0 * t0 + two * n0 * d0
        half = -(b + np.copysign(np.sqrt(np.maximum(b * b - 4 * a * c, 0.0)), b)) / 2
        finite = np.where(np.isfinite(high), high, 0.0)
        tried = [np.zeros_like(a), np.full_like(a, np.inf), half / a, c / half]
        tried += [(level * b0 - a0) / (a1 - level * b1) for level in (low, finite)]
        best, odds = np.zeros_like(a), np.zeros_like(a)
        for t in tried:
            even, valid = np.isinf(t), t >= 0
            w0, w1 = np.where(even, 0.0, 1.0), np.where(even, 1.0, np.where(valid, t, 0.0))
            n, d, s, z = (w0 * p + w1 * q for p, q in parts)
            reached = np.where(d > 0, n / d, np.where(n > 0, np.inf, -np.inf))
            fine = valid & (s > 0) & (z > 0) & (reached >= low * (1 - _SLACK)) & (reached > 0)
            value = np.where(fine, np.minimum(reached, high) * s / z, 0.0)
            better = value > best
            best, odds = np.where(better, value, best), np.where(better, t, odds)
        # A first value that rules out x or y counts as a limit: with ever smaller odds it still speaks for the other.
        for end, limit in ((0, 0.0), (1, np.inf)):
            value = _limit(parts[0], parts[3], end) * _limit(parts[2], parts[1], end)
            grows = (parts[1][end] <= 0) & (parts[0][end] > 0) & np.isinf(high)
            fades = (parts[0][end] <= 0) & (parts[1][end] > 0) & (low <= 0)
            better = (grows | fades) & (value > best) & np.isfinite(value)
            best, odds = np.where(better, value, best), np.where(better, limit, odds)
    return best, odds


def _scaled_pair(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Both over the larger of them, in size."""
    largest = np.maximum(np.abs(first), np.abs(second))
    largest = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
    return first / largest, second / largest


def _limit(top: tuple[Floats, Floats], bottom: tuple[Floats, Floats], end: int) -> Floats:
    """The quotient of two linear functions of the odds as these go to 0 (end 0) or grow without bound (end 1)."""
    near, far = end, 1 - end
    rest = np.where(bottom[far] > 0, top[far] / bottom[far], 0.0)
    return np.where(bottom[near] > 0, top[near] / bottom[near], rest)
