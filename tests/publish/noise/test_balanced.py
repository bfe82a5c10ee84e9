"""Noise that adds up to 0: its distribution against enumeration, its draws as a distribution, and its guarantee."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pufferdp import AnyGroups, Ledger, release, verify
from pufferdp.basics.errors import ParameterError
from pufferdp.publish.noise import NoiseDistribution, NoiseKind, SeededSampler, SystemSampler, draw
from pufferdp.publish.noise_distributions import BalancedDistribution
from tests.oracles.leakage import answers, channel_leakage, leakage, likelihoods, path_distribution

CASES = [(2, 0.3), (2, 1.3), (2, 4.0), (3, 0.5), (3, 2.0), (4, 0.8), (5, 0.5)]
REACH = {2: 150, 3: 60, 4: 26, 5: 12}
"""Beyond it lies less than 1e-9 of each case."""


@cache
def enumerated(k: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Every vector that adds up to 0, and its probability."""
    axis = np.arange(-REACH[k], REACH[k] + 1)
    first = np.array(list(itertools.product(axis, repeat=k - 1)))
    vectors = np.column_stack([first, -first.sum(axis=1)])
    weights = np.exp(-np.abs(vectors).sum(axis=1) / scale)
    return vectors, weights / weights.sum()


@pytest.mark.parametrize(("k", "scale"), CASES)
def test_errors_are_those_of_the_distribution(k, scale):
    vectors, distribution = enumerated(k, scale)
    ours = BalancedDistribution(scale, k)
    assert ours.expected_l1 == pytest.approx(np.abs(vectors).sum(axis=1) @ distribution, rel=1e-7)
    assert ours.squared == pytest.approx((vectors**2).sum(axis=1) @ distribution, rel=1e-7)


@pytest.mark.parametrize(("k", "scale"), CASES)
def test_the_distribution_of_one_number(k, scale):
    vectors, distribution = enumerated(k, scale)
    ours, steps = BalancedDistribution(scale, k), np.arange(-6.0, 7.0)
    each = [distribution[vectors[:, 0] == step].sum() for step in steps]
    assert np.exp(ours.log_probability(steps)) == pytest.approx(each, rel=1e-7)
    from_one = np.arange(1.0, 7.0)
    assert ours.tail(from_one) == pytest.approx(
        [distribution[vectors[:, 0] >= step].sum() for step in from_one], rel=1e-7
    )


@pytest.mark.parametrize("beta", [0.5, 0.2, 0.05, 0.001])
@pytest.mark.parametrize(("k", "scale"), CASES)
def test_accuracy_holds_and_is_hardly_more_than_the_least(k, scale, beta):
    vectors, distribution = enumerated(k, scale)
    largest = np.abs(vectors).max(axis=1)
    alpha = BalancedDistribution(scale, k).alpha(beta)
    assert distribution[largest >= alpha].sum() <= beta
    least = next(a for a in range(1, 100) if distribution[largest >= a].sum() <= beta)
    assert alpha <= least + (1 if k > 2 and beta == 0.5 else 0)


def test_two_numbers_are_one_count():
    """Noise of scale s that adds up to 0 is noise of scale s/2 on one of the two."""
    for scale in (0.05, 0.7, 9.0, 4000.0):
        both = NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=scale, coordinates=2, balanced=True)
        count = NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=scale / 2, coordinates=1)
        assert both.expected_l1_error == pytest.approx(2 * count.expected_l1_error, rel=1e-9)
        assert both.mean_squared_error == pytest.approx(2 * count.mean_squared_error, rel=1e-9)
        for beta in (0.3, 0.05, 1e-6):
            assert both.accuracy(beta).alpha == count.accuracy(beta).alpha


@pytest.mark.parametrize("k", [2, 3, 5, 20, 100])
def test_it_errs_less_than_independent_noise_and_than_its_projection(k):
    """In sum, in squares and in the largest error; projecting independent noise onto sum 0 is free, and not enough."""
    scale = 500.0
    balanced = NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=scale, coordinates=k, balanced=True)
    independent = NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=scale, coordinates=k)
    # E‖z‖₁ of the continuous distribution is (k−1)·s: twice the K-norm, whose radius is that of k−1 dimensions.
    assert balanced.expected_l1_error == pytest.approx((k - 1) * scale, rel=1e-5)
    assert balanced.expected_l1_error < independent.expected_l1_error
    assert balanced.mean_squared_error < independent.mean_squared_error * (k - 1) / k  # what projecting leaves
    assert balanced.accuracy(0.05).alpha < independent.accuracy(0.05).alpha
    if k > 20:
        return  # the projection's gain is below what a sample of this size shows
    noise = np.random.default_rng(k).laplace(0, scale, (20_000, k))
    projected = np.abs(noise - noise.mean(axis=1, keepdims=True)).sum(axis=1)
    # Six standard deviations of the mean of the sample: wrong once in 10^9 samples.
    assert balanced.expected_l1_error < projected.mean() - 6 * projected.std() / math.sqrt(len(projected))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [SystemSampler(), SeededSampler(3)], ids=["system", "seeded"])
