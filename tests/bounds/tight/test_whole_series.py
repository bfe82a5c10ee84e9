"""Long series that end before their chain has forgotten, and very large losses: closed brackets."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.series import TOLERANCE
from tests.bounds.tight import cases
from tests.bounds.tight.cases import leakage_of_losses
from tests.oracles import newton
from tests.strategies import examples, random_distribution

SLOW = 0.99 * np.eye(3) + 0.01 * np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
TURNS = np.array([[0.0, 0.9958694846318731, 0.004130515368126928], [1.0, 0.0, 0.0], [0.0748, 0.9182, 0.007]])
W = np.array([[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])
START = np.array([0.2, 0.3, 0.5])
CLOSED = 1.01 * TOLERANCE


def test_every_record_is_what_it_is_end_by_end():
    """Zeros, slow chains, first records that cannot have every value: all ends of all records by Newton's method."""
    for seed in range(examples(24)):
        generator = np.random.default_rng([seed, 31])
        k, n, loss = int(generator.integers(2, 4)), int(generator.integers(6, 14)), cases.loss(generator)
        start, who = (
            "stationary" if seed % 3 == 0 else random_distribution(generator, k),
            ("bdp", "pufferfish")[seed % 2],
        )
        P = cases.transition(generator, k)
        each = newton.leakage([P], cases.first_distribution(P, start), np.full(n, loss), who)
        found = leakage_of_losses(P, np.full(n, loss), start=start, adversary=who)
        assert (found.lower <= each * (1 + 1e-9)).all(), seed
        assert (found.upper >= each * (1 - 1e-9)).all(), seed
        whole = TightCurve(P, start=start, length=n, adversary=who).leakage(loss)
        assert whole.lower <= each.max() * (1 + 1e-9), seed
        assert each.max() * (1 - 1e-9) <= whole.upper <= each.max() * (1 + 10 * CLOSED), seed


def _side(K, end, loss, records, x, y):
    """What a side of so many unknown records adds: Theorem 1 by Newton's method, record by record."""
    z, mu = end.copy(), 1.0
    for _ in range(records):
        z = K @ z
        z /= z.max()
    while True:
        up, down = np.zeros(len(K)), np.zeros(len(K))
        up[x], down[y] = 1 / z[x], 1 / z[y]
        for _ in range(records):
            up, down = up @ K, down @ K
            gain = np.where(up > mu * down, math.exp(loss), 1.0)
            up, down = up * gain, down * gain
            size = max(up.max(), down.max())
            up, down = up / size, down / size
        found = float(up @ end) / float(down @ end)
        if found <= mu * (1 + 1e-13):
            return math.log(mu)
        mu = found


@pytest.mark.slow
@pytest.mark.parametrize("P", [SLOW, TURNS], ids=["slow", "turns"])
@pytest.mark.parametrize("start", ["stationary", START], ids=["stationary", "given"])
def test_longer_series_than_are_listed_have_closed_brackets(P, start):
    """513 records and more of a chain that has not forgotten: once group privacy or the closed form, 36 % too much."""
    n, loss = 700, 0.002
    curve = TightCurve(P, start=start, length=n, adversary="pufferfish")
    worst = curve.leakage(loss)
    assert worst.lower <= worst.upper <= worst.lower * (1 + CLOSED)
    x, y, i = worst.likelier, worst.other, worst.record
    distribution = inputs.chain(P, start).start
    sides = _side(P.T, distribution, loss, i - 1, x, y), _side(P, np.ones(3), loss, n - i, x, y)
    assert worst.lower <= loss + sum(sides) <= worst.upper
    assert sides == pytest.approx((worst.before.added, worst.after.added), rel=CLOSED)
    for record in (1, i // 2, i + 20, n):  # other records and pairs leak no more
        for a, b in ((x, y), (y, x), (0, 1)):
            other = _side(P.T, distribution, loss, record - 1, a, b) + _side(P, np.ones(3), loss, n - record, a, b)
            assert loss + other <= worst.upper
    bdp = TightCurve(P, start=start, length=n).leakage(loss)
    assert worst.lower <= bdp.upper <= bdp.lower * (1 + CLOSED)
    most = curve.inverse(1.0)
    assert 1 - 3 * CLOSED <= curve(most) <= 1.0
    assert curve(most * (1 + 3.1 * CLOSED)) > 1.0


@pytest.mark.slow
def test_the_longer_the_series_the_nearer_to_one_without_end():
    endless = TightCurve(SLOW)(0.0005)
    lengths = (512, 513, 1000, 4000, 6000, 20_000)
    found = [TightCurve(SLOW, length=n).leakage(0.0005) for n in lengths]
    assert all(one.upper <= one.lower * (1 + CLOSED) for one in found)
    assert all(a.upper <= b.upper * (1 + CLOSED) for a, b in itertools.pairwise(found))
    assert found[-1].upper == pytest.approx(endless, rel=CLOSED)


@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
@pytest.mark.parametrize("start", ["stationary", [1.0, 0.0, 0.0]])
def test_beyond_what_a_double_counts_only_the_own_loss_grows(who, start):
    """At a loss of 150 others tell all they know: more noise taken away adds nothing but to the record itself."""
    for n in (2, 5, 600, None):
        less = TightCurve(W, start=start, length=n, adversary=who).leakage(150.0)
        for loss in (250.0, 1e4):
            found = TightCurve(W, start=start, length=n, adversary=who).leakage(loss)
            assert less.lower - 150.0 <= found.upper - loss + 1e-7
            assert found.upper <= found.lower * (1 + 2 * CLOSED)
    each = leakage_of_losses(W, [300.0, 0.1, 500.0, 0.2, 250.0], start=start, adversary=who)
    assert each.upper == pytest.approx(each.lower, rel=CLOSED)


@pytest.mark.slow
def test_a_class_of_many_chains_keeps_little() -> None:
    """Each kept megabytes for the losses it might be asked next: a thousand of them filled the memory."""
    draw = np.random.default_rng(0)
    chains = [(draw.dirichlet(np.ones(3), size=3), "stationary") for _ in range(33)]
    tracemalloc.start()
    try:
        curve = TightCurve.of_class(chains, length=1000)
        assert curve(0.01) > 0.01
        assert tracemalloc.get_traced_memory()[0] < 33 * 2**16
    finally:
        tracemalloc.stop()
