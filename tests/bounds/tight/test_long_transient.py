"""Chains with states that are left for good, whose first record has a law: against the way record by record."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.long.any_start import any_start_series
from pufferdp.bounds.tight.long.transient import TransientSeries, transient_series
from pufferdp.bounds.tight.long.turns import Turns, turns
from pufferdp.bounds.tight.series import leakage_of_losses
from tests.strategies import examples

ABSORBED = np.array([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.0]])
DRAINED = np.array([[0.97, 0.02, 0.01], [0.0, 0.7, 0.3], [0.0, 0.4, 0.6]])
SPLIT = np.array([[0.8, 0.1, 0.1, 0.0], [0.0, 0.6, 0.4, 0.0], [0.0, 0.5, 0.5, 0.0], [0.3, 0.2, 0.0, 0.5]])
LEFT = np.array([[0.9, 0.1], [0.0, 1.0]])
CLOSED = 1e-6


def leaky_chain(generator: np.random.Generator, k: int, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """A chain that leaves some of its states for good, and a start: absorbing, sparse, or of two parts."""
    P = generator.dirichlet(np.full(k, 0.7), k)
    if kind == 0:
        P = np.triu(P)
    elif kind == 1:
        P = np.where(generator.random((k, k)) < 0.5, 0.0, P) * np.triu(np.ones((k, k)), int(generator.integers(0, 2)))
    else:
        first = int(generator.integers(1, k))
        P[first:, :first] = 0.0
    P[P.sum(axis=1) == 0, -1] = 1.0
    P = P / P.sum(axis=1, keepdims=True)
    if generator.random() < 0.3:
        P = 0.97 * np.eye(k) + 0.03 * P
    point = np.eye(k)[int(generator.integers(0, k - 1))]
    return P, point if generator.random() < 0.5 else generator.dirichlet(np.ones(k))


def test_every_record_is_what_it_is_one_by_one():
    for seed in range(examples(30)):
        generator = np.random.default_rng([seed, 7])
        k, n = int(generator.integers(2, 5)), int(generator.integers(2, 26))
        P, start = leaky_chain(generator, k, seed % 3)
        loss, who = float(generator.choice([0.01, 0.5, 3.0, 17.0, 40.0])), ("bdp", "pufferfish")[seed % 2]
        series = transient_series(inputs.chain(P, start), n, who)
        assert series is not None
        found, plain = series.at(loss), leakage_of_losses(P, np.full(n, loss), start=start, adversary=who)
        assert (found.lower <= plain.upper * (1 + 1e-9) + 1e-11).all(), seed
        assert (found.upper >= plain.lower * (1 - 1e-9) - 1e-11).all(), seed
        assert found.upper.max() <= found.lower.max() * (1 + 2e-7) + 1e-11, seed
        told = series.attack(loss)
        assert told.lower == pytest.approx(found.lower.max(), rel=1e-12) or found.lower.max() == 0
        assert told.upper >= plain.upper.max() * (1 - 1e-9)


def test_a_short_series_stands_for_a_longer_one():
    """Its bracket holds what the longer one leaks, settled or not."""
    for seed in range(examples(15)):
        generator = np.random.default_rng([seed, 8])
        P, start = leaky_chain(generator, 3, seed % 3)
        loss, who = float(generator.choice([0.05, 0.5, 3.0])), ("bdp", "pufferfish")[seed % 2]
        n = 20 + int(generator.integers(0, 4))
        found = TransientSeries(inputs.chain(P, start), n, who, n + 14).attack(loss)
        plain = leakage_of_losses(P, np.full(n + 14, loss), start=start, adversary=who, each=False)
        assert found.lower <= plain.upper.max() * (1 + 1e-9) + 1e-11, seed
        assert found.upper >= plain.lower.max() * (1 - 1e-9) - 1e-11, seed


@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
@pytest.mark.parametrize("P", [ABSORBED, DRAINED, SPLIT], ids=["absorbed", "drained", "split"])
def test_long_series_are_closed_and_leak_all_but_a_constant(P, who):
    start = np.eye(len(P))[0 if len(P) == 3 else 3]
    short = TightCurve(P, start=start, length=600, adversary=who).leakage(0.3)
    long = TightCurve(P, start=start, length=10**6, adversary=who).leakage(0.3)
    for found in (short, long):
        assert found.lower <= found.upper <= found.lower * (1 + CLOSED)
    missing = 600 * 0.3 - short.lower
    assert 0.1 < missing < 10
    assert 10**6 * 0.3 - long.lower == pytest.approx(missing, abs=1e-4)


@pytest.mark.parametrize("loss", [1e-5, 0.3, pytest.param(3.0, marks=pytest.mark.slow)])
def test_two_states_are_what_their_closed_form_says(loss):
    """Up to 512 records two states have code of their own; from there on each record adds its loss."""
    for start in ([1.0, 0.0], [0.5, 0.5]):
        closed = TightCurve(LEFT, start=start, length=512).leakage(loss)
        found = TightCurve(LEFT, start=start, length=4096).leakage(loss)
        assert found.upper == pytest.approx(closed.upper + (4096 - 512) * loss, rel=2e-7)
        assert found.lower == pytest.approx(found.upper, rel=CLOSED)


def test_who_was_absorbed_says_so_from_the_first_record_on():
    """By hand: the last record, absorbed against not, and every record asked whether it is absorbed."""
    loss, n = 0.3, 2000
    stayed = np.arange(1, n)  # records in the first state, given that the last is absorbed
    chances = 0.9 ** (stayed - 1) * 0.1
    expected = loss * n + math.log(np.sum(chances * np.exp(-loss * stayed)) / chances.sum())
    found = TightCurve(LEFT, start=[1.0, 0.0], length=n, adversary="pufferfish").leakage(loss)
    assert found.upper == pytest.approx(expected, rel=2e-7)
    assert (found.record, found.likelier, found.other) == (n, 1, 0)
    assert found.before.questions[0] == (1,)


@pytest.mark.slow
def test_the_inverse_is_flat_in_the_number_of_records():
    for n in (600, 10**6):
        curve = TightCurve(ABSORBED, start=[1.0, 0.0, 0.0], length=n)
        loss = curve.inverse(1.0)
        assert curve(loss) <= 1 < curve(loss * (1 + CLOSED))


def test_series_that_are_not_worked_out_this_way():
    assert transient_series(inputs.chain(ABSORBED, "any"), 100, "bdp") is None
    assert transient_series(inputs.chain([LEFT, LEFT], [0.5, 0.5]), 100, "bdp") is None
    assert TightCurve(ABSORBED, start=[1.0, 0.0, 0.0]).leakage(0.3).lower == math.inf


def visited_once(generator: np.random.Generator, k: int) -> np.ndarray:
    """A chain whose first states are left at once, for one class that forgets."""
    P, first = generator.dirichlet(np.full(k, 0.8), k), int(generator.integers(1, k - 1))
    P[first:, :first] = 0.0
    P[:first, :first] = np.triu(P[:first, :first], 1)
    P[0] = np.where(generator.random(k) < 0.3, 0.0, P[0]) + 0.1 * np.eye(k)[-1]
    return np.asarray(P / P.sum(axis=1, keepdims=True))


@pytest.mark.slow
def test_states_that_are_visited_once_with_any_start():
    for seed in range(examples(15)):
        generator = np.random.default_rng([seed, 3])
        P, n = visited_once(generator, int(generator.integers(3, 5))), int(generator.integers(2, 16))
        loss, who = float(generator.choice([0.05, 0.5, 3.0])), ("bdp", "pufferfish")[seed % 2]
        chain = inputs.chain(P, "any")
        series, endless = (any_start_series(chain, length, who == "bdp") for length in (n, None))
        assert series is not None and endless is not None
        found, long = series.at(loss), endless.at(loss)
        plain = leakage_of_losses(P, np.full(n, loss), start="any", adversary=who, each=False)
        assert plain.lower.max() * (1 - 1e-9) <= found.upper <= found.lower * (1 + 3e-7), seed
        assert found.lower <= plain.upper.max() * (1 + 1e-9), seed
        assert found.lower * (1 - 1e-9) <= long.upper <= long.lower * (1 + CLOSED), seed


@pytest.mark.slow
def test_states_that_are_visited_once_with_a_given_start():
    """A series without end leaks no less than a long one, and as much; what is too short says no less."""
    for seed in range(examples(6)):
        generator = np.random.default_rng([seed, 4])
        P = visited_once(generator, 3)
        loss, who = float(generator.choice([0.05, 0.5, 3.0])), ("bdp", "pufferfish")[seed % 2]
        chain = inputs.chain(P, generator.dirichlet(np.ones(3)))
        stands, direct = turns(chain, None, who), transient_series(chain, 300, who)
        assert stands is not None and direct is not None
        each, upper = stands.at(loss)
        long = direct.at(loss)
        assert long.lower.max() * (1 - 1e-9) <= upper <= each.lower.max() * (1 + CLOSED), seed
        assert each.lower.max() <= long.upper.max() * (1 + 1e-9), seed
        short = transient_series(chain, 9, who)
        assert short is not None
        assert Turns(short, None).at(loss)[1] >= long.lower.max() * (1 - 1e-9), seed
