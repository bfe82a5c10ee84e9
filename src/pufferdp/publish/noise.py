"""The only door through which randomness enters a release.

Noise on aggregates is drawn by OpenDP's exact samplers from the operating system's randomness, with the scale rounded
up to a double. Records of a series are flipped or redacted by comparing 64 bits from the operating system with whole
thresholds, rounded towards more noise: no floating point is involved. A seeded sampler exists for tests and
experiments; whatever it touches is marked unsafe.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import ParameterError
from pufferdp.basics.unexpected import describe_unexpected
from pufferdp.publish.noise_distributions import BalancedDistribution, DiscreteGaussianDistribution

Codes = npt.NDArray[Any]
"""States as whole numbers from 0."""
ROUNDING: Final = 1e-9
"""Relative: what another machine may round otherwise."""
_AT_ONCE: Final = 1 << 18
"""Records flipped at a time: what is drawn for them stays in the cache."""


class NoiseKind(StrEnum):
    """Which distribution the noise has."""

    DISCRETE_LAPLACE = "discrete-laplace"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    DISCRETE_GAUSSIAN = "discrete-gaussian"


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """With probability 1−beta every coordinate errs by less than alpha."""

    alpha: float
    beta: float


@dataclass(frozen=True, kw_only=True)
class NoiseDistribution:
    """Noise on every coordinate of an answer: independent, or balanced."""

    kind: NoiseKind
    """Which distribution the noise of each coordinate has."""
    scale: float
    """Scale of one coordinate, in the answer's units; 0 where the answer does not depend on any secret."""
    coordinates: int
    """How many coordinates the answer has."""
    unit: float = 1.0
    """Size of one count in the answer's units: 1 for counts, 1/T for frequencies. Discrete noise moves by it, and
    Gaussian noise is drawn on counts, which are exact, where a share of them would be rounded."""
    balanced: bool = False
    """Whether discrete noise on two or more coordinates adds up to 0, as in a histogram of a public number of records.
    Its probability is proportional to exp(−‖z‖₁/scale), as that of independent noise."""
    rounding: float = 0.0
    """The most that rounding a released number to a double adds to its error; 0 for whole numbers."""

    def __post_init__(self) -> None:
        if self.balanced and (self.kind is not NoiseKind.DISCRETE_LAPLACE or self.coordinates < 2):
            raise ParameterError("noise that adds up to 0 is discrete and for two or more numbers", value=self.kind)

    @property
    def in_counts(self) -> BalancedDistribution:
        """The distribution of balanced noise, in counts."""
        return BalancedDistribution(self.counts_scale, self.coordinates)

    @property
    def counts_scale(self) -> float:
        """The scale in counts, rounded up (by more than its own rounding): what discrete and Gaussian samplers get."""
        return self.scale / self.unit * (1 + 2**-50)

    @property
    def expected_l1_error(self) -> float:
        """Expected sum of the absolute errors over all coordinates."""
        if self.scale == 0:
            return 0.0
        if self.kind is NoiseKind.LAPLACE:
            return self.coordinates * self.scale
        if self.kind is NoiseKind.GAUSSIAN:
            return self.coordinates * self.scale * math.sqrt(2 / math.pi)
        if self.balanced:
            return self.unit * self.in_counts.expected_l1
        if self.kind is NoiseKind.DISCRETE_GAUSSIAN:
            return self.coordinates * self.unit * DiscreteGaussianDistribution(self.counts_scale).expected_absolute
        # E|X| of the discrete Laplace distribution is 1/sinh(1/s): 2q/(1−q²) with q = exp(−1/s).
        rate = 1 / self.counts_scale
        return self.coordinates * self.unit * (1 / math.sinh(rate) if rate < 700 else 0.0)

    @property
    def mean_squared_error(self) -> float:
        """Expected sum of the squared errors over all coordinates."""
        if self.scale == 0:
            return 0.0
        if self.kind is NoiseKind.LAPLACE:
            return self.coordinates * 2 * self.scale**2
        if self.kind is NoiseKind.GAUSSIAN:
            return self.coordinates * self.scale**2
        if self.balanced:
            return self.unit**2 * self.in_counts.squared
        if self.kind is NoiseKind.DISCRETE_GAUSSIAN:
            return self.coordinates * self.unit**2 * DiscreteGaussianDistribution(self.counts_scale).variance
        # The variance of the discrete Laplace distribution is 2q/(1−q)², q = exp(−1/s): 1/(2 sinh²(1/2s)).
        half = 1 / self.counts_scale / 2
        return self.coordinates * self.unit**2 * (1 / (2 * math.sinh(half) ** 2) if half < 350 else 0.0)

    def accuracy(self, beta: float) -> Accuracy:
        """The least alpha such that all coordinates err by less than alpha with probability 1−beta.

        Of balanced noise on three or more coordinates a little more (see ``BalancedDistribution.alpha``).
        """
        beta = checks.probability(beta, "beta")
        # Coordinates are independent, so each may fail with probability 1−(1−β)^(1/d).
        each = -math.expm1(math.log1p(-beta) / self.coordinates)
        if self.scale == 0:
            alpha = 0.0 if self.kind in (NoiseKind.LAPLACE, NoiseKind.GAUSSIAN) else self.unit
        elif self.balanced:
            alpha = self.unit * self.in_counts.alpha(beta)
        elif self.kind is NoiseKind.LAPLACE:
            alpha = self.scale * math.log(1 / each) + self.rounding
        elif self.kind is NoiseKind.GAUSSIAN:
            alpha = -self.scale * NormalDist().inv_cdf(each / 2) + self.rounding
        elif self.kind is NoiseKind.DISCRETE_GAUSSIAN:
            alpha = self.unit * DiscreteGaussianDistribution(self.counts_scale).least_error(each)
        else:  # P(|X| ≥ m) = 2q^m/(1+q) for whole m ≥ 1
            s = self.counts_scale
            alpha = self.unit * max(1, math.ceil(s * math.log(2 / ((1 + math.exp(-1 / s)) * each))))
        return Accuracy(alpha=alpha, beta=beta)

    def accuracy_of_each(self, beta: float) -> Accuracy:
        """The least alpha such that any one coordinate errs by less than alpha with probability 1−beta."""
        beta = checks.probability(beta, "beta")
        if self.balanced and self.scale > 0:
            return Accuracy(alpha=self.unit * self.in_counts.alpha_of_each(beta), beta=beta)
        return replace(self, coordinates=1, balanced=False).accuracy(beta)

    def log_weights(self, gaps: Floats) -> Floats:
        """The log of how likely noise of one coordinate is that moves it by a gap; up to a constant."""
        if self.kind in (NoiseKind.GAUSSIAN, NoiseKind.DISCRETE_GAUSSIAN):
            return np.asarray(-((gaps / self.scale) ** 2) / 2)
        if self.balanced:
            return self.in_counts.log_probability(np.rint(gaps / self.unit))
        return np.asarray(-np.abs(gaps) / self.scale)

    def at_least(self, gaps: Floats) -> Floats:
        """The probability that noise of one coordinate is at least a gap."""
        if self.kind is NoiseKind.GAUSSIAN:
            return np.array([math.erfc(gap / (self.scale * math.sqrt(2))) / 2 for gap in gaps])
        if self.kind is NoiseKind.DISCRETE_GAUSSIAN:
            return DiscreteGaussianDistribution(self.counts_scale).at_least(np.rint(gaps / self.unit))
        if self.kind is NoiseKind.LAPLACE:
            # P(X ≥ g) = exp(−g/s)/2 for g ≥ 0, and P(X ≥ g) = 1 − P(X ≥ −g).
            inner = gaps <= 0
            tail = 0.5 * np.exp(-np.abs(gaps) / self.scale)
        else:
            # P(X ≥ m) = q^m/(1+q) for whole m ≥ 1, and P(X ≥ m) = 1 − P(X ≥ 1−m).
            whole = np.rint(gaps / self.unit)
            inner = whole <= 0
            steps = np.where(inner, 1 - whole, whole)
            if self.balanced:
                tail = self.in_counts.tail(steps)
            else:
                tail = np.exp(-steps * self.unit / self.scale) / (1 + math.exp(-self.unit / self.scale))
        return np.asarray(np.where(inner, 1 - tail, tail))


