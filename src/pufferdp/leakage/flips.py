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

from pufferdp.checks import Adversary
from pufferdp.errors import ModelError
from pufferdp.leakage.any_start import AnyStart
from pufferdp.leakage.moebius import Pair, Ratios, Rows
from pufferdp.models.markov import MarkovChain

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
        """The loss."""
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
    before = _Side([0.0], [0.0], (0.0, 0.0)) if positions.once else _before(chain, flips, positions, everyone, length)
    records = range(positions.first, (positions.first if positions.once else length) + 1) if length else None
    zero = _together(before.zero, before.far[0], after.zero, after.far[0], records, length)
    one = _together(before.one, before.far[1], after.one, after.far[1], records, length)
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
class _Side:
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


def _after(chain: MarkovChain, flips: Flips, everyone: bool, records: int | None) -> _Side:
    """The records after the target: none known, or the nearest known one at any distance with any value."""
    rows = Rows.of(chain.transition)
    nothing = Ratios(rows, (1.0, 1.0), flips.high, flips.low)
    # A value that no state leads to is never seen there.
    columns = [column for column in chain.transition.T if column.any()] if everyone else []
    return _run(nothing, [Ratios(rows, tuple(column), flips.high, flips.low) for column in columns], (), records)


def _before(chain: MarkovChain, flips: Flips, positions: _Positions, everyone: bool, length: int | None) -> _Side:
    """The records before the target, read from the left: a start, or the nearest known record, is a row of weights."""
    table, start = chain.transition, chain.given_start
    rows = Rows.of(table.T)
    known = [Ratios(rows, tuple(table[u]), flips.high, flips.low) for u in (0, 1)] if everyone else []
    nothing: Ratios | AnyStart
    if chain.any_start:
        nothing = AnyStart(table, flips.high, flips.low)
    else:
        nothing = Ratios(rows, tuple(chain.stationary if start is None else start), flips.high, flips.low)
    return _run(nothing, known, positions.alone, None if length is None else length - 1)


def _run(nothing: Ratios | AnyStart, known: list[Ratios], alone: tuple[int, ...], records: int | None) -> _Side:
    """One record at a time, until all are passed or until the bound on all that are further is as good as reached.

    ``alone``: the first records on this side have one possible value, and only that one can be known.
    """
    side, met, early = _Side(), Pair(-math.inf, -math.inf), len(alone)
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


def _together(
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
