"""Slow chains that are unlike those the slow way is meant for: against the way record by record.

Two classes that hardly ever meet, states that are left at once beside states that are hardly left, moves as rare as
1e-14, chains that go round or back and forth, and series that are as long as the chain remembers.
"""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.long.slow_series import SlowSeries
from pufferdp.bounds.tight.long.spans import forgets, path_length
from pufferdp.bounds.tight.series import leakage_of_losses
from tests.strategies import examples

# Where nothing is reached yet, a share of what is left is no number; spans are then cut into single records.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")

WHO = ("bdp", "pufferfish")
CLOSED = 1e-6
APART = np.array([[0.7, 0.3 - 1e-5, 1e-5], [0.6, 0.4, 0.0], [2e-5, 0.0, 1 - 2e-5]])
LEFT_AT_ONCE = np.array([[0.0, 0.2, 0.8], [6e-6, 1 - 1e-5, 4e-6], [3e-6, 7e-6, 1 - 1e-5]])
BACK_AND_FORTH = np.array([[1e-4, 1 - 3e-4, 2e-4], [1 - 2e-4, 1e-4, 1e-4], [0.5, 0.5, 0.0]])
SHAPES = ("apart", "left at once", "remembers", "rotating", "negative", "rare", "uneven")


def check(kernel: np.ndarray, n: int, loss: float, case: object, closed: bool = True) -> int:
    """Both adversaries; how many brackets were compared."""
    chain, compared = inputs.chain(kernel, "stationary"), 0
    for who in WHO:
        series = SlowSeries(chain, n, who == "bdp")
        if not series.serves(loss):
            continue
        compared += 1
        found = series.at(loss)
        exact = leakage_of_losses(kernel, np.full(n, loss), start="stationary", adversary=who, each=False)
        assert exact.lower.max() <= found.upper * (1 + 1e-11), (case, who)
        assert found.lower <= exact.upper.max() * (1 + 1e-9), (case, who)
        if closed and who == "pufferfish":  # of such chains not all known records are bounded well
            assert found.upper <= found.lower * (1 + CLOSED), case
    return compared


@pytest.mark.parametrize("kernel", [APART, LEFT_AT_ONCE, BACK_AND_FORTH], ids=["apart", "left", "back"])
def test_no_record_leaks_more(kernel: np.ndarray) -> None:
    """Losses large enough that almost all is said, and small ones."""
    for n, loss in ((10, 0.5), (5, 0.02)):
        assert check(kernel, n, loss, n) == len(WHO)


def random_kernel(generator: np.random.Generator, k: int, shape: str) -> np.ndarray:
    """One chain of a shape."""
    ahead = np.roll(np.eye(k), 1, axis=1)
    rows = generator.dirichlet(np.full(k, generator.choice([0.5, 1.5])), size=k)
    if generator.random() < 0.4:
        rows = np.where((generator.random((k, k)) < 0.4) & (ahead == 0), 0.0, rows)
        rows /= rows.sum(axis=1, keepdims=True)
    rare, stays = 10 ** generator.uniform(-6, -1), np.zeros(k)
    if shape == "apart":
        part = np.arange(k) < k // 2
        rows = rows * np.where(part[:, None] == part, 1.0, rare)
        stays[:] = generator.choice([0.0, 0.9, 0.999])
    elif shape == "left at once":
        rows = rows * (1 - np.eye(k)) + 1e-9 * ahead
        stays[:] = 1 - 10 ** generator.uniform(-5, -2)
        stays[generator.integers(k)] = 0.0
    elif shape == "remembers":
        stays[:] = 1 - 10 ** generator.uniform(-1.0, -0.3)
    elif shape == "rotating":
        rows = (1 - rare) * ahead + rare * rows
        stays[:] = 1 - 10 ** generator.uniform(-4, -0.5)
    elif shape == "negative":
        swap = np.where(np.arange(k)[:, None] < 2, np.eye(k)[[1, 0, *range(2, k)]], (1 - np.eye(k)) / (k - 1))
        rows = (1 - rare) * swap + rare * rows
    elif shape == "rare":
        rows = np.where(generator.random((k, k)) < 0.4, 10 ** generator.uniform(-14, -4, (k, k)), rows)
    else:
        stays = 1 - 10 ** generator.uniform(-5, 0, size=k)
    rows /= rows.sum(axis=1, keepdims=True)
    rows = np.diag(stays) + (1 - stays)[:, None] * rows
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_random_chains_of_each_shape(shape: str) -> None:
    """Where a chain forgets soon enough, about as many records as it remembers: one less, as many, one or two more."""
    compared = 0
    for seed in range(examples(8)):
        generator = np.random.default_rng([seed, SHAPES.index(shape), 51])
        kernel = random_kernel(generator, int(generator.integers(3, 5)), shape)
        chain = inputs.chain(kernel, "stationary")
        assert chain.start is not None
        if not chain.primitive or not (chain.start > 0).all() or path_length(chain.kernels[0]) == 0:
            continue
        memory = forgets(chain.kernels[0])
        n = memory + int(generator.integers(0, 4)) if memory < 100 else int(10 ** generator.uniform(0.5, 1.8))
        loss = min(8.0, float(10 ** generator.uniform(-3.5, 0.7) if seed % 2 else 10 ** generator.uniform(-1, 1) / n))
        # What is as rare as 1e-14 still says much where the chain has forgotten all else.
        compared += check(kernel, n, loss, (shape, seed), closed=shape != "rare")
    assert compared


@pytest.mark.slow
@pytest.mark.parametrize(("stay", "more"), [(0.9, -1), (0.9, 0), (0.9, 1), (0.9, 2), (0.95, 1)])
def test_series_as_long_as_the_chain_remembers(stay: float, more: int) -> None:
    """What lies beyond is bounded by what is left of it, or is not there: both are right at the border."""
    kernel = stay * np.eye(3) + (1 - stay) * np.array([[0.0, 0.9, 0.1], [0.1, 0.0, 0.9], [0.6, 0.4, 0.0]])
    n = forgets(kernel) + more
    assert check(kernel, n, 1 - stay, n) == len(WHO)
