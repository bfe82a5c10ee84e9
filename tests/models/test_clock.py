"""Clocks: what they accept, what they refuse, what they compute."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pufferdp.basics.errors import ModelError, NotApplicableError, ParameterError
from pufferdp.bounds.chains.sums import clock_total
from pufferdp.bounds.curves import curves
from pufferdp.models.chain import MarkovChain
from pufferdp.models.clock import clock_of, rhythm_of, slot_name
from pufferdp.models.files.json import model_digest, model_from_dict, model_to_dict
from pufferdp.models.simulate import sample_clock
from pufferdp.publish.answers.mechanisms.exact import leaks_its_loss
from pufferdp.publish.answers.plan import plan

DAY, NIGHT = (
    [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]],
    [[0.9, 0.1, 0.0], [0.5, 0.5, 0.0], [0.8, 0.1, 0.1]],
)
GOOD = {"type": "markov_clock", "transitions": [DAY, NIGHT], "step": "5min", "period": "24h"}


def clock(**changes):
    return model_from_dict({**GOOD, **changes})


def test_tables_share_the_period_evenly():
    model = clock()
    assert (model.steps, model.tables.shape) == (288, (288, 3, 3))
    assert (model.tables[143] == np.array(DAY)).all()
    assert (model.tables[144] == np.array(NIGHT)).all()
    assert repr(model) == "MarkovClock(3 states: 0, 1, 2; 2 slots in 24h, steps of 5min)"


def test_the_distributions_repeat_with_the_period():
    model = clock(step="6h")
    distributions = [*model.distributions, model.distributions[-1] @ model.tables[-1]]
    for distribution, table, after in zip(distributions, model.tables, distributions[1:], strict=False):
        assert distribution @ table == pytest.approx(after, abs=1e-12)
    assert distributions[-1] == pytest.approx(distributions[0], abs=1e-12)


def test_a_file_is_read_as_it_was_written():
    model = clock(states=["a", "b", "c"], values=[1.0, 2.0, 3.0])
    again = model_from_dict(model_to_dict(model))
    assert model_digest(again) == model_digest(model)
    assert again.states == ("a", "b", "c")
    numbers = clock(step=5, period=60)
    assert numbers.steps == 12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step": "7min"}, "period is 24h and step is 7min, which is 205.714 steps"),
        ({"transitions": [DAY] * 5}, "24h has 288 steps of 5min, which 5 tables cannot share evenly"),
        ({"step": None}, "step is missing"),
        ({"step": "5parsec"}, "step is '5parsec'"),
        ({"period": "soon"}, "period is 'soon'"),
        ({"period": 60}, "give both as durations"),
        ({"step": "1ms"}, "86,400,000 steps; at most 10,080"),
        ({"start": "any"}, "start is 'any'; a clock starts at any slot"),
        ({"transitions": [DAY, [[0.5, 0.5], [0.5, 0.5]]]}, "the tables of transitions are 2×2, 3×3"),
        ({"transitions": [DAY, [[0.9, 0.2, 0.0], *DAY[1:]]]}, "row 1 of table 2 of transitions sums to 1.1"),
        ({"transitions": []}, "it must be a list of square tables"),
        ({"speed": 3}, "speed is not a key known here"),
    ],
)
def test_bad_clocks_are_refused(changes, message):
    with pytest.raises(ModelError, match=message):
        clock(**changes)


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish", "dp"])
def test_a_clock_of_equal_tables_is_the_chain_everywhere(adversary):
    equal, chain = clock(transitions=[DAY] * 4), MarkovChain(transition=DAY)
    assert clock_of(equal) is None
    ours, theirs = (curves(model, 200, adversary) for model in (equal, chain))
    for name, curve in theirs.items():
        assert ours[name].applies == curve.applies
        if curve.applies:
            assert ours[name](0.2) == pytest.approx(curve(0.2), rel=1e-10)
            assert ours[name].inverse(1.0) == pytest.approx(curve.inverse(1.0), rel=1e-10)


def test_a_plan_says_why_others_do_not_apply():
    found = {
        c.mechanism: c
        for c in plan(clock(step="6h"), query="count:1", length=100, epsilon=1.0, adversary="pufferfish").candidates
    }
    assert found["curve-tight"].applies
    assert found["curve-odds"].calibration.scale > found["curve-tight"].calibration.scale
    for name in ("quilt-exact", "quilt-approx", "gk16", "wasserstein", "exact-laplace"):
        assert not found[name].applies
        assert "one transition table" in found[name].reason


def test_a_count_of_states_that_repel_each_other_in_every_slot_leaks_its_loss():
    repels = [[0.2, 0.8], [0.7, 0.3]]
    for other, alone in (([[0.4, 0.6], [0.9, 0.1]], True), ([[0.9, 0.1], [0.4, 0.6]], False)):
        model = clock(transitions=[repels, other], step="6h")
        assert leaks_its_loss(plan(model, query="count:1", length=20, epsilon=1.0).problem) == alone
        # The worst noisy count, path by path: it says which is right.
        worst = _count_leakage(model, 5, 0.5)
        assert (worst <= 0.5 + 1e-9) == alone


def _count_leakage(model, length, loss):
    """What a noisy count of state 1 leaks about one record to whoever knows any others, from any slot: enumerated."""
    worst = 0.0
    for first in range(model.steps):
        paths = {}
        for path in itertools.product(range(2), repeat=length):
            chance = model.distributions[first, path[0]]
            for t in range(length - 1):
                chance *= model.tables[(first + t) % model.steps][path[t], path[t + 1]]
            paths[path] = chance
        for target in range(length):
            others = [t for t in range(length) if t != target]
            for size in range(length):
                for known in itertools.combinations(others, size):
                    for values in itertools.product(range(2), repeat=size):
                        worst = max(worst, _shift(paths, target, dict(zip(known, values, strict=True)), loss))
    return worst


def _shift(paths, target, known, loss):
    """The largest log-ratio of the distributions of a count with Laplace noise of scale 1/loss, given either value."""
    outputs = np.arange(-1, len(next(iter(paths))) + 2)
    distributions = np.zeros((2, len(outputs)))
    mass = np.zeros(2)
    for path, chance in paths.items():
        if all(path[t] == x for t, x in known.items()):
            distributions[path[target]] += chance * np.exp(-loss * np.abs(outputs - sum(path)))
            mass[path[target]] += chance
    if not (mass > 0).all():
        return 0.0
    return float(np.abs(np.log(distributions[1] / mass[1]) - np.log(distributions[0] / mass[0])).max())


def test_what_is_possible_depends_on_the_time():
    model = clock()
    assert model.rules_out
    assert model.allows_at(0, 0, 2, 1)
    assert not model.allows_at(200, 0, 2, 1)
    assert not model.allows_at(200, 0, 2, 50)
    assert model.allows_at(200, 0, 2, 100)
    assert model.allows_at(200, 0, 2, 88 + 288 * 1000 + 1)
    assert model.allows_at(3, -1, 2, 0)


def test_series_are_drawn_along_the_clock():
    model = clock(step="6h")
    drawn = sample_clock(model, 5, 40_000, np.random.default_rng(1), first=3)
    for t in range(5):
        shares = np.bincount(drawn[:, t], minlength=3) / 40_000
        assert shares == pytest.approx(model.distributions[(3 + t) % 4], abs=0.012)  # more than four deviations
    assert not ((drawn[:, 0] == 0) & (drawn[:, 1] == 2)).any()


def test_the_distribution_of_a_sum_is_that_of_all_paths():
    model, steps = clock(step="4h"), np.array([0, 1, 2])
    for lengths in (((5, 1),), ((2, 2), (4, 1)), ((1, 1),)):
        distribution = np.ones(1)
        for length, count in lengths:
            for _ in range(count):
                distribution = np.convolve(distribution, _enumerated(model, length, steps))
        found = clock_total(model, lengths, steps)
        assert found.masses == pytest.approx(distribution[: len(found.masses)], abs=1e-12)
    with pytest.raises(NotApplicableError, match="takes too many products"):
        clock_total(clock(), ((10**6, 1),), steps)


def _enumerated(model, length, steps):
    """The mean distribution over the first step of each slot."""
    each, slots = model.steps // len(model.transitions), len(model.transitions)
    out = np.zeros(length * int(steps.max()) + 1)
    for first in range(0, model.steps, each):
        now = {(x, int(steps[x])): p for x, p in enumerate(model.distributions[first])}
        for t in range(length - 1):
            after: dict[tuple[int, int], float] = {}
            for (x, total), p in now.items():
                for y, move in enumerate(model.tables[(first + t) % model.steps][x]):
                    key = y, total + int(steps[y])
                    after[key] = after.get(key, 0.0) + p * move
            now = after
        for (_, total), p in now.items():
            out[total] += p / slots
    return out


def test_rhythms_have_names():
    assert rhythm_of("hour") == (24, "24h")
    assert rhythm_of("day") == (7, "7d")
    assert rhythm_of("48") == rhythm_of(48) == (48, "24h")
    for wrong in ("week", 1, 0, -3, "2.5", True):
        with pytest.raises(ParameterError, match="clock is"):
            rhythm_of(wrong)
    assert slot_name(5, 7, "7d") == "on a Saturday"
    assert slot_name(3, 48, "24h") == "from 01:30 to 02:00"
