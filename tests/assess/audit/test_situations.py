"""Whom an audit tries: windows first, always possible, known records as the adversary's kind allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.assess.audit.priors import ChainPrior, Prior, TablePrior
from pufferdp.assess.audit.situations import Situation, first_wave, neighbours, targets_of, unknown_segment
from pufferdp.basics.adversary import Adversary
from pufferdp.models.base import RecordModel
from pufferdp.models.chain import MarkovChain
from tests.strategies import SEEDS, chains, examples, networks, tables

STICKY = ChainPrior(MarkovChain(transition=[[0.9, 0.1], [0.1, 0.9]]), 30)

ONES = tuple((j, 1.0) for j in range(8, 30))


def waves(prior: Prior, adversary: Adversary, seed: int = 0) -> list[Situation]:
    """The first wave, and what lies around each of a few."""
    generator = np.random.default_rng(seed)
    found = list(first_wave(prior, adversary, targets_of(prior), generator))
    near = [s for one in found[:5] for s in neighbours(one, adversary, True, generator)]
    return [s for s in found if len(s.values()) > 1] + near


@given(
    model=st.one_of(chains(most_states=3, starts=("stationary", "given")), networks(most_nodes=4), tables()),
    adversary=st.sampled_from(list(Adversary)),
    seed=SEEDS,
)
@settings(max_examples=examples(60))
def test_everybody_tried_can_be(model: MarkovChain | RecordModel, adversary: Adversary, seed: int) -> None:
    """Zero probabilities and deterministic moves included: two values of the target stay possible, and K fits."""
    prior: Prior = ChainPrior(model, 6) if isinstance(model, MarkovChain) else TablePrior(model)
    for situation in waves(prior, adversary, seed):
        values = situation.values()
        assert len(values) > 1
        assert situation.target not in dict(situation.known)
        if adversary is not Adversary.BDP:
            assert len(situation.known) == (0 if adversary is Adversary.PUFFERFISH else prior.records - 1)
        for value in values:
            prior.draw(situation.given(value), 1, np.random.default_rng(0))


def test_windows_come_first() -> None:
    """Of a sticky series: nothing known, all known, and all but a segment of 1, 2, 4, … on both sides."""
    found = list(first_wave(STICKY, Adversary.BDP, [15], np.random.default_rng(0)))
    segments = {unknown_segment(s) for s in found}
    assert segments == {(0, 0), (1, 1), (2, 2), (4, 4), (8, 8), (15, 14)}
    assert {dict(s.known).get(0) for s in found} == {0.0, 1.0, None}


def test_steps_change_ends_widths_and_target() -> None:
    known = tuple((j, 0.0) for j in range(30) if not 10 <= j <= 20)
    found = neighbours(Situation(STICKY, 15, known), Adversary.BDP, True, np.random.default_rng(0))
    assert {
        (dict(s.known)[9], dict(s.known)[21]) for s in found if unknown_segment(s) == (5, 5) and s.target == 15
    } == {
        (0.0, 1.0),
        (1.0, 0.0),
        (1.0, 1.0),
    }
    assert {(6, 5), (5, 6), (4, 5), (6, 6), (4, 4)} <= {unknown_segment(s) for s in found}
    assert {14, 16} <= {s.target for s in found}
    fixed = neighbours(Situation(STICKY, 15, known), Adversary.BDP, False, np.random.default_rng(0))
    assert {s.target for s in fixed} == {15}


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ((), "no record"),
        (tuple((j, 0.0) for j in range(30) if j != 3), "all other records"),
        (
            tuple((j, 1.0) for j in range(8, 30)),
            "every record except the 3 before it and the 4 after it; the record after these is 1",
        ),
    ],
)
def test_what_they_know_in_words(known: tuple[tuple[int, float], ...], words: str) -> None:
    assert Situation(STICKY, 3, known).knows() == words


def test_of_many_values_a_few_are_told_apart() -> None:
    many = ChainPrior(MarkovChain(transition=np.full((50, 50), 0.02)), 3)
    values = Situation(many, 1, ()).values()
    assert len(values) == 6
    assert (values[0], values[-1]) == (0.0, 49.0)
