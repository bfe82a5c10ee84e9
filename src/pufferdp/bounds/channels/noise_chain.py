"""Leakage with correlated noise: the output is the data XOR a second binary chain, independent of the data. Exact.

Once an output z_t is seen the noise is x_t XOR z_t, so the weights of x = 0 and x = 1 move by a two-by-two table that
depends on the outputs on both sides of the step, P(x,x')·N(x⊕z, x'⊕z'). Their ratio moves by a monotone Möbius map. The
largest and the smallest ratio for either current output follow from those one step before: four numbers. An adversary
who knows a record knows the noise there as well; what lies beyond that record carries no further information, and its
own evidence is divided out.

Chakrabarti et al. (2020, section 3.3) treat the adversary who knows no record and find the same average noise as with
independent flips. For an adversary who knows records this does not hold (docs/theory/flips.md).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats, Ints
from pufferdp.basics.errors import ModelError, NotApplicableError
from pufferdp.bounds.chains.starts import first_distribution
from pufferdp.bounds.channels.two_states import FlipLoss, SecretPositions
from pufferdp.models.chain import MarkovChain

_MOST: Final = 4096
"""Records on a side that are passed one by one; longer sides are bounded by contraction."""
_TOLERANCE: Final = 1e-13
"""A side is passed no further once the bound on everything beyond adds no more than this."""


@dataclass(frozen=True)
class NoiseChainLoss:
    """A bracket around the leakage of a release with correlated noise."""

    lower: FlipLoss
    """The loss that some output of the records passed attains."""
    upper: FlipLoss
    """A bound that includes what longer series may add."""


def noise_chain_loss(data: MarkovChain, noise: MarkovChain, length: int | None, adversary: Adversary) -> NoiseChainLoss:
    """The loss of a series of this length, or of an endless one (None), for noise whose steps are all possible.

    Exact up to 4096 records. Beyond, lower and upper differ by what slow chains add, most often by nothing. Raises
    NotApplicableError for longer series where a step of the data is impossible: contraction then bounds nothing.
    """
    for name, chain in (("data", data), ("noise", noise)):
        if chain.size != 2:
            raise ModelError(f"the {name} has {chain.size} states; correlated noise is for two", value=chain.size)
        if chain.any_start:
            raise ModelError(f'the {name} has start "any"; correlated noise needs a start: stationary, or given')
    if not ((first_distribution(noise) > 0).all() and (noise.transition > 0).all()):
        raise NotApplicableError("some flip of the noise is certain or impossible, and gives a record away")
    secret = SecretPositions.of(data)
    if secret.first is None or (length is not None and secret.first > length):
        return NoiseChainLoss(FlipLoss(0.0, 0.0), FlipLoss(0.0, 0.0))  # no record has two possible values
    if adversary is Adversary.DP:  # the model plays no role: all values of the other records count
        first, *rows = ([Fraction(float(p)) for p in row] for row in (first_distribution(noise), *noise.transition))
        loss = noise_dp_loss(first, rows, length)
        return NoiseChainLoss(FlipLoss(loss, loss), FlipLoss(loss, loss))
    passed = _MOST if length is None else min(length - 1, _MOST)
    left, right = (_pass_records(data, noise, way, secret.first - 1, passed, adversary) for way in ("before", "after"))
    records = np.arange(secret.first, (secret.first if secret.once else passed + 1) + 1)
    lower = _worst(left, right, records - secret.first, passed + 1 - records)
    if length == passed + 1:
        return NoiseChainLoss(lower, lower)
    if not (data.transition > 0).all():
        raise NotApplicableError(
            f"some step is impossible in the data, and the loss of more than {_MOST} records is not known then; cut "
            f"the series into chains of at most {_MOST + 1} records",
            value=length,
        )
    # The loss never falls when records are added at the end, so the right side has as many as make no difference.
    before = np.arange(len(left.spans) + 1)
    return NoiseChainLoss(lower, lower | _worst(left, right, before, np.full_like(before, len(right.spans))))


def class_noise_loss(
    chains: Sequence[MarkovChain], noise: MarkovChain, length: int | None, adversary: Adversary
) -> NoiseChainLoss:
    """The loss for the worst chain of a class."""
    lower, upper = FlipLoss(0.0, 0.0), FlipLoss(0.0, 0.0)
    for chain in chains:
        loss = noise_chain_loss(chain, noise, length, adversary)
        lower, upper = lower | loss.lower, upper | loss.upper
    return NoiseChainLoss(lower, upper)


def noise_dp_loss(
    start: Sequence[int] | Sequence[Fraction],
    shares: Sequence[Sequence[int]] | Sequence[Sequence[Fraction]],
    length: int | None,
) -> float:
    """The privacy loss ε of DP: the largest change of the log-likelihood of an output when one record changes.

    The likelihood of an output z given the data x is that of the noise path x⊕z. One record changes one step into it
    and one out of it. The result is rounded up.

    Args:
        start: the distribution of the first flip, in any unit.
        shares: that of the next flip given the last, one row each, in any unit.
        length: records of the series; None for an endless one.
    """
    # The supports of two states repeat with period two from the fourth record on: eight or nine records stand for all.
    count = 8 if length is None else length if length < 8 else 8 + length % 2
    before: list[Sequence[int] | Sequence[Fraction]] = [start]  # the distributions that a flip can have
    support, largest = {n for n in (0, 1) if start[n] > 0}, 0.0
    for record in range(1, count + 1):
        after = [(1, 1)] if record == length or (length and record == count) else [*zip(*shares, strict=True)]
        for into, out, n in itertools.product(before, after, (0, 1)):
            top, bottom = (into[m] * out[m] for m in (n, 1 - n))
            if top > 0:
                largest = max(largest, _log_ratio(top, bottom))
        before = [shares[n] for n in support]
        support = {m for n in support for m in (0, 1) if shares[n][m] > 0}
    return largest


def _log_ratio(top: int | Fraction, bottom: int | Fraction) -> float:
    """The logarithm of a ratio, rounded up by more than both logarithms and their difference are off."""
    if bottom == 0:
        return math.inf
    if top <= bottom:
        return 0.0
    high, low = math.log(top), math.log(bottom)
    return math.nextafter(high - low + 2**-51 * (1 + abs(high) + abs(low)), math.inf)


@dataclass(frozen=True, eq=False)
class _Side:
    """Evidence of one side for a 0, by the number of its records that have two possible values."""

    spans: Floats
    """The smallest and the largest log-likelihood ratio for each output of the target: [records, output, end]."""
    tail: float
    """How far any later item may exceed the last one, in either direction."""

    def items(self, records: Ints) -> Floats:
        """The items for these numbers of records; beyond the last, a bound on all that follow."""
        with np.errstate(invalid="ignore"):  # an infinite tail is not used: all records have been passed
            beyond = self.spans[-1:] + np.array([-self.tail, self.tail])
        return np.concatenate([self.spans, beyond])[np.minimum(records, len(self.spans))]


def _worst(left: _Side, right: _Side, before: Ints, after: Ints) -> FlipLoss:
    """The worst of targets with these records before and after them. The target's own noise is counted before it."""
    span = left.items(before) + right.items(after)
    return FlipLoss(max(0.0, float(span[..., 1].max())), max(0.0, -float(span[..., 0].min())))


