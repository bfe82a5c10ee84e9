"""Flips as a distribution. Operating-system randomness has no seed: these tests fail once in 10^6 runs by chance."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pufferdp.basics.errors import ParameterError
from pufferdp.publish.noise import SeededSampler, SystemSampler, drawn_channel, pass_channel, thresholds

RARE = 1e-9


class Scripted:
    """Bytes that were written down."""

    warning = None

    def __init__(self, *words: int) -> None:
        self.first = bytes(word >> 56 for word in words)
        self.rest = b"".join(((word & (2**56 - 1)) << 8).to_bytes(8, "little") for word in words)
        self.whole = b"".join(word.to_bytes(8, "little") for word in words)
        self.calls = 0

    def bytes(self, count: int) -> bytes:
        self.calls += 1
        if count == len(self.whole) and self.calls == 1:
            return self.whole
        return self.first[:count] if self.calls == 1 else self.rest[:count]


@pytest.mark.parametrize(
    ("rho", "threshold"),
    [(0.0, 0), (0.5, 2**63), (1e-12, 18446745), (2.0**-64, 1), (1e-300, 1), (0.25, 2**62)],
)
def test_thresholds_are_exact_and_rounded_towards_more_noise(rho: float, threshold: int):
    (keep, change), (other, _) = thresholds([[1 - rho, rho], [rho, 1 - rho]])
    assert change == other == threshold
    assert keep + change == 2**64
    assert 0 <= Fraction(threshold, 2**64) - Fraction(rho) < Fraction(1, 2**64)


def test_thresholds_of_many_states_take_from_staying():
    shares = thresholds(np.full((3, 3), 1 / 3))
    assert [sum(row) for row in shares] == [2**64] * 3
    assert all(Fraction(shares[x][z], 2**64) >= Fraction(1 / 3) for x in range(3) for z in range(3) if x != z)
    assert drawn_channel(shares) == pytest.approx(np.full((3, 3), 1 / 3), abs=1e-15)
    with pytest.raises(ParameterError, match="no distribution"):
        thresholds([[-0.2, 1.2], [0.4, 0.6]])


@pytest.mark.parametrize("rho", [0.0, 0.5, 1e-12, 0.3])
def test_the_last_word_that_flips_is_the_one_before_the_threshold(rho: float):
    """All 64 bits count: the word below the threshold flips, the threshold itself does not."""
    shares = thresholds([[1 - rho, rho], [rho, 1 - rho]])
    limit = shares[0][1]
    for state in (0, 1):
        for word in {max(0, limit - 1), limit, 0, 2**64 - 1}:
            out = pass_channel(np.array([state], dtype=np.uint8), shares, Scripted(word))
            assert (out[0] != state) == (word < limit), (state, word)


def test_the_words_of_many_states_are_cut_where_the_shares_end():
    shares = thresholds([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5]])
    for x in range(3):
        others = [z for z in range(3) if z != x]
        one, two = (shares[x][z] for z in others)
        for word, z in (
            (0, others[0]),
            (one - 1, others[0]),
            (one, others[1]),
            (one + two - 1, others[1]),
            (one + two, x),
        ):
            assert pass_channel(np.array([x], dtype=np.uint8), shares, Scripted(word))[0] == z


@pytest.mark.parametrize("sampler", [SystemSampler(), SeededSampler(11)], ids=["system", "seeded"])
@pytest.mark.parametrize("rho", [(0.3, 0.2), (0.5, 0.5), (1 / 256, 3 / 256 + 1e-5), (0.001, 0.4999)])
def test_frequencies_of_flips(sampler: SystemSampler, rho: tuple[float, float]):
    """Chi-square on flips and non-flips of either state, and on pairs of neighbours: they must be independent."""
    states = np.tile(np.array([0, 1, 1, 0, 1], dtype=np.uint8), 80_000)
    shares = thresholds([[1 - rho[0], rho[0]], [rho[1], 1 - rho[1]]])
    changed = (pass_channel(states, shares, sampler) != states).astype(int)
    for state in (0, 1):
        here = changed[states == state]
        seen, expected = np.bincount(here, minlength=2), len(here) * np.array([1 - rho[state], rho[state]])
        assert stats.chisquare(seen, expected).pvalue > RARE
    pairs = np.bincount(2 * changed[:-1] + changed[1:], minlength=4).reshape(2, 2)
    # Along this pattern rates alternate, so pairs are compared within one place of it.
    pairs = np.bincount(2 * changed[1::5] + changed[2::5], minlength=4).reshape(2, 2)
    assert stats.chi2_contingency(pairs, correction=False).pvalue > RARE


@pytest.mark.parametrize("sampler", [SystemSampler(), SeededSampler(12)], ids=["system", "seeded"])
def test_frequencies_of_outputs_of_many_states(sampler: SystemSampler):
    B = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5]])
    states = np.repeat(np.arange(3, dtype=np.int16), 60_000)
    out = pass_channel(states, thresholds(B), sampler)
    for x in range(3):
        seen = np.bincount(out[states == x], minlength=3)
        assert stats.chisquare(seen, 60_000 * B[x]).pvalue > RARE


def test_seeds_repeat_and_systems_do_not():
    states, shares = np.zeros(1000, dtype=np.uint8), thresholds([[0.5, 0.5], [0.5, 0.5]])
    assert np.array_equal(
        pass_channel(states, shares, SeededSampler(3)), pass_channel(states, shares, SeededSampler(3))
    )
    assert not np.array_equal(
        pass_channel(states, shares, SystemSampler()), pass_channel(states, shares, SystemSampler())
    )
    assert pass_channel(states[:0], shares, SystemSampler()).shape == (0,)
