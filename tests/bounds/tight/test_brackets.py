"""Brackets, with and without blocks of records, part by part."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.bounds.tight import inputs, search
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.recursion import Pass, Rows, Side, chord_root, follow, reached
from pufferdp.bounds.tight.search import first_grid, quick_bounds
from pufferdp.bounds.tight.series import TOLERANCE
from pufferdp.bounds.units.blocks import side_tables
from tests.bounds.tight import cases
from tests.oracles import algorithms, newton

WHO = ("bdp", "pufferfish")
NARROW = 1e-9
W = np.array([[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])
MOVES = np.array([[0, 3, 7], [5, 0, 5], [8, 2, 0]]) / 10


@pytest.mark.slow
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("start", ["stationary", [0.2, 0.3, 0.5]], ids=["stationary", "given"])
@pytest.mark.parametrize("loss", [1e-4, 0.1])
def test_blocks_of_records_say_what_single_records_say(who, start, loss, monkeypatch):
    P = 0.999 * np.eye(3) + 0.001 * MOVES
    options = {"start": start, "length": 3000, "adversary": who, "tolerance": TOLERANCE}
    blocks = TightCurve(P, **options).leakage(loss)
    monkeypatch.setattr(search, "block_size", lambda side, distance, records: 1)
    singles = TightCurve(P, **options).leakage(loss)
    assert blocks.lower <= singles.upper
    assert singles.lower <= blocks.upper
    assert singles.upper <= singles.lower * (1 + 1.1 * TOLERANCE)
    # Of a given start some brackets stay open by a little: test_brackets_of_given_starts_close.
    assert blocks.upper <= blocks.lower * (1 + (1.1 if start == "stationary" else 1.6) * TOLERANCE)


@pytest.mark.parametrize("kind", ["sticky", "uneven", "rotating"])
@pytest.mark.parametrize("known", [True, False], ids=["bdp", "pufferfish"])
def test_a_block_bounds_every_end_inside_it(kind, known):
    """Bounds of a block against those of its records one by one, at the same μ."""
    generator = np.random.default_rng(7)
    moves = np.array([[1e-3], [3e-2], [2e-4]]) if kind == "uneven" else 2e-3
    ahead = np.roll(np.eye(3), 1, axis=1)
    P = (1 - moves) * np.eye(3) + moves * (ahead if kind == "rotating" else MOVES)
    side = Side(P[None], np.array([0.004]), np.ones(3), known)
    pairs = np.argwhere(~np.eye(3, dtype=bool))
    rows = Rows(np.zeros(6, dtype=np.int64), pairs[:, 0], pairs[:, 1])
    log_mu = np.sort(generator.uniform(0.0, 1.5, size=(6, 16)), axis=1)
    compared = 0
    for size in (16, 64):
        one, together = (Pass(side, rows, log_mu, 1e-6) for _ in range(2))
        for _ in range(4):
            one.singles(64)
            together.singles(64)
        single, block = one.singles(size), together.block(size)
        for end in range(4) if known else [3]:
            single_ends, block_ends = single.upper[..., end].max(axis=0), block.upper[0, :, end]
            assert (block_ends >= single_ends * (1 - 1e-9)).all()
            compared += int((block_ends < 0.99 * 0.004 * (256 + size)).sum())  # group privacy alone says more
    assert compared > 5


def test_a_chord_is_above_the_root_between_two_values():
    """w(μ) = max(3 − 2μ, 2.5 − 1.5 μ) crosses 0 at 5/3; convex and falling, as the recursion's entries are."""
    mu = np.array([1.0, 1.4, 1.9, 4.0])
    values = np.maximum(3 - 2 * mu, 2.5 - 1.5 * mu)
    log_mu = np.log(mu)[None]
    signed = (values / np.sqrt(mu))[None, None, :, None]
    found = float(np.exp(chord_root(signed, log_mu, np.zeros((1, 4), dtype=np.int64))[0, 0, 0]))
    assert 5 / 3 <= found <= 1.9
    low, high = values[1], values[2]
    assert found == pytest.approx(1.4 + 0.5 * low / (low - high), rel=1e-12)
    late = chord_root(signed[:, :, :2], log_mu[:, :2], np.zeros((1, 2), dtype=np.int64))
    assert np.isinf(late).all()
    early = chord_root(signed[:, :, 2:], log_mu[:, 2:], np.zeros((1, 2), dtype=np.int64))
    assert early[0, 0, 0] == log_mu[0, 2]


def pairs_of(k):
    x, y = np.nonzero(~np.eye(k, dtype=bool))
    return Rows(np.zeros(len(x), dtype=np.int64), x, y)


