"""The tight bound against a second implementation of Theorems 1 and 2: one pass at many μ, chords, a search."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.recursion.chain import TightCurve as RecursionBound
from benchmarks.recursion.series import leakage_of_losses

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.chain import TightCurve
from tests.oracles import algorithms

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
W = [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]
ZEROS = [[0.5, 0.5, 0.0], [0.0, 0.6, 0.4], [0.3, 0.0, 0.7]]
VALUES = [
    (ACTIVITY, "stationary", None, 0.1, "bdp", 0.389343703),
    (ACTIVITY, "stationary", None, 0.1, "pufferfish", 0.385979179),
    (ACTIVITY, "stationary", None, 1.0, "pufferfish", 3.458264744),
    (ACTIVITY, "stationary", 10, 0.5, "bdp", 1.845699430),
    (ACTIVITY, [1.0, 0.0], 5, 0.5, "bdp", 1.203268585),
    (W, "stationary", None, 0.1, "bdp", 0.321600960),
    (W, "stationary", None, 0.5, "pufferfish", 1.578178765),
    (W, "stationary", None, 1.0, "bdp", 2.891620073),
    (W, "stationary", 5, 0.5, "bdp", 1.324256877),
    (ZEROS, [1.0, 0.0, 0.0], 6, 0.4, "bdp", 1.339441719),
    (ZEROS, [1.0, 0.0, 0.0], 6, 0.4, "pufferfish", 1.331339562),
    (ZEROS, "stationary", None, 0.4, "bdp", 1.453461210),
]


@pytest.mark.parametrize(("transition", "start", "length", "loss", "adversary", "value"), VALUES)
def test_check_values(transition, start, length, loss, adversary, value):
    bound = RecursionBound(transition, start=start, length=length, adversary=adversary, tolerance=1e-9)
    found = bound.leakage(loss)
    assert found.lower == pytest.approx(value, rel=3e-8) == found.upper


def test_unequal_losses():
    found = leakage_of_losses(ACTIVITY, [0.1, 0, 0.3, 0.2, 0, 0.1], start=[0.9, 0.1], tolerance=1e-9)
    assert found.value == pytest.approx(0.455592515, rel=1e-8)
    assert found.worst == 3
    assert leakage_of_losses(W, [0.5, 0.1, 0.1, 0.3], tolerance=1e-9).value == pytest.approx(0.630401, rel=1e-6)


def ugly(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
    """A short series: a chain with zeros or without, a first distribution, losses and an adversary."""
    generator = np.random.default_rng(seed)
    k, n = int(generator.integers(2, 4)), int(generator.integers(1, 5))
    table = generator.dirichlet(np.full(k, generator.choice([0.3, 1, 3])), size=k)
    table = np.where(table < generator.choice([0, 0.2]), 0, table)
    table = np.where(table.sum(axis=1, keepdims=True) == 0, np.eye(k), table)
    start = generator.dirichlet(np.ones(k)) if generator.random() < 0.6 else np.eye(k)[generator.integers(k)]
    losses = generator.choice([0.0, 0.1, 0.5, 2.0], size=n)
    who = str(generator.choice(["bdp", "pufferfish"]))
    return table / table.sum(axis=1, keepdims=True), start, losses, who


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_short_series_are_what_the_linear_programme_says(first):
    for seed in range(first, first + 20):
        table, start, losses, who = ugly(seed)
        programme = algorithms.leakage([table], start, losses, who)
        found = leakage_of_losses(table, losses, start=start, adversary=who, tolerance=1e-9)
        np.testing.assert_allclose(found.upper, programme, rtol=1e-6, atol=1e-9, err_msg=str(seed))
        coarse = leakage_of_losses(table, losses, start=start, adversary=who, tolerance=1e-3)
        assert (coarse.upper >= programme * (1 - 1e-7) - 1e-9).all(), seed
        assert (coarse.upper <= programme * 1.0011 + 1e-9).all(), seed


def usual(seed: int) -> tuple[np.ndarray, str | np.ndarray, int | None, str, float] | None:
    """A chain that forgets, with zeros or slow now and then; its start, length, adversary and loss."""
    generator = np.random.default_rng(seed)
    k = int(generator.integers(2, 6))
    table = generator.dirichlet(np.full(k, generator.choice([0.3, 1, 3])), size=k)
    kind = generator.random()
    if kind < 0.3:
        table = 0.9 * np.eye(k) + 0.1 * table
    elif kind < 0.5:
        table = np.where(table < 0.1, 0, table)
    if (table.sum(axis=1) == 0).any():
        return None
    table /= table.sum(axis=1, keepdims=True)
    chain = inputs.chain(table, "stationary")
    if not chain.primitive or chain.start is None or (chain.start <= 0).any():
        return None
    length = int(generator.choice([0, 2, 3, 5, 9, 30])) or None
    who = str(generator.choice(["bdp", "pufferfish"]))
    start = generator.dirichlet(np.ones(k)) if length is not None and generator.random() < 0.3 else "stationary"
    return table, start, length, who, float(np.exp(generator.uniform(np.log(1e-3), np.log(4))))


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_brackets_of_both_implementations_overlap(first):
    compared = 0
    for seed in range(first, first + 25):
        case = usual(seed)
        if case is None:
            continue
        table, start, length, who, loss = case
        new = RecursionBound(table, start=start, length=length, adversary=who).leakage(loss)
        found = TightCurve(table, start=start, length=length, adversary=who).leakage(loss)
        assert new.upper >= found.lower * (1 - 1e-11), seed
        assert new.lower <= found.upper * (1 + 1e-11), seed
        assert new.upper <= found.upper * 1.002, seed
        compared += 1
    assert compared > 10


@pytest.mark.slow
@pytest.mark.parametrize(("stay", "length"), [(0.99, None), (0.999, None), (0.999, 2000)])
@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_blocks_of_slow_chains_close_brackets(stay, length, who):
    generator = np.random.default_rng(7)
    moves = generator.random((3, 3)) + 0.05
    np.fill_diagonal(moves, 0)
    table = stay * np.eye(3) + (1 - stay) * moves / moves.sum(axis=1, keepdims=True)
    loss = 0.3 * (1 - stay)
    new = RecursionBound(table, length=length, adversary=who).leakage(loss)
    found = TightCurve(table, length=length, adversary=who).leakage(loss)
    assert new.lower <= found.upper * (1 + 1e-9)
    assert found.lower * (1 - 1e-9) <= new.upper <= found.upper * 1.002


def test_the_inverse_leaks_no_more_and_little_less():
    bound = RecursionBound(W, length=50)
    loss = bound.inverse(1.0)
    assert bound(loss) <= 1.0
    assert TightCurve(W, length=50)(loss) > 1 - 1e-4
