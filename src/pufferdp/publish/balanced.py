"""Noise on a histogram that adds up to 0, so that the noisy histogram adds up to the number of records.

How many records there are is public, so k bins are k−1 numbers, and noise that moves their sum is wasted. This
distribution draws z over whole numbers with Σz = 0 and probability proportional to exp(−‖z‖₁/s): discrete Laplace noise
of scale s on every bin, given that it adds up to 0.

Why it keeps the guarantee of independent noise of scale s: histograms x and x' of the same records both add up to n, so
every y that adds up to n has probability c·exp(−‖y−x‖₁/s) given x, with the same c for all x. Between x and x' it
changes by a factor of at most exp(‖x−x'‖₁/s), as with independent noise; that is all that any mechanism here uses of
its noise. One record that changes moves ‖x‖₁ by 2, so the DP loss is 2/s. Other sums have probability 0 under both.

Why it is better: ‖z‖₁/2 is the norm whose unit ball is the hull of all moves of one record, so this is the K-norm
mechanism of Hardt & Talwar (2010) on whole numbers. Its expected ‖z‖₁ is about (k−1)·s, against k·s for independent
noise. With two bins it is discrete Laplace noise of scale s/2 on one count; the other bin is its complement.

How it is computed: let x = q², q = exp(−1/s). Then Σ_m q^|m|·u^m = (1−x)/((1−qu)(1−q/u)), and sums over vectors that
add up to 0 are coefficients F(r,t,m) of u^m in (1−qu)^-r·(1−q/u)^-t. Pfaff's transformation of the hypergeometric
series makes each a finite sum of positive terms, so nothing cancels:

    F(r,t,m) = q^m·C(m+r−1, r−1)·(1−x)^-t·Σ_{i<r} C(r−1,i)·t(t+1)…(t+i−1)/((m+1)…(m+i))·(x/(1−x))^i.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.basics.bisection import least_count
from pufferdp.basics.errors import ParameterError

Draw = Callable[[int, float], list[int]]
"""So many independent draws of discrete Laplace noise of a scale."""
_AT_ONCE: Final = 4096
"""Histograms whose noise is drawn by one call of a sampler."""
LARGEST_SCALE: Final = 2.0**44
"""In counts. Noise of a larger scale could leave the whole numbers below 2^53, which JSON holds exactly."""
_NO_NOISE: Final = 350.0
"""Beyond this rate a draw that is not 0 has a probability of about exp(-700), the least that a double can hold."""


@dataclass(frozen=True)
class BalancedDistribution:
    """Discrete Laplace noise on several whole numbers, given that it adds up to 0."""

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
        """The log of x/(1−x)."""
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

    def draw_many(self, count: int, independent: Draw) -> list[list[int]]:
        """Noise for so many histograms, each on its own; drawn together, because a call of a sampler has its price."""
        k = self.coordinates
        if k == 2:
            return [[first, -first] for first in independent(count, self.scale / 2)]
        out: list[list[int]] = []
        while len(out) < count:
            tries = (4 * math.isqrt(k) + 4) * min(count - len(out), _AT_ONCE)  # one in about 4·√k is accepted
            drawn = np.array(independent(tries * k, self.scale), dtype=np.int64).reshape(tries, k)
            last = -drawn[:, : k - 1].sum(axis=1)
            accepted = drawn[:, k - 1] >= np.abs(last)
            drawn[:, k - 1] = last
            out += drawn[accepted].tolist()
        return out[:count]

    def _log_one_less(self, power: int) -> float:
        """The log of (1−x)^power."""
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
