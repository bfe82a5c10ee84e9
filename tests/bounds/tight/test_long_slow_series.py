"""Slow chains in the law that they keep: leaps and spans find what a look at every record finds."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.long import slow_series as module
from pufferdp.bounds.tight.long.slow_series import slow_series
from pufferdp.bounds.tight.series import leakage_of_losses
from tests.bounds.tight import cases
from tests.bounds.tight.test_long_slow import slow
from tests.strategies import examples

WHO = ("bdp", "pufferfish")


@pytest.mark.parametrize("part", range(4))
def test_it_is_what_it_is_record_by_record(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ugly chains too: zeros, slow ones, and those that go back and forth."""
    monkeypatch.setattr(module, "_SLOW", 1)
    compared = 0
    for seed in range(part, examples(80), 4):
        generator = np.random.default_rng([seed, 21])
        k, n = int(generator.integers(3, 5)), int(generator.integers(3, 25))
        chain = inputs.chain(cases.transition(generator, k), "stationary")
        for who in WHO:
            series, loss = slow_series(chain, n, who == "bdp"), cases.loss(generator)
            if series is None or not series.serves(loss):
                continue
            compared += 1
            found = series.at(loss)
            exact = leakage_of_losses(chain.kernels[0], np.full(n, loss), start="stationary", adversary=who)
            assert found.lower <= exact.upper.max() * (1 + 1e-9), (seed, who)
            assert exact.lower.max() <= found.upper * (1 + 1e-12), (seed, who)
            assert found.upper <= found.lower * (1 + 1e-6), (seed, who)
    assert compared >= examples(80) // 32


@pytest.mark.slow
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize(("k", "zeros"), [(3, False), (4, True), (6, False)])
def test_long_series_are_closed_at_every_length(who: str, k: int, zeros: bool) -> None:
    """Shorter than the chain remembers, about as long, and much longer: more records never leak less."""
    kernel, below = slow(k, k, 0.9995, zeros), 0.0
    for length in (2_000, 20_000, 200_000, None):
        worst = TightCurve(kernel, length=length, adversary=who).leakage(0.0004)
        assert below <= worst.upper
        assert worst.lower <= worst.upper <= worst.lower * (1 + 1e-6)
        below = worst.lower


@pytest.mark.slow
@pytest.mark.parametrize(("who", "length"), [("bdp", None), ("pufferfish", 10**6), ("pufferfish", None)])
def test_the_slower_a_chain_the_less_may_be_spent_in_proportion(who: str, length: int | None) -> None:
    """Where a chain moves h times as seldom, h times less on every record leaks as much, up to a share like its rate.

    A side of such a chain was followed for 65,536 records at most: at a stay of .9999 the bracket was 78 % wide, at one
    of .99999 it had no end.
    """
    moves, rates, found = np.array([[-1.0, 0.5, 0.5], [0.75, -1.0, 0.25], [0.1, 0.9, -1.0]]), (1e-4, 1e-5), []
    for rate in rates:
        records = None if length is None else round(length * rates[-1] / rate)
        worst = TightCurve(np.eye(3) + rate * moves, length=records, adversary=who).leakage(0.6 * rate)
        assert worst.lower <= worst.upper <= worst.lower * (1 + 1e-6)
        found.append(worst.lower)
    assert found[0] == pytest.approx(found[1], rel=max(rates))


@pytest.mark.slow
def test_a_budget_is_kept_and_spent() -> None:
    for who in WHO:
        curve = TightCurve(slow(1, 3, 0.9998), length=300_000, adversary=who)
        loss = curve.inverse(1.0)
        assert 1 - 1e-5 <= curve.leakage(loss).lower <= curve(loss) <= 1.0


def test_what_it_is_not_for() -> None:
    chain = inputs.chain(slow(0, 3, 0.9999), [0.2, 0.3, 0.5])
    assert slow_series(chain, 10**6, True) is None  # a start of its own
    assert slow_series(inputs.chain(slow(0, 3, 0.5), "stationary"), 10**6, True) is None  # forgets soon
    assert slow_series(inputs.chain(slow(0, 9, 0.9999), "stationary"), 10**6, True) is None  # too many pairs


def test_uneven_stays_are_closed_for_somebody_who_knows_records() -> None:
    """Upper ends of known records stop falling where no log μ below all that were tried is tried again."""
    generator = np.random.default_rng([1, 71])
    k = int(generator.integers(3, 5))
    rows = generator.dirichlet(np.full(k, 0.5), size=k)
    stays = 1 - 10.0 ** generator.uniform(-4, -1, size=k)
    loss = float(10.0 ** generator.uniform(0, 2) * 1e-4)
    kernel = np.diag(stays) + (1 - stays)[:, None] * rows
    worst = TightCurve(kernel / kernel.sum(axis=1, keepdims=True), length=30_000).leakage(loss)
    assert worst.lower <= worst.upper <= worst.lower * (1 + 1e-6)


UNEVEN = [
    [0.9, 0.0328, 0.0529, 0.0143],
    [3.7e-6, 0.99999, 4.5e-6, 1.8e-6],
    [0.0042, 0.0030, 0.99, 0.0028],
    [0.00023, 0.00035, 0.00042, 0.999],
]


@pytest.mark.slow
@pytest.mark.parametrize("length", [10_000, 10**6])
def test_an_inverse_spends_what_it_may_where_stays_are_uneven(length) -> None:
    """Leaps leave a series of 10,000 records open here; record by record it is closed."""
    curve = TightCurve(UNEVEN, length=length)
    worst = curve.leakage(curve.inverse(1.0))
    assert worst.upper <= 1 <= worst.lower * (1 + 2e-6)
