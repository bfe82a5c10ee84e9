"""Quilts on networks by name: colliders, chains drawn as networks, quilts that are too large to look at."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.models.groups import AnyGroups, Groups
from pufferdp.models.joint import JointTable
from pufferdp.models.model_class import ModelClass
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.publish.answers.mechanisms.quilt import QuiltExact
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles import records as brute
from tests.oracles.chains import Literal, score
from tests.publish.answers.mechanisms.record_suite import case_of
from tests.strategies import SEEDS, chains, epsilons, random_rows


def node(name, table, *parents, states=("0", "1")) -> Node:
    return Node(name=name, states=states, parents=parents, table=table)


def quilt_of(model, epsilon, query="count:1"):
    problem = Problem(model=model, query=Query.parse(query), epsilon=epsilon, adversary=Adversary.PUFFERFISH)
    return QuiltExact().calibrate(problem).quilt


def as_network(P, start, T) -> BayesianNetwork:
    states = tuple(str(x) for x in range(len(P)))
    nodes = [node("1", start, states=states)]
    nodes += [node(str(t), P, str(t - 1), states=states) for t in range(2, T + 1)]
    return BayesianNetwork(nodes=tuple(nodes))


def test_parents_of_a_common_child_are_linked():
    """Without the link between a and b the quilt {c} would seem to cut a off from b and d, and would leak 6 for 5."""
    nodes = (
        node("a", [0.45, 0.55]),
        node("b", [0.3, 0.7]),
        node("c", [[[0.7, 0.3], [0.15, 0.85]], [[0.25, 0.75], [0.65, 0.35]]], "a", "b"),
        node("d", [[0.4, 0.6], [0.1, 0.9]], "b"),
    )
    case = case_of(BayesianNetwork(nodes=nodes), "count:1")
    parents = [[], [], [0, 1], [1]]
    drawn = brute.quilt_sigma(case.joint, brute.skeleton(parents), case.weights, 5.0)
    assert brute.leakage(case.joint, case.answers, drawn) > 6.0
    # Of the drawn graph only a's quilt {c} is wrong: c hides nothing of a, and given c both know of each other.
    cheapest = min(brute.quilt_scores(case.joint, brute.skeleton(parents), case.weights, 5.0, 0))
    assert cheapest[1] == (2,)
    found = quilt_of(case.model, 5.0)
    assert found.value > 1.5 * drawn
    assert found.value == pytest.approx(
        brute.quilt_sigma(case.joint, brute.moral(parents), case.weights, 5.0), rel=1e-9
    )
    assert brute.leakage(case.joint, case.answers, found.value) <= 5.0


def test_the_quilt_that_is_named_is_the_one_that_decides():
    """Its ends, what lies inside and its influence come to the score, and the influence is the joint distribution's."""
    generator = np.random.default_rng(3)
    parents = [[], [0], [0], [1, 2], [3]]
    nodes = [
        node(f"n{v}", 0.2 * random_rows(generator, *(2,) * (len(above) + 1)) + 0.4, *(f"n{u}" for u in above))
        for v, above in enumerate(parents)
    ]
    case = case_of(BayesianNetwork(nodes=tuple(nodes)), "count:1")
    found = quilt_of(case.model, 2.0)
    i, ends = case.model.position(found.node), [case.model.position(name) for name in found.ends]
    assert ends
    assert found.influence == pytest.approx(brute.influence(case.joint, i, ends), abs=1e-11)
    assert found.nearby == len(brute.around(brute.moral(parents), i, ends))
    assert found.value == pytest.approx(found.nearby / (2.0 - found.influence), rel=1e-12)


@given(
    chain=chains(most_states=3, starts=("stationary", "given")).filter(lambda c: c.size > 1),
    T=st.integers(1, 12),
    epsilon=epsilons,
)
def test_random_chains_drawn_as_networks(chain, T, epsilon):
    start = chain.stationary if chain.given_start is None else chain.given_start
    found = quilt_of(as_network(chain.transition, start, T), epsilon, "count:0")
    assert found.value == pytest.approx(Literal(chain.transition, start, T).worst(score(epsilon))[0], rel=1e-9)


