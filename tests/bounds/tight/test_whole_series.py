"""Long series that end before their chain has forgotten, and very large losses: closed brackets."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from benchmarks.tight import sticky

from pufferdp.bounds.curves import curve
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.series import leakage_of_losses
from pufferdp.bounds.tight.steady import WholeSeries, whole_series
from pufferdp.models.chain import MarkovChain
from tests.bounds.tight import cases
from tests.strategies import examples, random_law

SLOW = 0.99 * np.eye(3) + 0.01 * np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
TURNS = np.array([[0.0, 0.9958694846318731, 0.004130515368126928], [1.0, 0.0, 0.0], [0.0748, 0.9182, 0.007]])
W = np.array([[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])
START = np.array([0.2, 0.3, 0.5])
CLOSED = 1e-6


def test_every_record_is_what_it_is_one_by_one():
    """Zeros, slow chains, first records that cannot have every value."""
    worked_out = 0
    for seed in range(examples(60)):
        generator = np.random.default_rng([seed, 31])
        k, n, loss = int(generator.integers(3, 5)), int(generator.integers(2, 40)), cases.loss(generator)
        start = "stationary" if seed % 3 == 0 else random_law(generator, k)
        who = ("bdp", "pufferfish")[seed % 2]
        chain = inputs.chain(cases.transition(generator, k), start)
        series = whole_series(chain, n, who)
        if series is None:
            continue
        worked_out += 1
        found = series.at(loss)
        plain = leakage_of_losses(chain.kernels[0], np.full(n, loss), start=start, adversary=who)
        assert (found.lower <= plain.upper * (1 + 1e-9) + 1e-11).all(), seed
        assert (found.upper >= plain.lower * (1 - 1e-9) - 1e-11).all(), seed
        assert found.upper.max() <= found.lower.max() * (1 + 2e-7) + 1e-11, seed
    assert worked_out >= examples(60) // 3


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


@pytest.mark.parametrize("P", [SLOW, TURNS], ids=["slow", "turns"])
@pytest.mark.parametrize("start", ["stationary", START], ids=["stationary", "given"])
def test_longer_series_than_are_listed_have_closed_brackets(P, start):
    """513 records and more of a chain that has not forgotten: once group privacy or the closed form, 36 % too much."""
    n, loss = 700, 0.002
    curve = TightCurve(P, start=start, length=n, adversary="pufferfish")
    worst = curve.leakage(loss)
    assert worst.lower <= worst.upper <= worst.lower * (1 + CLOSED)
    x, y, i = worst.likelier, worst.other, worst.record
    law = inputs.chain(P, start).start
    sides = _side(P.T, law, loss, i - 1, x, y), _side(P, np.ones(3), loss, n - i, x, y)
    assert loss + sum(sides) == pytest.approx(worst.lower, rel=1e-9)
    assert sides == pytest.approx((worst.before.added, worst.after.added), rel=1e-7)
    for record in (1, i // 2, i + 20, n):  # other records and pairs leak no more
        for a, b in ((x, y), (y, x), (0, 1)):
            other = _side(P.T, law, loss, record - 1, a, b) + _side(P, np.ones(3), loss, n - record, a, b)
            assert loss + other <= worst.upper
    bdp = TightCurve(P, start=start, length=n).leakage(loss)
    assert worst.lower <= bdp.lower <= bdp.upper <= bdp.lower * (1 + CLOSED)
    most = curve.inverse(1.0)
    assert 1 - 2 * CLOSED <= curve(most) <= 1.0
    assert curve(most * (1 + 1e-5)) > 1.0


def test_a_sticky_chain_of_a_thousand_records_is_below_the_published_curves():
    """Group privacy was said of it, 29.6, where the quilt curve says less."""
    rest = [[0, 5, 1, 4], [4, 0, 3, 3], [6, 1, 0, 3], [6, 2, 2, 0]]
    P = 0.9993 * np.eye(4) + 0.0007 * np.array(rest) / 10
    model, loss = MarkovChain(transition=P), 0.03
    tight = curve("tight", model, 1000, "pufferfish")(loss)
    for name in ("quilt", "odds", "markov", "zhao", "general"):
        assert tight <= curve(name, model, 1000, "pufferfish")(loss)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_a_series_that_its_chain_forgets_is_not_worked_out_record_by_record(who, monkeypatch):
    """60 forgetting times of eight states: what has no end leaks as much, in a tenth of the time."""
    P = sticky(8, 0.97)
    whole = whole_series(inputs.chain(P, "stationary"), 2016, who)

    def refuse(*_):
        raise AssertionError("every record was looked at")

    monkeypatch.setattr(WholeSeries, "_solved", refuse)
    found = TightCurve(P, length=2016, adversary=who)
    loss = found.inverse(1.0)
    worst = found.leakage(loss)
    assert 1 - CLOSED <= worst.lower <= worst.upper <= 1.0
    monkeypatch.undo()
    each = whole.at(loss)
    assert each.lower.max() <= worst.upper
    assert worst.lower <= each.upper.max()


@pytest.mark.slow
@pytest.mark.parametrize(("n", "loss"), [(600, 0.0425), (1000, 0.0425)])
def test_where_the_end_is_felt_the_inverse_is_that_of_the_series_itself(n, loss):
    """A series without end leaks 8e-4 and 3e-6 more: the second is seen only when that is looked at."""
    P = sticky(3, 0.97)
    found, endless = TightCurve(P, length=n), TightCurve(P)
    epsilon = found(loss)
    assert endless(loss) > epsilon * (1 + 2 * CLOSED)
    back = found.inverse(epsilon)
    assert found.inverse(epsilon) == back == TightCurve(P, length=n).inverse(epsilon)
    assert found(back) <= epsilon
    assert loss * (1 - CLOSED) <= back <= loss * (1 + CLOSED)
    assert endless.inverse(epsilon) < back


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
        less = tight_leakage(W, 150.0, start=start, length=n, adversary=who)
        for loss in (250.0, 1e4):
            found = tight_leakage(W, loss, start=start, length=n, adversary=who)
            assert less.lower - 150.0 <= found.upper - loss + 1e-7
            assert found.upper - loss <= less.upper - 150.0 + 1e-7
            assert found.upper - found.lower <= 2e-7 * loss
    each = leakage_of_losses(W, [300.0, 0.1, 500.0, 0.2, 250.0], start=start, adversary=who)
    assert each.upper == pytest.approx(each.lower, rel=1e-9)


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
