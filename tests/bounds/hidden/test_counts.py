"""No noisy count over hidden states leaks more than its bound says."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.bounds.additive.windows import WindowLeakage, Work
from pufferdp.bounds.hidden import counts
from pufferdp.bounds.hidden.counts import CountBound
from pufferdp.bounds.hidden.potential import PotentialBound
from pufferdp.models.chain import MarkovChain
from pufferdp.models.hidden_states import HiddenStates
from tests.bounds.hidden.test_potential import REGIMES, SHOWN, hidden_case, timed_case
from tests.oracles.hidden_counts import count_leakage, pattern_leakage
from tests.strategies import examples

ROOM = 1e-9
SLOW = np.array([[0.95, 0.02, 0.03, 0.0], [0.01, 0.9, 0.01, 0.08], [0.04, 0.0, 0.94, 0.02], [0.0, 0.1, 0.03, 0.87]])
ADVERSARIES = ("pufferfish", "bdp")


def steps_of(seed, shown):
    """What each value adds: 0 or 1 for a count, up to 3 for a sum."""
    values = int(max(shown)) + 1
    return (
        np.random.default_rng(seed).integers(0, 4, values)
        if seed % 3 == 0
        else np.eye(values, dtype=int)[seed % values]
    )


@pytest.mark.parametrize("part", range(8))
def test_never_below_enumeration(part):
    for seed in range(part, examples(400), 8):
        kernel, shown, start, n, tau = hidden_case(seed)
        steps = steps_of(seed, shown)
        for adversary in ADVERSARIES:
            bound = CountBound(kernel, shown, steps, start=start, length=n, adversary=adversary)(tau)
            assert bound >= count_leakage(kernel, shown, steps, start, n, tau, adversary) - ROOM, (seed, adversary)


@pytest.mark.parametrize("part", range(4))
def test_never_below_enumeration_by_time_of_day(part):
    for seed in range(part, examples(80), 4):
        kernels, shown, n, tau = timed_case(seed)
        steps = steps_of(seed, shown)
        for adversary in ADVERSARIES:
            bound = CountBound(kernels, shown, steps, length=n, adversary=adversary)(tau)
            for first in range(len(kernels)):
                turned = np.roll(kernels, -first, axis=0)
                assert bound >= count_leakage(turned, shown, steps, "stationary", n, tau, adversary) - ROOM, seed


def test_six_records_of_order_two():
    table = np.array([[[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.1, 0.9]]])
    model = HiddenStates.of_order(table)
    for adversary in ADVERSARIES:
        for tau in (0.1, 0.5, 1.0):
            reached = count_leakage(model.kernels, model.of, [0, 1], "stationary", 6, tau, adversary)
            bound = CountBound(model.kernels, model.of, [0, 1], length=6, adversary=adversary)(tau)
            assert reached - ROOM <= bound <= 1.4 * reached


@pytest.mark.parametrize("kernel", [REGIMES, SLOW], ids=["regimes", "slow"])
def test_without_end_it_is_above_long_series_with_many_known_records(kernel):
    """Records known at random, or every second one, or all from some distance on, up to 80 records on either side."""
    generator = np.random.default_rng(5)
    for tau, steps in ((0.05, [0, 1]), (0.3, [1, 0]), (1.0, [0, 2])):
        informed, other = (
            CountBound(kernel, SHOWN, steps, adversary=adversary)(tau) for adversary in ADVERSARIES[::-1]
        )
        assert other <= informed
        assert pattern_leakage(kernel, SHOWN, steps, ({}, {}), 80, tau) <= other
        for _ in range(40):
            sides = []
            for _ in range(2):
                first, gap = generator.integers(1, 30), generator.integers(1, 5)
                value = generator.integers(0, 2)
                every = {d: int(value) for d in range(first, 81, gap)}
                some = {int(d): int(generator.integers(0, 2)) for d in generator.integers(1, 81, 3)}
                sides.append([{}, every, some][generator.integers(0, 3)])
            assert pattern_leakage(kernel, SHOWN, steps, sides, 80, tau) <= informed, (tau, sides)


def test_windows_up_to_the_last_distance_agree_with_longer_series():
    """Sides longer than the distances that are followed are bounded by the state at the last one."""
    bounds = [CountBound(REGIMES, SHOWN, [0, 1], length=n)(0.2) for n in (48, 200, 2000, None)]
    assert max(bounds) <= 1.001 * min(bounds)  # they are solved for with a little room


@pytest.mark.parametrize("kernel", [REGIMES, SLOW], ids=["regimes", "slow"])
def test_sides_longer_than_the_tables_are_bounded_before_the_chain_has_mixed(kernel, monkeypatch):
    monkeypatch.setattr(counts, "_MOST_WORK", 5e3)  # 13 records
    for tau in (0.05, 0.2):
        other, informed = (CountBound(kernel, SHOWN, [0, 1], adversary=adversary)(tau) for adversary in ADVERSARIES)
        assert pattern_leakage(kernel, SHOWN, [0, 1], ({}, {}), 150, tau) <= other
        assert other <= 1.001 * informed  # who knows no record learns no more
        for first in (5, 14, 30):
            sides = ({first: 0}, {first + 2: 1, first + 9: 1})
            assert pattern_leakage(kernel, SHOWN, [0, 1], sides, 150, tau) <= informed


def test_no_target_of_a_long_series_leaks_more_than_any_side():
    """A target with 30 records on either side leaks a little more than one with more of them."""
    kernel = np.random.default_rng(7).dirichlet(np.full(3, 0.5), size=3)
    for tau in (0.05, 0.7):
        for shown in ([0, 1, 1], [0, 1, 2]):
            steps = np.arange(3)[: max(shown) + 1] % 2
            bound = CountBound(kernel, shown, steps, adversary="pufferfish")(tau)
            for n in range(1, 40):
                assert pattern_leakage(kernel, shown, steps, ({}, {}), n, tau) <= bound + ROOM


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_ten_per_cent_less_noise_breaks_the_guarantee(adversary):
    """Three hidden states, of which two show one value: some adversary nearly reaches the bound."""
    kernel, shown = np.array([[0.9, 0.02, 0.08], [0.05, 0.6, 0.35], [0.1, 0.2, 0.7]]), [0, 1, 1]
    bound = CountBound(kernel, shown, [0, 1], length=6, adversary=adversary)
    loss = bound.inverse(1.0)
    kept, broken = (
        count_leakage(kernel, shown, [0, 1], "stationary", 6, share * loss, adversary) for share in (1.0, 1.1)
    )
    assert kept <= 1 + ROOM
    assert broken > 1.0


@pytest.mark.parametrize("tau", [0.05, 0.3, 1.0])
def test_one_hidden_state_for_each_value_is_a_plain_chain(tau):
    for table in ([[0.882, 0.118], [0.305, 0.695]], [[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.1, 0.2, 0.7]]):
        steps = np.arange(len(table))
        for n in (5, 60):
            exact = WindowLeakage(MarkovChain(transition=table), n, steps, Work()).at(tau).lower
            bound = CountBound(table, steps, steps, length=n)(tau)
            assert exact - ROOM <= bound <= 1.06 * exact


def test_a_count_leaks_less_than_any_algorithm():
    for tau in (0.05, 0.1):
        assert CountBound(SLOW, SHOWN, [0, 1])(tau) < 0.9 * PotentialBound(SLOW, SHOWN)(tau)


def test_states_that_never_mix_are_bounded_by_group_privacy():
    apart = np.array([[0.9, 0.1, 0, 0], [0.1, 0.9, 0, 0], [0, 0, 0.1, 0.9], [0, 0, 0.9, 0.1]])
    for adversary in ADVERSARIES:
        assert CountBound(apart, [0, 1, 0, 1], [0, 1], length=7, adversary=adversary)(0.2) <= 1.4 * (1 + 1e-12)


@pytest.mark.slow
def test_states_that_never_mix_have_no_bound_without_end():
    apart = np.array([[0.9, 0.1, 0, 0], [0.1, 0.9, 0, 0], [0, 0, 0.1, 0.9], [0, 0, 0.9, 0.1]])
    for adversary in ADVERSARIES:
        assert CountBound(apart, [0, 1, 0, 1], [0, 1], adversary=adversary)(0.2) == np.inf


def test_only_the_record_itself_leaks_under_dp_and_where_nothing_is_shown():
    assert CountBound(REGIMES, SHOWN, [0, 3], length=9, adversary="dp")(0.2) == pytest.approx(0.6)
    assert CountBound(REGIMES, [0, 0, 0, 0], [1], length=9)(0.2) == 0.0
    assert CountBound(REGIMES, SHOWN, [2, 2], length=9)(0.2) <= 1e-8
    assert CountBound(REGIMES, SHOWN, [0, 1], length=1)(0.2) == 0.2


def test_the_inverse_keeps_its_epsilon_and_wastes_little():
    bound = CountBound(REGIMES, SHOWN, [0, 1], length=1000)
    assert 0.98 <= bound(bound.inverse(1.0)) <= 1.0
