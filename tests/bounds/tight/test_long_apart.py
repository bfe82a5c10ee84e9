"""Values that every other record tells apart: all losses add up, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.chain import tight_leakage
from pufferdp.bounds.tight.long.apart import tells_apart
from pufferdp.bounds.tight.series import leakage_of_losses
from tests.bounds.tight import cases
from tests.strategies import examples, random_law

LOSS = 0.3
CYCLE = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.4, 0.6, 0.0]])
LEFT_FOR_GOOD = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize("block", range(4))
def test_it_is_found_where_all_losses_add_up_and_nowhere_else(block):
    found = 0
    for seed in range(block * examples(40), (block + 1) * examples(40)):
        generator = np.random.default_rng([seed, 3])
        k, n = int(generator.integers(2, 5)), int(generator.integers(2, 9))
        table = cases.transition(generator, k)
        if seed % 5 == 0:  # states that are left for good
            table = np.triu(table) + 1e-3 * np.eye(k)
            table /= table.sum(axis=1, keepdims=True)
        start = ("any", random_law(generator, k), np.eye(k)[generator.integers(k)])[seed % 3]
        chain = inputs.chain(table, start)
        if chain.primitive:
            continue
        apart = tells_apart(chain, n)
        each = leakage_of_losses(table, np.full(n, LOSS), start=start, adversary="pufferfish")
        assert (apart is not None) == bool(each.lower.max() >= n * LOSS * (1 - 1e-9)), seed
        if apart is not None:
            found += 1
            assert each.lower[apart[0] - 1] >= n * LOSS * (1 - 1e-9), seed
    assert found > 0


@pytest.mark.parametrize("n", [6, 513, 10**6])
@pytest.mark.parametrize(
    ("table", "start"),
    [(CYCLE, "any"), (CYCLE, np.array([0.2, 0.3, 0.5])), (LEFT_FOR_GOOD, "any")],
    ids=["cycle", "cycle from two parts", "left for good"],
)
def test_however_long_the_series_is(table, start, n):
    """Once no more than one record's own loss was known to be leaked, out of n of them."""
    for who in ("bdp", "pufferfish"):
        worst = tight_leakage(table, LOSS, start=start, length=n, adversary=who)
        assert (worst.lower, worst.upper) == (n * LOSS, n * LOSS)
        assert worst.before.added + worst.after.added + LOSS == pytest.approx(n * LOSS)


def test_records_of_one_part_of_a_cycle_are_not_told_apart_for_ever():
    assert tells_apart(inputs.chain(CYCLE, np.eye(3)[2]), 700) is None
    assert tells_apart(inputs.chain(LEFT_FOR_GOOD, np.eye(3)[0]), 700) is None


@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
@pytest.mark.parametrize("length", [520, 100_000, None])
def test_a_long_series_of_a_cycle_leaks_no_less_than_a_short_one(who, length):
    """More records never say less, so an upper end that is a tenth smaller would be below what fewer records leak."""
    table = np.array([[0.0, 0.0, 0.6, 0.4], [0.0, 0.0, 0.3, 0.7], [0.8, 0.2, 0.0, 0.0], [0.1, 0.9, 0.0, 0.0]])
    law = np.array([0.5, 0.5, 0.0, 0.0])
    short = tight_leakage(table, 0.3, start=law, length=40, adversary=who)
    long = tight_leakage(table, 0.3, start=law, length=length, adversary=who)
    assert long.upper >= short.lower
    assert long.upper <= long.lower * (1 + 1e-6)
