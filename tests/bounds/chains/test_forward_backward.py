"""Forward–backward against enumeration and against the literal recursion."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.basics.errors import DataError
from pufferdp.bounds.chains.forward_backward import posterior


def literal(z, start, P, B):
    """One record after the other, scaled as they come."""
    forward, backward = np.zeros((len(z), len(P))), np.ones((len(z), len(P)))
    forward[0] = start * B[:, z[0]]
    forward[0] /= forward[0].sum()
    for t in range(1, len(z)):
        forward[t] = (forward[t - 1] @ P) * B[:, z[t]]
        forward[t] /= forward[t].sum()
    for t in range(len(z) - 2, -1, -1):
        backward[t] = P @ (B[:, z[t + 1]] * backward[t + 1])
        backward[t] /= backward[t].sum()
    both = forward * backward
    return both / both.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n", [1, 2, 16, 17, 63, 1000, 5003])
@pytest.mark.parametrize("k", [2, 3])
def test_long_series_agree_with_the_literal_recursion(n: int, k: int):
    generator = np.random.default_rng(n)
    P = 0.02 * generator.dirichlet(np.ones(k), size=k) + 0.98 * np.eye(k)
    B = 0.3 * generator.dirichlet(np.ones(k), size=k) + 0.7 * np.eye(k)
    z, start = generator.integers(k, size=n), np.full(k, 1 / k)
    assert posterior(z, start, P, B) == pytest.approx(literal(z, start, P, B), abs=1e-10)


def test_extreme_series_stay_in_range():
    P, B = np.array([[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]]), np.array([[1 - 1e-12, 1e-12], [1e-12, 1 - 1e-12]])
    z = np.repeat([0, 1], 5000)
    found = posterior(z, np.array([0.5, 0.5]), P, B)
    assert np.isfinite(found).all()
    assert found[[0, 4000, 6000, 9999]].argmax(axis=1).tolist() == [0, 0, 1, 1]
    assert found.sum(axis=1) == pytest.approx(1)


def test_no_records_and_impossible_records():
    assert posterior(np.array([], dtype=int), np.array([0.5, 0.5]), np.eye(2), np.eye(2)).shape == (0, 2)
    with pytest.raises(DataError, match="rules out"):
        posterior(np.array([0, 1]), np.array([0.5, 0.5]), np.eye(2), np.eye(2))
