"""Exact leakage of additive noise: against enumeration of all adversaries, and the check values of the notes."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.additive import windows
from pufferdp.bounds.additive.uninformed import UninformedLeakage
from pufferdp.bounds.additive.windows import WindowLeakage, Work
from pufferdp.bounds.chains.sums import ChainSums
from pufferdp.models.chain import MarkovChain
from tests.oracles.leakage import leakage
from tests.publish.answers.mechanisms.suite import literal_start
from tests.strategies import chains

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
DEFINITE = ("stationary", "given")
TAUS = st.sampled_from([0.05, 0.3, 1.0, 2.5])


@pytest.mark.parametrize(
    ("transition", "steps", "n", "tau", "value"),
    [
        (ACTIVITY, [0, 1], 5, 0.5, 1.460186),
        (ACTIVITY, [0, 1], 6, 1.0, 3.043132),
        (ACTIVITY, [0, 1], 7, 2.0, 5.273958),
        (ACTIVITY, [0, 1], 288, 0.25, 0.998661),
        ([[0.75, 0.25], [0.25, 0.75]], [0, 1], 6, 1.0, 2.353159),
        ([[0.2, 0.8], [0.7, 0.3]], [0, 1], 6, 1.0, 1.0),
        ([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]], [0, 0, 1], 5, 1.0, 2.081692),
    ],
)
def test_the_check_values_of_the_notes(transition, steps, n, tau, value):
    found = WindowLeakage(MarkovChain(transition=transition), n, steps).at(tau)
    assert found.lower == pytest.approx(value, abs=6e-7)
    assert found.upper - found.lower <= 1e-9


def test_the_worst_adversary_of_the_notes():
    who = WindowLeakage(MarkovChain(transition=ACTIVITY), 7, [0, 1]).at(2.0).adversary
    assert (who.left, who.right, who.left_end, who.right_end) == (2, 2, 0, 0)
    who = WindowLeakage(MarkovChain(transition=ACTIVITY), 288, [0, 1]).at(0.25).adversary
    assert (who.left, who.right, who.left_end, who.right_end) == (12, 12, 1, 1)


@given(chain=chains(3, DEFINITE), n=st.integers(1, 6), tau=TAUS, query=st.sampled_from(["count:0", "sum"]))
def test_windows_are_all_adversaries(chain, n, tau, query):
    assume(not (query == "sum" and chain.size == 1))
    steps = range(chain.size) if query == "sum" else [1, *[0] * (chain.size - 1)]
    found = WindowLeakage(chain, n, list(steps)).at(tau)
    start = literal_start(chain)
    truth = leakage(chain.transition, start, n, query, 1 / tau, everyone=True, values=list(range(chain.size)))
    assert found.lower == pytest.approx(truth, abs=1e-9)
    assert found.upper == pytest.approx(found.lower, abs=1e-12)  # short series are looked at whole


@given(chain=chains(3, DEFINITE), tau=st.sampled_from([0.1, 0.5, 1.5]))
def test_longer_series_stay_in_the_bracket(chain, tau):
    """A bracket found from narrow windows holds what wider ones find."""
    steps = [1, *[0] * (chain.size - 1)]
    whole, narrow = WindowLeakage(chain, 16, steps), WindowLeakage(chain, 16, steps)
    truth = whole.by_windows(tau, 15)
    for wide in (2, 5, 9):
        bracket = narrow.by_windows(tau, wide)
        assert bracket.lower <= truth.lower + 1e-12
        assert bracket.upper >= truth.upper - 1e-9


@given(chain=chains(3, DEFINITE), n=st.integers(1, 5), tau=st.sampled_from([20.0, 50.0, 90.0]))
def test_hardly_any_noise_stays_in_the_bracket(chain, n, tau):
    """Densities far from the sum fall below what a double holds, so only narrow windows are looked at."""
    steps = [1, *[0] * (chain.size - 1)]
    found = WindowLeakage(chain, n, steps).at(tau)
    truth = leakage(chain.transition, literal_start(chain), n, "count:0", 1 / tau, everyone=True)
    assert found.lower - 1e-9 <= truth <= found.upper + 1e-9


@pytest.mark.parametrize("tau", [30.0, 60.0, 99.0, 399.0, 401.0])
def test_without_noise_the_leakage_is_not_lost(tau):
    """Whoever knows all other records learns tau; two unknown neighbours between rests add 4.5985."""
    for n in (10, 288):
        found = WindowLeakage(MarkovChain(transition=ACTIVITY), n, [0, 1]).at(tau)
        assert tau + 4.5984 <= found.upper <= tau * n
        assert tau > 400 or found.lower >= tau


def test_the_output_is_one_of_the_window():
    who = WindowLeakage(MarkovChain(transition=ACTIVITY), 288, [0, 1]).at(5.0).adversary
    assert (who.left, who.right, who.likelier, who.output) == (1, 1, 1, 3)


@given(chain=chains(3, DEFINITE), n=st.integers(1, 6), tau=TAUS)
def test_who_knows_nothing_over_a_chain(chain, n, tau):
    steps = [1, *[0] * (chain.size - 1)]
    found = UninformedLeakage(ChainSums(chain, n, steps)).worst(tau)[0]
    truth = leakage(chain.transition, literal_start(chain), n, "count:0", 1 / tau, everyone=False)
    assert found == pytest.approx(truth, abs=1e-9)


@pytest.mark.parametrize("n", [288, 15264, 10**6])
def test_activity_at_the_least_scale(n):
    """The least noise for epsilon 1 is the same for a day, for all days and for ever: the bracket is closed."""
    window = WindowLeakage(MarkovChain(transition=ACTIVITY), n, [0, 1])
    assert window.at(1 / 3.9948).upper <= 1.0 < window.at(1 / 3.9947).lower


def test_an_infinite_upper_end_is_an_open_bracket():
    assert windows.is_closed(1.0, 1.0 + 1e-8)
    assert not windows.is_closed(1.0, 1.001)
    assert not windows.is_closed(0.0, float("inf"))


def test_what_cannot_be_computed_is_refused():
    with pytest.raises(NotApplicableError, match="definite start"):
        WindowLeakage(MarkovChain(transition=ACTIVITY, start="any"), 9, [0, 1])
    with pytest.raises(NotApplicableError, match="below 1e-20"):
        WindowLeakage(MarkovChain(transition=[[1 - 1e-16, 1e-16], [0.5, 0.5]], start=[1 - 1e-30, 1e-30]), 9, [0, 1])
    rare = MarkovChain(transition=[[1e-6, 1.0 - 1e-6], [0.0, 1.0]], start=[0.5, 0.5])  # 24 moves of 1e-6: 1e-144
    with pytest.raises(NotApplicableError, match="below 1e-120"):
        WindowLeakage(rare, 99, [0, 1]).at(1.0)


def test_what_takes_too_much_work_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(windows, "_MOST_WORK", 1e4)
    chain, work = MarkovChain(transition=[[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]), Work()
    window = WindowLeakage(chain, 50, [0, 1, 200], work)
    with pytest.raises(NotApplicableError, match="lie too many steps apart"):
        window.at(0.002)
    assert work.done <= 1e4