SEEDED: Final = "unsafe: seeded"
"""What is said of noise that can be repeated. Nobody can prove that there was no seed."""


@runtime_checkable
class Sampler(Protocol):
    """A source of noise and of random bytes."""

    @property
    def warning(self) -> str | None:
        """What a certificate must say about this source, if anything."""

    def discrete_laplace(self, exact: list[int], scale: float) -> list[int]:
        """Whole numbers plus discrete Laplace noise."""

    def laplace(self, exact: list[float], scale: float) -> list[float]:
        """Numbers plus Laplace noise."""

    def gaussian(self, exact: list[float], scale: float) -> list[float]:
        """Numbers plus Gaussian noise of this standard deviation."""

    def discrete_gaussian(self, exact: list[int], scale: float) -> list[int]:
        """Whole numbers plus discrete Gaussian noise."""

    def noisy_least(self, scores: list[int], scale: float) -> int:
        """The place of a small score: of the least one after each was lowered by exponential noise of this scale."""

    def bytes(self, count: int) -> bytes:
        """Uniform random bytes, ``count`` of them: what flips and redactions are drawn from."""


class SystemSampler:
    """OpenDP's exact samplers on the operating system's randomness."""

    warning: str | None = None

    def discrete_laplace(self, exact: list[int], scale: float) -> list[int]:
        """Whole numbers plus discrete Laplace noise."""
        return [int(v) for v in _laplace_measurement(scale, whole=True)([int(v) for v in exact])]

    def laplace(self, exact: list[float], scale: float) -> list[float]:
        """Numbers plus Laplace noise on OpenDP's grid."""
        return [float(v) for v in _laplace_measurement(scale, whole=False)([float(v) for v in exact])]

    def gaussian(self, exact: list[float], scale: float) -> list[float]:
        """Numbers plus Gaussian noise on OpenDP's grid, the finest there is."""
        return [float(v) for v in _gaussian_measurement(scale, whole=False)([float(v) for v in exact])]

    def discrete_gaussian(self, exact: list[int], scale: float) -> list[int]:
        """Whole numbers plus discrete Gaussian noise."""
        return [int(v) for v in _gaussian_measurement(scale, whole=True)([int(v) for v in exact])]

    def noisy_least(self, scores: list[int], scale: float) -> int:
        """OpenDP's noisy max turned round, which is permute-and-flip (McKenna & Sheldon 2020)."""
        return int(_selection_measurement(scale)([int(score) for score in scores]))

    def bytes(self, count: int) -> bytes:
        """Straight from the operating system."""
        return os.urandom(count)


