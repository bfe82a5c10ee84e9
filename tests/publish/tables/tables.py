"""What tests of tables share: noise that is not there, and what a table leaks by enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl

from pufferdp import MarkovChain, TableRelease, release
from tests.oracles.leakage import channel_leakage, likelihoods

LETTERS = "abc"


class NoNoise:
    """Adds nothing, and remembers the noise that it was asked for: a table made with it has the exact numbers."""

    warning = "unsafe: no noise"

    def __init__(self) -> None:
        self.scales: list[float] = []

    def discrete_laplace(self, exact: list[int], scale: float) -> list[int]:
        self.scales.append(scale)
        return list(exact)

    def laplace(self, exact: list[float], scale: float) -> list[float]:
        self.scales.append(scale)
        return list(exact)

    def gaussian(self, exact: list[float], scale: float) -> list[float]:
        raise AssertionError("a table has no Gaussian noise")

    def discrete_gaussian(self, exact: list[int], scale: float) -> list[int]:
        raise AssertionError("a table has no Gaussian noise")

    def bytes(self, count: int) -> bytes:
        raise AssertionError("a table flips nothing")


def chain(transition: Any, start: Any = "stationary", **more: Any) -> MarkovChain:
    states = tuple(LETTERS[: len(transition)])
    return MarkovChain(transition=transition, start=start, states=states, values=tuple(range(len(states))), **more)


def exact_table(model: Any, path: Any, group: Any, queries: list[str], epsilon: float, **more: Any) -> Any:
    """The exact table of one path, made by ``release`` itself, and the scale of each of its draws."""
    names = [LETTERS[x] for x in path]
    data = pl.DataFrame({"x": names, "t": range(len(names)), "g": [f"g{n}" for n in group]})
    sampler = NoNoise()
    table: TableRelease = release(
        data, model=model, column="x", order="t", per="g", query=queries, epsilon=epsilon, sampler=sampler, **more
    )
    return table, sampler.scales


def table_leakage(
    model: Any,
    distribution: np.ndarray,
    group: Any,
    queries: list[str],
    epsilon: float,
    shrink: float = 1.0,
    **more: Any,
) -> float:
    """What all numbers of a table leak together, over every output that matters; noise may be made smaller.

    ``distribution`` has one axis a record. Every path of positive probability is released, without noise, by
    ``release``; the distribution of the noise is the one that was asked of the sampler.
    """
    k, n = distribution.shape[0], distribution.ndim
    tables, scales = {}, []
    for path in itertools.product(range(k), repeat=n):
        if distribution[path] > 0:
            released, scales = exact_table(model, path, group, queries, epsilon, **more)
            tables[path] = released.table
    some = next(iter(tables.values()))
    channel = np.ones((*distribution.shape, 1))
    at = 2  # behind the name and the size of a group
    for query, scale in zip(queries, scales, strict=True):
        histogram = query in ("histogram", "frequency")
        width = k if histogram else 1
        for row in range(len(some.rows)):
            size = some.rows[row][1]
            exact = np.zeros((*distribution.shape, width))
            for path, table in tables.items():
                exact[path] = np.array(table.rows[row][at : at + width], float)
            if query in ("frequency", "mean"):
                exact *= size  # noise is added before the division
            balanced = histogram and k > 1
            # Of two numbers that add up one is drawn, at half the scale: the distribution of both is that of the full
            # one.
            full = 2 * scale if histogram and k == 2 else scale
            seen = likelihoods(np.round(exact, 9), full / shrink, balanced)
            channel = (channel[..., :, None] * seen[..., None, :]).reshape(*distribution.shape, -1)
        at += width
    return channel_leakage(distribution, channel, str(more.get("adversary", "bdp")))
