"""Streams as users ask for them: reports, budgets and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp import MarkovChain, MarkovClass, NotApplicableError, ParameterError, stream_budget, stream_leakage
from pufferdp.models.chain_classes import BinaryInterval

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
    assert said["total"][found.worst - 1] == pytest.approx(said["upper"], abs=1e-8)
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
    assert found.upper == pytest.approx(stream_leakage(ACTIVITY, 0.1, length=1000).upper, abs=1e-8)
    assert found.exact is not None
    assert "without end" in str(found)
    with pytest.raises(NotApplicableError, match="may grow for ever"):
        stream_leakage(IDENTITY, 0.1, adversary="pufferfish")


def test_a_class_leaks_as_its_worst_chain():
    both = MarkovClass(models=(ACTIVITY, MarkovChain(transition=[[0.6, 0.4], [0.4, 0.6]], states=["rest", "active"])))
    losses = [0.5, 0.1, 0.3]
    alone = [stream_leakage(chain, losses).total for chain in both.chains]
    assert np.array_equal(stream_leakage(both, losses).total, np.maximum(*alone))
    budget = stream_budget(both, 1.0)
    assert budget.constant == pytest.approx(min(stream_budget(chain, 1.0).constant for chain in both.chains), rel=1e-6)
    assert stream_leakage(both, budget.losses(40)).upper <= 1


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
@pytest.mark.parametrize("chain", [ACTIVITY, FLIPPING], ids=["activity", "flipping"])
def test_budgets_keep_the_target_and_waste_nothing(chain, adversary):
    target = 1.0
    budget = stream_budget(chain, target, adversary=adversary)
    first, middle, last = budget.ends
    assert middle == budget.constant
    assert first > middle
    assert last > middle
    assert stream_leakage(chain, middle, adversary=adversary).upper <= target
    assert stream_leakage(chain, middle * 1.0001, adversary=adversary).upper > target
    for n in (1, 2, 3, 4, 7, 60):
        assert stream_leakage(chain, budget.losses(n), adversary=adversary).upper <= target + 1e-9
    for n in (2, 5, 20):
        finite = stream_budget(chain, target, length=n, adversary=adversary)
        assert finite.constant >= middle * (1 - 1e-6)
        assert stream_leakage(chain, finite.constant, length=n, adversary=adversary).upper <= target
        assert stream_leakage(chain, finite.constant * 1.0001, length=n, adversary=adversary).upper > target
        spent = finite.losses()
        assert stream_leakage(chain, spent, adversary=adversary).upper <= target + 1e-9
        assert spent.sum() >= finite.constant * n * (1 - 1e-9)


def test_nobody_at_the_ends_could_spend_much_more():
    first, middle, last = stream_budget(ACTIVITY, 1.0, adversary="pufferfish").ends
    for spent in ([first * 1.02, *[middle] * 58, last], [first, *[middle] * 58, last * 1.02]):
        assert stream_leakage(ACTIVITY, spent, adversary="pufferfish").upper > 1


def test_budgets_of_more_states_and_of_chains_that_never_forget():
    budget = stream_budget(THREE, 1.0, adversary="pufferfish")
    # The budget is proved with the tighter bound for equal losses; that for changing ones is a little larger.
    found = stream_leakage(THREE, budget.losses(30), adversary="pufferfish")
    assert found.lower <= 1
    assert found.upper <= 1.01
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


def test_other_models_are_refused():
    with pytest.raises(NotApplicableError, match="the model is a BinaryInterval"):
        stream_leakage(BinaryInterval(low=0.2, high=0.8), 0.1)
    with pytest.raises(ParameterError, match="target is 0"):
        stream_budget(ACTIVITY, 0)


@pytest.mark.parametrize(("steps", "adversary"), [(300, "pufferfish"), (2500, "bdp")])
def test_progress_is_told(steps, adversary):
    told: list[str] = []
    stream_leakage(ACTIVITY, np.linspace(0.1, 0.2, steps), adversary=adversary, progress=told.append)
    assert told[0] == "following the stream: 0%"
    assert len(told) > 2
    assert len(told) == len(set(told))
