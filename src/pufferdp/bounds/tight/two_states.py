"""Chains of two states with the same loss on every record: one number instead of a signed vector.

The quotient of the weights of two states moves by a Möbius map when a record is passed. It rises or falls throughout,
so the worst question is known beforehand: always the same one where the chain tends to stay, in turns where it tends
to change. What n records do is then a power of a 2×2 matrix, and all lengths and known ends are had at once. Every
sequence moves towards the fixed point of its map without turning back, so the last values seen and the fixed point
bound all that follow.

Chains that hardly move have no time for every number of records. There some numbers are looked at, by closed forms of
the powers: between two of them every sequence lies between its values there, and where that leaves a larger sum
possible, more numbers are looked at (``worst_split``, ``worst_sides``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.bounds.tight.outlook import MOST_LOSS, OPEN_END

_ROUNDING: Final = 32 * 2.0**-53
"""More than the rounding of one product of matrices of positive numbers."""
_SMALLEST: Final = 1e-250
"""Weights below this, beside others of 1, have lost their digits, or will."""
_SPREAD: Final = 1e-70
"""And where products of four of them are looked at."""
_ATTRACT: Final = 4.0
"""Odds ratios below this are forgotten within a few records, whatever is asked."""
_FORGOTTEN: Final = 50.0
"""Of what comes after so many times the records in which a chain forgets, a double keeps nothing."""
_ALL: Final = 64
"""Numbers of records up to this are all looked at."""
_IN_AN_OCTAVE: Final = 32
"""So many numbers of records between one and its double are looked at first."""
_MOST_NUMBERS: Final = 1 << 15
"""With so many looked at the bracket is left open: only of any law of the first record are so many not enough."""
_PARTS: Final = 8
"""Parts into which numbers between two that were looked at are split."""
PAIRS: Final = ((0, 1), (1, 0))
"""Values: the one that algorithms speak for, and the other."""


@dataclass(frozen=True)
class End:
    """The end of one side behind what it adds."""

    added: float
    records: int
    """On this side of the target."""
    distance: int
    """Of the end."""
    state: int
    """Its value, or OPEN_END."""


@dataclass(frozen=True)
class TwoSides:
    """What both sides add to a record's own loss, for the worst pair of values."""

    lower: float
    upper: float
    pair: int
    ends: tuple[End, End]


class LostError(Exception):
    """Weights of two states are too far apart for a double."""


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

    def end(self, pair: int, records: int) -> End:
        """The end of a side of so many records."""
        distance, state = int(self.distance[pair, records]), int(self.state[pair, records])
        return End(float(self.by_length[pair, records]), records, distance, state)


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
    apart: float | None = None
    """The first diagonal entry of the kernel less the second, where more digits of it are known than the entries say:
    chances to stay round to 1, those to leave do not."""

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

    @property
    def followed(self) -> bool:
        """Whether a few numbers of records can stand for all (see ``worst_split``)."""
        (a, b), (c, d) = self.kernel
        return bool(self.kernel.min() > _SPREAD and a * d >= _ATTRACT * b * c)

    def closed_forms(self, loss: float) -> tuple[_Powers, _Powers]:
        """What any number of records does where each spends ``loss``, and what the kernel does alone."""
        apart = float(self.kernel[0, 0] - self.kernel[1, 1]) if self.apart is None else self.apart
        first = self._kernels[:, 0, 0]
        gain, plain = math.exp(min(loss, MOST_LOSS)), np.array([apart, -apart])
        own = first * math.expm1(min(loss, MOST_LOSS))
        passed = self._kernels * np.array([gain, 1.0])
        return _Powers(passed, own + plain, own + abs(apart)), _Powers(self._kernels, plain, abs(plain))

    @cached_property
    def strands(self) -> tuple[tuple[int, int, int, bool], ...]:
        """Ends as (column of the weights that powers begin with, records beyond those, state, whether any farther one).

        Of records that may be known anywhere a side of n records has all that are near enough.
        """
        out = [(2, 0, OPEN_END, False)]
        if self.known:
            limited = () if self.possible is None else tuple(self.possible.tolist())
            out += [(state, 1 + len(limited), state, True) for state in (0, 1)]
            out += [
                (state, 1 + place, state, False) for place, can in enumerate(limited) for state in (0, 1) if can[state]
            ]
        return tuple(out)

    @property
    def starts(self) -> Floats:
        """See ``_starts``."""
        return self._starts

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


