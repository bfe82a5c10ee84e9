"""Delta between two beliefs: check values, enumeration, and what conditioning on the secret is for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp.bounds.distributions.divergence import chain_divergence, divergence_given, outcome_divergence
from pufferdp.models.chain import MarkovChain
from tests.oracles import divergence as oracle
from tests.strategies import SEEDS, chains, random_distribution, random_transition

DISTRIBUTIONS = ([0.9, 0.05, 0.05], [0.01, 0.95, 0.04])


@st.composite
def pairs(draw, most_states=3, starts=("stationary", "any", "given")):
    """A belief and a model over the same states: often with the same zeros, sometimes with others."""
    generator = np.random.default_rng(draw(SEEDS))
    k = most_states if generator.random() < 0.6 else int(generator.integers(1, most_states + 1))
    kind = draw(st.sampled_from(["near", "far", "smooth", "unrelated"]))
    P, Q = random_transition(generator, k), random_transition(generator, k)
    if kind == "smooth":
        P, Q = generator.dirichlet(np.ones(k), size=(2, k))
    elif kind != "unrelated":
        P = Q * np.exp({"near": 0.1, "far": 2.0}[kind] * generator.standard_normal((k, k)))
        P /= P.sum(axis=1, keepdims=True)
    distributions = {"given": random_distribution(generator, k), "positive": generator.dirichlet(np.ones(k))}
    kinds = [*starts, "positive"] if "given" in starts else [*starts]
    other = draw(st.sampled_from(kinds))
    start = draw(st.sampled_from([*kinds, other]))
    return (
        MarkovChain(transition=P, start=distributions.get(start, start)),
        MarkovChain(
            transition=Q,
            start=generator.dirichlet(np.ones(k)) if other == "positive" else distributions.get(other, other),
        ),
    )


def distribution_of(chain):
    return chain.stationary if chain.given_start is None else chain.given_start


def enumerated(member, model, T):
    P, Q = member.transition, model.transition
    if member.any_start and model.any_start:
        return oracle.same_start_delta(P, Q, T)
    if member.any_start:
        return oracle.open_start_delta(P, Q, distribution_of(model), T)
    return oracle.chain_delta(P, distribution_of(member), Q, distribution_of(member if model.any_start else model), T)


def test_check_values_of_the_theory_note():
    member, model = DISTRIBUTIONS
    assert divergence_given(member, model) == pytest.approx(math.log(90), rel=1e-12)
    given_not_the_third = divergence_given(member, model, [True, True, False])
    assert given_not_the_third == pytest.approx(math.log((0.9 / 0.95) / (0.01 / 0.96)), rel=1e-12)
    assert given_not_the_third == pytest.approx(math.log(90.9474), abs=1e-6)


def test_given_an_event_that_one_of_them_rules_out():
    assert divergence_given([0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [False, False, True]) == 0  # no secret to the belief
    assert divergence_given([0.2, 0.3, 0.5], [0.5, 0.5, 0.0], [False, False, True]) == math.inf
    assert divergence_given([0.5, 0.0, 0.5], [0.5, 0.0, 0.5]) == 0  # 0/0 is skipped
    assert divergence_given([0.0, 1.0], [0.1, 0.9]) == math.inf


@given(pair=pairs(), T=st.integers(1, 6))
def test_chains_agree_with_enumeration(pair, T):
    member, model = pair
    found, expected = chain_divergence(member, model, T), enumerated(member, model, T)
    assert found.value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert (found.reason is not None) == math.isinf(found.value)
    assert found.exact or model.any_start


@given(pair=pairs(starts=("stationary", "given")), T=st.integers(1, 5))
def test_the_record_that_decides_is_where_the_value_is_found(pair, T):
    found = chain_divergence(*pair, T)
    (P, start), (Q, other) = ((c.transition, distribution_of(c)) for c in pair)
    ours, theirs = oracle.paths(P, start, T), oracle.paths(Q, other, T)
    inside = [path for path in ours if path[found.record - 1] == found.state]
    if found.value > 0:
        there = oracle.both_ways([ours[p] for p in inside], [theirs[p] for p in inside])
        assert there == pytest.approx(found.value, rel=1e-8, abs=1e-8)


@given(pair=pairs(starts=("any",)), T=st.integers(1, 5), seed=SEEDS)
def test_no_shared_start_passes_the_supremum_over_starts(pair, T, seed):
    member, model = pair
    most = chain_divergence(member, model, T).value
    generator = np.random.default_rng(seed)
    for _ in range(4):
        start = random_distribution(generator, member.size)
        assert oracle.chain_delta(member.transition, start, model.transition, start, T) <= most + 1e-9


@given(member=chains(most_states=3), T=st.integers(1, 300))
def test_a_chain_is_at_no_distance_from_itself(member, T):
    found = chain_divergence(member, member, T)
    assert found.value == pytest.approx(0, abs=1e-9)


def test_the_value_without_conditioning_can_be_too_small():
    """Two records. Given the first, the step to state 1 is 10 times as likely; its start, less likely, hid that."""
    member, model = ([0.5, 0.5], [[0.9, 0.1], [0.5, 0.5]]), ([0.8, 0.2], [[0.99, 0.01], [0.5, 0.5]])
    ours, theirs = (oracle.paths(P, start, 2) for start, P in (member, model))
    without = oracle.both_ways(list(ours.values()), list(theirs.values()))
    found = chain_divergence(
        MarkovChain(transition=member[1], start=member[0]), MarkovChain(transition=model[1], start=model[0]), 2
    )
    assert found.value == pytest.approx(oracle.table_delta(ours, theirs), rel=1e-12)
    assert without == pytest.approx(math.log(10 / 1.6), rel=1e-12)
    assert found.value == pytest.approx(math.log(10), rel=1e-12)


def test_a_secret_only_the_model_holds_possible_does_not_count():
    """Two rooms without a door. The belief is sure of the first; what happens in the second is no secret to it."""
    rooms = [[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0.9, 0.1], [0, 0, 0.1, 0.9]]
    member = MarkovChain(transition=rooms, start=[0.5, 0.5, 0, 0])
    model = MarkovChain(transition=rooms, start=[0.25, 0.25, 0.25, 0.25])
    assert chain_divergence(member, model, 50).value == pytest.approx(0, abs=1e-12)
    turned_round = chain_divergence(model, member, 50)
    assert turned_round.value == math.inf
    assert turned_round.record == 1
    assert turned_round.state == 2


def test_a_way_that_only_the_model_knows_to_a_secret_of_the_belief():
    """Both come to state 2 at record 2; the model also comes from a first state that the belief rules out."""
    steps = [[0, 0, 1.0], [0, 0, 1.0], [0, 0, 1.0]]
    member = MarkovChain(transition=steps, start=[1.0, 0, 0])
    model = MarkovChain(transition=steps, start=[0.5, 0.5, 0])
    assert chain_divergence(member, model, 1).value == 0
    found = chain_divergence(member, model, 2)
    assert (found.value, found.record, found.state) == (math.inf, 2, 2)
    assert "in a way that the alternative rules out" in str(found.reason)


def test_steps_that_one_of_them_rules_out_name_themselves():
    full, bare = [[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [1.0, 0.0]]
    wide, narrow = (MarkovChain(transition=P, states=["rest", "run"], start=[0.5, 0.5]) for P in (full, bare))
    assert chain_divergence(wide, narrow, 3).reason == "the alternative lets run follow run; the model rules it out"
    assert chain_divergence(narrow, wide, 3).reason == "the model lets run follow run; the alternative rules it out"
    assert chain_divergence(narrow, wide, 1).value == 0


def test_a_marginal_too_small_for_a_double():
    """A state that is left and never come back to: after 5,000 records its probability is below 1e-1500."""
    member, model = (MarkovChain(transition=[[p, 1 - p], [0, 1]], start=[1.0, 0.0]) for p in (0.5, 0.45))
    found = chain_divergence(member, model, 5000)
    # Given that record T is still in the first state, the path is known. Given that record 1 is, nothing is, and the
    # longest path stays or leaves at once.
    assert found.value == pytest.approx(4999 * math.log(0.5 / 0.45), rel=1e-9)


def test_many_records_grow_by_the_heaviest_cycle():
    member, model = (MarkovChain(transition=[[p, 1 - p], [1 - p, p]]) for p in (0.72, 0.7))
    short, long = (chain_divergence(member, model, T).value for T in (10_000, 20_000))
    assert (long - short) / 10_000 == pytest.approx(math.log(0.3 / 0.28), rel=1e-6)


@given(seed=SEEDS, records=st.integers(1, 4), k=st.integers(1, 3))
def test_tables_agree_with_enumeration(seed, records, k):
    generator = np.random.default_rng(seed)
    outcomes = np.indices((k,) * records).reshape(records, -1).T
    weights = [generator.dirichlet(np.ones(len(outcomes))) for _ in range(2)]
    zeros = generator.random(len(outcomes)) < 0.3
    ours, theirs = (np.where(zeros, 0.0, w) if not zeros.all() else w for w in weights)
    if generator.random() < 0.3:
        theirs = np.where(generator.random(len(outcomes)) < 0.1, 0.0, theirs)
    found = outcome_divergence(outcomes, ours, theirs)
    member, model = (dict(zip(map(tuple, outcomes.tolist()), w.tolist(), strict=True)) for w in (ours, theirs))
    assert found.value == pytest.approx(oracle.table_delta(member, model), rel=1e-9, abs=1e-12)
