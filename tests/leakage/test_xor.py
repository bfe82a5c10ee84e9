"""Correlated noise: enumeration, check values, and the claim that it needs the same average noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.checks import Adversary
from pufferdp.errors import ModelError
from pufferdp.leakage.flips import Flips, flip_loss
from pufferdp.leakage.xor import xor_loss
from pufferdp.models.markov import MarkovChain
from tests.oracles import flips as oracle
from tests.strategies import examples

BDP, PUFFERFISH, DP = Adversary.BDP, Adversary.PUFFERFISH, Adversary.DP
some = st.floats(0.05, 0.95)


def chain(q: float, r: float) -> MarkovChain:
    return MarkovChain(transition=[[1 - q, q], [r, 1 - r]])


@given(some, some, some, some, st.integers(1, 5))
@settings(max_examples=examples(25))
def test_loss_is_that_of_enumeration(q: float, r: float, a: float, b: float, n: int):
    table = oracle.xor_joint([[1 - q, q], [r, 1 - r]], [[1 - a, a], [b, 1 - b]], n)
    for who in (BDP, PUFFERFISH):
        exact, ours = oracle.table_loss(table, n, 2, who is BDP), xor_loss(chain(q, r), chain(a, b), n, who)
        assert ours.zero == pytest.approx(exact[0, 1], abs=1e-9)
        assert ours.one == pytest.approx(exact[1, 0], abs=1e-9)
    assert xor_loss(chain(q, r), chain(a, b), n, DP).worst <= xor_loss(chain(q, r), chain(a, b), n, BDP).worst + 1e-12


def test_check_value():
    assert xor_loss(chain(0.3, 0.3), chain(0.35, 0.45), 5, BDP).worst == pytest.approx(0.9868, abs=5e-5)
    # Independent noise of the same average: .5300 over five records, .5798 in an endless series.
    average = Flips.of(0.4375, 0.4375)
    assert flip_loss(chain(0.3, 0.3), average, 5, BDP).worst == pytest.approx(0.5300, abs=5e-5)
    assert flip_loss(chain(0.3, 0.3), average, None, BDP).worst == pytest.approx(0.5798, abs=5e-5)


@given(some, some, st.floats(0.05, 0.5), st.integers(1, 30))
@settings(max_examples=examples(20))
def test_independent_noise_is_the_case_of_parameters_that_sum_to_one(q: float, r: float, rho: float, n: int):
    for who in (BDP, PUFFERFISH, DP):
        both = (xor_loss(chain(q, r), chain(rho, 1 - rho), n, who), flip_loss(chain(q, r), Flips.of(rho, rho), n, who))
        assert both[0].worst == pytest.approx(both[1].worst, abs=1e-9)


def test_the_same_average_noise_is_claimed_and_holds_for_most_but_not_all():
    """Grid of θ < ρ0 < ρ1, ρ0+ρ1 ≤ 1, K empty: the same loss, but less where data and noise are both slow.

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
                gap = xor_loss(data, noise, 200, PUFFERFISH).worst - flip_loss(data, flips, 200, PUFFERFISH).worst
                assert gap <= 1e-6
                same, less = same + (abs(gap) <= 1e-6), less + (gap < -1e-6)
                wide = xor_loss(data, noise, 200, BDP).worst - flip_loss(data, flips, 200, BDP).worst
                more_for_everyone += wide > 1e-6
                less_for_everyone += wide < -1e-6
    assert (same, less) == (19, 4)
    assert (more_for_everyone, less_for_everyone) == (7, 14)


def test_what_it_is_not_for_is_refused():
    for data, noise in ((chain(0, 0.3), chain(0.3, 0.4)), (chain(0.3, 0.3), MarkovChain(transition=np.eye(3)))):
        with pytest.raises(ModelError, match="positive"):
            xor_loss(data, noise, 3, BDP)
    with pytest.raises(ModelError, match="any"):
        xor_loss(MarkovChain(transition=[[0.7, 0.3], [0.3, 0.7]], start="any"), chain(0.3, 0.4), 3, BDP)
