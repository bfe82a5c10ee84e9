"""Leakage curves: the check values, their inverses, who lies below whom, and the exact leakage below them all."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.bounds.additive.windows import WindowLeakage
from pufferdp.bounds.curves import best_curve, curves, lowest
from pufferdp.bounds.tight.series import TOLERANCE
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import BinaryInterval, MarkovClass, MarkovInterval
from pufferdp.models.groups import AnyGroups
from pufferdp.models.joint import JointTable
from pufferdp.models.model_class import ModelClass
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.models.pedigree import Member, Pedigree
from tests.oracles.leakage import leakage
from tests.strategies import chains, examples
from tests.tolerance import safe_loss, upper_end

BDP, PUFFERFISH, DP = Adversary.BDP, Adversary.PUFFERFISH, Adversary.DP
ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
TAUS = st.sampled_from([1e-4, 0.02, 0.3, 1.0, 4.0])


def applying(model, longest, adversary=BDP):
    return {name: c for name, c in curves(model, longest, adversary).items() if c.applies}


def close(a, b):
    return a <= b * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize(("tau", "leak"), [(0.01, 0.225783), (0.1, 1.416863), (0.5, 4.051870), (1.0, 5.598492)])
def test_quilt_check_values(tau, leak):
    assert applying(ACTIVITY, 50)["quilt"](tau) == pytest.approx(leak, abs=5e-7)


def test_the_other_check_values_at_one():
    found = applying(ACTIVITY, 50)
    assert set(found) == {"general", "markov", "zhao", "quilt", "odds", "tight"}
    assert found["markov"](1.0) == pytest.approx(9.05, abs=5e-3)
    assert found["zhao"](1.0) == pytest.approx(11.64, abs=5e-3)
    assert found["general"](1.0) == 50.0
    lowest = best_curve(ACTIVITY, 50, BDP)
    assert lowest(1.0) == found["tight"](1.0) == upper_end(3.474873377)
    assert lowest.which(1.0).name == "tight"


@pytest.mark.parametrize("adversary", list(Adversary))
@pytest.mark.parametrize("tau", [1e-3, 0.1, 1.0, 7.0])
def test_the_inverse_gives_the_loss_back(tau, adversary):
    found = curves(ACTIVITY, 50, adversary)
    for curve in [c for c in found.values() if c.applies] + [lowest(found)]:
        rounding = pytest.approx(tau, rel=1e-9)
        back = safe_loss(tau) if curve.name in ("tight", "best") else rounding
        assert curve.inverse(curve(tau)) == back, curve.name


@pytest.mark.slow
@given(chain=chains(4), n=st.integers(1, 40), epsilon=st.sampled_from([1e-3, 0.1, 1.0, 20.0]))
@settings(max_examples=examples(40))
def test_the_inverse_is_checked_and_the_largest(chain, n, epsilon):
    for curve in applying(chain, n).values():
        tau = curve.inverse(epsilon)
        assert curve(tau) <= epsilon
        room = 5 * TOLERANCE if curve.name == "tight" else 1e-6
        assert curve(tau * (1 + room) + 1e-12) > epsilon


@given(chain=chains(4), n=st.integers(1, 40), tau=TAUS, adversary=st.sampled_from(list(Adversary)))
@settings(max_examples=examples(60))
def test_quilts_are_never_above_the_others(chain, n, tau, adversary):
    found = applying(chain, n, adversary)
    for name in ("general", "markov", "zhao"):
        if name in found:
            assert close(found["quilt"](tau), found[name](tau)), name
    assert close(applying(chain, n, PUFFERFISH)["quilt"](tau), found["quilt"](tau))


@given(chain=chains(3, ("stationary", "given")), n=st.integers(1, 12), tau=TAUS)
@settings(max_examples=examples(40))
def test_no_curve_is_below_the_leakage_of_a_noisy_count(chain, n, tau):
    leak = WindowLeakage(chain, n, [1, *[0] * (chain.size - 1)]).at(tau).lower
    for curve in applying(chain, n).values():
        assert close(leak, curve(tau)), curve.name


@given(chain=chains(3, ("stationary", "given")), n=st.integers(1, 5), tau=TAUS)
@settings(max_examples=examples(30))
def test_nor_below_that_towards_who_knows_nothing(chain, n, tau):
    assume(chain.size > 1)
    start = chain.stationary if chain.given_start is None else chain.given_start
    leak = leakage(chain.transition, start, n, "count:0", 1 / tau, everyone=False)
    for curve in applying(chain, n, PUFFERFISH).values():
        assert close(leak, curve(tau)), curve.name


@pytest.mark.slow
@given(chain=chains(4), n=st.integers(1, 60), low=TAUS, more=st.floats(0.001, 3))
@settings(max_examples=examples(40))
def test_curves_rise_with_the_loss(chain, n, low, more):
    for curve in applying(chain, n).values():
        assert curve(0.0) == 0.0
        assert close(curve(low), curve(low + more))


def test_the_worst_chain_of_a_class_decides():
    other = MarkovChain(transition=[[0.95, 0.05], [0.4, 0.6]])
    both = applying(MarkovClass(models=(ACTIVITY, other)), 50)
    alone = [applying(chain, 50) for chain in (ACTIVITY, other)]
    for name, curve in both.items():
        assert curve(0.3) == pytest.approx(max(one[name](0.3) for one in alone), rel=1e-9), name


def test_intervals_bound_the_chains_inside():
    interval = BinaryInterval(low=0.3, high=0.8)
    inside = MarkovChain(transition=[[0.75, 0.25], [0.4, 0.6]], start="any")
    for model in (interval, MarkovInterval(low=interval.box.low, high=interval.box.high)):
        found, one = applying(model, 30), applying(inside, 30)
        assert set(found) == {"general", "zhao", "quilt", "odds"}
        for name, curve in found.items():
            assert close(one[name](0.2), curve(0.2)), name


def test_groups_and_networks():
    assert applying(AnyGroups(largest=4), None)["general"](0.5) == 2.0
    nodes = [Node(name="a", states=["n", "y"], table=[0.8, 0.2])]
    nodes += [Node(name="b", states=["n", "y"], parents=["a"], table=[[0.6, 0.4], [0.4, 0.6]])]
    network = BayesianNetwork(nodes=tuple(nodes))
    found = applying(network, None, PUFFERFISH)
    # Either both records change, or b does and a pays: P(a=y|b=y)/P(a=y|b=n) = (.12/.44)/(.08/.56).
    assert found["quilt"](1.0) == pytest.approx(1 + math.log(0.12 / 0.44 / (0.08 / 0.56)), rel=1e-9)
    assert found["quilt"](0.1) == pytest.approx(0.2)
    assert set(applying(network, None)) == {"general", "odds"}
    # The odds ratio of the pair is (.6·.6)/(.4·.4): a small loss is multiplied by 1 + tanh(log(2.25)/4).
    assert applying(network, None)["odds"].factor == pytest.approx(1 + math.tanh(math.log(2.25) / 4), rel=1e-5)
    assert set(applying(ModelClass(models=(network, network)), None, PUFFERFISH)) == {"general", "quilt", "odds"}


def test_families():
    """The largest family counts, and over a class the largest set that any member of it joins."""
    trio = (Member("a"), Member("b"), Member("c", "a", "b"))
    apart = Pedigree(members=(*trio, Member("d")), major_allele_frequency=0.7)
    joined = Pedigree(members=(*trio, Member("d", mother="c")), major_allele_frequency=0.7)
    assert applying(apart, None)["pedigree"](0.5) == 1.5
    assert applying(ModelClass(models=(apart, joined)), None)["pedigree"](0.5) == 2.0
    assert set(applying(apart, None, PUFFERFISH)) == {"general", "quilt", "odds", "pedigree"}
    for other in (apart.network, ModelClass(models=(apart, apart.network)), ACTIVITY, AnyGroups(largest=3)):
        assert curves(other, 4, BDP)["pedigree"].reason == "is about families, and the model is not one"


def test_independent_records_leak_what_dp_says():
    chain = MarkovChain(transition=[[0.3, 0.7], [0.3, 0.7]])
    found = curves(chain, 50, BDP)
    assert lowest(found)(0.7) == pytest.approx(0.7)
    assert applying(ACTIVITY, 50, DP)["independent"](0.7) == 0.7


@pytest.mark.parametrize(
    ("model", "longest", "reasons"),
    [
        (ACTIVITY, 50, {"independent": "correlated"}),
        (
            MarkovChain(transition=[[1.0, 0.0], [0.3, 0.7]], start=[0.5, 0.5]),
            50,
            {"markov": "stationary", "zhao": "above 0"},
        ),
        (MarkovChain(transition=[[0.0, 1.0], [0.3, 0.7]]), 50, {"markov": "above 0"}),
        (MarkovChain(transition=[[0.5, 0.5], [0.3, 0.7]], start="any"), 50, {"markov": "stationary"}),
        (MarkovInterval(low=[[0, 0], [0, 0]], high=[[1, 1], [1, 1]]), 9, {"zhao": "above 0", "quilt": "never move"}),
        (AnyGroups(largest=4), None, {"markov": "chains", "zhao": "chains", "quilt": "anything may hold"}),
        (
            JointTable(values=[0, 1], outcomes=[(0, 0), (1, 1)], probabilities=[0.5, 0.5]),
            None,
            {"independent": "correlated", "quilt": "graph"},
        ),
    ],
)
def test_a_curve_that_does_not_apply_says_why(model, longest, reasons):
    found = curves(model, longest, BDP)
    for name, words in reasons.items():
        assert not found[name].applies
        with pytest.raises(NotApplicableError, match=words):
            found[name](1.0)
        with pytest.raises(NotApplicableError, match=words):
            found[name].inverse(1.0)
    assert found["general"].applies


def test_bad_numbers_are_refused():
    curve = applying(ACTIVITY, 50)["general"]
    for bad in (-1.0, math.nan, math.inf, 1e200):
        with pytest.raises(ParameterError, match="dp_epsilon"):
            curve(bad)
        with pytest.raises(ParameterError, match="target"):
            curve.inverse(bad)
    with pytest.raises(ParameterError, match="length"):
        curves(ACTIVITY, None, BDP)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize(
    "transition",
    [
        [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]],
        [[0.999, 0.0005, 0.0005], [0.00075, 0.999, 0.00025], [0.0001, 0.0009, 0.999]],
    ],
)
def test_the_inverse_of_the_closed_form_is_the_largest_loss(transition, epsilon):
    """Pair by pair the first chain is bounded by less than all pairs alike, and the second is not."""
    odds = curves(MarkovChain(transition=transition), 1000, BDP)["odds"]
    loss = odds.inverse(epsilon)
    assert odds(loss) <= epsilon < odds(loss * (1 + 1e-9))
