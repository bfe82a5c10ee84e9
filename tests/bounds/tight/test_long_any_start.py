"""Long series whose first record may have any law: closed brackets, whatever the chain forgets."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.long import any_start
from pufferdp.bounds.tight.long.any_start import any_start_series
from tests.bounds.tight import cases
from tests.strategies import examples, random_law

WHO = ("bdp", "pufferfish")
CLOSED = 1e-6
W = np.array([[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])
SLOW = 0.99 * np.eye(3) + 0.01 * np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
TURNS = np.array([[0.0, 0.9958694846318731, 0.004130515368126928], [1.0, 0.0, 0.0], [0.0748, 0.9182, 0.007]])


@pytest.mark.parametrize("seed", range(examples(60)))
def test_it_is_what_it_is_record_by_record(seed):
    """Zeros, slow chains, small and large losses; the other way is checked against every law that was tried."""
    generator = np.random.default_rng([seed, 77])
    k, n, loss = int(generator.integers(3, 5)), int(generator.integers(2, 20)), cases.loss(generator)
    chain = inputs.chain(cases.transition(generator, k), "any")
    series = any_start_series(chain, n, seed % 2 == 0)
    if series is None:
        assert not chain.primitive
        return
    found = series.at(loss)
    cases.check_any_start(found, chain, n, loss, WHO[seed % 2], CLOSED)


@pytest.mark.slow
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("table", [SLOW, TURNS], ids=["slow", "turns"])
def test_series_that_end_before_their_chain_has_forgotten(table, who):
    """Once 63 % of the value was left open, between what some records leak and group privacy."""
    loss = 0.02
    found = {n: TightCurve(table, start="any", length=n, adversary=who).leakage(loss) for n in (512, 513, 700)}
    for n, worst in found.items():
        assert worst.lower <= worst.upper <= worst.lower * (1 + CLOSED)
        for law in (*np.eye(3), np.array([0.2, 0.3, 0.5])) if n > 512 else ():
            one = TightCurve(table, start=law, length=n, adversary=who).leakage(loss)
            assert worst.upper >= one.lower
    assert found[513].upper == pytest.approx(found[512].upper, rel=1e-3)


@pytest.mark.parametrize("who", WHO)
def test_one_more_record_changes_little_where_another_way_takes_over(who):
    """48 records are followed, fewer are listed: both leak about as much."""
    listed, followed = (TightCurve(SLOW, start="any", length=n, adversary=who).leakage(0.02) for n in (47, 48))
    assert listed.upper < followed.upper < listed.upper * 1.03


@pytest.mark.slow
@pytest.mark.parametrize("who", WHO)
def test_without_end_is_what_very_many_records_leak(who, monkeypatch):
    """What lies farther away than is looked at is bounded, not left out."""
    chain, loss = inputs.chain(0.7 * np.eye(3) + 0.3 * W, "any"), 0.1
    long = any_start_series(chain, 400, who == "bdp").at(loss)
    endless = any_start_series(chain, None, who == "bdp").at(loss)
    assert endless.upper <= endless.lower * (1 + CLOSED)
    assert endless.lower == pytest.approx(long.lower, rel=1e-6)
    for depth in (3, 10, 40):
        monkeypatch.setattr(any_start, "forgets", lambda kernel, depth=depth: depth)
        near = any_start_series(chain, None, who == "bdp").at(loss)
        assert near.lower <= long.upper * (1 + CLOSED)
        assert near.upper >= long.lower


@pytest.mark.slow
@pytest.mark.parametrize("who", WHO)
def test_losses_and_lengths_of_every_size(who):
    generator = np.random.default_rng(5)
    for n, losses in ((600, (1e-3, 3.0)), (2016, (0.1, 20.0)), (100_000, (1e-3, 3.0)), (None, (0.1, 20.0))):
        for loss in losses:
            table = 0.97 * np.eye(3) + 0.03 * generator.dirichlet(np.ones(3), size=3)
            found = TightCurve(table, start="any", length=n, adversary=who).leakage(loss)
            assert found.lower <= found.upper <= found.lower * (1 + CLOSED)
            for law in (np.eye(3)[0], random_law(generator, 3)):
                one = TightCurve(table, start=law, length=n, adversary=who).leakage(loss)
                assert found.upper >= one.lower


@pytest.mark.slow
def test_a_budget_is_kept():
    curve = TightCurve(SLOW, start="any", length=600)
    loss = curve.inverse(1.0)
    assert curve(loss) <= 1.0
    assert curve.leakage(loss * (1 + 1e-5)).lower > 1.0


@pytest.mark.parametrize("who", WHO)
def test_where_pairs_are_too_many_the_closed_form_bounds_the_rest(monkeypatch, who):
    chain = inputs.chain(0.9 * np.eye(4) + 0.1 * np.random.default_rng(3).dirichlet(np.ones(4), 4), "any")
    whole, some = (any_start_series(chain, 80, who == "bdp") for _ in range(2))
    assert whole is not None and some is not None
    exact = whole.at(0.3)
    monkeypatch.setattr("pufferdp.bounds.tight.long.any_start._MOST_WORK", 1)
    found = some.at(0.3)
    assert found.lower <= exact.upper * (1 + 1e-9) and found.lower > 0.3
    assert exact.lower * (1 + 1e-3) < found.upper < 3 * exact.upper
