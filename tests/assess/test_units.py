"""What leaks about whole periods, and from aggregates that come for ever."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp.assess.aggregates import Aggregates, most_reads
from pufferdp.assess.dp import leakage_lines, leakage_of
from pufferdp.basics.errors import ParameterError
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.units.blocks import BlockCurve
from pufferdp.models.chain import MarkovChain
from pufferdp.models.groups import Groups
from pufferdp.models.units import Unit
from tests.tolerance import both_upper_ends, upper_end

W = [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]
HOURS = MarkovChain(transition=W, states=["home", "work", "hospital"], step="1h")
ROWS = MarkovChain(transition=W)


def words(report):
    """What a report prints, without line breaks."""
    return " ".join(str(report).split())


def test_one_a_day_leaks_about_a_day():
    report = leakage_of(HOURS, dp_epsilon=1.0, unit="day", adversary="pufferfish")
    assert report.curves["tight"] == upper_end(2.077569)
    assert report.best == "tight"
    assert report.to_dict()["unit"] == {"name": "day", "records": 24}
    shown = re.search(
        r"changes the odds between two values of one day by at most a factor of e\^([\d.]+)", words(report)
    )
    assert shown is not None and float(shown[1].rstrip(".")) == pytest.approx(report.curves["tight"], abs=1e-3)
    assert report.curves["odds"] > report.curves["tight"]
    assert report.curves["quilt"] is None


def test_what_may_be_spent_on_a_day_is_safe():
    report = leakage_of(HOURS, target=1.0, unit="day")
    spent = report.curves["tight"]
    assert BlockCurve(W, block=24)(spent) <= 1.0 < BlockCurve(W, block=24)(spent * 1.1)
    assert "no day leaks more than 1" in str(report).replace("\n", " ")


def test_an_aggregate_a_day_for_ever_is_the_tight_curve_of_its_loss():
    report = leakage_of(HOURS, dp_epsilon=0.1, every="1d")
    assert report.curves["tight"] == upper_end(0.321600960)
    assert (report.length, report.aggregates.reads, report.each) == (None, 1, 0.1)
    assert "for ever" in str(report)
    week = leakage_of(HOURS, dp_epsilon=0.1, every="1d", window="7d")
    assert week.curves["tight"] == both_upper_ends(TightCurve(W)(0.1 * 7))
    each = {"each": pytest.approx(0.1), "each_delta": 0.0}
    assert week.to_dict()["aggregates"] == {"every": "1d", "window": "7d", "reads": 7, **each}
    days = leakage_of(HOURS, dp_epsilon=0.1, every="1d", window="7d", unit="day")
    assert days.curves["tight"] == both_upper_ends(BlockCurve(W, block=24)(0.7))


def test_a_target_is_shared_by_all_aggregates_that_read_a_record():
    report = leakage_of(HOURS, target=1.0, every="1d", window="7d")
    assert report.each * 7 == pytest.approx(report.curves["tight"])
    again = leakage_of(HOURS, dp_epsilon=report.each, every="1d", window="7d")
    assert again.curves["tight"] <= 1.0 + 1e-12
    assert leakage_of(HOURS, dp_epsilon=report.each * 1.1, every="1d", window="7d").curves["tight"] > 1.0


def test_deltas_of_aggregates_add_up_too():
    one = leakage_of(HOURS, dp_epsilon=0.7, dp_delta=7e-6, length=2**53)
    week = leakage_of(HOURS, dp_epsilon=0.1, dp_delta=1e-6, every="1d", window="7d")
    assert (week.epsilon, week.delta) == (pytest.approx(one.epsilon), pytest.approx(one.delta))


@given(st.integers(1, 9), st.integers(1, 6), st.integers(1, 6))
def test_windows_that_touch_a_block_are_counted(window, every, unit):
    ends = range(every, 200, every)
    read = [set(range(max(end - window, 0), end)) for end in ends]
    blocks = [set(range(start, start + unit)) for start in range(60, 120, unit) if start % unit == 0]
    counted = max(sum(bool(block & records) for records in read) for block in blocks)
    assert counted <= most_reads(window, every, unit)
    if unit == 1 or every % unit == 0:
        assert counted == most_reads(window, every, unit)


@pytest.mark.slow
def test_curves_of_units_are_drawn():
    report = leakage_of(HOURS, dp_epsilon=0.5, unit="2h", length=4)
    lines = leakage_lines(HOURS, report)
    assert all(a <= b for a, b in itertools.pairwise(lines["curves"]["tight"]))


@pytest.mark.parametrize(
    ("value", "model", "records"),
    [("day", HOURS, 24), ("week", HOURS, 168), ("6h", HOURS, 6), ("5", ROWS, 5), (5, ROWS, 5)],
)
def test_units_are_read(value, model, records):
    assert Unit.of(value, model).records == records


@pytest.mark.parametrize(
    ("value", "model", "words"),
    [
        ("day", ROWS, 'add its step, such as "step": "5min", or give unit as a number of records'),
        ("day", MarkovChain(transition=W, step=5.0), "which is not a time: give unit as a number of records"),
        ("90min", HOURS, "which is 1.5 records"),
        ("fortnight", HOURS, "hour, day, week, a duration such as 6h, or a number of records"),
        ("0", HOURS, "a number of records from 1 to"),
        ("-3", HOURS, "it must be hour, day, week"),
        (True, HOURS, "it must be hour, day, week"),
        ("day", Groups(sizes=[2], positives=[[0.25, 0.5, 0.25]]), "leave the unit out"),
    ],
)
def test_units_that_cannot_be_are_refused(value, model, words):
    with pytest.raises(ParameterError, match=words):
        Unit.of(value, model)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"window": "7d"}, "it goes with every="),
        ({"every": "1d", "length": 5}, "the series has no end: leave it out"),
        ({"every": "1d", "privacy": (0.1, 0.0), "dp_epsilon": None}, "takes the loss of one aggregate"),
        ({"unit": "day", "query": "count:work"}, "leave query= or unit= out"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments, words):
    with pytest.raises(ParameterError, match=words):
        leakage_of(HOURS, **{"dp_epsilon": 0.1, **arguments})


def test_units_are_named_in_words():
    assert [Unit.of(v, HOURS).words for v in ("day", "6h", 24)] == [
        "a whole day",
        "a whole period of 6h",
        "a whole block of 24 records",
    ]
    assert Aggregates.of(HOURS, "1d", "7d", None).words == "an aggregate every 1d over the last 7d"
    assert Aggregates.of(ROWS, 24, None, None).words == "an aggregate every 24 records"
