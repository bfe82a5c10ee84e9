"""Channels of more than two states: bounds above enumeration, and channels that keep their guarantee."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.channels.design import least_response, upper_loss
from pufferdp.bounds.channels.many_states import SLACK, channel_loss, randomised_response
from pufferdp.bounds.channels.two_states import Flips, flip_loss
from pufferdp.models.chain import MarkovChain
from tests.oracles import flips as oracle
from tests.strategies import SEEDS, examples, random_distribution, random_transition

BDP, PUFFERFISH, DP = Adversary.BDP, Adversary.PUFFERFISH, Adversary.DP
WEARER = MarkovChain(transition=[[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])


@given(SEEDS, st.integers(1, 5), st.sampled_from([1, 9, 90]))
@settings(max_examples=examples(40))
def test_bounds_are_above_enumeration(seed: int, n: int, products: int):
    generator = np.random.default_rng(seed)
    prior = MarkovChain(transition=random_transition(generator, 3))
    if len(prior.closed_classes) > 1:
        return
    B = (
        randomised_response(3, generator.uniform(0.05, 0.66))
        if seed % 2
        else 0.8 * generator.dirichlet(np.ones(3), size=3) + 0.2 / 3
    )
    for who in (BDP, PUFFERFISH):
        exact = max(oracle.loss(prior.transition, prior.stationary, B, n, who is BDP).values())
        assert exact <= channel_loss(prior, B, n, who, products=products)


@given(SEEDS, st.integers(1, 5), st.booleans())
@settings(max_examples=examples(40))
def test_bounds_are_above_enumeration_for_a_given_start(seed: int, n: int, certain: bool):
    """Any distribution of the first record, one that rules values out too, on chains that come back to every state."""
    generator = np.random.default_rng(seed)
    P = 0.9 * generator.dirichlet(np.ones(3), size=3) + 0.1 / 3
    distribution = generator.permutation([1.0, 0.0, 0.0]) if certain else random_distribution(generator, 3)
    prior, B = MarkovChain(transition=P, start=distribution), randomised_response(3, generator.uniform(0.1, 0.66))
    for who in (BDP, PUFFERFISH):
        exact = max(oracle.loss(P, distribution, B, n, who is BDP).values())
        found = channel_loss(prior, B, n, who)
        assert exact <= found
        if seed % 8 == 0:  # takes longer
            assert exact <= channel_loss(prior, B, None, who)
        if (
            distribution > 0
        ).all():  # as tight as for a stationary start while every output of so few records is looked at
            assert n > 4 or found <= exact + 2 * SLACK


def test_a_given_start_that_is_stationary_is_no_other():
    given = MarkovChain(transition=WEARER.transition, start=WEARER.stationary)
    for who in (BDP, PUFFERFISH):
        for n in (1, 4, 30, None):
            ours, known = (channel_loss(m, randomised_response(3, 0.4), n, who) for m in (given, WEARER))
            assert ours == pytest.approx(known, abs=1e-7)


def test_endless_series_with_a_given_start_are_above_every_length():
    prior = MarkovChain(transition=WEARER.transition, start=[0.001, 0.009, 0.99])
    for who in (BDP, PUFFERFISH):
        ever = channel_loss(prior, randomised_response(3, 0.35), None, who)
        for n in (1, 2, 5, 20, 60):
            long = channel_loss(prior, randomised_response(3, 0.35), n, who)
            assert long <= ever + SLACK
        assert ever - long < 0.05


def test_five_records_as_by_enumeration():
    B = randomised_response(3, 0.4)
    for who in (BDP, PUFFERFISH):
        exact = max(oracle.loss(WEARER.transition, WEARER.stationary, B, 5, who is BDP).values())
        found = channel_loss(WEARER, B, 5, who)
        assert exact <= found <= exact + 2 * SLACK


@given(st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.floats(0.05, 0.5), st.floats(0.05, 0.5))
@settings(max_examples=examples(20))
def test_two_states_are_exact(q: float, r: float, rho0: float, rho1: float):
    prior = MarkovChain(transition=[[1 - q, q], [r, 1 - r]])
    B = np.array(oracle.flips(rho0, rho1))
    for who in (BDP, PUFFERFISH):
        for n in (1, 3, 20):
            exact = flip_loss(prior, Flips.of(rho0, rho1), n, who).worst
            found = channel_loss(prior, B, n, who)
            assert found == pytest.approx(exact, abs=2 * SLACK)
        endless = flip_loss(prior, Flips.of(rho0, rho1), None, who).worst
        found = channel_loss(prior, B, None, who)
        assert endless <= found <= endless + 1e-7


def test_the_bound_for_endless_series_is_above_every_length():
    B = randomised_response(3, 0.35)
    for who in (BDP, PUFFERFISH):
        ever = channel_loss(WEARER, B, None, who)
        for n in (1, 2, 5, 20, 60):
            assert (long := channel_loss(WEARER, B, n, who)) <= ever + SLACK
        assert ever - long < 0.01


def test_what_has_no_bound_is_infinite_or_refused():
    turning = MarkovChain(transition=np.roll(np.eye(3), 1, axis=1))
    assert channel_loss(turning, randomised_response(3, 0.3), None, BDP) == math.inf
    assert channel_loss(turning, randomised_response(3, 0.3), 4, BDP) < math.inf
    assert channel_loss(WEARER, np.eye(3), 4, BDP) == math.inf
    assert channel_loss(MarkovChain(transition=np.tile([1.0, 0, 0], (3, 1))), np.eye(3), 4, BDP) == 0
    with pytest.raises(NotApplicableError, match="give the distribution of the first record"):
        channel_loss(MarkovChain(transition=WEARER.transition, start="any"), np.eye(3), 4, BDP)
    leaving = MarkovChain(transition=[[0.5, 0.5, 0], [0.3, 0.7, 0], [0.2, 0.3, 0.5]], start=[0.2, 0.3, 0.5])
    with pytest.raises(NotApplicableError, match="leaves 2 for good"):
        channel_loss(leaving, randomised_response(3, 0.3), 4, BDP)
    with pytest.raises(NotApplicableError, match="parts that never meet"):
        channel_loss(MarkovChain(transition=np.eye(3)), randomised_response(3, 0.3), 4, BDP)
    with pytest.raises(NotApplicableError, match="pure noise"):
        least_response([turning], 1.0, None, BDP)


@pytest.mark.parametrize("who", [BDP, PUFFERFISH])
def test_the_least_response_keeps_its_guarantee_and_less_noise_does_not(who: Adversary):
    B = least_response([WEARER], 1.5, 12, who)
    assert upper_loss([WEARER], B, 12, who) <= 1.5
    rho = 1 - B[0, 0]
    assert pytest.approx(randomised_response(3, rho)) == B
    assert channel_loss(WEARER, randomised_response(3, rho - 1e-3), 12, who) > 1.5


def test_dp_is_the_log_ratio_of_the_channel():
    assert channel_loss(WEARER, randomised_response(3, 0.4), 9, DP) == pytest.approx(math.log(0.6 / 0.2))
    B = least_response([WEARER], 1.0, 9, DP)
    assert 1 - B[0, 0] == pytest.approx(2 / (2 + math.e), abs=1e-5)
