"""The learned attacker: it learns, it can be repeated, and it learns from others than it guesses."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp import MarkovChain
from pufferdp.assess.attack.attack import attack_series, channel_of
from pufferdp.assess.attack.attackers import CorrelationAware, Learned, SingleBit, Viterbi
from pufferdp.basics.errors import ParameterError
from pufferdp.models.simulate import draw_moves, sample_chain

STICKY = MarkovChain(transition=[[0.97, 0.03], [0.03, 0.97]])
CHANNEL = channel_of([0.3], STICKY)
QUICK = Learned(hidden=8, reach=64, epochs=5, folds=2, batch=128)


def test_it_learns_what_neighbours_say() -> None:
    """Single-bit is right in .7 of the records; 0.75 is 6 standard deviations of 3,000 independent ones above that."""
    generator = np.random.default_rng(4)
    truth = sample_chain(STICKY, 3000, 1, generator)
    outputs = draw_moves(truth, CHANNEL, generator)
    guesses = QUICK.cross_validate(outputs, truth, CHANNEL)
    right = float((guesses == truth).mean())
    assert (SingleBit().guess(outputs, STICKY, CHANNEL) == truth).mean() < 0.75 < right
    # Nobody beats the posterior but by chance: two standard deviations of blocks.
    assert right <= (CorrelationAware().guess(outputs, STICKY, CHANNEL) == truth).mean() + 0.02


def test_it_learns_from_the_model_and_can_be_repeated() -> None:
    learner = Learned(reach=16, hidden=4, epochs=1, batch=64, training=2000)
    outputs = draw_moves(sample_chain(STICKY, 300, 2, np.random.default_rng(5)), CHANNEL, np.random.default_rng(6))
    first, second = (learner.guess(outputs, STICKY, CHANNEL) for _ in range(2))
    assert first.shape == outputs.shape
    assert (first == second).all()


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(ParameterError, match="folds is 1"):
        Learned(folds=1)
    with pytest.raises(ParameterError, match="folds is 10, and there are 3 records"):
        Learned().cross_validate(np.zeros(3, dtype=int), np.zeros(3, dtype=int), CHANNEL)
    with pytest.raises(ParameterError, match="truth="):
        attack_series(np.zeros(30, dtype=int), None, model=STICKY, channel=CHANNEL, learned=Learned())


@pytest.mark.slow
def test_far_outputs_are_seen_where_near_ones_say_little() -> None:
    """Two states of 400 records each and nearly useless outputs: right in .56 alone, far above .9 together.

    A window of 21 outputs sees one or two more of one kind, and is right in less than .75.
    """
    generator = np.random.default_rng(8)
    truth = np.repeat(np.arange(30) % 2, 400)
    weak = channel_of([0.44], STICKY)
    outputs = draw_moves(truth, weak, generator)
    right = [float((Learned(reach=reach).cross_validate(outputs, truth, weak) == truth).mean()) for reach in (8, 256)]
    assert right[0] < 0.75
    assert right[1] > 0.85


def test_it_is_no_weaker_than_viterbi_on_a_chain() -> None:
    generator = np.random.default_rng(4)
    truth = sample_chain(STICKY, 8000, 1, generator)
    outputs = draw_moves(truth, CHANNEL, generator)
    learned, viterbi = (
        float((guesses == truth).mean())
        for guesses in (
            Learned(epochs=4, folds=4).cross_validate(outputs, truth, CHANNEL),
            Viterbi().guess(outputs, STICKY, CHANNEL),
        )
    )
    assert learned >= viterbi - 0.01


def test_what_it_guesses_has_no_say_in_what_it_learns() -> None:
    """Other truth in a part leaves the guesses of that part as they are."""
    generator = np.random.default_rng(9)
    truth = sample_chain(STICKY, 600, 1, generator)[0]
    outputs = draw_moves(truth, CHANNEL, generator)
    other = truth.copy()
    other[:300] = 1 - other[:300]
    first, second = (QUICK.cross_validate(outputs, states, CHANNEL) for states in (truth, other))
    assert (first[:300] == second[:300]).all()
    assert (first[300:] != second[300:]).any()