def _pass_records(
    data: MarkovChain, noise: MarkovChain, way: str, certain: int, passed: int, adversary: Adversary
) -> _Side:
    """The evidence of the records before or after the target, until all are passed or nothing beyond adds anything.

    Either no record on the side is known, or the nearest known one is at any distance with any value. Knowing one of
    the first records of the series, whose value is ``certain``, carries no evidence.
    """
    moves, flips = (np.asarray(chain.transition) for chain in (data, noise))
    moves, flips = (moves.T, flips.T) if way == "before" else (moves, flips)
    flip = np.bitwise_xor.outer(np.arange(2), np.arange(2))  # [output, value]: the noise
    with np.errstate(divide="ignore", invalid="ignore"):
        moves, flips = np.log(moves), np.log(flips)
        tables = moves + flips[flip[:, None, :, None], flip[None, :, None, :]]  # [new output, old output, new x, old x]
        start, prior = np.zeros((1, 2, 2)), np.zeros(1)
        if way == "before":
            prior = np.log(first_distribution(data)[:1]) - np.log(first_distribution(data)[1:])
            own = np.log(first_distribution(noise))[flip]
            start = np.broadcast_to((prior + own[:, 0] - own[:, 1])[None, :, None], (1, 2, 2))
            for _ in range(certain):
                start, prior = _step(tables, start), _mobius(moves, prior)
            passed -= certain
        if adversary is Adversary.BDP:  # two more starts: the nearest record is known to be 0, or to be 1
            ends = np.array([np.inf, -np.inf])
            prior, start = np.append(prior, ends), np.concatenate([start, np.tile(ends[:, None, None], (1, 2, 2))])
        share, prior_share = float(_contraction(tables).max()), float(_contraction(moves))
        nearest, spans, tail = np.tile([np.inf, -np.inf], (2, 1)), list[Floats](), math.inf
        for _ in range(passed + 1):
            spans.append(_union(_evidence(start, prior)[0], nearest))
            following, following_prior = _step(tables, start), _mobius(moves, prior)
            if max(share, prior_share) < 1 and np.isfinite(prior).all():
                # Each step moves a ratio by at most a share of the step before.
                moved, prior_moved = np.abs(following - start).max(), np.abs(following_prior - prior).max()
                tail = float(moved / (1 - share) + prior_moved / (1 - prior_share))
                if tail <= _TOLERANCE:
                    break
            start, prior = following, following_prior
            for evidence in _evidence(start, prior)[1:]:
                nearest = _union(nearest, evidence)
    return _Side(np.array(spans), tail)


