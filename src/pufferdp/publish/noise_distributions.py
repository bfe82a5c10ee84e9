"""Distributions of whole noise: of a histogram, which adds up to 0, and discrete Gaussian noise."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import ClassVar, Final

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.basics.bisection import least_count
from pufferdp.basics.errors import ParameterError

Draw = Callable[[int, float], list[int]]
"""So many independent draws of discrete Laplace noise of a scale."""
LARGEST_SCALE: Final = 2.0**44
"""In counts. Noise of a larger scale could leave the whole numbers below 2^53, which JSON holds exactly."""
_NO_NOISE: Final = math.log(sys.float_info.max) / 2 - 1
"""Beyond this rate a draw that is not 0 has about the least probability that a double can hold."""


@dataclass(frozen=True)
class BalancedDistribution:
    """Discrete Laplace noise on several whole numbers, given that it adds up to 0: noise of a histogram.

    Why it keeps the guarantee of independent noise of the same scale, and why it is better, is in
    docs/theory/histograms.md.

    How it is computed: let x = q², q = exp(−1/s). Then Σ_m q^|m|·u^m = (1−x)/((1−qu)(1−q/u)), and sums over vectors
    that add up to 0 are coefficients F(r,t,m) of u^m in (1−qu)^-r·(1−q/u)^-t. Pfaff's transformation of the
    hypergeometric series makes each a finite sum of positive terms, so nothing cancels:

        F(r,t,m) = q^m·C(m+r−1, r−1)·(1−x)^-t·Σ_{i<r} C(r−1,i)·t(t+1)…(t+i−1)/((m+1)…(m+i))·(x/(1−x))^i.
    """

    scale: float
    """In counts, at most LARGEST_SCALE: the scale of each number's noise before it is known to add up to 0."""
    coordinates: int
    """How many numbers there are, two or more."""

    def __post_init__(self) -> None:
        # Here, when noise is planned, and not when it is drawn: by then it has been paid for.
        if self.scale > LARGEST_SCALE:
            raise ParameterError(
                f"noise scale is {self.scale:g} counts; noise that adds up to 0 is drawn up to {LARGEST_SCALE:g}",
                value=self.scale,
            )

    @property
    def _rate(self) -> float:
        return 1 / self.scale

    @cached_property
    def _odds(self) -> float:
        """The logarithm of x/(1−x)."""
        return -2 * self._rate - math.log(-math.expm1(-2 * self._rate))

    @property
    def expected_l1(self) -> float:
        """Expected sum of all absolute values.

        The number of vectors with ‖z‖₁ = 2m is the coefficient of x^m in Σ_j C(d,j)²·x^j/(1−x)^d, d = k−1 (Conway &
        Sloane 1997), and E‖z‖₁ is twice its logarithmic derivative at x.
        """
        if self._rate > _NO_NOISE:
            return 0.0
        d = self.coordinates - 1
        logs = np.array([2 * math.log(math.comb(d, j)) - 2 * j * self._rate for j in range(d + 1)])
        weights = np.exp(logs - logs.max())
        return 2 * (float(np.arange(d + 1) @ weights / weights.sum()) + d / math.expm1(2 * self._rate))

    @property
    def squared(self) -> float:
        """Expected sum of all squares.

        With g = qu/(1−qu) and h = (q/u)/(1−q/u), (u·d/du)² of one number's series is that series times
        2g² + 2h² − 2gh + g + h.
        """
        if self._rate > _NO_NOISE:
            return 0.0
        k, rate = self.coordinates, self._rate
        none = self._log_f(k, k, 0)
        terms = (
            4 * math.exp(self._log_f(k, k + 2, 2) - 2 * rate - none),
            2 * math.exp(self._log_f(k, k + 1, 1) - rate - none),
            -2 * math.exp(self._log_f(k + 1, k + 1, 0) - 2 * rate - none),
        )
        return k * math.fsum(terms)

    def log_probability(self, steps: Floats) -> Floats:
        """The log of the probability that the noise of one number is so many counts."""
        k, away = self.coordinates, np.abs(steps)
        rest = self._log_f_of(k - 1, k - 1, away) - self._log_one_less(1) - self._log_f(k, k, 0)
        return np.asarray(rest - away * self._rate)

    def tail(self, steps: Floats) -> Floats:
        """The probability that the noise of one number is at least so many counts, each from 1 on."""
        k = self.coordinates
        logs = self._log_f_of(k - 1, k, steps) - self._log_one_less(1) - self._log_f(k, k, 0)
        return np.asarray(np.exp(logs - steps * self._rate))

    def alpha(self, beta: float) -> int:
        """Counts that every number errs by less than with probability 1−beta; at most a few percent above the least.

        The events are "number i is at least a" and "number i is at most −a". The probability that one of them holds is
        at most the sum of theirs, less that of both events of a pair for pairs that form a forest (Hunter 1976). A pair
        here is the upper event of one number and the lower event of another.
        """
        if self._rate > _NO_NOISE:
            return 1
        if self.coordinates == 2:  # P(|z| ≥ a) = 2·x^a/(1+x) for both alike
            share = 2 / ((1 + math.exp(-2 * self._rate)) * beta)
            return max(1, math.ceil(math.log(share) / (2 * self._rate)))
        return least_count(lambda count: self._fails(count) <= beta)

    def alpha_of_each(self, beta: float) -> int:
        """Counts that any one number errs by less than with probability 1−beta."""
        if self._rate > _NO_NOISE:
            return 1
        return least_count(lambda count: 2 * float(self.tail(np.array([float(count)]))[0]) <= beta)

    def _fails(self, count: int) -> float:
        """At least the probability that some number errs by so many counts or more."""
        k = self.coordinates
        both = self._log_f(k - 1, k - 1, 0) - 2 * self._log_one_less(1) - 2 * count * self._rate - self._log_f(k, k, 0)
        pairs = min(2 * k - 1, k * (k - 1))
        return 2 * k * float(self.tail(np.array([float(count)]))[0]) - pairs * math.exp(both)

    def draw(self, independent: Draw) -> list[int]:
        """Noise by rejection: whole numbers and comparisons alone, on top of independent draws.

        All numbers but the last are drawn, and the last makes up for them. Its weight is exp(−|last|/s), which is, up
        to a constant factor, the probability that one more draw is |last| or larger.
        """
        return self.draw_many(1, independent)[0]

    def draw_many(self, count: int, independent: Draw, at_once: int = 4096) -> list[list[int]]:
        """Noise for so many histograms, each on its own; drawn together, because a call of a sampler has its price."""
        k = self.coordinates
        if k == 2:
            return [[first, -first] for first in independent(count, self.scale / 2)]
        out: list[list[int]] = []
        while len(out) < count:
            tries = (4 * math.isqrt(k) + 4) * min(count - len(out), at_once)  # one in about 4·√k is accepted
            drawn = np.array(independent(tries * k, self.scale), dtype=np.int64).reshape(tries, k)
            last = -drawn[:, : k - 1].sum(axis=1)
            accepted = drawn[:, k - 1] >= np.abs(last)
            drawn[:, k - 1] = last
            out += drawn[accepted].tolist()
        return out[:count]

    def _log_one_less(self, power: int) -> float:
        """The logarithm of (1−x)^power."""
        return power * math.log(-math.expm1(-2 * self._rate))

    def _log_f(self, r: int, t: int, m: int) -> float:
        return float(self._log_f_of(r, t, np.array([float(m)]))[0])

    def _log_f_of(self, r: int, t: int, m: Floats) -> Floats:
        """The log of F(r,t,m), r ≥ 1."""
        term = np.zeros_like(m)
        total = term
        choose = np.zeros_like(m)
        for i in range(1, r):
            choose = choose + np.log1p(m / i)
            term = term + math.log((r - i) / i * (t + i - 1)) - np.log(m + i) + self._odds
            total = np.logaddexp(total, term)
        return np.asarray(choose + total - m * self._rate - self._log_one_less(t))


