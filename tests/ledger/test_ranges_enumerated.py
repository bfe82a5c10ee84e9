"""What a ledger says of releases on segments, beside linear programmes over all DP algorithms with such losses.

The programme knows nothing of ledgers: it gets the loss of each record, counted here by hand, and finds the most that
any algorithm leaks. HiGHS keeps to constraints up to 1e-10; ratios of expectations are good to about 1e-7.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics import checks
from pufferdp.basics.checks import MOST_RECORDS
from pufferdp.data.ranges import EVERYTHING, Range, Ranges
from pufferdp.ledger.charge import Charge, redaction
from pufferdp.ledger.record_sums import RecordSums
from pufferdp.ledger.totals import Rule, State
from pufferdp.models.chain import MarkovChain
from tests.oracles import algorithms
from tests.strategies import chains, examples

NEAR = 1e-6
ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
QUICK = [[0.6, 0.4], [0.3, 0.7]]

Release = tuple[int, int, float]
"""From record to record, and its DP loss."""


def segment(first: int, last: int) -> Ranges:
    return Ranges(order="time", parts=(Range(first=first, last=last),))


def ledger_total(model: MarkovChain, adversary: str, length: int, releases: list[Release]) -> tuple[Rule, State]:
    """The rule and the state of a data set after some releases, as a ledger computes them."""
    rule, state, sums = Rule(model, checks.adversary(adversary), 1e6), State("", ""), RecordSums()
    for first, last, loss in releases:
        charge = Charge(kind="dp", dp_loss=loss, longest=last - first + 1, ranges=segment(first, last))
        state = state.after(charge, "", sums)
    assert state.longest in (length, MOST_RECORDS)
    return rule, state


def losses_of(length: int, releases: list[Release]) -> list[float]:
    return [sum(loss for first, last, loss in releases if first <= t <= last) for t in range(length)]


def worst(model: MarkovChain, adversary: str, losses: list[float]) -> float:
    """The most that any algorithm with these losses leaks about any record."""
    distribution = model.stationary if model.given_start is None else model.given_start
    kernels = [model.transition]
    return max(algorithms.chain_leakage(kernels, distribution, losses, t, adversary) for t in range(len(losses)))


@settings(max_examples=examples(25), deadline=None)
@given(chains(most_states=3, starts=("stationary", "given")), st.data(), st.sampled_from(["bdp", "pufferfish"]))
def test_releases_on_segments_never_leak_more_than_the_ledger_says(
    model: MarkovChain, data: st.DataObject, adversary: str
) -> None:
    length = data.draw(st.integers(2, 4 if model.size < 3 else 3))
    cuts = st.integers(0, length - 1)
    releases = [
        (min(a, b), max(a, b), loss)
        for a, b, loss in data.draw(
            st.lists(st.tuples(cuts, cuts, st.sampled_from([0.1, 0.5, 1.0, 2.0])), min_size=2, max_size=3)
        )
    ]
    # One release reads every record, or none is left out: the series is as long as what was published.
    releases[0] = (0, length - 1, releases[0][2])
    rule, state = ledger_total(model, adversary, length, releases)
    says = rule.leakage(state)
    assert worst(model, adversary, losses_of(length, releases)) <= says * (1 + NEAR) + NEAR


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
@pytest.mark.parametrize(
    "transition",
    [
        ACTIVITY,
        [[0.2, 0.8], [0.7, 0.3]],  # negative correlation
        [[0.0, 1.0], [0.5, 0.5]],  # a step that must be taken
        pytest.param([[0.5, 0.5, 0.0], [0.0, 0.6, 0.4], [0.3, 0.0, 0.7]], marks=pytest.mark.slow),
    ],
)
def test_disjoint_and_overlapping_days(transition: list[list[float]], adversary: str) -> None:
    model, length = MarkovChain(transition=transition), 4
    for releases in (
        [(0, 1, 0.5), (2, 3, 0.5)],  # apart
        [(0, 2, 0.5), (2, 3, 0.5)],  # a common record
        [(0, 1, 0.5), (2, 2, 1.0), (1, 3, 0.25)],
        [(0, 0, 1.0), (3, 3, 1.0)],  # with records between that were never published
    ):
        rule, state = ledger_total(model, adversary, length, releases)
        assert state.spent == max(losses_of(length, releases))
        assert worst(model, adversary, losses_of(length, releases)) <= rule.leakage(state) + NEAR


@pytest.mark.slow
@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
def test_the_total_is_reached_and_a_tenth_less_would_be_a_lie(adversary: str) -> None:
    # The same segment twice: exactly what the worst algorithm leaks.
    model = MarkovChain(transition=ACTIVITY)
    releases: list[Release] = [(0, 4, 0.3), (0, 4, 0.2)]
    rule, state = ledger_total(model, adversary, 5, releases)
    leaks = worst(model, adversary, losses_of(5, releases))
    assert rule.leakage(state) == pytest.approx(leaks, rel=NEAR)
    assert rule.curve_at(state)(0.9 * state.spent) < leaks * (1 - 1e-3)
    # Two days side by side, of a chain that forgets within a few records: the ledger does not know where the series
    # ends, and the worst algorithm on these six records leaks nearly as much.
    model = MarkovChain(transition=QUICK)
    releases = [(0, 2, 0.5), (3, 5, 0.5)]
    rule, state = ledger_total(model, adversary, 6, releases)
    leaks = worst(model, adversary, losses_of(6, releases))
    assert leaks <= rule.leakage(state)
    assert rule.curve_at(state)(0.9 * state.spent) < leaks * (1 - 1e-3)
    # Were the losses of disjoint days added up, as before, the ledger would say far more than can leak.
    assert rule.curve_at(state)(2 * state.spent) > 1.5 * leaks


@settings(max_examples=examples(15), deadline=None)
@given(chains(most_states=3, starts=("stationary", "given")), st.sampled_from(["bdp", "pufferfish"]))
def test_a_longer_series_never_leaks_less(model: MarkovChain, adversary: str) -> None:
    rule = Rule(model, checks.adversary(adversary), 1.0)
    curves = [rule.curve(length, False) for length in (1, 2, 3, 5, 9, MOST_RECORDS)]
    for loss in (0.1, 1.0):
        for shorter, longer in itertools.pairwise(curve(loss) for curve in curves):
            assert shorter <= longer * (
                1 + 1e-6
            )  # brackets of the tight curve are up to 1e-9 wide, 1e-6 for slow chains


def approximate_worst(
    model: MarkovChain, epsilon: float, losses: list[float], deltas: list[float], adversary: str
) -> float:
    """The largest delta beside an epsilon over all events of all algorithms with these losses and deltas."""
    distribution = model.stationary if model.given_start is None else model.given_start
    n, k = len(losses), model.size
    joint, out = algorithms.table([model.transition], distribution, n), 0.0
    for target in range(n):
        for known in algorithms.adversaries(n, target, "pufferfish" if adversary == "pufferfish" else "every"):
            hidden = [t for t in range(n) if t not in known]
            for values in itertools.product(range(k), repeat=len(known)):
                given_ = np.transpose(joint, [*known, *hidden])[values]
                marginal = given_.sum(axis=tuple(t for t in range(len(hidden)) if hidden[t] != target))
                for pair in itertools.permutations(np.flatnonzero(marginal > 0), 2):
                    top, bottom = algorithms.distributions_given(given_, hidden.index(target), pair)
                    own = ([losses[t] for t in hidden], [deltas[t] for t in hidden])
                    out = max(out, algorithms.event_delta(top, bottom, epsilon, *own))
    return out


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
@pytest.mark.parametrize("transition", [ACTIVITY, [[0.2, 0.8], [0.7, 0.3]], [[0.0, 1.0], [0.5, 0.5]]])
def test_deltas_add_up_record_by_record(transition: list[list[float]], adversary: str) -> None:
    model = MarkovChain(transition=transition)
    rule, state, sums = Rule(model, checks.adversary(adversary), 1e6, 0.5), State("", ""), RecordSums()
    losses, deltas = [0.0] * 3, [0.0] * 3
    for first, last, loss, delta in ((0, 1, 0.5, 1e-3), (1, 2, 0.25, 2e-3), (2, 2, 0.5, 0.0)):
        charge = Charge(kind="dp", dp_loss=loss, dp_delta=delta, longest=2, ranges=segment(first, last))
        state = state.after(charge, "", sums)
        for t in range(first, last + 1):
            losses[t], deltas[t] = losses[t] + loss, deltas[t] + delta
    assert (state.spent, state.deltas) == (max(losses), max(deltas))
    epsilon, delta = rule.leakage(state), rule.leaked_delta(state)
    assert 0 < approximate_worst(model, epsilon, losses, deltas, adversary) <= delta * (1 + NEAR)


def test_the_delta_of_equal_records_is_reached() -> None:
    model = MarkovChain(transition=ACTIVITY)
    rule, sums = Rule(model, checks.adversary("pufferfish"), 1e6, 0.5), RecordSums()
    charge = Charge(kind="dp", dp_loss=0.25, dp_delta=1e-3, longest=5, ranges=segment(0, 4))
    state = State("", "").after(charge, "", sums)
    found = approximate_worst(model, rule.leakage(state), [0.25] * 5, [1e-3] * 5, "pufferfish")
    assert found == pytest.approx(rule.leaked_delta(state), rel=1e-5)


@pytest.mark.parametrize("adversary", [pytest.param("bdp", marks=pytest.mark.slow), "pufferfish"])
def test_a_redaction_counts_for_the_whole_data_set_beside_releases_on_segments(adversary: str) -> None:
    """Record 4 is published as it is; records 1 to 3 are private, and were read by releases on segments."""
    model, n = MarkovChain(transition=ACTIVITY), 4
    joint = algorithms.table([model.transition], model.stationary, n)
    releases: list[Release] = [(0, 1, 0.5), (2, 3, 0.4), (1, 2, 0.1)]
    losses = losses_of(n, releases)
    exact, shown = 0.0, 0.0
    for target, known_others in ((t, k) for t in range(3) for k in algorithms.adversaries(n, t, adversary)):
        known = tuple(sorted({*known_others, 3}))
        for values in itertools.product(range(2), repeat=len(known)):
            told = {}
            for x in range(2):
                others = [t for t in range(n) if t not in (target, *known_others)]
                distribution = np.transpose(joint, [target, *known_others, *others])
                at = tuple(v for t, v in zip(known, values, strict=True) if t in known_others)
                given_ = distribution[(x, *at)]
                # What the published record says by itself, beside what is known already.
                if 3 not in known_others:
                    axes = tuple(i for i, t in enumerate(others) if t != 3)
                    told[x] = (given_.sum(axis=axes) / given_.sum())[values[known.index(3)]]
                else:
                    told[x] = 1.0
            found = algorithms.pairs(joint, losses, target, known)
            for x, y in itertools.permutations(range(2), 2):
                if told[x] > 0 and told[y] > 0 and (values, x, y) in found:
                    shown = max(shown, math.log(told[x] / told[y]))
                    exact = max(exact, math.log(told[x] / told[y]) + found[values, x, y])
    rule, state, sums = Rule(model, checks.adversary(adversary), 1e6), State("", ""), RecordSums()
    hidden = redaction(window=True, leakage=shown, private="rows 1 to 3", longest=n, model="m", adversary=adversary)
    assert hidden.ranges == EVERYTHING
    state = state.after(hidden, "", sums)
    for first, last, loss in releases:
        charge = Charge(kind="dp", dp_loss=loss, longest=2, ranges=segment(first, last))
        state = state.after(charge, "", sums)
    assert state.added == shown > 0
    assert exact <= rule.leakage(state) + NEAR
    # What the redaction shows is part of it: the curve alone would be too little.
    assert rule.curve_at(state)(state.spent) < exact
