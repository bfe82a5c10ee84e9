"""The check values of the theory of the tight curve, to the digits given."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pufferdp.bounds.hidden.odds import HiddenOdds
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.odds import OddsCurve, TreeOdds, largest_log_odds
from tests.bounds.tight.cases import leakage_of_losses
from tests.oracles import algorithms

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
W = [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]
ZEROS = [[0.5, 0.5, 0.0], [0.0, 0.6, 0.4], [0.3, 0.0, 0.7]]
TOLERANCE = 1e-9
DIGITS = 6e-9
"""Nine digits are given, and an upper end is above the value by at most a share of 1e-9."""
SIX_DIGITS = 6e-7

ENDLESS = [
    (ACTIVITY, 0.1, 0.389343703, 0.385979179, 0.412015277),
    (ACTIVITY, 0.5, 1.985846983, 1.985846983, 1.986245962),
    (ACTIVITY, 1.0, 3.474873377, 3.458264744, 3.644529056),
    (W, 0.1, 0.321600960, 0.321600930, 0.481929416),
    (W, 0.5, 1.578960199, 1.578178765, 2.293734380),
    (W, 1.0, 2.891620073, 2.835769996, 4.115448338),
]


def bound(table, loss, **options):
    return TightCurve(table, tolerance=TOLERANCE, **options).leakage(loss)


@pytest.mark.parametrize("length", [60, 10**6, None])
@pytest.mark.parametrize(("table", "loss", "bdp", "pufferfish", "closed_form"), ENDLESS)
def test_endless_chains(table, loss, bdp, pufferfish, closed_form, length):
    # Sixty records are almost, not wholly, without end.
    room = DIGITS if length != 60 else 5e-7
    assert bound(table, loss, length=length).upper == pytest.approx(bdp, abs=room)
    assert bound(table, loss, length=length, adversary="pufferfish").upper == pytest.approx(pufferfish, abs=room)
    assert OddsCurve((largest_log_odds(table),), length)(loss) == pytest.approx(closed_form, abs=room)


def test_pairs_of_values_make_the_closed_form_sharper_and_never_looser():
    for table, loss, bdp, _, closed_form in ENDLESS:
        assert bdp <= OddsCurve.of_chains([table])(loss) <= closed_form * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "loss"), [(0.5, 0.127707179), (1.0, 0.250325788), (2.0, 0.503872938)])
def test_inverse_of_the_activity_chain(epsilon, loss):
    assert TightCurve(ACTIVITY, tolerance=TOLERANCE).inverse(epsilon) == pytest.approx(loss, abs=DIGITS)


@pytest.mark.slow
def test_a_histogram_needs_a_quarter_of_the_noise():
    loss = TightCurve(W, length=10**6, tolerance=TOLERANCE).inverse(1.0)
    assert loss == pytest.approx(0.31033, abs=6e-6)
    assert 6.444738218 <= 2 / loss <= 6.444738597  # one set of states for all records, and the upper end of the notes
    # Daily histograms over disjoint days spend this on each record, and no more.
    year = leakage_of_losses(W, np.full(365, 0.31033), each=False, tolerance=1e-6)
    assert year.upper == pytest.approx(1.0, abs=5e-5)


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
@pytest.mark.parametrize(
    ("table", "length", "value"),
    [
        (ACTIVITY, 1, 0.5),
        (ACTIVITY, 2, 0.798396712),
        (ACTIVITY, 3, 1.096793423),
        (ACTIVITY, 5, 1.460185844),
        (ACTIVITY, 10, 1.845699430),
        (W, 3, 1.044114643),
        (W, 5, 1.324256877),
    ],
)
def test_short_series(table, length, value, adversary):
    assert bound(table, 0.5, length=length, adversary=adversary).upper == pytest.approx(value, abs=DIGITS)
    found = leakage_of_losses(table, [0.5] * length, adversary=adversary, tolerance=TOLERANCE)
    assert found.value == pytest.approx(value, abs=DIGITS)


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
def test_unequal_losses(adversary):
    options = {"start": [0.9, 0.1], "adversary": adversary, "tolerance": TOLERANCE}
    found = leakage_of_losses(ACTIVITY, [0.1, 0, 0.3, 0.2, 0, 0.1], **options)
    assert found.value == pytest.approx(0.455592515, abs=DIGITS)
    assert found.attack.record == 3
    assert found.attack.before.added + found.attack.after.added == pytest.approx(0.155592515, abs=DIGITS)


def test_zeros():
    given = {"start": [1.0, 0.0, 0.0], "length": 6}
    assert bound(ZEROS, 0.4, **given).upper == pytest.approx(1.339441719, abs=DIGITS)
    assert bound(ZEROS, 0.4, **given, adversary="pufferfish").upper == pytest.approx(1.331339562, abs=DIGITS)
    assert bound(ZEROS, 0.4).upper == pytest.approx(1.453461210, abs=DIGITS)
    assert OddsCurve(OddsCurve.of_chains([ZEROS]).log_odds, None)(0.4) == pytest.approx(2.687118789, abs=DIGITS)


def test_correlation_multiplies_a_small_epsilon_by_the_root_of_the_odds_ratio():
    odds = largest_log_odds(ACTIVITY)
    assert math.exp(odds) == pytest.approx(17.0322, abs=6e-5)
    assert OddsCurve.of_chains([ACTIVITY])(1e-7) / 1e-7 == pytest.approx(4.12701, abs=6e-6)


def test_boxes():
    wide, table = OddsCurve.of_box(np.full((2, 2), 0.2), np.full((2, 2), 0.8)), np.array(W)
    assert 1 / wide.inverse(1.0) == pytest.approx(3.961264, abs=SIX_DIGITS)
    box = OddsCurve.of_box(table - 0.02, table + 0.02)
    assert 2 / box.inverse(1.0) == pytest.approx(11.879, abs=6e-4)


@pytest.mark.parametrize(
    ("table", "start", "losses", "pufferfish", "bdp"),
    [
        (ACTIVITY, "stationary", [1.0] * 5, 2.877654, None),
        (ACTIVITY, [1.0, 0.0], [0.5] * 5, None, 1.203269),
        ([[0.2, 0.8], [0.7, 0.3]], "stationary", [1.0] * 5, None, 2.372803),
        ([[0.9, 0.1], [0.1, 0.9]], "stationary", [math.log(19)] * 5, 7.192226, 7.857455),
        (W, "stationary", [0.3] * 4, None, 0.714555),
        (W, "stationary", [1.0] * 4, None, 2.337152),
        ([[0, 1, 0], [0.2, 0.3, 0.5], [0.5, 0.5, 0]], [0.5, 0.5, 0.0], [0.7] * 4, None, 2.057569),
        (W, "stationary", [0.5, 0.1, 0.1, 0.3], None, 0.630401),
        (ACTIVITY, "stationary", [1, 0, 0.2, 0.2, 0.6], None, 1.188919),
        ([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]], "stationary", [3.0] * 8, 5.336908, 5.692630),
    ],
)
def test_values_of_linear_programmes(table, start, losses, pufferfish, bdp):
    for adversary, value in (("pufferfish", pufferfish), ("bdp", bdp)):
        if value is not None:
            found = leakage_of_losses(table, losses, start=start, adversary=adversary, tolerance=TOLERANCE)
            assert found.value == pytest.approx(value, abs=SIX_DIGITS)
            if len(set(losses)) == 1:
                whole = bound(table, losses[0], start=start, length=len(losses), adversary=adversary)
                assert whole.upper == pytest.approx(value, abs=SIX_DIGITS)


@pytest.mark.parametrize(
    ("loss", "one_against_zero", "zero_against_one"),
    [(0.1, 0.158137, 0.155582), (0.5, 0.804636, 0.745778), (1.0, 1.594221, 1.407187)],
)
def test_hidden_chain(loss, one_against_zero, zero_against_one):
    hidden, shown, start = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.8, 0.2], [0.3, 0.7]]), [2 / 3, 1 / 3]
    joint = algorithms.hidden_table(hidden, shown, start, 5)
    found = algorithms.pairs(joint, [loss] * 5, 2, ())
    assert found[(), 1, 0] == pytest.approx(one_against_zero, abs=SIX_DIGITS)
    assert found[(), 0, 1] == pytest.approx(zero_against_one, abs=SIX_DIGITS)
    assert HiddenOdds.of(hidden, shown, length=5)(loss) >= max(one_against_zero, zero_against_one)


@pytest.mark.parametrize(("loss", "value"), [(0.2, 0.503555), (1.0, 2.367454)])
def test_tree(loss, value):
    table = np.array([[0.8, 0.2], [0.3, 0.7]])
    edges = [(0, 1), (1, 2), (1, 3), (0, 4)]
    joint = algorithms.tree_table([0.6, 0.4], [(a, b, table) for a, b in edges])
    assert algorithms.pairs(joint, [loss] * 5, 0, ())[(), 1, 0] == pytest.approx(value, abs=SIX_DIGITS)
    assert TreeOdds([(a, b, table) for a, b in edges]).of_losses(dict.fromkeys(range(5), loss))[0] >= value
