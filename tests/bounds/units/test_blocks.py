"""A period as the unit: check values, linear programmes over all algorithms with a loss for a block, and limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.series import TOLERANCE
from pufferdp.bounds.units.blocks import BlockCurve, BlockOdds
from tests.oracles.algorithms import table
from tests.oracles.blocks import block_leakage, block_pairs, cut, known_sets
from tests.strategies import SEEDS, examples, random_distribution, random_transition
from tests.tolerance import upper_end

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
W = [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]


def stationary(kernel):
    values, vectors = np.linalg.eig(np.asarray(kernel).T)
    distribution = np.real(vectors[:, np.argmin(abs(values - 1))])
    return distribution / distribution.sum()


@pytest.mark.parametrize(
    ("loss", "alike", "turned"), [(0.5, 1.096793, 1.070318), (1.5, 3.270779, 3.065606)], ids=["0.5", "1.5"]
)
def test_check_values_of_three_blocks(loss, alike, turned):
    # 11 against 00 and 10 against 01 of the middle block, nothing known: the programme, and the sides of the curve.
    joint, blocks = table([ACTIVITY], stationary(ACTIVITY), 6), cut(6, 2, 0)
    programme = block_pairs(joint, blocks, 1, loss, ())
    curve = BlockCurve(ACTIVITY, block=2, length=6, adversary="pufferfish")
    before, after = (curve.stationary_side(lane, loss, 2) for lane in (0, 1))
    assert programme[(), 3, 0] == pytest.approx(alike, abs=1e-6)
    assert programme[(), 2, 1] == pytest.approx(turned, abs=1e-6)
    assert loss + before[1, 0] + after[1, 0] == pytest.approx(alike, abs=1e-6)
    assert loss + before[1, 0] + after[0, 1] == pytest.approx(turned, abs=1e-6)


def test_one_a_day_leaks_about_a_day_for_ever():
    # "epsilon 1 per person and day", an hour a record; whoever knows records inside other days learns a little more.
    assert BlockCurve(W, block=24, adversary="pufferfish")(1.0) == upper_end(2.077569)
    assert BlockCurve(W, block=24)(1.0) == upper_end(2.087160)
    assert BlockCurve(W, block=24, length=10**9)(1.0) == BlockCurve(W, block=24)(1.0)


def _case(seed, states):
    kernel = random_transition(np.random.default_rng(seed), states)
    distribution = stationary(kernel)
    return kernel, np.where(distribution < 1e-12, 0.0, distribution)


@pytest.mark.slow
@settings(max_examples=examples(8), deadline=None)
@given(SEEDS, st.sampled_from([(2, 4, 2), (2, 5, 2), (2, 5, 3), (3, 4, 2)]), st.sampled_from(["bdp", "pufferfish"]))
def test_no_algorithm_leaks_more_about_a_block_and_some_leak_as_much(seed, size, who):
    states, n, block = size
    kernel, distribution = _case(seed, states)
    loss = float(np.random.default_rng(seed + 1).choice([0.1, 0.5, 2.0]))
    most = max(block_leakage(kernel, distribution, n, block, phase, loss, who) for phase in range(block))
    curve = BlockCurve(kernel, block=block, length=n, adversary=who)
    assert curve(loss) >= most - 1e-7
    if most > 0:
        assert curve(loss) == upper_end(most)
    assert BlockOdds.of_chains([kernel[None]], block, n)(loss) >= most - 1e-7


@pytest.mark.slow
def test_an_adversary_who_knows_any_records_learns_no_more_than_from_the_nearest_ones():
    for seed in range(examples(3)):
        kernel, distribution = _case(seed, 2)
        for phase in (0, 1):
            every, nearest = (block_leakage(kernel, distribution, 5, 2, phase, 0.7, who) for who in ("every", "bdp"))
            assert nearest == pytest.approx(every, abs=1e-8)


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None)
@given(SEEDS, st.sampled_from([(2, 4, 2), (2, 4, 3), (3, 3, 2)]))
def test_long_series_are_above_short_ones(seed, size):
    states, n, block = size
    generator = np.random.default_rng(seed)
    kernel = 0.1 / states + 0.9 * random_transition(generator, states)
    kernel = kernel / kernel.sum(axis=1, keepdims=True)
    loss = 0.5
    most = max(block_leakage(kernel, stationary(kernel), n, block, phase, loss, "bdp") for phase in range(block))
    short, long = (BlockCurve(kernel, block=block, length=length) for length in (n, None))
    assert most - 1e-6 <= short(loss) <= most * (1 + TOLERANCE)
    assert long(loss) >= most - 1e-7
    assert long(loss) <= BlockOdds.of_chains([kernel[None]], block, None)(loss) * (1 + TOLERANCE)


@pytest.mark.parametrize("table_", [ACTIVITY, W], ids=["activity", "W"])
def test_a_block_of_one_record_is_the_tight_curve(table_):
    for adversary in ("bdp", "pufferfish"):
        block, record = BlockCurve(table_, block=1, adversary=adversary), TightCurve(table_, adversary=adversary)
        assert block(0.5) == pytest.approx(record(0.5), rel=TOLERANCE)
    assert BlockCurve(table_, block=1, length=5)(0.5) == pytest.approx(TightCurve(table_, length=5)(0.5), rel=TOLERANCE)


@pytest.mark.slow
def test_noise_that_is_a_tenth_too_small_leaks_too_much():
    curve = BlockCurve(ACTIVITY, block=2, length=4)
    loss = curve.inverse(1.0)
    leaks = [
        max(block_leakage(ACTIVITY, stationary(ACTIVITY), 4, 2, phase, spent, "bdp") for phase in (0, 1))
        for spent in (loss, loss / 0.9)
    ]
    assert leaks[0] <= 1.0 + 1e-9 < 1.05 < leaks[1]


@pytest.mark.slow
@given(SEEDS)
@settings(max_examples=examples(10), deadline=None)
def test_the_inverse_is_safe_and_near(seed):
    generator = np.random.default_rng(seed)
    kernel = 0.05 + 0.95 * random_transition(generator, 2)
    kernel /= kernel.sum(axis=1, keepdims=True)
    curve = BlockCurve(kernel, block=int(generator.integers(1, 30)), length=int(generator.integers(1, 200)))
    loss = curve.inverse(1.0)
    assert curve(loss) <= 1.0
    assert loss == 1.0 or curve(loss * (1 + 3 * TOLERANCE)) > 1.0


def test_blocks_that_never_forget_are_bounded_by_all_blocks():
    stays = [[1.0, 0.0], [0.0, 1.0]]
    assert BlockCurve(stays, block=10, length=60)(0.1) == pytest.approx(0.7)  # 60 records can touch seven tens
    assert BlockCurve(stays, block=10)(0.1) == math.inf
    assert BlockCurve(stays, block=2, length=6)(0.1) == pytest.approx(0.4)
    assert BlockCurve([[0.5, 0.5], [0.5, 0.5]], block=10)(0.1) == 0.1
    assert BlockCurve(W, block=24, adversary="dp")(0.1) == 0.1


def test_starts_that_are_not_worked_out_say_so():
    for start in ("any", [1.0, 0.0, 0.0]):
        with pytest.raises(NotApplicableError, match="the odds curve bounds any"):
            BlockCurve(W, block=2, start=start, length=10)


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None)
@given(SEEDS)
def test_the_closed_form_holds_for_any_start_and_from_a_step_alone(seed):
    generator = np.random.default_rng(seed)
    kernel = random_transition(generator, 2)
    of_chain = BlockOdds.of_chains([kernel[None]], 2, 4)
    of_step = BlockOdds.of_steps(of_chain.log_odds, 2, 4)
    most = max(
        block_leakage(kernel, distribution, 4, 2, phase, 0.5, "bdp")
        for distribution in (random_distribution(generator, 2), np.array([1.0, 0.0]), np.array([0.5, 0.5]))
        for phase in (0, 1)
    )
    assert of_chain(0.5) >= most - 1e-8
    assert of_step(0.5) >= of_chain(0.5) - 1e-8


@pytest.mark.parametrize("who", ["pufferfish", "every"])
def test_a_block_that_lies_in_two_chains(who):
    """Three records, then three that begin anew: the block in the middle has the last of the ones and the first of the
    others. A bound for chains of three records is too small for it, that of a chain without end is not."""
    for kernel, loss in ((ACTIVITY, 0.5), ([[0.1, 0.9], [0.6, 0.4]], 1.0)):
        chain = table([kernel], stationary(kernel), 3)
        joint, blocks = np.multiply.outer(chain, chain), [[0, 1], [2, 3], [4, 5]]
        most = 0.0
        for target, here in enumerate(blocks):
            for known in known_sets([t for t in range(6) if t not in here], who):
                most = max([most, *block_pairs(joint, blocks, target, loss, known).values()])
        adversary = {"every": "bdp"}.get(who, who)
        assert most <= BlockCurve(kernel, block=2, adversary=adversary)(loss) + 1e-7
        assert most > BlockCurve(kernel, block=2, length=3, adversary=adversary)(loss) + 1e-3
