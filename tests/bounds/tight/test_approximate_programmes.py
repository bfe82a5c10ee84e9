"""Approximate DP against linear programmes over all events of all (epsilon, delta)-DP algorithms (Theorem 3)."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.bounds.approximate import approximate_leakage, carried_delta
from pufferdp.bounds.tight.chain import TightCurve
from tests.bounds.tight import cases
from tests.oracles import algorithms
from tests.strategies import examples, random_distribution

RELATIVE = 1e-6
"""Deltas are small: what counts is their share."""


def given_distributions(seed, *, equal):
    """Two distributions of the records given two values of a target, losses and deltas; None where one is certain."""
    generator = np.random.default_rng([seed, 10])
    k = int(generator.integers(2, 4))
    n = int(generator.integers(1, {2: 6, 3: 5}[k]))
    P, distribution = cases.transition(generator, k), random_distribution(generator, k)
    target = int(generator.integers(n))
    joint = algorithms.table([P], distribution, n)
    possible = np.flatnonzero(joint.sum(axis=tuple(t for t in range(n) if t != target)) > 0)
    if len(possible) < 2:
        return None
    pair = tuple(int(v) for v in generator.permutation(possible)[:2])
    top, bottom = algorithms.distributions_given(joint, target, pair)
    if equal:
        losses, deltas = np.full(n, generator.uniform(0.05, 2.0)), np.full(n, 10 ** generator.uniform(-8, -4))
    else:
        losses, deltas = generator.uniform(0.05, 2.0, size=n), 10 ** generator.uniform(-8, -4, size=n)
    return P, distribution, top, bottom, losses, deltas


def test_equal_losses_reach_the_formula():
    for seed in range(examples(100)):
        found = given_distributions(seed, equal=True)
        if found is None:
            continue
        P, distribution, top, bottom, losses, deltas = found
        epsilon = algorithms.largest_quotient(top, bottom, losses)
        events = algorithms.event_delta(top, bottom, epsilon, losses, deltas)
        formula = carried_delta(float(losses[0]), float(deltas[0]), epsilon)
        assert events == pytest.approx(formula, rel=RELATIVE), seed
        curve = TightCurve(P, start=distribution, length=len(losses), adversary="pufferfish")
        whole = approximate_leakage(curve, float(losses[0]), float(deltas[0]))
        assert whole.epsilon >= epsilon - 1e-8
        assert algorithms.event_delta(top, bottom, whole.epsilon, losses, deltas) <= whole.delta * (1 + RELATIVE), seed


def test_unequal_losses_and_deltas_stay_below_the_formula():
    for seed in range(examples(100)):
        found = given_distributions(seed, equal=False)
        if found is None:
            continue
        _, _, top, bottom, losses, deltas = found
        epsilon = algorithms.largest_quotient(top, bottom, losses)
        events = algorithms.event_delta(top, bottom, epsilon, losses, deltas)
        largest = max(carried_delta(*pair, epsilon) for pair in zip(losses, deltas, strict=True))
        assert events <= largest * (1 + RELATIVE), seed