class SeededSampler:
    """Reproducible noise for tests and experiments. Never for a release that matters: anyone can subtract it."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    warning: str | None = SEEDED

    def discrete_laplace(self, exact: list[int], scale: float) -> list[int]:
        """The difference of two geometric variables has the discrete Laplace distribution."""
        p = -math.expm1(-1 / scale)
        up, down = self._generator.geometric(p, len(exact)), self._generator.geometric(p, len(exact))
        return [int(v) for v in np.asarray(exact, dtype=np.int64) + up - down]

    def laplace(self, exact: list[float], scale: float) -> list[float]:
        """Numbers plus Laplace noise."""
        return [float(v) for v in np.asarray(exact) + self._generator.laplace(0.0, scale, len(exact))]

    def gaussian(self, exact: list[float], scale: float) -> list[float]:
        """Numbers plus Gaussian noise."""
        return [float(v) for v in np.asarray(exact) + self._generator.normal(0.0, scale, len(exact))]

    def discrete_gaussian(self, exact: list[int], scale: float) -> list[int]:
        """Whole numbers, each accepted as often as its share of a Laplace distribution asks (Canonne et al. 2020)."""
        width = math.floor(scale) + 1
        out = []
        for value in exact:
            while True:
                noise = self.discrete_laplace([0], width)[0]
                if self._generator.random() < math.exp(-((abs(noise) - scale**2 / width) ** 2) / (2 * scale**2)):
                    break
            out.append(int(value) + noise)
        return out

    def noisy_least(self, scores: list[int], scale: float) -> int:
        """The place of the least score after exponential noise."""
        noise = self._generator.exponential(scale, len(scores))
        return int(np.argmin(np.asarray(scores, dtype=float) - noise))

    def bytes(self, count: int) -> bytes:
        """Bytes that anyone can repeat."""
        return self._generator.bytes(count)


def draw(distribution: NoiseDistribution, exact: list[int] | list[float], sampler: Sampler) -> list[int] | list[float]:
    """The exact answer plus noise: in counts for discrete and Gaussian noise, in the answer's units for Laplace."""
    if not (math.isfinite(distribution.scale) and distribution.scale >= 0):
        raise ParameterError(
            f"noise scale is {distribution.scale:g}; it must be finite and 0 or more", value=distribution.scale
        )
    if distribution.scale == 0:
        return exact  # the distribution of the answer is the same under every secret: there is nothing to hide
    if distribution.balanced:
        noise = distribution.in_counts.draw(lambda count, scale: sampler.discrete_laplace([0] * count, scale))
        return [int(v) + z for v, z in zip(exact, noise, strict=True)]
    if distribution.kind is NoiseKind.DISCRETE_LAPLACE:
        return in_doubles(sampler.discrete_laplace([int(v) for v in exact], distribution.counts_scale))
    if distribution.kind is NoiseKind.DISCRETE_GAUSSIAN:
        return in_doubles(sampler.discrete_gaussian([int(v) for v in exact], distribution.counts_scale))
    values = [float(v) for v in exact]
    # OpenDP turns NaN into 0 and lets infinities saturate without a word.
    if not all(math.isfinite(v) for v in values):
        raise ParameterError("the exact answer is not a finite number; noise cannot protect it")
    if distribution.kind is NoiseKind.GAUSSIAN:
        return sampler.gaussian(values, distribution.counts_scale)
    return sampler.laplace(values, math.nextafter(distribution.scale, math.inf))


