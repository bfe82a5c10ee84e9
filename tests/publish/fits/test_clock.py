"""Clocks from data: fitted, released, verified and charged, along the time of the day or of the week."""

from __future__ import annotations

import copy
import itertools
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

import pufferdp
from pufferdp.basics.errors import DataError, ModelError, NotApplicableError, ParameterError
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.series import open_series
from pufferdp.models.clock import MarkovClock
from pufferdp.models.simulate import sample_clock

DAY, NIGHT = [[0.6, 0.4], [0.3, 0.7]], [[0.95, 0.05], [0.6, 0.4]]
TRUE = MarkovClock(transitions=[NIGHT, DAY, DAY, NIGHT], step="30min", period="24h", states=["rest", "active"])


def frame(model, days, first="2024-01-01", minutes=30, seed=1, zone=None):
    """A series along a clock, from midnight on."""
    count = days * model.steps
    states = sample_clock(model, count, 1, np.random.default_rng(seed))[0]
    begins = datetime.fromisoformat(first)
    times = pl.Series("time", [begins + timedelta(minutes=minutes * n) for n in range(count)])
    if zone is not None:
        times = times.dt.replace_time_zone(zone)
    return pl.DataFrame([times, pl.Series("state", [model.labels[x] for x in states])])


def counted(data, slots):
    """Moves by slot and states, by hand."""
    rows, out = data.rows(), np.zeros((slots, 2, 2), dtype=int)
    for (time, before), (_, after) in itertools.pairwise(rows):
        slot = (time.hour * 60 + time.minute) * slots // 1440
        out[slot, int(before == "active"), int(after == "active")] += 1
    return out


def test_tables_are_shares_of_the_moves_in_each_slot():
    data = frame(TRUE, 40)
    found = pufferdp.fit(data, column="state", order="time", clock=4, states=["rest", "active"]).model
    moves = counted(data, 4)
    assert found.transitions == pytest.approx(moves / moves.sum(axis=2, keepdims=True), abs=1e-12)
    assert (found.step, found.period, found.states) == ("30min", "24h", ("rest", "active"))
    # 480 moves a slot: four standard errors of a share of at least 1/6 of them.
    assert found.transitions == pytest.approx(TRUE.transitions, abs=0.25)


@pytest.mark.slow
def test_the_days_of_a_week_begin_with_monday():
    week = [[[1 - p, p], [1 - p, p]] for p in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0)]
    model = MarkovClock(transitions=week, step="1h", period="7d", states=["rest", "active"])
    data = frame(model, 12 * 7 // 7, "2024-01-01", 60)  # a Monday; so many weeks, as `days` counts periods
    found = pufferdp.fit(data, column="state", order="time", clock="day", states=["rest", "active"]).model
    assert found.period == "7d"
    assert found.transitions[6] == pytest.approx(np.array([[0, 1], [0, 1]]))
    assert found.transitions[:, 0, 1] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0], abs=0.15)


@pytest.mark.parametrize("ticks", ["us", "ns", "before 1970", "offset", "numbers", "fractions"])
def test_slots_are_found_in_whatever_unit_times_come(ticks):
    data, period, slots = frame(TRUE, 3, "1969-12-30" if ticks == "before 1970" else "2024-03-02"), "24h", 4
    shown = counted(data, slots)
    step: str | float = "30min"
    if ticks == "ns":
        data = data.with_columns(pl.col("time").cast(pl.Datetime("ns")))
    elif ticks == "offset":  # records at 10 and 40 minutes past lie in the steps that begin at 0 and 30
        data = data.with_columns(pl.col("time").dt.offset_by("10m"))
    elif ticks in ("numbers", "fractions"):
        unit = 30 if ticks == "numbers" else 0.1
        data = data.with_columns(time=pl.int_range(-48, pl.len() - 48) * unit)
        period, step = (1440, 30) if ticks == "numbers" else (4.8, 0.1)
    series = open_series(data, Layout(column="state", order="time", step=step))
    moves = series.slot_moves(Coding(labels=("rest", "active")), period, slots)
    out = np.zeros_like(shown)
    for (slot, before, after, steps), count in moves.items():
        if steps:
            out[slot, before, after] += count
    assert (out == shown).all()


def test_a_zone_is_read_in_utc():
    """Berlin is an hour ahead in winter: what it calls 01:00 is 00:00 here."""
    data = frame(TRUE, 3, zone="Europe/Berlin")
    plain = frame(TRUE, 3, "2023-12-31T23:00")
    for clock in (24, 4):
        ours, theirs = (
            open_series(one, Layout(column="state", order="time")).slot_moves(Coding(labels=TRUE.labels), "24h", clock)
            for one in (data, plain)
        )
        assert ours == theirs
    made = pufferdp.fit(data, column="state", order="time", clock=4)
    assert "Hours are UTC hours." in str(made)
    done = pufferdp.release(data, model=made.model, column="state", order="time", query="histogram", epsilon=9)
    assert "the hours of the model are UTC hours" in done.certificate.guarantee.statement


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"clock": "month"}, ParameterError, "clock is 'month'; it must be hour"),
        ({"clock": 100_000}, ParameterError, "a number of equal slots of a day, 2 to 10,080"),
        ({"clock": 5}, ModelError, "24h has 48 steps of 30min, which 5 tables cannot share evenly"),
        ({"clock": 96}, ModelError, "which 96 tables cannot share evenly"),
        ({"clock": "hour", "order": None}, ParameterError, "order is missing; a clock takes slots"),
        ({"clock": "hour", "confidence": 0.95}, ParameterError, "confidence is 0.95; a clock is fitted as one model"),
        ({"clock": "hour", "start": "any"}, ParameterError, "start is any; a clock starts in the distribution"),
        (
            {"clock": "hour", "dp_epsilon": 1.0, "states": ["rest", "active"]},
            ParameterError,
            "dp_epsilon is 1.0; a clock is fitted as one model",
        ),
    ],
)
def test_bad_clocks_are_refused(given, kind, message):
    with pytest.raises(kind, match=message):
        pufferdp.fit(frame(TRUE, 2), **{"column": "state", "order": "time", **given})


