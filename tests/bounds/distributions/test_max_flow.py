"""W-infinity in L1 between distributions of several numbers, against Hall's condition on all subsets, in Fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pufferdp.bounds.distributions.wasserstein import worst_flow
from tests.bounds.distributions.test_transport import SLACK, logs_of, random_pair
from tests.oracles.transport import hall, w_infinity
from tests.strategies import SEEDS


def random_points(generator, n: int) -> np.ndarray:
    """Different points in the plane or in space, some of them as the bins of a histogram."""
    dimensions = int(generator.integers(2, 4))
    grid = np.argwhere(np.ones((4,) * dimensions)).astype(float)
    if generator.random() < 0.5:
        grid = grid[grid.sum(axis=1) == 3]
    return generator.permutation(grid)[:n]


def test_hundreds_of_pairs_against_all_subsets():
    generator = np.random.default_rng(5)
    differ = 0
    for _ in range(400):
        points = random_points(generator, int(generator.integers(1, 7)))
        first, second = random_pair(generator, len(points))
        found = worst_flow(points, logs_of(first), logs_of(second), SLACK)
        ours, exact = 0.0 if found is None else found.distance, hall(points, first, second)
        if ours != exact:
            differ += 1
            assert hall(points, first, second, Fraction(1 + 2 * SLACK)) <= ours < exact
    assert differ < 40


@given(seed=SEEDS, n=st.integers(1, 7), rows=st.integers(1, 6))
def test_the_worst_of_several_pairs(seed, n, rows):
    generator = np.random.default_rng(seed)
    points = random_points(generator, n)
    pairs = [random_pair(generator, len(points)) for _ in range(rows)]
    first, second = (np.concatenate([logs_of(pair[side]) for pair in pairs]) for side in (0, 1))
    each = []
    for p, q in pairs:
        alone = worst_flow(points, logs_of(p), logs_of(q), SLACK)
        each.append(0.0 if alone is None else alone.distance)
    found = worst_flow(points, first, second, SLACK)
    assert (0.0 if found is None else found.distance) == max(each)
    assert found is None or each[found.pair] == found.distance
    assert worst_flow(points, first, second, SLACK, floor=max(each)) is None


@given(seed=SEEDS, n=st.integers(1, 40))
def test_points_on_a_line_are_as_far_as_on_the_line(seed, n):
    """Larger supports, where subsets are too many: a line drawn through the plane, each step 3 in L1."""
    generator = np.random.default_rng(seed)
    distribution = generator.integers(0, 5, size=(2, n)) + np.eye(n, dtype=int)[generator.integers(n)]
    line = np.stack([np.arange(n), 2 * np.arange(n)], axis=1).astype(float)
    with np.errstate(divide="ignore"):
        first, second = (
            np.log(distribution[[0]] / distribution[0].sum()),
            np.log(distribution[[1]] / distribution[1].sum()),
        )
    found = worst_flow(line, first, second, SLACK)
    exact = w_infinity(range(n), distribution[0].tolist(), distribution[1].tolist())
    assert (0.0 if found is None else found.distance) == 3 * exact


def test_a_mass_of_1e_300_counts():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 9.0]])
    first, second = [Fraction(1), 0, 0], [Fraction(1) - Fraction(1, 10**300), 0, Fraction(1, 10**300)]
    found = worst_flow(points, logs_of(first), logs_of(second), SLACK)
    assert found.distance == 18.0