def in_doubles(counts: list[int]) -> list[int]:
    """Noisy counts, those from 2^53 on rounded to a double: JSON has no other numbers."""
    return [int(float(count)) for count in counts]


def mark_thresholds(probabilities: npt.NDArray[np.float64]) -> list[int]:
    """For each probability the integer below which a 64-bit word means yes, rounded up: towards more redaction."""
    return [math.ceil(Fraction(float(p)) * 2**64) for p in np.ravel(probabilities)]


def bernoulli(probabilities: npt.NDArray[np.float64], sampler: Sampler) -> npt.NDArray[np.bool_]:
    """Independent events of these probabilities, by comparing whole numbers: no floating point is drawn."""
    limits = mark_thresholds(probabilities)
    below = np.array([min(limit, 2**64 - 1) for limit in limits], dtype=np.uint64)
    sure = np.array([limit >= 2**64 for limit in limits], dtype=bool)
    words = np.frombuffer(sampler.bytes(8 * len(limits)), dtype=np.uint64)
    return np.asarray((words < below) | sure)


def thresholds(channel: npt.ArrayLike) -> tuple[tuple[int, ...], ...]:
    """A channel in whole 2^-64ths, as it is drawn: changes are rounded up, staying gets the rest. Never less noise."""
    rows = [[math.ceil(Fraction(float(p)) * 2**64) for p in row] for row in np.asarray(channel, dtype=float)]
    for x, row in enumerate(rows):
        row[x] = 2**64 - (sum(row) - row[x])
        if row[x] < 0 or min(row) < 0:
            raise ParameterError(
                f"row {x + 1} of the channel is no distribution; it must be probabilities that sum to 1"
            )
    return tuple(tuple(row) for row in rows)