def test_records_that_the_query_cannot_see_cost_nothing_inside_a_quilt():
    """Only a is counted; b and c may stay inside, so no end is needed and one record is all there is to hide."""
    nodes = (
        node("a", [0.5, 0.5]),
        node("b", [[0.9, 0.1], [0.1, 0.9]], "a", states=("x", "y")),
        node("c", [[0.9, 0.1], [0.1, 0.9]], "b", states=("x", "y")),
    )
    found = quilt_of(BayesianNetwork(nodes=nodes), 0.5)
    assert (found.value, found.nearby, found.ends) == (2.0, 1.0, ())


def test_records_weigh_as_much_as_they_move_a_sum():
    """The sum moves by 10 with a and by 1 with b: together 11/10 of L."""
    nodes = (
        node("a", [0.5, 0.5], states=("0", "10")),
        node("b", [[0.9, 0.1], [0.1, 0.9]], "a", states=("0", "1")),
    )
    found = quilt_of(BayesianNetwork(nodes=nodes), 1.0, "sum")
    assert found.value == pytest.approx(1.1, rel=1e-12)


def test_quilts_of_too_many_joint_states_are_left_out_and_counted():
    """A hub with 21 children: with 20 or 21 of them as ends a quilt has over a million joint states."""
    children = [node(f"c{n}", [[0.501, 0.499], [0.499, 0.501]], "hub") for n in range(21)]
    found = quilt_of(BayesianNetwork(nodes=(node("hub", [0.5, 0.5]), *children)), 1.0)
    assert found.node == "hub"
    assert found.skipped == 1 + 21
    # The best of those that are left: two children inside, and 19 that tell log .501/.499 each.
    assert len(found.ends) == 19
    assert found.value == pytest.approx(3 / (1 - 19 * math.log(0.501 / 0.499)), rel=1e-9)


@given(seed=SEEDS, epsilon=epsilons)
def test_a_class_of_networks_is_as_bad_as_its_worst(seed, epsilon):
    """The members may be drawn differently: other links over the same records."""
    generator = np.random.default_rng(seed)

    def member():
        nodes = []
        for v in range(4):
            above = [u for u in range(v) if generator.random() < 0.5]
            table = 0.3 * random_rows(generator, *(2,) * (len(above) + 1)) + 0.35
            nodes.append(node(f"n{v}", table, *(f"n{u}" for u in above)))
        return BayesianNetwork(nodes=tuple(nodes))

    members = tuple(member() for _ in range(2))
    found = quilt_of(ModelClass(models=members), epsilon).value
    literal = []
    for case in (case_of(m, "count:1") for m in members):
        literal.append(brute.quilt_sigma(case.joint, case.links, case.weights, epsilon))
    assert found == pytest.approx(max(literal), rel=1e-9)


@pytest.mark.parametrize(
    ("model", "adversary", "reason"),
    [
        (JointTable(values=[0, 1], outcomes=[(0, 0), (1, 1)], probabilities=[0.5, 0.5]), "pufferfish", "graph"),
        (Groups(sizes=[2], positives=[[0.2, 0.3, 0.5]]), "pufferfish", "graph"),
        (AnyGroups(largest=3), "pufferfish", "anything may hold inside a group"),
        (BayesianNetwork(nodes=(node("a", [0.5, 0.5]),)), "bdp", "knows no record"),
    ],
    ids=["table", "groups", "any groups", "bdp"],
)
def test_where_there_is_no_graph_or_no_proof_it_says_so(model, adversary, reason):
    problem = Problem(model=model, query=Query.parse("count:1"), epsilon=1.0, adversary=Adversary(adversary))
    with pytest.raises(NotApplicableError, match=reason):
        QuiltExact().calibrate(problem)
