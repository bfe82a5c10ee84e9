"""No DP algorithm leaks more about a record of a chain of second order than its curves say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pufferdp.bounds.curves import best_curve, curve
from pufferdp.bounds.hidden.uninformed import UninformedBound
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.models.hidden import HiddenMarkov
from pufferdp.models.hidden_states import HiddenStates
from tests.bounds.tight import cases
from tests.oracles import algorithms
from tests.strategies import examples

ROOM = 1e-8
PARTS = 32


def second_order_table(table, first, n):
    """The distribution of n records, one axis each; ``first`` is that of the first record and the one before it."""
    k = len(table)
    out = np.zeros((k,) * n)
    for series in itertools.product(range(k), repeat=n):
        for before in range(k):
            chance, last = first[before, series[0]], before
            for x, y in itertools.pairwise(series):
                chance *= table[last, x, y]
                last = x
            out[series] += chance
    return out


def random_table(generator, k):
    """Usual tables, some with zeros, some nearly or wholly of first order."""
    table = np.maximum(generator.dirichlet(np.full(k, generator.choice([0.5, 1, 3])), size=(k, k)), cases.LEAST)
    kind = generator.choice(["usual", "first", "nearly", "zeros"])
    if kind == "first":
        table[:] = table[0]
    elif kind == "nearly":
        table = 0.2 * table + 0.8 * table[:1]
    elif kind == "zeros":
        table = np.where(table < 0.2, 0.0, table)
        table[table.sum(axis=-1) == 0] = 1.0
    return table / table.sum(axis=-1, keepdims=True)


def memory_case(seed):
    generator = np.random.default_rng([seed, 91])
    k = int(generator.choice([2, 2, 2, 3]))
    n = int(generator.integers(1, 5 if k == 2 else 4))
    return generator, random_table(generator, k), n, cases.loss(generator)


def all_pairs(table):
    """The hidden chain of all pairs of neighbours: pair (x, y) has number x·k + y, and its record is y."""
    k = len(table)
    moves = np.zeros((k, k, k, k))
    for x in range(k):
        for y in range(k):
            moves[x, y, y] = table[x][y]
    return HiddenMarkov(transition=moves.reshape(k * k, k * k), emission=np.tile(np.eye(k), (k, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_never_below_the_programme(part):
    for seed in range(part, examples(300), PARTS):
        generator, table, n, loss = memory_case(seed)
        model, hidden = HiddenStates.of_order(table), all_pairs(table)
        k, kept = len(table), generator.random() < 0.5
        first = (
            hidden.start_distribution.reshape(k, k) if kept else generator.dirichlet(np.full(k * k, 0.5)).reshape(k, k)
        )
        joint = second_order_table(table, first, n)
        known = max(algorithms.joint_leakage(joint, [loss] * n, t, "every") for t in range(n))
        for length in (n, 1000):  # passed one by one, and settled
            assert curve("odds", model, length)(loss) >= known - ROOM, seed
        if kept:
            alone = max(algorithms.joint_leakage(joint, [loss] * n, t, "pufferfish") for t in range(n))
            bound = UninformedBound(hidden.transition, hidden.emission, first.ravel(), length=n)
            assert bound(loss) >= alone - ROOM, seed


def test_a_chain_of_first_order_written_as_second_is_near_the_chain():
    """Never below the tight bound of the chain; without known records close to it."""
    activity = np.array([[0.882, 0.118], [0.305, 0.695]])
    model = HiddenStates.of_order([activity, activity])
    for loss in (0.1, 0.5, 1.0):
        for adversary, most in (("bdp", 1.45), ("pufferfish", 1.25)):
            tight = TightCurve(activity, length=10, adversary=adversary)(loss)
            bound = min(curve(name, model, 10, adversary)(loss) for name in ("potential", "odds"))
            assert tight * (1 - 1e-3) <= bound <= most * tight
        tight = TightCurve(activity, length=10, adversary="pufferfish")(loss)
        assert tight - ROOM <= curve("tight", model, 10, "pufferfish")(loss) <= 1.05 * tight


def test_ten_per_cent_less_noise_would_break_the_guarantee():
    """Where nobody knows a record the bound is so near that a tenth more loss passes it."""
    table = np.array([[[0.9, 0.1], [0.4, 0.6]], [[0.6, 0.4], [0.2, 0.8]]])
    model = HiddenStates.of_order(table)
    joint = second_order_table(table, all_pairs(table).start_distribution.reshape(2, 2), 4)
    loss = curve("tight", model, 4, "pufferfish").inverse(1.0)
    most = [
        max(algorithms.joint_leakage(joint, [share * loss] * 4, t, "pufferfish") for t in range(4))
        for share in (1.0, 1.1)
    ]
    assert most[0] <= 1 + ROOM
    assert most[1] > 1.0


def test_zeros_take_the_potential_bound_or_group_privacy():
    model = HiddenStates.of_order([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]])
    assert best_curve(model, 5)(0.3) == pytest.approx(1.5)
    some = HiddenStates.of_order([[[0.5, 0.5], [0.0, 1.0]], [[0.4, 0.6], [0.5, 0.5]]])
    assert best_curve(some, 10**6)(0.01) < 1.0
