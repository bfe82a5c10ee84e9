"""What a DP loss leaks, and the loss that may be spent: values, the exact ones below, both directions, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp import (
    AnyGroups,
    BinaryInterval,
    JointTable,
    MarkovChain,
    MarkovClass,
    ParameterError,
    leakage_of,
)
from pufferdp.assess.dp import leakage_lines
from tests.oracles.leakage import leakage
from tests.strategies import chains, examples
from tests.tolerance import safe_loss, safe_scale, upper_end

P = [[0.882, 0.118], [0.305, 0.695]]
ACTIVITY = MarkovChain(transition=P, states=["rest", "active"])


def test_the_check_values_of_a_day():
    """Noise 3.994794 is the least for this count and for any DP algorithm; quilts need 15.94, group privacy 288."""
    found = leakage_of(ACTIVITY, target=1, length=288, query="count:active")
    assert 1 / found.exact == safe_scale(3.994794)
    assert 1 / found.curves["tight"] == safe_scale(3.994794)
    assert 1 / found.curves["quilt"] == pytest.approx(15.94, abs=5e-3)
    assert 1 / found.curves["general"] == pytest.approx(288)
    assert found.curves["markov"] is found.curves["zhao"] is None
    assert "however little" in found.reasons["markov"]
    assert found.best == "tight"
    leaks = leakage_of(ACTIVITY, dp_epsilon=0.25, length=288, query="count:active").exact
    assert leaks == upper_end(0.998661)


def test_both_directions_agree():
    spent = leakage_of(ACTIVITY, dp_epsilon=0.2, length=30, query="count:active")
    for name, value in spent.curves.items():
        if value is not None:
            back = leakage_of(ACTIVITY, target=value, length=30).curves[name]
            assert back == (safe_loss(0.2) if name == "tight" else pytest.approx(0.2, rel=1e-9)), name
    back = leakage_of(ACTIVITY, target=spent.exact, length=30, query="count:active").exact
    assert back == safe_loss(0.2)


@given(
    chain=chains(3, ("stationary", "given")),
    n=st.integers(1, 5),
    tau=st.sampled_from([0.05, 0.4, 2.0]),
    adversary=st.sampled_from(["bdp", "pufferfish"]),
)
@settings(max_examples=examples(30))
def test_the_exact_value_is_that_of_enumeration(chain, n, tau, adversary):
    found = leakage_of(chain, dp_epsilon=tau, length=n, query="count:0", adversary=adversary)
    start = chain.stationary if chain.given_start is None else chain.given_start
    by_hand = leakage(chain.transition, start, n, "count:0", 1 / tau, everyone=adversary == "bdp")
    assert found.exact in (upper_end(by_hand), pytest.approx(by_hand, abs=1e-9))
    assert found.exact <= found.curves[found.best] * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("scale", [1, 0.1, 250])
def test_the_exact_value_does_not_depend_on_the_unit(scale):
    """tau-DP noise on a sum has scale L/tau: states worth 0 and 250 leak what states worth 0 and 1 leak."""
    chain = MarkovChain(transition=P, values=[0, scale])
    for query in ("sum", "mean"):
        found = leakage_of(chain, dp_epsilon=0.5, length=5, query=query)
        assert found.exact == upper_end(1.460186)


def test_a_class_leaks_what_its_worst_chain_leaks():
    other = MarkovChain(transition=[[0.95, 0.05], [0.4, 0.6]], states=["rest", "active"])
    asked = {"dp_epsilon": 0.3, "length": 20, "query": "count:active"}
    both = leakage_of(MarkovClass(models=(ACTIVITY, other)), **asked)
    assert both.exact == max(leakage_of(chain, **asked).exact for chain in (ACTIVITY, other))


def test_tables_know_their_records():
    twins = JointTable(values=[0, 1], outcomes=[(0, 0), (1, 1)], probabilities=[0.7, 0.3])
    found = leakage_of(twins, dp_epsilon=0.4, query="count:1")
    assert found.curves["general"] == pytest.approx(0.8)
    assert found.exact == pytest.approx(0.8)
    assert leakage_of(twins, target=0.8, query="sum").exact == pytest.approx(0.4, rel=1e-6)
    with pytest.raises(ParameterError, match="knows its records"):
        leakage_of(twins, dp_epsilon=0.4, length=2)


@pytest.mark.parametrize(
    ("model", "asked", "words"),
    [
        (MarkovChain(transition=np.full((3, 3), 1 / 3)), {"length": 9, "query": "histogram"}, "one number"),
        (BinaryInterval(low=0.3, high=0.8), {"length": 9, "query": "count:1"}, "cannot be listed"),
        (AnyGroups(largest=4), {"query": "count:1"}, "cannot be listed"),
        (MarkovChain(transition=P, start="any"), {"length": 9, "query": "count:1"}, "definite start"),
        (MarkovChain(transition=[[1 / 9] * 9] * 9), {"length": 9, "query": "count:1"}, "9 states"),
    ],
)
def test_without_an_exact_value_there_is_a_reason(model, asked, words):
    for question in ({"dp_epsilon": 0.4}, {"target": 0.4}):
        found = leakage_of(model, **question, **asked)
        assert found.exact is None
        assert words in found.reasons["exact"]
        assert found.curves[found.best] > 0


def test_hardly_any_noise_is_not_computed():
    found = leakage_of(ACTIVITY, dp_epsilon=1e6, length=9, query="count:active")
    assert found.exact is None
    assert found.curves["general"] == 9e6


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"length": 9}, "either dp_epsilon="),
        ({"length": 9, "dp_epsilon": 1, "target": 1}, "either dp_epsilon="),
        ({"length": 9, "dp_epsilon": 0}, "dp_epsilon is 0"),
        ({"length": 9, "target": float("nan")}, "target is nan"),
        ({"dp_epsilon": 1}, "length is missing"),
        ({"length": 0, "dp_epsilon": 1}, "length is 0"),
        ({"length": 9, "dp_epsilon": 1, "adversary": "eve"}, "adversary is 'eve'"),
    ],
)
def test_bad_questions_are_refused(asked, words):
    with pytest.raises(ParameterError, match=words):
        leakage_of(ACTIVITY, **asked)


def test_what_is_printed_is_rounded_to_the_safe_side():
    allowed = leakage_of(ACTIVITY, target=1, length=288)
    largest = allowed.curves["tight"]
    assert largest == safe_loss(0.250325788)
    assert f"if the DP ε is at most {math.floor(largest * 1e4) / 1e4:.4g} in total" in " ".join(str(allowed).split())
    spent = leakage_of(ACTIVITY, dp_epsilon=0.1, length=50)
    assert spent.curves["markov"] == pytest.approx(8.14603, abs=1e-5)
    assert "8.147" in str(spent)


def test_nothing_to_hide_leaks_nothing():
    sure = MarkovChain(transition=[[0.0, 1.0], [1.0, 0.0]], start=[1.0, 0.0])
    found = leakage_of(sure, dp_epsilon=1, length=4, query="count:0")
    assert found.exact == 0.0
    assert str(found)


def test_the_lines_of_the_figure_pass_through_the_report():
    found = leakage_of(ACTIVITY, dp_epsilon=0.2, length=30, query="count:active")
    lines = leakage_lines(ACTIVITY, found, "count:active")
    middle = lines["dp_epsilon"].index(pytest.approx(0.2))
    for name, values in lines["curves"].items():
        assert values[middle] == pytest.approx(found.curves[name])
        assert values == sorted(values)
    assert found.exact in [pytest.approx(point["leakage"]) for point in lines["exact"]]
