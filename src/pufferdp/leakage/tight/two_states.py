"""Chains of two states with the same loss on every record: one number instead of a signed vector.

The quotient of the weights of two states moves by a Möbius map when a record is passed. It rises or falls throughout,
so the worst question is known beforehand: always the same one where the chain tends to stay, in turns where it tends
to change. What n records do is then a power of a 2×2 matrix, and all lengths and known ends are had at once. Every
sequence moves towards the fixed point of its map without turning back, so the last values seen and the fixed point
bound all that follow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.leakage.tight.outlook import MOST_LOSS, OPEN_END

_ROUNDING: Final = 32 * 2.0**-53
"""More than the rounding of one product of matrices of positive numbers."""
_SMALLEST: Final = 1e-250
"""Weights below this, beside others of 1, have lost their digits, or will."""
_SPREAD: Final = 1e-70
"""And where products of four of them are looked at."""
PAIRS: Final = ((0, 1), (1, 0))
"""Values: the one that algorithms speak for, and the other."""


@dataclass(frozen=True, eq=False)
class Reach:
    """What one lane adds for both pairs of values, by the number n = 0, 1, … of its records."""

    by_length: Floats
    """(2, N): the most that anybody learns; −∞ where a pair is impossible."""
    distance: Ints
    """(2, N): of the end behind each."""
    state: Ints
    """(2, N): its value, or OPEN_END."""
    beyond: Floats
    """(2,): for every longer side, an upper bound."""
    lost: bool = False
    """Whether a weight that is possible is too small for a double: then nothing here says anything."""

    @property
    def upper(self) -> Floats:
        """(2,): for sides of any length."""
        return np.asarray(np.maximum(self.by_length.max(axis=1), self.beyond))


@dataclass(frozen=True, eq=False)
class Lane:
    """One side of a target: the kernel outwards, and what stands at its end."""

    kernel: Floats
    end: Floats | None
    """Weights at the end of the series; None: any law of the first record."""
    known: bool
    """Whether records may be known."""
    possible: Mask | None = None
    """(p, 2): the values that the last p records of the side can have, the farthest first; all others can have both."""

    @cached_property
    def _kernels(self) -> Floats:
        """The kernel with each pair's first value in front, (2, 2, 2)."""
        return np.stack([self.kernel, self.kernel[::-1, ::-1]])

    @cached_property
    def _starts(self) -> Floats:
        """Weights that products are applied to, (pair, 2, E): known values 0 and 1, then the end of the series."""
        last = np.eye(2) if self.end is None else self.end[:, None]
        starts = np.concatenate([self.kernel, last], axis=1)
        return np.stack([starts, starts[::-1]])

    @property
    def stays(self) -> bool:
        """Whether a record tends to be as the one before it."""
        return bool(self.kernel[0, 0] * self.kernel[1, 1] >= self.kernel[0, 1] * self.kernel[1, 0])

    def plain(self, length: int) -> Floats:
        """What the kernel does alone, (pair, length, 2, E)."""
        return powers(self._kernels, None, length) @ self._starts[:, None]

    def _support(self, length: int) -> Mask:
        """Which weights are positive, whatever is asked: from the third product on every second one is like another."""
        some = powers((self._kernels > 0) / 2.0, None, min(length, 5)) @ (self._starts[:, None] > 0) > 0
        at = np.arange(length)
        return np.asarray(some[:, np.where(at < 3, at, 3 + (at - 3) % 2)])

    def reach(self, loss: float, plain: Floats) -> Reach:
        """Sides of fewer records than ``plain`` was made for, where each spends ``loss``."""
        length = plain.shape[1]
        gain = math.exp(min(loss, MOST_LOSS))
        stays = self.stays
        # Where the chain tends to change, the record next to the target is asked for the other value, and so in turns.
        near = self._kernels * (np.array([gain, 1.0]) if stays else np.array([1.0, gain]))
        turn = _scaled(near if stays else near @ (self._kernels * np.array([gain, 1.0])))
        passed = powers(turn, None if stays else near, length) @ self._starts[:, None]
        small = np.minimum(passed, plain) < (_SPREAD if self.end is None else _SMALLEST)
        lost = bool(small.any()) and bool((small & self._support(length)).any())
        reached, said = _log_quotient(passed), _log_quotient(plain)
        alive: Mask = np.asarray((plain > 0).all(axis=2))
        known = np.where(alive[..., :2], reached[..., :2] - np.where(alive[..., :2], said[..., :2], 0.0), -np.inf)
        if self.end is None:
            last = worst_law(passed[..., 2:], plain[..., 2:])
        else:
            last = np.where(alive[..., 2], reached[..., 2] - np.where(alive[..., 2], said[..., 2], 0.0), -np.inf)
        beyond = self._beyond(turn, reached[:, -2:], said[:, -2:], alive[:, -2:])
        rest = max(loss - MOST_LOSS, 0.0)  # more than a product can hold: a record adds no more than it spends
        group = np.arange(length) * loss
        reach = self._collected(known, last, beyond)
        by_length = np.minimum(reach.by_length + np.arange(length) * rest, group)
        beyond = reach.beyond if rest == 0 else np.full(2, np.inf)
        return Reach(by_length, reach.distance, reach.state, beyond, lost)

    def with_last(self, loss: float, last: float, length: int) -> Floats:
        """At most, (2,): sides of any length whose farthest record spends ``last``, for those who know none of it."""
        gain = math.exp(min(loss, MOST_LOSS))
        near = self._kernels * (np.array([gain, 1.0]) if self.stays else np.array([1.0, gain]))
        turn = _scaled(near if self.stays else near @ (self._kernels * np.array([gain, 1.0])))
        ends = self._kernels @ (1 + np.eye(2) * math.expm1(min(last, MOST_LOSS)))
        reached = _log_quotient(powers(turn, None if self.stays else near, length) @ ends[:, None])
        limit = _fixed_point(turn)
        return np.asarray(np.maximum(reached.max(axis=(1, 2)), limit) + rounding(length))

    def _collected(self, known: Floats, last: Floats, beyond: Floats) -> Reach:
        """The worst end of every side: a known record at any distance, or the end of the series behind its records."""
        number = np.broadcast_to(np.arange(last.shape[1]), last.shape)
        values, distance, state = [last], [number], [np.full(last.shape, OPEN_END)]
        if self.known:
            possible = np.ones((0, 2), dtype=bool) if self.possible is None else self.possible
            limited = len(possible)
            free = 1 + limited  # a known record needs so many records from itself on to the end
            best = np.full(last.shape, -np.inf)
            best[:, free:] = np.maximum.accumulate(known.max(axis=2), axis=1)[:, :-free]
            # The first distance at which the running maximum was reached, and the value known there.
            rises = np.concatenate([np.ones((2, 1), dtype=bool), best[:, 1:] > best[:, :-1]], axis=1)
            first = np.maximum.accumulate(np.where(rises, number, 0), axis=1) - limited
            values.append(best)
            distance.append(first)
            at = np.maximum(first - 1, 0)
            state.append(np.take_along_axis(known.argmax(axis=2), at, axis=1))
            for place, values_there in enumerate(possible):
                here = np.where(values_there, known, -np.inf)
                best, which = np.full(last.shape, -np.inf), np.zeros(last.shape, dtype=np.int64)
                best[:, 1 + place :] = here.max(axis=2)[:, : last.shape[1] - 1 - place]
                which[:, 1 + place :] = here.argmax(axis=2)[:, : last.shape[1] - 1 - place]
                values.append(best)
                distance.append(np.maximum(number - place, 0))
                state.append(which)
        which = np.stack(values).argmax(axis=0)[None]
        most, where, value = (
            np.take_along_axis(np.stack(table), which, axis=0)[0] for table in (values, distance, state)
        )
        return Reach(most, where, value, beyond)

    def _beyond(self, turn: Floats, reached: Floats, said: Floats, alive: Mask) -> Floats:
        """A bound for all that lies farther away: sequences move towards their fixed points, every second one alike."""
        up = np.maximum(reached, _fixed_point(turn)[:, None, None])
        down = np.minimum(said, _fixed_point(self._kernels)[:, None, None])
        with np.errstate(invalid="ignore"):
            bounds = np.where(alive, up - down, -np.inf)[..., 2 * (not self.known) :]
            if self.end is None:
                high, low = up[..., 2:], down[..., 2:]
                mixed = np.where(np.isnan(high), -np.inf, high).max(axis=2) - np.where(np.isnan(low), np.inf, low).min(
                    axis=2
                )
                bounds = np.concatenate([bounds, mixed[..., None]], axis=2)
        return np.asarray(np.where(np.isnan(bounds), np.inf, bounds).max(axis=(1, 2)))


