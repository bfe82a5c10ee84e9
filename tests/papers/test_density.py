"""The thesis's estimate: densities from samples, the largest log-ratio, a percentile over random adversaries."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pufferdp.assess.audit.mechanisms.ours import NoisyQuery
from pufferdp.assess.audit.priors import ChainPrior
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.answers.queries import Query
from pufferdp_papers.thesis.density import density_of, largest_log_ratio, percentile, random_adversary, simulate_leakage


def test_densities_from_a_sample() -> None:
    """100,000 normal numbers: the self-consistent estimate errs by some thousandths of the peak, .4."""
    sample = np.random.default_rng(5).normal(size=100_000)
    points = np.linspace(-2, 2, 41)
    assert density_of(sample)(points) == pytest.approx(stats.norm.pdf(points), abs=6e-3)


def test_the_estimate_is_near_the_truth() -> None:
    """Two Laplace distributions of scale 1, one apart: the largest log-ratio is 1, and 0 for one distribution.

    At the .5 % quantile the density is .005. Of 2·10^6 draws the estimate takes in some 1,800 there: each logarithm has
    a standard deviation of about .024, their difference .033; five of these are allowed.
    """
    generator = np.random.default_rng(7)
    first, second = generator.laplace(size=(2, 2_000_000))
    assert largest_log_ratio(first, second, generator) < 5 * 0.033
    assert largest_log_ratio(first, second + 1, generator) == pytest.approx(1, abs=5 * 0.033)


def test_samples_without_overlap_give_no_estimate() -> None:
    first = np.linspace(0, 1, 1000)
    assert math.isnan(largest_log_ratio(first, first + 5, np.random.default_rng(0)))
    assert percentile([1.0, math.nan, 2.0]) == pytest.approx(1.99)


def test_adversaries_who_cannot_be_are_told_apart() -> None:
    """Never two ones in a row: of random adversaries some know what cannot be."""
    prior = ChainPrior(MarkovChain(transition=[[0.5, 0.5], [1.0, 0.0]]), 6)
    generator = np.random.default_rng(1)
    found = [random_adversary(prior, generator) for _ in range(200)]
    assert 0 < sum(who is None for who in found) < 200
    for who in found:
        if who is not None:
            situation, first, second = who
            assert {first, second} == {0.0, 1.0}
            assert situation.target not in dict(situation.known)
            for value in (first, second):
                assert prior.log_probability(situation.given(value)) > -math.inf


def test_independent_records_leak_their_dp_loss() -> None:
    """The estimate for a noisy count of coins: 1, and above it only by the error of densities from 50,000 outputs."""
    coins = MarkovChain(transition=[[0.5, 0.5], [0.5, 0.5]])
    generator = np.random.default_rng(3)
    noisy = NoisyQuery(model=coins, query=Query.parse("count:1"), records=4, dp_loss=1.0, generator=generator)
    found = simulate_leakage(noisy, ChainPrior(coins, 4), generator, adversaries=8, draws=50_000)
    assert 0.9 < found < 1.8
