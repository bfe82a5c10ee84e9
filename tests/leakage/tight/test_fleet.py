"""The tight curve of many chains at once is that of each alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.leakage.tight.chain import TightCurve
from pufferdp.leakage.tight.fleet import losses_of_each
from tests.strategies import SEEDS, examples

LENGTHS = [1, 2, 3, 7, 63, 64, 65, 130, 1000, 10**6]


def tables(moves: np.ndarray) -> np.ndarray:
    return np.stack([1 - moves[:, 0], moves[:, 0], moves[:, 1], 1 - moves[:, 1]], axis=1).reshape(-1, 2, 2)


def alone(transitions, lengths, epsilon, adversary) -> np.ndarray:
    return np.array(
        [
            TightCurve(table, length=int(length), adversary=str(adversary)).inverse(epsilon)
            for table, length in zip(transitions, lengths, strict=True)
        ]
    )


@given(
    seed=SEEDS,
    moves=st.sampled_from([(0.1, 0.9), (0.0, 1.0), (0.01, 0.2), (0.8, 1.0)]),
    epsilon=st.sampled_from([0.01, 0.3, 1.0, 8.0]),
    adversary=st.sampled_from(list(Adversary)),
)
@settings(max_examples=examples(25))
def test_each_is_as_it_is_alone(seed, moves, epsilon, adversary):
    generator = np.random.default_rng(seed)
    transitions = tables(generator.uniform(*moves, size=(6, 2)))
    lengths = generator.choice(LENGTHS, size=6)
    together = losses_of_each(transitions, lengths, epsilon, adversary)
    assert together == pytest.approx(alone(transitions, lengths, epsilon, adversary), rel=1e-9)


@pytest.mark.parametrize("adversary", list(Adversary))
def test_ugly_chains_are_among_them(adversary):
    """Zeros, copies, alternation, independence, a state that is never left, very slow and very fast chains."""
    moves = np.array(
        [[0, 0], [1, 1], [1, 0.5], [0.5, 0.5], [0, 0.3], [1e-120, 0.2], [1e-4, 2e-4], [0.3, 1], [0.999, 0.999]]
    )
    transitions, lengths = tables(moves), np.full(len(moves), 50)
    for epsilon in (0.5, 2.0):
        together = losses_of_each(transitions, lengths, epsilon, adversary)
        assert together == pytest.approx(alone(transitions, lengths, epsilon, adversary), rel=1e-9)


def test_a_large_promise():
    transitions = tables(np.array([[0.1, 0.3], [0.9, 0.8]]))
    lengths = np.array([40, 40])
    together = losses_of_each(transitions, lengths, 500.0, Adversary.BDP)
    assert together == pytest.approx(alone(transitions, lengths, 500.0, Adversary.BDP), rel=1e-9)


def test_none_may_spend_more_than_it_was_seen_to_leak():
    generator = np.random.default_rng(3)
    transitions = tables(generator.uniform(0.02, 0.98, size=(40, 2)))
    lengths = generator.choice(LENGTHS[:-1], size=40)
    losses = losses_of_each(transitions, lengths, 1.0, Adversary.BDP)
    leaked = [TightCurve(t, length=int(n))(loss) for t, n, loss in zip(transitions, lengths, losses, strict=True)]
    # The bracket of one chain is as wide as 1e-11 of the leakage, and it is the upper end that is compared.
    assert max(leaked) <= 1 + 1e-11
    assert min(leaked) >= 1 - 1e-9
