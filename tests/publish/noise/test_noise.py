"""Noise as a distribution. Seeds are fixed; OpenDP has none, so its tests state their error rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pufferdp.basics.errors import ParameterError
from pufferdp.publish.noise import NoiseDistribution, NoiseKind, SeededSampler, SystemSampler, draw

MANY = 20_000
ERROR_RATE = 1e-9
"""Probability that a right sampler fails one of these tests."""


def discrete_cdf(scale):
    q = math.exp(-1 / scale)

    def cdf(m):
        m = np.floor(m)
        return np.where(m < 0, q ** (-m) / (1 + q), 1 - q ** (m + 1) / (1 + q))

    return cdf


def far_from(sample, cdf) -> bool:
    """Dvoretzky–Kiefer–Wolfowitz (Massart 1990): holds for any distribution, discrete ones too."""
    values, counts = np.unique(sample, return_counts=True)
    gap = np.abs(np.cumsum(counts) / len(sample) - cdf(values)).max()
    return gap > math.sqrt(math.log(2 / ERROR_RATE) / (2 * len(sample)))


@pytest.mark.parametrize("sampler", [SystemSampler(), SeededSampler(3)], ids=["system", "seeded"])
@pytest.mark.parametrize("scale", [0.4, 3.0, 50.0])
def test_discrete_laplace_distribution(sampler, scale):
    sample = np.array(sampler.discrete_laplace([5] * MANY, scale)) - 5
    assert not far_from(sample, discrete_cdf(scale))
    assert far_from(sample, discrete_cdf(scale * 0.8))  # the test can tell a scale that is a fifth too small


@pytest.mark.parametrize("sampler", [SystemSampler(), SeededSampler(3)], ids=["system", "seeded"])
def test_laplace_distribution(sampler):
    sample = np.array(sampler.laplace([2.5] * MANY, 7.0)) - 2.5
    assert not far_from(sample, stats.laplace(scale=7.0).cdf)
    assert far_from(sample, stats.laplace(scale=7.0 * 0.8).cdf)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [SystemSampler(), SeededSampler(3)], ids=["system", "seeded"])
def test_gaussian_distribution(sampler):
    sample = np.array(sampler.gaussian([2.5] * MANY, 7.0)) - 2.5
    assert not far_from(sample, stats.norm(scale=7.0).cdf)
    assert far_from(sample, stats.norm(scale=7.0 * 0.8).cdf)


def test_gaussian_noise_is_drawn_on_counts():
    """One count is 1/50 of the answer, so noise of .2 in the answer's units is noise of 10 on counts."""
    distribution = NoiseDistribution(kind=NoiseKind.GAUSSIAN, scale=0.2, coordinates=MANY, unit=1 / 50)
    sample = np.array(draw(distribution, [3] * MANY, SeededSampler(4))) - 3
    assert not far_from(sample, stats.norm(scale=10.0).cdf)
    assert distribution.counts_scale > 10


@given(
    kind=st.sampled_from(NoiseKind),
    scale=st.floats(0.05, 1e4),
    d=st.integers(1, 60),
    beta=st.floats(0.001, 0.5),
)
def test_accuracy_is_the_least_alpha_that_holds(kind, scale, d, beta):
    distribution = NoiseDistribution(kind=kind, scale=scale, coordinates=d)
    alpha = distribution.accuracy(beta).alpha

    def all_within(bound):
        if kind is NoiseKind.LAPLACE:
            return (1 - math.exp(-bound / scale)) ** d
        if kind is NoiseKind.GAUSSIAN:
            return (1 - 2 * stats.norm.sf(bound / scale)) ** d
        if kind is NoiseKind.DISCRETE_GAUSSIAN:
            steps = np.arange(math.ceil(40 * scale) + 2)
            mass = np.exp(-((steps / distribution.counts_scale) ** 2) / 2)
            return (1 - 2 * float(mass[steps >= bound].sum() / (2 * mass.sum() - 1))) ** d
        q = math.exp(-1 / distribution.counts_scale)
        return (1 - 2 * q**bound / (1 + q)) ** d  # P(|X| < bound) for whole bounds

    assert all_within(alpha) >= 1 - beta - 1e-12
    if kind in (NoiseKind.LAPLACE, NoiseKind.GAUSSIAN):
        assert all_within(alpha * (1 - 1e-6)) < 1 - beta
    elif alpha > 1:
        assert all_within(alpha - 1) < 1 - beta + 1e-12


