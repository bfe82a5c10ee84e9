"""The inverse: what it gives back leaks no more as computed, by the same curve and by a new one; little is wasted."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.quilts import uniform
from benchmarks.tight import sticky

from pufferdp.bounds.curves import curve
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.odds import OddsCurve
from pufferdp.bounds.tight.series import TOLERANCE
from pufferdp.models.chain import MarkovChain
from tests.bounds.tight import cases
from tests.strategies import examples, random_distribution

EPSILONS = (0.01, 0.3, 1.0, 4.0)


def random_curve(seed):
    generator = np.random.default_rng([seed, 16])
    k = int(generator.integers(1, 5))
    P, start = cases.transition(generator, k), random_distribution(generator, k)
    n = generator.choice(np.array([1, 2, 5, 30, 10**6, None], dtype=object))
    options = {
        "start": "stationary" if generator.random() < 0.6 else start,
        "length": n,
        "adversary": str(generator.choice(["bdp", "pufferfish", "dp"])),
    }
    return P, options, float(generator.choice(EPSILONS))


@pytest.mark.slow
def test_what_it_gives_back_leaks_no_more():
    for seed in range(examples(60)):
        P, options, epsilon = random_curve(seed)
        used, new = TightCurve(P, **options), TightCurve(P, **options)
        loss = used.inverse(epsilon)
        assert used(loss) <= epsilon, seed
        assert new(loss) <= epsilon, seed
        assert new.inverse(epsilon) == pytest.approx(loss, rel=4 * TOLERANCE), seed
        tolerance = new._parts[0][2].tolerance
        closed = new.leakage(loss).upper <= new.leakage(loss).lower * (1 + tolerance)
        if np.isfinite(new(epsilon)) and closed and loss < epsilon / (1 + tolerance):
            assert new(loss * (1 + 5 * tolerance) + 1e-9) > epsilon, seed


def test_a_curve_does_not_remember_what_it_was_asked():
    for seed in range(examples(24)):
        P, options, epsilon = random_curve(seed)
        asked = TightCurve(P, **options)
        asked.inverse(epsilon)
        for loss in (2.0, 0.003, 0.4):
            assert asked(loss) == TightCurve(P, **options)(loss), (seed, loss)


@pytest.mark.slow
def test_the_curve_of_the_registry_needs_no_second_look(monkeypatch):
    """The inverse is checked by reading the curve; that costs nothing where the curve has just been read there."""
    W = [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]
    for table, who in ((W, "bdp"), (W, "pufferfish"), (sticky(8, 0.97), "pufferfish")):
        bound = curve("tight", MarkovChain(transition=table), 10**6, who)
        part = bound.tight._parts[0][2]
        calls, real = [], part.leakage
        monkeypatch.setattr(part, "leakage", lambda loss, real=real, calls=calls: (calls.append(loss), real(loss))[1])
        loss = bound.inverse(1.0)
        assert bound(loss) <= 1.0
        assert calls[-1] == loss
        assert len(calls) == len(set(calls)) <= 4


def test_more_is_allowed_where_more_may_leak():
    for seed in range(examples(16)):
        P, options, _ = random_curve(seed)
        found = TightCurve(P, **options)
        losses = np.array([found.inverse(epsilon) for epsilon in EPSILONS])
        assert (losses[1:] >= losses[:-1] * (1 - 2 * TOLERANCE)).all(), seed


def test_the_closed_form_too():
    for seed in range(examples(40)):
        P, options, epsilon = random_curve(seed)
        odds = OddsCurve.of_chains([P], length=options["length"])
        loss = odds.inverse(epsilon)
        assert odds(loss) <= epsilon, seed
        if loss > 0 and loss < epsilon:
            assert odds(loss * (1 + 1e-9)) > epsilon, seed


@pytest.mark.parametrize(("states", "stay"), [(8, 0.97), (4, 0.97), (5, 0.6)])
def test_little_is_wasted_where_nobody_knows_a_record(states, stay):
    found = TightCurve(sticky(states, stay), length=10**6, adversary="pufferfish")
    assert 1 - 3 * TOLERANCE <= found(found.inverse(1.0)) <= 1.0


@pytest.mark.slow
def test_slow_chains_of_many_states():
    found = TightCurve(uniform(0.95), length=10**6)
    loss = found.inverse(1.0)
    assert found(loss) <= 1.0
    assert found(loss * (1 + 3.1 * TOLERANCE)) > 1.0
    assert 0.0126961781 * (1 - 3 * TOLERANCE) <= loss <= 0.0126961781
