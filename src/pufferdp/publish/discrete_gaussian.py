"""The discrete Gaussian distribution on integers: P(x) proportional to exp(−x²/2s²) (Canonne, Kamath & Steinke 2020).

Up to a scale of 100 its moments and tails are summed up term by term. Beyond, Euler's and Maclaurin's formula gives
them to all digits of a double: the sum over whole numbers is the integral, and a short series in 1/s².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.basics.bisection import least_count

_SUMMED: Final = 100.0
"""Up to this scale every term is added up."""
_FAR: Final = 40.0
"""Terms beyond so many scales are below 1e-347 and left out."""


@dataclass(frozen=True)
class DiscreteGaussianDistribution:
    """Noise on one whole number."""

    scale: float
    """s: nearly its standard deviation."""

    @property
    def expected_absolute(self) -> float:
        """E|X|."""
        if self.scale <= _SUMMED:
            return float(2 * (np.arange(len(self._terms)) @ self._terms) / self._total)
        s = self.scale
        # Σ_{x≥1} x·exp(−x²/2s²) = s² − 1/12 − 1/(240 s²) − …, and all terms sum up to s·√(2π).
        return math.sqrt(2 / math.pi) * (s - 1 / (12 * s) - 1 / (240 * s**3))

    @property
    def variance(self) -> float:
        """E X²; beyond a scale of 2 it is s² to all digits."""
        if self.scale > _SUMMED:
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
        if self.scale <= _SUMMED:
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
        x = np.arange(math.ceil(_FAR * self.scale) + 2, dtype=float)
        return np.asarray(np.exp(-((x / self.scale) ** 2) / 2))

    @cached_property
    def _total(self) -> float:
        return float(2 * self._terms.sum() - 1)