@dataclass(frozen=True, eq=False)
class _Powers:
    """Powers of positive 2×2 matrices with a positive determinant, in closed form, up to a factor: (B, 2, 2).

    For the eigenvalues r > s of M = ((a, b), (c, d)) the n-th power is, up to a factor, (M − s) + (s/r)ⁿ (r − M): sums
    of positive numbers, with r − a and a − s = r − d from the difference a − d.
    """

    matrices: Floats
    apart: Floats
    """(B,) a − d, with all its digits."""
    terms: Floats
    """(B,) the sum of the sizes of the numbers that ``apart`` was added up from: so much it can lose to rounding."""

    @cached_property
    def _parts(self) -> tuple[Floats, Floats, Floats, Floats]:
        """The larger eigenvalue less a, and less d; log(s/r); how many roundings an entry of a power can be off."""
        (a, b), (c, d) = self.matrices.transpose(1, 2, 0)
        between = np.sqrt(self.apart**2 + 4 * b * c)
        larger = (between + abs(self.apart)) / 2
        smaller = b * c / larger
        over_a, over_d = np.where(self.apart >= 0, (smaller, larger), (larger, smaller))
        root = (a + d + between) / 2
        share = between / root
        decay = np.where(share < 0.5, np.log1p(-np.minimum(share, 0.5)), np.log(a * d - b * c) - 2 * np.log(root))
        # A relative error e of the difference's terms is e·terms/between in r − a and r − d, and in the decay; a power
        # of it counts while it is above the quotient of the two, so that its exponent is at most the log of that.
        spread = np.log(larger) - np.log(smaller)
        return over_a, over_d, decay, np.asarray((1 + spread) * (2 + self.terms / between))

    @property
    def slowness(self) -> float:
        """Records after which nothing is left of where they began."""
        over_a, over_d, decay, _ = self._parts
        return float(((_FORGOTTEN + abs(np.log(over_a / over_d))) / abs(decay)).max())

    @property
    def rounding(self) -> float:
        """More than the error of the log of a quotient of weights, whatever the number of records."""
        return _ROUNDING * float(self._parts[3].max())

    def weights(self, numbers: Floats, starts: Floats) -> tuple[Floats, Floats, Floats]:
        """What powers make of the columns of ``starts``, (B, m, 2, E), and what the log of each quotient grows by.

        The growth with one more record lies between two bounds, (B, m, E). It is the log of 1 plus a determinant of two
        vectors over a product, and determinants are multiplied by that of the matrix at each step.
        """
        over_a, over_d, decay, _ = self._parts
        exponent = decay[:, None] * numbers
        left, gone = np.exp(exponent), -np.expm1(exponent)
        (_, b), (c, d) = self.matrices.transpose(1, 2, 0)[..., None]
        powers = np.empty((*left.shape, 2, 2))
        powers[..., 0, 0] = over_d[:, None] + left * over_a[:, None]
        powers[..., 1, 1] = over_a[:, None] + left * over_d[:, None]
        powers[..., 0, 1], powers[..., 1, 0] = b * gone, c * gone
        largest = powers.max(axis=(2, 3), keepdims=True)
        weights = powers / largest @ starts[:, None]
        x, y = starts[:, 0], starts[:, 1]
        turned = self.apart[:, None] * x * y + b * y * y - c * x * x
        unsure = _ROUNDING * (self.terms[:, None] * x * y + b * y * y + c * x * x)
        share = left * ((over_a + over_d)[:, None] / largest[..., 0, 0]) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            share = share[..., None] / (
                weights[:, :, 0] * (c[..., None] * weights[:, :, 0] + d[..., None] * weights[:, :, 1])
            )
            grows = [np.log1p(share * (turned + sign * unsure)[:, None]) for sign in (-1, 1)]
        return weights, grows[0], grows[1]