@pytest.mark.parametrize("scale", [0.3, 1.0, 12.5])
def test_expected_error_is_that_of_the_noise_drawn(scale):
    distribution = NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=scale, coordinates=4)
    q, m = math.exp(-1 / scale), np.arange(1, 2000)
    assert distribution.expected_l1_error == pytest.approx(
        4 * float((2 * m * q**m).sum() * (1 - q) / (1 + q)), rel=1e-9
    )
    assert NoiseDistribution(kind=NoiseKind.LAPLACE, scale=scale, coordinates=4).expected_l1_error == 4 * scale
    gaussian = NoiseDistribution(kind=NoiseKind.GAUSSIAN, scale=scale, coordinates=4)
    assert gaussian.expected_l1_error == pytest.approx(4 * stats.norm(scale=scale).expect(abs), rel=1e-6)
    assert gaussian.mean_squared_error == pytest.approx(4 * scale**2)


def test_frequencies_are_noisy_counts_over_the_length():
    distribution = NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=2 * 3.0 / 50, coordinates=2, unit=1 / 50)
    counts = NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=2 * 3.0, coordinates=2)
    assert distribution.expected_l1_error == pytest.approx(counts.expected_l1_error / 50)
    assert distribution.accuracy(0.05).alpha == pytest.approx(counts.accuracy(0.05).alpha / 50)
    assert distribution.counts_scale >= 6.0


@given(scale=st.floats(1e-3, 1e6), records=st.integers(1, 10**7))
def test_the_scale_is_rounded_up(scale, records):
    distribution = NoiseDistribution(
        kind=NoiseKind.DISCRETE_LAPLACE, scale=scale * (1 / records), coordinates=1, unit=1 / records
    )
    assert distribution.counts_scale >= scale


@pytest.mark.parametrize(("kind", "exact"), [(NoiseKind.DISCRETE_LAPLACE, [3, 4]), (NoiseKind.LAPLACE, [0.5, 1.5])])
def test_where_there_is_nothing_to_hide_nothing_is_drawn(kind, exact):
    distribution = NoiseDistribution(kind=kind, scale=0.0, coordinates=2)
    assert draw(distribution, exact, SystemSampler()) == exact
    assert distribution.expected_l1_error == 0


@pytest.mark.parametrize("scale", [-1.0, math.inf, math.nan])
def test_a_scale_that_protects_nothing_is_refused(scale):
    with pytest.raises(ParameterError, match="noise scale"):
        draw(NoiseDistribution(kind=NoiseKind.LAPLACE, scale=scale, coordinates=1), [1.0], SystemSampler())


@pytest.mark.parametrize("exact", [math.nan, math.inf])
def test_an_answer_that_is_no_number_is_refused_without_being_shown(exact):
    with pytest.raises(ParameterError, match="not a finite number") as refusal:
        draw(NoiseDistribution(kind=NoiseKind.LAPLACE, scale=1.0, coordinates=1), [exact], SystemSampler())
    assert "nan" not in str(refusal.value)


def test_seeds_repeat_and_say_so():
    assert SeededSampler(5).laplace([0.0] * 9, 1.0) == SeededSampler(5).laplace([0.0] * 9, 1.0)
    assert SeededSampler(5).warning == "unsafe: seeded"
    assert SystemSampler().warning is None
    assert SystemSampler().discrete_laplace([0] * 40, 100.0) != SystemSampler().discrete_laplace([0] * 40, 100.0)
