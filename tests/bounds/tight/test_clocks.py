"""Chains whose kernels follow a clock: equal to linear programmes over all algorithms, whatever slot comes first."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.tight import inputs, many_states
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.many_states import ManyStates
from pufferdp.bounds.tight.odds import OddsCurve, largest_log_odds
from pufferdp.bounds.tight.series import leakage_of_losses
from pufferdp.bounds.tight.ways import any_slot
from tests.bounds.tight import cases
from tests.oracles import algorithms
from tests.strategies import examples

ROOM = 1e-8
PARTS = 8


def periodic_laws(kernels):
    """The law of a record at each slot, by repeating the whole period many times: nothing shared with src."""
    whole = np.eye(len(kernels[0]))
    for kernel in kernels:
        whole = whole @ kernel
    far = np.linalg.matrix_power((whole + np.eye(len(whole))) / 2, 1 << 40)
    law = far.mean(axis=0) / far.mean(axis=0).sum()
    laws = []
    for kernel in kernels:
        laws.append(law)
        law = law @ kernel
    return laws


def worst_of_all(kernels, loss, n, who):
    """The most that any algorithm leaks about any record of n, whatever slot the first one has."""
    laws, found = periodic_laws(kernels), 0.0
    for first, law in enumerate(laws):
        turned = [*kernels[first:], *kernels[:first]]
        law = np.where(law < 1e-12, 0.0, law)
        found = max(found, *(algorithms.chain_leakage(turned, law, np.full(n, loss), t, who) for t in range(n)))
    return found


def clock(generator, k, slots):
    return [cases.transition(generator, k) for _ in range(slots)]


def smooth(slots, k, seed, stay=3.0):
    """A clock whose kernels change little from slot to slot."""
    generator = np.random.default_rng(seed)
    base, wave = generator.dirichlet(np.ones(k), size=k), np.arange(k)
    out = []
    for t in range(slots):
        table = base * np.exp(0.7 * np.sin(2 * np.pi * t / slots + wave)) * np.exp(0.1 * generator.normal(size=(k, k)))
        table += stay * np.eye(k)
        out.append(table / table.sum(axis=1, keepdims=True))
    return np.array(out)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_clocks_are_equal_to_the_programme_over_all_algorithms(part):
    for seed in range(part, examples(64), PARTS):
        generator = np.random.default_rng([seed, 20])
        k = int(generator.choice([2, 2, 3]))
        n = int(generator.integers(1, {2: 7, 3: 5}[k]))
        kernels = clock(generator, k, int(generator.integers(2, 4)))
        loss, who = float(generator.choice([0.05, 0.4, 1.5])), str(generator.choice(["bdp", "pufferfish"]))
        programme = worst_of_all(kernels, loss, n, who)
        found = TightCurve.of_clock(kernels, length=n, adversary=who).leakage(loss)
        assert found.upper == pytest.approx(programme, abs=ROOM), seed
        assert found.lower == pytest.approx(programme, abs=ROOM), seed
        assert OddsCurve.of_chains([kernels], length=n)(loss) >= programme - ROOM, seed


@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param([[[0.9, 0.1], [0.2, 0.8]], [[0.3, 0.7], [0.3, 0.7]]], id="forgets"),
        pytest.param([[[0.1, 0.9], [0.8, 0.2]], [[0.7, 0.3], [0.4, 0.6]]], id="repels"),
        pytest.param([[[1.0, 0.0], [0.5, 0.5]], [[0.4, 0.6], [0.0, 1.0]]], id="zeros"),
        pytest.param([[[0.0, 1.0], [1.0, 0.0]], [[0.9, 0.1], [0.3, 0.7]]], id="deterministic"),
    ],
)
def test_some_clocks_are_equal_to_the_programme(kernels, who):
    """A few of the same for every day."""
    found = TightCurve.of_clock(kernels, length=4, adversary=who).leakage(0.5)
    programme = worst_of_all([np.array(one) for one in kernels], 0.5, 4, who)
    assert (found.lower, found.upper) == pytest.approx((programme, programme), abs=ROOM)


def test_who_knows_all_others_learns_the_loss_and_no_more():
    assert TightCurve.of_clock(smooth(6, 3, 1), length=100, adversary="dp")(0.3) == 0.3


@pytest.mark.parametrize("length", [5, 100_000, None])
@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
@pytest.mark.parametrize("k", [2, 3])
def test_a_clock_of_equal_tables_is_the_chain(length, who, k):
    kernel = cases.transition(np.random.default_rng([k, 21]), k)
    chain = TightCurve(kernel, length=length, adversary=who)
    equal = TightCurve.of_clock([kernel] * 6, length=length, adversary=who)
    assert equal.inverse(1.0) == pytest.approx(chain.inverse(1.0), rel=1e-10)
    assert equal(0.3) == pytest.approx(chain(0.3), rel=1e-10)


@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_tables_that_are_nearly_equal_leak_as_the_chain(who):
    """What finds clocks without end shares little with what finds one kernel: both must agree."""
    kernel = np.array([[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])
    other = kernel.copy()
    other[0] += [1e-12, -1e-12, 0.0]
    clock = TightCurve.of_clock([kernel, kernel, other], adversary=who)
    assert clock(0.5) == pytest.approx({"bdp": 1.578960199, "pufferfish": 1.578178765}[who], abs=2e-9)
    assert clock.inverse(1.0) == pytest.approx(TightCurve(kernel, adversary=who).inverse(1.0), rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_without_end_is_what_long_series_tend_to(who):
    """Every record of a long series, one by one, from whatever slot: never above, and as much in the middle."""
    for seed in range(examples(3)):
        generator = np.random.default_rng([seed, 22])
        kernels = np.array(clock(generator, int(generator.integers(2, 4)), 3))
        kernels = 0.9 * kernels + 0.1 / kernels.shape[1]  # forgets within the series
        chain = inputs.chain(kernels, "stationary")
        found = TightCurve.of_clock(kernels, adversary=who).leakage(0.4)
        assert found.upper <= found.lower * (1 + 1e-8)
        for first in range(3):
            turned = inputs.turned(chain, first)
            each = leakage_of_losses(turned.kernels, np.full(90, 0.4), start=turned.start, adversary=who)
            assert each.lower.max() <= found.upper * (1 + 1e-9), (seed, first)
            assert each.upper.max() >= found.lower * (1 - 1e-7), (seed, first)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_without_end_is_never_below_long_series_with_zeros(who):
    """Moves that are impossible at some slots: every record of long series, one by one, from whatever slot."""
    for seed in range(examples(4)):
        generator = np.random.default_rng([seed, 24])
        k, slots = int(generator.integers(3, 5)), int(generator.integers(2, 4))
        kernels = generator.dirichlet(np.ones(k), size=(slots, k)) * (generator.random((slots, k, k)) < 0.6)
        kernels += np.eye(k) * 0.2 * (kernels.sum(axis=2, keepdims=True) == 0)
        kernels /= kernels.sum(axis=2, keepdims=True)
        chain, loss = inputs.chain(kernels, "stationary"), float(generator.choice([0.05, 0.5]))
        found = TightCurve.of_clock(kernels, length=100_000, adversary=who).leakage(loss)
        for first in range(slots):
            turned = inputs.turned(chain, first)
            each = leakage_of_losses(turned.kernels, np.full(60, loss), start=turned.start, adversary=who, each=False)
            assert each.lower.max() <= found.upper * (1 + 1e-9), (seed, first)


def test_ten_per_cent_less_noise_would_break_the_promise():
    """At 1.1 times the loss that the curve allows, some algorithm leaks more than epsilon at some slot."""
    for seed in range(examples(3)):
        generator = np.random.default_rng([seed, 23])
        kernels = clock(generator, 2, 2)
        curve = TightCurve.of_clock(kernels, length=4)
        loss = curve.inverse(1.0)
        assert worst_of_all(kernels, loss, 4, "bdp") == pytest.approx(1.0, abs=1e-7), seed
        assert worst_of_all(kernels, 1.1 * loss, 4, "bdp") > 1.01, seed


def test_a_clock_is_flat_in_its_length():
    kernels = smooth(24, 3, 4)
    short, long = (TightCurve.of_clock(kernels, length=n).inverse(1.0) for n in (1000, 100_000))
    assert short == pytest.approx(long, rel=1e-8)


def test_a_slot_at_which_all_is_certain_parts_the_days():
    """At one slot everybody sleeps: the days are independent, and leak no more than their own records."""
    sleep, mixed = [[1.0, 0.0], [1.0, 0.0]], [[0.7, 0.3], [0.2, 0.8]]
    curve = TightCurve.of_clock([mixed, mixed, sleep])
    assert curve(0.3) <= 2 * 0.3 + 1e-9
    assert TightCurve.of_clock([[[0.0, 1.0], [0.0, 1.0]], sleep])(0.3) == 0.0


def test_values_rarer_than_a_double_can_tell_are_refused():
    """0 must mean impossible: a value that is merely rare is a secret all the same."""
    fades = [[1.0, 0.0], [1 - 1e-3, 1e-3]]
    with pytest.raises(NotApplicableError, match="rarer than a double can tell"):
        TightCurve.of_clock([[[0.5, 0.5], [0.5, 0.5]], *[fades] * 287], length=1000)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
@pytest.mark.parametrize(("slots", "states"), [(288, 4), (24, 16)])
def test_the_inverse_for_a_day_of_many_slots_is_closed(slots, states, who):
    """How long days of 288 slots and of 51 states take is in the benchmarks."""
    curve = TightCurve.of_clock(smooth(slots, states, 1), length=100_000, adversary=who)
    loss = curve.inverse(1.0)
    assert curve(loss) <= 1.0
    assert curve.leakage(loss).lower >= 1 - 1e-5


def begun_at_each(kernels, loss, n, who):
    """What series leak that begin with each of the slots, one after the other."""
    laws = periodic_laws(list(kernels))
    return [
        TightCurve(np.roll(kernels, -first, axis=0), start=law, length=n, adversary=who)(loss)
        for first, law in enumerate(laws)
    ]


DAY = np.array([[[a, 1 - a], [1 - b, b]] for a, b in np.random.default_rng(2).uniform(0.5, 0.95, size=(27, 2))])


@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_a_short_series_that_may_begin_anywhere_is_that_of_its_worst_slot(who):
    curve, begun = TightCurve.of_clock(DAY, length=10, adversary=who), begun_at_each(DAY, 0.3, 10, who)
    found = curve.leakage(0.3)
    assert found.upper == pytest.approx(max(begun), rel=1e-8)
    assert found.lower == pytest.approx(max(begun), rel=1e-8)
    assert max(begun) > 1.3 * begun[0]
    assert 1 - 1e-8 <= curve(curve.inverse(1.0)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_clocks_with_zeros_that_may_begin_anywhere_are_those_of_their_worst_slot(who):
    for seed in range(examples(40)):
        generator = np.random.default_rng([seed, 21])
        k, slots, n = int(generator.choice([2, 3, 4])), int(generator.integers(2, 7)), int(generator.integers(2, 12))
        kernels, loss = np.array(clock(generator, k, slots)), float(generator.choice([0.05, 0.4, 1.5]))
        found = TightCurve.of_clock(kernels, length=n, adversary=who).leakage(loss)
        most = max(begun_at_each(kernels, loss, n, who))
        assert found.upper == pytest.approx(most, rel=1e-7, abs=ROOM), seed
        assert found.lower == pytest.approx(most, rel=1e-7, abs=ROOM), seed


@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_a_series_with_too_many_ends_is_bounded_by_one_without_end(who, monkeypatch):
    kernels = 0.8 * np.eye(2) + 0.2 * np.random.default_rng(3).dirichlet(np.ones(2), size=(24, 2))
    endless = TightCurve.of_clock(kernels, adversary=who)
    monkeypatch.setattr(any_slot, "_MOST_ENDS", 0)
    curve = TightCurve.of_clock(kernels, length=24, adversary=who)
    found, begun = curve.leakage(0.3), begun_at_each(kernels, 0.3, 24, who)
    assert found.lower <= max(begun) <= found.upper
    assert found.upper == pytest.approx(endless(0.3), rel=1e-8)
    # A pair of values that leaks more than the first one tried does not make the search give up.
    assert curve.inverse(1.0) == pytest.approx(endless.inverse(1.0), rel=1e-6)


@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_a_clock_with_too_many_rows_is_bounded_in_closed_form(who, monkeypatch):
    # Two states that attract each other, and slots that hardly differ: there the closed form is reached nearly.
    stay = 0.8 + 0.01 * np.cos(np.arange(12))
    kernels = np.array([[[a, 1 - a], [1 - a, a]] for a in stay])
    exact = TightCurve.of_clock(kernels, adversary=who).leakage(0.3)
    monkeypatch.setattr(many_states, "_MOST_WORK", 0)
    curve = TightCurve.of_clock(kernels, adversary=who)
    found = curve.leakage(0.3)
    assert curve.bounded
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper <= 1.1 * exact.upper
    assert curve(curve.inverse(1.0)) <= 1.0


def test_odds_of_many_steps_hold_from_every_slot_on():
    kernels = smooth(24, 3, seed=3, stay=6.0)
    found = ManyStates(inputs.chain(kernels, "stationary"), True, None)._log_odds
    assert found[0][0] == 1
    assert found[-1][1] < 1e-5
    for steps, log_odds in found[:9]:
        each = []
        for first in range(24):
            product = np.eye(3)
            for step in range(steps):
                product = product @ kernels[(first + step) % 24]
            each.append(largest_log_odds(product))
        assert max(each) <= log_odds * (1 + 1e-9) + 1e-12
        if steps <= 4:  # blocks begin at every slot
            assert log_odds <= max(each) * (1 + 1e-9)
