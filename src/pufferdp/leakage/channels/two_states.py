"""How much a series whose records are flipped one by one leaks about a record: two states, exactly.

Each record is flipped on its own, a 0 with probability ρ0 and a 1 with probability ρ1. Given what an adversary knows,
the likelihood ratio of an output between X_i = 0 and X_i = 1 is a product: the output of the record, the outputs
before it and the outputs after it. On either side the ratio moves by a Möbius map with every record that is passed,
rising where det P > 0 and falling where det P < 0, so the largest and the smallest ratio over all outputs follow from
the largest and the smallest before: two numbers. What m records do is a power of a two-by-two table, in closed form,
so that chains that hardly ever move, which remember thousands of records, take no longer than others. A known record at
distance a with value v replaces the start of that recursion, and what its value says by itself, P^a(0,v)/P^a(1,v), is
divided out. Chakrabarti et al. (2020) stop at the adversary who knows nothing and claim that it is the worst; it is not
(docs/theory/flips.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats, Ints, Mask, Matrix
from pufferdp.basics.errors import ModelError
from pufferdp.leakage.tight.two_states import worst_law
from pufferdp.models.chain import MarkovChain


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

    def __call__(self, ratio: float) -> float:
        """Log of (a·R+b)/(c·R+d) for R = exp(ratio), either end included."""
        a, b, c, d = self.logs
        if ratio == math.inf:
            return a - c if a > -math.inf or c > -math.inf else math.nan
        top, bottom = log_add(a, ratio, b), log_add(c, ratio, d)
        return top - bottom if top > -math.inf or bottom > -math.inf else math.nan


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


class _Power:
    """Powers of a two-by-two table A of weights with det A ≥ 0, for any number of records at once, up to a factor.

    With eigenvalues λ1 ≥ λ2 ≥ 0 and x = λ2/λ1, (A/λ1)^j = (A−λ2·I)·(1−x^j)/(λ1−λ2) + x^j·I: sums of nonnegative terms,
    so nothing cancels, however close the eigenvalues are.
    """

    def __init__(self, table: Matrix, gap: float, det: float) -> None:
        """``gap``: the difference of the diagonal, ``det``: the determinant; both are had with more digits outside."""
        (_, b), (c, _) = table
        root = math.hypot(gap, 2 * math.sqrt(b) * math.sqrt(c))
        larger = (float(np.trace(table)) + root) / 2
        # The two diagonal entries of A−λ2·I multiply to b·c: the smaller one would cancel.
        big = (abs(gap) + root) / 2
        small = b * c / big if big > 0 else 0.0
        self._rest = np.array([[big, b], [c, small]] if gap >= 0 else [[small, b], [c, big]])
        share = max(det, 0.0) / larger**2
        self._root, self._larger = root, larger
        self._log_share = math.log1p(-root / larger) if share > 0.5 else log(share)

    def __call__(self, times: Floats, starts: Floats) -> Floats:
        """(n, 2, starts): logs of weights after these numbers of tables, infinite for the limit; from (n, 2, starts).

        In logs throughout where a state is left for good: what it weighs becomes too small for a double.
        """
        endless = np.isinf(times)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self._root == 0:  # both eigenvalues alike: I + (j/λ)·(A−λ·I)
                changes = bool(self._rest.any())
                fades = np.where(endless & changes, -np.inf, 0.0)
                grows = np.where(endless, float(changes), times / self._larger)
            else:
                fades = np.where(times == 0, 0.0, times * self._log_share)
                grows = -np.expm1(fades) / self._root
            rest = grows[:, None, None] * (self._rest @ starts)
            if self._rest.all():
                return np.log(rest + np.exp(fades)[:, None, None] * starts)
            return np.asarray(np.logaddexp(np.log(rest), np.log(starts) + fades[:, None, None]))


class _Passed:
    """What outputs of hidden records do to the weights of 0 and 1, each output as ``first`` or ``second`` has it.

    Where det T ≥ 0 a larger ratio goes to a larger one, and every record has the same extreme output, ``first``. Where
    det T < 0 the map turns the smallest into the largest: outputs alternate, and the record next to the target has
    ``second``.
    """

    def __init__(self, table: Matrix, first: float, second: float) -> None:
        det = float(table[0, 0] * table[1, 1] - table[0, 1] * table[1, 0])
        self._odd: Matrix | None = None
        if det >= 0:
            weights = _weights(first)
            # The weights are 1 and exp(−|first|): their difference is taken before it is rounded.
            less = math.expm1(-abs(first))
            gap = float(table[0, 0] - table[1, 1]) + float(-table[1, 1] * less if first >= 0 else table[0, 0] * less)
            self._power = _Power(table * weights, gap, det * float(weights.prod()))
        else:
            self._odd = table * _weights(second)
            turn = self._odd @ (table * _weights(first))
            squared = det * det * math.exp(-abs(first) - abs(second))
            self._power = _Power(turn, _turned_gap(table, first, second), squared)

    def __call__(self, records: Floats, starts: Matrix, then: Floats | None = None) -> Floats:
        """(n, 2, starts): logs of the weights, up to a number that both values share.

        Where ``records`` is infinite, the limit over all that differ from ``then`` by an even number.
        """
        each = np.broadcast_to(starts, (len(records), *starts.shape))
        if self._odd is None:
            return self._power(records, each)
        odd = np.mod(records if then is None else then, 2) == 1
        return self._power(np.floor(records / 2), np.where(odd[:, None, None], self._odd @ starts, starts))


class _Sequences:
    """The log-ratios of the weights of 0 and 1 from some starts, by the number of hidden records.

    The largest and the smallest over all outputs, less what the start says by itself. Each of the three moves by one
    and the same map, rising (where det T < 0: at every other record), so it moves one way for ever: from where it is to
    the limit of the powers. What lies between two numbers of records is bounded by the ends.
    """

    def __init__(self, table: Matrix, starts: Matrix, flips: Flips, worst_start: bool = False) -> None:
        self._starts, self._worst_start = starts, worst_start
        outputs = (flips.high, flips.low), (flips.low, flips.high), (0.0, 0.0)
        self._passed = [_Passed(table, first, second) for first, second in outputs]
        self.stride = 1 if table[0, 0] * table[1, 1] >= table[0, 1] * table[1, 0] else 2
        # An output that says nothing adds nothing. Ends of a range would bound it by how far the chain moves.
        silent = np.array([flips.high, flips.low]) == 0
        self._silent = (silent if self.stride == 1 else silent & silent.all())[:, None, None]

    def values(self, records: Floats) -> Floats:
        """(2, n, starts): what outputs add for a 0 over a 1, and for a 1 over a 0; −∞ where one value is possible."""
        return self._added(*(passed(records, self._starts) for passed in self._passed))

    def between(self, first: Floats, last: Floats) -> tuple[Floats, Floats]:
        """(2, n) each: what ``first`` adds, and a bound on ``first``, ``first`` + stride, …, ``last``.

        ``last`` may be infinite.
        """
        ends = [(passed(first, self._starts), passed(last, self._starts, first)) for passed in self._passed]
        tops, bottoms, bares = ends
        sums = np.array([self._added(tops[i], bottoms[i], bares[j]) for i in (0, 1) for j in (0, 1)])
        # The second value is about to become possible, or impossible: nothing bounds what outputs say about it.
        start, end = (self._possible(bare) for bare in bares)
        most = np.where(start == end, sums.max(axis=0), np.inf)
        return sums[0].max(axis=2, initial=-np.inf), most.max(axis=2, initial=-np.inf)

    def _possible(self, bare: Floats) -> Mask:
        """(n, starts): whether both values are; with the worst start as one."""
        weighs: Mask = np.isfinite(bare)
        if self._worst_start:
            weighs = np.asarray(weighs.any(axis=2, keepdims=True))
        return np.asarray(weighs.all(axis=1))

    def _added(self, top: Floats, bottom: Floats, bare: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            if self._worst_start:
                added = _of_worst_start(top, bottom, bare)
            else:
                base = bare[:, 0] - bare[:, 1]
                added = np.stack([top[:, 0] - top[:, 1] - base, base - (bottom[:, 0] - bottom[:, 1])])
        added = np.where(self._possible(bare), np.where(self._silent, 0.0, added), -np.inf)
        return np.asarray(np.where(np.isnan(added), np.inf, added))


def _of_worst_start(top: Floats, bottom: Floats, bare: Floats) -> Floats:
    """(2, n, 1): the most over all laws of the first record; tables are (n, value, first record)."""
    shifted = [logs - logs.max(axis=(1, 2), keepdims=True) for logs in (top, bottom, bare)]
    # A row of weights for each value; where their products are too small for doubles, nothing is claimed.
    least = [np.where(np.isfinite(logs), logs, np.inf).min(axis=2) for logs in shifted]
    top_low, bottom_low, bare_low = (np.where(np.isfinite(logs), logs, 0.0).sum(axis=1) for logs in least)
    lost = np.minimum(top_low, bottom_low) + bare_low < _LOWEST
    up, down, plain = (np.exp(logs)[None] for logs in shifted)
    with np.errstate(over="ignore"):  # infinite is an upper end
        both = np.concatenate([worst_law(up, plain), worst_law(down[:, :, ::-1], plain[:, :, ::-1])])
    return np.asarray(np.where(lost, np.inf, both)[..., None])


def _turned_gap(table: Matrix, first: float, second: float) -> float:
    """The difference of the diagonal of two steps that turn the ratio round, before it is rounded.

    The two large terms of such steps differ in their weights alone, and nearly cancel where flips hide nearly all.
    """
    (a, b), (c, d) = table.tolist()
    these, those = _weights(first), _weights(second)
    crossed = 0.0
    if first != second:
        larger = max(those[1] * these[0], those[0] * these[1])
        crossed = math.copysign(float(larger) * -math.expm1(-abs(second - first)), first - second)
    return float(a * a * those[0] * these[0] - d * d * those[1] * these[1] + b * c * crossed)


def _weights(ratio: float) -> Matrix:
    """exp(ratio) as weights of a 0 against a 1; how both are scaled does not matter."""
    return np.array([1.0, math.exp(-ratio)]) if ratio >= 0 else np.array([math.exp(ratio), 1.0])


_SURE: Final = 1e-13
"""Numbers of records beyond which no loss is larger by more than this are not looked at; the bound is returned."""
_MOST: Final = 20_000
"""Longer series count as endless."""
_LOWEST: Final = -690.0
"""The log of a product of weights that a double still holds with all its digits."""
_NEAR: Final = 256
"""Records on a side that are looked at one by one before anything else."""
_FARTHEST: Final = 50
"""Beyond 2 to this many records a side is bounded by its limit."""
_SEGMENTS: Final = 20_000
"""Ranges of records that a round may halve; the bound on those that are left is proved all the same."""


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
    if positions.once:  # only one record has two possible values: the first of a full start, and nothing is before it
        before = _TwoStateSide(np.zeros((2, 1)), np.zeros(2))
    elif chain.given_start is None and not chain.any_start:
        before = after  # a stationary chain of two states reads the same backwards
    else:
        before = _before(chain, flips, positions, everyone, length)
    records = np.arange(positions.first, (positions.first if positions.once else length) + 1) if length else None
    zero, one = (float(added) for added in _combine(before, after, records, length))
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


@dataclass(frozen=True, eq=False)
class _TwoStateSide:
    """What a side adds for a 0 over a 1, and for a 1 over a 0: item m is for m records on it."""

    by_length: Floats
    """(2, N)."""
    far: Floats
    """(2,): bounds all that are longer."""

    @property
    def most(self) -> Floats:
        """(2,): for any number of records."""
        return np.asarray(np.maximum(self.by_length.max(axis=1), self.far))

    def items(self, records: Ints) -> Floats:
        """(2, n)."""
        last = self.by_length.shape[1] - 1
        beyond = np.maximum(self.far, self.by_length[:, -1])[:, None]
        return np.where(records <= last, self.by_length[:, np.minimum(records, last)], beyond)


def class_loss(chains: Sequence[MarkovChain], flips: Flips, length: int | None, adversary: Adversary) -> FlipLoss:
    """The loss of the worst model of a class."""
    return reduce(or_, (flip_loss(chain, flips, length, adversary) for chain in chains))


def _after(chain: MarkovChain, flips: Flips, everyone: bool, records: int | None) -> _TwoStateSide:
    """The records after the target: none known, or the nearest known one at any distance with any value."""
    table = np.asarray(chain.transition)
    nothing = _Sequences(table, np.ones((2, 1)), flips)
    # A value that no state leads to is never seen there.
    known = _Sequences(table, table[:, table.any(axis=0)], flips) if everyone else None
    return _side(nothing, known, (), records)


def _before(
    chain: MarkovChain, flips: Flips, positions: _Positions, everyone: bool, length: int | None
) -> _TwoStateSide:
    """The records before the target, read from the left: a start, or the nearest known record, is a row of weights."""
    turned = np.asarray(chain.transition).T
    known = _Sequences(turned, turned, flips) if everyone else None
    if chain.any_start:
        nothing = _Sequences(turned, np.eye(2), flips, worst_start=True)
    else:
        nothing = _Sequences(turned, np.asarray(chain.given_start)[:, None], flips)
    return _side(nothing, known, positions.alone, None if length is None else length - 1)


def _side(nothing: _Sequences, known: _Sequences | None, alone: tuple[int, ...], records: int | None) -> _TwoStateSide:
    """What up to so many records add, or any number of them.

    Near ones are looked at one by one. If the bound on all that are further is not as good as reached, all others are,
    or, where there is no end, ranges of them that are halved until it is.

    ``alone``: the first records on this side have one possible value, and only that one can be known.
    """
    sequences = [nothing] if known is None else [nothing, known]
    near = _NEAR if records is None else min(records, _NEAR)
    by_length = _by_length(nothing, known, alone, near)
    if records == near:
        return _TwoStateSide(by_length, np.full(2, -np.inf))
    best = by_length.max(axis=1)
    far = np.max([_beyond(each, near) for each in sequences], axis=0)
    if (far <= best + _SURE).all():
        return _TwoStateSide(by_length, np.maximum(far, best))
    if records is not None:
        return _TwoStateSide(_by_length(nothing, known, alone, records), np.full(2, -np.inf))
    if np.isfinite(far).all():
        far = np.max([_supremum(each, near, best) for each in sequences], axis=0)
    return _TwoStateSide(by_length, np.maximum(far, best))


def _by_length(nothing: _Sequences, known: _Sequences | None, alone: tuple[int, ...], records: int) -> Floats:
    """(2, records + 1)."""
    numbers = np.arange(records + 1, dtype=float)
    values = nothing.values(numbers)[..., 0]
    if known is None:
        return values
    # A known record at distance a leaves a−1 hidden ones: item n of these is for n hidden records.
    seen = known.values(numbers)
    early = len(alone)
    met = np.maximum.accumulate(seen.max(axis=2, initial=-np.inf), axis=1)
    values[:, early + 1 :] = np.maximum(values[:, early + 1 :], met[:, : max(records - early, 0)])
    for position, state in enumerate(alone, start=1):
        if position <= records:
            values[:, position:] = np.maximum(values[:, position:], seen[:, : records + 1 - position, state])
    return values


def _beyond(sequences: _Sequences, records: int) -> Floats:
    """(2,): a bound on so many records and more."""
    first = records + np.arange(sequences.stride, dtype=float)
    return np.asarray(sequences.between(first, np.full(len(first), np.inf))[1].max(axis=1))


def _supremum(sequences: _Sequences, records: int, best: Floats) -> Floats:
    """(2,): a bound on so many records and more, above what is attained there, or ``best``, by next to nothing."""
    stride = sequences.stride
    ends = np.concatenate([records * 2.0 ** np.arange(_FARTHEST - int(math.log2(records))), [np.inf]])
    first, last = (np.concatenate([part + shift for shift in range(stride)]) for part in (ends[:-1], ends[1:]))
    attained, done = best, np.full(2, -np.inf)
    while len(first):
        here, bounds = sequences.between(first, last)
        attained = np.maximum(attained, here.max(axis=1))
        going = (bounds > (attained + _SURE)[:, None]).any(axis=0) & (last > first) & np.isfinite(last)
        if going.sum() > _SEGMENTS:
            going[:] = False
        done = np.maximum(done, bounds[:, ~going].max(axis=1, initial=-np.inf))
        first, last = first[going], last[going]
        middle = first + stride * np.floor((last - first) / (2 * stride))
        # Both halves begin and end at numbers that were, or will be, looked at: the ends of a range bound it.
        first, last = np.concatenate([first, middle + stride]), np.concatenate([middle, last])
        inside = first <= last
        first, last = first[inside], last[inside]
    return done


def _combine(before: _TwoStateSide, after: _TwoStateSide, records: Ints | None, length: int | None) -> Floats:
    """(2,): the worst record; before it and after it are as many records as the series has."""
    if records is None or length is None:
        return before.most + after.most
    return np.asarray((before.items(records - 1) + after.items(length - records)).max(axis=1))


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf
