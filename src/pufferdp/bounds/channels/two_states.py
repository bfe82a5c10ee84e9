"""Leakage of a binary Markov chain whose records are flipped one by one: exact.

Each record is flipped independently, a 0 with probability ρ0 and a 1 with probability ρ1. Given what an adversary
knows, the likelihood ratio of an output between X_i = 0 and X_i = 1 is a product of three factors: the output of the
record, the outputs before it and the outputs after it. On either side the ratio moves by a Möbius map with every record
passed, rising where det P > 0 and falling where det P < 0, so the largest and the smallest ratio over all outputs
follow from those one record before. Passing m records is a power of a two-by-two matrix. A known record
at distance a with value v replaces the start of the recursion, and its own evidence P^a(0,v)/P^a(1,v) is divided out.
Chakrabarti et al. (2020) treat the adversary who knows no record and claim that it is the worst; it is not
(docs/theory/flips.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats, Mask, Matrix
from pufferdp.basics.errors import ModelError
from pufferdp.bounds.chains.starts import worst_start
from pufferdp.models.chain import MarkovChain

_TOLERANCE: Final = 1e-9
"""The bound for endless series exceeds the loss by at most this."""
_ENDLESS: Final = 20_000
"""Longer series are treated as endless: the loss never falls with the length."""
_MOST_RANGES: Final = 500
"""Ranges of numbers of records that are halved at once; the bounds on the others hold all the same."""


@dataclass(frozen=True)
class Flips:
    """The two log-likelihood ratios of a flipped record: every loss depends on (ρ0, ρ1) only through them."""

    high: float
    """log (1−ρ0)/ρ1: the evidence of an output 0 for a 0."""
    low: float
    """log ρ0/(1−ρ1), at most 0: the evidence of an output 1 for a 0."""

    @classmethod
    def of(cls, rho0: float, rho1: float) -> Flips:
        """The ratios of two flip probabilities."""
        return cls(_log(1 - rho0) - _log(rho1) if rho1 > 0 else math.inf, _log(rho0) - _log(1 - rho1))


@dataclass(frozen=True)
class FlipLoss:
    """The largest log-likelihood ratio of an output for a 0 against a 1, and for a 1 against a 0."""

    zero: float
    one: float

    @property
    def worst(self) -> float:
        """The larger of the two ratios: the loss that epsilon limits."""
        return max(self.zero, self.one)


def class_loss(chains: Sequence[MarkovChain], flips: Flips, length: int | None, adversary: Adversary) -> FlipLoss:
    """The loss of the worst chain of a class."""
    losses = [flip_loss(chain, flips, length, adversary) for chain in chains]
    return FlipLoss(max(loss.zero for loss in losses), max(loss.one for loss in losses))


def flip_loss(chain: MarkovChain, flips: Flips, length: int | None, adversary: Adversary) -> FlipLoss:
    """The exact loss of a series of this length, or of an endless one (None)."""
    if chain.size != 2:
        raise ModelError(f"the chain has {chain.size} states; flips are for two", value=chain.size)
    positions = SecretPositions.of(chain)
    if positions.first is None or (length is not None and positions.first > length):
        return FlipLoss(0.0, 0.0)  # no record has two possible values
    channel = FlipLoss(flips.high, -flips.low)
    if adversary is Adversary.DP or not math.isfinite(channel.worst):
        return channel
    if length is not None and length > _ENDLESS:
        length = None
    after, before = _sides(chain, flips, adversary)
    if length is None:
        most = right = _supremum(after)
        if not positions.once:
            most = right + (right if before is after else _supremum(before))
    else:
        right = _by_length(after, (), length - 1)
        left = right if before is after else _by_length(before, positions.certain, length - 1)
        records = np.arange(positions.first, length + 1)
        most = (left[:, records - 1] + right[:, length - records]).max(axis=1)
        if positions.once:  # nothing lies before the first record
            most = right[:, length - 1]
    # Evidence that has grown with each of 2^44 records has no limit.
    most = np.where(most < 2.0**32, most, np.inf)
    return FlipLoss(channel.zero + float(most[0]), channel.one + float(most[1]))


@dataclass(frozen=True)
class SecretPositions:
    """The records, from 1, with two possible values: all from ``first`` on, or (``once``) ``first`` alone."""

    first: int | None
    once: bool
    certain: tuple[int, ...]
    """The one possible value of each record before ``first``."""

    @classmethod
    def of(cls, chain: MarkovChain) -> SecretPositions:
        """The positions for a chain of two states."""
        table = chain.transition
        once = not bool((table > 0).any(axis=0).all())  # a state that no transition leads to
        support = np.ones(2, dtype=bool)
        if not chain.any_start:
            support = (chain.stationary if chain.given_start is None else chain.given_start) > 0
        certain: list[int] = []
        for position in range(1, 5):  # supports of two states are constant, or alternate, within three steps
            if support.all():
                return cls(position, once, tuple(certain))
            certain.append(int(support[1]))
            support = support @ (table > 0)
        return cls(None, once, ())


_Side = tuple["_Evidence", "_Evidence | None"]
"""Evidence of the outputs on one side where no record there is known, and up to the nearest known record."""


def _sides(chain: MarkovChain, flips: Flips, adversary: Adversary) -> tuple[_Side, _Side]:
    """The records after the target, and those before it."""
    moves, back = np.asarray(chain.transition), np.asarray(chain.transition).T
    knows = adversary is Adversary.BDP
    # A value that no transition leads to is never known.
    known = _Evidence(moves, moves[:, moves.any(axis=0)], flips) if knows else None
    after = _Evidence(moves, np.ones((2, 1)), flips), known
    if chain.given_start is None and not chain.any_start:
        return after, after  # a stationary chain of two states is reversible
    known = _Evidence(back, back, flips) if knows else None
    if chain.any_start:
        return after, (_Evidence(back, np.eye(2), flips, any_start=True), known)
    return after, (_Evidence(back, np.asarray(chain.given_start)[:, None], flips), known)


def _by_length(side: _Side, certain: tuple[int, ...], records: int) -> Floats:
    """The largest evidence of 0, 1, …, ``records`` records on a side: (2, records + 1).

    The first records of the series are ``certain``, and can be known with that value only.
    """
    nothing, known = side
    numbers = np.arange(records + 1, dtype=float)
    values = nothing.values(numbers)[..., 0]
    if known is None:
        return values
    # A known record at distance a leaves a−1 records between: item n of ``between`` is for n records between.
    between = known.values(numbers)
    early = len(certain)
    nearest = np.maximum.accumulate(between.max(axis=2, initial=-np.inf), axis=1)
    values[:, early + 1 :] = np.maximum(values[:, early + 1 :], nearest[:, : max(records - early, 0)])
    for position, state in enumerate(certain[:records], start=1):
        values[:, position:] = np.maximum(values[:, position:], between[:, : records + 1 - position, state])
    return values


def _supremum(side: _Side) -> Floats:
    """The largest evidence of any number of records on a side, plus at most the tolerance: (2,).

    Ranges of numbers of records are halved until their bounds are no larger than a value that is attained.
    """
    attained, bound = np.full(2, -np.inf), np.full(2, -np.inf)
    for evidence in filter(None, side):
        stride, ends = evidence.stride, np.concatenate([[0.0], 2.0 ** np.arange(1, 40), [np.inf]])
        first, last = (np.concatenate([part + shift for shift in range(stride)]) for part in (ends[:-1], ends[1:]))
        while len(first):
            here, most = evidence.between(first, last)
            attained = np.maximum(attained, here.max(axis=1))
            halved = (most > (attained + _TOLERANCE)[:, None]).any(axis=0) & (last > first) & np.isfinite(last)
            if halved.sum() > _MOST_RANGES:
                halved[:] = False
            bound = np.maximum(bound, most[:, ~halved].max(axis=1, initial=-np.inf))
            first, last = first[halved], last[halved]
            middle = first + stride * np.floor((last - first) / (2 * stride))
            first, last = np.concatenate([first, middle + stride]), np.concatenate([middle, last])
            first, last = first[first <= last], last[first <= last]
    return np.asarray(np.maximum(attained, bound))


class _Evidence:
    """Log-likelihood ratios of the outputs on one side, from some starts, by the number of records passed.

    The largest and the smallest ratio over all outputs, less that of the start itself. Each of the three moves by one
    monotone map (where det T < 0: at every other record), so it moves in one direction for ever, and a range of numbers
    of records is bounded by its ends.
    """

    def __init__(self, table: Matrix, starts: Matrix, flips: Flips, any_start: bool = False) -> None:
        self._starts, self._any_start = starts, any_start
        outputs = (flips.high, flips.low), (flips.low, flips.high), (0.0, 0.0)
        self._passed = [_Passed(table, first, second) for first, second in outputs]
        self.stride = 1 if table[0, 0] * table[1, 1] >= table[0, 1] * table[1, 0] else 2
        # An output without evidence adds nothing; the ends of a range would bound it by how far the chain moves.
        silent = np.array([flips.high, flips.low]) == 0
        self._silent = (silent if self.stride == 1 else silent & silent.all())[:, None, None]

    def values(self, records: Floats) -> Floats:
        """Evidence for a 0 and for a 1, (2, n, starts); −∞ where only one value is possible."""
        return self._added(*(passed(records, self._starts) for passed in self._passed))

    def between(self, first: Floats, last: Floats) -> tuple[Floats, Floats]:
        """Evidence of ``first`` records, and a bound on ``first``, ``first`` + stride, …, ``last``: (2, n) each.

        ``last`` may be infinite.
        """
        ends = [(passed(first, self._starts), passed(last, self._starts, first)) for passed in self._passed]
        tops, bottoms, bares = ends
        sums = np.array([self._added(tops[i], bottoms[i], bares[j]) for i in (0, 1) for j in (0, 1)])
        # Where a value becomes possible, or impossible, within the range nothing bounds the evidence about it.
        start, end = (self._possible(bare) for bare in bares)
        most = np.where(start == end, sums.max(axis=0), np.inf)
        return sums[0].max(axis=2, initial=-np.inf), most.max(axis=2, initial=-np.inf)

    def _possible(self, bare: Floats) -> Mask:
        """Whether both values are possible: (n, starts), one start that may be any counting as one."""
        weighs: Mask = np.isfinite(bare)
        if self._any_start:
            weighs = np.asarray(weighs.any(axis=2, keepdims=True))
        return np.asarray(weighs.all(axis=1))

    def _added(self, top: Floats, bottom: Floats, bare: Floats) -> Floats:
        """Evidence from log-weights (n, value, start) under the largest, the smallest and no output."""
        with np.errstate(invalid="ignore"):
            if self._any_start:
                added = _of_any_start(top, bottom, bare)
            else:
                base = bare[:, 0] - bare[:, 1]
                added = np.stack([top[:, 0] - top[:, 1] - base, base - (bottom[:, 0] - bottom[:, 1])])
        added = np.where(self._possible(bare), np.where(self._silent, 0.0, added), -np.inf)
        return np.asarray(np.where(np.isnan(added), np.inf, added))


def _of_any_start(top: Floats, bottom: Floats, bare: Floats) -> Floats:
    """The largest evidence over all distributions of the first record: (2, n, 1)."""
    shifted = [logs - logs.max(axis=(1, 2), keepdims=True) for logs in (top, bottom, bare)]
    least = [np.where(np.isfinite(logs), logs, 0.0).min(axis=2).sum(axis=1) for logs in shifted]
    # Infinite, which is an upper bound, where products of weights are too small for doubles with all their digits.
    lost = np.minimum(least[0], least[1]) + least[2] < math.log(np.finfo(float).tiny) + 18
    up, down, plain = (np.exp(logs) for logs in shifted)
    both = np.stack([worst_start(up, plain), worst_start(down[:, ::-1], plain[:, ::-1])])
    return np.asarray(np.where(lost, np.inf, both)[..., None])


class _Passed:
    """Log-weights of 0 and 1 after passing records, each with the output of evidence ``first`` or ``second``.

    Where det T ≥ 0 the map is rising, and every record has the same extreme output, ``first``. Where det T < 0 it turns
    the smallest ratio into the largest: outputs alternate, and the record next to the target has ``second``.
    """

    def __init__(self, table: Matrix, first: float, second: float) -> None:
        with np.errstate(divide="ignore"):
            moves = np.log(table)
        self._step, self._odd = (moves + np.array([evidence, 0.0]) for evidence in (first, second))
        self._alternates = bool(np.linalg.det(table) < 0)
        if self._alternates:
            self._step = _log_product(self._odd, self._step)
        self._squares = [self._step]

    def __call__(self, records: Floats, starts: Matrix, parity: Floats | None = None) -> Floats:
        """Log-weights (n, 2, starts), up to a number that both values share.

        An infinite number of records counts as 2^44 of them, more or less so that it differs from ``parity`` by an even
        number.
        """
        with np.errstate(divide="ignore"):
            logs = np.log(np.broadcast_to(starts, (len(records), *starts.shape)))
        if self._alternates:
            odd = np.mod(records if parity is None else parity, 2) == 1
            logs, records = np.where(odd[:, None, None], _log_product(self._odd, logs), logs), np.floor(records / 2)
        exponents, logs = np.minimum(records, 2.0**44).astype(np.int64), np.array(logs)
        for bit in range(int(exponents.max()).bit_length()):
            if bit == len(self._squares):
                self._squares.append(_log_product(self._squares[-1], self._squares[-1]))
            chosen = np.flatnonzero(exponents >> bit & 1)
            logs[chosen] = _log_product(self._squares[bit], logs[chosen])
        return logs


def _log_product(a: Floats, b: Floats) -> Floats:
    """Log of the product of 2×2 matrices exp(a) and matrices exp(b), up to a factor that keeps its largest entry 1."""
    product = np.logaddexp(a[..., :, :1] + b[..., :1, :], a[..., :, 1:] + b[..., 1:, :])
    return np.asarray(product - product.max(axis=(-2, -1), keepdims=True))


def _log(x: float) -> float:
    """The logarithm, with log 0 = -inf."""
    return math.log(x) if x > 0 else -math.inf
