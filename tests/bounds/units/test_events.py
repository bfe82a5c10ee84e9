"""Segments and events as secrets: check values, and linear programmes over all DP algorithms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.series import TOLERANCE
from pufferdp.bounds.units.events import EventCurve, SegmentCurve
from tests.oracles.algorithms import largest_quotient, table
from tests.strategies import SEEDS, examples, random_transition

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
W = [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]


def stationary(kernel):
    system = np.vstack([np.asarray(kernel).T - np.eye(len(kernel)), np.ones(len(kernel))])
    distribution = np.linalg.lstsq(system, np.append(np.zeros(len(kernel)), 1.0), rcond=None)[0]
    return np.where(distribution < 1e-12, 0.0, distribution)


def programme(kernel, n, first, last, state, loss):
    """The most that any algorithm leaks about the event, one way and the other: nothing is known."""
    joint = table([kernel], stationary(kernel), n)
    event = np.zeros_like(joint)
    for series in itertools.product(range(len(kernel)), repeat=n):
        event[series] = state in series[first - 1 : last]
    top, bottom = joint * event, joint * (1 - event)
    if top.sum() <= 0 or bottom.sum() <= 0:
        return None
    top, bottom = top / top.sum(), bottom / bottom.sum()
    return largest_quotient(top, bottom, [loss] * n), largest_quotient(bottom, top, [loss] * n)


@pytest.mark.parametrize(
    ("n", "first", "last", "loss", "event", "never"),
    [(5, 2, 4, 0.5, 1.493921, 1.158569), (5, 2, 4, 1.0, 3.279499, 2.065484), (6, 3, 4, 1.0, 3.366525, 2.248594)],
)
def test_check_values(n, first, last, loss, event, never):
    curve = EventCurve(
        ACTIVITY, state=1, records=last - first + 1, before=first - 1, after=n - last, adversary="pufferfish"
    )
    assert curve.ways(loss) == (pytest.approx(event, abs=1e-6), pytest.approx(never, abs=1e-6))
    assert curve.exact
    assert curve(loss) == pytest.approx(event, abs=1e-6)


@settings(max_examples=examples(30), deadline=None)
@given(
    SEEDS, st.integers(2, 3), st.integers(1, 3), st.integers(0, 1), st.integers(0, 1), st.sampled_from([0.1, 0.7, 2.0])
)
def test_no_algorithm_leaks_more_and_with_two_states_some_leak_as_much(seed, states, records, before, after, loss):
    generator = np.random.default_rng(seed)
    kernel, state = random_transition(generator, states), int(generator.integers(states))
    n = before + records + after
    found = programme(kernel, n, before + 1, before + records, state, loss)
    try:
        curve = EventCurve(kernel, state=state, records=records, before=before, after=after, adversary="pufferfish")
    except NotApplicableError:
        assert found is None
        return
    for bound, most in zip(curve.ways(loss), found, strict=True):
        assert bound >= most - 1e-7
        if states == 2:
            assert bound == pytest.approx(most, abs=1e-6)


@pytest.mark.slow
def test_many_states_are_bounded():
    ratios = []
    for seed in range(examples(30)):
        generator = np.random.default_rng(seed)
        kernel = random_transition(generator, 4)
        found = programme(kernel, 4, 2, 3, 1, 1.0)
        try:
            curve = EventCurve(kernel, state=1, records=2, before=1, after=1, adversary="pufferfish")
        except NotApplicableError:
            assert found is None
            continue
        for bound, most in zip(curve.ways(1.0), found, strict=True):
            assert bound >= most - 1e-7
            ratios.append(bound / most)
    assert max(ratios) < 1.5


def test_a_long_segment_is_told_from_either_end():
    kernel = np.array([[0.1, 0.8, 0.1], [0.5, 0.4, 0.1], [0.3, 0.1, 0.6]])
    curve = EventCurve(kernel, state=2, records=6, before=2, after=1, adversary="pufferfish")
    distribution = stationary(kernel)
    told_back = EventCurve(
        (distribution[:, None] * kernel).T / distribution[:, None],
        state=2,
        records=6,
        before=1,
        after=2,
        adversary="pufferfish",
    )
    assert curve.ways(0.7) == pytest.approx(told_back.ways(0.7), rel=1e-6)


def _cut(joint, records, known, here):
    """Distributions of all other unknown records given each value of the segment, for every value of the known ones."""
    k, n = joint.shape[0], joint.ndim
    unknown = [t for t in range(n) if t not in known and t not in here]
    ordered = np.transpose(joint, [*known, *here, *unknown])
    for values in itertools.product(range(k), repeat=len(known)):
        yield ordered[values].reshape((k,) * records + (k,) * len(unknown))


@pytest.mark.slow
@settings(max_examples=examples(6), deadline=None)
@given(SEEDS, st.integers(2, 3))
def test_a_segment_as_a_whole_leaks_what_the_worst_algorithm_does(seed, states):
    generator = np.random.default_rng(seed)
    kernel, loss = random_transition(generator, states), 0.6
    distribution = stationary(kernel)
    joint, here, n = table([kernel], distribution, 4), [1, 2], 4
    for adversary in ("pufferfish", "bdp"):
        most = 0.0
        sets = [()] if adversary == "pufferfish" else [(), (0,), (3,), (0, 3)]
        for known in sets:
            for given_ in _cut(joint, 2, known, here):
                possible = [v for v in itertools.product(range(states), repeat=2) if given_[v].sum() > 1e-12]
                for x, y in itertools.permutations(possible, 2):
                    top, bottom = np.zeros_like(given_), np.zeros_like(given_)
                    top[x], bottom[y] = given_[x] / given_[x].sum(), given_[y] / given_[y].sum()
                    most = max(most, largest_quotient(top, bottom, [loss] * (n - len(known))))
        curve = SegmentCurve(kernel, records=2, before=1, after=1, adversary=adversary)
        assert curve(loss) >= most - 1e-7
        if (np.asarray(kernel) > 0).all():
            assert curve(loss) == pytest.approx(most, abs=1e-6)


def test_noise_that_is_a_tenth_too_small_leaks_too_much():
    curve = EventCurve(ACTIVITY, state=1, records=3, before=1, after=1, adversary="pufferfish")
    loss = curve.inverse(1.0)
    leaks = [max(programme(np.array(ACTIVITY), 5, 2, 4, 1, spent)) for spent in (loss, loss / 0.9)]
    assert leaks[0] <= 1.0 + 1e-9 < 1.05 < leaks[1]


def test_one_record_is_the_tight_curve_and_events_are_below_the_whole():
    for adversary in ("bdp", "pufferfish"):
        one = SegmentCurve(W, records=1, adversary=adversary)
        assert one(0.5) == pytest.approx(TightCurve(W, adversary=adversary)(0.5), rel=TOLERANCE)
    event = EventCurve(W, state=2, records=24, adversary="pufferfish")
    whole = SegmentCurve(W, records=24, adversary="pufferfish")
    assert max(event.ways(0.1)) < whole(0.1) / 3
    assert EventCurve(W, state=2, records=24)(0.1) == pytest.approx(SegmentCurve(W, records=24)(0.1))


def test_long_segments_and_rare_states_keep_their_numbers():
    rare = [[1 - 1e-9, 1e-9], [0.5, 0.5]]
    event = EventCurve(rare, state=1, records=48, adversary="pufferfish")
    assert event.probability == pytest.approx(48e-9 + 1e-9, rel=1e-2)
    assert 0.1 <= event(0.1) <= 4.8 + 2
    often = EventCurve([[0.01, 0.99], [0.01, 0.99]], state=1, records=300, adversary="pufferfish")
    assert 0 < often(0.01) <= 3.0 + 1e-9


def test_what_is_no_secret_is_refused():
    with pytest.raises(NotApplicableError, match="cannot occur"):
        EventCurve([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], state=2, records=2)
    with pytest.raises(NotApplicableError, match="must occur"):
        EventCurve([[0.0, 1.0], [1.0, 0.0]], state=1, records=2, before=0, after=0)
    with pytest.raises(NotApplicableError, match="never forgets"):
        SegmentCurve([[1.0, 0.0], [0.0, 1.0]], records=2)
    with pytest.raises(ParameterError, match="take a shorter one"):
        EventCurve(W, state=2, records=2001)
