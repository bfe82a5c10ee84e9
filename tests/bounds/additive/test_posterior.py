"""Normal answers: the posterior against numerical integration, the moments of clipped records against simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.additive.posterior import clipped_moments, normal_posterior, normal_surprise

CASES = [(0, 1, 0.5, 1), (0, 1, 30, 0.5), (3, 100, -50, 2), (0, 1e-4, 5, 1), (5, 4, 5, 1000), (-2, 9, -2.5, 0.3)]


def integrate(f, places) -> float:
    ends = sorted(set(places))
    return sum(quad(f, a, b, epsabs=0, epsrel=1e-11, limit=200)[0] for a, b in itertools.pairwise(ends))


@pytest.mark.parametrize(("m", "v", "y", "s"), CASES)
def test_the_posterior_is_that_of_numerical_integration(m, v, y, s):
    mode = min(max(y, m - v / s), m + v / s)
    width = 40 * min(math.sqrt(v), s)
    top = -((mode - m) ** 2) / (2 * v) - abs(y - mode) / s

    def weight(c):
        return math.exp(-((c - m) ** 2) / (2 * v) - abs(y - c) / s - top)

    def ends(up_to):
        cuts = [mode - width, mode - width / 20, mode, mode + width / 20, mode + width, y]
        return [mode - width, *(c for c in cuts if mode - width <= c < up_to), up_to]

    total = integrate(weight, ends(mode + width))
    mean, low, high = normal_posterior(m, v, y, s, 0.025)
    expected = integrate(lambda c: (c - mode) * weight(c), ends(mode + width)) / total
    assert mean == pytest.approx(mode + expected, abs=1e-9 * width)
    assert integrate(weight, ends(low)) / total == pytest.approx(0.025, abs=1e-8)
    assert integrate(weight, ends(high)) / total == pytest.approx(0.975, abs=1e-8)


@pytest.mark.parametrize(("m", "v", "y", "s"), CASES)
def test_the_surprise_is_a_tail_of_the_sum_of_both_distributions(m, v, y, s):
    sd = math.sqrt(v)

    def beyond(c):
        gap = abs(y - m) - (c - m)  # by symmetry the answer may lie above
        return norm.pdf(c, m, sd) * (0.5 * math.exp(-gap / s) if gap > 0 else 1 - 0.5 * math.exp(gap / s))

    cuts = [m - 12 * sd, m, m + 12 * sd, min(max(m + abs(y - m), m - 12 * sd), m + 12 * sd)]
    assert normal_surprise(m, v, y, s) == pytest.approx(min(1, 2 * integrate(beyond, cuts)), rel=1e-8)


def test_far_out_nothing_is_lost():
    """A million standard deviations away the noise did it: exp(−gap/scale) moved by the variance, in closed form."""
    assert normal_surprise(0.0, 1.0, 1e6, 5e4) == pytest.approx(math.exp(-20 + 0.5 / 5e4**2), rel=1e-12)
    mean, low, high = normal_posterior(0.0, 1.0, 1e6, 2.0, 0.025)
    assert (mean, low, high) == pytest.approx((0.5, 0.5 + norm.ppf(0.025), 0.5 + norm.ppf(0.975)), rel=1e-9)
    assert normal_posterior(3.0, 1e-300, 5.0, 1.0, 0.025) == (3.0, 3.0, 3.0)
    assert normal_surprise(3.0, 1e-300, 5.0, 1.0) == pytest.approx(math.exp(-2))


def test_no_noise_and_no_doubt():
    assert normal_posterior(1.0, 4.0, 2.5, 0.0, 0.025) == (2.5, 2.5, 2.5)
    assert normal_posterior(1.0, 0.0, 2.5, 3.0, 0.025) == (1.0, 1.0, 1.0)
    assert normal_surprise(1.0, 0.0, 4.0, 3.0) == pytest.approx(math.exp(-1))
    assert (normal_surprise(2.0, 0.0, 2.0, 0.0), normal_surprise(2.0, 0.0, 2.5, 0.0)) == (1.0, 0.0)
    assert normal_surprise(0.0, 1.0, 1.959963984540054, 0.0) == pytest.approx(0.05)


COVARIANCE = np.array([[4.0, 1.2, -0.5], [1.2, 1.0, 0.3], [-0.5, 0.3, 2.25]])
MEAN = np.array([1.0, -0.5, 0.2])


def test_without_clipping_the_moments_are_those_of_the_normal_distribution():
    mean, variance = clipped_moments(MEAN, COVARIANCE, -40, 40)
    assert mean == pytest.approx(MEAN.sum(), abs=1e-12)
    assert variance == pytest.approx(COVARIANCE.sum(), rel=1e-10)


@pytest.mark.parametrize("rho", [-1.0, -0.95, 0.4, 0.999, 1.0])
def test_clipped_moments_against_simulation(rho):
    """400,000 draws; five standard errors, so each of ten comparisons fails by chance less than once in 10^6."""
    sd = np.array([1.0, 2.0])
    covariance = np.outer(sd, sd) * np.array([[1, rho], [rho, 1]])
    u, w = np.random.default_rng(5).standard_normal((2, 400_000))
    drawn = np.stack([0.3 + u, -0.2 + 2 * (rho * u + math.sqrt(1 - rho * rho) * w)])
    sums = np.clip(drawn, -1, 1.5).sum(axis=0)
    mean, variance = clipped_moments(np.array([0.3, -0.2]), covariance, -1, 1.5)
    assert abs(sums.mean() - mean) < 5 * sums.std() / math.sqrt(len(sums)) + 1e-12
    squares = (sums - mean) ** 2
    assert abs(squares.mean() - variance) < 5 * squares.std() / math.sqrt(len(sums)) + 1e-12


def test_clipped_moments_of_equal_records_are_those_of_one():
    """Correlation 1: the sum of two is twice one, in closed form."""
    one, variance = clipped_moments(np.array([0.4]), np.array([[2.0]]), -1, 1)
    two, both = clipped_moments(np.array([0.4, 0.4]), np.full((2, 2), 2.0), -1, 1)
    assert two == pytest.approx(2 * one, rel=1e-12)
    assert both == pytest.approx(4 * variance, rel=1e-9)


def test_opposite_and_certain_records():
    """Two that cancel, and one that never changes."""
    mean, variance = clipped_moments(np.zeros(2), np.array([[1.0, -1.0], [-1.0, 1.0]]), -0.7, 0.7)
    assert (mean, variance) == (pytest.approx(0, abs=1e-12), pytest.approx(0, abs=1e-9))
    assert clipped_moments(np.array([5.0]), np.zeros((1, 1)), -1, 1) == (1.0, 0.0)


def test_too_many_different_pairs_are_refused():
    generator = np.random.default_rng(1)
    factor = generator.standard_normal((250, 250))
    with pytest.raises(NotApplicableError, match="pairs"):
        clipped_moments(np.zeros(250), factor @ factor.T, -1, 1)
