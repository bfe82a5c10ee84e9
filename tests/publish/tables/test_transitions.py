"""Counts of neighbouring pairs: how far one record moves them, and what they leak, by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp import Gaussian, MarkovChain
from pufferdp.basics.errors import QueryError
from pufferdp.bounds.curves import curve
from pufferdp.publish.noise import SeededSampler
from pufferdp.publish.tables.parsing import parse_question
from pufferdp.publish.tables.questions import GroupRecords
from pufferdp.publish.tables.transitions import TransitionsQuestion
from tests.oracles.leakage import channel_leakage, likelihoods, path_distribution
from tests.strategies import chains, examples

ASKED = TransitionsQuestion()


def pairs(series, states: int, cuts=()) -> np.ndarray:
    """Counted by hand: cuts are places before which no pair is."""
    out = np.zeros((states, states))
    for t in range(1, len(series)):
        if t not in cuts:
            out[series[t - 1], series[t]] += 1
    return out.ravel()


def every(states: int, records: int, cuts=()) -> np.ndarray:
    rows = [pairs(series, states, cuts) for series in itertools.product(range(states), repeat=records)]
    return np.array(rows).reshape((states,) * records + (-1,))


def records_of(codes, cuts=(), states=2) -> GroupRecords:
    joined = np.array([t > 0 and t not in cuts for t in range(len(codes))], dtype=bool)
    return GroupRecords(states=states, codes=np.asarray(codes, dtype=np.int64), joined=joined)


@pytest.mark.parametrize(("records", "cuts", "most"), [(1, (), 0), (2, (), 2), (3, (), 4), (5, (), 4), (5, (2, 4), 2)])
@pytest.mark.parametrize("states", [2, 3])
def test_one_record_moves_two_pairs(states, records, cuts, most):
    exact = every(states, records, cuts)
    moved = 0.0
    for place in range(records):
        by_value = np.moveaxis(exact, place, 0)
        for a, b in itertools.combinations(range(states), 2):
            moved = max(moved, np.abs(by_value[a] - by_value[b]).sum(axis=-1).max())
    assert moved == most


@settings(max_examples=examples(30))
@given(st.lists(st.integers(0, 2), max_size=12), st.sets(st.integers(1, 11)))
def test_what_is_counted(codes, cuts):
    """With hardly any noise the counts are those by hand: none over an unobserved step or a border."""
    model = MarkovChain(transition=np.full((3, 3), 1 / 3))
    noise = ASKED.noise(model, 1e6, 0.05)
    answer = ASKED.measure_each(model, [records_of(codes, cuts, 3)], noise, SeededSampler(1))[0]
    assert answer == tuple(pairs(codes, 3, cuts))
    assert all(isinstance(count, int) for count in answer)
    ASKED.check_answer(model, len(codes), answer, balanced=True)


def test_loss_is_reached_and_less_noise_is_not_enough():
    """Independent records, all others known: what is leaked is the DP loss."""
    loss = 0.8
    model = MarkovChain(transition=[[0.5, 0.5], [0.5, 0.5]])
    noise = ASKED.noise(model, loss, 0.05)
    distribution, exact = path_distribution(model.transition, [0.5, 0.5], 3), every(2, 3)

    def leaks(scale: float) -> float:
        return channel_leakage(distribution, likelihoods(exact, scale, balanced=noise.balanced), "dp")

    assert leaks(noise.scale) == pytest.approx(loss, rel=1e-9)
    assert leaks(0.9 * noise.scale) > loss


@settings(max_examples=examples(15))
@given(
    chains(most_states=2, starts=("stationary", "given")),
    st.integers(1, 4),
    st.floats(0.2, 3.0),
    st.sampled_from(["bdp", "pufferfish"]),
    st.sets(st.integers(1, 3), max_size=1),
)
def test_no_chain_leaks_more_than_guaranteed(chain, records, epsilon, adversary, cuts):
    dp_loss = curve("tight", chain, records, adversary).inverse(epsilon)
    if chain.size < 2 or dp_loss <= 0:
        return
    noise = ASKED.noise(chain, dp_loss, 0.05)
    start = chain.stationary if chain.given_start is None else chain.given_start
    # Independent noise has every output that balanced noise has, with the same quotients.
    channel = likelihoods(every(2, records, cuts), noise.scale)
    assert channel_leakage(path_distribution(chain.transition, start, records), channel, adversary) <= epsilon * (
        1 + 1e-9
    )


def test_noise_adds_up_to_nothing():
    model = MarkovChain(transition=np.full((3, 3), 1 / 3))
    noise = ASKED.noise(model, 0.3, 0.05)
    records = records_of([0, 1, 2, 2, 1, 0], (3,), 3)
    for seed in range(20):
        answer = ASKED.measure_each(model, [records], noise, SeededSampler(seed))[0]
        assert sum(answer) == 4
        (nearest,) = ASKED.estimate_each(model, [6], [answer])
        assert min(nearest) >= 0
        assert sum(nearest) == pytest.approx(4)


def test_labels_and_refusals():
    model = MarkovChain(transition=[[0.5, 0.5], [0.5, 0.5]], states=["rest", "active"])
    assert ASKED.labels(model) == ("rest>rest", "rest>active", "active>rest", "active>active")
    with pytest.raises(QueryError, match="nothing after it"):
        parse_question("transitions:rest")
    with pytest.raises(QueryError, match="another kind"):
        ASKED.check(Gaussian(mean=[0, 0], covariance=[[1, 0.5], [0.5, 1]]))
    with pytest.raises(QueryError, match="rename it"):
        ASKED.check(MarkovChain(transition=np.full((2, 2), 1 / 2), states=["a", "a>a"]))
    with pytest.raises(QueryError, match="whole"):
        ASKED.check_answer(model, 3, (0.5, 0, 0, 0))
