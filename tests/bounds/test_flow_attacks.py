"""Attackers on noisy flows: the total variation between the distributions of two releases is at most tau."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pufferdp.bounds.orbits import Privacy, dobrushin, least_favourable, our_noise, tilted
from tests.bounds.test_orbits import mixing, others
from tests.oracles.chains import stationary
from tests.oracles.flows import flow_distribution, sampled_variation, total_variation
from tests.strategies import random_distribution

GRID = 2e-4
"""What the sum over a grid may miss: halving its steps moves it by less, as a test here sees."""
ERROR_RATE = 1e-6
"""Probability that a right mechanism fails one test of a sample."""
DRAWS = 20_000
SAMPLED = math.sqrt(math.log(1 / ERROR_RATE) / (2 * 2 * DRAWS))
"""Hoeffding, for a mean of 2·DRAWS numbers between 0 and 1."""


def records(kernel: np.ndarray, start: np.ndarray, n: int) -> list[tuple[dict, dict]]:
    """The distributions of the flow for two values of a transition, at every place and from every state."""
    found = []
    for r in range(n):
        reached = np.asarray(start) @ np.linalg.matrix_power(kernel, r)
        for x in np.flatnonzero(reached > 0):
            ends = [int(j) for j in np.flatnonzero(kernel[x] > 0)]
            distributions = [flow_distribution(kernel, start, n, {r: int(x), r + 1: j}) for j in ends]
            found += [(distributions[a], distributions[b]) for a in range(len(distributions)) for b in range(a)]
    return found


@pytest.mark.slow
def test_the_grid_is_fine_enough():
    distribution = [
        flow_distribution(np.array(k), [0.5, 0.5], 6) for k in ([[0.7, 0.3], [0.2, 0.8]], [[0.6, 0.4], [0.3, 0.7]])
    ]
    for sigma in (0.1, 1.0, 5.0):
        coarse, fine = (total_variation(*distribution, sigma, steps) for steps in (6, 12))
        assert abs(coarse - fine) < GRID


def test_the_grid_agrees_with_two_normal_distributions():
    """One flow each: the total variation is known, 2Φ(δ/2σ)−1."""
    first, second = {(4, 0, 0, 0): 1.0}, {(0, 0, 0, 4): 1.0}
    for sigma in (0.3, 2.0):
        exact = math.erf(math.sqrt(2) / (2 * sigma) / math.sqrt(2))
        assert total_variation(first, second, sigma) == pytest.approx(exact, abs=GRID)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))])
@pytest.mark.parametrize("tau", [0.05, 0.3])
def test_orbit_neighbours_cannot_be_told_apart(seed, tau):
    generator = np.random.default_rng([seed, 2])
    n, eta = int(generator.integers(1, 9)), float(generator.choice([0.01, 0.1]))
    centre = mixing(generator, 2)
    sigma = our_noise(centre, n, eta=eta, tau=tau, privacy=Privacy.ORBIT).sigma
    start = random_distribution(generator, 2)
    for kernel in others(centre, eta, generator):
        alike = flow_distribution(centre, start, n), flow_distribution(kernel, start, n)
        own = flow_distribution(centre, stationary(centre), n), flow_distribution(kernel, stationary(kernel), n)
        for distributions in (alike, own):
            assert total_variation(*distributions, sigma) <= tau + GRID


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tau", [0.05, 0.3])
def test_record_neighbours_cannot_be_told_apart_under_any_kernel_of_the_orbit(seed, tau):
    generator = np.random.default_rng([seed, 3])
    n, eta = int(generator.integers(1, 7)), 0.05
    centre = mixing(generator, 2)
    while dobrushin(centre) + 2 * eta >= 1:
        centre = mixing(generator, 2)
    start = random_distribution(generator, 2)
    sigma = our_noise(centre, n, eta=eta, tau=tau, privacy=Privacy.RECORD).sigma
    for kernel in [centre, *others(centre, eta, generator)]:
        for distributions in records(kernel, start, n):
            assert total_variation(*distributions, sigma) <= tau + GRID


def test_noise_for_the_centre_alone_is_too_little_for_the_orbit():
    """The notes' case: alpha(K0) = .3, eta = .2, n = 6, tau = .1. This attacker wins, so the tests above can fail."""
    centre, kernel = np.array([[0.65, 0.35], [0.35, 0.65]]), np.array([[0.85, 0.15], [0.15, 0.85]])
    distributions = [flow_distribution(kernel, [0.5, 0.5], 6, {0: 0, 1: j}) for j in (0, 1)]
    of = {"eta": 0.2, "tau": 0.1, "privacy": Privacy.RECORD}
    assert total_variation(*distributions, our_noise(centre, 6, centre_only=True, **of).sigma) == pytest.approx(
        0.1197, abs=GRID
    )
    assert total_variation(*distributions, our_noise(centre, 6, **of).sigma) < 0.1 - GRID
    own = [flow_distribution(centre, [0.5, 0.5], 6, {0: 0, 1: j}) for j in (0, 1)]
    assert total_variation(*own, our_noise(centre, 6, centre_only=True, **of).sigma) < 0.1 - GRID


@pytest.mark.parametrize("seed", range(6))
def test_likelihood_ratios_succeed_no_better_than_guaranteed(seed):
    """Three states: nine numbers are too many for a grid, so distributions are sampled, with Hoeffding's bound."""
    generator = np.random.default_rng([seed, 4])
    n, eta, tau = int(generator.integers(1, 7)), 0.05, 0.3
    centre = mixing(generator, 3)
    while dobrushin(centre) + 2 * eta >= 1:
        centre = mixing(generator, 3)
    start = random_distribution(generator, 3)
    sigma = our_noise(centre, n, eta=eta, tau=tau, privacy=Privacy.JOINT).sigma
    pairs = [
        (flow_distribution(centre, start, n), flow_distribution(kernel, start, n))
        for kernel in (least_favourable(centre, eta), tilted(centre, eta))
    ]
    pairs += records(least_favourable(centre, eta), start, n)[:4]
    for distributions in pairs:
        far, success = sampled_variation(*distributions, sigma, DRAWS, generator)
        assert far - SAMPLED <= tau
        assert success - SAMPLED <= (1 + tau) / 2


def test_the_attacker_finds_what_is_there():
    """Much less noise than guaranteed: the same attacker passes (1+tau)/2, and agrees with the grid."""
    generator = np.random.default_rng(5)
    distributions = [
        flow_distribution(np.array(k), [0.5, 0.5], 6) for k in ([[0.5, 0.5], [0.5, 0.5]], [[0.9, 0.1], [0.1, 0.9]])
    ]
    sigma = our_noise(np.full((2, 2), 0.5), 6, eta=0.4, tau=0.1, privacy=Privacy.ORBIT).sigma / 8
    far, success = sampled_variation(*distributions, sigma, DRAWS, generator)
    assert success - SAMPLED > 0.55
    exact = total_variation(*distributions, sigma)
    assert abs(far - exact) < SAMPLED + GRID
    assert abs(success - (1 + exact) / 2) < SAMPLED + GRID
