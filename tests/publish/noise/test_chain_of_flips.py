"""Flips that are a Markov chain: drawn at once or in a loop they are equal; the thresholds give their distribution."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics.errors import ParameterError
from pufferdp.publish import noise
from pufferdp.publish.noise import (
    ChainShares,
    SeededSampler,
    SystemSampler,
    chain_of_flips,
    distribution_thresholds,
    thresholds,
)
from tests.strategies import examples

probabilities = st.sampled_from([0.0, 1.0, 0.5, 2.0**-64, 1 - 2.0**-53]) | st.floats(0, 1)
ONE = 2**64


class Words:
    """Gives the words it was made with, as a sampler would."""

    warning = None

    def __init__(self, words: list[int]) -> None:
        self._data = np.array(words, dtype=np.uint64).tobytes()

    def bytes(self, count: int) -> bytes:
        out, self._data = self._data[:count], self._data[count:]
        return out


@st.composite
def draws(draw):
    """Words near the thresholds are likely, and so are new chains."""
    start = distribution_thresholds([1 - (p := draw(probabilities)), p])
    a, b = draw(probabilities), draw(probabilities)
    shares = thresholds([[1 - a, a], [b, 1 - b]])
    limits = [start[1], shares[0][1], shares[1][1]]
    near = [max(0, min(ONE - 1, limit + d)) for limit in limits for d in (-1, 0, 1)]
    words = draw(st.lists(st.sampled_from([*near, 0, ONE - 1]) | st.integers(0, ONE - 1), min_size=1, max_size=40))
    begins = draw(st.lists(st.booleans(), min_size=len(words), max_size=len(words)))
    return start, shares, words, np.array(begins), draw(st.booleans())


@given(draws(), st.integers(1, 9))
@settings(max_examples=examples(300))
def test_all_at_once_is_one_after_the_other(drawn, piece: int):
    start, shares, words, begins, last = drawn
    expected, flipped = [], last
    for word, begin in zip(words, begins, strict=True):
        flipped = word < (start[1] if begin else shares[int(flipped)][1])
        expected.append(flipped)
    assert chain_of_flips(begins, ChainShares(start, shares), Words(words), last).tolist() == expected
    before, noise._AT_ONCE = noise._AT_ONCE, piece
    try:
        assert chain_of_flips(begins, ChainShares(start, shares), Words(words), last).tolist() == expected
    finally:
        noise._AT_ONCE = before


@pytest.mark.parametrize("sampler", [SystemSampler(), SeededSampler(5)], ids=["system", "seeded"])
def test_the_distribution_of_the_paths(sampler: noise.Sampler):
    """All paths of four flips, 40,000 chains: chi-square with 15 degrees, wrong once in ten million runs."""
    start, shares, chains, n = distribution_thresholds([0.7, 0.3]), thresholds([[0.8, 0.2], [0.45, 0.55]]), 40_000, 4
    begins = np.tile([True] + [False] * (n - 1), chains)
    paths = chain_of_flips(begins, ChainShares(start, shares), sampler).reshape(chains, n) @ (1 << np.arange(n))
    counts = np.bincount(paths, minlength=2**n)
    expected = []
    for path in range(2**n):
        bits = [path >> k & 1 for k in range(n)]
        p = start[bits[0]] / ONE
        expected.append(p * math.prod(shares[a][b] / ONE for a, b in itertools.pairwise(bits)))
    statistic = float(((counts - chains * np.array(expected)) ** 2 / (chains * np.array(expected))).sum())
    assert statistic < 62.4  # the quantile at 1 - 1e-7 is 62.33


def test_a_distribution_in_whole_shares():
    assert distribution_thresholds([1.0, 0.0]) == (ONE, 0)
    assert distribution_thresholds([0.0, 1.0]) == (0, ONE)
    assert distribution_thresholds([0.75, 0.25]) == (3 * ONE // 4, ONE // 4)
    assert sum(distribution_thresholds([0.9, 0.1])) == ONE
    with pytest.raises(ParameterError, match="between 0 and 1"):
        distribution_thresholds([-0.5, 1.5])
