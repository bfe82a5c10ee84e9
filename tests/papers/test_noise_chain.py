"""Flips that are a chain: the loss of an endless series against enumeration of short ones."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.models.chain import MarkovChain
from pufferdp_papers.flips.noise_chain import noise_chain_loss
from tests.oracles import flips as oracle
from tests.strategies import examples

some = st.floats(0.02, 0.98)
quick = st.floats(0.4, 0.6)


@given(some, some, some, some)
@settings(max_examples=examples(20), deadline=None)
def test_no_short_series_leaks_more(q: float, r: float, a: float, b: float):
    P, N = [[1 - q, q], [r, 1 - r]], [[1 - a, a], [b, 1 - b]]
    data, noise = MarkovChain(transition=P), MarkovChain(transition=N)
    for n in (1, 3, 5):
        table = oracle.xor_joint(P, N, n)
        for who in (Adversary.BDP, Adversary.PUFFERFISH):
            exact = max(oracle.table_loss(table, n, 2, who is Adversary.BDP).values())
            assert exact <= noise_chain_loss(data, noise, who) + 1e-9, who


@given(quick, quick, quick, quick)
@settings(max_examples=examples(10), deadline=None)
def test_five_records_of_chains_that_forget_leak_nearly_as_much(q: float, r: float, a: float, b: float):
    P, N = [[1 - q, q], [r, 1 - r]], [[1 - a, a], [b, 1 - b]]
    data, noise, table = MarkovChain(transition=P), MarkovChain(transition=N), oracle.xor_joint(P, N, 5)
    for who in (Adversary.BDP, Adversary.PUFFERFISH):
        exact = max(oracle.table_loss(table, 5, 2, who is Adversary.BDP).values())
        assert noise_chain_loss(data, noise, who) == pytest.approx(exact, abs=1e-3), who


def test_a_fair_coin_leaks_nothing():
    data, coin = MarkovChain(transition=[[0.9, 0.1], [0.2, 0.8]]), MarkovChain(transition=[[0.5, 0.5], [0.5, 0.5]])
    assert noise_chain_loss(data, coin, Adversary.BDP) == pytest.approx(0, abs=1e-12)
    noise = MarkovChain(transition=[[0.7, 0.3], [0.7, 0.3]])
    assert noise_chain_loss(coin, noise, Adversary.BDP) == pytest.approx(math.log(7 / 3), rel=1e-12)