def _evidence(ratios: Floats, prior: Floats) -> Floats:
    """Ratios [start, output, end] without the start's own; an empty range where one value is impossible."""
    return np.where(np.isfinite(prior)[:, None, None], ratios - prior[:, None, None], [np.inf, -np.inf])


def _step(tables: Floats, ratios: Floats) -> Floats:
    """The smallest and largest ratios [start, output, end] after one more record, over its output."""
    moved = _mobius(tables[:, :, None], ratios[:, None])
    return np.stack([moved.min(axis=(2, 3)), moved.max(axis=(2, 3))], axis=2)


def _mobius(logs: Floats, ratio: Floats) -> Floats:
    """Log of (a·R+b)/(c·R+d) for R = exp(ratio), 0 and infinity included, from logs [..., new x, old x]."""
    zero, one = np.minimum(ratio, 0.0), np.minimum(-ratio, 0.0)
    top, bottom = (np.logaddexp(logs[..., x, 0] + zero, logs[..., x, 1] + one) for x in (0, 1))
    return np.asarray(top - bottom)


def _contraction(logs: Floats) -> Floats:
    """The largest slope of a Möbius map in log-ratios (Birkhoff's contraction); 1 where an entry is 0."""
    spread = logs[..., 0, 0] + logs[..., 1, 1] - logs[..., 0, 1] - logs[..., 1, 0]
    return np.where(np.isfinite(spread), np.abs(np.tanh(spread / 4)), 1.0)


def _union(span: Floats, other: Floats) -> Floats:
    """The smallest and the largest ratio of both, output by output."""
    return np.stack([np.minimum(span[:, 0], other[:, 0]), np.maximum(span[:, 1], other[:, 1])], axis=1)
