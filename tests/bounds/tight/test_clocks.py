"""Chains whose kernels follow a clock: equal to linear programmes over all algorithms, whatever slot comes first."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.tight import chain as chains
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.odds import OddsCurve
from pufferdp.bounds.tight.series import TOLERANCE
from tests.bounds.tight import cases
from tests.bounds.tight.cases import leakage_of_losses
from tests.oracles import algorithms
from tests.strategies import examples

ROOM = 1e-8
NARROW = 1e-9
PARTS = 8


def periodic_distributions(kernels):
    """The distribution of a record at each slot, by repeating the whole period many times: nothing shared with src."""
    whole = np.eye(len(kernels[0]))
    for kernel in kernels:
        whole = whole @ kernel
    far = np.linalg.matrix_power((whole + np.eye(len(whole))) / 2, 1 << 40)
    distribution = far.mean(axis=0) / far.mean(axis=0).sum()
    distributions = []
    for kernel in kernels:
        distributions.append(distribution)
        distribution = distribution @ kernel
    return distributions


def worst_of_all(kernels, loss, n, who):
    """The most that any algorithm leaks about any record of n, whatever slot the first one has."""
    distributions, found = periodic_distributions(kernels), 0.0
    for first, distribution in enumerate(distributions):
        turned = [*kernels[first:], *kernels[:first]]
        distribution = np.where(distribution < 1e-12, 0.0, distribution)
        found = max(
            found, *(algorithms.chain_leakage(turned, distribution, np.full(n, loss), t, who) for t in range(n))
        )
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
    for seed in range(part, examples(32), PARTS):
        generator = np.random.default_rng([seed, 20])
        k = int(generator.choice([2, 2, 3]))
        n = int(generator.integers(1, {2: 7, 3: 5}[k]))
        kernels = clock(generator, k, int(generator.integers(2, 4)))
        loss, who = float(generator.choice([0.05, 0.4, 1.5])), str(generator.choice(["bdp", "pufferfish"]))
        programme = worst_of_all(kernels, loss, n, who)
        found = TightCurve.of_clock(kernels, length=n, adversary=who, tolerance=NARROW).leakage(loss)
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
    found = TightCurve.of_clock(kernels, length=4, adversary=who, tolerance=NARROW).leakage(0.5)
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
    assert equal.inverse(1.0) == chain.inverse(1.0)
    assert equal(0.3) == chain(0.3)


@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_tables_that_are_nearly_equal_leak_as_the_chain(who):
    """What finds clocks without end shares little with what finds one kernel: both must agree."""
    kernel = np.array([[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])
    other = kernel.copy()
    other[0] += [1e-12, -1e-12, 0.0]
    clock = TightCurve.of_clock([kernel, kernel, other], adversary=who, tolerance=NARROW)
    assert clock(0.5) == pytest.approx({"bdp": 1.578960199, "pufferfish": 1.578178765}[who], abs=4e-9)
    alone = TightCurve(kernel, adversary=who)
    assert TightCurve.of_clock([kernel, kernel, other], adversary=who).inverse(1.0) == pytest.approx(
        alone.inverse(1.0), rel=2 * TOLERANCE
    )


@pytest.mark.slow
@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_without_end_is_what_long_series_tend_to(who):
    """Every record of a long series, one by one, from whatever slot: never above, and as much in the middle."""
    for seed in range(examples(3)):
        generator = np.random.default_rng([seed, 22])
        kernels = np.array(clock(generator, int(generator.integers(2, 4)), 3))
        kernels = 0.9 * kernels + 0.1 / kernels.shape[1]  # forgets within the series
        distributions = periodic_distributions(kernels)
        found = TightCurve.of_clock(kernels, adversary=who).leakage(0.4)
        assert found.upper <= found.lower * (1 + TOLERANCE)
        for first in range(3):
            turned, distribution = np.roll(kernels, -first, axis=0), distributions[first]
            each = leakage_of_losses(turned, np.full(90, 0.4), start=distribution, adversary=who, each=False)
            assert each.lower.max() <= found.upper * (1 + 1e-9), (seed, first)
            assert each.upper.max() >= found.lower * (1 - 1e-6), (seed, first)


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
        distributions, loss = periodic_distributions(kernels), float(generator.choice([0.05, 0.5]))
        found = TightCurve.of_clock(kernels, length=100_000, adversary=who).leakage(loss)
        for first in range(slots):
            turned, distribution = (
                np.roll(kernels, -first, axis=0),
                np.where(distributions[first] < 1e-12, 0.0, distributions[first]),
            )
            each = leakage_of_losses(
                turned, np.full(60, loss), start=distribution / distribution.sum(), adversary=who, each=False
            )
            assert each.lower.max() <= found.upper * (1 + 1e-9), (seed, first)


def test_ten_per_cent_less_noise_would_break_the_guarantee():
    """At 1.1 times the loss that the curve allows, some algorithm leaks more than epsilon at some slot."""
    for seed in range(examples(3)):
        generator = np.random.default_rng([seed, 23])
        kernels = clock(generator, 2, 2)
        curve = TightCurve.of_clock(kernels, length=4)
        loss = curve.inverse(1.0)
        assert 1 - 3 * TOLERANCE <= worst_of_all(kernels, loss, 4, "bdp") <= 1.0, seed
        assert worst_of_all(kernels, 1.1 * loss, 4, "bdp") > 1.01, seed


def test_a_clock_is_flat_in_its_length():
    kernels = smooth(24, 3, 4)
    short, long = (TightCurve.of_clock(kernels, length=n).inverse(1.0) for n in (1000, 100_000))
    assert short == pytest.approx(long, rel=2 * TOLERANCE)


def test_a_slot_at_which_all_is_certain_parts_the_days():
    """At one slot everybody sleeps: the days are independent, and leak no more than their own records."""
    sleep, mixed = [[1.0, 0.0], [1.0, 0.0]], [[0.7, 0.3], [0.2, 0.8]]
    curve = TightCurve.of_clock([mixed, mixed, sleep])
    assert curve(0.3) <= 2 * 0.3 + 1e-9
    assert TightCurve.of_clock([[[0.0, 1.0], [0.0, 1.0]], sleep])(0.3) == 0.0


def test_values_rarer_than_a_double_can_tell_are_refused():
    """0 must mean impossible: a value that is merely rare is a secret all the same."""
    fades = [[1.0, 0.0], [1 - 1e-3, 1e-3]]
    with pytest.raises(NotApplicableError, match="rarer than a double can hold"):
        TightCurve.of_clock([[[0.5, 0.5], [0.5, 0.5]], *[fades] * 287], length=1000)


@pytest.mark.slow
@pytest.mark.parametrize(("who", "slots", "states"), [("bdp", 288, 4), ("pufferfish", 24, 16)])
def test_the_inverse_for_a_day_of_many_slots_is_closed(slots, states, who):
    """How long days of 288 slots and of 51 states take is in the benchmarks."""
    curve = TightCurve.of_clock(smooth(slots, states, 1), length=100_000, adversary=who)
    loss = curve.inverse(1.0)
    assert curve(loss) <= 1.0
    assert curve.leakage(loss).lower >= 1 - 4 * TOLERANCE


def begun_at_each(kernels, loss, n, who):
    """What series leak that begin with each of the slots, one after the other."""
    distributions = periodic_distributions(list(kernels))
    return [
        TightCurve(np.roll(kernels, -first, axis=0), start=distribution, length=n, adversary=who, tolerance=NARROW)(
            loss
        )
        for first, distribution in enumerate(distributions)
    ]


DAY = np.array([[[a, 1 - a], [1 - b, b]] for a, b in np.random.default_rng(2).uniform(0.5, 0.95, size=(27, 2))])


@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_a_short_series_that_may_begin_anywhere_is_that_of_its_worst_slot(who):
    begun = begun_at_each(DAY, 0.3, 10, who)
    found = TightCurve.of_clock(DAY, length=10, adversary=who, tolerance=NARROW).leakage(0.3)
    assert found.upper == pytest.approx(max(begun), rel=1e-8)
    assert found.lower == pytest.approx(max(begun), rel=1e-8)
    assert max(begun) > 1.3 * begun[0]
    curve = TightCurve.of_clock(DAY, length=10, adversary=who)
    assert 1 - 3 * TOLERANCE <= curve(curve.inverse(1.0)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_clocks_with_zeros_that_may_begin_anywhere_are_those_of_their_worst_slot(who):
    for seed in range(examples(40)):
        generator = np.random.default_rng([seed, 21])
        k, slots, n = int(generator.choice([2, 3, 4])), int(generator.integers(2, 7)), int(generator.integers(2, 12))
        kernels, loss = np.array(clock(generator, k, slots)), float(generator.choice([0.05, 0.4, 1.5]))
        found = TightCurve.of_clock(kernels, length=n, adversary=who, tolerance=NARROW).leakage(loss)
        most = max(begun_at_each(kernels, loss, n, who))
        assert found.upper == pytest.approx(most, rel=1e-7, abs=ROOM), seed
        assert found.lower == pytest.approx(most, rel=1e-7, abs=ROOM), seed


@pytest.mark.parametrize("who", ["bdp", "pufferfish"])
def test_a_clock_with_too_many_rows_is_bounded_in_closed_form(who, monkeypatch):
    # Two states that attract each other, and slots that hardly differ: there the closed form is reached nearly.
    stay = 0.8 + 0.01 * np.cos(np.arange(12))
    kernels = np.array([[[a, 1 - a], [1 - a, a]] for a in stay])
    exact = TightCurve.of_clock(kernels, adversary=who).leakage(0.3)
    monkeypatch.setattr(chains, "_MOST_ROWS", 0)
    curve = TightCurve.of_clock(kernels, adversary=who)
    found = curve.leakage(0.3)
    assert curve.bounded
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper <= 1.1 * exact.upper
    assert curve(curve.inverse(1.0)) <= 1.0


@pytest.mark.parametrize("seed", range(3))
def test_a_clock_with_a_given_start_is_known_to_the_tolerance(seed):
    """Each record has its own number of records on both sides: passes read few of the steps in between."""
    generator = np.random.default_rng(seed)
    kernels, start = generator.dirichlet(np.ones(5), size=(3, 5)), generator.dirichlet(np.ones(5))
    found = TightCurve(kernels, start=start, length=60, adversary="pufferfish").leakage(0.1)
    assert found.lower <= found.upper <= found.lower * (1 + TOLERANCE)
