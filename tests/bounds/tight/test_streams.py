"""What streams leak: exactly what the worst algorithm does, whatever the number of states, and never above TPL."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.bounds.tight.inputs import stationary_distribution
from pufferdp.bounds.tight.odds import OddsCurve, odds_forever, odds_series
from pufferdp.bounds.tight.series import TOLERANCE
from pufferdp.bounds.tight.streams import stream_budget, stream_leakage
from tests.oracles import algorithms, streams
from tests.strategies import SEEDS, examples, random_distribution, random_transition

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
THREE = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]]
TURNING = [[0.2, 0.8], [0.7, 0.3]]
WHO = ("bdp", "pufferfish")
ROOM = 1e-8
WIDTH = 1.01 * TOLERANCE
"""Upper ends are above what is leaked by at most this share."""
PARTS = ("backward", "forward", "total")


@st.composite
def problems(draw, states: int, most: int):
    """A chain, the distribution of its first record, and losses: equal, different, some of them 0."""
    generator = np.random.default_rng(draw(SEEDS))
    P = random_transition(generator, states)
    start = random_distribution(generator, states) if draw(st.booleans()) else "stationary"
    n = draw(st.integers(1, most))
    equal = np.full(n, draw(st.sampled_from([0.1, 1.0])))
    losses = equal if draw(st.booleans()) else generator.choice([0.0, 0.1, 0.5, 1.0, 3.0], size=n)
    return P, start, np.asarray(stationary_distribution(P) if isinstance(start, str) else start), losses


def check(found, worst):
    """None leaks more than what is found, and some algorithm nearly as much."""
    assert (found >= worst - ROOM).all()
    assert (found <= worst * (1 + WIDTH) + ROOM).all()


def programmes(P, distribution, losses, who):
    """Backward, forward and total leakage of all algorithms: outputs that are left out spend nothing."""
    n, found = len(losses), []
    for part in PARTS:
        row = []
        for t in range(n):
            kept = [part == "total" or (s <= t if part == "backward" else s >= t) for s in range(n)]
            row.append(algorithms.leakage([P], distribution, np.where(kept, losses, 0.0), who)[t])
        found.append(row)
    return np.array(found)


@given(problem=problems(2, 4))
@settings(max_examples=examples(30))
def test_two_states_are_what_randomised_response_leaks(problem):
    P, start, distribution, losses = problem
    channels = [streams.randomised_response(loss) for loss in losses]
    for who in WHO:
        found = stream_leakage(P, losses, start=start, adversary=who)
        worst = streams.leakage(P, distribution, channels, who == "bdp")
        for part, brute in zip(PARTS, worst, strict=True):
            check(getattr(found, part), brute)
        assert found.lower <= worst[2].max() + ROOM


@given(problem=problems(3, 3))
@settings(max_examples=examples(20))
def test_three_states_are_what_questions_about_sets_of_values_leak(problem):
    P, start, distribution, losses = problem
    channels = [streams.every_set(3, loss) for loss in losses]
    for who in WHO:
        found = stream_leakage(P, losses, start=start, adversary=who)
        worst = streams.leakage(P, distribution, channels, who == "bdp")
        for part, brute in zip(PARTS, worst, strict=True):
            check(getattr(found, part), brute)


@given(problem=problems(3, 3), who=st.sampled_from(WHO))
@settings(max_examples=examples(10))
def test_every_part_equals_the_linear_programme_over_all_algorithms(problem, who):
    P, start, distribution, losses = problem
    found = stream_leakage(P, losses, start=start, adversary=who)
    for part, worst in zip(PARTS, programmes(P, distribution, losses, who), strict=True):
        check(getattr(found, part), worst)


@given(problem=problems(2, 3), seed=SEEDS)
@settings(max_examples=examples(20))
def test_no_algorithm_leaks_more_even_one_that_looks_at_what_it_published(problem, seed):
    P, start, distribution, losses = problem

    def channel(loss):
        def rows(before):
            # Other noise for each past; a row's probabilities differ by e^(loss/2), and the scaling by as much again.
            generator = np.random.default_rng([seed, *before])
            weights = np.exp(generator.choice([0.0, 0.5, 1.0], size=(2, 3)) * loss / 2)
            return weights / weights.sum(axis=1, keepdims=True)

        return rows

    for who in WHO:
        found = stream_leakage(P, losses, start=start, adversary=who)
        brute = streams.leakage(P, distribution, [channel(loss) for loss in losses], who == "bdp")
        for part, some in zip(PARTS, brute, strict=True):
            assert (getattr(found, part) >= some - ROOM).all()


@pytest.mark.parametrize("P", [ACTIVITY, TURNING, [[0.8, 0.2], [0.0, 1.0]], [[0, 1], [0.5, 0.5]]])
def test_laplace_steps_are_as_bad_as_any(P):
    """The cell of all outputs at most 0 speaks for 0 by exactly e^loss: nothing is lost by looking at three cells."""
    losses = np.array([0.5, 1.0, 0.25, 2.0])
    for who in WHO:
        found = stream_leakage(P, losses, start=[0.3, 0.7], adversary=who)
        channels = [streams.laplace_cells(loss) for loss in losses]
        brute = streams.leakage(P, [0.3, 0.7], channels, who == "bdp")
        for part, worst in zip(PARTS, brute, strict=True):
            check(getattr(found, part), worst)


def test_the_recursion_of_cao_is_that_of_the_paper():
    """Figure 3 of Cao et al. (2017): rows (.8, .2) and (0, 1), a loss of .1 at each of ten steps."""
    rows = [[0.8, 0.2], [0.0, 1.0]]
    found = streams.cao(rows, [0.1] * 10)
    assert [round(v, 2) for v in found] == [0.10, 0.18, 0.25, 0.30, 0.35, 0.39, 0.42, 0.45, 0.48, 0.50]
    for before, after in itertools.pairwise(found):
        assert streams.tpl_step(rows, before) + 0.1 == pytest.approx(after, abs=1e-12)


@given(problem=problems(3, 6))
@settings(max_examples=examples(30))
def test_never_above_cao(problem):
    P, start, distribution, losses = problem
    if not isinstance(start, str) or (distribution == 0).any():
        return  # their backward rows are those of a stationary chain read backwards
    found = stream_leakage(P, losses, adversary="pufferfish")
    reversal = distribution[None] * P.T / distribution[:, None]
    backward, forward = streams.cao(reversal, losses), streams.cao(P, losses[::-1])[::-1]
    assert (found.backward <= np.array(backward) * (1 + WIDTH) + ROOM).all()
    assert (found.forward <= np.array(forward) * (1 + WIDTH) + ROOM).all()
    assert (found.total <= (np.array(backward) + np.array(forward) - losses) * (1 + WIDTH) + ROOM).all()


@pytest.mark.parametrize(("k", "spiky", "loss"), [(5, 1.0, 0.1), (5, 0.3, 1.0), (10, 0.3, 0.1)])
def test_endless_streams_of_many_states_are_never_above_tpl(k, spiky, loss):
    P = np.random.default_rng(k).dirichlet(np.full(k, spiky), size=k)
    distribution = stationary_distribution(P)
    found = stream_leakage(P, loss, adversary="pufferfish")
    forward, backward = (
        streams.tpl_forever(P, loss),
        streams.tpl_forever(distribution[None] * P.T / distribution[:, None], loss),
    )
    assert found.forward[0] <= forward * (1 + WIDTH)
    assert found.backward[0] <= backward * (1 + WIDTH)
    assert found.upper <= (forward + backward - loss) * (1 + WIDTH)
    assert found.upper - found.lower <= WIDTH * found.upper


def one_side(kernel, x, y, losses):
    """Theorem 1 as it stands, with Dinkelbach's steps: one pair of values, nobody knows a record."""
    quotient = 1.0
    for _ in range(50):
        top, bottom = np.eye(len(kernel))[x], np.eye(len(kernel))[y]
        for loss in losses:
            top, bottom = top @ kernel, bottom @ kernel
            gain = np.where(top > quotient * bottom, np.exp(loss), 1.0)
            top, bottom = top * gain, bottom * gain
        if top.sum() <= quotient * bottom.sum() * (1 + 1e-13):
            return np.log(quotient)
        quotient = top.sum() / bottom.sum()
    raise AssertionError


