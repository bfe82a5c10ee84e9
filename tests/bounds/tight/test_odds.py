"""The closed form from odds ratios is never below what some algorithm leaks (Theorem 4)."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.bounds.curves import curve
from pufferdp.bounds.hidden.odds import HiddenOdds
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.odds import (
    OddsCurve,
    TreeOdds,
    contraction,
    largest_log_odds,
    odds_forever,
    odds_series,
    odds_side,
    side_bound,
)
from pufferdp.models.chain_classes import BinaryInterval, MarkovInterval
from tests.bounds.tight import cases
from tests.bounds.tight.cases import leakage_of_losses
from tests.oracles import algorithms
from tests.strategies import examples, networks, random_distribution, random_rows, random_transition

ROOM = 1e-8
EXACT = 1e-9
"""Brackets of the tight curve are as narrow as a share of 1e-10."""


def test_never_below_the_programme_on_three_hundred_chains():
    for seed in range(examples(300) // 4):  # the tight curve equals the programme, and is quicker
        case = cases.case(seed)
        programme = leakage_of_losses(case.transition, case.losses, start=case.start, adversary=case.adversary)
        n, most = len(case.losses), float(case.losses.max())
        bound, endless = (OddsCurve.of_chains([case.transition], length=length) for length in (n, None))
        series, forever = odds_series(bound, case.losses), odds_forever(endless, most)
        assert (series.total >= programme.lower - EXACT).all(), seed
        for first, last in ((series.forward[0], series.backward[-1]), (forever.forward[0], forever.backward[0])):
            assert min(first - programme.lower[0], last - programme.lower[-1]) >= -EXACT, seed
        assert min(bound(most), *forever.total) >= programme.lower.max() - EXACT, seed


def test_forever_is_not_below_the_programme_of_a_chain_that_soon_forgets():
    P = [[0.6, 0.4], [0.4, 0.6]]
    worst, found = algorithms.leakage([P], [0.5, 0.5], [0.1] * 4, "bdp"), odds_forever(OddsCurve.of_chains([P]), 0.1)
    assert min(*(found.backward - worst[-1]), *(found.forward - worst[0]), *(found.total - max(worst))) >= -ROOM


def test_any_start_is_below_it_too():
    for seed in range(examples(40)):
        generator = np.random.default_rng([seed, 5])
        P, loss = cases.transition(generator, int(generator.integers(2, 4))), cases.loss(generator)
        n = int(generator.integers(1, 12))
        for who in ("bdp", "pufferfish"):
            reached = TightCurve(P, start="any", length=n, adversary=who).leakage(loss).lower
            assert OddsCurve.of_chains([P], length=n)(loss) >= reached - EXACT, (seed, who)


def in_box(generator, low, high):
    """A table between two others, often at their corners."""
    out = np.array(low)
    for x, row in enumerate(out):
        for y in generator.permutation(len(row)):
            room = min(high[x, y] - row[y], 1 - row.sum())
            row[y] += room if generator.random() < 0.7 else generator.uniform(0, max(room, 0.0))
        while row.sum() < 1 - 1e-12:  # fill up what is left
            y = int(np.argmax(high[x] - row))
            row[y] += min(high[x, y] - row[y], 1 - row.sum())
    return out / out.sum(axis=1, keepdims=True)


@pytest.mark.slow
def test_boxes_hold_for_every_chain_inside_also_one_that_changes():
    for seed in range(examples(60)):
        generator = np.random.default_rng([seed, 6])
        k, n = int(generator.integers(2, 5)), int(generator.integers(1, 12))
        middle, width = generator.dirichlet(np.full(k, 1.5), size=k), generator.choice([0.02, 0.1, 0.3])
        low, high = np.clip(middle - width, 0, 1), np.clip(middle + width, 0, 1)
        loss = cases.loss(generator)
        bounds = [
            OddsCurve.of_box(low, high)(loss),
            OddsCurve.of_box(low, high, length=n)(loss),
            curve("odds", MarkovInterval(low=low, high=high), n)(loss),
        ]
        for steps in (1, 1, max(1, n - 1), max(1, n - 1)):
            kernels = [in_box(generator, low, high) for _ in range(steps)]
            found = leakage_of_losses(kernels, np.full(n, loss), start=random_distribution(generator, k))
            assert min(bounds) >= found.lower.max() - EXACT, seed


def test_binary_intervals_hold_for_every_chain_inside():
    for seed in range(examples(60)):
        generator = np.random.default_rng([seed, 7])
        low, high = np.sort(generator.choice([0.0, 0.1, 0.3, 0.5, 0.8, 0.95, 1.0], size=2))
        n, loss = int(generator.integers(1, 15)), cases.loss(generator)
        bound = curve("odds", BinaryInterval(low=low, high=high), n)(loss)
        for _ in range(4):
            stays = generator.choice([low, high, generator.uniform(low, high)], size=(max(1, n - 1), 2))
            kernels = np.array([[[a, 1 - a], [1 - b, b]] for a, b in stays])
            found = leakage_of_losses(kernels, np.full(n, loss), start=random_distribution(generator, 2))
            assert bound >= found.lower.max() - EXACT, seed


@pytest.mark.slow
def test_hidden_chains():
    for seed in range(examples(40)):
        generator = np.random.default_rng([seed, 8])
        hidden, values, n = int(generator.integers(2, 4)), int(generator.integers(2, 4)), 3
        A, shown = cases.transition(generator, hidden), random_rows(generator, hidden, values)
        losses, target = cases.losses(generator, n), int(generator.integers(n))
        joint = algorithms.hidden_table(A, shown, random_distribution(generator, hidden), n)
        programme = algorithms.joint_leakage(joint, losses, target, "every")
        odds = HiddenOdds.of(A, shown, length=n)
        largest = float(losses.max())
        assert odds(largest) - (largest - losses[target]) >= programme - ROOM, seed


def random_tree(generator, n):
    """A root's distribution, and edges to new records; tables with zeros."""
    k = int(generator.integers(2, 4 if n < 4 else 3))
    edges = [(int(generator.integers(child)), child, random_rows(generator, k, k)) for child in range(1, n)]
    return random_distribution(generator, k), edges


