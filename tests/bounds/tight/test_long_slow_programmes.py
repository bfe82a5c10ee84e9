"""Slow chains in the law that they keep, against linear programmes over all DP algorithms (Theorems 1 and 2).

What is meant for long series of slow chains is asked for short ones of any chain: nothing in it depends on either.
"""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.inputs import Chain
from pufferdp.bounds.tight.long import slow_series as module
from pufferdp.bounds.tight.long.slow_series import SlowSeries
from tests.bounds.tight import cases
from tests.oracles import algorithms
from tests.strategies import examples

WHO = ("bdp", "pufferfish")
ROOM = 1e-8
"""Programmes are solved to about this."""
CLOSED = 1e-6
MOST = 12.0
"""Of all records together: beyond it programmes have coefficients as small as their tolerances."""
KINDS = ("usual", "zeros", "sticky", "negative", "rotating", "uneven", "apart")


def chain_of(generator: np.random.Generator, kind: str) -> Chain | None:
    """Three states of each kind; None where one is left for good, or visited in turn."""
    k = 3
    rows, ahead = generator.dirichlet(np.full(k, generator.choice([0.5, 1.5])), size=k), np.roll(np.eye(k), 1, axis=1)
    if kind == "zeros":
        rows = np.where((generator.random((k, k)) < 0.5) & (ahead == 0), 0.0, rows) + 0.02 * ahead
        rows[0, 0] += 0.1
    elif kind == "negative":
        rows = 1 - np.eye(k) + generator.uniform(0.1, 0.6) * rows
    elif kind == "rotating":
        rows = 0.3 * generator.random() * np.eye(k) + ahead + 0.1 * rows
    elif kind in ("sticky", "uneven"):
        moves = 10 ** generator.uniform(-2.5, -0.5) if kind == "sticky" else generator.permutation([1.0, 0.1, 0.01])
        rows = np.diag(1 - moves * np.ones(k)) + np.reshape(moves, (-1, 1)) * rows
    elif kind == "apart":
        rows = rows * np.where(np.equal.outer(np.arange(k) < 1, np.arange(k) < 1), 1.0, 0.02)
    rows = np.where(rows < cases.LEAST, 0.0, rows)
    chain = inputs.chain(rows / rows.sum(axis=1, keepdims=True), "stationary")
    return chain if chain.primitive and chain.start is not None and (chain.start > 0).all() else None


def check(seed: int, n: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Both adversaries of n records; how many brackets were compared."""
    generator = np.random.default_rng([seed, 31])
    chain = chain_of(generator, KINDS[seed % len(KINDS)])
    if chain is None:
        return 0
    kernel, loss = chain.kernels[0], min(cases.loss(generator), MOST / n)
    for who in WHO:
        losses, known = np.full(n, loss), who == "bdp"
        worst = max(algorithms.chain_leakage([kernel], chain.start, losses, t, who) for t in range(n))
        found = SlowSeries(chain, n, known).at(loss)
        assert found.lower <= worst + ROOM, (seed, who)
        assert worst <= found.upper + ROOM, (seed, who)
        # A known record that only one of both values leads to is bounded by group privacy.
        if not known or (kernel @ kernel > 0).all():
            assert found.upper <= found.lower * (1 + CLOSED), (seed, who)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_ROUNDS", 4, raising=False)  # such brackets stay open
            for depth in range(2, n - 1):  # what lies farther away is bounded, as in series that are much longer
                patch.setattr(module, "forgets", lambda _, depth=depth: depth)
                cut = SlowSeries(chain, n, known).at(loss)
                assert cut.lower <= worst + ROOM, (seed, who, depth)
                assert worst <= cut.upper + ROOM, (seed, who, depth)
    return len(WHO)


@pytest.mark.parametrize(("seed", "n"), [*enumerate((2, 3, 3, 3, 4, 3, 3))], ids=KINDS)
def test_no_algorithm_leaks_more_and_one_leaks_as_much(seed, n, monkeypatch):
    assert check(seed, n, monkeypatch) == len(WHO)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_chains_of_up_to_five_records(part, monkeypatch):
    seeds = range(100 + part, 100 + examples(40), 4)
    assert sum(check(seed, 2 + seed // 4 % 4, monkeypatch) for seed in seeds) > len(seeds)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zeros", "negative", "sticky"])
def test_six_records(kind, monkeypatch):
    assert check(70 + KINDS.index(kind), 6, monkeypatch) == len(WHO)