def drawn_channel(shares: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
    """The channel that thresholds stand for."""
    return np.array([[float(Fraction(share, 2**64)) for share in row] for row in shares])


def pass_channel(states: Codes, shares: Sequence[Sequence[int]], sampler: Sampler) -> Codes:
    """Pass each state through the channel, each on its own; states are whole numbers from 0.

    A record is compared with 64 random bits. The first eight decide but for one in 256 records, so only these get the
    other 56: the distribution is the same, and an eighth of the randomness is used.
    """
    out = np.empty_like(states)
    for begin in range(0, len(states), _AT_ONCE):
        piece = states[begin : begin + _AT_ONCE]
        drawn = _flip_two if len(shares) == 2 else _flip_many
        out[begin : begin + _AT_ONCE] = drawn(piece, shares, sampler)
    return out


def _flip_two(states: Codes, shares: Sequence[Sequence[int]], sampler: Sampler) -> Codes:
    # A threshold of 2^64 would not fit; a flip is certain only where a channel swaps states, which none here does.
    limits = [min(shares[0][1], 2**64 - 1), min(shares[1][0], 2**64 - 1)]
    first = np.frombuffer(sampler.bytes(len(states)), dtype=np.uint8)
    tops = np.array([limit >> 56 for limit in limits], dtype=np.uint8)
    ones = states.astype(bool)
    top = tops[0] if tops[0] == tops[1] else np.where(ones, tops[1], tops[0])
    changes = first < top
    tied = np.flatnonzero(first == top)
    rest = np.frombuffer(sampler.bytes(8 * len(tied)), dtype=np.uint64) >> np.uint64(8)
    below = np.array([limit & (2**56 - 1) for limit in limits], dtype=np.uint64)
    changes[tied] = rest < below[ones[tied].astype(np.intp)]
    return np.asarray((ones ^ changes).astype(states.dtype))


def _flip_many(states: Codes, shares: Sequence[Sequence[int]], sampler: Sampler) -> Codes:
    bits = np.frombuffer(sampler.bytes(8 * len(states)), dtype=np.uint64)
    out = states.copy()
    for x, row in enumerate(shares):
        here = np.flatnonzero(states == x)
        drawn, reached = bits[here], 0
        for z, share in enumerate(row):
            if z != x and share:
                # From `reached` up to and with the last of the share: 2^64 itself would not fit.
                inside = (drawn >= np.uint64(reached)) & (drawn <= np.uint64(reached + share - 1))
                out[here[inside]] = z
                reached += share
    return out


def gaussian_rho(scale: float, move: float, whole: bool) -> float:
    """By OpenDP's map: rho of zCDP of Gaussian noise of a scale on an answer that one record moves so far in L2."""
    return float(_gaussian_measurement(scale, whole).map(move))


def gaussian_delta(scale: float, move: float, whole: bool, loss: float) -> float:
    """By OpenDP's map: the delta of the same noise beside a DP loss."""
    from opendp import combinators

    smoothed: Any = combinators.make_zCDP_to_approxDP(_gaussian_measurement(scale, whole))
    return float(smoothed.map(move).delta(loss))


def _laplace_measurement(scale: float, whole: bool) -> Any:
    """OpenDP's Laplace noise on vectors, of whole numbers or of doubles on its finest grid."""
    _, metrics, measurements = _opendp()
    distance = metrics.l1_distance(T="i64" if whole else float)
    return measurements.make_laplace(_vectors(whole), distance, scale=scale)


def _gaussian_measurement(scale: float, whole: bool) -> Any:
    """OpenDP's Gaussian noise on vectors, of whole numbers or of doubles on its finest grid."""
    _, metrics, measurements = _opendp()
    return measurements.make_gaussian(_vectors(whole), metrics.l2_distance(T=float), scale=scale)


def _vectors(whole: bool) -> Any:
    domains, _, _ = _opendp()
    return domains.vector_domain(domains.atom_domain(T="i64") if whole else domains.atom_domain(T=float, nan=False))


def selection_scale(loss: float, move: int) -> float:
    """The least scale, rounded up, at which OpenDP's map allows a DP loss where one record moves scores so far."""
    scale, step = 2 * move / loss, 2.0**-52
    while float(_selection_measurement(scale).map(move)) > loss:
        scale, step = scale * (1 + step), 2 * step
    return scale


@lru_cache(maxsize=64)
def _selection_measurement(scale: float) -> Any:
    """OpenDP's choice of a small score among whole numbers; kept, because a table asks for one a group."""
    _, metrics, measurements = _opendp()
    from opendp.measures import max_divergence

    distance = metrics.linf_distance(T="i64")
    return measurements.make_noisy_max(_vectors(whole=True), distance, max_divergence(), scale, negate=True)


def load_noise(sampler: Sampler) -> None:
    """Load what a sampler draws with, before anything is charged: a library that is broken would cost the answer."""
    if isinstance(sampler, SystemSampler):
        try:
            _opendp()
        except Exception as error:
            raise ParameterError(
                f"noise cannot be drawn, since OpenDP does not load: {describe_unexpected(error)}; install opendp again"
            ) from None


def _opendp() -> tuple[Any, Any, Any]:
    """Its domains, metrics and measurements."""
    # Imported here: planning does not need it. And not its prelude, which brings scikit-learn along where there is one.
    from opendp import domains, measurements, metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    return domains, metrics, measurements
