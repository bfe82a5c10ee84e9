"""Streams as users ask for them: reports, budgets and refusals."""

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
    stream_budget,
    stream_leakage,
)
from tests.strategies import SEEDS, examples, random_distribution, random_transition
from tests.tolerance import SEARCHED, TOLERANCE, both_upper_ends

ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"])
FLIPPING = MarkovChain(transition=[[0.2, 0.8], [0.7, 0.3]])
THREE = MarkovChain(transition=[[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]])
IDENTITY = MarkovChain(transition=np.eye(2))


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish", "dp"])
def test_a_report_has_both_ends_of_the_truth(adversary):
    found = stream_leakage(ACTIVITY, 0.1, length=288, adversary=adversary)
    said = found.to_dict()
    assert said["lower"] <= said["upper"] <= said["curve"] + 1e-9
    assert said["exact"] == said["upper"] == max(said["total"])
    assert said["worst"] == found.worst
    assert said["total"][found.worst - 1] == both_upper_ends(said["upper"])
    assert len(said["steps"]) == len(said["backward"]) == len(said["dp_epsilon"]) == 288
    assert all(len(line) <= 100 for line in str(found).splitlines())


def test_long_reports_list_some_steps():
    found = stream_leakage(ACTIVITY, 0.1, length=200_000)
    said = found.to_dict()
    assert len(found.total) == 200_000
    assert said["steps"][0] == 1
    assert said["steps"][-1] == 200_000
    assert len(said["steps"]) < 400
    assert found.worst in said["steps"]


def test_without_end():
    found = stream_leakage(ACTIVITY, 0.1)
    assert found.length is None
    assert found.worst is None
    assert found.upper == both_upper_ends(stream_leakage(ACTIVITY, 0.1, length=1000).upper)
    assert found.exact is not None
    assert "without end" in str(found)
    with pytest.raises(NotApplicableError, match="may grow forever"):
        stream_leakage(IDENTITY, 0.1, adversary="pufferfish")


@pytest.mark.slow
def test_a_class_leaks_as_its_worst_chain():
    both = MarkovClass(models=(ACTIVITY, MarkovChain(transition=[[0.6, 0.4], [0.4, 0.6]], states=["rest", "active"])))
    losses = [0.5, 0.1, 0.3]
    alone = [stream_leakage(chain, losses).total for chain in both.chains]
    assert np.array_equal(stream_leakage(both, losses).total, np.maximum(*alone))
    budget, *others = (stream_budget(model, 1.0, length=2) for model in (both, *both.chains))
    assert budget.constant == pytest.approx(min(other.constant for other in others), rel=1e-6)
    assert stream_leakage(both, budget.losses()).upper <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chain", "adversary"), [(ACTIVITY, "bdp"), (FLIPPING, "pufferfish")], ids=["activity", "flipping"]
)
def test_budgets_keep_the_target_and_waste_nothing(chain, adversary):
    target = 1.0
    budget = stream_budget(chain, target, adversary=adversary)
    first, middle, last = budget.ends
    assert middle == budget.constant
    assert first > middle
    assert last > middle
    assert stream_leakage(chain, middle, adversary=adversary).upper <= target
    assert stream_leakage(chain, middle * (1 + SEARCHED), adversary=adversary).upper > target
    for n in (1, 3, 20):
        found = stream_leakage(chain, budget.losses(n), adversary=adversary)
        # The budget has a bracket of its own; that of the report is as wide as the tolerance of the bound.
        assert found.lower <= target and found.upper <= target * (1 + TOLERANCE)
    for n in (2, 5):
        finite = stream_budget(chain, target, length=n, adversary=adversary)
        assert finite.constant >= middle * (1 - SEARCHED)
        assert stream_leakage(chain, finite.constant, length=n, adversary=adversary).upper <= target
        more = finite.constant * (1 + SEARCHED)
        assert stream_leakage(chain, more, length=n, adversary=adversary).upper > target
        spent = finite.losses()
        assert stream_leakage(chain, spent, adversary=adversary).upper <= target + 1e-9
        assert spent.sum() >= finite.constant * n * (1 - 1e-9)