@pytest.mark.slow
def test_large_losses_of_many_states_leave_no_vector_behind():
    """Vectors at different quotients grow at different rates; one that vanishes beside another must not count."""
    P = np.random.default_rng(3).dirichlet(np.full(12, 0.3), size=12)
    distribution, loss = stationary_distribution(P), 2.0
    reversal, spent = distribution[None] * P.T / distribution[:, None], [loss] * 40
    worst = max(
        one_side(P, x, y, spent) + one_side(reversal, x, y, spent) for x in range(12) for y in range(12) if x != y
    )
    found = stream_leakage(P, loss, adversary="pufferfish")
    assert loss + worst <= found.upper * (1 + 1e-12)
    assert found.upper <= (loss + worst) * (1 + WIDTH)
    assert found.lower <= stream_leakage(P, loss).upper


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize(
    "P", [ACTIVITY, TURNING, [[0.99, 0.01], [0.02, 0.98]], pytest.param(THREE, marks=pytest.mark.slow)]
)
def test_long_streams_settle_and_are_what_short_ones_tend_to(P, who):
    ever, long = stream_leakage(P, 0.2, adversary=who), stream_leakage(P, 0.2, length=1_000_000, adversary=who)
    short = stream_leakage(P, 0.2, length=30, adversary=who)
    for part in PARTS:
        few, many = getattr(short, part), getattr(long, part)
        assert many.max() == pytest.approx(getattr(ever, part)[0], rel=2 * WIDTH)
        assert (few <= many[:30] * (1 + WIDTH)).all()
    assert long.backward[:15] == pytest.approx(short.backward[:15], rel=2 * WIDTH)
    assert long.forward[-15:] == pytest.approx(short.forward[-15:], rel=2 * WIDTH)
    assert long.lower == pytest.approx(long.upper, rel=2 * WIDTH)