def _scaled(matrices: Floats) -> Floats:
    """Only quotients matter, and the squares of large gains would be too large for a double."""
    return np.asarray(matrices / matrices.max(axis=(1, 2), keepdims=True))


def powers(turn: Floats, odd: Floats | None, length: int) -> Floats:
    """Products of 0, 1, … matrices, (B, length, 2, 2), each scaled: the same again and again, or two in turns.

    ``turn`` is one turn; ``odd`` its first matrix where it has two.
    """
    out = np.broadcast_to(np.eye(2), (len(turn), 1, 2, 2))
    step = turn[:, None]
    rounds = length if odd is None else (length + 1) // 2
    while out.shape[1] < rounds:
        more = out @ step
        out = np.concatenate([out, more / more.max(axis=(2, 3), keepdims=True)], axis=1)
        step = step @ step
        step = step / step.max(axis=(2, 3), keepdims=True)
    if odd is not None:
        out = np.stack([out, out @ odd[:, None]], axis=2).reshape(len(turn), -1, 2, 2)
    return out[:, :length]


def _log_quotient(weights: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(weights[:, :, 0]) - np.log(weights[:, :, 1]))


def _fixed_point(matrices: Floats) -> Floats:
    """Log of the quotient that repeated products tend to; −∞ where they change nothing.

    It is (r − d)/c and b/(r − a) for the larger eigenvalue r. Of the two differences one adds numbers of one sign, and
    the other may cancel: a rare move would lose all its digits, and the bound on long sides with them.
    """
    (a, b), (c, d) = matrices.transpose(1, 2, 0)
    larger = (abs(a - d) + np.sqrt((a - d) ** 2 + 4 * b * c)) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = np.where(a >= d, np.where(c > 0, larger / c, np.inf), b / larger)
        return np.where((b == 0) & (c == 0) & (a == d), -np.inf, np.log(quotient))