def test_trees():
    for seed in range(examples(32)):
        generator = np.random.default_rng([seed, 9])
        n = int(generator.integers(2, 5))
        distribution, edges = random_tree(generator, n)
        losses, target = cases.losses(generator, n), int(generator.integers(n))
        programme = algorithms.joint_leakage(algorithms.tree_table(distribution, edges), losses, target, "every")
        tree = TreeOdds(edges, nodes=range(n))
        assert tree.of_losses(dict(enumerate(losses.tolist())))[target] >= programme - ROOM, seed
        assert tree(float(losses.max())) >= programme - ROOM, seed


def collider(generator, k):
    """Two independent causes, what they cause together, and a consequence of that."""
    distributions = random_distribution(generator, k), random_distribution(generator, k)
    caused, consequence = random_rows(generator, k, k, k), random_rows(generator, k, k)
    joint = np.einsum("a,b,abc,cd->abcd", *distributions, caused, consequence)
    return joint, [(0, distributions[0]), (1, distributions[1]), (0, 1, 2, caused), (2, 3, consequence)]


def test_records_with_two_parents():
    for seed in range(examples(32)):
        generator = np.random.default_rng([seed, 17])
        joint, tables = collider(generator, 2)
        losses, target = cases.losses(generator, 4), int(generator.integers(4))
        programme = algorithms.joint_leakage(joint, losses, target, "every")
        tree = TreeOdds(tables)
        assert tree.of_losses(dict(enumerate(losses.tolist())))[target] >= programme - ROOM, seed


@given(network=networks(4))
@settings(max_examples=examples(40))
def test_networks(network):
    """Where the curve applies to a network, no algorithm leaks more to anybody, whatever its records have in common."""
    bound = curve("odds", network)
    if not bound.applies:
        return
    most = max(len(node.states) for node in network.nodes)
    joint = np.ones((1,) * len(network.nodes))
    for factor in network.factors:
        order = np.argsort(factor.scope)
        shape = [len(network.nodes[i].states) if i in factor.scope else 1 for i in range(len(network.nodes))]
        joint = joint * factor.table.transpose(order).reshape(shape)
    joint = np.pad(joint, [(0, most - size) for size in joint.shape])  # values that never occur
    for loss in (0.1, 1.0):
        losses = np.full(joint.ndim, loss)
        worst = max(algorithms.joint_leakage(joint, losses, t, "every") for t in range(joint.ndim))
        assert bound(loss) >= worst - ROOM


def test_pairs_alone_would_be_wrong_where_a_record_has_two_parents():
    """One parent says nothing of the child by itself, and all of it to somebody who knows the other parent."""
    xor = np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.1, 0.9], [0.9, 0.1]]])
    joint = xor / 4
    pairs = TreeOdds([(0, 2, joint.sum(axis=1)), (1, 2, joint.sum(axis=0))])
    together = TreeOdds([(0, 1, 2, xor)])
    programme = algorithms.joint_leakage(joint, [0.5] * 3, 0, "every")
    assert pairs.of_losses(dict.fromkeys(range(3), 0.5))[0] == pytest.approx(0.5)
    assert programme > 0.8
    assert together.of_losses(dict.fromkeys(range(3), 0.5))[0] >= programme - ROOM


