"""A series is said once: every verb reads the same from a Series, from parameters, and from lists."""

import datetime
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import pufferdp
from pufferdp import DataError, MarkovChain, ParameterError, Series
from pufferdp.publish.noise import SeededSampler

STATES = ["rest", "active"]
VALUES = (["rest"] * 9 + ["active"] * 3) * 20
START = datetime.datetime(2024, 5, 1)
TIMES = [START + datetime.timedelta(minutes=5 * n) for n in range(len(VALUES))]
CHAIN = MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]], states=STATES, step="5min")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "week.csv"
    lines = [f"{time.isoformat()},{value}" for time, value in zip(TIMES, VALUES, strict=True)]
    path.write_text("\n".join(["time,state", *lines]) + "\n")
    return path


VERBS = {
    "answer": lambda data, **how: pufferdp.release(data, model=CHAIN, query="histogram", epsilon=1, **how),
    "table": lambda data, **how: pufferdp.release(data, model=CHAIN, query=["histogram"], per="day", epsilon=1, **how),
    "flip": lambda data, **how: pufferdp.flip(data, model=CHAIN, epsilon=8, **how),
    "flow": lambda data, **how: pufferdp.flow(data, model=CHAIN, eta=0.01, tau=0.2, privacy="record", **how),
}


def comparable(result):
    content = result.certificate.to_dict()
    return {key: value for key, value in content.items() if key not in ("sha256", "created")}


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_read_a_series_as_they_read_parameters(file, verb):
    how = {"column": "state", "order": "time", "restart": "8h", "first": "2024-05-01", "last": "2024-05-01T20:00"}
    from_parameters = VERBS[verb](file, sampler=SeededSampler(5), **how)
    from_series = VERBS[verb](Series(file, **how), sampler=SeededSampler(5))
    assert comparable(from_series) == comparable(from_parameters)


@pytest.mark.slow
def test_a_redaction_and_a_fit_take_one_too(file):
    series = Series(file, "state", order="time")
    fits = [pufferdp.fit(series, checks=False), pufferdp.fit(file, column="state", order="time", checks=False)]
    assert fits[0].to_dict() == fits[1].to_dict()
    frame = Series(pl.read_csv(file), "state", order="time")
    done = pufferdp.redact(frame, model=CHAIN, private=[3], epsilon=2)
    assert done.data["state"][2] not in STATES


@pytest.mark.parametrize(
    "data",
    [
        VALUES,
        tuple(VALUES),
        np.array(VALUES),
        pd.Series(VALUES, name="state"),
        pl.Series("state", VALUES),
        {"state": VALUES, "other": range(len(VALUES))},
        [{"state": value, "other": n} for n, value in enumerate(VALUES)],
    ],
    ids=["list", "tuple", "array", "pandas series", "polars series", "columns", "rows"],
)
def test_values_of_python_are_read_as_a_file_is(file, data):
    expected = pufferdp.release(
        file, column="state", order="rows", model=CHAIN, query="histogram", epsilon=1, sampler=SeededSampler(1)
    )
    done = pufferdp.release(data, column="state", model=CHAIN, query="histogram", epsilon=1, sampler=SeededSampler(1))
    assert done.answer == expected.answer


def test_missing_values_of_lists_are_missing():
    unobserved = [None if n % 50 == 49 else value for n, value in enumerate(VALUES)]
    for data in (unobserved, {"value": [float("nan") if value is None else value for value in unobserved]}):
        with pytest.raises(DataError, match="missing"):
            pufferdp.release(data, column="value", model=CHAIN, query="histogram", epsilon=1)
        done = pufferdp.release(data, column="value", model=CHAIN, query="histogram", epsilon=1, missing="keep")
        assert done.certificate.data.unobserved == unobserved.count(None)


TEXTS = [time.isoformat() for time in TIMES]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"time": TEXTS, "state": VALUES}),
        pl.DataFrame({"time": TEXTS, "state": VALUES}),
        pl.LazyFrame({"time": TEXTS, "state": VALUES}),
        {"time": TEXTS, "state": VALUES},
        {"time": np.array(TEXTS, dtype="datetime64[ns]"), "state": VALUES},
        {"time": TIMES, "state": VALUES},
    ],
    ids=["pandas", "polars", "lazy polars", "texts", "datetime64", "datetimes"],
)
def test_text_times_of_frames_are_parsed_as_those_of_files(file, frame):
    how = {"column": "state", "order": "time", "last": "2024-05-01T10:00"}
    expected = pufferdp.release(file, model=CHAIN, query="histogram", epsilon=1, sampler=SeededSampler(1), **how)
    done = pufferdp.release(frame, model=CHAIN, query="histogram", epsilon=1, sampler=SeededSampler(1), **how)
    assert comparable(done) == comparable(expected)
    assert done.certificate.data.records == 121


@pytest.mark.parametrize("gap", [datetime.timedelta(hours=8), np.timedelta64(8, "h"), pd.Timedelta("8h"), "8h"])
def test_durations_may_be_timedeltas(file, gap):
    done = pufferdp.release(file, column="state", order="time", restart=gap, model=CHAIN, query="histogram", epsilon=1)
    assert done.certificate.data.gap == "8h"


def test_steps_and_units_may_be_timedeltas():
    chain = MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]], step=datetime.timedelta(minutes=5))
    assert chain.step == "5min"
    done = pufferdp.plan(chain, "histogram", epsilon=1, length=48, unit=datetime.timedelta(hours=1))
    assert done.problem.unit.records == 12


@pytest.mark.parametrize("bins", [[0, 1, 2], (0, 1, 2), np.array([0, 1, 2]), range(3), "0,1,2"])
def test_bins_may_be_numbers(bins):
    chain = MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]])
    done = pufferdp.release([0.5, 1.5] * 20, model=chain, bins=bins, query="histogram", epsilon=1)
    assert done.certificate.model["bins"] == [0, 1, 2]


def test_a_model_may_be_a_file_its_content_or_a_fit(file, tmp_path):
    pufferdp.save_model(CHAIN, tmp_path / "m.json")
    fitted = pufferdp.fit(file, column="state", order="time", checks=False)
    for model in (tmp_path / "m.json", str(tmp_path / "m.json"), json.loads((tmp_path / "m.json").read_text()), fitted):
        assert pufferdp.release(VALUES, model=model, query="histogram", epsilon=1).answer


def test_what_is_said_twice_is_refused(file):
    series = Series(file, "state", order="time")
    with pytest.raises(ParameterError, match="order is given beside a Series"):
        pufferdp.release(series, order="time", model=CHAIN, query="histogram", epsilon=1)
    with pytest.raises(AttributeError):
        series.order = "other"


def test_a_series_is_checked_when_it_is_made_and_shows_no_data():
    with pytest.raises(DataError, match="missing is 'drop'"):
        Series(VALUES, missing="drop")
    assert repr(Series(VALUES, "state", restart=None)) == "Series('MemoryFile', column='state')"
