"""The discrete Gaussian distribution: moments and tails against sums, and both samplers against the distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chisquare

from pufferdp.publish.noise import (
    NoiseDistribution,
    NoiseKind,
    SeededSampler,
    SystemSampler,
    draw,
    gaussian_delta,
    gaussian_rho,
)
from pufferdp.publish.noise_distributions import DiscreteGaussianDistribution


def masses(scale: float) -> tuple[np.ndarray, np.ndarray]:
    points = np.arange(-math.ceil(40 * scale) - 1, math.ceil(40 * scale) + 2, dtype=float)
    weights = np.exp(-(points**2) / (2 * scale**2))
    return points, weights / weights.sum()


@pytest.mark.parametrize("scale", [0.02, 0.3, 1.0, 7.3, 99.9, 100.1, 2345.6])
def test_moments_and_tails_are_those_of_the_sums(scale):
    points, distribution = masses(scale)
    found = DiscreteGaussianDistribution(scale)
    assert found.expected_absolute == pytest.approx(float(np.abs(points) @ distribution), rel=1e-12, abs=1e-300)
    assert found.variance == pytest.approx(float(points**2 @ distribution), rel=1e-12, abs=1e-300)
    places = np.unique(np.rint(np.array([-3.0, -1.0, 0.0, 0.01, 0.5, 1.0, 3.0, 6.0]) * scale))
    tails = [float(distribution[points >= place].sum()) for place in places]
    assert found.at_least(places) == pytest.approx(tails, rel=1e-7, abs=1e-15)
    for probability in (0.9, 0.05, 1e-9):
        m = found.least_error(probability)
        assert m >= 1
        assert float(distribution[np.abs(points) >= m].sum()) <= probability * (1 + 1e-7)
        assert m == 1 or float(distribution[np.abs(points) >= m - 1].sum()) > probability * (1 - 1e-7)


@pytest.mark.parametrize("make", [lambda: SeededSampler(5), SystemSampler], ids=["seeded", "system"])
def test_samplers_draw_from_the_distribution(make):
    """Chi-square at 1e-6: a right sampler fails once in a million runs; the seeded one always passes."""
    scale, count = 3.4, 20_000
    drawn = np.array(make().discrete_gaussian([7] * count, scale)) - 7
    points, distribution = masses(scale)
    inside = np.abs(points) <= 9
    seen = np.array([np.count_nonzero(drawn == point) for point in points[inside]])
    expected = distribution[inside] * count
    rest = count - seen.sum(), count - expected.sum()
    assert chisquare(np.append(seen, rest[0]), np.append(expected, rest[1])).pvalue > 1e-6
    # Noise of a scale 10 % smaller is told apart.
    narrow = np.array(make().discrete_gaussian([0] * count, 0.9 * scale))
    seen = np.array([np.count_nonzero(narrow == point) for point in points[inside]])
    assert chisquare(np.append(seen, count - seen.sum()), np.append(expected, rest[1])).pvalue < 1e-6


def test_frequencies_are_drawn_in_counts():
    distribution = NoiseDistribution(kind=NoiseKind.DISCRETE_GAUSSIAN, scale=0.05, coordinates=3, unit=0.01)
    assert distribution.expected_l1_error == pytest.approx(
        3 * 0.01 * DiscreteGaussianDistribution(5.0).expected_absolute
    )
    assert distribution.mean_squared_error == pytest.approx(3 * 1e-4 * 25.0)
    assert distribution.accuracy(0.05).alpha == pytest.approx(
        0.01 * DiscreteGaussianDistribution(5.0).least_error(1 - 0.95 ** (1 / 3))
    )
    assert all(isinstance(value, int) for value in draw(distribution, [1, 2, 3], SeededSampler(1)))
    nothing = NoiseDistribution(kind=NoiseKind.DISCRETE_GAUSSIAN, scale=0.0, coordinates=3, unit=0.01)
    assert (nothing.expected_l1_error, nothing.mean_squared_error, nothing.accuracy(0.1).alpha) == (0.0, 0.0, 0.01)


@pytest.mark.parametrize("whole", [True, False])
def test_the_map_is_that_of_zcdp(whole):
    assert gaussian_rho(20.0, math.sqrt(2), whole) == pytest.approx(1 / 400, rel=1e-12)
    rho = 1 / 400
    by_hand = min(
        math.exp((a - 1) * (a * rho - 0.3)) / (a - 1) * (1 - 1 / a) ** a for a in np.linspace(1.01, 300, 100_000)
    )
    assert gaussian_delta(20.0, math.sqrt(2), whole, 0.3) == pytest.approx(by_hand, rel=1e-6)