@dataclass(frozen=True, eq=False)
class _Lines:
    """Upper bounds between two numbers of records, one line from either of them: the smaller counts."""

    first: Floats
    rise: Floats
    """From the first number on, with each record."""
    last: Floats
    fall: Floats
    """Before the last number, with each record that is missing."""
    width: Floats

    @classmethod
    def flat(cls, value: Floats, width: Floats) -> _Lines:
        """One value everywhere."""
        return cls(value, np.zeros_like(value), value, np.zeros_like(value), width)

    def beside(self, other: _Lines) -> _Lines:
        """The sum with what another side adds, all ends with all ends: it has a record less for each more here."""
        mine, its = (slice(None), None), (None, slice(None), slice(None), slice(None, None, -1))
        return _Lines(
            self.first[mine] + other.last[its],
            self.rise[mine] - other.fall[its],
            self.last[mine] + other.first[its],
            self.fall[mine] - other.rise[its],
            self.width,
        )

    @cached_property
    def most(self) -> Floats:
        """The largest value: at an end, or where the lines meet."""
        with np.errstate(invalid="ignore", divide="ignore"):
            start = self.last - self.fall * self.width
            meet = np.clip((start - self.first) / (self.rise - self.fall), 0.0, self.width)
            found = [
                np.minimum(self.first + self.rise * at, start + self.fall * at)
                for at in (0.0, np.nan_to_num(meet), self.width)
            ]
        most = np.max(found, axis=0)
        return np.where(self.width > 1, np.where(np.isnan(most), np.inf, most), -np.inf)

    def running(self) -> _Lines:
        """The largest value so far."""
        falls = self.fall < 0
        return _Lines(
            self.first,
            np.maximum(self.rise, 0.0),
            np.where(falls, self.most, self.last),
            np.where(falls, 0.0, self.fall),
            self.width,
        )


class _Some:
    """What one lane adds for both pairs of values at some numbers of records, and at most between them.

    A step moves logs of quotients nearer to each other, so that what a sequence grows by from one record to the next
    shrinks and keeps its sign. Between two numbers it lies on one side of the line through its values there, and on the
    other of both tangents.
    """

    def __init__(self, lane: Lane, loss: float) -> None:
        self.lane, self._loss = lane, loss
        self._passed, self._plain = lane.closed_forms(loss)
        self.rounding = self._passed.rounding + self._plain.rounding + _ROUNDING * min(loss, MOST_LOSS)
        self.slowness = max(self._passed.slowness, self._plain.slowness)

    def look(self, numbers: Floats) -> None:
        """Look at these numbers of records, in order, from 0 on."""
        self.numbers = numbers
        shifts = {shift for _, shift, _, _ in self.lane.strands}
        found = {shift: self._sequences(numbers - shift) for shift in shifts}
        strands = [(found[shift][0][..., column], found[shift][1][column]) for column, shift, _, _ in self.lane.strands]
        self.points = np.stack([values for values, _ in strands])
        running = [far for _, _, _, far in self.lane.strands]
        lines = [line.running() if far else line for (_, line), far in zip(strands, running, strict=True)]
        nothing = np.full((1, *self.points.shape[1:]), -np.inf)
        anywhere = np.concatenate([nothing, self.points[running]]).max(axis=0)
        self.gaps = np.max(
            [nothing[0, :, 1:], *(line.most for line, far in zip(lines, running, strict=True) if far)], axis=0
        )
        """(2, m − 1) at most, between two numbers: of records known anywhere."""
        self.reached = reached = np.maximum.accumulate(anywhere, axis=1)
        """(2, m) by a record that is known near enough, at each number."""
        before = np.concatenate([nothing[0, :, :1], np.maximum.accumulate(self.gaps, axis=1)], axis=1)
        self.bound = bound = np.maximum(reached, before)
        """(2, m) at most by such a record."""
        exact = self.points[np.logical_not(running)].max(axis=0)
        self.lower = np.maximum(exact, reached)
        """(2, m) at each number."""
        self.upper = np.maximum(exact, bound)
        """(2, m) at most, at each number."""
        lines.append(_Lines.flat(bound[:, :-1], lines[0].width))
        self.between = _Lines(
            np.stack([line.first for line in lines]),
            np.stack([line.rise for line in lines]),
            np.stack([line.last for line in lines]),
            np.stack([line.fall for line in lines]),
            lines[0].width,
        )
        """(end, 2, m − 1): kinds of ends, the last those that were nearer."""

    def _sequences(self, numbers: Floats) -> tuple[Floats, list[_Lines]]:
        """What each end adds, (2, m, E), and what at most between; nothing where there are less than 0 records."""
        there, width = numbers >= 0, np.diff(numbers)
        endless = np.isinf(width)
        width = np.where(endless, 2.0, width)
        counted, starts = np.maximum(numbers, 0.0), self.lane.starts
        (passed, *up), (plain, *down) = (powers.weights(counted, starts) for powers in (self._passed, self._plain))
        least = _SPREAD if self.lane.end is None else _SMALLEST
        if min(float(np.min(w, initial=1.0, where=w > 0)) for w in (passed, plain)) < least:
            raise LostError
        alive = (plain > 0).all(axis=2) & there[:, None]
        high, low = _log_quotient(passed), _log_quotient(plain)
        with np.errstate(invalid="ignore"):  # a side without records; nothing lies between it and the next
            values = np.where(alive, high - low, -np.inf)
            slopes = [np.diff(part, axis=1) / width[:, None] for part in (high, low)]
            rise = np.maximum(up[1][:, :-1], slopes[0]) - np.minimum(down[0][:, :-1], slopes[1])
            fall = np.minimum(up[0][:, 1:], slopes[0]) - np.maximum(down[1][:, 1:], slopes[1])
            flat = np.maximum(high[:, 1:], high[:, :-1]) - np.minimum(low[:, 1:], low[:, :-1])
        lines = []
        for column in range(3):
            if column == 2 and self.lane.end is None:
                last = np.where(there, worst_law(passed[..., 2:], plain[..., 2:]), -np.inf)
                values = np.concatenate([values[..., :2], last[..., None]], axis=2)
                flat_gap = _mixed_gaps(passed[..., 2:], plain[..., 2:])
                # Whatever the law, one record more adds no more than this, and the next less (Birkhoff).
                odds = math.tanh(float(np.log(self.lane.kernel) @ [1, -1] @ [1, -1]) / 4)
                with np.errstate(invalid="ignore"):
                    moved = 4 * np.arctanh(odds * np.tanh((last[:, :-1] + self._loss) / 4)) - last[:, :-1]
                rises = np.where(np.isfinite(moved), np.maximum(moved, 0.0) + _ROUNDING * (1 + abs(moved)), self._loss)
                lines.append(_Lines(last[:, :-1], rises, flat_gap, np.zeros_like(rises), width))
                continue
            first, last = (
                np.where(endless, flat[..., column], part[..., column]) for part in (values[:, :-1], values[:, 1:])
            )
            slope = [np.where(endless, 0.0, part[..., column]) for part in (rise, fall)]
            lines.append(_Lines(first, slope[0], last, slope[1], width))
        return values, lines

    def places(self, pair: int, at: int) -> list[int]:
        """Places of the numbers of records that ``lower`` comes from: its own, and those of records known nearer."""
        far = [strand[3] for strand in self.lane.strands]
        return [at, *(int(values[: at + 1].argmax()) for values in self.points[far, pair])]

    def end_at(self, pair: int, at: int) -> End:
        """The end behind ``lower``."""
        best, found = -math.inf, End(-math.inf, int(self.numbers[at]), int(self.numbers[at]), OPEN_END)
        for (_, shift, state, far), values in zip(self.lane.strands, self.points[:, pair], strict=True):
            where = int(values[: at + 1].argmax()) if far else at
            if values[where] > best:
                best = float(values[where])
                distance = int(self.numbers[where]) - shift + (state != OPEN_END)
                found = End(best, int(self.numbers[at]), distance, state)
        return found


