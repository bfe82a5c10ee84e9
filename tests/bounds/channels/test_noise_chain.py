"""Correlated noise: enumeration, check values, and the claim that it needs the same average noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import ModelError, NotApplicableError
from pufferdp.bounds.channels import noise_chain
from pufferdp.bounds.channels.noise_chain import class_noise_loss, noise_chain_loss, noise_dp_loss
from pufferdp.bounds.channels.two_states import FlipLoss, Flips, flip_loss
from pufferdp.models.chain import MarkovChain
from tests.oracles import flips as oracle
from tests.strategies import examples

BDP, PUFFERFISH, DP = Adversary.BDP, Adversary.PUFFERFISH, Adversary.DP
some = st.floats(0.05, 0.95)
ugly = st.sampled_from([0.0, 1.0, 0.5, 0.01, 0.99]) | st.floats(0.001, 0.999)
"""Impossible and certain steps, no memory, and slow or alternating chains among others."""
mixed = st.sampled_from([0.5, 0.01, 0.99]) | st.floats(0.001, 0.999)
"""Noise whose steps are all possible."""


def chain(q: float, r: float, first: float | None = None) -> MarkovChain:
    start = None if first is None else [first, 1 - first]
    return MarkovChain(transition=[[1 - q, q], [r, 1 - r]], **({} if start is None else {"start": start}))


def loss(data: MarkovChain, noise: MarkovChain, n: int | None, who: Adversary) -> FlipLoss:
    return noise_chain_loss(data, noise, n, who).upper


def close(ours: float, true: float) -> bool:
    """To the last digits of the enumeration, whose sums are rounded too."""
    return ours == true or math.isclose(ours, true, rel_tol=1e-9, abs_tol=1e-9)


@given(*[ugly] * 3, *[mixed] * 3, st.integers(1, 5))
@settings(max_examples=examples(150), deadline=None)
def test_loss_is_that_of_enumeration(q: float, r: float, p: float, a: float, b: float, c: float, n: int):
    data, noise, distributions = chain(q, r, p), chain(a, b, c), [[p, 1 - p], [c, 1 - c]]
    P, N = [[1 - q, q], [r, 1 - r]], [[1 - a, a], [b, 1 - b]]
    table = oracle.xor_joint(P, N, n, distributions)
    for who in (BDP, PUFFERFISH):
        exact, ours = oracle.table_loss(table, n, 2, who is BDP), loss(data, noise, n, who)
        assert close(ours.zero, max(0.0, exact[0, 1])), who
        assert close(ours.one, max(0.0, exact[1, 0])), who
    known, ours = max(oracle.xor_all_known(P, N, n, distributions).values()), loss(data, noise, n, DP).worst
    assert ours >= known - 1e-9  # under DP values of the others count that the model rules out
    assert close(ours, known) or 0.0 in [*P[0], *P[1], *distributions[0]]


@given(*[ugly] * 3, st.integers(1, 10))
@settings(max_examples=examples(200), deadline=None)
def test_dp_loss_is_that_of_enumeration(a: float, b: float, c: float, n: int):
    """In whole 2^-64ths, as it is drawn; never below the truth, and above it by roundings alone."""
    one = 2**64
    share = [[one - int(a * one), int(a * one)], [int(b * one), one - int(b * one)]]
    start = [int(c * one), one - int(c * one)]
    N, distribution = [[s / one for s in row] for row in share], [s / one for s in start]
    exact, ours = oracle.noise_dp(N, distribution, n), noise_dp_loss(start, share, n)
    assert ours == exact or exact - 1e-12 <= ours <= exact + 1e-12 * (1 + exact)
    assert noise_dp_loss(start, share, None) >= ours
    if math.isfinite(ours) and min(a, b, c) > 0 and max(a, b, c) < 1:
        assert loss(chain(0.3, 0.4), chain(a, b, c), n, DP).worst == pytest.approx(ours, rel=1e-9, abs=1e-9)


def test_dp_loss_is_rounded_up():
    from fractions import Fraction

    # 3/4 against 1/4, twice: 9, whose logarithm no double equals.
    found = noise_dp_loss([1, 1], [[3, 1], [1, 3]], 3)
    assert math.exp(1) ** found >= 9 and Fraction(found) > Fraction(2.1972245773362196)
    assert found == pytest.approx(math.log(9), rel=1e-14)
    assert noise_dp_loss([1, 1], [[1, 1], [1, 1]], 5) == 0.0
    assert noise_dp_loss([1, 0], [[1, 1], [1, 1]], 5) == math.inf
    assert noise_dp_loss([1, 1], [[0, 1], [1, 0]], 2) == math.inf


@given(some, some, some, some, st.sampled_from([PUFFERFISH, BDP]), st.integers(30, 300))
@settings(max_examples=examples(20), deadline=None)
def test_an_endless_series_is_the_limit(q: float, r: float, a: float, b: float, who: Adversary, n: int):
    """Never less than any finite one, and approached by long ones."""
    data, noise = chain(q, r), chain(a, b)
    ours, long = noise_chain_loss(data, noise, None, who), loss(data, noise, n, who)
    assert long.zero <= ours.upper.zero + 1e-12
    assert long.one <= ours.upper.one + 1e-12
    assert ours.lower.worst <= ours.upper.worst <= ours.lower.worst + 1e-9
    assert loss(data, noise, 4000, who).worst == pytest.approx(ours.upper.worst, abs=1e-9)
    assert loss(data, noise, 10**6, who).worst == pytest.approx(ours.upper.worst, abs=1e-9)


@pytest.mark.slow
def test_slow_chains_have_a_bracket():
    data, noise = chain(1e-4, 2e-4), chain(0.3, 0.4)
    ours = noise_chain_loss(data, noise, None, BDP)
    assert 0 < ours.lower.worst <= ours.upper.worst
    assert ours.lower.worst == loss(data, noise, 4097, BDP).worst


@given(*[mixed] * 6, st.sampled_from([BDP, PUFFERFISH]))
@settings(max_examples=examples(20), deadline=None)
def test_the_bound_on_endless_series_holds_wherever_passing_stops(q, r, p, a, b, c, who):
    data, noise = chain(q, r, p), chain(a, b, c)
    long = loss(data, noise, 300, who)
    for stop in (3, 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(noise_chain, "_MOST", stop)
            bracket = noise_chain_loss(data, noise, None, who)
        assert bracket.lower.worst <= long.worst + 1e-9
        assert bracket.upper.zero >= long.zero - 1e-9
        assert bracket.upper.one >= long.one - 1e-9


@pytest.mark.slow
def test_steps_that_are_impossible():
    forbidden = chain(0.0, 0.3, 0.5)
    assert math.isfinite(loss(forbidden, chain(0.3, 0.4), 50, BDP).worst)
    with pytest.raises(NotApplicableError, match="cut the series into chains of at most 4097 records"):
        noise_chain_loss(forbidden, chain(0.3, 0.4), None, BDP)
    with pytest.raises(NotApplicableError, match="certain or impossible"):
        noise_chain_loss(chain(0.3, 0.4), chain(0.0, 0.4, 0.5), 50, PUFFERFISH)


def test_a_class_is_as_bad_as_its_worst_chain():
    chains, noise = [chain(0.3, 0.3), chain(0.1, 0.2)], chain(0.35, 0.45)
    both = class_noise_loss(chains, noise, 9, BDP).upper.worst
    assert both == max(loss(one, noise, 9, BDP).worst for one in chains)


def test_check_value():
    assert loss(chain(0.3, 0.3), chain(0.35, 0.45), 5, BDP).worst == pytest.approx(0.9868, abs=5e-5)
    # Independent noise of the same average: .5300 over five records, .5798 in an endless series.
    average = Flips.of(0.4375, 0.4375)
    assert flip_loss(chain(0.3, 0.3), average, 5, BDP).worst == pytest.approx(0.5300, abs=5e-5)
    assert flip_loss(chain(0.3, 0.3), average, None, BDP).worst == pytest.approx(0.5798, abs=5e-5)


@given(some, some, st.floats(0.05, 0.5), st.integers(1, 30) | st.none())
@settings(max_examples=examples(20), deadline=None)
def test_independent_noise_is_the_case_of_parameters_that_sum_to_one(q: float, r: float, rho: float, n: int | None):
    for who in (BDP, PUFFERFISH, DP):
        both = (loss(chain(q, r), chain(rho, 1 - rho), n, who), flip_loss(chain(q, r), Flips.of(rho, rho), n, who))
        assert both[0].worst == pytest.approx(both[1].worst, abs=1e-8)


@pytest.mark.slow
def test_the_same_average_noise_is_claimed_and_holds_for_who_knows_nothing():
    """Grid of θ < ρ0 < ρ1, ρ0+ρ1 ≤ 1, K empty: the same loss in an endless series, less over 200 slow records.

    For every adversary it is less or more, depending on the noise: see docs/theory/flips.md.
    """
    same = less = more_for_everyone = less_for_everyone = 0
    for theta in (0.05, 0.2, 0.3, 0.45):
        for a in np.arange(0.05, 0.5, 0.1):
            for b in np.arange(a + 0.05, 1.0, 0.15):
                if not (theta < a and a + b <= 1 + 1e-9):
                    continue
                flips = Flips.of(a / (a + b), a / (a + b))
                data, noise = chain(theta, theta), chain(a, b)
                gap = loss(data, noise, 200, PUFFERFISH).worst - flip_loss(data, flips, 200, PUFFERFISH).worst
                assert gap <= 1e-6
                endless = loss(data, noise, None, PUFFERFISH).worst
                assert endless == pytest.approx(flip_loss(data, flips, None, PUFFERFISH).worst, rel=1e-9)
                same, less = same + (abs(gap) <= 1e-6), less + (gap < -1e-6)
                wide = loss(data, noise, 200, BDP).worst - flip_loss(data, flips, 200, BDP).worst
                more_for_everyone += wide > 1e-6
                less_for_everyone += wide < -1e-6
    assert (same, less) == (19, 4)
    assert (more_for_everyone, less_for_everyone) == (7, 14)


@given(some, some, some, some, st.integers(1, 6))
@settings(max_examples=examples(30), deadline=None)
def test_who_knows_more_learns_more(q: float, r: float, a: float, b: float, n: int):
    data, noise = chain(q, r), chain(a, b)
    assert loss(data, noise, n, DP).worst <= loss(data, noise, n, BDP).worst + 1e-12
    assert loss(data, noise, n, PUFFERFISH).worst <= loss(data, noise, n, BDP).worst + 1e-12


def test_what_it_is_not_for_is_refused():
    with pytest.raises(ModelError, match="3 states"):
        noise_chain_loss(chain(0.3, 0.3), MarkovChain(transition=np.full((3, 3), 1 / 3)), 3, BDP)
    with pytest.raises(ModelError, match="any"):
        noise_chain_loss(MarkovChain(transition=[[0.7, 0.3], [0.3, 0.7]], start="any"), chain(0.3, 0.4), 3, BDP)
