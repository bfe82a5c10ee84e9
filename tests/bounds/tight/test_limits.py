"""Odd sizes: losses beyond what a double can hold, one record, one state, values that never occur, very long series."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.series import TOLERANCE
from tests.bounds.tight import cases
from tests.bounds.tight.cases import leakage_of_losses
from tests.oracles import algorithms
from tests.strategies import examples, random_distribution

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
W = [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]
ADVERSARIES = ("bdp", "pufferfish", "dp")
NARROW = 1e-9
WIDTH = 1.01 * TOLERANCE


def tight_leakage(table, loss, **options):
    return TightCurve(table, **options).leakage(loss)


@pytest.mark.parametrize("table", [ACTIVITY, W])
@pytest.mark.parametrize("loss", [150.0, 601.0, 1e4, 1e50])
def test_very_large_losses_stay_between_what_is_certain(table, loss):
    for n in (2, 5, 200):
        for who in ("bdp", "pufferfish"):
            found = tight_leakage(table, loss, length=n, adversary=who)
            assert loss <= found.upper <= loss * n * (1 + 1e-12)
            assert found.lower <= found.upper
            each = leakage_of_losses(table, np.full(n, loss), adversary=who)
            assert (each.upper >= each.lower).all()
            assert (each.upper >= loss).all()
            assert (each.upper <= loss * n * (1 + 1e-12)).all()


def _two_states_in_logs(P, distribution, losses, adversary):
    """What two states leak about each record: every end carried to every target, in logs, the plain way."""
    n, out = len(losses), np.full((2, 2, len(losses)), -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        kernel, distributions = np.log(P), [np.log(distribution)]
        for _ in range(n - 1):
            distributions.append(np.logaddexp.reduce(distributions[-1][:, None] + kernel, axis=0))
        sides = (kernel.T, distributions[0], range(n)), (kernel, np.zeros(2), range(n - 1, -1, -1))
        for side, (step, end, order) in enumerate(sides):
            turns = step[0, 0] + step[1, 1] < step[0, 1] + step[1, 0]
            high = low = bare = end[None]
            for before, t in zip([None, *order], order, strict=False):
                if before is not None:
                    asked = np.diag(np.full(2, losses[before]))
                    up, down = high + asked[0], low + asked[1]
                    weights = (down, up, bare) if turns else (up, down, bare)
                    known = step.T[np.isfinite(distributions[before])] if adversary == "bdp" else np.empty((0, 2))
                    high, low, bare = (
                        np.concatenate([np.logaddexp(w[:, :1] + step[:, 0], w[:, 1:] + step[:, 1]), known])
                        for w in weights
                    )
                fine = np.isfinite(bare).all(axis=1)
                said = bare[fine, 0] - bare[fine, 1]
                out[side, 0, t] = (high[fine, 0] - high[fine, 1] - said).max(initial=-np.inf)
                out[side, 1, t] = (low[fine, 1] - low[fine, 0] + said).max(initial=-np.inf)
    return np.where(np.isfinite(distributions).all(axis=1), losses + out.sum(axis=0).max(axis=0), 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
@pytest.mark.parametrize(
    ("table", "distribution", "n", "loss"),
    [
        ([[0.9, 0.1], [0.0, 1.0]], [1.0, 0.0], 60, 5.0),  # never back: all that was spent was called reached
        ([[0.6, 0.4], [0.0, 1.0]], [0.3, 0.7], 60, 3.3),  # some records had too small a bound
        ([[0.0001, 0.9999], [0.0, 1.0]], [0.5, 0.5], 50, 0.1),  # a value rarer than any double
        ([[1.0, 1e-30], [1e-20, 1.0]], [0.5, 0.5], 100, 2.0),  # a move that rounds away is no impossible one
        ([[1e-30, 1.0], [1.0, 1e-25]], [0.5, 0.5], 20, 90.0),
        ([[0.98, 0.02], [0.03, 0.97]], [0.5, 0.5], 30, 300.0),
        ([[0.2, 0.8], [1.0, 0.0]], [1.0, 0.0], 60, 450.0),
    ],
)
def test_two_states_whose_weights_no_double_holds_are_bounded(adversary, table, distribution, n, loss):
    losses = loss * np.where(np.arange(n) % 3 == 1, 0.4, 1.0)
    for spent in (losses, np.full(n, loss)):
        true = _two_states_in_logs(np.array(table), np.array(distribution), spent, adversary)
        found = leakage_of_losses(table, spent, start=distribution, adversary=adversary)
        assert (found.lower <= true * (1 + 1e-9)).all()
        assert (found.upper >= true * (1 - 1e-12)).all()
        # Weights beyond what a double holds are bounded by group privacy, and by what is left of the chain.
        assert (found.upper <= np.where(true > 0, spent.sum(), 0.0) * (1 + 1e-12)).all()
    curve = tight_leakage(table, loss, start=distribution, length=n, adversary=adversary)
    assert curve.lower <= true.max() * (1 + 1e-9)
    assert true.max() * (1 - 1e-12) <= curve.upper


@pytest.mark.filterwarnings("error")
def test_losses_that_overflow_give_no_warnings():
    g = np.random.default_rng(3)
    for k in (3, 4):
        P = 0.98 * np.eye(k) + 0.02 * g.dirichlet(np.ones(k), size=k)
        for _ in range(4):
            leakage_of_losses(P, g.uniform(50, 400, size=5), start=g.dirichlet(np.ones(k)))


def test_without_noise_a_record_is_told_as_well_as_the_chain_tells_it():
    """The nearest unknown record is told for sure; the worst is the likeliest value of it, with any record known."""
    P = np.array(ACTIVITY)
    sides = [math.log((P[1] / P[0]).max())]  # nothing known
    for distance in range(1, 40):
        ends = np.linalg.matrix_power(P, distance)  # from the neighbour to a known record
        distribution = P[:, :, None] * ends[None]  # (target, neighbour, known)
        distribution = distribution / distribution.sum(axis=1, keepdims=True)
        sides.append(math.log((distribution[1] / distribution[0]).max()))
    found = tight_leakage(ACTIVITY, 100.0, length=100, tolerance=NARROW)
    assert found.upper == pytest.approx(100 + 2 * max(sides), rel=2e-9)


def test_one_record_leaks_its_own_loss():
    for table in (ACTIVITY, W):
        for who in ADVERSARIES:
            assert tight_leakage(table, 0.7, length=1, adversary=who).upper == 0.7
            loss = TightCurve(table, length=1, adversary=who).inverse(0.7)
            assert 0.7 * (1 - WIDTH) <= loss <= 0.7


def test_one_state_leaks_nothing():
    assert tight_leakage([[1.0]], 0.7, length=5).upper == 0.0
    assert leakage_of_losses([[1.0]], [0.7] * 5).value == 0.0
    certain = [[0.0, 1.0], [1.0, 0.0]]
    assert tight_leakage(certain, 0.7, start=[1.0, 0.0], length=9).upper == 0.0
    assert leakage_of_losses(certain, [0.7] * 9, start=[1.0, 0.0]).value == 0.0


def test_nothing_spent_leaks_nothing():
    for table in (ACTIVITY, W):
        for start in ("stationary", "any", np.eye(len(table))[0]):
            assert TightCurve(table, start=start, length=20)(0.0) == 0.0
            assert leakage_of_losses(table, [0.0] * 5, start=start).value == 0.0


def test_values_that_never_occur_are_no_secrets():
    """A chain with two more states that are never visited is the chain without them."""
    for table in (ACTIVITY, W):
        k = len(table)
        larger = np.zeros((k + 2, k + 2))
        larger[:k, :k] = table
        larger[k:, :] = 1 / (k + 2)
        for n in (1, 2, 7, 10**6):
            distribution = np.zeros(k + 2)
            distribution[:k] = 1 / k
            for who in ADVERSARIES:
                alone = tight_leakage(table, 0.5, start=distribution[:k], length=n, adversary=who)
                among = tight_leakage(larger, 0.5, start=distribution, length=n, adversary=who)
                assert among.upper == alone.upper


@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_long_series_are_those_without_end(who):
    for table in (ACTIVITY, W, [[0.5, 0.5, 0.0], [0.0, 0.6, 0.4], [0.3, 0.0, 0.7]]):
        for start in ("stationary", np.eye(len(table))[0]):
            endless = tight_leakage(table, 0.3, start=start, adversary=who)
            for n in (10**4, 10**6):
                found = tight_leakage(table, 0.3, start=start, length=n, adversary=who)
                assert found.upper == pytest.approx(endless.upper, rel=WIDTH)


def test_more_loss_or_more_records_never_leak_less():
    for seed in range(examples(6)):
        generator = np.random.default_rng([seed, 14])
        k = int(generator.integers(2, 4))
        P, start = cases.transition(generator, k), random_distribution(generator, k)
        stationary, who = generator.random() < 0.5, str(generator.choice(["bdp", "pufferfish"]))
        # Long series with a given start are followed from it, and take tens of seconds where a state is never left.
        lengths, losses = (
            [1, 2, 3, 7, 150, 10**5 if stationary else 600],
            np.sort([cases.loss(generator) for _ in "ab"]),
        )
        options = {"start": "stationary" if stationary else start, "adversary": who}
        table = np.array([[tight_leakage(P, loss, length=n, **options).upper for loss in losses] for n in lengths])
        assert (np.diff(table, axis=1) >= -WIDTH * table[:, 1:]).all(), seed
        if stationary:
            assert (np.diff(table, axis=0) >= -WIDTH * table[1:]).all(), seed
        losses_of_each = cases.losses(generator, 8)
        more = losses_of_each + np.where(generator.random(8) < 0.3, 0.1, 0.0)
        less = leakage_of_losses(P, losses_of_each, start=start, adversary=who)
        grown = leakage_of_losses(P, more, start=start, adversary=who)
        assert (grown.upper >= less.lower * (1 - 1e-9)).all(), seed


def test_several_lengths_are_the_worst_of_them():
    curve = TightCurve(W, length=[3, 5], tolerance=NARROW)
    assert curve(0.5) == pytest.approx(1.324256877, abs=3e-9)
    assert curve.leakage(0.5).length == 5
    start = [0.9, 0.05, 0.05]
    both = TightCurve(W, start=start, length=[2, 30])
    assert both(0.5) == max(TightCurve(W, start=start, length=n)(0.5) for n in (2, 30))


@pytest.mark.slow
def test_long_series_of_changing_losses_agree_with_short_ones_far_from_the_ends():
    """Beyond a hundred records all are followed side by side: another way, the same values."""
    for table, who in ((ACTIVITY, "bdp"), (ACTIVITY, "pufferfish"), (W, "pufferfish")):
        losses = np.random.default_rng(15).uniform(0.0, 0.6, size=200)
        long = leakage_of_losses(table, losses, adversary=who)
        short = leakage_of_losses(table, losses[40:160], adversary=who)
        assert long.upper[90:110] == pytest.approx(short.upper[50:70], rel=WIDTH)
        largest = leakage_of_losses(table, losses, adversary=who, each=False)
        assert largest.value == pytest.approx(long.value, rel=WIDTH)


@pytest.mark.parametrize("rare", [1e-6, 1.3e-9, 1e-12])
@pytest.mark.parametrize("start", ["stationary", [1.0, 0.0]])
def test_rare_moves_close_the_bracket(rare, start):
    """A bound on long sides that loses digits to a rare move leaves it open, however many records are looked at."""
    table = [[1 - rare, rare], [0.5579016839241988, 0.4420983160758013]]
    for who in ("bdp", "pufferfish"):
        for loss in (1e-6, 0.1, 1.0):
            found = tight_leakage(table, loss, start=start, adversary=who)
            assert found.lower <= found.upper <= found.lower * (1 + (1 if start == "stationary" else 4) * WIDTH)
            assert found.upper >= tight_leakage(table, loss, start=start, adversary=who, length=200).lower


ENDLESS = {
    "left for good": ([[1.0, 0.0], [0.3, 0.7]], [0.4, 0.6]),
    "left for good, with another": ([[1, 0, 0], [0.28, 0, 0.72], [0.58, 0.21, 0.21]], [0.2, 0.5, 0.3]),
    "left for good, to a chain": ([[0.1, 0.35, 0.55], [0, 0.42, 0.58], [0, 0.84, 0.16]], [0.2, 0.4, 0.4]),
    "two ends": ([[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0]], [0.2, 0.3, 0.5]),
    "in turns": ([[0, 0, 1], [0, 0, 1], [0, 1, 0]], [0.3, 0.3, 0.4]),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ENDLESS)
@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_what_tells_ever_more_has_no_bound(case, who):
    """With the length it grows in proportion, by the exact values of finite series; of one without end it is ∞."""
    table, start = ENDLESS[case]
    found = [leakage_of_losses(table, np.full(n, 0.2), start=start, adversary=who).lower.max() for n in (5, 25, 125)]
    assert found[1] > 3 * found[0]
    assert found[2] > 3 * found[1]
    curve = TightCurve(table, start=start, adversary=who)
    assert curve(0.2) == math.inf
    assert curve.inverse(1.0) == 0


@pytest.mark.parametrize("start", ["any", [0.5, 0.0, 0.5]])
def test_first_records_that_never_lead_to_one_state_leak_all_losses(start):
    """Two phases of a period: one question to every record tells them apart."""
    turns = [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    assert algorithms.leakage([turns], [0.5, 0.0, 0.5], [0.3] * 4, "pufferfish").max() == pytest.approx(1.2)
    for who in ("bdp", "pufferfish"):
        found = tight_leakage(turns, 0.3, start=start, length=4, adversary=who)
        assert found.lower == found.upper == pytest.approx(1.2)
        assert TightCurve(turns, start=start, length=10**6, adversary=who).inverse(1.0) == pytest.approx(1e-6)