@pytest.mark.slow
def test_nobody_at_the_ends_could_spend_much_more():
    first, middle, last = stream_budget(ACTIVITY, 1.0, adversary="pufferfish").ends
    for spent in ([first * 1.02, *[middle] * 18, last], [first, *[middle] * 18, last * 1.02]):
        assert stream_leakage(ACTIVITY, spent, adversary="pufferfish").upper > 1


@pytest.mark.slow
@pytest.mark.parametrize("length", [2, 5])
def test_the_budget_of_a_chain_that_ends_in_one_state_is_found(length):
    """A state that is hardly ever left, one that is never left, two that are left for good: the search took minutes."""
    moves = [[0.99778, 0, 0.00222, 0], [0, 0.15865, 0.1779, 0.66345], [0, 0, 1, 0], [0.06349, 0.93651, 0, 0]]
    ending = MarkovChain(transition=moves, start=[0.141, 0.173, 0.203, 0.483])
    constant = stream_budget(ending, 1.0, length=length).constant
    leaks, more = (stream_leakage(ending, loss, length=length) for loss in (constant, constant * (1 + SEARCHED)))
    assert leaks.upper <= 1.0 < more.lower


@given(SEEDS, st.integers(2, 4), st.integers(1, 4), st.floats(0.01, 8.0), st.sampled_from(["bdp", "pufferfish"]))
@settings(max_examples=examples(12))
def test_budgets_of_chains_that_end_in_some_states_keep_the_target(seed, k, length, target, adversary):
    """Random chains, with zeros, of which some states are never left: between group privacy and the target itself."""
    generator = np.random.default_rng(seed)
    moves = random_transition(generator, k)
    final = generator.random(k) < 0.4
    moves[final] = np.eye(k)[final]
    ending = MarkovChain(transition=moves, start=random_distribution(generator, k))
    constant = stream_budget(ending, target, length=length, adversary=adversary).constant
    assert constant >= target / length * (1 - SEARCHED)
    assert stream_leakage(ending, constant, length=length, adversary=adversary).upper <= target


@pytest.mark.slow
def test_budgets_of_more_states_and_of_chains_that_never_forget():
    budget = stream_budget(THREE, 1.0, adversary="pufferfish")
    found = stream_leakage(THREE, budget.losses(10), adversary="pufferfish")
    assert 0.99 <= found.lower <= 1
    assert found.upper <= 1 + TOLERANCE
    assert budget.ends[0] > budget.constant
    for chain in (IDENTITY, MarkovChain(transition=[[0, 1], [1, 0]])):
        with pytest.raises(NotApplicableError, match="no constant loss keeps a stream without end"):
            stream_budget(chain, 1.0, adversary="pufferfish")
        finite = stream_budget(chain, 1.0, length=8, adversary="pufferfish")
        assert finite.constant == pytest.approx(1 / 8, rel=1e-6)
        assert finite.ends is None
        assert finite.losses().tolist() == [finite.constant] * 8
    assert stream_budget(ACTIVITY, 1.0, adversary="dp").constant == pytest.approx(1, rel=1e-6)
    with pytest.raises(ParameterError, match="length is missing"):
        budget.losses()


@pytest.mark.parametrize(
    ("epsilons", "length", "said"),
    [
        ([], None, "stream has 0 losses"),
        ([[0.1]], None, "stream has 1 losses"),
        ([0.1, -1], None, "stream has a loss of -1"),
        ([0.1, float("nan")], None, "stream has a loss of nan"),
        ("x", None, "it must be DP losses"),
        ([0.1, 0.2], 3, "stream has 2 losses and length is 3"),
        (0.1, 0, "length is 0"),
        (0.1, 10**9, "leave it out for a stream without end"),
    ],
)
def test_losses_that_make_no_stream(epsilons, length, said):
    with pytest.raises(ParameterError, match=said):
        stream_leakage(ACTIVITY, epsilons, length=length)


BINARY = BinaryInterval(low=0.2, high=0.8)
BOX = MarkovInterval(low=THREE.transition - 0.02, high=THREE.transition + 0.02)


