"""The distribution of a sum over chains by its transform, against enumeration and closed forms."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.chains.sums import ChainSums, chain_total
from pufferdp.models.chain import MarkovChain
from tests.oracles import records as brute
from tests.strategies import chains


def distribution_of_sum(P, start, lengths, steps) -> list[Fraction]:
    """Every path of every chain, then every pair of sums."""
    distribution = [Fraction(1)]
    for length, count in lengths:
        joint = brute.chain_joint(P, start, length)
        sums = np.asarray(steps)[np.indices(joint.shape)].sum(axis=0)
        one = [sum(joint[sums == s].ravel(), Fraction(0)) for s in range(max(steps) * length + 1)]
        for _ in range(count):
            both = [Fraction(0)] * (len(distribution) + len(one) - 1)
            for a, p in enumerate(distribution):
                for b, q in enumerate(one):
                    both[a + b] += p * q
            distribution = both
    return distribution


@given(
    chain=chains(most_states=3, starts=("stationary", "given")),
    lengths=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3)), min_size=1, max_size=3),
    numbers=st.lists(st.integers(0, 4), min_size=3, max_size=3),
)
def test_distributions_equal_enumeration(chain, lengths, numbers):
    """Zero entries, deterministic moves, one record, several chains, steps with gaps."""
    steps = np.array(numbers[: chain.size])
    start = brute.exact_stationary(chain.transition) if chain.given_start is None else chain.given_start
    found = chain_total(chain, lengths, steps)
    expected = distribution_of_sum(chain.transition, start, lengths, steps.tolist())
    assert len(found.masses) == len(expected)
    # Twice: masses below the rounding are cut to 0, and the others scaled to add up to 1.
    assert np.abs(found.masses - np.array(expected, dtype=float)).max() <= 2 * found.rounding
    assert not found.masses[[p == 0 for p in expected]].any()
    assert found.masses.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("P", "steps"),
    [
        ([[0.882, 0.118], [0.305, 0.695]], [0, 1]),
        ([[0.999, 0.001], [0.002, 0.998]], [0, 1]),
        ([[0.02, 0.98], [0.95, 0.05]], [1, 0]),
        ([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]], [0, 1, 3]),
    ],
)
def test_rounding_stays_within_its_estimate_on_long_chains(P, steps):
    """Against the distribution carried along record by record in logarithms, right to many digits everywhere."""
    chain, T = MarkovChain(transition=P), 700
    found = chain_total(chain, ((T, 1),), np.array(steps))
    exact = np.exp(ChainSums(chain, T, steps).total())
    assert np.abs(found.masses - exact).max() <= 2 * found.rounding
    assert found.rounding < 1e-11


def test_a_long_series_of_independent_records_is_binomial():
    T = 200_000
    found = chain_total(MarkovChain(transition=[[0.7, 0.3]] * 2), ((T // 2, 1), (T // 4, 2)), np.array([0, 1]))
    exact = binom.pmf(np.arange(T + 1), T, 0.3)
    assert np.abs(found.masses - exact).max() <= 2 * found.rounding
    assert found.rounding < 1e-12


@pytest.mark.parametrize(
    ("chain", "length", "reason"),
    [
        (MarkovChain(transition=[[0.7, 0.3]] * 2, start="any"), 10, "any start"),
        (MarkovChain(transition=[[0.7, 0.3]] * 2), 10**7, "too many"),
        (MarkovChain(transition=np.full((60, 60), 1 / 60)), 10**5, "too many"),
    ],
)
def test_what_has_no_distribution_or_a_costly_one_is_refused(chain, length, reason):
    with pytest.raises(NotApplicableError, match=reason):
        chain_total(chain, ((length, 1),), np.arange(chain.size) % 2)