def ends_by_newton(P, loss, distance, x, y):
    """What every known state at a distance adds, and the open end there."""
    steps = [P] * (distance - 1)
    known = newton.side(steps, [loss] * (distance - 1), list(P.T), x, y)
    return np.append(known, newton.side([*steps, P], [loss] * distance, [np.ones(len(P))], x, y))


@pytest.mark.parametrize("loss", [0.1, 1.0])
def test_a_pass_and_explicit_algorithms_are_on_either_side_of_every_end(loss):
    """Ends one by one against Newton's method; and what lies beyond a distance is below its tail."""
    rows, side = pairs_of(3), Side(W[None], np.array([loss]), np.ones(3), True)
    log_mu = np.tile(np.linspace(-2.0, 4.0, 400), (len(rows), 1))
    ends = Pass(side, rows, log_mu, NARROW).singles(8)
    pairs = list(zip(rows.x.tolist(), rows.y.tolist(), strict=True))
    true = np.array([[ends_by_newton(W, loss, d + 1, x, y) for x, y in pairs] for d in range(8)])
    assert (ends.upper >= true * (1 - 1e-9) - 1e-12).all()
    assert (ends.upper <= true + 0.01).all()
    for d in range(7):
        assert (ends.tail[d] >= true[d + 1 :].max(axis=(0, 2)) * (1 - 1e-9)).all()
    asked = np.tile(np.linspace(-1.0, 3.0, 50), (len(rows), 1))
    parts = follow(side, rows, asked, np.ones(8, dtype=np.int64), 0.0)
    lower = np.concatenate([reached(side, asked, *part)[0] for part in parts])
    assert (lower <= true[:, :, None] * (1 + 1e-9) + 1e-12).all()
    assert (lower.max(axis=2) >= true - 0.05).all()


@pytest.mark.parametrize("known", [True, False], ids=["bdp", "pufferfish"])
def test_quick_bounds_are_above_what_a_side_adds(known):
    rows, loss = pairs_of(3), 0.3
    side = Side(W[None], np.array([loss]), np.ones(3), known)
    for n in (1, 2, 6):
        true = np.array(
            [
                max(
                    ends_by_newton(W, loss, d, int(x), int(y))[slice(0, 4) if known else slice(3, 4)].max()
                    for d in range(1, n + 1)
                )
                for x, y in zip(rows.x, rows.y, strict=True)
            ]
        )
        for share in (0.5, 1.0, 1.02, 2.0):
            level = share * true
            grid = first_grid(side, rows, level[:, None], (1, 2))
            found, _ = quick_bounds(side, rows, level, np.full(len(rows), n), False, TOLERANCE, grid)
            assert (found >= true * (1 - 1e-9)).all()
            if share == 1.02:  # near what is added the bound is of use
                assert (found <= 1.3 * true).all()


@pytest.mark.parametrize("who", WHO)
def test_side_tables_are_what_each_side_adds(who):
    chain, loss, counts = inputs.chain(W, "stationary"), 0.4, [0, 1, 3]
    for lane in (0, 1):
        lower, upper = side_tables(chain, np.array([loss]), who, lane, counts, NARROW)
        for i, n in enumerate(counts):
            losses = np.full(n + 1, loss)
            true = newton.sides([W], chain.start, losses, 0 if lane else n, who)[lane]
            true = np.where(np.eye(3, dtype=bool), 0.0, true)
            assert lower[i] == pytest.approx(true, abs=1e-8)
            assert upper[i] == pytest.approx(true, abs=1e-8)


def test_questions_of_the_worst_algorithm_leak_what_is_said():
    """Products of the questions' weights, averaged over all series: the quotient is the lower end."""
    for table, start, n in ((W, "stationary", 5), (W, [0.6, 0.3, 0.1], 5), (W[:, [1, 0, 2]], "stationary", 4)):
        loss = 0.7
        found = TightCurve(table, start=start, length=n, adversary="pufferfish", tolerance=NARROW).leakage(loss)
        joint = algorithms.table([table], cases.first_distribution(table, start), n)
        weight = np.ones_like(joint)
        for step, side in ((-1, found.before), (1, found.after)):
            for distance, asked in enumerate(side.questions, start=1):
                place, values = found.record - 1 + step * distance, np.ones(3)
                values[list(asked)] = np.exp(loss)
                shape = [1] * n
                shape[place] = 3
                weight = weight * values.reshape(shape)
        others = tuple(t for t in range(n) if t != found.record - 1)
        mean = (joint * weight).sum(axis=others) / joint.sum(axis=others)
        leaked = loss + np.log(mean[found.likelier] / mean[found.other])
        assert leaked == pytest.approx(found.lower, rel=1e-8)
        assert found.upper == pytest.approx(leaked, rel=1e-8)