def worst_law(passed: Floats, plain: Floats) -> Floats:
    """The largest log of N(x) z(y) / (N(y) z(x)) over all laws of the first record; arrays are (B, n, value, u).

    With the odds t of the two values of the first record it is a quotient of two quadratics: largest at an end, or
    where its derivative, again a quadratic, is zero.
    """
    p, q, s, t = passed[:, :, 0], passed[:, :, 1], plain[:, :, 1], plain[:, :, 0]
    first = p[..., 1] * q[..., 0] - p[..., 0] * q[..., 1]
    second = s[..., 1] * t[..., 0] - s[..., 0] * t[..., 1]
    a = first * s[..., 1] * t[..., 1] + second * p[..., 1] * q[..., 1]
    b = first * (s[..., 0] * t[..., 1] + s[..., 1] * t[..., 0]) + second * (
        p[..., 0] * q[..., 1] + p[..., 1] * q[..., 0]
    )
    c = first * s[..., 0] * t[..., 0] + second * p[..., 0] * q[..., 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        half = -(b + np.copysign(np.sqrt(np.maximum(b * b - 4 * a * c, 0.0)), b)) / 2
        odds = [np.zeros_like(a), np.ones_like(a), np.full_like(a, np.inf), half / a, c / half]
        found = [np.where(o >= 0, np.log(_mean(p, t, o)) + np.log(_mean(s, q, o)), -np.inf) for o in odds]
        possible = (t > 0).any(axis=-1) & (s > 0).any(axis=-1)
        return np.where(possible, np.max(found, axis=0), -np.inf)


def _mean(top: Floats, bottom: Floats, odds: Floats) -> Floats:
    """The quotient of two sums at some odds; at 0 and infinity its limit."""
    zero, even = odds == 0, np.isinf(odds)
    w0 = np.where(even & (bottom[..., 1] > 0), 0.0, 1.0)
    w1 = np.where(even | (zero & (bottom[..., 0] <= 0)), 1.0, np.where(odds > 0, odds, 0.0))
    return (w0 * top[..., 0] + w1 * top[..., 1]) / (w0 * bottom[..., 0] + w1 * bottom[..., 1])


def rounding(length: int) -> float:
    """Room for the rounding of products of up to so many matrices."""
    return _ROUNDING * (length + 8)
