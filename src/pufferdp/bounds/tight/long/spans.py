"""Both sides of targets of a slow chain, for whole spans of numbers of records at once: upper and lower ends.

Let α be the signed vector behind b records (see ``passes``). Of more records than b the worst algorithm sees those b in
the same way (Theorem 1). What it makes of the others is a positive function g of record b, E[L | X_b], which varies by
a factor e^D at most, where D is the loss of those records, or what the closed form says of a side, whatever is less. So
where Σ s(u) g(u) α_u(μ) ≥ 0, also Σ s(u) α'_u(μ) ≥ 0, where α' is α with its positive entries multiplied by e^D.

- Before the target, any law: s is the law of record b, any law again. So nothing from b to b + w records adds more than
  the worst law and algorithm with α' in place of α; and all numbers of records from b on are such a span.
- After it, the end of the series: s = 1.
- After it, a record that is known to be v, j steps behind record b, j < w: s(u) = P^j(u, v)/P^j(v, v), which is 1 at v,
  and at other values no more than a number that is small as long as w is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.bounds.tight.any_start import best_odds
from pufferdp.bounds.tight.long.leaps import Leaps

_FORGOTTEN: Final = 1e-10
"""What is left of a difference behind which hardly anything is said."""
_MIDDLE: Final = 17
_OUTSIDE: Final = 5
_LARGEST_FIRST: Final = 300.0
"""Log μ that are tried first: near 0, farther away on either side, and the largest."""
ENDLESS: Final = 1 << 40
"""More records than any series has."""
_SLACK: Final = 1e-13
_DIGITS: Final = 1e-14
_WIDE: Final = 1.0
"""Intervals of log μ that are wider are cut before chords are looked at."""
_PIECES: Final = 4
"""Parts that an interval is cut into."""
_STEP: Final = 8.0
"""How far an interval without end is followed, in logs."""
_PARTS: Final = 64
"""Spans that a span is cut into at most."""
_LARGEST_LOG: Final = 600.0
_AT_ONCE: Final = 20_000
NEWTON: Final = 8
"""Steps towards the best μ at most."""
SETTLED: Final = 1e-9
"""A smaller share more is not worth another step."""
_CLIMBS: Final = 24
_TRIED: Final = 7
"""Numbers of records that are tried at a time."""
_CLOSE: Final = 1e-4
"""Numbers of records that differ by less, as a share, are equally good for a search."""
_EDGE: Final = 0.05
"""Where the first or the last number is the best, it is taken to be the best of all where others are so near."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Spans of numbers of records and intervals of log μ, and what is leaked inside at most, for pairs of values."""

    pair: Ints
    first: Ints
    many: Ints
    low: Floats
    high: Floats
    most: Floats
    by_records: Floats
    """How much of that comes from the records behind the first of a span."""
    by_logs: Floats
    """And from the μ inside the interval."""

    def __len__(self) -> int:
        return len(self.pair)

    def pick(self, some: Mask | Ints) -> Cells:
        """Some of them."""
        pair, first, many, low, high, most, by_records, by_logs = self.parts()
        spans_of = pair[some], first[some], many[some]
        return Cells(*spans_of, low[some], high[some], most[some], by_records[some], by_logs[some])

    def parts(self) -> tuple[Ints, Ints, Ints, Floats, Floats, Floats, Floats, Floats]:
        """What they are made of."""
        return self.pair, self.first, self.many, self.low, self.high, self.most, self.by_records, self.by_logs

    @classmethod
    def unbounded(cls, pair: Ints, first: Ints, many: Ints, low: Floats, high: Floats, most: Floats) -> Cells:
        """New ones."""
        return cls(pair, first, many, low, high, most, np.zeros(len(pair)), np.zeros(len(pair)))

    @classmethod
    def joined(cls, parts: list[Cells]) -> Cells:
        """All of them."""
        return cls(*(np.concatenate(each) for each in zip(*(part.parts() for part in parts), strict=True)))

    def cut_records(self, many: Ints) -> Cells:
        """Spans of so many records in their place; of one without end as many as come before it, and the rest."""
        many = np.where(self.many >= ENDLESS, self.first, np.maximum(many, -(-self.many // _PARTS)))
        count = np.where(self.many >= ENDLESS, 2, -(-self.many // many))
        which = np.repeat(np.arange(len(self)), count)
        number = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        first = self.first[which] + number * many[which]
        left = self.many[which] - number * many[which]
        endless = self.many[which] >= ENDLESS
        last = np.where(endless & (number == 1), ENDLESS, np.minimum(many[which], left))
        return Cells.unbounded(self.pair[which], first, last, self.low[which], self.high[which], self.most[which])

    def cut_logs(self) -> Cells:
        """Intervals of log μ in parts."""
        low, high = self.low.copy(), self.high.copy()
        low[np.isneginf(low)] = high[np.isneginf(low)] - _STEP
        high[np.isposinf(high)] = low[np.isposinf(high)] + _STEP
        ends = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, _PIECES + 1)
        ends[:, -1] = high
        lows, highs = [*ends[:, :-1].T], [*ends[:, 1:].T]
        base = self.pair, self.first, self.many
        parts = [Cells.unbounded(*base, a, b, self.most) for a, b in zip(lows, highs, strict=True)]
        for some, side in ((np.isneginf(self.low), 0), (np.isposinf(self.high), 1)):
            end = low if side == 0 else high
            rest = (self.low, end) if side == 0 else (end, self.high)
            parts.append(Cells.unbounded(*base, *rest, self.most).pick(some))
        return Cells.joined(parts)


def largest_prior(vectors: Floats, x: Floats, y: Floats) -> Floats:
    """The log of G: the largest z(y)/z(x) over the laws that reach μ; −∞: there are none; ∞: it has no bound."""
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.where((vectors >= 0) & (y > 0), y / x, 0.0).max(axis=-1)
        for u, v in zip(*np.triu_indices(vectors.shape[-1], 1), strict=True):
            one, two = vectors[..., u], vectors[..., v]
            first, second = np.abs(two), np.abs(one)
            found = (first * y[..., u] + second * y[..., v]) / (first * x[..., u] + second * x[..., v])
            most = np.fmax(most, np.where(((one > 0) & (two < 0)) | ((one < 0) & (two > 0)), found, 0.0))
        return np.asarray(np.log(most))


def on_chord(low: Floats, high: Floats, near: Floats, far: Floats, scale: Floats, x: Floats, y: Floats) -> Floats:
    """What laws and algorithms between two log μ leak at most, from the chord of α: logs.

    Args:
        low: the smaller log μ, −∞ allowed.
        high: the larger, ∞ allowed: behind the last μ a vector falls at least as fast as the plain law of y.
        near: vectors at ``low``.
        far: vectors at ``high``, on the same scale.
        scale: its log.
        x: weights of one value.
        y: weights of the other.
    """
    begins, endless = np.isneginf(low), np.isposinf(high)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        top = np.where(begins, 1.0, np.where(endless, np.inf, np.exp(np.minimum(high - low, 700.0))))
        slope = np.where(begins[:, None], near - far, (near - far) / (top - 1)[:, None])
        slope = np.where(endless[:, None], y * np.exp(np.minimum(low - scale, 700.0))[:, None], slope)
        # Rounding must not hide which values of the first record rule out x or y.
        slope = np.where(y > 0, slope, 0.0)
        line = np.where(x > 0, np.where(begins[:, None], near, near + slope), 0.0)
        first, second = np.triu_indices(near.shape[1])
        parts = [(part[:, first], part[:, second]) for part in (line, slope, y, x)]
        least = np.where(begins, 0.0, 1 - _SLACK)
        values, _ = best_odds(parts, least[:, None], (top * (1 + _SLACK))[:, None])
        lost = ~(np.isfinite(line) & np.isfinite(slope)).all(axis=1)
        out = np.log(values.max(axis=1)) + np.where(begins, high, low)
    return np.where(lost | np.isnan(out), np.inf, out)


def _raised(vectors: Floats, more: Floats) -> Floats:
    """Vectors whose positive entries gain more."""
    return np.where(vectors > 0, vectors * np.exp(np.minimum(more, _LARGEST_LOG))[:, None], vectors)


@dataclass(frozen=True, eq=False)
class Reached:
    """What is reached before some targets: logs; and log μ of better algorithms."""

    added: Floats
    mu: Floats
    values: Ints
    """Two values of the first record."""
    odds: Floats
    """Of the second against the first."""


class SpansBefore:
    """The side before targets, where the first record may have any law."""

    def __init__(self, kernel: Floats, x: Ints, y: Ints, loss: float, most: float) -> None:
        """No side adds more than ``most``."""
        self.leaps, self.x, self.y = Leaps(kernel.T, loss), x, y
        self.loss, self.most = loss, most

    def weights(self, pair: Ints, records: Ints) -> tuple[Floats, Floats]:
        """Of both values, by the value of the first record."""
        powers, at = self.leaps.plain(records), np.arange(len(pair))
        return powers[at, self.x[pair]], powers[at, self.y[pair]]

    def bound(self, cells: Cells, level: Floats) -> Cells:
        """Upper ends of cells, which need be no smaller than a level."""
        parts = []
        for begin in range(0, len(cells), _AT_ONCE):
            some = np.arange(begin, min(begin + _AT_ONCE, len(cells)))
            parts.append(self._bound(cells.pick(some), level[some]))
        return Cells.joined(parts) if parts else cells

    def _bound(self, cells: Cells, level: Floats) -> Cells:
        pair = np.concatenate([cells.pair, cells.pair])
        logs = np.concatenate([cells.low, np.where(np.isposinf(cells.high), cells.low, cells.high)])
        asked = self.leaps.ask(self.x[pair], self.y[pair], logs, np.concatenate([cells.first, cells.first]))
        (near, far), (scale, other) = (np.split(asked[i], 2) for i in (0, 2))
        with np.errstate(over="ignore", invalid="ignore"):
            far = far * np.exp(other - scale)[:, None]
        x, y = self.weights(cells.pair, cells.first)
        more = np.minimum(self.loss * (cells.many - 1), self.most)
        cap = np.minimum(self.loss * (cells.first + cells.many - 1), self.most)
        wide = (cells.high - cells.low > _WIDE) & np.isfinite(cells.low) & np.isfinite(cells.high)
        out: list[Floats] = []
        for gain in (more, np.zeros_like(more)):
            above = _raised(near, gain)
            prior = largest_prior(above, x, y)
            most = np.where(
                np.isneginf(prior), -np.inf, np.minimum(cap, np.where(np.isneginf(prior), 0.0, prior) + cells.high)
            )
            todo = np.flatnonzero((most > level) & ~wide & ((gain > 0) | (more == 0) | (len(out) == 1)))
            chord = on_chord(
                cells.low[todo],
                cells.high[todo],
                above[todo],
                _raised(far[todo], gain[todo]),
                scale[todo],
                x[todo],
                y[todo],
            )
            most[todo] = np.minimum(most[todo], chord)
            out.append(np.minimum(most, cells.most))
        alone = np.minimum(out[0], out[1])
        with np.errstate(invalid="ignore"):
            found = [
                np.where(np.isfinite(logs), largest_prior(vectors, x, y) + logs, -np.inf)
                for vectors, logs in ((near, cells.low), (far, cells.high))
            ]
            reached = np.minimum(np.fmax(*found), alone)
            rises = out[0] - alone, alone - np.where(np.isfinite(reached), reached, -1e9)
        return Cells(*cells.parts()[:5], out[0], *(np.where(np.isnan(rise), 0.0, rise) for rise in rises))

    def prior(self, pair: Ints, records: Ints, logs: Floats) -> Floats:
        """What is reached at log μ, roughly."""
        vectors, _, _ = self.leaps.ask(self.x[pair], self.y[pair], logs, records)
        return largest_prior(vectors, *self.weights(pair, records)) + logs

    def reach(self, pair: Ints, records: Ints, logs: Floats) -> Reached:
        """What the algorithms that are worst at log μ reach, and which μ is better."""
        vectors, below, _ = self.leaps.ask(self.x[pair], self.y[pair], logs, records)
        x, y = self.weights(pair, records)
        # Less than it is, by what rounding may have added.
        top = np.where(x > 0, np.maximum(vectors + below * (1 - _DIGITS), 0.0), 0.0)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            first, second = np.triu_indices(x.shape[1])
            parts = [(part[:, first], part[:, second]) for part in (top, below, y, x)]
            values, odds = best_odds(parts, np.zeros((1, 1)), np.full((1, 1), np.inf))
            best, at = values.argmax(axis=1), np.arange(len(x))
            odds = odds[at, best]
            found = np.log(values[at, best]) + logs
            found = np.where(np.isfinite(found), np.minimum(found, self.loss * records), -np.inf)
            share = np.where(np.isinf(odds), 1.0, odds / (1 + odds))
            u, v = first[best], second[best]
            z = [(1 - share) * part[at, u] + share * part[at, v] for part in (x, y)]
            mu = found - np.log(z[1] / z[0])
        mu = np.where(np.isfinite(mu), np.clip(mu, -_LARGEST_LOG / 2, _LARGEST_LOG / 2), logs)
        return Reached(found, mu, np.stack([u, v], axis=1), odds)


def climb(low: Ints, high: Ints, top: int, values: Callable[[Ints], Floats]) -> None:
    """Try numbers between two, of each row, nearer and nearer to the best; values are of a table of them."""
    rows, share = np.arange(len(low)), np.linspace(0.0, 1.0, _TRIED)
    done = np.zeros(len(low), dtype=bool)
    for _ in range(_CLIMBS):
        tried = np.rint(low[:, None] + (high - low)[:, None] * share).astype(np.int64)
        found = values(tried)
        best = found.argmax(axis=1)
        at = np.clip(best, 1, _TRIED - 2)
        one, two, three = (found[rows, at + step] for step in (-1, 0, 1))
        before, here, after = (tried[rows, at + step] for step in (-1, 0, 1))
        # Where values bend downwards the best is near the top of a parabola.
        bend = 2 * two - one - three
        step = (after - before) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            lean = np.where((bend > 0) & (two >= np.maximum(one, three)), (three - one) / (2 * bend), np.nan)
            gain = bend * lean * lean / 2
        inside = np.isfinite(lean)
        close = (after - before <= np.maximum(2, _CLOSE * after)) | (inside & (gain <= SETTLED * two))
        below, above = (best == 0) & (tried[:, 0] > 1), (best == _TRIED - 1) & (tried[:, -1] < top)
        close |= ((best == 0) | (best == _TRIED - 1)) & (after - before <= _EDGE * after)
        level = found[rows, best] - np.minimum(one, three) <= SETTLED * two
        done |= (close & ~below & ~above) | level
        if done.all():
            return
        peak = here + step * np.where(inside, lean, 0.0)
        wide = tried[:, -1] - tried[:, 0] + 1
        low = np.where(inside, np.maximum(np.floor(peak - 0.15 * step), before), before).astype(np.int64)
        high = np.where(inside, np.minimum(np.ceil(peak + 0.15 * step), after), after).astype(np.int64)
        # Or beyond what was tried.
        low = np.where(below, np.maximum(tried[:, 0] - wide, 1), np.where(above, tried[:, -2], low))
        high = np.where(above, np.minimum(tried[:, -1] + wide, top), np.where(below, tried[:, 1], high))
        low, high = np.where(done, tried[rows, best], low), np.where(done, tried[rows, best], high)


def spans(top: int, endless: bool) -> tuple[Ints, Ints]:
    """Numbers of records from 1 on, in spans that grow with them: the first of each, and how many."""
    first = list(range(1, min(8, top + 1)))
    many = [1] * len(first)
    size = 2
    while first and first[-1] + many[-1] <= top and len(first) >= 7:
        for begin in range(4 * size, 8 * size, size):
            if begin <= top:
                first.append(begin)
                many.append(min(size, top + 1 - begin))
        size *= 2
    if endless:
        while first[-1] >= top:
            first.pop()
            many.pop()
        many[-1] = top - first[-1]
        first.append(top)
        many.append(ENDLESS)
    return np.array(first, dtype=np.int64), np.array(many, dtype=np.int64)


def forgets(kernel: Floats) -> int:
    """Records behind which hardly anything is said."""
    values = np.sort(np.abs(np.linalg.eigvals(kernel)))
    slow = min(float(values[-2]), 1 - 1e-9)
    return max(64, math.ceil(1.5 * math.log(_FORGOTTEN) / math.log(max(slow, 1e-3))))


def path_length(kernel: Floats) -> int:
    """Steps in which every state leads to every other that is ever visited again; 0 where that never comes."""
    k, reach = len(kernel), kernel > 0
    for steps in range(1, (k - 1) ** 2 + k + 2):  # Wielandt, and as many steps as it takes to leave the first states
        if (reach.all(axis=0) | ~reach.any(axis=0)).all():
            return steps
        reach = reach @ (kernel > 0)
    return 0


def first_logs(powers: Floats, x: Ints, y: Ints, most: float) -> Floats:
    """Log μ that are tried first, near 0 and farther away, from some powers of the kernel; no side adds more."""
    with np.errstate(divide="ignore", invalid="ignore"):
        said = np.abs(np.log(powers[:, y] / powers[:, x]))
    far = min(float(np.max(said, initial=2.0, where=np.isfinite(said))), _LARGEST_FIRST) + most + 0.1
    middle = np.linspace(-2.0, 2.0 + min(most, 20.0), _MIDDLE)
    out = [np.geomspace(abs(end), max(far, abs(end) + 1), _OUTSIDE + 1)[1:] for end in (middle[0], middle[-1])]
    return np.concatenate([-out[0][::-1], middle, out[1]])
