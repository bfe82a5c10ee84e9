"""Every mechanism that serves networks, tables and groups through their suite, each with its own oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.models.groups import Groups
from pufferdp.models.joint import JointTable
from pufferdp.models.model_class import ModelClass
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.publish.answers.mechanisms.baselines import Group, PerRecord
from pufferdp.publish.answers.mechanisms.gk16 import Gk16
from pufferdp.publish.answers.mechanisms.quilt import QuiltApprox, QuiltExact
from pufferdp.publish.answers.mechanisms.wasserstein import Wasserstein
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles import records as brute
from tests.publish.answers.mechanisms.record_suite import RecordSuite, case_of, cases
from tests.strategies import SEEDS, epsilons, groups, networks, random_distribution, tables

BOTH = (Adversary.PUFFERFISH, Adversary.BDP)


@st.composite
def faint(draw) -> BayesianNetwork:
    """A network in which records tell little about each other: there quilts are worth their price."""
    network = draw(networks(most_nodes=6))
    share = draw(st.sampled_from([0.01, 0.1, 0.3]))

    def blended(node):
        table = np.asarray(node.table)
        even = np.full(table.shape[-1], 1 / table.shape[-1])
        return Node(name=node.name, states=node.states, parents=node.parents, table=share * table + (1 - share) * even)

    return BayesianNetwork(nodes=tuple(blended(node) for node in network.nodes))


class TestWasserstein(RecordSuite):
    mechanism, adversaries = Wasserstein(), (Adversary.PUFFERFISH,)

    def literal(self, case, epsilon):
        return float(brute.wasserstein(case.joint, case.answers)) / case.lipschitz / epsilon


class TestNetworkQuilt(RecordSuite):
    mechanism, adversaries = QuiltExact(), (Adversary.PUFFERFISH,)
    models = st.one_of(networks(), faint())

    def literal(self, case, epsilon):
        return brute.quilt_sigma(case.joint, case.links, case.weights, epsilon)


class TestGroup(RecordSuite):
    mechanism, adversaries = Group(), BOTH

    def literal(self, case, epsilon):
        return brute.group_size(case.links, case.weights) / epsilon


class TestPerRecord(RecordSuite):
    mechanism, adversaries = PerRecord(), BOTH
    models = st.one_of(groups(most_groups=5, most_members=1), networks(most_nodes=2), tables())

    def literal(self, case, epsilon):
        return math.inf if any(case.links) else 1 / epsilon


@given(case=cases(), epsilon=epsilons)
def test_wasserstein_is_never_above_group_privacy(case, epsilon):
    """Song et al. 2017, Theorem 3.3."""
    problem = case.problem(epsilon)
    assert Wasserstein().calibrate(problem).sigma <= Group().calibrate(problem).sigma * (1 + 1e-9)


@given(seed=SEEDS, epsilon=epsilons)
def test_a_class_is_as_bad_as_its_worst_member(seed, epsilon):
    generator = np.random.default_rng(seed)
    sizes = [int(m) for m in generator.integers(1, 4, size=2)]
    members = tuple(
        Groups(sizes=sizes, positives=[random_distribution(generator, m + 1) for m in sizes]) for _ in range(3)
    )
    problem = Problem(
        model=ModelClass(models=members),
        query=Query.parse("count:1"),
        epsilon=epsilon,
        adversary=Adversary.PUFFERFISH,
    )
    literal = [brute.wasserstein(case.joint, case.answers) for case in (case_of(m, "count:1") for m in members)]
    assert Wasserstein().calibrate(problem).sigma == pytest.approx(float(max(literal)) / epsilon, rel=1e-9)


@pytest.mark.parametrize("mechanism", [Wasserstein(), QuiltExact()], ids=lambda m: m.name)
def test_what_is_proved_for_those_who_know_nothing_is_refused_to_others(mechanism):
    model = BayesianNetwork(nodes=(Node(name="a", states=["0", "1"], table=[0.5, 0.5]),))
    for adversary in (Adversary.BDP, Adversary.DP):
        with pytest.raises(NotApplicableError, match="knows no record"):
            mechanism.calibrate(case_of(model, "count:1").problem(1.0, adversary))


@pytest.mark.parametrize("mechanism", [Gk16(), QuiltApprox()], ids=lambda m: m.name)
def test_mechanisms_that_need_a_chain_say_so(mechanism):
    network = BayesianNetwork(nodes=(Node(name="1", states=["0", "1"], table=[0.5, 0.5]),))
    table = JointTable(values=[0, 1], outcomes=[(0,), (1,)], probabilities=[0.5, 0.5])
    for model in (network, table, Groups(sizes=[1], positives=[[0.5, 0.5]])):
        with pytest.raises(NotApplicableError, match="not a chain"):
            mechanism.calibrate(case_of(model, "count:1").problem(1.0))


def test_noise_ten_percent_too_small_would_be_caught():
    """The enumeration is not vacuous: the guarantee is tight for copies of one record and for a record alone."""
    copies = case_of(Groups(sizes=[3], positives=[[0.5, 0, 0, 0.5]]), "count:1")
    scale = Wasserstein().calibrate(copies.problem(1.0)).scale
    assert brute.leakage(copies.joint, copies.answers, scale) == pytest.approx(1.0, rel=1e-9)
    assert brute.leakage(copies.joint, copies.answers, 0.9 * scale) > 1.1
    alone = case_of(Groups(sizes=[1], positives=[[0.3, 0.7]]), "histogram")
    scale = PerRecord().calibrate(alone.problem(1.0, Adversary.BDP)).scale
    assert brute.leakage(alone.joint, alone.answers, scale, everyone=True) == pytest.approx(1.0, rel=1e-9)
    assert brute.leakage(alone.joint, alone.answers, 0.9 * scale, everyone=True) > 1.1