@pytest.mark.parametrize("model", [BINARY, pytest.param(BOX, marks=pytest.mark.slow)], ids=["binary", "box"])
def test_classes_given_by_bounds_are_bounded_by_odds(model):
    losses = np.array([0.5, 0.1, 0.3, 0.2])
    found, inside = stream_leakage(model, losses), stream_leakage(model.definite_chains[0], losses)
    for part in ("backward", "forward", "total"):
        assert (getattr(found, part) >= getattr(inside, part) * (1 - TOLERANCE) - 1e-9).all()
    assert found.exact is None
    assert inside.lower - 1e-9 <= found.lower < found.upper < losses.sum()
    forever = stream_leakage(model, 0.2)
    assert stream_leakage(model, 0.2, length=50).upper <= forever.upper
    budget = stream_budget(model, 1.0)
    assert stream_leakage(model, budget.constant).upper <= 1
    assert stream_leakage(model, budget.constant * 1.0001).upper > 1
    assert stream_leakage(model, budget.losses(40)).upper <= 1
    assert stream_budget(model, 1.0, length=3).constant > budget.constant
    assert stream_budget(model, 1.0, adversary="dp").constant == 1


def test_the_interval_of_the_theory():
    assert 1 / stream_budget(BINARY, 1.0).constant == pytest.approx(3.961264, abs=1e-6)


@pytest.mark.slow
def test_any_start_is_exact_and_above_every_start():
    adversary = "pufferfish"
    chain = MarkovChain(transition=THREE.transition, start="any")
    found = stream_leakage(chain, [0.5, 0.1, 0.3], adversary=adversary)
    assert found.exact is not None
    for start in ("stationary", [1, 0, 0], [0.2, 0, 0.8]):
        one = stream_leakage(
            MarkovChain(transition=THREE.transition, start=start), [0.5, 0.1, 0.3], adversary=adversary
        )
        assert (found.total >= one.total * (1 - TOLERANCE) - 1e-8).all()
    long, ever = (
        stream_leakage(chain, 0.1, length=200, adversary=adversary),
        stream_leakage(chain, 0.1, adversary=adversary),
    )
    assert long.upper == both_upper_ends(ever.upper)
    assert long.exact is not None
    assert stream_budget(chain, 1.0, adversary=adversary).constant > 0.3


def test_any_start_of_many_states_is_bounded_by_odds():
    table = 0.5 * np.eye(17) + 0.5 * np.random.default_rng(5).dirichlet(np.ones(17), size=17)
    free, settled = MarkovChain(transition=table, start="any"), MarkovChain(transition=table)
    for length in (4, None):
        found = stream_leakage(free, 0.05, length=length, adversary="pufferfish")
        assert found.exact is None
        assert found.upper >= stream_leakage(settled, 0.05, length=length, adversary="pufferfish").lower
    budget = stream_budget(free, 1.0)
    assert 0 < budget.constant < stream_budget(settled, 1.0).constant


def test_the_attack_is_told_with_its_questions():
    found = stream_leakage(ACTIVITY, 0.1, length=288)
    side = {"distance": 9, "state": "active"}
    asked = [{"from": 1, "to": 8, "states": ["active"]}]
    attack = found.to_dict()["attack"]
    assert 10 <= attack.pop("record") <= 279  # as far from both ends as it looks: all of them leak the same
    assert attack == {
        "likelier": "active",
        "other": "rest",
        "before": side,
        "after": side,
        "questions": {"before": asked, "after": asked},
        "first_distribution": None,
    }
    words = " ".join(str(found).split())
    assert "knows that the records 9 steps before and after the target are both active, and wants to decide" in words
    assert 'answers, with noise, "is it active?" for the target and the 8 records on each side.' in words
    turning = stream_leakage(FLIPPING, [0.0, 0.5, 0.5, 0.5, 0.0], adversary="pufferfish").to_dict()["attack"]
    near, other = turning["questions"]["before"][0]["states"], turning["likelier"]
    assert near != [other]  # where the chain tends to change, its neighbours are asked for the other value


def test_other_models_are_refused():
    with pytest.raises(NotApplicableError, match="the model is a Groups"):
        stream_leakage(Groups(sizes=[2], positives=[[0.5, 0, 0.5]]), 0.1)
    with pytest.raises(ParameterError, match="target is 0"):
        stream_budget(ACTIVITY, 0)


def test_progress_is_told():
    told: list[str] = []
    stream_leakage(ACTIVITY, np.linspace(0.1, 0.2, 300), progress=told.append)
    assert told == [f"following the stream: {share}%" for share in (0, 33, 66)]