@pytest.mark.parametrize("who", WHO)
def test_the_middle_of_a_long_stream_leaks_no_less_than_what_is_reached(who):
    # Steps farther from both ends than are listed have one value together.
    found = stream_leakage(ACTIVITY, 0.1, length=1000, adversary=who)
    assert found.total[500] >= found.lower
    assert found.backward[500] >= found.backward[99] / (1 + WIDTH)
    assert found.forward[500] >= found.forward[-100] / (1 + WIDTH)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("P", [ACTIVITY, TURNING, [[0.97, 0.03], [0.05, 0.95]], THREE])
def test_equal_and_changing_losses_meet(P, who):
    """The same stream by both ways: one loss differs by nothing that shows."""
    nearly = np.full(30, 0.5)
    nearly[::2] += 1e-13
    same, other = stream_leakage(P, 0.5, length=30, adversary=who), stream_leakage(P, nearly, adversary=who)
    for part in PARTS:
        assert getattr(other, part) == pytest.approx(getattr(same, part), rel=WIDTH)


def test_chains_that_never_forget():
    for P in (np.eye(2), [[0, 1], [1, 0]]):
        with pytest.raises(NotApplicableError, match="may grow forever"):
            stream_leakage(P, 0.1, adversary="pufferfish")
        # Every output speaks of the same thing: losses add up, as in group privacy.
        found = stream_leakage(P, 0.1, length=50, adversary="pufferfish")
        assert found.total == pytest.approx(np.full(50, 5.0), abs=ROOM)
        # Who knows any record knows them all, and nothing is left to be learnt by others.
        assert stream_leakage(P, 0.1, length=50).total.max() <= 5 + ROOM
        with pytest.raises(NotApplicableError, match="no constant loss keeps a stream"):
            stream_budget(P, 1.0, adversary="pufferfish")


