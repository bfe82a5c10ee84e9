"""Networks: what they compute against multiplication of their tables, and what they refuse."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given

from pufferdp.basics.errors import ModelError
from pufferdp.models.files.json import load_model, model_digest, model_from_dict, model_to_dict, save_model
from pufferdp.models.joint import JointTable
from pufferdp.models.model_class import ModelClass
from pufferdp.models.network import BayesianNetwork, Node
from tests.strategies import SEEDS, networks

RAIN = {"name": "rain", "states": ["no", "yes"], "table": [0.8, 0.2]}
WET = {"name": "wet", "states": ["dry", "wet"], "parents": ["rain"], "table": [[0.9, 0.1], [0, 1]]}
GOOD = {"type": "bayesian_network", "nodes": [RAIN, WET]}


def multiplied(network):
    """The joint distribution as a table, one axis a record: for every outcome the product of its entries."""
    place = {node.name: i for i, node in enumerate(network.nodes)}
    distribution = np.zeros([len(node.states) for node in network.nodes])
    for outcome in np.ndindex(distribution.shape):
        distribution[outcome] = math.prod(
            float(node.table[tuple(outcome[place[name]] for name in (*node.parents, node.name))])
            for node in network.nodes
        )
    return distribution


def summed(distribution, records, evidence):
    """P(records, evidence) from the joint distribution."""
    distribution = distribution.copy()
    for i, states in evidence.items():
        others = [x for x in range(distribution.shape[i]) if x not in states]
        np.moveaxis(distribution, i, 0)[others] = 0
    distribution = distribution.sum(axis=tuple(i for i in range(distribution.ndim) if i not in records))
    left = sorted(records)
    return np.transpose(distribution, [left.index(i) for i in records])


def questions(seed, sizes):
    """Some records in any order, and some evidence: states or sets of states, also for records that are asked about."""
    generator = np.random.default_rng(seed)
    n = len(sizes)
    records = [int(i) for i in generator.permutation(n)[: generator.integers(0, n + 1)]]
    evidence = {}
    for i in generator.permutation(n)[: generator.integers(0, n + 1)]:
        several = generator.permutation(sizes[i])[: generator.integers(1, sizes[i] + 1)]
        evidence[int(i)] = tuple(sorted(int(x) for x in several))
    return records, evidence


@given(network=networks(), seed=SEEDS)
def test_joint_distributions_are_sums_of_products(network, seed):
    distribution = multiplied(network)
    assert distribution.sum() == pytest.approx(1)
    records, evidence = questions(seed, distribution.shape)
    found = network.joint(records, evidence)
    assert found.shape == tuple(distribution.shape[i] for i in records)
    assert found == pytest.approx(summed(distribution, records, evidence), abs=1e-12)


@given(network=networks())
def test_outcomes_are_all_that_can_happen(network):
    distribution = multiplied(network)
    rows, chances = network.outcomes()
    assert {tuple(row): p for row, p in zip(rows.tolist(), chances.tolist(), strict=True)} == pytest.approx(
        {tuple(int(x) for x in row): float(distribution[tuple(row)]) for row in np.argwhere(distribution > 0)}
    )
    assert len({tuple(row) for row in rows.tolist()}) == len(rows)


@given(network=networks(), seed=SEEDS)
def test_distributions_given_what_is_known(network, seed):
    distribution = multiplied(network)
    records, evidence = questions(seed, distribution.shape)
    names = [network.records[i] for i in records]
    known = {network.records[i]: [network.domains[i][x] for x in states] for i, states in evidence.items()}
    expected = summed(distribution, records, evidence)
    assert network.probability(known) == pytest.approx(expected.sum(), abs=1e-12)
    if expected.sum() > 0:
        assert network.distribution(*names, given=known) == pytest.approx(expected / expected.sum(), abs=1e-9)
    else:
        with pytest.raises(ModelError, match="has probability 0"):
            network.distribution(*names, given=known)


@given(network=networks())
def test_components_are_independent_and_no_link_crosses_them(network):
    distribution = multiplied(network)
    n = len(network.nodes)
    assert sorted(itertools.chain(*network.components)) == list(range(n))
    product = np.ones(())
    for part in network.components:
        inside = {network.records[i] for i in part}
        assert all(set(network.nodes[i].parents) <= inside for i in part)
        product = np.multiply.outer(product, summed(distribution, list(part), {}))
    order = list(itertools.chain(*network.components))
    assert np.transpose(product, [order.index(i) for i in range(n)]) == pytest.approx(distribution, abs=1e-12)
    reached = {0}
    for _ in range(n):
        for i, node in enumerate(network.nodes):
            linked = {i, *(network.records.index(p) for p in node.parents)}
            reached |= linked if linked & reached else set()
    assert next(part for part in network.components if 0 in part) == tuple(sorted(reached))


@given(network=networks())
def test_a_file_gives_back_the_network(network):
    again = model_from_dict(json.loads(json.dumps(model_to_dict(network))))
    assert isinstance(again, BayesianNetwork)
    assert (again.records, again.domains, again.values) == (network.records, network.domains, network.values)
    assert all((a.table == b.table).all() for a, b in zip(again.nodes, network.nodes, strict=True))
    assert model_digest(again) == model_digest(network)
    assert repr(again) == repr(network)


def test_parents_come_first_in_the_order():
    above = {"leaf": ["b", "a"], "b": ["a"], "alone": [], "a": []}
    nodes = [
        Node(name=name, states=["x", "y"], parents=parents, table=np.full((2,) * (len(parents) + 1), 0.5))
        for name, parents in above.items()
    ]
    network = BayesianNetwork(nodes=tuple(nodes))
    assert [network.records[v] for v in network.order] == ["alone", "a", "b", "leaf"]
    assert network.parents == ((1, 3), (3,), (), ())
    assert network.components == ((0, 1, 3), (2,))


def test_what_a_network_says_of_itself(tmp_path):
    network = model_from_dict({**GOOD, "values": {"no": 0, "yes": 1, "dry": 0, "wet": 2}, "fitted": {"records": 3}})
    assert isinstance(network, BayesianNetwork)
    assert repr(network) == "BayesianNetwork(2 records, 2 to 2 states, at most 1 parent)"
    assert repr(network.nodes[1]) == "Node(wet given rain; 2 states)"
    assert network.labels == ("no", "yes", "dry", "wet")
    assert network.values == (0, 1, 0, 2)
    assert (network.sizes, network.size, network.bins, network.record_models) == ((2, 2), 4, None, (network,))
    assert [f.scope for f in network.factors] == [(0,), (0, 1)]
    assert network.distribution("rain", given={"wet": "wet"}) == pytest.approx([0.08 / 0.28, 0.2 / 0.28])
    assert network.distribution("wet", "rain")[1, 0] == pytest.approx(0.08)
    save_model(network, tmp_path / "m.json")
    again = load_model(tmp_path / "m.json")
    assert model_digest(again) == model_digest(network)
    assert again.fitted == {"records": 3}


def test_states_that_are_numbers_are_their_own_values():
    node = Node(name="x", states=["0", "2.5"], table=[0.5, 0.5])
    assert BayesianNetwork(nodes=(node,)).values == (0, 2.5)
    assert BayesianNetwork(nodes=(node,), values=(1, 3)).values == (1, 3)


def test_almost_right_rows_are_scaled_once_and_for_all():
    once = BayesianNetwork(nodes=(Node(name="x", states=["a", "b"], table=[0.5, 0.5 + 5e-10]),))
    assert once.nodes[0].table.sum() == pytest.approx(1, abs=3e-16)
    twice = BayesianNetwork(nodes=once.nodes)
    assert (once.nodes[0].table == twice.nodes[0].table).all()


def changed(which, **change):
    nodes = [dict(RAIN), dict(WET)]
    nodes[which].update(change)
    return {"nodes": nodes}


THREE = [[[0.5, 0.5]] * 2] * 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"nodes": []}, "nodes is empty; a network needs at least one node"),
        (changed(1, name="rain", parents=[], table=[1, 0]), "record 'rain' is named twice"),
        (changed(0, name=""), "a node's name is ''; it must be a text that is not empty"),
        (
            changed(1, parents=["snow"]),
            "node 'wet' has the parent 'snow', which is not a node; the nodes are rain, wet",
        ),
        (changed(1, parents=["wet"]), "node 'wet' is its own parent"),
        (changed(1, parents=["rain", "rain"], table=THREE), "node 'wet' has the parent 'rain' twice"),
        (changed(1, parents=[f"p{n}" for n in range(64)]), "node 'wet' has 64 parents; at most 63"),
        (changed(0, parents=["wet"], table=[[1, 0], [0, 1]]), "in a circle: rain -> wet -> rain; take one"),
        (changed(0, states=[]), "the states of node 'rain' are (); they must be a list of names"),
        (changed(0, states=["no", "no"]), "node 'rain': state 'no' is named twice"),
        (changed(0, states=["", "no"]), "node 'rain': a state has an empty name"),
        (
            changed(1, table=[[1, 0]]),
            "the table of node 'wet' is 1×2; it must be 2×2: one row for each of the 2 states",
        ),
        (changed(1, table=[[1, 0, 0], [0, 1, 0]]), "is 2×3; it must be 2×2"),
        (changed(1, table=[1, 0]), "the table of node 'wet' is a list of 2 numbers; it must be 2×2"),
        (
            changed(1, table=[[1, 0], [1]]),
            "the table of node 'wet' must be a table of numbers, every row of the same length",
        ),
        (changed(1, table=[["1", 0], [1, 0]]), "the table of node 'wet' must be a table of numbers"),
        (changed(1, table=[[1, 0], [0.5, 0.6]]), "row (rain = yes) of node 'wet' sums to 1.1; it must sum to 1 within"),
        (changed(1, table=[[1, 0], [1.1, -0.1]]), "entry 2 of row (rain = yes) of node 'wet' is -0.1"),
        (changed(1, table=[[math.nan, 0], [1, 0]]), "entry 1 of row (rain = no) of node 'wet' is nan"),
        (changed(1, table=[[math.inf, -math.inf], [1, 0]]), "entry 1 of row (rain = no) of node 'wet' is inf"),
        (changed(0, table=[1e308, 1e308]), "the table of node 'rain' sums to inf"),
        (changed(0, table=[0.5, 0.5 + 2e-9]), "the table of node 'rain' sums to 1.000000002"),
        ({"values": {"no": 0}}, "values must give a number for each of no, yes, dry, wet"),
        ({"values": {"no": 0, "yes": 1, "dry": 2, "wet": math.inf}}, "values must be finite numbers"),
        ({"bif": "x.bif"}, "nodes and bif are both given; a network has"),
        ({"nodes": None}, "neither nodes nor bif is given; a network has"),
        ({"bif": 3, "nodes": None}, "bif is 3; it must be text (in a bayesian_network file)"),
        ({"colour": 1}, "colour is not a key"),
        (changed(0, colour=1), "nodes.0.colour is not a key"),
        (changed(0, table="x"), 'nodes.0.table is "x"; it must be a list'),
        ({"nodes": [{"name": "a", "states": ["b"]}]}, "nodes.0.table is missing"),
    ],
)
def test_refusals_name_the_value(change, says):
    with pytest.raises(ModelError) as refused:
        model_from_dict({**GOOD, **change})
    assert says in str(refused.value)


def test_refusals_of_nodes_made_in_code():
    with pytest.raises(ModelError, match="the parents of node 'x' are 'y'; they must be a list"):
        Node(name="x", states=["a"], parents="y", table=[[1]])
    with pytest.raises(ModelError, match="nodes holds 'x'; it must be a list of nodes"):
        BayesianNetwork(nodes=("x",))


def test_a_longer_cycle_is_named_in_the_direction_of_its_links():
    parents = {"a": ["c", "root"], "b": ["a"], "c": ["b"], "root": [], "leaf": ["c"]}
    nodes = [
        Node(name=name, states=["s"], parents=above, table=np.ones((1,) * (len(above) + 1)))
        for name, above in parents.items()
    ]
    with pytest.raises(ModelError, match="a -> b -> c -> a"):
        BayesianNetwork(nodes=tuple(nodes))


def test_questions_about_records_that_are_not_there():
    network = model_from_dict(GOOD)
    for ask, says in [
        (lambda: network.distribution("snow"), "there is no record 'snow'; the model has rain, wet"),
        (lambda: network.distribution("rain", "rain"), "record 'rain' is named twice"),
        (
            lambda: network.distribution("rain", given={"wet": "damp"}),
            "record 'wet' has no state 'damp'; it has dry, wet",
        ),
        (lambda: network.distribution("rain", given={"wet": []}), "record 'wet' is left no state"),
        (
            lambda: network.distribution("wet", given={"rain": "yes", "wet": ["dry"]}),
            "rain = yes, wet = dry has probability 0",
        ),
    ]:
        with pytest.raises(ModelError) as refused:
            ask()
        assert says in str(refused.value)


@pytest.mark.slow
def test_too_many_outcomes_are_refused_and_impossible_ones_do_not_count():
    fair = [Node(name=str(i), states=["0", "1"], table=[0.5, 0.5]) for i in range(21)]
    with pytest.raises(ModelError, match=r"2,097,152 joint states; at most 1,048,576 can be listed"):
        BayesianNetwork(nodes=tuple(fair)).outcomes()
    copies = [Node(name=str(i), states=["0", "1"], parents=[str(i - 1)], table=np.eye(2)) for i in range(1, 100)]
    rows, distribution = BayesianNetwork(nodes=(fair[0], *copies)).outcomes()
    assert rows.tolist() == [[0] * 100, [1] * 100]
    assert distribution.tolist() == [0.5, 0.5]


def test_networks_cannot_be_changed():
    network = model_from_dict(GOOD)
    with pytest.raises(ValueError, match="read-only"):
        network.nodes[0].table[0] = 1
    with pytest.raises(AttributeError):
        network.nodes = ()


def test_a_class_of_models_joins_what_any_of_them_joins():
    def pairs(*links):
        nodes = []
        for i in range(4):
            above = [str(a) for a, b in links if b == i]
            nodes.append(
                Node(name=str(i), states=["0", "1"], parents=above, table=np.full((2,) * (len(above) + 1), 0.5))
            )
        return BayesianNetwork(nodes=tuple(nodes), fitted={"records": len(links)} if links else None)

    several = ModelClass(models=(pairs(), pairs((2, 3)), pairs((0, 3))))
    assert several.components == ((0, 2, 3), (1,))
    first = several.models[0]
    assert several.record_models == several.models
    for name in ("records", "domains", "labels", "sizes", "size", "values", "bins"):
        assert getattr(several, name) == getattr(first, name)
    assert several.fitted == {"records": 1}
    assert several.position("2") == 2
    assert repr(several) == "ModelClass(3 models of 4 records)"
    again = model_from_dict(json.loads(json.dumps(model_to_dict(several))))
    assert isinstance(again, ModelClass)
    assert model_digest(again) == model_digest(several)


def test_classes_that_disagree_are_refused():
    table = JointTable(values=[0, 1], outcomes=[(0, 1)], probabilities=[1], records=["x", "y"])
    other_names = JointTable(values=[0, 1], outcomes=[(0, 1)], probabilities=[1])
    other_states = JointTable(values=[0, 2], outcomes=[(0, 2)], probabilities=[1], records=["x", "y"])
    nodes = [Node(name=name, states=["0", "1"], table=[0.5, 0.5]) for name in "xy"]
    other_values = BayesianNetwork(nodes=tuple(nodes), values={"0": 5, "1": 6})
    for models, says in [
        ((), "models is empty; a class needs at least one model"),
        ((table, other_names), "model 2 of the class has different records from model 1"),
        ((table, table, other_states), "model 3 of the class has different states from model 1"),
        ((table, other_values), "model 2 of the class has different values from model 1"),
        ((table, "chain"), "model 2 of the class is 'chain'; a class holds models that know their records"),
    ]:
        with pytest.raises(ModelError) as refused:
            ModelClass(models=models)
        assert says in str(refused.value)


@pytest.mark.parametrize(
    ("models", "says"),
    [
        (
            [{"type": "markov_chain", "transition": [[1]]}],
            'models.0.type is "markov_chain"; it must be one of groups, joint',
        ),
        ([GOOD, 3], "models.1 is 3; it must be an object"),
        ([{"nodes": []}], "models.0.type is null; it must be one of groups, joint, bayesian_network, pedigree"),
        ([GOOD, {**GOOD, "nodes": [RAIN, {**WET, "colour": 1}]}], "models.1.nodes.1.colour is not a key"),
        ([GOOD, {**GOOD, "nodes": [RAIN]}], "model 2 of the class has different records from model 1"),
        ([GOOD, {"type": "groups", "largest": 2}], "model 2 of the class does not know its records"),
        ([{**GOOD, "nodes": []}], "model 1 of the class: nodes is empty"),
        ([], "models is empty"),
    ],
)
def test_class_files_name_what_is_wrong(models, says):
    with pytest.raises(ModelError) as refused:
        model_from_dict({"type": "class", "models": models})
    assert says in str(refused.value)
