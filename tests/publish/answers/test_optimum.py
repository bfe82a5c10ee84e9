"""The linear programme behind "how far from the best possible", and the simulation beside exact leakage."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from benchmarks.optimum import CHAINS, optimum, ours, without_data

from pufferdp.models.chain import MarkovChain
from tests.oracles.leakage import path_distribution
from tests.tolerance import safe_scale

SOLVER = 1e-6
"""HiGHS lets a constraint be passed by 1e-7; dividing by the probability of what is known can add to that."""


def chain_of(name):
    return MarkovChain(transition=CHAINS[name])


def largest_excess(distribution, mechanism, epsilon):
    """The most by which p exceeds e^ε·p' over all adversaries, from the plain table of series."""
    n = distribution.ndim
    seen = distribution[..., None] * mechanism.T.reshape(*distribution.shape, -1)
    worst = -math.inf
    for i in range(n):
        others = [j for j in range(n) if j != i]
        for known in itertools.chain.from_iterable(itertools.combinations(others, m) for m in range(n)):
            unknown = tuple(j for j in others if j not in known)
            place = sum(1 for j in known if j < i)
            mass = np.moveaxis(distribution.sum(axis=unknown), place, 0)[..., None]
            told = np.moveaxis(seen.sum(axis=unknown), place, 0) / mass
            for a, b in ((0, 1), (1, 0)):
                worst = max(worst, float((told[a] - math.exp(epsilon) * told[b]).max()))
    return worst


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_best_mechanism_is_private_and_best(name, epsilon):
    chain = chain_of(name)
    best, we = optimum(chain, 4, epsilon), ours(chain, 4, epsilon)
    distribution = path_distribution(chain.transition, chain.stationary, 4)
    assert best.mechanism.min() >= -SOLVER
    assert best.mechanism.sum(axis=0) == pytest.approx(1)
    assert largest_excess(distribution, best.mechanism, epsilon) <= SOLVER
    misses = np.abs(np.arange(5)[:, None] - np.indices(distribution.shape).sum(axis=0).ravel())
    assert best.error == pytest.approx(float((best.mechanism * misses * distribution.ravel()).sum()))
    only = optimum(chain, 4, epsilon, count_only=True)
    assert largest_excess(distribution, only.mechanism, epsilon) <= SOLVER
    for count in range(5):  # series with the same count are treated alike
        assert np.ptp(only.mechanism[:, np.indices(distribution.shape).sum(axis=0).ravel() == count], axis=1).max() == 0
    assert best.error <= only.error + SOLVER
    assert only.error <= we.model_estimate + SOLVER
    assert we.model_estimate <= min(we.clamped, without_data(chain, 4)) + 1e-12
    assert we.clamped <= we.raw


def test_the_numbers_of_the_notes():
    chain = chain_of("activity")
    assert round(optimum(chain, 5, 2.0).error, 4) == 0.5348
    assert ours(chain, 5, 2.0).clamped == safe_scale(0.8419, digits=1e-4)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_one_record_is_randomised_response_or_a_guess(epsilon):
    """One record: answer truly with probability e^ε/(1+e^ε), or always with the likelier state."""
    chain = chain_of("activity")
    known = min(1 / (1 + math.exp(epsilon)), float(chain.stationary.min()))
    assert optimum(chain, 1, epsilon).error == pytest.approx(known)


@pytest.mark.parametrize("name", CHAINS)
def test_our_errors_by_summing_over_outputs(name):
    chain, n = chain_of(name), 4
    we = ours(chain, n, 1.0)
    distribution = path_distribution(chain.transition, chain.stationary, n).ravel()
    counts = np.indices((2,) * n).sum(axis=0).ravel()
    outputs = np.arange(-400, 400 + n)  # beyond lies less than e^-60
    q = math.exp(-1 / we.scale)
    joint = distribution * q ** np.abs(outputs[:, None] - counts) * (1 - q) / (1 + q)
    by_count = np.stack([joint[:, counts == c].sum(axis=1) for c in range(n + 1)], axis=1)
    half = np.cumsum(by_count, axis=1) >= by_count.sum(axis=1, keepdims=True) / 2
    for found, estimate in (
        (we.raw, outputs),
        (we.clamped, outputs.clip(0, n)),
        (we.model_estimate, half.argmax(axis=1)),
    ):
        assert found == pytest.approx(float((joint * np.abs(estimate[:, None] - counts)).sum()), abs=1e-9)
