"""Losses that differ from record to record, as users hand them over: what leaks about each record, and to whom."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp import (
    BinaryInterval,
    Groups,
    MarkovChain,
    MarkovClass,
    MarkovInterval,
    NotApplicableError,
    ParameterError,
    leakage_of_losses,
    stream_leakage,
)
from tests.oracles import algorithms
from tests.strategies import SEEDS, chains, examples
from tests.tolerance import TOLERANCE, lower_end, upper_end

TABLE = [[0.882, 0.118], [0.305, 0.695]]
ACTIVITY = MarkovChain(transition=TABLE, states=["rest", "active"])
W = [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]
ROOM = 1e-8


@given(chain=chains(most_states=3, starts=("stationary", "given")), seed=SEEDS, who=st.sampled_from(["bdp", "dp"]))
@settings(max_examples=examples(15))
def test_every_record_leaks_what_the_linear_programme_says(chain, seed, who):
    generator = np.random.default_rng(seed)
    losses = generator.choice([0.0, 0.1, 0.5, 2.0], size=int(generator.integers(1, 5)))
    distribution = chain.stationary if isinstance(chain.start, str) else np.asarray(chain.start)
    worst = algorithms.leakage([chain.transition], distribution, losses, who)
    worst = np.where(worst < 1e-12, 0.0, worst)  # a programme without correlation ends a rounding above 0
    found = leakage_of_losses(chain, losses, adversary=who)
    if who == "dp":  # the adversary of DP has its guarantee, also where the other records determine this one
        assert (worst <= losses * (1 + 1e-6)).all()
        worst = losses
    assert found.leakage == upper_end(worst)
    assert found.lower == lower_end(worst.max())
    assert found.exact == found.upper


def test_the_report_is_that_of_a_stream_without_its_parts():
    losses = [0.5, 0.1, 0.0, 0.3]
    found, stream = leakage_of_losses(ACTIVITY, losses).to_dict(), stream_leakage(ACTIVITY, losses).to_dict()
    assert found["leakage"] == pytest.approx(stream["total"], abs=1e-12)
    assert found["dp_epsilon"] == stream["dp_epsilon"] == losses
    assert (found["worst"], found["attack"]) == (stream["worst"], stream["attack"])
    assert found["largest"] == found["upper"] == found["exact"] == max(found["leakage"])
    assert found["records"] == [1, 2, 3, 4]
    assert all(len(line) <= 100 for line in str(leakage_of_losses(ACTIVITY, losses)).splitlines())


def test_a_record_that_spends_nothing_leaks_through_its_neighbours():
    found = leakage_of_losses(ACTIVITY, [1.0, 0.0, 1.0])
    assert found.leakage[1] > 0.5
    assert leakage_of_losses(ACTIVITY, [0.0, 0.0]).upper == 0


def test_a_class_leaks_as_its_worst_chain():
    other = MarkovChain(transition=[[0.6, 0.4], [0.4, 0.6]], states=["rest", "active"])
    losses = [0.5, 0.1, 0.3]
    both = leakage_of_losses(MarkovClass(models=(other, ACTIVITY)), losses)
    alone = [leakage_of_losses(chain, losses).leakage for chain in (other, ACTIVITY)]
    assert np.array_equal(both.leakage, np.maximum(*alone))
    assert both.attack.model == 1


@pytest.mark.parametrize(
    "model",
    [BinaryInterval(low=0.2, high=0.8), MarkovInterval(low=np.array(W) - 0.02, high=np.array(W) + 0.02)],
    ids=["binary", "box"],
)
def test_classes_given_by_bounds_are_bounded_by_odds(model):
    losses = np.array([0.5, 0.1, 0.0, 0.3, 0.2])
    found = leakage_of_losses(model, losses)
    assert found.exact is None
    assert found.lower < found.upper < losses.sum()
    inside = leakage_of_losses(model.definite_chains[0], losses)
    assert (found.leakage >= inside.leakage - ROOM).all()
    assert found.lower >= inside.lower - ROOM
    assert leakage_of_losses(model, losses, adversary="dp").leakage.tolist() == losses.tolist()


def test_any_start_lies_above_every_start():
    losses = np.random.default_rng(4).choice([0.1, 0.2], size=4)
    found = leakage_of_losses(MarkovChain(transition=W, start="any"), losses, adversary="pufferfish")
    for start in ("stationary", [1, 0, 0], [0, 0.5, 0.5]):
        one = leakage_of_losses(MarkovChain(transition=W, start=start), losses, adversary="pufferfish")
        assert (found.leakage >= one.leakage * (1 - TOLERANCE) - ROOM).all()
    assert found.exact is not None


def test_any_start_of_many_states_is_bounded_by_odds():
    """Its worst distribution would be looked for among too many pairs of values and of starts."""
    table = 0.5 * np.eye(9) + 0.5 * np.random.default_rng(5).dirichlet(np.ones(9), size=9)
    losses = np.full(4, 0.2)
    found = leakage_of_losses(MarkovChain(transition=table, start="any"), losses, adversary="pufferfish")
    assert found.exact is None
    for start in ("stationary", np.eye(9)[3]):
        one = leakage_of_losses(MarkovChain(transition=table, start=start), losses, adversary="pufferfish")
        assert (found.leakage >= one.leakage - ROOM).all()


def test_long_series_list_some_records():
    found = leakage_of_losses(ACTIVITY, np.random.default_rng(1).choice([0.1, 0.2], size=3000))
    content = found.to_dict()
    assert content["length"] == len(found.leakage) == 3000
    assert len(content["records"]) == len(content["leakage"]) < 400
    assert content["worst"] in content["records"]
    assert found.exact is not None


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ([], "it must be a list"),
        ([[0.1]], "it must be a list"),
        ([0.1, -1], "-1 for record 2"),
        ([float("nan")], "nan for record 1"),
        ([0.1, float("inf")], "inf for record 2"),
        (["x"], "must be numbers"),
    ],
)
def test_losses_that_are_none(losses, words):
    with pytest.raises(ParameterError, match=words):
        leakage_of_losses(ACTIVITY, losses)


def test_other_models_are_refused():
    with pytest.raises(NotApplicableError, match="the model is a Groups"):
        leakage_of_losses(Groups(sizes=[2], positives=[[0.5, 0, 0.5]]), [0.1, 0.1])


def test_progress_is_told():
    told: list[str] = []
    leakage_of_losses(ACTIVITY, [0.1] * 30, progress=told.append)
    assert told == ["following 30 records"]