def _mixed_gaps(passed: Floats, plain: Floats) -> Floats:
    """Any law of the first record, between two numbers: for each law, quotients lie between those at both ends."""
    sides = [(passed[:, :-1], passed[:, 1:]), (plain[:, :-1], plain[:, 1:])]
    return np.asarray(np.max([worst_law(up, down) for up in sides[0] for down in sides[1]], axis=0))


def _first_numbers(most: float) -> Floats:
    """All small numbers, then some in each octave, up to the largest."""
    octaves = math.log2(max(most, _ALL) / _ALL)
    some = np.floor(_ALL * 2.0 ** np.linspace(0.0, octaves, 1 + math.ceil(octaves * _IN_AN_OCTAVE)))
    return np.unique(np.concatenate([np.arange(min(most, _ALL) + 1), some[some <= most], [most]]))


def _split(numbers: Floats, chosen: Mask) -> Floats:
    """Numbers between those that are chosen, in equal parts."""
    first, last = numbers[:-1][chosen], numbers[1:][chosen]
    last = np.where(np.isinf(last), 2 * first, last)
    return np.asarray(np.floor(first + (last - first) * np.arange(1, _PARTS)[:, None] / _PARTS).ravel())


def worst_split(before: Lane, after: Lane, loss: float, records: int, share: float, proof: bool = True) -> TwoSides:
    """The worst record of a series of so many: all others lie before it or after it.

    Both sides are looked at for the same numbers: with each number that one leaves to the other. Without a proof only
    the lower end is of use, and may miss a larger one.
    """
    others = float(records - 1)
    left = _Some(before, loss)
    right = left if after is before else _Some(after, loss)
    room = left.rounding + right.rounding
    half = _first_numbers(math.floor(others / 2))
    numbers = np.unique(np.concatenate([half, others - half]))
    while True:
        for side in {id(left): left, id(right): right}.values():
            side.look(numbers)
        lower = left.lower + right.lower[:, ::-1]
        pair, at = (int(v) for v in np.unravel_index(int(lower.argmax()), lower.shape))
        most = float(lower[pair, at])
        enough = most + max(share * (loss + most), room)
        points, between = left.upper + right.upper[:, ::-1], left.between.beside(right.between).most
        upper = max(float(points.max()), float(between.max(initial=-np.inf)))
        if not proof:
            places = [*left.places(pair, at), *right.places(pair, len(numbers) - 1 - at)]
            chosen = _beside(places, len(numbers))
        elif upper > enough and len(numbers) <= _MOST_NUMBERS:
            too_much = between > enough
            chosen = np.asarray(too_much[:-1].any(axis=(0, 1, 2)) | too_much[:, :-1].any(axis=(0, 1, 2)))
            sums = points > enough
            for side, where, within in (
                (left, sums, too_much[-1]),
                (right, sums[:, ::-1], too_much[:, -1, :, ::-1]),
            ):
                chosen |= _nearer(side, where, np.asarray(within.any(axis=0)), (enough - most) / 2)
        else:
            chosen = np.zeros(len(numbers) - 1, dtype=bool)
        more = _split(numbers, chosen & (np.diff(numbers) > 1))
        if not len(more):
            ends = left.end_at(pair, at), right.end_at(pair, len(numbers) - 1 - at)
            return TwoSides(most, upper + room, pair, ends)
        numbers = np.unique(np.concatenate([numbers, more, others - more]))


