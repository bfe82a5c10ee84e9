"""Events: found where there is one, told in words, bounded by fresh draws; nothing learnt by heart wins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pufferdp.assess.audit import events
from pufferdp.assess.audit.events import Bound, Event, Feature, as_range, choose_event

G = np.random.default_rng(11)


def chosen(first: np.ndarray, second: np.ndarray) -> tuple[str, bool, float, float]:
    """The event's words, whom it speaks for, and how often fresh halves of the samples are in it."""
    half = len(first) // 2
    found = choose_event(first[:half], second[:half], 4 * half)
    assert found is not None
    one, two = (second, first) if found.swapped else (first, second)
    return str(found.event), found.swapped, float(found.event(one[half:]).mean()), float(found.event(two[half:]).mean())


def test_the_tail_of_noise_is_found() -> None:
    """Laplace distributions of scale 1, three apart: beyond both centres the ratio is e^3."""
    first, second = (c + G.laplace(size=(40_000, 1)) for c in (3.0, 0.0))
    words, swapped, often, rarely = chosen(first, second)
    assert words.startswith("the output is ")
    assert 2.5 < math.log(often / rarely) < 3.2
    again = chosen(second, first)
    assert again[1] != swapped


def test_samples_alike_give_nothing_much() -> None:
    """What is likely to be proved of one distribution against itself: hardly anything, whatever was learnt by heart."""
    for seed in range(20):
        first, second = np.random.default_rng(seed).laplace(size=(2, 2000, 1))
        found = choose_event(first, second, 4000)
        assert found is None or found.score < 0.5


def test_many_weak_numbers_are_weighed_together() -> None:
    """Forty numbers, each shifted by a third of its deviation: alone hardly anything, together a classifier."""
    first, second = (c + G.normal(size=(20_000, 40)) for c in (0.0, 1 / 3))
    words, _, often, rarely = chosen(first, second)
    assert "classifier" in words or "sum" in words
    assert math.log(often / rarely) > 3


def test_atoms_are_named() -> None:
    first, second = (G.binomial(1, p, size=(4000, 1)).astype(float) for p in (0.9, 0.1))
    words, _, often, rarely = chosen(first, second)
    assert words in (
        "the output is exactly 1",
        "the output is 0.5 or more",
        "the output is exactly 0",
        "the output is below 0.5",
    )
    assert math.log(often / rarely) == pytest.approx(math.log(9), abs=0.5)


def test_rows_have_their_own_hashes() -> None:
    rows = G.integers(4, size=(5000, 7)).astype(float)
    hashes = events._hashes(rows)
    assert len(np.unique(hashes)) == len(np.unique(rows, axis=0))
    assert (events._hashes(rows[:10]) == hashes[:10]).all()


def errors(runs: tuple[int, int], weights: tuple[float, float], delta: float, slack: float) -> float:
    """How often the bound passes the truth, for the pair of probabilities where it does so most: every outcome counted.

    Probabilities lie on a grid, and close to where a bound of some outcome is just reached.
    """
    lower = np.array([
        [Bound(hits=(a, b), runs=runs, delta=delta, weights=weights, slack=slack).lower for b in range(runs[1] + 1)]
        for a in range(runs[0] + 1)
    ])  # fmt: skip
    worst = 0.0
    for q in np.linspace(0.02, 0.98, 13):
        reached = [slack + q * math.exp(x) for x in np.unique(lower)]
        for p in [*np.linspace(0.02, 0.98, 13), *(x * (1 - 1e-9) for x in reached if x < 1)]:
            if p > slack:
                wrong = lower > max(0.0, math.log((p - slack) / q)) + 1e-12
                distribution = np.multiply.outer(
                    *(stats.binom.pmf(np.arange(n + 1), n, x) for n, x in zip(runs, (p, q), strict=True))
                )
                worst = max(worst, float(distribution[wrong].sum()))
    return worst


@pytest.mark.parametrize(
    ("runs", "weights", "slack", "idle"),
    [((14, 17), (1.0, 1.0), 0.0, 0.04), ((9, 22), (0.3, 2.0), 0.0, 0.0), ((20, 8), (1.0, 0.2), 0.1, 0.0)],
)
def test_bounds_hold_as_often_as_they_say(
    runs: tuple[int, int], weights: tuple[float, float], slack: float, idle: float
) -> None:
    """By enumeration of all outcomes: never wrong more often than guaranteed, nor idly far below it."""
    wrong = errors(runs, weights, 0.1, slack)
    assert wrong <= 0.1
    assert wrong > idle


def test_both_probabilities_are_tested_together() -> None:
    """Nearer to what was seen than a bound for each (Clopper and Pearson, at half the error), and below it."""
    found = Bound(hits=(4000, 200), runs=(40_000, 40_000), delta=0.05, weights=(0.015, 0.07))
    low = stats.binomtest(4000, 40_000).proportion_ci(0.95).low
    high = stats.binomtest(200, 40_000).proportion_ci(0.95).high
    seen, taken = math.log(20), math.hypot(0.015, 0.0706)
    assert math.log(low / high) < seen - 2.2 * taken < found.lower < seen - 1.6 * taken
    assert found.lower == pytest.approx(math.log(found.pair(0.0)[0] / found.pair(0.0)[1]))
    assert Bound(hits=(0, 5), runs=(10, 10), delta=0.05).lower == 0
    assert Bound(hits=(5, 10), runs=(10, 10), delta=0.05).lower == 0
    assert 0 < Bound(hits=(10, 0), runs=(10, 10), delta=0.05).lower < math.inf
    assert found.shares == (0.1, 0.005)


def test_a_ratio_that_grows_with_the_output_is_told_as_a_range() -> None:
    """One odd output changes nothing; an event of two pieces stays what it is, and so does one of two numbers."""
    outputs = G.normal(size=(5000, 1))
    odd = outputs[17, 0] if outputs[17, 0] < 1 else outputs[18, 0]
    grows = Feature(words="ratio", kind="ratio", compute=lambda rows: np.where(rows[:, 0] == odd, 9.0, rows[:, 0] ** 3))
    told = as_range(Event(feature=grows, low=1.0), outputs)
    assert str(told).startswith("the output is ")
    assert told.low == pytest.approx(1.0, abs=0.02)
    assert told.high == math.inf
    two_pieces = Event(feature=Feature(words="ratio", kind="ratio", compute=lambda rows: np.abs(rows[:, 0])), low=1.0)
    assert as_range(two_pieces, outputs) is two_pieces
    everything = Event(feature=grows, low=-1e9)
    assert as_range(everything, outputs) is everything
    assert as_range(Event(feature=grows, low=1.0), np.hstack([outputs, outputs])).feature is grows


def test_a_classifier_of_wide_outputs_finds_the_direction() -> None:
    """Noise that many numbers share hides their sum; the covariances that Fisher's discriminant inverts are known."""
    generator, width = np.random.default_rng(4), 300
    shift = generator.normal(size=width) / 10
    first, second = (
        c * shift + generator.normal(size=(4000, width)) + 3 * generator.normal(size=(4000, 1)) for c in (1, 0)
    )
    weights = events.discriminant(first, second)
    best = np.linalg.solve(np.eye(width) + 9.0, shift)
    assert weights @ best / np.linalg.norm(weights) / np.linalg.norm(best) > 0.9