@pytest.mark.parametrize(("k", "scale"), [(2, 1.3), (3, 1.0), (4, 0.8)])
def test_draws_have_the_distribution(sampler, k, scale):
    """Chi-squared over all vectors that are expected often enough; a right sampler fails once in 10^9."""
    vectors, distribution = enumerated(k, scale)
    distribution_of = {tuple(v): p for v, p in zip(vectors.tolist(), distribution.tolist(), strict=True)}
    noise_distribution = NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=scale, coordinates=k, balanced=True)
    exact, many = list(range(10, 10 + k)), 700
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(many):
        noise = tuple(int(v) - e for v, e in zip(draw(noise_distribution, exact, sampler), exact, strict=True))
        assert sum(noise) == 0
        seen[noise] = seen.get(noise, 0) + 1
    often = [v for v, p in distribution_of.items() if p * many >= 5]
    counts = [seen.get(v, 0) for v in often]
    expected = [distribution_of[v] * many for v in often]
    counts.append(many - sum(counts))
    expected.append(many - sum(expected))
    assert stats.chisquare(counts, expected).pvalue > 1e-9
    # The test can tell: independent noise of this scale would be 0 everywhere far less often.
    assert distribution_of[(0,) * k] > 1.5 * math.tanh(0.5 / scale) ** k


class QuickSampler(SystemSampler):
    """Discrete Laplace noise by numpy: the difference of two geometric numbers. Quick enough for large samples."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def discrete_laplace(self, exact: list[int], scale: float) -> list[int]:
        p = -math.expm1(-1 / scale)
        noise = self.rng.geometric(p, len(exact)) - self.rng.geometric(p, len(exact))
        return [e + int(z) for e, z in zip(exact, noise, strict=True)]


@pytest.mark.parametrize(("k", "scale", "many"), [(2, 7.0, 8_000), (3, 7.0, 6_000), (6, 3.0, 3_000)])
def test_draws_are_as_wide_as_planned(k, scale, many):
    """The mean of |z|₁ within six standard deviations, wrong once in 10^9; noise a tenth narrower would be seen."""
    distribution = NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=scale, coordinates=k, balanced=True)
    sampler = QuickSampler(k)
    sizes = np.array([sum(abs(z) for z in draw(distribution, [0] * k, sampler)) for _ in range(many)])
    room = 6 * sizes.std() / math.sqrt(many)
    assert room < 0.08 * distribution.expected_l1_error
    assert abs(sizes.mean() - distribution.expected_l1_error) < room


@pytest.mark.parametrize(("k", "T"), [(2, 4), (3, 3), (4, 3)])
def test_its_dp_loss_is_two_over_the_scale(k, T):
    """By enumeration of all paths and all outputs, those far outside included: no more, and no less."""
    for scale in (0.7, 3.0):
        distribution = path_distribution(np.full((k, k), 1 / k), np.full(k, 1 / k), T)
        shown = likelihoods(answers(k, T, "histogram"), scale, balanced=True)
        assert channel_leakage(distribution, shown, "dp") == pytest.approx(2 / scale, rel=1e-9)


def test_outputs_far_outside_are_like_those_at_the_end():
    """The oracle's shortcut: every output from -T to 2T that adds up to T, written out."""
    k, T, scale = 3, 3, 1.1
    exact = answers(k, T, "histogram")
    far = [v for v in itertools.product(range(-T, 2 * T + 1), repeat=k) if sum(v) == T]
    shown = np.exp(-np.abs(exact[..., None, :] - np.array(far)).sum(axis=-1) / scale)
    P, start = np.array([[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]), np.array([0.5, 0.2, 0.3])
    whole = channel_leakage(path_distribution(P, start, T), shown, "bdp")
    assert leakage(P, start, T, "histogram", scale, everyone=True, balanced=True) == pytest.approx(whole, rel=1e-12)


def test_large_and_small_scales():
    for k, scale in itertools.product((2, 3, 51), (1e-9, 1e-3, 0.002, 0.05, 1e6, 1e12)):
        distribution = BalancedDistribution(scale, k)
        assert 0 <= distribution.expected_l1 <= (k - 1) * scale * (1 + 1e-9)
        assert 0 <= distribution.squared < math.inf
        assert distribution.alpha(0.05) >= 1
        assert np.isfinite(distribution.tail(np.array([1.0, 10.0]))).all()


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ParameterError, match="drawn up to"):
        BalancedDistribution(1e17, 3)
    with pytest.raises(ParameterError, match="two or more"):
        NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=1.0, coordinates=1, balanced=True)
    with pytest.raises(ParameterError, match="discrete"):
        NoiseDistribution(kind=NoiseKind.LAPLACE, scale=1.0, coordinates=2, balanced=True)


def test_noise_too_wide_to_add_up_is_planned_as_independent_before_anything_is_charged(tmp_path):
    """Groups of ten million at the least epsilon: what is charged is also answered, and its certificate holds."""
    model, frame = AnyGroups(largest=10**7), pd.DataFrame({"x": [0] * 20})
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("wide", model=model, budget=1.0)
        done = release(frame, model=model, column="x", query="histogram", epsilon=1e-9, ledger=ledger, dataset="wide")
        assert ledger.dataset("wide").releases == 1
    assert done.certificate.noise.scale > 2**53
    assert done.certificate.noise.balanced is None
    assert verify(done.certificate).valid