def _beside(places: list[int], count: int) -> Mask:
    """What lies between these numbers, of so many, and the next ones."""
    out = np.zeros(count - 1, dtype=bool)
    for place in places:
        out[max(place - 1, 0) : place + 1] = True
    return out


def _nearer(side: _Some, points: Mask, within: Mask, half: float) -> Mask:
    """Between which numbers to look for records nearer to the target than those where sums are too large.

    Nearer ends of both sides can be had together, so that a sum of their bounds is too large only if one of the bounds
    is, by half as much.
    """
    out = np.zeros(len(side.numbers) - 1, dtype=bool)
    for pair in (0, 1):
        loose = side.bound[pair] > side.reached[pair] + half
        at = np.flatnonzero(loose & (points[pair] | np.append(within[pair], False)))
        if len(at):
            out[: at[-1]] |= side.gaps[pair, : at[-1]] > side.reached[pair, at[0]] + half
    return out


def worst_sides(lanes: tuple[Lane, ...], loss: float, share: float, proof: bool = True) -> TwoSides:
    """The same in a series without end, where sides may have any numbers of records; also of one side alone."""
    sides = [_Some(lane, loss) for lane in dict.fromkeys(lanes)]
    both = [sides[0], sides[-1]][: len(lanes)]
    room = sum(side.rounding for side in both)
    for side in sides:
        side.look(np.append(_first_numbers(math.ceil(side.slowness)), np.inf))
    while True:
        # Without end is a bound, and reached in the limit.
        reached = {side: side.lower[:, :-1].max(axis=1) for side in sides}
        gaps = {side: side.between.most[:-1].max(axis=0) for side in sides}
        tops = np.sum([np.maximum(side.upper.max(axis=1), gaps[side].max(axis=1)) for side in both], axis=0)
        lower = np.sum([reached[side] for side in both], axis=0)
        pair = int(lower.argmax())
        most, upper = float(lower[pair]), float(tops.max())
        enough = most + max(share * (loss + most), room)
        counted = max(len(side.numbers) for side in sides)
        looked = False
        for side in sides:
            if not proof:
                places = side.places(pair, int(side.lower[pair, :-1].argmax()))
                chosen = _beside(places, len(side.numbers)) & np.isfinite(side.numbers[1:])
            elif upper > enough and counted <= _MOST_NUMBERS:
                # A sum is too large only if a side is, by its share of what is too much.
                allowed = reached[side] + (enough - lower) / len(both)
                chosen = ((gaps[side] > allowed[:, None]) & (tops > enough)[:, None]).any(axis=0)
            else:
                continue
            more = _split(side.numbers, chosen & (np.diff(side.numbers) > 1))
            if len(more):
                looked = True
                side.look(np.unique(np.concatenate([side.numbers, more])))
        if not looked:
            ends = [side.end_at(pair, int(side.lower[pair, :-1].argmax())) for side in both]
            return TwoSides(most, upper + room, pair, (ends[0], ends[-1]))
