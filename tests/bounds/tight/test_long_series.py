"""Long ways against short ones: clocks, cycles, first records that cannot come again, and what lies farther away."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.bounds.tight import inputs, series
from pufferdp.bounds.tight.chain import tight_leakage
from pufferdp.bounds.tight.long.turns import Turns, turns
from pufferdp.bounds.tight.series import leakage_of_losses
from pufferdp.bounds.tight.steady import whole_series
from tests.bounds.tight import cases
from tests.strategies import examples, random_law

WHO = ("bdp", "pufferfish")
CLOSED = 1e-6


def _cycle(generator, k, parts):
    """A chain that goes round in parts, and a law on the first of them."""
    part = np.arange(k) % parts
    ahead = part[None, :] == (part[:, None] + 1) % parts
    table = generator.dirichlet(np.ones(k), size=k) * ahead * (generator.random((k, k)) < 0.85) + 0.05 * ahead
    law = random_law(generator, k) * (part == 0)
    law = np.eye(k)[0] if generator.random() < 0.3 or law.sum() == 0 else law / law.sum()
    return table / table.sum(axis=1, keepdims=True), law


@pytest.mark.parametrize("largest", [False, True], ids=["each", "largest"])
@pytest.mark.parametrize("seed", range(examples(60)))
def test_all_records_side_by_side_are_what_they_are_one_by_one(seed, largest, monkeypatch):
    """Once a clock's kernels were those of its last step, and a first record that cannot come again was lost.

    Upper ends were 9 % too small in series of more than 128 records.
    """
    generator = np.random.default_rng([seed, 41])
    k, n = int(generator.integers(3, 5)), int(generator.integers(5, 14))
    tables, law = np.stack([cases.transition(generator, k) for _ in range(1 + seed % 3)]), random_law(generator, k)
    if seed % 4 == 0:
        table, law = _cycle(generator, k, 2)
        tables = table[None]
    losses, who = cases.losses(generator, n), WHO[seed % 2]
    listed = leakage_of_losses(tables, losses, start=law, adversary=who)
    monkeypatch.setattr(series, "_LONG", 3)
    long = leakage_of_losses(tables, losses, start=law, adversary=who, each=not largest)
    assert (long.upper >= listed.lower * (1 - 1e-9) - 1e-11).all()
    assert (long.lower <= listed.upper * (1 + 1e-9) + 1e-11).all()
    assert long.upper.max() <= listed.upper.max() * (1 + CLOSED) + 1e-9


@pytest.mark.parametrize("who", WHO)
def test_a_clock_goes_on_behind_its_last_kernel(who):
    """What is far from the end does not change when the series becomes longer."""
    tables, law = np.random.default_rng(0).dirichlet(np.full(3, 0.5), size=(4, 3)), [0.2, 0.3, 0.5]
    short, long = (leakage_of_losses(tables, np.full(n, 0.4), start=law, adversary=who) for n in (60, 140))
    assert long.upper[20:30] == pytest.approx(short.upper[20:30], rel=1e-6)


@pytest.mark.parametrize("seed", range(examples(40)))
def test_cycles_are_what_they_are_record_by_record(seed):
    generator = np.random.default_rng([seed, 9])
    k, n, loss = int(generator.integers(3, 6)), int(generator.integers(2, 25)), cases.loss(generator)
    table, law = _cycle(generator, k, int(generator.integers(2, 4)))
    chain, who = inputs.chain(table, law), WHO[seed % 2]
    found = whole_series(chain, n, who)
    assert found is not None
    at = found.at(loss)
    each = leakage_of_losses(table, np.full(n, loss), start=law, adversary=who)
    assert (at.lower <= each.upper * (1 + 1e-9) + 1e-11).all()
    assert (at.upper >= each.lower * (1 - 1e-9) - 1e-11).all()
    assert at.upper.max() <= at.lower.max() * (1 + 2e-7) + 1e-11


@pytest.mark.parametrize("who", WHO)
def test_a_short_cycle_stands_for_itself(who):
    """All its records count, those of the second half too, and nothing beyond them does."""
    loss, late = 0.7, 0
    for seed in range(5):
        n = 4 + seed
        table, law = _cycle(np.random.default_rng([seed, 10]), 4, 2)
        alone = turns(inputs.chain(table, law), n, who)
        exact = leakage_of_losses(table, np.full(n, loss), start=law, adversary=who)
        assert alone is not None
        found, upper = alone.at(loss)
        late += int(exact.lower.argmax() > n // 2)
        assert (found.lower <= exact.upper * (1 + 1e-9)).all(), seed
        assert exact.lower.max() <= upper * (1 + 1e-9), seed
        assert upper <= found.lower.max() * (1 + 2e-7), seed
    assert late


@pytest.mark.slow
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("loss", [0.01, 0.3, 5.0])
def test_cycles_without_end_have_closed_brackets(who, loss):
    """Once nothing but group privacy bounded them."""
    table, law = _cycle(np.random.default_rng(1), 5, 2)
    chain = inputs.chain(table, law)
    endless = tight_leakage(table, loss, start=law, adversary=who)
    assert endless.lower <= endless.upper <= endless.lower * (1 + CLOSED)
    long = tight_leakage(table, loss, start=law, length=10**6, adversary=who)
    assert long.upper == pytest.approx(endless.upper, rel=1e-9)
    some = whole_series(chain, 60, who)
    assert some is not None
    assert endless.upper >= some.at(loss).lower.max() * (1 - 1e-9)
    for n in (4, 8, 20):  # a series that is too short to stand for others is not taken for them
        short = whole_series(chain, n, who)
        assert short is not None
        assert Turns(short, None).at(loss)[1] >= endless.lower * (1 - 1e-9)


def test_what_is_no_cycle_is_left_to_other_ways():
    left = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.0, 0.0, 1.0]])
    assert turns(inputs.chain(left, np.eye(3)[0]), None, "bdp") is None
    cycle = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.4, 0.6, 0.0]])
    assert turns(inputs.chain(cycle, [0.2, 0.3, 0.5]), None, "bdp") is None
    assert turns(inputs.chain(cycle, [0.4, 0.6, 0.0]), None, "bdp") is not None
    assert turns(inputs.chain(cycle, "any"), None, "bdp") is None
    four = np.roll(np.eye(4), 1, axis=1)
    assert turns(inputs.chain(four, [0.5, 0.0, 0.5, 0.0]), None, "bdp") is None
