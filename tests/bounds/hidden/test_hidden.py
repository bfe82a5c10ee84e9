"""No DP algorithm leaks more about a record of a hidden chain than its curves say; two hidden states are exact."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pufferdp.bounds.curves import best_curve, curve
from pufferdp.bounds.hidden.iteration import TOLERANCE
from pufferdp.bounds.hidden.odds import HiddenOdds
from pufferdp.bounds.hidden.uninformed import UninformedBound
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.models.chain import MarkovChain
from pufferdp.models.hidden import HiddenMarkov
from pufferdp.models.hidden_states import HiddenStates
from tests.bounds.tight import cases
from tests.oracles import algorithms, blocks
from tests.strategies import examples, random_distribution, random_rows

ROOM = 1e-8
A = [[0.9, 0.1], [0.2, 0.8]]
SHOWN = [[0.8, 0.2], [0.3, 0.7]]
PARTS = 32


def hidden_case(seed):
    """Tables with zeros and certain states, a start of any kind, a loss of any size."""
    generator = np.random.default_rng([seed, 81])
    hidden, values = int(generator.choice([2, 2, 3])), int(generator.integers(2, 4))
    n = int(generator.integers(1, 5 if values == 2 else 4))
    kernel, shown = cases.transition(generator, hidden), random_rows(generator, hidden, values)
    start = "stationary" if generator.random() < 0.5 else random_distribution(generator, hidden)
    model = HiddenMarkov(transition=kernel, emission=shown, start=start)
    return model, n, cases.loss(generator)


def programme(model, n, loss, who):
    joint = algorithms.hidden_table(model.transition, model.emission, model.start_distribution, n)
    return max(algorithms.joint_leakage(joint, [loss] * n, t, who) for t in range(n))


@pytest.mark.parametrize("part", range(PARTS))
def test_never_below_the_programme(part):
    for seed in range(part, examples(300), PARTS):
        model, n, loss = hidden_case(seed)
        if model.hidden_chain.given_start is None:
            alone = programme(model, n, loss, "pufferfish")
            tight = curve("tight", model, n, "pufferfish")(loss)
            assert tight >= alone - ROOM, seed
            if len(model.transition) == 2 and alone > 0:  # 0: every record is certain
                assert tight == pytest.approx(alone, abs=ROOM), seed
        assert curve("odds", model, n)(loss) >= programme(model, n, loss, "every") - ROOM, seed


@pytest.mark.parametrize(
    ("loss", "leaks"), [(0.1, 0.158137), (0.5, 0.804636), (1.0, 1.594221)], ids=["small", "usual", "large"]
)
def test_check_values(loss, leaks):
    model = HiddenMarkov(transition=A, emission=SHOWN)
    assert curve("tight", model, 5, "pufferfish")(loss) == pytest.approx(leaks, abs=1e-6)


def test_ten_per_cent_less_noise_would_break_the_guarantee():
    for seed in range(examples(16)):
        generator = np.random.default_rng([seed, 82])
        model = HiddenMarkov(
            transition=generator.dirichlet([1, 1], size=2), emission=generator.dirichlet([1, 1], size=2)
        )
        epsilon = float(generator.choice([0.3, 1.0, 3.0]))
        loss = curve("tight", model, 4, "pufferfish").inverse(epsilon)
        assert programme(model, 4, loss, "pufferfish") == pytest.approx(epsilon, rel=1e-6), seed
        assert programme(model, 4, 1.1 * loss, "pufferfish") > epsilon * 1.01, seed


def test_the_search_over_couplings_finds_what_is_known_for_two_hidden_states(monkeypatch):
    monkeypatch.setattr(UninformedBound, "exact", False)
    for seed in range(examples(10)):
        generator = np.random.default_rng([seed, 83])
        kernel, shown = generator.dirichlet([1, 1], size=2), generator.dirichlet([1, 1, 1], size=2)
        distribution = MarkovChain(transition=kernel).stationary
        searched = UninformedBound(kernel, shown, distribution, length=4)(0.4)
        with monkeypatch.context() as patch:
            patch.setattr(UninformedBound, "exact", True)
            known = UninformedBound(kernel, shown, distribution, length=4)(0.4)
        assert searched == pytest.approx(known, rel=1e-8), seed


def test_long_series_are_bounded_by_what_a_step_does_not_raise():
    distribution = MarkovChain(transition=A).stationary
    short = [UninformedBound(A, SHOWN, distribution, length=n)(0.5) for n in (1, 5, 60, 200)]
    assert short == sorted(short)
    endless = UninformedBound(A, SHOWN, distribution, length=10**6)(0.5)
    assert short[-1] <= endless <= short[-1] * (1 + 2 * TOLERANCE)
    three = np.array([[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])
    distribution = MarkovChain(transition=three).stationary
    lengths = (40, 10**6)
    few, many = (UninformedBound(three, [*SHOWN, [0.5, 0.5]], distribution, length=n)(0.5) for n in lengths)
    assert few <= many <= few * 1.001


def test_a_record_that_shows_its_hidden_state_is_a_chain_and_never_below_it():
    for seed in range(examples(20)):
        generator = np.random.default_rng([seed, 84])
        k, n, loss = int(generator.integers(2, 4)), int(generator.integers(1, 6)), cases.loss(generator)
        kernel = cases.transition(generator, k)
        hidden = HiddenMarkov(transition=kernel, emission=np.eye(k))
        for who in ("bdp", "pufferfish"):
            exact = TightCurve(kernel, length=n, adversary=who, tolerance=1e-9)(loss)
            assert best_curve(hidden, n, who)(loss) >= exact - ROOM, seed


def test_zeros_take_several_steps_or_group_privacy():
    cyclic = HiddenOdds.of([[0.5, 0.5, 0], [0, 0.6, 0.4], [0.3, 0, 0.7]], [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]])
    assert math.isinf(cyclic.hidden[0])
    assert math.isfinite(cyclic(0.1))
    certain = HiddenOdds.of(np.eye(2), np.eye(2), length=7)
    assert certain(0.1) == pytest.approx(0.7)
    assert math.isinf(HiddenOdds.of(np.eye(2), np.eye(2))(0.1))
    assert HiddenOdds.of(np.eye(2), np.eye(2)).inverse(1.0) == 0.0


def test_records_that_say_nothing_of_their_hidden_state_are_independent():
    model = HiddenMarkov(transition=A, emission=[[0.3, 0.7], [0.3, 0.7]])
    assert best_curve(model, 50)(0.4) == 0.4
    assert best_curve(HiddenMarkov(transition=[[0.5, 0.5]] * 2, emission=SHOWN), 50)(0.4) == 0.4


def test_the_curve_for_nobody_knows_why_it_does_not_apply():
    for start in ("any", [1.0, 0.0]):
        model = HiddenMarkov(transition=A, emission=SHOWN, start=start)
        assert "needs a stationary start" in curve("tight", model, 5, "pufferfish").reason
        assert not curve("tight", model, 5, "bdp").applies
    many = HiddenMarkov(transition=np.full((30, 30), 1 / 30), emission=np.full((30, 4), 0.25))
    assert not curve("tight", many, 10, "pufferfish").applies


def block_programme(model, n, block, phase, loss):
    """The most that any algorithm with this loss on every block leaks about a block, whichever others are known."""
    hidden = model.hidden
    joint = algorithms.hidden_table(hidden.transition, hidden.emission, hidden.start_distribution, n)
    cut = blocks.cut(n, block, phase)
    most = 0.0
    for target, here in enumerate(cut):
        for known in blocks.known_sets([t for t in range(n) if t not in here], "bdp"):
            most = max([most, *blocks.block_pairs(joint, cut, target, loss, known).values()])
    return most


def block_case(seed):
    """A hidden chain as above, or a chain of second order, both with zeros."""
    model, n, loss = hidden_case(seed)
    if seed % 3 == 0:
        generator = np.random.default_rng([seed, 82])
        model, n = HiddenStates.of_order([random_rows(generator, 2, 2) for _ in range(2)]), 4
    return model, max(n, 2), min(loss, 3.0)


def test_whole_blocks_are_never_below_the_programme():
    for seed in range(examples(90)):
        model, n, loss = block_case(seed)
        odds = curve("odds", model, n, unit=2)
        if odds.applies:
            assert odds(loss) >= block_programme(model, n, 2, seed % 2, loss) - ROOM, seed
