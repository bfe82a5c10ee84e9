"""A block of records bounds what its records say one by one: their vectors, and the ends inside it."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest

from pufferdp.bounds.tight.recursion import Pass, Rows, Side
from tests.strategies import examples

SIZE = 32
CASES = [("given", True), ("given", False), ("any", True), ("any", False)]


def after_some_records(seed: int, start: str, known: bool) -> Pass:
    """A pass whose blocks are bounded where signs change: with a tolerance of 1 none is halved."""
    generator = np.random.default_rng([seed, 9])
    k = int(generator.integers(2, 5))
    stay = 1 - 10 ** generator.uniform(-3, -1.5)
    kernel = stay * np.eye(k) + (1 - stay) * generator.dirichlet(np.ones(k), size=k)
    weights = None if start == "any" else generator.dirichlet(np.ones(k))
    side = Side(kernel[None], np.array([0.02 * generator.random()]), weights, known)
    x, y = np.nonzero(~np.eye(k, dtype=bool))
    grid = np.sort(generator.uniform(-2, 3, size=(len(x), 40)), axis=1)
    work = Pass(side, Rows(np.zeros_like(x), x, y), grid, 1.0)
    for _ in range(3 * SIZE):
        work.skip(1)
    return work


@pytest.mark.parametrize(("start", "known"), CASES)
def test_vectors_behind_a_block_are_bounded(start, known):
    larger = 0
    for seed in range(examples(24)):
        block = after_some_records(seed, start, known)
        single = copy(block)
        block.skip(SIZE)
        for _ in range(SIZE):
            single.skip(1)
        exact = np.ldexp(single.vectors, (single.exponents - block.exponents)[..., None])
        room = 1e-9 * np.abs(exact).max(axis=2, keepdims=True)
        assert (block.vectors >= exact - room).all(), seed
        larger += int((block.vectors > exact + room).sum())
    assert larger > 0  # some signs changed


@pytest.mark.parametrize("size", [2, SIZE])
@pytest.mark.parametrize(("start", "known"), CASES)
def test_ends_inside_a_block_are_bounded(start, known, size):
    # Bounds inside two records are within 5 % of what both say at an open end; longer blocks are looser.
    for seed in range(examples(40)):
        block = after_some_records(seed, start, known)
        single = copy(block)
        inside = np.max([single.singles(2).upper.max(axis=0) for _ in range(size // 2)], axis=0)
        bound = block.block(size).upper[0]
        finite = np.isfinite(inside)
        assert (bound[finite] >= inside[finite] - 1e-9 * (1 + np.abs(inside[finite]))).all(), seed
        assert np.isfinite(bound[..., -1]).any(), seed
