"""The learned attacker: it learns, it can be repeated, and it says what it needs."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from pufferdp import MarkovChain
from pufferdp.assess.attack.attack import attack_series, channel_of
from pufferdp.assess.attack.attackers import CorrelationAware, Learned, SingleBit, torch_there
from pufferdp.basics.errors import ParameterError
from pufferdp.models.simulate import draw_moves, sample_chain

needs_torch = pytest.mark.skipif(not torch_there(), reason="torch is not installed (extra attack)")
STICKY = MarkovChain(transition=[[0.97, 0.03], [0.03, 0.97]])
CHANNEL = channel_of([0.3], STICKY)
QUICK = Learned(window=9, hidden=8, epochs=5, folds=2, batch=128, rate=0.03)


@needs_torch
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


@needs_torch
def test_it_learns_from_the_model_and_can_be_repeated() -> None:
    learner = Learned(window=5, hidden=4, epochs=1, batch=64, training=2000)
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


def test_without_torch_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ParameterError, match=r"pip install 'pufferdp\[attack\]'"):
        QUICK.cross_validate(np.zeros(30, dtype=int), np.zeros(30, dtype=int), CHANNEL)
