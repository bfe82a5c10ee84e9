"""Masses as logarithms: sums, steps and convolutions of distributions too steep for doubles, against whole numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp.bounds.distributions.base import log_convolve, log_step, log_sum
from tests.oracles.transport import log_of
from tests.strategies import SEEDS


def steep(generator, n: int) -> list[Fraction]:
    """Masses down to 2^-4000, with gaps; the rise and fall is smooth, jagged, or a peak with far tails."""
    kind = generator.integers(4)
    if kind == 0:
        powers = np.abs(np.arange(n) - generator.integers(n)) * generator.integers(1, 200)
    elif kind == 1:
        powers = generator.integers(0, 4000, size=n)
    elif kind == 2:
        powers = np.minimum(4000, (np.arange(n) - generator.integers(n)) ** 2 * generator.integers(1, 9))
    else:
        powers = generator.integers(0, 5, size=n)
    masses = [Fraction(int(m), 2 ** int(k)) for m, k in zip(generator.integers(1, 99, size=n), powers, strict=True)]
    masses = [Fraction(0) if generator.random() < 0.2 else mass for mass in masses]
    return masses if any(masses) else [Fraction(1), *masses[1:]]


def logs_of(masses) -> np.ndarray:
    return np.array([log_of(mass) for mass in masses])


def agrees(found, masses) -> bool:
    """Possible where it should be, and there right to nearly all digits that a logarithm of this size has."""
    expected = logs_of(masses)
    assert (np.isfinite(found) == np.isfinite(expected)).all()
    inside = np.isfinite(expected)
    return bool((np.abs(found[inside] - expected[inside]) <= 1e-14 * (20 + np.abs(expected[inside]))).all())


@given(seed=SEEDS, n=st.integers(1, 40), m=st.integers(1, 40))
def test_convolutions(seed, n, m):
    generator = np.random.default_rng(seed)
    a, b = steep(generator, n), steep(generator, m)
    exact = [Fraction(0)] * (n + m - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            exact[i + j] += x * y
    assert agrees(log_convolve(logs_of(a), logs_of(b)), exact)


def test_steep_binomials():
    """The distribution of 300 rare records from those of 150 and 150: down to 1e-1800, against the closed form."""
    rare = Fraction(1, 10**6)

    def binomial(n):
        return [math.comb(n, j) * rare**j * (1 - rare) ** (n - j) for j in range(n + 1)]

    half = logs_of(binomial(150))
    assert agrees(log_convolve(half, half), binomial(300))


@given(seed=SEEDS, k=st.integers(1, 4), columns=st.integers(1, 20))
def test_steps(seed, k, columns):
    """Transitions down to 1e-30, the least a chain may have; the states of a column may be 2^4000 apart."""
    generator = np.random.default_rng(seed)
    P = 10.0 ** -generator.uniform(0, 30, size=(k, k)) * (generator.random((k, k)) < 0.8)
    masses = np.array([steep(generator, columns) for _ in range(k)], dtype=object)
    found = log_step(np.array([logs_of(row) for row in masses]), P)
    for y in range(k):
        exact = [sum((Fraction(P[x, y]) * masses[x, c] for x in range(k)), Fraction(0)) for c in range(columns)]
        assert agrees(found[y], exact)


@given(seed=SEEDS, n=st.integers(1, 40))
def test_sums(seed, n):
    masses = steep(np.random.default_rng(seed), n)
    assert log_sum(logs_of(masses)) == pytest.approx(log_of(sum(masses)), rel=1e-13, abs=1e-13)
    assert log_sum(np.full((2, 3), -np.inf), axis=0).tolist() == [-np.inf] * 3
