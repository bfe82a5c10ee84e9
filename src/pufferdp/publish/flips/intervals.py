"""Confidence intervals for the true records behind flipped ones: about the records that were sent, not about a model.

Given the true records the flipped ones are independent, so a number that was found from them has a distribution that is
known but for how many records are in which state. An interval holds every true number that a test does not reject.

Counts: where the outputs of a state have one distribution for that state and one for all others (two states, and
randomised response), the number of outputs is the sum of two binomials, and the test is exact, as that of Clopper and
Pearson (1934). Otherwise, and where devices have different channels, both tails are bounded: by Bernstein's inequality
and by the normal distribution with the error of Berry and Esseen (constant 0.56: Shevtsova 2010), for the largest
variance that the true number allows. Either way the interval holds its number at least as often as it says, however few
records there are.

Transitions: the test asks whether p is the share of pairs from a that go to b, by the sum of u_t(a)·(u_{t+1}(b) − p),
whose mean is then 0, and by an estimate of its variance (Fieller 1954), with the correction of Bernstein's inequality
for what a single flip can do. That is an approximation; simulations are in the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
from numpy.polynomial.polynomial import polyval

from pufferdp.basics.arrays import Floats, Matrix
from pufferdp.basics.errors import NotApplicableError

BERRY_ESSEEN: Final = 0.56
_DROPPED: Final = 1e-12
"""Mass of a binomial that is not summed, and counted as if it were all in the tail."""
_STEPS: Final = 2001
"""Shares that a test of transitions tries."""
Ints = npt.NDArray[np.int64]


def inverse_of(channel: Matrix, singular: float = 1e12) -> Floats:
    """The inverse of a channel; refused where states look the same in the output, by its condition number."""
    matrix = np.asarray(channel, dtype=float)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
    if not square or not np.isfinite(matrix).all() or np.linalg.cond(matrix) > singular:
        raise NotApplicableError(
            "the channel cannot be inverted: some states look the same in the output, so nothing can be said of how "
            "many records are in each; flip the data with a larger epsilon"
        )
    return np.asarray(np.linalg.inv(matrix))


@dataclass(frozen=True, eq=False)
class ChannelOutputs:
    """All records that passed one channel: how often each state came out."""

    channel: Matrix
    outputs: Ints

    @cached_property
    def inverse(self) -> Floats:
        """C(z, a): what an output z adds to the count of state a."""
        return inverse_of(self.channel)

    @property
    def records(self) -> int:
        """The number of records that passed the channel."""
        return int(self.outputs.sum())

    @cached_property
    def variances(self) -> Floats:
        """Var(C(z, a)) for a record in state x, one row each: Σ B·C² − [x is a]."""
        return np.asarray(np.maximum(self.channel @ self.inverse**2 - np.eye(len(self.channel)), 0.0))

    def deviation(self, state: int) -> float:
        """The farthest that C(z, a) can lie from its mean."""
        means = np.eye(len(self.channel))[:, [state]]
        return float(np.abs(self.inverse[:, state][None, :] - means)[self.channel > 0].max())

    @cached_property
    def changes(self) -> Floats:
        """By how much the count of each state may differ between two outputs of the same record."""
        possible = (self.inverse[row > 0] for row in self.channel)
        return np.asarray(np.max([np.ptp(numbers, axis=0) for numbers in possible], axis=0))

    def other_rate(self, state: int) -> float | None:
        """How often any other state comes out as this one, where all others do so alike."""
        others = np.delete(self.channel[:, state], state)
        return float(others[0]) if np.ptp(others) <= 1e-15 else None


def count_interval(groups: Sequence[ChannelOutputs], state: int, confidence: float) -> tuple[float, float, float]:
    """The unbiased count of a state, and an interval that holds the true one at least as often as it says."""
    value = math.fsum(float(g.outputs @ g.inverse[:, state]) for g in groups)
    tail = (1 - confidence) / 2
    if len(groups) == 1 and (rate := groups[0].other_rate(state)) is not None:
        low, high = _exact(groups[0], state, rate, tail)
    else:
        low, high = _bounded(groups, state, value, tail)
    return value, low, high


def _exact(group: ChannelOutputs, state: int, rate: float, tail: float) -> tuple[float, float]:
    """Test every true count by the sum of two binomials; it grows with the count, or falls."""
    count, own, n = int(group.outputs[state]), float(group.channel[state, state]), group.records
    if own < rate:  # counted the other way round
        count, own, rate = n - count, 1 - own, 1 - rate
    low = _first(lambda true: _at_least(count, true, n, own, rate) >= tail, 0, n)
    high = n - _first(lambda fewer: _at_least(n - count, fewer, n, 1 - rate, 1 - own) >= tail, 0, n)
    return float(low), float(high)


def _first(accepted: Callable[[int], bool], low: int, high: int) -> int:
    """The least number that is accepted; all above it are."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if accepted(middle) else (middle + 1, high)
    return low


def _at_least(count: int, true: int, n: int, own: float, rate: float) -> float:
    """P(Bin(true, own) + Bin(n − true, rate) ≥ count)."""
    from scipy.special import bdtrc, gammaln, xlog1py, xlogy

    # By Bernstein's inequality less than _DROPPED lies farther from the mean than this.
    mean, reach = true * own, 8 * math.sqrt(true * own * (1 - own)) + 20
    counts = np.arange(max(0, math.floor(mean - reach)), min(true, math.ceil(mean + reach)) + 1, dtype=float)
    ways = gammaln(true + 1) - gammaln(counts + 1) - gammaln(true - counts + 1)
    distribution = np.exp(ways + xlogy(counts, own) + xlog1py(true - counts, -own))
    needed = count - 1 - counts  # more than so many of the others
    tails = np.where(needed < 0, 1.0, np.where(needed >= n - true, 0.0, bdtrc(np.maximum(needed, 0), n - true, rate)))
    return float(distribution @ tails) + _DROPPED


def _bounded(groups: Sequence[ChannelOutputs], state: int, value: float, tail: float) -> tuple[float, float]:
    """Reject a true count where a bound on the tail beyond what was found is below ``tail``."""
    from scipy.special import ndtri

    sizes = np.array([g.records for g in groups], dtype=float)
    n = float(sizes.sum())
    own = np.array([g.variances[state, state] for g in groups])
    others = np.array([np.delete(g.variances[:, state], state).max() for g in groups])
    # The largest variance that a count allows: its records where one more adds most. Concave in the count.
    order = np.argsort(others - own)
    places = np.concatenate([[0.0], np.cumsum(sizes[order])])
    most = float(sizes @ others) + np.concatenate([[0.0], np.cumsum((sizes * (own - others))[order])])
    least = float(sum(g.records * g.variances[:, state].min() for g in groups))
    far = max(g.deviation(state) for g in groups)
    bits = -math.log(tail)
    left = tail - (BERRY_ESSEEN * far / math.sqrt(least) if least > 0 else 1.0)
    width = -float(ndtri(left)) if left > 0 else math.inf

    def accepted(true: float) -> bool:
        away, variance = abs(value - true), float(np.interp(true, places, most))
        return away**2 <= 2 * bits * (variance + far * away / 3) and away <= width * math.sqrt(variance)

    # On either side of the value what is accepted is an interval: the largest variance is concave.
    start = min(max(value, 0.0), n)
    return _edge(accepted, start, 0.0), _edge(accepted, start, n)


def _edge(accepted: Callable[[float], bool], inside: float, outside: float) -> float:
    if accepted(outside):
        return outside
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if accepted(middle) else (inside, middle)
    return outside


@dataclass(frozen=True, eq=False)
class PairSums:
    """Sums over neighbouring records of all devices, from which transitions and their tests follow."""

    pairs: Floats
    """Unbiased counts of pairs, a row for the first state."""
    spreads: Floats
    """For each pair of states the variance of Σ u_t(a)·(u_{t+1}(b) − p) as a polynomial in p, without bias."""
    floors: Floats
    """The same from the estimated pairs, without what neighbours share: it is less far off where few records flip."""
    jumps: Floats
    """For each pair of states the most that one flipped record can change the sum by."""

    def interval(self, confidence: float) -> tuple[Floats, Floats, Floats]:
        """How often each state follows each, and the shares that a test does not reject; nan where nothing is known."""
        from scipy.special import ndtri

        k, width = len(self.pairs), float(ndtri(0.5 + confidence / 2))
        value, low, high = np.full((k, k), np.nan), np.zeros((k, k)), np.ones((k, k))
        for a in range(k):
            left = float(self.pairs[a].sum())
            for b in range(k):
                shares = np.linspace(0, 1, _STEPS)
                if left >= 1:
                    value[a, b] = self.pairs[a, b] / left
                    shares = np.sort(np.append(shares, np.clip(value[a, b], 0, 1)))
                spread = np.maximum(polyval(shares, self.spreads[a, b]), polyval(shares, self.floors[a, b]))
                away = np.abs(self.pairs[a, b] - shares * left)
                # As in Bernstein's inequality, a third of what one flip can do: where flips are rare that is much.
                headroom = np.maximum(spread, 0.0) + self.jumps[a, b] * away / 3
                accepted = shares[away**2 <= width**2 * headroom]
                if len(accepted):
                    step = 1 / (_STEPS - 1)
                    low[a, b], high[a, b] = max(0.0, accepted[0] - step), min(1.0, accepted[-1] + step)
        return value, low, high


def pair_sums(groups: Sequence[tuple[ChannelOutputs, Sequence[Ints]]]) -> PairSums:
    """The sums over the chains of outputs of each channel; a chain of one record has no pair.

    Terms two apart are independent; neighbours share a record. Means are indicators times 0, −p or 1 − p, so that their
    squares and products have unbiased estimates too, and so has the variance.
    """
    k = len(groups[0][0].channel)
    total, spreads, floors, jumps = np.zeros((k, k)), np.zeros((k, k, 3)), np.zeros((k, k, 3)), np.zeros((k, k))
    for group, chains in groups:
        pairs = np.zeros((k, k))
        for chain in chains:
            if len(chain) > 1:
                pairs += _add_pairs(group.inverse[chain], spreads)
        # What the terms alone would vary by if the pairs were as estimated: neighbours left out, never below 0.
        likely = np.maximum(pairs, 0.0)
        squares = group.variances + np.eye(k)
        floors[:, :, 0] += squares.T @ likely @ squares - likely
        floors[:, :, 1] += 2 * (likely - squares.T @ likely)
        floors[:, :, 2] += ((squares.T - np.eye(k)) @ likely).sum(axis=1)[:, None]
        total += pairs
        largest, change = np.abs(group.inverse).max(axis=0), group.changes
        jumps = np.maximum(jumps, change[:, None] * (largest[None, :] + 1) + largest[:, None] * change[None, :])
    return PairSums(total, spreads, floors, jumps)


def _add_pairs(u: Floats, spreads: Floats) -> Floats:
    """The counts of pairs in one chain of indicators; what they vary by is added to ``spreads``."""
    first, then = u[:-1], u[1:]
    pairs, squares = first.T @ then, first**2
    spreads[:, :, 0] += squares.T @ then**2 - pairs
    spreads[:, :, 1] += 2 * (pairs - squares.T @ then)
    spreads[:, :, 2] += (squares - first).sum(axis=0)[:, None]
    for a in range(u.shape[1]):
        both = first[:-1, a] * first[1:, a]
        for b in range(u.shape[1]):
            middle = both * (then[:-1, b] - (a == b))
            spreads[a, b, 0] += 2 * float(middle @ then[1:, b])
            spreads[a, b, 1] -= 2 * float(middle.sum())
    return np.asarray(pairs)
