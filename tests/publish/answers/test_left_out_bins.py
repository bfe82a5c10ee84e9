"""A binned model that leaves a bin out: one numbering of its states, from reading to release.

The calibration alone cannot show a mistake here. So the guarantee is enumerated through ``release`` itself: every
series is released, and what comes out before noise is what the leakage is computed from.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from pufferdp import MarkovChain, Query, release, verify
from tests.oracles.leakage import channel_leakage, path_distribution

EDGES = (0.0, 10.0, 20.0, 30.0, 40.0)
NAMES = ("0..10", "20..30", "30..40")
INSIDE = np.array([5.0, 25.0, 35.0])
"""A number in each bin that the model has; nobody was ever in 10..20."""


class NoNoise:
    """A sampler that returns the exact answer and remembers the scale."""

    warning = None

    def laplace(self, exact, scale):
        self.scale = scale
        return list(exact)


def binned(transition, **more) -> MarkovChain:
    return MarkovChain(transition=transition, states=NAMES, bins=EDGES, **more)


def total(chains) -> float:
    return float(sum(chain.sum() for chain in chains))


def leaked(model, query, adversary, length=2, mechanism=None) -> float:
    """What ``release`` leaks at epsilon 1: all series that the model allows, one release each."""
    distribution = path_distribution(model.transition, model.stationary, length)
    answers, scales = np.zeros(distribution.shape), set()
    for path in itertools.product(range(3), repeat=length):
        if distribution[path] > 0:
            sampler = NoNoise()
            done = release(
                pd.DataFrame({"watt": INSIDE[list(path)]}),
                model=model,
                column="watt",
                query=query,
                epsilon=1.0,
                adversary=adversary,
                mechanism=mechanism,
                sampler=sampler,
            )
            answers[path] = done.answer
            scales.add(sampler.scale)
            assert verify(done.certificate, query=query).valid
    scale = min(scales)  # they differ by what is added for the rounding of an answer, some 1e-16
    assert max(scales) <= scale * (1 + 1e-12)
    outputs = np.unique(answers)  # the largest ratio is reached at a possible answer
    channel = np.exp(-np.abs(answers[..., None] - outputs) / scale)
    return channel_leakage(distribution, channel, adversary)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adversary", "mechanism"), [("pufferfish", "wasserstein"), ("pufferfish", "group"), ("bdp", "curve-tight")]
)
def test_a_function_is_released_on_the_states_it_was_calibrated_on(adversary, mechanism):
    model = binned([[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])
    query = Query.of_function(total, lipschitz=2.0)
    assert leaked(model, query, adversary, mechanism=mechanism) <= 1 + 1e-9


def test_a_table_over_the_states_has_room_for_every_number():
    """A look-up by state number neither fails nor reads the value of another state."""
    model = binned([[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])
    prices = np.array([0.0, 0.5, 3.0])
    query = Query.of_function(lambda chains: float(sum(prices[chain].sum() for chain in chains)), lipschitz=3.0)
    done = release(
        pd.DataFrame({"watt": INSIDE}),
        model=model,
        column="watt",
        query=query,
        epsilon=1.0,
        mechanism="group",
        sampler=NoNoise(),
    )
    assert done.answer == pytest.approx(3.5, rel=1e-9)


def test_an_answer_that_the_model_fixes_is_checked_on_the_same_states():
    """The check for impossible data neither refuses what is possible nor fails: 20..30 is state 1, not state 2."""
    model = binned([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    query = Query.of_function(lambda chains: float(sum(len(chain) for chain in chains)), lipschitz=1.0)
    done = release(
        pd.DataFrame({"watt": np.tile(INSIDE, 2)}),
        model=model,
        column="watt",
        query=query,
        epsilon=1.0,
        adversary="pufferfish",
        mechanism="wasserstein",
        sampler=NoNoise(),
    )
    assert done.answer == 6
    assert any("exact" in warning for warning in done.certificate.warnings)
