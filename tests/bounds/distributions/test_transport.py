"""W-infinity on the line against Fractions: ties, masses down to 1e-300, and the slack that rounding is paid with."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp.bounds.distributions.wasserstein import Pairs, coupling, log_window_sums
from tests.oracles import records as brute
from tests.oracles.transport import hall, intervals, log_of, scaled, w_infinity
from tests.strategies import SEEDS, examples

SLACK = 1e-11
"""More than logarithms of masses down to 1e-300 lose in doubles, and far less than the masses here differ by."""


def random_mass(generator, deep: bool) -> Fraction:
    """A small whole number, scaled down by up to 1e-300: few different ones, so that sums tie."""
    if generator.random() < 0.25:
        return Fraction(0)
    power = int(generator.choice([0, 1, 2, 30, 300, 990])) if deep else int(generator.integers(0, 3))
    return Fraction(int(generator.integers(1, 4)), 2**power)


def random_pair(generator, n: int) -> tuple[list[Fraction], list[Fraction]]:
    """Two distributions on n points: unrelated, or one made from the other by moving masses, so that intervals tie."""
    deep = bool(generator.random() < 0.7)
    first = [random_mass(generator, deep) for _ in range(n)]
    first[int(generator.integers(n))] += 1
    kind = generator.integers(4)
    if kind == 0:
        second = [random_mass(generator, deep) for _ in range(n)]
        second[int(generator.integers(n))] += 1
        return scaled(first, second)
    second = [Fraction(0)] * n
    for i, mass in enumerate(first):
        if kind == 1:
            moved = min(n - 1, i + 1)
        elif kind == 2:
            moved = n - 1 - i
        else:
            moved = int(np.clip(i + generator.integers(-2, 3), 0, n - 1))
        share = Fraction(int(generator.integers(0, 3)), 2)  # all, half or nothing stays
        second[i] += mass * share / 2
        second[moved] += mass * (1 - share / 2)
    return scaled(first, second)


def logs_of(distribution) -> np.ndarray:
    return np.array([[log_of(mass) for mass in distribution]])


def distance(points, first, second, slack=SLACK) -> float:
    found = Pairs(np.asarray(points), logs_of(first), logs_of(second), slack).worst()
    return 0.0 if found is None else found.distance


def random_points(generator, n: int) -> np.ndarray:
    if generator.random() < 0.5:
        return np.arange(n)
    if generator.random() < 0.5:
        return np.cumsum(generator.integers(1, 4, size=n))
    return np.cumsum(generator.choice([0.25, 0.5, 3.0], size=n))


def test_the_two_oracles_agree():
    """Quantile coupling, intervals and all subsets: three ways to the same number."""
    generator = np.random.default_rng(1)
    for _ in range(150):
        n = int(generator.integers(1, 7))
        points, (first, second) = random_points(generator, n), random_pair(generator, n)
        found = {oracle(points, first, second) for oracle in (w_infinity, intervals, hall)}
        assert len(found) == 1


def test_thousands_of_pairs_against_fractions():
    generator = np.random.default_rng(2)
    above, differ, rounds = 0, 0, examples(60)
    for _ in range(rounds):
        n = int(generator.integers(1, 12))
        points, pairs = random_points(generator, n), [random_pair(generator, n) for _ in range(50)]
        first, second = (np.concatenate([logs_of(pair[side]) for pair in pairs]) for side in (0, 1))
        compared = Pairs(points, first, second, SLACK)
        candidates = np.unique(abs(points[:, None] - points[None, :])).tolist()
        within = np.array([compared.within_distance(float(c), np.arange(50)) for c in candidates])
        assert (within[1:] >= within[:-1]).all()
        for (p, q), fits in zip(pairs, within.T, strict=True):
            exact, ours = w_infinity(points, p, q), candidates[int(np.argmax(fits))]
            above += exact > 0
            if ours != exact:
                # A mass may lie beside one 1e11 times as heavy: the slack covers it, and nothing beyond the slack.
                differ += 1
                assert intervals(points, p, q, Fraction(1 + 2 * SLACK)) <= ours < exact
    assert above > rounds * 50 * 2 / 3
    assert 0 < differ < rounds * 50 / 5


@given(seed=SEEDS, n=st.integers(1, 7), rows=st.integers(1, 6))
def test_the_worst_of_several_pairs(seed, n, rows):
    generator = np.random.default_rng(seed)
    points, pairs = random_points(generator, n), [random_pair(generator, n) for _ in range(rows)]
    first, second = (np.concatenate([logs_of(pair[side]) for pair in pairs]) for side in (0, 1))
    each = [distance(points, p, q) for p, q in pairs]
    together = Pairs(points, first, second, SLACK)
    found = together.worst()
    assert (0.0 if found is None else found.distance) == max(each)
    assert found is None or each[found.pair] == found.distance
    assert together.worst(max(each)) is None
    if found is not None:
        assert together.worst(found.distance / 2).distance == found.distance


def test_rounding_does_not_break_ties():
    """A distribution and the one a step later, off in the last digits: taken literally they are far apart."""
    generator = np.random.default_rng(3)
    far = 0
    for _ in range(50):
        distribution = generator.dirichlet(np.ones(30))
        first, second = np.append(distribution, 0.0), np.append(0.0, distribution)
        second = second * (1 + generator.uniform(-4, 4, size=31) * 2.0**-53)
        with np.errstate(divide="ignore"):
            rows = np.log(first)[None], np.log(second)[None]
        assert Pairs(np.arange(31), *rows, 1e-13).worst().distance == 1.0
        far += w_infinity(range(31), first, second) > 1
    assert far > 25


@given(
    seed=SEEDS, n=st.integers(2, 8), slack=st.sampled_from([0.01, 0.1, 0.5]), epsilon=st.sampled_from([0.6, 1.0, 3.0])
)
def test_the_price_of_the_slack_is_enough(seed, n, slack, epsilon):
    """Noise c/(ε − log(1+slack)) keeps the guarantee though c was found with slack, however large the slack is."""
    generator = np.random.default_rng(seed)
    first, second = random_pair(generator, n)
    c = distance(np.arange(n), first, second, slack)
    assert intervals(range(n), first, second, Fraction(1 + slack)) <= c <= w_infinity(range(n), first, second)
    joint = np.array([[mass / 2 for mass in distribution] for distribution in (first, second)], dtype=object)
    answers = np.indices(joint.shape)[1][..., None]
    secret = np.indices(joint.shape)[0]
    scale = c / (epsilon - math.log1p(slack))
    assert brute.leakage(joint, answers, scale, pairs=[(secret == 0, secret == 1)]) <= epsilon + 1e-9


def test_distributions_that_fall_and_rise_steeply():
    """Masses 1e-30 apart from point to point and then large again: sums of a rare small and a common large value."""
    fall = [Fraction(1, 10 ** (30 * k)) for k in range(40)]
    carried = [
        mass / (2 if k else 1) + after / 2 for k, (mass, after) in enumerate(zip(fall, [*fall[1:], 0], strict=True))
    ]
    first, second = scaled([*fall, Fraction(1)], [*carried, Fraction(1)])  # half of every mass goes one step back
    assert w_infinity(range(41), first, second) == 1
    assert distance(range(41), first, second) == 1.0
    assert distance(range(41), second, first) == 1.0
    assert distance(range(41), first, first) == 0.0


@given(seed=SEEDS, n=st.integers(1, 40))
def test_window_sums_are_sums(seed, n):
    generator = np.random.default_rng(seed)
    logs = np.where(generator.random((3, n)) < 0.2, -np.inf, generator.uniform(-20, 0, size=(3, n)))
    first = generator.integers(0, n, size=n)
    last = first - 1 + generator.integers(0, n - first + 1)  # empty windows too
    found = log_window_sums(logs, first, last)
    for row, sums in zip(np.exp(logs), found, strict=True):
        expected = [row[a : b + 1].sum() for a, b in zip(first, last, strict=True)]
        assert np.exp(sums) == pytest.approx(expected, rel=1e-12, abs=0)


@given(seed=SEEDS, n=st.integers(1, 10))
def test_the_plan_for_figures_is_a_coupling_of_that_distance(seed, n):
    generator = np.random.default_rng(seed)
    points, (first, second) = random_points(generator, n), random_pair(generator, n)
    plan = coupling(points, first, second)
    for side, distribution in ((0, first), (1, second)):
        carried = np.zeros(n)
        for move in plan:
            carried[move[side]] += move[2]
        assert carried == pytest.approx([float(mass) for mass in distribution], rel=1e-9, abs=1e-300)
    assert max(abs(Fraction(points[i]) - Fraction(points[j])) for i, j, _ in plan) == w_infinity(points, first, second)