def test_slots_that_were_never_seen_are_named():
    half = frame(TRUE, 9).filter(pl.col("time").dt.hour() < 21)
    with pytest.raises(DataError, match="begins from 21:00 to 22:00, from 22:00 to 23:00, from 23:00 to 24:00"):
        pufferdp.fit(half, column="state", order="time", clock="hour", missing="keep")
    weekdays = frame(TRUE, 14).filter(pl.col("time").dt.weekday() < 6)
    with pytest.raises(DataError, match=r"on a Saturday, on a Sunday, and a clock needs .* with fewer slots"):
        pufferdp.fit(weekdays, column="state", order="time", clock="day", missing="keep")


def test_times_on_no_step_are_refused():
    odd = frame(TRUE, 2).with_columns(pl.col("time") + pl.duration(seconds=pl.int_range(pl.len()) ** 2))
    with pytest.raises(DataError, match="lie on no common step, and a clock needs one"):
        pufferdp.fit(odd, column="state", order="time", clock="hour")


def test_the_hour_that_summer_time_repeats_is_a_tie():
    """Written without a zone, 02:00 and 02:30 come twice."""
    night = frame(TRUE, 1, "2024-10-27")
    twice = pl.concat([night, night.filter(pl.col("time").dt.hour() == 2)])
    with pytest.raises(DataError, match=r"two rows have time 2024-10-27 02:00:00; .*; the hour that summer time"):
        pufferdp.release(twice, model=TRUE, column="state", order="time", query="histogram", epsilon=1.0)


def test_a_state_that_is_never_left_in_a_slot_has_the_row_of_all_slots():
    model = MarkovClock(transitions=[[[1, 0], [1, 0]], DAY], step="1h", period="24h", states=["rest", "active"])
    data = frame(model, 20, minutes=60)
    found = pufferdp.fit(data, column="state", order="time", clock=2, states=["rest", "active"]).model
    moves = counted(data, 2)
    assert moves[0, 1].sum() > 0  # only the last record of the day before
    late = data.filter(pl.col("time").dt.hour() != 0)
    again = pufferdp.fit(late, column="state", order="time", clock=2, states=["rest", "active"], missing="keep").model
    whole = pufferdp.fit(late, column="state", order="time", states=["rest", "active"], missing="keep").model
    assert found.transitions[0, 0] == pytest.approx([1, 0])
    assert again.transitions[0, 1] == pytest.approx(whole.transition[1])


def test_a_release_is_verified_and_charged(tmp_path):
    data = frame(TRUE, 10)
    ledger = pufferdp.Ledger(tmp_path / "books.db", create=True)
    ledger.create("home", model=TRUE, budget=2.0)
    made = pufferdp.release(
        data, model=TRUE, column="state", order="time", query="histogram", epsilon=1.0, ledger=ledger, dataset="home"
    )
    content = made.certificate.to_dict()
    assert content["mechanism"]["name"] == "curve-tight"
    assert pufferdp.verify(content).valid
    assert ledger.verify().valid
    worse = copy.deepcopy(content)
    worse["noise"]["scale"] *= 0.9
    assert not pufferdp.verify(worse).valid
    with pytest.raises(ParameterError, match="order is missing; a clock takes the slot"):
        pufferdp.release(data, model=TRUE, column="state", query="histogram", epsilon=1.0)


def test_moves_that_are_impossible_at_their_time_are_refused():
    """Nobody gets up at night; by day they may. The same move at another time is fine."""
    still = MarkovClock(
        transitions=[[[1.0, 0.0], [0.5, 0.5]], DAY], step="30min", period="24h", states=["rest", "active"]
    )
    data = frame(still, 5)
    pufferdp.release(data, model=still, column="state", order="time", query="count:active", epsilon=5.0)
    shifted = data.with_columns(pl.col("time").dt.offset_by("12h"))
    with pytest.raises(DataError, match=r"a move from 'rest' to 'active' in 1 step at step \d+ of 48 of its 24h"):
        pufferdp.release(shifted, model=still, column="state", order="time", query="count:active", epsilon=5.0)


def test_what_does_not_work_says_why():
    data = frame(TRUE, 2)
    with pytest.raises(NotApplicableError, match="the model is a clock, and flips are worked out for one transition"):
        pufferdp.flip(data, model=TRUE, column="state", order="time", epsilon=1.0)
    with pytest.raises(pufferdp.PufferdpError, match="redaction needs one Markov chain"):
        pufferdp.redact(data, model=TRUE, column="state", order="time", epsilon=1.0, private=[3])
    with pytest.raises(pufferdp.PufferdpError, match="a flow needs one Markov chain"):
        pufferdp.flow(data, model=TRUE, column="state", order="time", eta=0.1, tau=1.0, privacy="record")


def test_unequal_losses_are_bounded_by_the_curve_at_the_largest():
    report = pufferdp.leakage_of_losses(TRUE, [0.1, 0.0, 0.3, 0.3])
    bound = pufferdp.best_curve(TRUE, 4)(0.3)
    assert report.leakage == pytest.approx([min(bound - 0.2, 0.7), min(bound - 0.3, 0.7), *[min(bound, 0.7)] * 2])
    assert (report.exact, report.attack) == (None, None)
