"""Any distribution of the first record: above every distribution tried, for every chain and loss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.bounds.tight.chain import TightCurve
from tests.bounds.tight import cases
from tests.bounds.tight.cases import leakage_of_losses
from tests.oracles import newton
from tests.strategies import SEEDS, examples, random_distribution

WHO = ("bdp", "pufferfish")
LOSSES = (1e-3, 0.2, 1.0, 5.0, 40.0, 150.0, 300.0)


@pytest.mark.slow
@given(seed=SEEDS, who=st.sampled_from(WHO), records=st.integers(1, 5))
@settings(max_examples=examples(12))
def test_no_start_leaks_more(seed, who, records):
    generator = np.random.default_rng(seed)
    k = int(generator.integers(2, 4))
    table = cases.transition(generator, k)
    losses = np.where(generator.random(records) < 0.2, 0.0, generator.choice(LOSSES, size=records))
    found = leakage_of_losses(table, losses, start="any", adversary=who)
    assert np.isfinite(found.upper).all()
    assert (found.lower <= found.upper * (1 + 1e-12)).all()
    for distribution in (*np.eye(k), *(random_distribution(generator, k) for _ in range(3))):
        one = leakage_of_losses(table, losses, start=distribution, adversary=who)
        assert (found.upper >= one.lower - 1e-9 * (1 + one.lower)).all(), distribution
    if losses.max() <= 5:
        # Distributions of two values are enough, and their odds need not be found closely.
        worst = newton.any_start([table], losses, who, 25)
        assert (found.upper >= worst * (1 - 1e-9)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "who", "losses"),
    [
        (154_541, "bdp", [150, 0, 40, 40]),
        (1_067, "pufferfish", [300, 0, 3, 0]),
        (1_116, "bdp", [150, 0, 0]),
        (1_133, "bdp", [80, 0.05, 3, 5]),
    ],
)
def test_the_worst_start_may_be_nearly_certain(seed, who, losses):
    """Odds of 1e30 are the worst here, and a share of one less 1e-30 is no double."""
    generator = np.random.default_rng(seed)
    table = cases.transition(generator, int(generator.integers(2, 4)))
    found = leakage_of_losses(table, losses, start="any", adversary=who)
    worst = newton.any_start([table], losses, who, 141, farthest=350)
    assert (found.upper >= worst * (1 - 1e-9)).all()
    assert found.upper[0] <= worst[0] * 1.02


@given(seed=SEEDS, who=st.sampled_from(WHO), losses=st.lists(st.sampled_from(LOSSES), min_size=1, max_size=4))
@settings(max_examples=examples(6))
def test_no_start_of_any_odds_leaks_more(seed, who, losses):
    generator = np.random.default_rng(seed)
    table = cases.transition(generator, int(generator.integers(2, 4)))
    found = leakage_of_losses(table, losses, start="any", adversary=who)
    assert (found.upper >= newton.any_start([table], losses, who, 71, farthest=330) * (1 - 1e-9)).all()


@given(seed=SEEDS, who=st.sampled_from(WHO), loss=st.sampled_from(LOSSES))
@settings(max_examples=examples(6))
def test_no_start_leaks_more_at_one_loss_for_all(seed, who, loss):
    generator = np.random.default_rng(seed)
    k, records = int(generator.integers(2, 4)), int(generator.choice([1, 4, 30]))
    table = cases.transition(generator, k)
    most = TightCurve(table, start="any", length=records, adversary=who)(loss)
    assert most <= loss * records * (1 + 1e-9)
    for distribution in (*np.eye(k), random_distribution(generator, k)):
        reached = TightCurve(table, start=distribution, length=records, adversary=who).leakage(loss).lower
        assert most >= reached - 1e-9 * (1 + reached), distribution


@pytest.mark.parametrize("table", [[[0, 1, 0], [0, 0, 1], [1, 0, 0]], [[1, 0, 0], [0.5, 0, 0.5], [0, 0, 1]]])
def test_cycles_and_closed_classes(table):
    """Every record then tells where the chain is, or which class it is in: all losses add up."""
    for loss in (0.3, 250.0):
        assert TightCurve(table, start="any", length=6)(loss) == pytest.approx(6 * loss, rel=1e-9)


def test_a_pass_may_be_left_with_one_question():
    """No two μ are then left, between which a mixture of first values could have a root."""
    table = [
        [0.00319, 0.99681, 0, 0, 0, 0, 0],
        [0.07381, 0.05006, 0.87613, 0, 0, 0, 0],
        [0.03767, 0.18697, 0.77366, 0.0017, 0, 0, 0],
        [0, 0, 0.99893, 0.00106, 1e-5, 0, 0],
        [0.48543, 0, 0, 0.26763, 0.03844, 0.2085, 0],
        [0, 0, 0.10078, 0, 0.46097, 0.43093, 0.00732],
        [0, 0, 0.07098, 0, 0, 0.8898, 0.03922],
    ]
    loss = 1.3391105315855398
    table = np.array(table) / np.sum(table, axis=1, keepdims=True)
    found = TightCurve(table, start="any", length=100, adversary="pufferfish").leakage(loss)
    reached = [
        TightCurve(table, start=first, length=100, adversary="pufferfish").leakage(loss).lower for first in np.eye(7)
    ]
    assert max(reached) <= found.upper < 100 * loss
