"""Many two-state chains at once: equal to one at a time, and to the literal loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.leakage.quilts import fleet
from pufferdp.leakage.quilts.chains import worst_record
from pufferdp.leakage.quilts.fleet import sigmas, worst_of_each
from pufferdp.leakage.quilts.search import Score
from pufferdp.models.chain import MarkovChain
from tests.oracles.chains import Literal, quilt_sigma, score
from tests.publish.answers.mechanisms.suite import literal_start
from tests.strategies import SEEDS, chains, epsilons, examples, random_law

BOTH = (Adversary.PUFFERFISH, Adversary.BDP)
LENGTHS = (1, 2, 3, 4, 5, 8, 13, 40, 100, 1000, 5000)


def ugly_tables(generator: np.random.Generator, count: int) -> np.ndarray:
    """Tables (count, 2, 2): smooth, 0 and 1, slow, alternating, never left, always left, equal rows, tiny entries."""
    move = generator.random((count, 2))
    kind = generator.integers(9, size=count)
    move[kind == 1] = np.round(move[kind == 1])
    move[kind == 2] *= 0.02
    move[kind == 3] = 1 - 0.1 * move[kind == 3]
    move[kind == 4, generator.integers(2)] = 0.0
    move[kind == 5, generator.integers(2)] = 1.0
    move[kind == 6, 1] = 1 - move[kind == 6, 0]
    move[kind == 7] = 10.0 ** -generator.uniform(3, 200, size=(int((kind == 7).sum()), 2))
    return np.stack([1 - move[:, 0], move[:, 0], move[:, 1], 1 - move[:, 1]], axis=1).reshape(-1, 2, 2)


@settings(max_examples=examples(15))
@given(seed=SEEDS, epsilon=epsilons, adversary=st.sampled_from(BOTH))
def test_a_fleet_equals_one_at_a_time(seed, epsilon, adversary):
    generator = np.random.default_rng(seed)
    tables, lengths = ugly_tables(generator, 24), generator.choice(LENGTHS, size=24)
    starts = ["stationary"] * 20 + ["any"] * 2 + [random_law(generator, 2) for _ in range(2)]
    models = [MarkovChain(transition=table, start=start) for table, start in zip(tables, starts, strict=True)]
    found = worst_of_each(models, lengths.tolist(), epsilon, adversary)
    for one, model, length in zip(found, models, lengths, strict=True):
        alone = worst_record(model, int(length), Score(epsilon), adversary)
        assert one.value == pytest.approx(alone.value, rel=1e-9)
        # The quilt is the same, or its mirror image: these chains look the same backwards.
        assert sorted([one.left or 0, one.right or 0]) == sorted([alone.left or 0, alone.right or 0])
        assert (one.nearby, one.influence) == (alone.nearby, pytest.approx(alone.influence, rel=1e-6, abs=1e-9))
    quick = np.stack([model.transition for model in models[:20]])
    assert sigmas(quick, lengths[:20], epsilon, adversary) == pytest.approx(
        [one.value for one in found[:20]], rel=1e-12
    )


@settings(max_examples=examples(25))
@given(
    chain=chains(most_states=2, starts=("stationary",)),
    T=st.integers(1, 14),
    epsilon=epsilons,
    adversary=st.sampled_from(BOTH),
)
def test_a_fleet_of_one_equals_the_literal_loop(chain, T, epsilon, adversary):
    (found,) = worst_of_each([chain], [T], epsilon, adversary)
    literal = Literal(chain.transition, literal_start(chain), T).worst(score(epsilon), adversary is Adversary.BDP)
    assert found.value == pytest.approx(literal[0], rel=1e-9)


@pytest.mark.parametrize("adversary", BOTH)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
def test_alternating_chains_equal_the_literal_loop(epsilon, adversary):
    """Where the two pairs of values take turns and the ends of the best quilt are not equally far."""
    generator = np.random.default_rng(7)
    count = examples(12)
    move = 1 - 0.5 * generator.random((count, 2))
    tables = np.stack([1 - move[:, 0], move[:, 0], move[:, 1], 1 - move[:, 1]], axis=1).reshape(-1, 2, 2)
    found = sigmas(tables, np.full(count, 24), epsilon, adversary)
    law = move[:, ::-1] / move.sum(axis=1, keepdims=True)
    for sigma, table, start in zip(found, tables, law, strict=True):
        assert sigma == pytest.approx(quilt_sigma(table, start, 24, epsilon, adversary is Adversary.BDP), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("adversary", BOTH)
def test_most_of_a_fleet_is_not_searched_alone(adversary, monkeypatch):
    """Otherwise the test above would compare the search for one chain with itself."""
    alone = []
    search = fleet._search_alone
    monkeypatch.setattr(fleet, "_search_alone", lambda *args: alone.append(args) or search(*args))
    generator = np.random.default_rng(3)
    count = 2000  # of fewer, too many may be ugly by chance
    tables = ugly_tables(generator, count)
    sigmas(tables, np.full(count, 1000), 1.0, adversary)
    tiny = ((tables > 0) & (tables < 1e-140)).any(axis=(1, 2)).sum()
    assert tiny <= len(alone) < count / 8


def test_a_fleet_may_be_empty():
    assert worst_of_each([], [], 1.0, Adversary.BDP) == []
    assert len(sigmas(np.empty((0, 2, 2)), np.empty(0, dtype=int), 1.0, Adversary.BDP)) == 0
