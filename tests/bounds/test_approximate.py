"""Approximate DP on correlated data against linear programmes over all events of all (τ, δ)-DP algorithms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pufferdp import MarkovChain, ParameterError, PrivacyProfile, curves
from pufferdp.bounds.approximate import (
    allowed_loss,
    carried_delta,
    largest_zcdp,
    least_delta,
    least_epsilon,
)
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.series import TOLERANCE
from tests.oracles import algorithms
from tests.strategies import SEEDS, chains, examples, random_transition
from tests.tolerance import safe_loss

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
W = [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]


def conditional_pairs(joint, target, known):
    """Distributions of all records given two values of the target and known records: (values, top, bottom)."""
    n, k = joint.ndim, joint.shape[0]
    for values in itertools.product(range(k), repeat=len(known)):
        given_known = np.zeros_like(joint)
        place = tuple(values[known.index(t)] if t in known else slice(None) for t in range(n))
        given_known[place] = joint[place]
        distributions = []
        for x in range(k):
            part = np.zeros_like(joint)
            at = tuple(x if t == target else slice(None) for t in range(n))
            part[at] = given_known[at]
            distributions.append(part)
        for x, y in itertools.permutations(range(k), 2):
            if distributions[x].sum() > 0 and distributions[y].sum() > 0:
                yield distributions[x] / distributions[x].sum(), distributions[y] / distributions[y].sum()


def largest_delta(chain, n, epsilon, loss, delta, who):
    """The most by which any event of any (loss, delta)-DP algorithm exceeds e^epsilon, over adversaries of a kind."""
    distribution = chain.stationary if chain.given_start is None else chain.given_start
    joint = algorithms.table([chain.transition.tolist()], distribution, n)
    return max(
        (
            algorithms.event_delta(top, bottom, epsilon, [loss] * n, [delta] * n)
            for target in range(n)
            for known in algorithms.adversaries(n, target, who)
            for top, bottom in conditional_pairs(joint, target, known)
        ),
        default=0.0,
    )


@given(
    chain=chains(3, ("stationary", "given")),
    n=st.integers(1, 3),
    loss=st.sampled_from([0.05, 0.3, 1.0]),
    delta=st.sampled_from([1e-4, 1e-2]),
    who=st.sampled_from(["bdp", "pufferfish", "dp"]),
)
@settings(max_examples=examples(40))
def test_no_event_of_any_algorithm_exceeds_any_curve(chain, n, loss, delta, who):
    """The pair of each curve holds, for curves above q* too: a larger q makes a larger delta beside it."""
    for curve in curves(chain, n, who).values():
        if curve.applies:
            epsilon = curve(loss)
            if epsilon < 20:
                most = largest_delta(chain, n, epsilon, loss, delta, who)
                assert most <= carried_delta(loss, delta, epsilon) * (1 + 1e-6) + 1e-10, curve.name


@pytest.mark.parametrize(
    ("transition", "n", "target", "values", "loss", "delta", "epsilon", "carried"),
    [
        (ACTIVITY, 5, 2, (1, 0), 0.25, 1e-3, 0.721810, 0.00372557),
        (ACTIVITY, 5, 2, (1, 0), 0.5, 1e-3, 1.460186, 0.00509735),
        (ACTIVITY, 5, 2, (1, 0), 1.0, 1e-4, 2.877654, 9.761219e-4),
        (W, 4, 1, (0, 2), 0.3, 1e-4, 0.714555, 2.981995e-4),
        (W, 4, 1, (0, 2), 1.0, 1e-4, 2.337152, 5.442479e-4),
    ],
)
def test_the_delta_is_reached(transition, n, target, values, loss, delta, epsilon, carried):
    """Where all losses are equal some event of some algorithm has the whole delta: it cannot be made smaller."""
    chain = MarkovChain(transition=transition)
    joint = algorithms.table([transition], chain.stationary, n)
    distributions = []
    for x in values:
        part = np.zeros_like(joint)
        at = tuple(x if t == target else slice(None) for t in range(n))
        part[at] = joint[at]
        distributions.append(part / part.sum())
    q = algorithms.largest_quotient(*distributions, [loss] * n)
    assert q == pytest.approx(epsilon, abs=5e-7)
    assert carried_delta(loss, delta, q) == pytest.approx(carried, rel=1e-6)
    assert algorithms.event_delta(*distributions, q, [loss] * n, [delta] * n) == pytest.approx(carried, rel=1e-6)


def random_pair(generator):
    """Distributions of all records of a random chain given two values of one record, and what else is known."""
    k, n = int(generator.integers(2, 4)), int(generator.integers(1, 5))
    joint = algorithms.table([random_transition(generator, k).tolist()], generator.dirichlet(np.ones(k)), n)
    target = int(generator.integers(n))
    known = tuple(t for t in range(n) if t != target and generator.random() < 0.3)
    every = list(conditional_pairs(joint, target, known))
    return every[generator.integers(len(every))] if every else None


@given(seed=SEEDS, loss=st.sampled_from([0.05, 0.4, 1.2]), delta=st.sampled_from([1e-6, 1e-3]))
@settings(max_examples=examples(100))
def test_equal_losses_reach_the_delta(seed, loss, delta):
    """For every pair of distributions by itself the programme over all events has the delta of the formula."""
    distributions = random_pair(np.random.default_rng(seed))
    assume(distributions is not None)
    losses = [loss] * distributions[0].ndim
    q = algorithms.largest_quotient(*distributions, losses)
    carried = carried_delta(loss, delta, q)
    assert algorithms.event_delta(*distributions, q, losses, [delta] * len(losses)) == pytest.approx(
        carried, rel=1e-5, abs=1e-11
    )


@given(seed=SEEDS)
@settings(max_examples=examples(100))
def test_unequal_losses_never_exceed_the_delta(seed):
    generator = np.random.default_rng(seed)
    distributions = random_pair(generator)
    assume(distributions is not None)
    n = distributions[0].ndim
    losses = np.where(generator.random(n) < 0.2, 0.0, generator.uniform(0.05, 1.0, n))
    deltas = np.where(losses > 0, 10 ** generator.uniform(-6, -3, n), 0.0)
    q = max(algorithms.largest_quotient(*distributions, losses), 0.0)
    most = max(carried_delta(*pair, q) for pair in zip(losses, deltas, strict=True))
    if (deltas > 0).any():
        assert algorithms.event_delta(*distributions, q, losses, deltas) <= most * (1 + 1e-5) + 1e-11


def test_large_numbers_are_carried_over_as_well():
    assert carried_delta(800.0, 1e-6, 800.0) == pytest.approx(1e-6)
    assert carried_delta(1.0, 1e-6, 5000.0) == 1.0
    assert carried_delta(1.0, 0.0, 5000.0) == 0.0
    assert carried_delta(1e-300, 1e-6, 4e-300) == pytest.approx(4e-6)


@given(seed=SEEDS, wanted=st.sampled_from([1e-6, 1e-3, 0.05]), target=st.sampled_from([0.2, 1.0, 3.0]))
@settings(max_examples=examples(20))
def test_the_best_pair_of_a_profile_is_found(seed, wanted, target):
    """Against every pair that is tried one by one, also where the profile hardly falls."""
    generator = np.random.default_rng(seed)
    count = int(generator.integers(1, 6))
    losses = np.sort(generator.uniform(0.01, 2.0, count))
    deltas = np.sort(10 ** generator.uniform(-8, -1, count))[::-1]
    if generator.random() < 0.3:
        deltas[:] = deltas[0]
    profile = PrivacyProfile.of(np.stack([losses, deltas], axis=1))
    curve = TightCurve.of_class([(np.array(ACTIVITY), "stationary")], length=20, adversary="bdp")
    every = [(curve(loss), carried_delta(loss, profile.delta(loss), curve(loss))) for loss in profile.grid()]
    by_delta = least_epsilon(curve, profile, wanted)
    fitting = [epsilon for epsilon, delta in every if delta <= wanted]
    assert (by_delta is None) == (not fitting)
    if by_delta is not None:
        assert by_delta.epsilon <= min(fitting) * (1 + 3 * TOLERANCE)
        assert by_delta.delta <= wanted
        assert by_delta.delta == carried_delta(by_delta.dp_loss, by_delta.dp_delta, by_delta.epsilon)
        assert by_delta.dp_delta >= profile.delta(by_delta.dp_loss)
    by_epsilon = least_delta(curve, profile, target)
    fitting = [delta for epsilon, delta in every if epsilon <= target]
    assert not fitting or by_epsilon is not None
    if by_epsilon is not None:
        assert by_epsilon.epsilon <= target
        assert by_epsilon.delta <= min(fitting, default=1.0) * (1 + 3 * TOLERANCE)


def test_what_may_be_spent_comes_back():
    curve = TightCurve.of_class([(np.array(W), "stationary")], length=500, adversary="bdp")
    loss, delta = allowed_loss(curve, 1.0, 1e-6)
    assert loss == safe_loss(0.31033, digits=1e-5)
    assert delta == pytest.approx(1e-6 * math.expm1(loss) / math.expm1(1.0), rel=4 * TOLERANCE)
    assert curve(loss) <= 1.0
    assert carried_delta(loss, delta, curve(loss)) <= 1e-6


def test_rho_is_as_large_as_it_can_be():
    curve = TightCurve.of_class([(np.array(W), "stationary")], length=500, adversary="bdp")
    budget = largest_zcdp(curve, 1.0, 1e-6)
    assert budget is not None
    rho = budget.rho
    fits = least_delta(curve, PrivacyProfile.of_zcdp(rho), 1.0)
    assert fits is not None
    assert fits.delta <= 1e-6 * (1 + 5e-3)  # between two pairs of the profile a chord is taken
    more = least_delta(curve, PrivacyProfile.of_zcdp(rho * 1.01), 1.0)
    assert more is not None
    assert more.delta > 1e-6


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([(0.5, 1.0)], "is 1; it must be 0 or more and below 1"),
        ([(0.5, -1e-9)], "is -1e-09"),
        ([(0.5, float("nan"))], "is nan"),
        ([(float("nan"), 0.1)], "a loss of the profile is nan"),
        ([(-1.0, 0.1)], "a loss of the profile is -1"),
        ([(0.5, 1e-3), (1.0, 1e-2)], "rises from delta 0.001 at loss 0.5 to 0.01 at 1"),
        ([(0.5, 1e-3), (0.5, 1e-4)], "two deltas for the loss 0.5"),
        ([], "shape"),
        ([(1.0,)], "shape"),
        ("pairs", "pairs of numbers"),
    ],
)
def test_profiles_that_cannot_be_are_refused(pairs, words):
    with pytest.raises(ParameterError, match=words):
        PrivacyProfile.of(pairs)
