"""Slow chains whose first record may have any law: leaps, spans of numbers of records, and what they prove together."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.long import any_start
from pufferdp.bounds.tight.long.any_start import any_start_series
from pufferdp.bounds.tight.long.ends import SpansAfter, _Near
from pufferdp.bounds.tight.long.leaps import Leaps
from pufferdp.bounds.tight.long.spans import Cells, SpansBefore
from pufferdp.bounds.tight.odds import closed_side
from tests.bounds.tight import cases
from tests.strategies import examples

WHO = ("bdp", "pufferfish")
CLOSED = 1e-6
ROUNDING = 80 * 2.0**-53
"""Of one step, as a share of the quotient: what upper ends get on top in the end."""


def slow(seed: int, k: int, stay: float, zeros: bool = False) -> np.ndarray:
    """A chain that hardly moves; where to, is random, and some moves may be impossible."""
    generator = np.random.default_rng([seed, k])
    rows = generator.dirichlet(np.ones(k), size=k)
    if zeros:
        rows = np.where((generator.random((k, k)) < 0.4) & ~np.roll(np.eye(k, dtype=bool), 1, axis=1), 0.0, rows)
        rows /= rows.sum(axis=1, keepdims=True)
    return stay * np.eye(k) + (1 - stay) * rows


@pytest.mark.parametrize("seed", range(examples(12)))
def test_leaps_are_many_single_steps(seed):
    """Signs change on the way, and a leap never passes over a change."""
    k, loss = 3 + seed % 4, (0.02, 0.3)[seed % 2]
    kernel = slow(seed, k, (0.99, 0.9, 0.5)[seed % 3], zeros=seed % 4 == 0)
    logs, distances = np.linspace(-1.5, 2.0, 9), np.array([1, 2, 7, 64, 100, 700])
    asked, distance = (part.ravel() for part in np.meshgrid(logs, distances, indexing="ij"))
    zero = np.zeros(len(asked), dtype=np.int64)
    found, below, sizes = Leaps(kernel.T, loss).ask(zero, zero + 1, asked, distance)
    for i, (log, last) in enumerate(zip(asked, distance, strict=True)):
        now = np.zeros((2, k))
        now[:, :2] = [[1.0, -np.exp(log)], [0.0, np.exp(log)]]
        scale = 0.0
        for _ in range(last):
            now = now @ kernel.T
            now = now * np.where(now[0] > 0, np.exp(loss), 1.0)
            scale += np.log(np.abs(now).max())
            now /= np.abs(now).max()
        shift = np.exp(sizes[i] - scale)
        np.testing.assert_allclose(found[i] * shift, now[0], atol=1e-10)
        np.testing.assert_allclose(below[i] * shift, now[1], atol=1e-10)


@pytest.mark.parametrize("zeros", [False, True])
def test_no_number_of_records_before_a_target_passes_the_bound_of_its_span(zeros):
    """A chain that stays says almost all of its loss, so that a bound with less for the records behind would fail."""
    kernel, loss, first, many = slow(3, 3, 0.9999, zeros), 0.01, 40, 9
    before = SpansBefore(kernel, np.array([0]), np.array([1]), loss, 5.0)
    edges = np.concatenate([[-np.inf], np.linspace(-12.0, 12.0, 97), [np.inf]])
    count = len(edges) - 1
    numbers = [np.full(count, value) for value in (0, first, many)]
    cells = Cells.unbounded(*numbers, edges[:-1], edges[1:], np.full(count, 5.0))
    bound = before.bound(cells, np.full(count, -np.inf)).most.max()
    records = np.repeat(np.arange(first, first + many), 97)
    reached = before.reach(np.zeros(len(records), dtype=np.int64), records, np.tile(edges[1:-1], many)).added
    assert loss * (first + many - 1) * 0.995 < reached.max() <= bound * (1 + 1e-12)
    alone = Cells.unbounded(numbers[0], numbers[1], np.ones(count, dtype=np.int64), edges[:-1], edges[1:], cells.most)
    assert before.bound(alone, np.full(count, -np.inf)).most.max() < bound - 0.97 * loss * (many - 1)


@pytest.mark.parametrize("known", [False, True])
def test_no_number_of_records_after_a_target_passes_the_bound_of_its_span(known):
    """Losses are large: of what comes before a known record the chain says almost all.

    Two known records beside each other say the same up to the log of the quotient of their distances, 0.07 here. So a
    span of them fails where it counts a tenth of the loss too little.
    """
    kernel, loss, top = slow(5, 3, 1 - 1e-9), 2.0, 60
    after = SpansAfter(kernel, np.array([0]), np.array([1]), loss, 100.0, top, False, known)
    pair, every = np.array([0]), np.arange(1, top + 1)
    after.begin(np.linspace(-40.0, 100.0, 1401), pair, every[::8])
    after.reach(np.zeros(top, dtype=np.int64), every)
    if known:
        after.reach_known(np.zeros(top, dtype=np.int64), every)
    low, high = after.between(np.zeros(top, dtype=np.int64), every)
    assert (low <= high * (1 + 1e-12)).all()
    for first, many, most in zip(after.seen.first, after.seen.many, after.seen.high, strict=True):
        here = (after.points.first >= first) & (after.points.first < first + many)
        assert (after.points.low[here].max(axis=0) <= np.maximum(most, 0.0) + ROUNDING * top).all()


def _near_and_far(kernel, loss, most, top, records, known):
    """The side after targets of one pair, as far as it is looked at and farther: what is reached there, of each."""
    pair, logs, every = np.array([0]), np.linspace(-40.0, 60.0, 2001), np.arange(1, records + 1)
    ends = [SpansAfter(kernel, pair, pair + 1, loss, most, n, n < records, known) for n in (top, records)]
    for after in ends:
        after.begin(logs, pair, every[:0])
    ends[1].reach(0 * every, every)
    if known:
        ends[1].reach_known(0 * every, every)
    return ends, every


def test_no_end_beyond_the_last_record_that_is_looked_at_passes_its_bound():
    """Two of up to forty records are looked at: a chain that stays says almost all of the loss of the others."""
    loss, records = 0.5, 40
    (near, far), every = _near_and_far(slow(5, 3, 1 - 1e-9), loss, loss * records, 2, records, False)
    added = far.between(0 * every, every)[0]
    assert added[-1] > 0.97 * loss * records
    assert (added <= near.between(0 * every, every)[1] * (1 + 1e-12)).all()


@pytest.mark.parametrize(("stay", "loss"), [(0.6, 1.0), (0.9, 2.0)])
def test_no_known_record_beyond_the_last_that_is_looked_at_passes_its_bound(stay, loss):
    """Chains that forget some of it: what lies farther away says almost as much as the bound."""
    kernel, top, records = slow(5, 3, stay), 12, 40
    (near, far), _ = _near_and_far(kernel, loss, closed_side(kernel, loss, records, 24), top, records, True)
    beyond = far.points.low[far.points.first >= top].max()
    assert 0.99 * near.far.high.max() < beyond <= near.far.high.max() * (1 + 1e-12)


def test_weights_of_known_values_are_never_less_than_those_of_any_distance():
    kernel = slow(2, 4, 0.999)
    for many in (1, 2, 3, 9, 17):
        weights, power, most = _Near(kernel).weights(np.array([many]))[0], np.eye(4), np.zeros((4, 4))
        for _ in range(many):
            most, power = np.maximum(most, power.T / np.diag(power)[:, None]), power @ kernel
        assert (weights >= most * (1 - 1e-12)).all()
        assert (weights <= most * 1.05).all()  # steps up to a power of two: less by a tenth would be too little


@pytest.mark.parametrize("seed", range(examples(16)))
def test_it_is_what_it_is_record_by_record(seed, monkeypatch):
    """Also for chains that are not slow: what leaps say does not depend on that."""
    monkeypatch.setattr(any_start, "_SLOW", 1)
    generator = np.random.default_rng([seed, 78])
    k, n, loss = int(generator.integers(3, 5)), int(generator.integers(2, 16)), cases.loss(generator)
    table = cases.transition(generator, k)
    chain = inputs.chain(0.97 * np.eye(k) + 0.03 * table if seed % 3 == 0 else table, "any")
    series = any_start_series(chain, n, seed % 2 == 0)
    if series is None:
        assert not chain.primitive
        return
    assert series.slow
    found = series.at(loss)
    cases.check_any_start(found, chain, n, loss, WHO[seed % 2], CLOSED)


@pytest.mark.slow
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("zeros", [False, True])
def test_leaps_and_single_steps_agree_on_long_series(who, zeros, monkeypatch):
    """The same chain in leaps and record by record, with and without an end."""
    table = slow(1, 3, 0.97, zeros)
    for n in (300, None):
        found = {}
        for way, least in (("leaps", 1), ("steps", 10**9)):
            monkeypatch.setattr(any_start, "_SLOW", least)
            series = any_start_series(inputs.chain(table, "any"), n, who == "bdp")
            found[way] = series.at(0.03)
            assert found[way].upper <= found[way].lower * (1 + CLOSED)
        assert found["leaps"].lower <= found["steps"].upper
        assert found["leaps"].upper >= found["steps"].lower


@pytest.mark.slow
@pytest.mark.parametrize("who", WHO)
def test_chains_that_hardly_move_are_closed(who):
    """Once 10 % of the value was left open for five states, after twice the time."""
    for k, stay, n, loss in ((3, 0.9999, 10**6, 4e-5), (5, 0.999, 10_000, 3e-4), (4, 0.9999, None, 4e-5)):
        found = TightCurve(slow(0, k, stay, zeros=k == 5), start="any", length=n, adversary=who).leakage(loss)
        assert found.lower <= found.upper <= found.lower * (1 + CLOSED)
        one = TightCurve(slow(0, k, stay, zeros=k == 5), length=n, adversary=who).leakage(loss)
        assert found.upper >= one.lower
