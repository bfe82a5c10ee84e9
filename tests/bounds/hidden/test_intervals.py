"""Blocks, segments, events and unequal losses of hidden states: no algorithm leaks more than the potential bound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pufferdp
from pufferdp.assess.losses import leakage_of_losses
from pufferdp.assess.streams import stream_budget, stream_leakage
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.curves import curve
from pufferdp.bounds.hidden.potential import IntervalPotential, PotentialBound
from pufferdp.bounds.units.curves import secret_curve
from pufferdp.bounds.units.secrets import SegmentSecret
from pufferdp.models.chain import MarkovChain
from pufferdp.models.hidden_states import HiddenStates
from tests.bounds.hidden.cases import ROOM, hidden_case, joints, timed_case
from tests.oracles import algorithms
from tests.oracles.blocks import block_pairs, cut, known_sets
from tests.strategies import examples

PARTS = 8
ADVERSARIES = (("pufferfish", "pufferfish"), ("bdp", "every"))
NEAR = np.array([[0.9, 0.02, 0.08], [0.05, 0.6, 0.35], [0.1, 0.2, 0.7]])


def case(seed):
    """A model, a length of two to four records and a loss; every fourth by time of day."""
    if seed % 4 == 3:
        kernel, shown, n, loss = timed_case(seed)
        return kernel, shown, "stationary", min(n, 4), loss
    kernel, shown, start, n, loss = hidden_case(seed)
    return kernel, shown, start, max(2, min(n, 4)), min(loss, 3.0)


def largest_of_blocks(joint, block, loss, who):
    """The largest leakage about any block, wherever borders lie."""
    most, n = 0.0, joint.ndim
    for phase in range(block):
        blocks = cut(n, block, phase)
        for target, here in enumerate(blocks):
            for known in known_sets([t for t in range(n) if t not in here], who):
                most = max([most, *block_pairs(joint, blocks, target, loss, known).values()])
    return most


def largest_of_contents(joint, here, loss, who):
    """The largest leakage about the contents of an interval, of algorithms with a loss for every record."""
    k, n = joint.shape[0], joint.ndim
    outside, problems = [t for t in range(n) if t not in here], []
    for known in known_sets(outside, who):
        unknown = [t for t in outside if t not in known]
        ordered = np.transpose(joint, [*known, *here, *unknown])
        for values in itertools.product(range(k), repeat=len(known)):
            given = ordered[values]
            possible = [x for x in itertools.product(range(k), repeat=len(here)) if given[x].sum() > 0]
            for x, y in itertools.permutations(possible, 2):
                top, bottom = np.zeros_like(given), np.zeros_like(given)
                top[x], bottom[y] = given[x] / given[x].sum(), given[y] / given[y].sum()
                problems.append((top, bottom, [loss] * given.ndim))
    return max(algorithms.largest_quotients(problems), default=0.0)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_algorithm_with_a_loss_for_blocks_leaks_more(part):
    for seed in range(part, examples(32), PARTS):
        kernel, shown, start, n, loss = case(seed)
        block = 2 + seed % 2
        for adversary, who in ADVERSARIES:
            bound = IntervalPotential(PotentialBound(kernel, shown, start=start, length=n, adversary=adversary))(loss)
            endless = IntervalPotential(PotentialBound(kernel, shown, start=start, adversary=adversary))(loss)
            most = max(largest_of_blocks(joint, block, loss, who) for joint in joints(kernel, shown, start, n))
            assert min(bound, endless) >= most - ROOM, (seed, adversary)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_algorithm_leaks_more_about_a_segment(part):
    for seed in range(part, examples(48), PARTS):
        kernel, shown, start, n, loss = case(seed)
        first, records = seed % (n - 1), 2
        place = (first, n - first - records)
        for adversary, who in ADVERSARIES:
            series = PotentialBound(kernel, shown, start=start, length=n, adversary=adversary)
            bound, here = IntervalPotential(series, records, place=place)(loss), [first, first + 1]
            most = max(largest_of_contents(joint, here, loss, who) for joint in joints(kernel, shown, start, n))
            assert bound >= most - ROOM, (seed, adversary)
            assert IntervalPotential(series, spread=2)(2 * loss) >= most - ROOM, (seed, adversary)


@pytest.mark.parametrize("part", range(PARTS))
def test_unequal_losses_and_unobserved_steps_leak_no_more(part):
    """A step that is not observed has a loss of 0."""
    for seed in range(part, examples(64), PARTS):
        kernel, shown, start, n, loss = hidden_case(seed)
        shown = np.unique(shown, return_inverse=True)[1]
        generator = np.random.default_rng([seed, 3])
        losses = min(loss, 3.0) * generator.choice([0.0, 0.5, 1.0], size=n)
        model = HiddenStates(transition=kernel, of=tuple(shown.tolist()), start=start)
        if model.chain is not None:
            continue
        joint = next(joints(kernel, shown, start, n))
        for adversary, who in ADVERSARIES:
            report = leakage_of_losses(model, losses, adversary=adversary)
            most = [algorithms.joint_leakage(joint, losses, t, who) for t in range(n)]
            assert (report.leakage >= np.array(most) - ROOM).all(), (seed, adversary)
            stream = stream_leakage(model, losses, adversary=adversary)
            assert np.array_equal(stream.total, report.leakage)
            before = [algorithms.joint_leakage(joint, losses * (np.arange(n) <= t), t, who) for t in range(n)]
            after = [algorithms.joint_leakage(joint, losses * (np.arange(n) >= t), t, who) for t in range(n)]
            assert (stream.backward >= np.array(before) - ROOM).all(), (seed, adversary)
            assert (stream.forward >= np.array(after) - ROOM).all(), (seed, adversary)


@pytest.mark.parametrize(("adversary", "who"), ADVERSARIES)
def test_noise_for_a_unit_keeps_its_epsilon_and_a_tenth_less_does_not(adversary, who):
    """Noise on a count spreads the loss of a block evenly over its records."""
    model, joint = HiddenStates(transition=NEAR, of=(0, 1, 1)), next(joints(NEAR, [0, 1, 1], "stationary", 4))
    plan = pufferdp.plan(model, "count:1", epsilon=1.0, length=4, unit=2, adversary=adversary)
    (noise,) = (c.calibration for c in plan.candidates if c.mechanism == "curve-potential")
    blocks = [list(range(first, first + size)) for size in (1, 2) for first in range(5 - size)]
    kept, broken = (
        max(largest_of_contents(joint, b, loss / noise.sigma, who) for b in blocks) for loss in (1, 1 / 0.9)
    )
    assert kept <= 1 + ROOM
    assert broken > 1


def test_events_lie_below_their_segment():
    model = HiddenStates(transition=NEAR, of=(0, 1, 1))
    joint = next(joints(NEAR, [0, 1, 1], "stationary", 4))
    contents = np.array(list(itertools.product(range(2), repeat=4))).reshape(2, 2, 2, 2, 4)
    event = (contents[..., 1:3] == 1).any(axis=-1)
    secret = SegmentSecret.parse("ever:1:2..3", model, 4)
    for loss in (0.2, 1.0):
        bound = secret_curve(model, secret, "pufferfish")(loss)
        top, bottom = joint * event / joint[event].sum(), joint * ~event / joint[~event].sum()
        most = max(algorithms.largest_quotients([(top, bottom, [loss] * 4), (bottom, top, [loss] * 4)]))
        assert most - ROOM <= bound <= 1.5 * most


@pytest.mark.parametrize(("adversary", "who"), ADVERSARIES)
@pytest.mark.parametrize("loss", [0.1, 1.0])
def test_bounds_a_tenth_smaller_fail(loss, adversary, who):
    joint, model = next(joints(NEAR, [0, 1, 1], "stationary", 4)), HiddenStates(transition=NEAR, of=(0, 1, 1))
    four, two = (PotentialBound(NEAR, [0, 1, 1], length=n, adversary=adversary) for n in (4, 2))
    assert largest_of_contents(joint, [1, 2], loss, who) > 0.9 * IntervalPotential(four, 2, place=(1, 1))(loss)
    assert largest_of_blocks(joint.sum(axis=(2, 3)), 2, loss, who) > 0.9 * IntervalPotential(two)(loss)
    losses = loss * np.array([1.0, 0.5, 1.0, 1.0])
    most = [algorithms.joint_leakage(joint, losses, t, who) for t in range(4)]
    assert max(most / leakage_of_losses(model, losses, adversary=adversary).leakage) > 0.9


def test_an_adversary_of_dp_learns_the_interval_alone():
    series = PotentialBound(NEAR, [0, 1, 1], adversary="dp")
    assert IntervalPotential(series)(0.3) == 0.3
    assert IntervalPotential(series, 5, place=(3, 2))(0.3) == pytest.approx(1.5)
    model = HiddenStates(transition=NEAR, of=(0, 1, 1))
    assert leakage_of_losses(model, [0.1, 0.0, 0.3], adversary="dp").leakage == pytest.approx([0.1, 0.0, 0.3])


def test_states_that_never_mix_have_group_privacy_alone():
    apart = np.array([[0.9, 0.1, 0, 0], [0.1, 0.9, 0, 0], [0, 0, 0.1, 0.9], [0, 0, 0.9, 0.1]])
    model = HiddenStates(transition=apart, of=(0, 1, 0, 1))
    assert curve("potential", model, 7, unit=2)(0.2) == pytest.approx(1.4)
    assert not curve("potential", model, None, unit=2).applies
    for unlimited in (model, MarkovChain(transition=[[0, 1], [1, 0]])):
        with pytest.raises(NotApplicableError, match=r"however little|never forget"):
            pufferdp.leakage_of(unlimited, target=1.0, unit=2)
    assert stream_leakage(model, 0.2, length=7).upper == pytest.approx(1.4)
    with pytest.raises(NotApplicableError, match="no bound on a stream"):
        stream_leakage(model, 0.2)


@pytest.mark.slow
def test_states_that_never_mix_have_no_constant_loss():
    model = HiddenStates(transition=[[0.9, 0.1, 0], [0.1, 0.9, 0], [0, 0, 1]], of=(0, 1, 1))
    with pytest.raises(NotApplicableError, match="no constant loss"):
        stream_budget(model, 0.2)


def test_what_a_step_may_spend_keeps_the_target():
    model = HiddenStates(transition=NEAR, of=(0, 1, 1))
    for length in (3, 100, None):
        budget = stream_budget(model, 1.0, length=length)
        assert 0.95 <= stream_leakage(model, budget.constant, length=length).upper <= 1.0
