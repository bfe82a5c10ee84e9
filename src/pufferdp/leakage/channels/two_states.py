"""How much a series whose records are flipped one by one leaks about a record: two states, exactly.

Each record is flipped on its own, a 0 with probability ρ0 and a 1 with probability ρ1. Given what an adversary knows,
the likelihood ratio of an output between X_i = 0 and X_i = 1 is a product: the output of the record, the outputs
before it and the outputs after it. On either side the ratio moves by a Möbius map with every record that is passed,
rising where det P > 0 and falling where det P < 0, so the largest and the smallest ratio over all outputs follow from
the largest and the smallest before: two numbers. A known record at distance a with value v replaces the start of that
recursion, and what its value says by itself, P^a(0,v)/P^a(1,v), is divided out. Chakrabarti et al. (2020) stop at the
adversary who knows nothing and claim that it is the worst; it is not (docs/theory/flips.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Matrix
from pufferdp.basics.errors import ModelError
from pufferdp.models.chain import MarkovChain


@dataclass(frozen=True)
class Pair:
    """Log-ratios for a 0 over a 1 and for a 1 over a 0."""

    zero: float
    one: float

    def __or__(self, other: Pair) -> Pair:
        return Pair(max(self.zero, other.zero), max(self.one, other.one))


@dataclass(frozen=True)
class Rows:
    """A two-by-two table of weights, T(x,y): what the new weight of x takes from the old weight of y."""

    a: float
    b: float
    c: float
    d: float
    logs: tuple[float, float, float, float]

    @classmethod
    def of(cls, table: Matrix) -> Rows:
        """Entries and their logarithms, from a two-by-two array."""
        a, b, c, d = (float(v) for v in table.ravel())
        return cls(a, b, c, d, (log(a), log(b), log(c), log(d)))

    @property
    def rising(self) -> bool:
        """Whether a larger ratio goes to a larger one: det ≥ 0."""
        return self.a * self.d >= self.b * self.c

    def __call__(self, ratio: float) -> float:
        """Log of (a·R+b)/(c·R+d) for R = exp(ratio), either end included."""
        a, b, c, d = self.logs
        if ratio == math.inf:
            return a - c if a > -math.inf or c > -math.inf else math.nan
        top, bottom = log_add(a, ratio, b), log_add(c, ratio, d)
        return top - bottom if top > -math.inf or bottom > -math.inf else math.nan

    def attractor(self, first: float, second: float | None = None) -> float | None:
        """Where the ratio tends when it is multiplied by exp(first) before each step, or by first and second in turn.

        Log of the fixed point that attracts positive ratios; None where every ratio stays as it is.
        """
        a, b, c, d = self.a * math.exp(first), self.b, self.c * math.exp(first), self.d
        if second is not None:
            # One step after exp(second), the next after exp(first): the product of both tables.
            e, f, g, h = self.a * math.exp(second), self.b, self.c * math.exp(second), self.d
            a, b, c, d = a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h
        spread = a - d
        root = math.hypot(spread, 2 * math.sqrt(b) * math.sqrt(c))
        if spread >= 0:
            top, bottom = spread + root, 2 * c
        else:
            top, bottom = 2 * b, root - spread
        if top == 0 and bottom == 0:
            return None
        return log(top) - log(bottom)


class Ratios:
    """The ratio of the weights of 0 and 1 from a start: largest and smallest over all outputs of the hidden records.

    What the start says by itself, without any output, is divided out.
    """

    def __init__(self, rows: Rows, start: tuple[float, ...], high: float, low: float) -> None:
        self._rows, self._high, self._low = rows, high, low
        self.top = self.bottom = self.base = log(float(start[0])) - log(float(start[1]))
        rising = rows.rising
        self._limits = (
            rows.attractor(high) if rising else rows.attractor(low, high),
            rows.attractor(low) if rising else rows.attractor(high, low),
            rows.attractor(0.0) if rising else rows.attractor(0.0, 0.0),
        )

    @property
    def value(self) -> Pair:
        """The most that outputs add for a 0 over a 1, and for a 1 over a 0."""
        if not math.isfinite(self.base):
            return Pair(-math.inf, -math.inf)  # given the start, the record has one possible value
        return Pair(self.top - self.base, self.base - self.bottom)

    @property
    def beyond(self) -> Pair:
        """A bound on this value and all that follow.

        Each of the three ratios moves by one and the same map, rising where det ≥ 0: it then moves one way for ever,
        from where it is to its attractor. Where det < 0 this holds for every other step.
        """
        top, bottom, low, high = self.spans
        if low == high and not math.isfinite(low):
            return Pair(-math.inf, -math.inf)  # it stays impossible to have two values
        if not (math.isfinite(low) and math.isfinite(high)):
            return Pair(math.inf, math.inf)  # the second value is about to become possible, or impossible
        return Pair(top - low, high - bottom)

    @property
    def spans(self) -> tuple[float, float, float, float]:
        """From here on: the largest top, the smallest bottom, the smallest and the largest base."""
        now, then = (self.top, self.bottom, self.base), self._next()
        tops, bottoms, bases = (
            [v for v in values if v is not None] for values in zip(now, then, self._limits, strict=True)
        )
        return max(tops), min(bottoms), min(bases), max(bases)

    def _next(self) -> tuple[float, float, float]:
        rows = self._rows
        up, down = rows(self.top + self._high), rows(self.bottom + self._low)
        if not rows.rising:
            # A falling map turns the smallest into the largest.
            up, down = down, up
        return up, down, rows(self.base)

    def step(self) -> None:
        """One more hidden record."""
        self.top, self.bottom, self.base = self._next()


def log(x: float) -> float:
    """Log, with log 0 = -inf."""
    return math.log(x) if x > 0 else -math.inf


def log_add(a: float, ratio: float, b: float) -> float:
    """log(exp(a + ratio) + exp(b))."""
    if a == -math.inf or ratio == -math.inf:
        return b
    a += ratio
    if a < b:
        a, b = b, a
    return a if b == -math.inf or a == math.inf else a + math.log1p(math.exp(b - a))


class WorstStart:
    """Like :class:`pufferdp.leakage.moebius.Ratios`, for the worst start."""

    def __init__(self, transition: Matrix, high: float, low: float) -> None:
        self._P, rows = np.asarray(transition), Rows.of(transition.T)
        self._ends = [Ratios(rows, tuple(self._P[u]), high, low) for u in (0, 1)]
        # exp(high), exp(low) as weights of a 0 against a 1; how both are scaled does not matter.
        self._up, self._down = _weights(high), _weights(low)
        self._rising = rows.rising
        self._zero, self._one, self._bare, self._passed = np.eye(2), np.eye(2), np.eye(2), 0

    @property
    def value(self) -> Pair:
        """The most that outputs add for a 0 over a 1, and for a 1 over a 0."""
        return Pair(
            _largest(self._zero[:, 0], self._zero[:, 1], self._bare[:, 0], self._bare[:, 1]),
            _largest(self._one[:, 1], self._one[:, 0], self._bare[:, 1], self._bare[:, 0]),
        )

    @property
    def beyond(self) -> Pair:
        """The ratio from any start lies between those from the two certain ones; so does what the start says."""
        if self._passed == 0:
            return Pair(math.inf, math.inf)  # the ends are those after the first record
        now = self.value
        spans = [end.spans for end in self._ends]
        top, bottom = max(s[0] for s in spans), min(s[1] for s in spans)
        low, high = min(s[2] for s in spans), max(s[3] for s in spans)
        return now | Pair(top - low, high - bottom)

    def step(self) -> None:
        """One more hidden record, put before the others: what it does to the last ratio alternates if det P < 0."""
        up, down = self._up, self._down
        if not self._rising and self._passed % 2 == 0:
            up, down = down, up
        self._zero = _scaled(up[:, None] * (self._P @ self._zero))
        self._one = _scaled(down[:, None] * (self._P @ self._one))
        self._bare = self._P @ self._bare
        if self._passed:
            for end in self._ends:
                end.step()
        self._passed += 1


def _weights(ratio: float) -> Matrix:
    return np.array([1.0, math.exp(-ratio)]) if ratio >= 0 else np.array([math.exp(ratio), 1.0])


def _scaled(table: Matrix) -> Matrix:
    return np.asarray(table / table.max())


def _largest(g: Matrix, h: Matrix, p: Matrix, q: Matrix) -> float:
    """Log of the largest (m·g)(m·q)/((m·h)(m·p)) over laws m of the first record that leave both values possible."""
    # Quadratics in t, from the constant up.
    n = np.array([g[1] * q[1], g[0] * q[1] + g[1] * q[0], g[0] * q[0]])
    d = np.array([h[1] * p[1], h[0] * p[1] + h[1] * p[0], h[0] * p[0]])
    if not (n.any() and d.any()):
        return math.inf  # too small for doubles, and too far apart to matter
    slope = [n[2] * d[1] - n[1] * d[2], 2 * (n[2] * d[0] - n[0] * d[2]), n[1] * d[0] - n[0] * d[1]]
    values = []
    for t in np.roots(slope):
        if abs(t.imag) <= 1e-9 * abs(t) and t.real > 0:
            powers = t.real ** np.arange(3)
            values.append(float(n @ powers) / float(d @ powers))
    # Both ends are limits of starts: the lowest, and the highest, power that is there decides.
    for order in (slice(None), slice(None, None, -1)):
        lead = int(np.flatnonzero((n[order] > 0) | (d[order] > 0))[0])
        top, bottom = float(n[order][lead]), float(d[order][lead])
        values.append(top / bottom if bottom > 0 else math.inf)
    return math.log(max(values))


_SURE: Final = 1e-13
"""Distances beyond which no loss is larger by more than this are not looked at; their bound is what is returned."""
_MOST: Final = 20_000
"""Distances looked at before the bound on all others is taken as it is; longer series count as endless."""
_PATIENT: Final = 64
"""Supports of two states settle in a few steps; a bound that is infinite after so many stays infinite."""


@dataclass(frozen=True)
class Flips:
    """The two ratios that decide: every loss depends on (ρ0, ρ1) only through them."""

    high: float
    """log (1−ρ0)/ρ1: how much an output 0 speaks for a 0."""
    low: float
    """log ρ0/(1−ρ1), at most 0: how much an output 1 speaks for a 0."""

    @classmethod
    def of(cls, rho0: float, rho1: float) -> Flips:
        """From the probabilities of a flip."""
        return cls(_log(1 - rho0) - _log(rho1) if rho1 > 0 else math.inf, _log(rho0) - _log(1 - rho1))


@dataclass(frozen=True)
class FlipLoss:
    """The most that an output speaks for a 0 and not a 1, and for a 1 and not a 0."""

    zero: float
    one: float

    @property
    def worst(self) -> float:
        """The larger of the two: the most that any output says about a record."""
        return max(self.zero, self.one)

    def __or__(self, other: FlipLoss) -> FlipLoss:
        return FlipLoss(max(self.zero, other.zero), max(self.one, other.one))


def flip_loss(chain: MarkovChain, flips: Flips, length: int | None, adversary: Adversary) -> FlipLoss:
    """The exact loss of a series of this length, or of an endless one."""
    if chain.size != 2:
        raise ModelError(f"the chain has {chain.size} states; flips are for two", value=chain.size)
    positions = _Positions.of(chain)
    if positions.first is None or (length is not None and positions.first > length):
        return FlipLoss(0.0, 0.0)  # no record has two possible values
    channel = FlipLoss(flips.high, -flips.low)
    if adversary is Adversary.DP or not math.isfinite(channel.worst):
        return channel
    if length is not None and length > _MOST:
        length = None  # the loss never falls with the length
    everyone = adversary is Adversary.BDP
    after = _after(chain, flips, everyone, None if length is None else length - 1)
    # Where only one record has two possible values, it is the first of a full start, and nothing is before it.
    before = (
        _TwoStateSide([0.0], [0.0], (0.0, 0.0))
        if positions.once
        else _before(chain, flips, positions, everyone, length)
    )
    records = range(positions.first, (positions.first if positions.once else length) + 1) if length else None
    zero = _combine(before.zero, before.far[0], after.zero, after.far[0], records, length)
    one = _combine(before.one, before.far[1], after.one, after.far[1], records, length)
    return FlipLoss(channel.zero + zero, channel.one + one)


@dataclass(frozen=True)
class _Positions:
    """At which records both values are possible: from ``first`` on, or (``once``) only there."""

    first: int | None
    once: bool
    alone: tuple[int, ...]
    """The one possible value of each record before ``first``."""

    @classmethod
    def of(cls, chain: MarkovChain) -> _Positions:
        table = chain.transition
        once = not bool((table > 0).any(axis=0).all())  # a state that nothing leads to
        if chain.any_start:
            return cls(1, once, ())
        law = chain.stationary if chain.given_start is None else chain.given_start
        support = law > 0
        alone: list[int] = []
        # Supports of two states settle, or alternate, within three steps.
        for position in range(1, 5):
            if support.all():
                return cls(position, once, tuple(alone))
            alone.append(int(support[1]))
            support = support @ (table > 0)
        return cls(None, once, ())


@dataclass
class _TwoStateSide:
    """What a side adds: item m is for m records on it; ``far`` bounds all larger m."""

    zero: list[float] = field(default_factory=list)
    one: list[float] = field(default_factory=list)
    far: tuple[float, float] = (-math.inf, -math.inf)

    def add(self, zero: float, one: float) -> None:
        self.zero.append(zero)
        self.one.append(one)


def class_loss(chains: Sequence[MarkovChain], flips: Flips, length: int | None, adversary: Adversary) -> FlipLoss:
    """The loss of the worst model of a class."""
    return reduce(or_, (flip_loss(chain, flips, length, adversary) for chain in chains))


def _after(chain: MarkovChain, flips: Flips, everyone: bool, records: int | None) -> _TwoStateSide:
    """The records after the target: none known, or the nearest known one at any distance with any value."""
    rows = Rows.of(chain.transition)
    nothing = Ratios(rows, (1.0, 1.0), flips.high, flips.low)
    # A value that no state leads to is never seen there.
    columns = [column for column in chain.transition.T if column.any()] if everyone else []
    return _run(nothing, [Ratios(rows, tuple(column), flips.high, flips.low) for column in columns], (), records)


def _before(
    chain: MarkovChain, flips: Flips, positions: _Positions, everyone: bool, length: int | None
) -> _TwoStateSide:
    """The records before the target, read from the left: a start, or the nearest known record, is a row of weights."""
    table, start = chain.transition, chain.given_start
    rows = Rows.of(table.T)
    known = [Ratios(rows, tuple(table[u]), flips.high, flips.low) for u in (0, 1)] if everyone else []
    nothing: Ratios | WorstStart
    if chain.any_start:
        nothing = WorstStart(table, flips.high, flips.low)
    else:
        nothing = Ratios(rows, tuple(chain.stationary if start is None else start), flips.high, flips.low)
    return _run(nothing, known, positions.alone, None if length is None else length - 1)


def _run(
    nothing: Ratios | WorstStart, known: list[Ratios], alone: tuple[int, ...], records: int | None
) -> _TwoStateSide:
    """One record at a time, until all are passed or until the bound on all that are further is as good as reached.

    ``alone``: the first records on this side have one possible value, and only that one can be known.
    """
    side, met, early = _TwoStateSide(), Pair(-math.inf, -math.inf), len(alone)
    history: list[list[Pair]] = [[] for _ in known]
    best = Pair(-math.inf, -math.inf)
    for m in range((_MOST if records is None else records) + 1):
        value = nothing.value
        # A known record at distance a leaves a−1 hidden ones; item n of a history is for n hidden records.
        for seen, ratios in zip(history, known, strict=True):
            if m >= 1:
                seen.append(ratios.value)
        if m > early:
            for seen in history:
                met = met | seen[m - early - 1]
        value = value | met
        for position, state in enumerate(alone[:m], start=1):
            if known:
                value = value | history[state][m - position]
        side.add(value.zero, value.one)
        best = best | value
        far = nothing.beyond
        for ratios in known:
            far = far | ratios.beyond
        far = far | met
        if records is None and (m > _PATIENT and math.inf in (far.zero, far.one)):
            break
        if far.zero <= best.zero + _SURE and far.one <= best.one + _SURE:
            break
        nothing.step()
        if m >= 1:
            for ratios in known:
                ratios.step()
    else:
        if records is not None:
            return side
    side.far = (max(far.zero, met.zero), max(far.one, met.one))
    return side


def _combine(
    left: list[float], left_far: float, right: list[float], right_far: float, records: range | None, length: int | None
) -> float:
    """The worst record: before it and after it are as many records as the series has."""
    if records is None or length is None:
        return max(*left, left_far) + max(*right, right_far)

    def item(side: list[float], far: float, m: int) -> float:
        return side[m] if m < len(side) else max(far, side[-1])

    return max(item(left, left_far, i - 1) + item(right, right_far, length - i) for i in records)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf
