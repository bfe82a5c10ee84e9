"""The posterior of a normal answer given Laplace noise, and the moments of a sum of clipped normal records."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError

_FAR: Final = 10.0
"""Standard deviations beyond which a normal distribution has less than 1e-22 of its mass."""
_CERTAIN: Final = 1e-100
"""Standard deviations below this share of the noise, or of the distance to the noisy answer, count as 0."""
_MOST_PAIRS: Final = 10_000
"""Distinct pairs of records whose clipped covariance is computed: a few seconds."""


def normal_posterior(
    mean: float, variance: float, noisy: float, scale: float, tail: float
) -> tuple[float, float, float]:
    """The posterior mean of N(mean, variance) given itself plus Laplace noise, and its quantiles at both tails.

    Below the noisy answer the posterior is a normal distribution moved up by variance/scale, above it one moved down.
    """
    if scale == 0:
        return noisy, noisy, noisy
    sd = math.sqrt(variance)
    if sd <= _CERTAIN * max(scale, abs(noisy - mean)):
        return mean, mean, mean
    d, ratio = (noisy - mean) / sd, sd / scale
    # Logarithms of the weights of the two sides, without their common factor exp(−d²/2)/2.
    below, above = _log_erfcx((ratio - d) / math.sqrt(2)), _log_erfcx((ratio + d) / math.sqrt(2))
    # The logarithm of the weight of both sides over that of one.
    left, right = (float(np.logaddexp(0, gap)) for gap in (above - below, below - above))
    # Truncation moves the two means by amounts that cancel: only the two shifts are left.
    middle = mean + sd * ratio * math.tanh((below - above) / 2)
    low = mean + sd * _quantile(d, ratio, math.log(tail) + left, math.log1p(-tail) + right)
    high = mean - sd * _quantile(-d, ratio, math.log(tail) + right, math.log1p(-tail) + left)
    return middle, low, high


def _quantile(d: float, ratio: float, share: float, rest: float) -> float:
    """A quantile in standard deviations, from log-shares: ``share`` of the weight below d, ``rest`` of that above."""
    from scipy import special

    if share <= 0:
        return min(d, ratio + float(special.ndtri_exp(share + special.log_ndtr(d - ratio))))
    return max(d, -ratio - float(special.ndtri_exp(min(0.0, rest) + special.log_ndtr(-d - ratio))))


def normal_surprise(mean: float, variance: float, noisy: float, scale: float) -> float:
    """The two-sided p-value of a noisy answer under N(mean, variance) plus Laplace noise."""
    from scipy import special

    sd = math.sqrt(variance)
    if sd <= _CERTAIN * max(scale, abs(noisy - mean)):
        return math.exp(-abs(noisy - mean) / scale) if scale else float(noisy == mean)
    d = abs(noisy - mean) / sd
    tail = float(special.ndtr(-d))
    if scale > 0:
        ratio = sd / scale
        # E[exp(−gap/scale)] over the answers on this side of the noisy one, and beyond it.
        near = math.exp(ratio * (ratio / 2 - d)) * float(special.ndtr(d - ratio)) if d > ratio else _side(d, ratio - d)
        tail += (near - _side(d, ratio + d)) / 2
    return min(1.0, 2 * tail)


def _side(d: float, x: float) -> float:
    """exp(−d²/2)·erfcx(x/√2)/2 for x ≥ 0, without cancellation."""
    from scipy import special

    return math.exp(-d * d / 2) * float(special.erfcx(x / math.sqrt(2))) / 2


def _log_erfcx(x: float) -> float:
    """Log of exp(x²)·erfc(x); far to the left erfc is 2."""
    from scipy import special

    return x * x + math.log(2) if x < -20 else math.log(special.erfcx(x))


def clipped_moments(mean: Floats, covariance: Floats, low: float, high: float) -> tuple[float, float]:
    """Mean and variance of the sum of jointly normal records, each clipped to [low, high] first."""
    mean, covariance = np.asarray(mean, dtype=float), np.asarray(covariance, dtype=float)
    sd = np.sqrt(np.diag(covariance))
    i, j = np.nonzero(np.triu(covariance))
    pairs = np.column_stack([mean[i], sd[i], mean[j], sd[j], covariance[i, j], np.where(i == j, 1, 2)])
    kinds, count = np.unique(pairs, axis=0, return_counts=True)
    if len(kinds) > _MOST_PAIRS:
        raise NotApplicableError(
            f"{len(kinds):,} different pairs of records are correlated; the limit for the moments of a clipped sum is "
            f"{_MOST_PAIRS:,}"
        )
    variance = sum(
        n * times * _clipped_covariance(m, s, other, t, covary, low, high)
        for (m, s, other, t, covary, times), n in zip(kinds.tolist(), count.tolist(), strict=True)
    )
    # Rounding may leave a negative variance where records cancel.
    return float(_clipped_mean(mean, sd, low, high).sum()), max(0.0, variance)


def _clipped_mean(mean: Floats, sd: Floats, low: float, high: float) -> Floats:
    """The mean of each of some normal records after it is clipped."""
    from scipy import special

    with np.errstate(divide="ignore", invalid="ignore"):
        a, b = ((edge - mean) / sd for edge in (low, high))
    below, above = special.ndtr(a), special.ndtr(-b)
    at_low, at_high = (np.where(np.isfinite(x), np.exp(-0.5 * x * x), 0.0) / math.sqrt(2 * math.pi) for x in (a, b))
    mixture = low * below + high * above + mean * (1 - below - above) + sd * (at_low - at_high)
    return np.asarray(np.where(sd > 0, mixture, np.clip(mean, low, high)))


def _clipped_covariance(
    m: float, s: float, other: float, t: float, covariance: float, low: float, high: float
) -> float:
    """The covariance of two clipped normals: the second given the first in closed form, the first by quadrature.

    The quadrature is split where the first is clipped, and where the mean of the second begins or ceases to be.
    """
    slope = covariance / s  # of the second's mean, for each standard deviation of the first
    spread = math.sqrt(max(0.0, t * t - slope * slope))
    cuts = [-_FAR, -_FAR / 2, 0.0, _FAR / 2, _FAR, (low - m) / s, (high - m) / s]
    for edge in (low, high):
        centre = (edge - other) / slope
        cuts += [centre, centre - 8 * spread / slope, centre + 8 * spread / slope]
    ends = np.unique(np.clip(cuts, -_FAR, _FAR))
    nodes, weights = _quadrature()
    half = np.diff(ends)[:, None] / 2
    u = (ends[:-1, None] + half + half * nodes).ravel()
    w = (half * weights).ravel() * np.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)
    first = np.clip(m + s * u, low, high)
    second = _clipped_mean(other + slope * u, np.full(len(u), spread), low, high)
    return float(w @ ((first - w @ first) * second))


@lru_cache(maxsize=1)
def _quadrature() -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(40)  # tests compare with closed forms to 1e-10
