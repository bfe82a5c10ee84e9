"""Exact inference along the tree: against the product of all tables, and what it refuses."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp.basics.errors import NotApplicableError
from pufferdp.models.inference import MOST_ENTRIES, Factor, JunctionTree, connected, neighbours
from pufferdp.models.network import BayesianNetwork, Node
from tests.models.test_network import questions, summed
from tests.oracles import records as brute
from tests.strategies import SEEDS, random_rows


def drawn(generator, n, share, rows=random_rows):
    """Any graph without cycles over n records of one to three states: parents, tables and the tree."""
    sizes = [int(k) for k in generator.choice([1, 2, 2, 2, 3], size=n)]
    order = generator.permutation(n)
    parents: list[list[int]] = [[] for _ in range(n)]
    for place, v in enumerate(order):
        parents[v] = [int(u) for u in order[:place] if generator.random() < share][:4]
    tables = [rows(generator, *(sizes[u] for u in above), sizes[v]) for v, above in enumerate(parents)]
    factors = [Factor((*above, v), table) for v, (above, table) in enumerate(zip(parents, tables, strict=True))]
    return parents, tables, JunctionTree(sizes, factors, [f"n{v}" for v in range(n)])


@given(seed=SEEDS, n=st.integers(1, 9), share=st.sampled_from([0.1, 0.3, 0.6]))
def test_distributions_are_sums_of_products(seed, n, share):
    """Several questions to one tree: what one question leaves behind must not show in the next."""
    generator = np.random.default_rng(seed)
    parents, tables, tree = drawn(generator, n, share)
    distribution = brute.network_joint(parents, tables, distributions=np.asarray)
    for _ in range(6):
        records, evidence = questions(generator.integers(2**32), distribution.shape)
        found, expected = tree.joint(records, evidence), summed(distribution, records, evidence)
        assert found == pytest.approx(expected, rel=1e-9, abs=0)
        assert ((found > 0) == (expected > 0)).all()
    parts = connected(brute.moral(parents))
    assert sorted(itertools.chain(*parts)) == list(range(n))
    assert all(set(part) == brute.around(brute.moral(parents), part[0]) for part in parts)


def test_parts_that_share_nothing_multiply():
    """Three parts; questions across them, and about none of their records."""
    generator = np.random.default_rng(2)
    chain = generator.dirichlet([1, 1], size=2)
    factors = [Factor((0,), np.array([0.3, 0.7])), Factor((0, 1), chain)]
    factors += [Factor((2,), np.array([0.2, 0.8])), Factor((2, 3), chain[::-1]), Factor((4,), np.array([0.1, 0.9]))]
    tree = JunctionTree([2] * 5, factors, "abcde")
    left = np.array([0.3, 0.7]) @ chain
    right = np.array([0.2, 0.8]) @ chain[::-1]
    assert tree.joint((3, 4, 1)) == pytest.approx(np.einsum("i,j,k", right, [0.1, 0.9], left), rel=1e-12)
    assert tree.joint((), {1: (0,), 4: (1,)}) == pytest.approx(left[0] * 0.9, rel=1e-12)
    assert tree.joint(()) == pytest.approx(1.0, rel=1e-12)
    assert tree.joint((1,), {1: ()}) == pytest.approx(np.zeros(2), abs=0)
    assert connected(neighbours(5, factors)) == [(0, 1), (2, 3), (4,)]


@pytest.mark.slow
def test_a_question_costs_what_lies_between_its_records():
    """A chain of 1,500 records: no recursion, and near records are cheap once the messages are there."""
    P = np.array([[0.9, 0.1], [0.4, 0.6]])
    nodes = [Node(name="0", states=["0", "1"], table=[0.5, 0.5])]
    nodes += [Node(name=str(t), states=["0", "1"], parents=[str(t - 1)], table=P) for t in range(1, 1500)]
    tree = BayesianNetwork(nodes=tuple(nodes)).tree
    assert tree.joint((1499,)) == pytest.approx([0.8, 0.2], rel=1e-9)
    assert tree.joint((0,)) == pytest.approx([0.5, 0.5], rel=1e-9)
    before = tree.work
    assert tree.joint((750, 751)) == pytest.approx(np.array([[0.8], [0.2]]) * P, rel=1e-9)
    near = tree.work - before
    tree.joint((500, 1000))
    assert near < 100 < tree.work - before - near


def test_tables_that_are_too_large_are_refused_with_their_place():
    """A grid of 10×10 records with 8 states: any order of elimination meets a table of about 8^10 entries."""
    nodes = []
    for x, y in itertools.product(range(10), repeat=2):
        above = [f"{u}.{v}" for u, v in ((x - 1, y), (x, y - 1)) if u >= 0 and v >= 0]
        table = np.full((8,) * (len(above) + 1), 1 / 8)
        nodes.append(Node(name=f"{x}.{y}", states=[str(s) for s in range(8)], parents=above, table=table))
    grid = BayesianNetwork(nodes=tuple(nodes))
    with pytest.raises(NotApplicableError, match=f"around record '\\d\\.\\d'; the limit is {MOST_ENTRIES:,}"):
        grid.distribution("0.0")


def test_questions_about_too_many_records_are_refused():
    nodes = [Node(name=f"n{v}", states=["0", "1"], table=[0.5, 0.5]) for v in range(24)]
    network = BayesianNetwork(nodes=tuple(nodes))
    assert network.joint(range(20), {}).shape == (2,) * 20
    with pytest.raises(NotApplicableError, match="entries around record 'n0'; the limit is 8,388,608"):
        network.joint(range(24), {})


def steep_rows(generator, *shape):
    """Distributions whose masses lie down to 1e-140."""
    rows = 10.0 ** -generator.uniform(0, 140, size=shape)
    rows[..., generator.integers(shape[-1])] = 1.0
    return np.where(generator.random(shape) < 0.1, 0.0, rows) + (rows == 1.0)


@given(seed=SEEDS, n=st.integers(1, 5))
def test_what_is_possible_is_refused_sooner_than_called_impossible(seed, n):
    generator = np.random.default_rng(seed)
    parents, tables, tree = drawn(generator, n, 0.6, rows=steep_rows)
    exactly = brute.network_joint(parents, tables, distributions=np.vectorize(brute.Fraction, otypes=[object]))
    for _ in range(3):
        records, evidence = questions(generator.integers(2**32), exactly.shape)
        try:
            found = tree.joint(records, evidence)
        except NotApplicableError as refusal:
            assert "too small for exact inference" in str(refusal)
            assert any(f"'n{v}'" in str(refusal) for v in range(n))
            continue
        expected = summed(exactly, records, evidence)
        assert ((found > 0) == (expected > 0)).all()
        assert found == pytest.approx(expected.astype(float), rel=1e-9, abs=0)


def test_small_probabilities_are_refused_by_name():
    """Three steps of 1e-100 come to 1e-300 and further; one step is fine."""
    nodes = [Node(name="a", states=["0", "1"], table=[1.0, 1e-100])]
    for name, above in (("b", "a"), ("c", "b"), ("d", "c")):
        nodes.append(Node(name=name, states=["0", "1"], parents=[above], table=[[1.0, 1e-100], [1e-100, 1.0]]))
    network = BayesianNetwork(nodes=tuple(nodes))
    assert network.joint([0, 1], {})[1, 1] == pytest.approx(1e-100, rel=1e-9)
    with pytest.raises(NotApplicableError, match="fall below 1e-290"):
        network.joint([0, 1, 2, 3], {})
    assert math.isclose(network.joint([], {}).item(), 1.0)