@dataclass(frozen=True)
class DiscreteGaussianDistribution:
    """The discrete Gaussian distribution: P(x) proportional to exp(−x²/2s²) (Canonne, Kamath & Steinke 2020).

    Up to a scale of 100 its moments and tails are summed up term by term. Beyond, Euler's and Maclaurin's formula gives
    them to all digits of a double: the sum over whole numbers is the integral, and a short series in 1/s².
    """

    scale: float
    """s: nearly its standard deviation."""
    summed: ClassVar[float] = 100.0
    """Up to this scale every term is added up."""

    @property
    def expected_absolute(self) -> float:
        """The expected absolute value, E|X|."""
        if self.scale <= self.summed:
            return float(2 * (np.arange(len(self._terms)) @ self._terms) / self._total)
        s = self.scale
        # Σ_{x≥1} x·exp(−x²/2s²) = s² − 1/12 − 1/(240 s²) − …, and all terms sum up to s·√(2π).
        return math.sqrt(2 / math.pi) * (s - 1 / (12 * s) - 1 / (240 * s**3))

    @property
    def variance(self) -> float:
        """E X²; beyond a scale of 2 it is s² to all digits."""
        if self.scale > self.summed:
            return self.scale**2
        return float(2 * (np.arange(len(self._terms), dtype=float) ** 2 @ self._terms) / self._total)

    def at_least(self, whole: Floats) -> Floats:
        """P(X ≥ m) for whole numbers m."""
        steps = np.asarray(whole, dtype=float)
        inner = steps <= 0  # P(X ≥ m) = 1 − P(X ≥ 1 − m)
        outer = np.where(inner, 1 - steps, steps)
        tail = self._tail(outer)
        return np.asarray(np.where(inner, 1 - tail, tail))

    def least_error(self, probability: float) -> int:
        """The least whole m ≥ 1 with P(|X| ≥ m) at most this probability."""
        return least_count(lambda m: self._beyond(m) <= probability)

    def _beyond(self, m: int) -> float:
        return 2 * float(self._tail(np.array([float(m)]))[0])

    def _tail(self, whole: Floats) -> Floats:
        """P(X ≥ m) for whole m ≥ 1."""
        if self.scale <= self.summed:
            tails = np.append(np.cumsum(self._terms[::-1])[::-1], 0.0) / self._total
            return np.asarray(tails[np.minimum(whole, len(tails) - 1).astype(np.intp)])
        # The midpoint rule from m − 1/2 on, and its first correction f'/24.
        z = (whole - 0.5) / self.scale
        normal = NormalDist()
        tail = np.array([normal.cdf(-v) for v in np.ravel(z)]).reshape(np.shape(z))
        return np.asarray(
            np.maximum(0.0, tail - z * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) / (24 * self.scale**2))
        )

    @cached_property
    def _terms(self) -> Floats:
        # Terms beyond 40 scales are below 1e-347.
        x = np.arange(math.ceil(40 * self.scale) + 2, dtype=float)
        return np.asarray(np.exp(-((x / self.scale) ** 2) / 2))

    @cached_property
    def _total(self) -> float:
        return float(2 * self._terms.sum() - 1)
