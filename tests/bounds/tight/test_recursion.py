"""The tight bound against a second implementation of Theorems 1 and 2: one pass at many μ, chords, a search."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.chain import TightCurve
from tests.oracles.recursion.chain import SteadyChain

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
W = [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]
VALUES = [
    (ACTIVITY, 0.1, "bdp", 0.389343703),
    (ACTIVITY, 0.1, "pufferfish", 0.385979179),
    (ACTIVITY, 1.0, "pufferfish", 3.458264744),
    (W, 0.1, "bdp", 0.321600960),
    (W, 0.5, "pufferfish", 1.578178765),
    (W, 1.0, "bdp", 2.891620073),
]


@pytest.mark.parametrize(("transition", "loss", "adversary", "value"), VALUES)
def test_check_values(transition, loss, adversary, value):
    lower, upper = SteadyChain(transition, adversary=adversary, tolerance=1e-9).bracket(loss)
    assert lower == pytest.approx(value, rel=3e-8) == upper


def usual(seed: int) -> tuple[np.ndarray, int | None, str, float] | None:
    """A chain that forgets, with zeros or slow now and then; its length, adversary and loss."""
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
    length = generator.choice([0, 2, 3, 5, 9, 30])
    who = str(generator.choice(["bdp", "pufferfish"]))
    return table, int(length) or None, who, float(np.exp(generator.uniform(np.log(1e-3), np.log(4))))


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_brackets_of_both_implementations_overlap(first):
    compared = 0
    for seed in range(first, first + 25):
        case = usual(seed)
        if case is None:
            continue
        table, length, who, loss = case
        lower, upper = SteadyChain(table, length, who).bracket(loss)
        found = TightCurve(table, length=length, adversary=who).leakage(loss)
        assert upper >= found.lower * (1 - 1e-11), seed
        assert lower <= found.upper * (1 + 1e-11), seed
        assert upper <= found.upper * 1.002, seed
        compared += 1
    assert compared > 10


@pytest.mark.slow
@pytest.mark.parametrize(("stay", "length"), [(0.99, None), (0.999, None), (0.999, 2000)])
@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_blocks_of_slow_chains_stay_above_what_is_reached(stay, length, who):
    generator = np.random.default_rng(7)
    moves = generator.random((3, 3)) + 0.05
    np.fill_diagonal(moves, 0)
    table = stay * np.eye(3) + (1 - stay) * moves / moves.sum(axis=1, keepdims=True)
    loss = 0.3 * (1 - stay)
    lower, upper = SteadyChain(table, length, who).bracket(loss)
    found = TightCurve(table, length=length, adversary=who).leakage(loss)
    assert lower <= found.upper * (1 + 1e-9)
    assert found.lower * (1 - 1e-9) <= upper <= found.upper * 1.03