def test_values_that_never_occur_do_not_count_on_trees():
    """The third value of the root has probability 0, so its row says nothing; so does what only it leads to."""
    rows = np.array([[0.7, 0.3, 0.0], [0.4, 0.6, 0.0], [0.0, 0.0, 1.0]])
    with_it = TreeOdds([(0, [0.5, 0.5, 0.0]), (0, 1, rows), (1, 2, rows)])
    without = TreeOdds([(0, 1, rows[:2, :2]), (1, 2, rows[:2, :2])])
    assert with_it(0.3) == pytest.approx(without(0.3), rel=1e-12)
    assert TreeOdds([(0, 1, rows), (1, 2, rows)])(0.3) == pytest.approx(0.9)  # nothing better than all three
    joint = algorithms.tree_table([0.5, 0.5, 0.0], [(0, 1, rows), (1, 2, rows)])
    for target in range(3):
        programme = algorithms.joint_leakage(joint, [0.3] * 3, target, "every")
        assert with_it.of_losses(dict.fromkeys(range(3), 0.3))[target] >= programme - ROOM


@given(a=st.floats(0, 12), b=st.floats(0, 12))
def test_contraction_is_the_largest_of_two_by_two_tables(a, b):
    """Among tables with odds ratio e^a and functions that vary by b, over common weights: never more than C(a, b)."""
    weights = np.exp(np.linspace(-15, 15, 1201))  # odds of the first column in the second row
    top = (math.exp(a) * weights * math.exp(b) + 1) / (math.exp(a) * weights + 1)
    bottom = (weights * math.exp(b) + 1) / (weights + 1)
    reached = float(np.log(top / bottom).max())
    bound = float(contraction(a, b))
    assert reached <= bound + 1e-9
    assert bound <= reached + 0.01
    assert bound == pytest.approx(float(contraction(b, a)), abs=1e-12)


def test_what_never_occurs_does_not_count():
    table = [[0.7, 0.3, 0.0], [0.4, 0.6, 0.0], [0.0, 0.0, 0.0]]
    assert largest_log_odds(table) == pytest.approx(math.log(0.7 * 0.6 / (0.3 * 0.4)))
    assert largest_log_odds([[1.0, 0.0], [0.0, 1.0]]) == math.inf
    assert largest_log_odds([[0.5, 0.5]]) == 0.0


def test_kernels_that_follow_each_other_in_turn_are_those_of_every_phase() -> None:
    """The largest odds ratio is that of the worst phase, zeros included."""
    generator = np.random.default_rng(4)
    for _ in range(40):
        states, several, phases = (int(n) for n in generator.integers(1, 6, size=3))
        tables = np.array([random_transition(generator, states) for _ in range(several)])
        kernels = tables[generator.integers(0, several, size=phases)]
        worst = []
        for steps in range(1, 5):
            ahead = [[kernels[(phase + d) % phases] for d in range(steps)] for phase in range(phases)]
            worst.append(max(largest_log_odds(functools.reduce(np.matmul, each)) for each in ahead))
        assert OddsCurve.of_chains([kernels]).log_odds[:4] == pytest.approx(worst, abs=1e-11)


def test_a_series_of_equal_losses_rises_to_the_side_of_any_length() -> None:
    # Losses from 1e-12 to 300 and odds from none to e^250: no digits are lost, and the closed form is not below.
    generator = np.random.default_rng(8)
    for _ in range(50):
        loss, log_odds = (float(10.0 ** generator.uniform(*ends)) for ends in ((-12, 2.5), (-6, 2.4)))
        ever, added = side_bound(loss, [log_odds]), odds_side(np.full(200, loss), [log_odds])
        assert (np.diff(added) >= 0).all()
        assert added[-1] <= ever * (1 + 1e-9)
        assert ever == pytest.approx(float(contraction(log_odds, loss + ever)), rel=1e-9)


def test_the_largest_odds_ratio_of_all_pairs_of_rows_and_columns() -> None:
    table = np.random.default_rng(4).dirichlet(np.ones(7), size=7)
    squares = np.ndindex(7, 7, 7, 7)
    true = max(math.log(table[a, u] * table[b, v] / (table[a, v] * table[b, u])) for a, b, u, v in squares)
    assert largest_log_odds(table) == pytest.approx(true, rel=1e-12)