def test_nothing_to_learn_and_nothing_else_to_learn_from():
    assert stream_leakage([[1.0]], 0.5, length=3).total.tolist() == [0, 0, 0]
    assert stream_leakage([[0, 1], [0, 1]], 0.5, length=3, start=[1, 0]).total.tolist() == [0, 0, 0]
    for P, who in ((ACTIVITY, "dp"), ([[0.3, 0.7], [0.3, 0.7]], "bdp")):
        assert stream_leakage(P, [0.5, 0.25], adversary=who).total == pytest.approx([0.5, 0.25], abs=1e-11)
    assert stream_leakage(ACTIVITY, [0.5]).total.tolist() == [0.5]


@pytest.mark.parametrize("P", [ACTIVITY, THREE, [[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]]])
def test_large_losses_stay_within_numbers(P):
    """Where outputs are as good as the records, the chain's own ratios are all that its neighbours add."""
    for who in WHO:
        for losses in ([800.0] * 6, [90.0] * 6, [700.0, 1.0, 800.0]):
            found = stream_leakage(P, losses, adversary=who)
            assert (found.total >= losses).all()
            assert (found.total <= sum(losses)).all()
            assert found.lower <= found.upper


@given(problem=problems(3, 3), seed=SEEDS)
@settings(max_examples=examples(4))
def test_any_start_is_above_every_start_and_reached_by_one(problem, seed):
    P, _, _, losses = problem
    found = stream_leakage(P, losses, start="any", adversary="pufferfish")
    generator = np.random.default_rng(seed)
    distributions = [*np.eye(3), *generator.dirichlet(np.ones(3), size=4)]
    for distribution in distributions:
        for part, worst in zip(PARTS, programmes(P, distribution, losses, "pufferfish"), strict=True):
            assert (getattr(found, part) >= worst - ROOM).all()
    assert found.lower <= found.upper <= losses.sum() + ROOM


@given(seed=SEEDS, who=st.sampled_from(WHO))
@settings(max_examples=examples(12))
def test_odds_bound_every_part_for_every_chain_of_a_box(seed, who):
    generator = np.random.default_rng(seed)
    k, n = int(generator.integers(2, 4)), int(generator.integers(1, 4))
    P = generator.dirichlet(np.ones(k), size=k)
    losses = generator.choice([0.0, 0.1, 0.5, 2.0], size=n)
    low, high = P * 0.8, np.minimum(P * 1.2, 1.0)
    boxed = odds_series(OddsCurve.of_box(low, high, length=n), losses)
    alone = odds_series(OddsCurve.of_chains([P], length=n), losses)
    distribution = random_distribution(generator, k)
    for part, worst in zip(PARTS, programmes(P, distribution, losses, who), strict=True):
        assert (getattr(alone, part) >= worst - ROOM).all()
        assert (getattr(boxed, part) >= getattr(alone, part) - ROOM).all()


def test_odds_take_several_steps_at_once_where_there_are_zeros():
    P = np.array([[0.5, 0.5, 0], [0, 0.6, 0.4], [0.3, 0, 0.7]])
    losses = np.full(20, 0.4)
    bound = odds_series(OddsCurve.of_chains([P], length=20), losses)
    exact = stream_leakage(P, losses, start=[1, 0, 0])
    assert exact.lower <= bound.total.max() <= 2.687118789 + 1e-8  # of the theory's check values
    assert odds_forever(OddsCurve.of_chains([P]), 0.4).total[0] == pytest.approx(2.687118789, abs=1e-8)


@pytest.mark.slow
def test_budgets_of_the_theory():
    budget = stream_budget(ACTIVITY, 1.0)
    assert budget.constant == pytest.approx(0.250325788, rel=2 * WIDTH)
    # What is left for the ends is what the steps between them do not leak: it feels their tolerance many times.
    assert budget.ends == pytest.approx((0.6252, 0.2503, 0.6252), rel=20 * WIDTH)
    # Neither more at every step nor more at the ends is allowed than leaks the target.
    assert budget.constant <= 0.250325788
    assert max(budget.ends) <= 0.6252 * (1 + 1e-4)


def test_refusals():
    with pytest.raises(ParameterError, match="leave it out"):
        stream_leakage(ACTIVITY, 0.1, length=10**9)
    with pytest.raises(ParameterError, match="-1 for record 2"):
        stream_leakage(ACTIVITY, [0.1, -1.0])
