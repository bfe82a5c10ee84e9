"""One test a refusal: the message names the value, the rule and the way out."""

from __future__ import annotations

import os
from datetime import datetime, time
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest

from pufferdp.basics.errors import DataError
from pufferdp.basics.words import a_kind
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.series import open_series

AB = Coding(labels=("a", "b"))
STATE = Layout(column="state")
BINS = Coding(labels=("low", "high"), bins=(0.0, 1.0, 2.0))


def frame(**columns: list[Any]) -> pl.DataFrame:
    return pl.DataFrame(columns, strict=False)


def refused(source: object, layout: Layout = STATE, coding: Coding = AB) -> str:
    with pytest.raises(DataError) as caught:
        open_series(source, layout).counts(coding)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    return message


# files


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("absent.csv", None, "there is no file"),
        ("series.xlsx", b"x", "has an unknown ending; it must be .csv"),
        ("empty.csv", b"", "is empty; a header and at least one row are needed"),
        ("header.csv", b"time,state\n", "the data has no rows"),
        ("ragged.csv", b"time,state\n1,a\n1,a,b\n2,b\n", "does not split into columns"),
        ("latin.csv", "state,x\né,1\n".encode("latin-1"), "not UTF-8"),
        ("garbage.csv", bytes(range(256)) * 40, ""),
        ("garbage.parquet", b"not a parquet file at all", "could not be read"),
    ],
)
def test_file(tmp_path: Path, name: str, content: bytes | None, expected: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert expected in refused(tmp_path / name)


def test_random_bytes_as_csv(tmp_path: Path) -> None:
    for _ in range(5):
        (tmp_path / "noise.csv").write_bytes(os.urandom(4000))
        refused(tmp_path / "noise.csv")


def test_a_line_too_long_far_down(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text("time,state\n" + "1,a\n" * 50_000 + "1,a,secret\n")
    message = refused(tmp_path / "long.csv")
    assert "50002" in message and "secret" not in message


def test_a_file_that_goes_away(tmp_path: Path) -> None:
    frame(state=["a"]).write_parquet(tmp_path / "x.parquet")
    series = open_series(tmp_path / "x.parquet", STATE)
    (tmp_path / "x.parquet").unlink()
    with pytest.raises(DataError, match="the data could not be read"):
        series.counts(AB)


def test_content_in_place_of_a_path() -> None:
    assert "there is no file" in refused("state\n" + "a\n" * 5000)


def test_folder_without_parquet(tmp_path: Path) -> None:
    assert "holds no .parquet file" in refused(tmp_path)


def test_empty_parquet(tmp_path: Path) -> None:
    frame(state=["a"]).clear().write_parquet(tmp_path / "none.parquet")
    assert "has no rows" in refused(tmp_path / "none.parquet")


# frames and columns


@pytest.mark.parametrize("source", [42, None, ["a", "b"], pl.Series(["a"])])
def test_not_a_frame(source: object) -> None:
    assert f"the data is {a_kind(source)}; it must be a path" in refused(source)


def test_relation_without_order() -> None:
    relation = duckdb.connect().sql("SELECT 'a' AS state")
    assert "a table has no row order; name a column with order=" in refused(relation)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (Layout(column="stat"), "there is no column 'stat'; the columns are state, time; did you mean 'state'?"),
        (Layout(column="state", order="xyz"), "there is no column 'xyz' (order=); the columns are state, time"),
        (Layout(column="state", by="xyz"), "there is no column 'xyz' (by=)"),
    ],
)
def test_unknown_column(tmp_path: Path, layout: Layout, expected: str) -> None:
    table = frame(state=["a"], time=[1])
    table.write_csv(tmp_path / "x.csv")
    assert expected in refused(table, layout)
    assert expected in refused(tmp_path / "x.csv", layout)


def test_many_columns_are_shortened() -> None:
    table = pl.DataFrame({f"c{index}": [1] for index in range(14)})
    assert "c9 and 4 more" in refused(table)


def test_states_of_another_type() -> None:
    assert "states must be text, numbers or true and false" in refused(frame(state=[datetime(2020, 1, 1)]))


# missing values


def test_missing_value() -> None:
    message = refused(frame(state=["a", None, "b", None]))
    assert message == (
        "'state' is missing in 2 rows, first at row 2; to keep it as an unobserved time step, use missing='keep'"
    )


def test_missing_value_in_order() -> None:
    table = frame(state=["a", None], time=[2, 1], who=["x", "y"])
    assert "first at time 1, who 'y'" in refused(table, Layout(column="state", order="time", by="who"))


@pytest.mark.parametrize("nan", [None, float("nan")])
def test_missing_number(nan: float | None) -> None:
    table = frame(state=[0.5, nan])
    assert "missing in 1 row" in refused(table, coding=BINS)
    assert "missing in 1 row" in refused(table.to_pandas(), coding=BINS)
    assert "missing in 1 row" in refused(table.to_arrow(), coding=BINS)


def test_all_missing() -> None:
    table = frame(state=[None, None]).cast(pl.String)
    assert "every value of 'state' is missing" in refused(table, Layout(column="state", missing="keep"))


def test_missing_order_and_person() -> None:
    table = frame(state=["a", "b"], time=[1, None], who=["x", None])
    layout = Layout(column="state", order="time", missing="keep")
    assert "'time' is missing or infinite in 1 rows" in refused(table, layout)
    assert "'who' is missing in 1 row" in refused(table, Layout(column="state", by="who", missing="keep"))


STEPS = {"state": ["a", "b", "a", "b"], "time": [0, 5, 10, 25]}


def test_rows_that_are_not_there() -> None:
    message = refused(frame(**STEPS), Layout(column="state", order="time", step=5))
    assert "the record at time 25 comes 15 after the one before, and the model's step is 5" in message
    assert "missing='keep'" in message
    assert "restart=" in message
    kept = Layout(column="state", order="time", step=5, missing="keep")
    counts = open_series(frame(**STEPS), kept).counts(Coding(labels=("a", "b")), transitions=True)
    assert (counts.lengths, counts.unobserved, counts.transitions) == (((4, 1),), 2, ((0, 1), (1, 0)))
    again = open_series(frame(**STEPS), Layout(column="state", order="time", step=5, restart=10))
    assert again.counts(Coding(labels=("a", "b"))).lengths == ((1, 1), (3, 1))


def test_times_off_the_step() -> None:
    message = refused(frame(**STEPS), Layout(column="state", order="time", step=10, missing="keep"))
    assert (
        "the record at time 5 comes 5 after the one before, which is not a whole number of the model's steps" in message
    )
    fast = {"state": ["a", "b", "a"], "time": [datetime(2024, 5, 1, 0, minute) for minute in (0, 1, 2)]}
    message = refused(frame(**fast), Layout(column="state", order="time", step="5min", missing="keep"))
    assert "2024-05-01 00:01:00 comes 1min after" in message
    message = refused(frame(**fast), Layout(column="state", order="time", step=5))
    assert "the model's step is 5 but 'time' holds times" in message


def test_unknown_rule_for_missing() -> None:
    with pytest.raises(DataError, match="missing is 'drop'; it must be refuse, or keep"):
        Layout(column="state", missing="drop")


# order and gap


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_order_not_finite(bad: float) -> None:
    table = frame(state=["a", "b"], time=[1.0, bad])
    layout = Layout(column="state", order="time")
    assert "missing or infinite in 1 rows" in refused(table, layout)
    assert "missing or infinite in 1 rows" in refused(duckdb.connect().from_arrow(table.to_arrow()), layout)


def test_infinite_time_stamp() -> None:
    relation = duckdb.connect().sql("SELECT 'a' AS state, 'infinity'::TIMESTAMP AS time")
    assert "missing or infinite in 1 rows" in refused(relation, Layout(column="state", order="time"))


def test_order_of_text(tmp_path: Path) -> None:
    table = frame(state=["a", "b"], time=["noon", "midnight"])
    table.write_csv(tmp_path / "x.csv")
    for source in (table, tmp_path / "x.csv", table.to_pandas()):
        message = refused(source, Layout(column="state", order="time"))
        assert (
            "order column 'time' holds text, 'noon' for instance; it must hold numbers, dates or time stamps" in message
        )


def test_order_that_turns_into_text_far_down(tmp_path: Path) -> None:
    rows = "".join(f"{index},a\n" for index in range(30_000))
    (tmp_path / "x.csv").write_text(f"time,state\n{rows}noon,a\n")
    assert "holds text" in refused(tmp_path / "x.csv", Layout(column="state", order="time"))


def test_order_of_times_without_date() -> None:
    table = frame(state=["a"], time=[time(1, 2)])
    assert "times without a date" in refused(table, Layout(column="state", order="time"))


def test_duplicates() -> None:
    table = frame(
        state=["a", "b", "a"], time=[datetime(2020, 1, 1, 0, 0, 0, 250_000)] * 2 + [None], who=["x", "x", "y"]
    )
    table = table.with_columns(pl.col("time").fill_null(datetime(2020, 1, 1)))
    message = refused(table, Layout(column="state", order="time", by="who"))
    assert message.startswith("two rows have time 2020-01-01 00:00:00.250000, who 'x'; an order without ties is needed")
    assert "by=" in refused(table.drop("who"), Layout(column="state", order="time"))


def test_duplicate_of_a_missing_row() -> None:
    table = frame(state=["a", None], time=[1, 1])
    assert "two rows have time 1" in refused(table, Layout(column="state", order="time", missing="keep"))


@pytest.mark.parametrize("transitions", [False, True])
@pytest.mark.parametrize("by", [None, "who"])
@pytest.mark.parametrize("convert", [pl.DataFrame.lazy, pl.DataFrame.to_arrow])
def test_duplicates_in_the_middle_of_a_chain(convert: Any, by: str | None, transitions: bool) -> None:
    table = convert(frame(state=["a", "b", "a", "b", "a"], time=[1, 2, 2, 3, 4], who=["x"] * 5))
    with pytest.raises(DataError, match="two rows have time 2"):
        open_series(table, Layout(column="state", order="time", by=by)).counts(AB, transitions=transitions)


def test_gap_without_order() -> None:
    with pytest.raises(DataError, match=r"restart is '10min' but no order column is given; .*order="):
        Layout(column="state", restart="10min")


@pytest.mark.parametrize("gap", [0, -1, "0s", "-3min", "soon", "10 parsecs", "", float("nan"), float("inf"), True])
def test_gap_that_is_none(gap: Any) -> None:
    with pytest.raises(DataError, match="it must be above 0: a duration such as 10min"):
        Layout(column="state", order="time", restart=gap)


def test_gap_of_the_wrong_kind() -> None:
    numbers = frame(state=["a"], time=[1])
    times = frame(state=["a"], time=[datetime(2020, 1, 1)])
    message = refused(numbers, Layout(column="state", order="time", restart="10min"))
    assert "'time' holds numbers; give a number in that column's unit" in message
    message = refused(times, Layout(column="state", order="time", restart=10))
    assert "'time' holds times; say of what, for example 10min" in message


def test_same_column_twice() -> None:
    with pytest.raises(DataError, match="column and order are both 'x'"):
        Layout(column="x", order="x")


# states


def test_unknown_state() -> None:
    coding = Coding(labels=tuple(f"s{index}" for index in range(12)))
    table = frame(state=["s0", "sleep"], time=[5, 7])
    message = refused(table, Layout(column="state", order="time"), coding)
    assert message.startswith("'sleep' at time 7 is not a state; the states are s0, s1,")
    assert message.endswith("s9 and 2 more")


@pytest.mark.parametrize("bad", [-0.1, 2.1, float("inf"), float("-inf")])
def test_number_outside_bins(bad: float) -> None:
    table = frame(state=[0.5, bad])
    for source in (table, table.to_pandas(), table.to_arrow()):
        assert f"'{bad}' at row 2 is not a number from 0 to 2" in refused(source, coding=BINS)


def test_text_among_numbers(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("state\n0.5\nhigh\n")
    assert "'high' at row 2 is not a number from 0 to 2" in refused(tmp_path / "x.csv", coding=BINS)
    with pytest.raises(DataError, match="'high' at row 2 is not a finite number"):
        open_series(tmp_path / "x.csv", STATE).number_range()


def test_bins_and_clip_on_text() -> None:
    assert "holds text; bins need numbers" in refused(frame(state=["a"]), coding=BINS)
    with pytest.raises(DataError, match="a sum needs numbers"):
        open_series(frame(state=["a"]), STATE).counts(AB, clip=(0.0, 1.0))


@pytest.mark.parametrize("clip", [(1.0, 1.0), (2.0, 1.0), (0.0, float("inf")), (float("nan"), 1.0), (-1e308, 1e308)])
def test_clip_range(clip: tuple[float, float]) -> None:
    with pytest.raises(DataError, match="it must be two finite numbers"):
        open_series(frame(state=[0.5]), STATE).counts(BINS, clip=clip)


@pytest.mark.parametrize(
    ("labels", "bins", "expected"),
    [
        ((), None, "one or more different names"),
        (("a", "a"), None, "one or more different names"),
        (("a", "b"), (0.0, 1.0), "one edge more"),
        (("a", "b"), (0.0, 2.0, 1.0), "finite and rising"),
        (("a", "b"), (0.0, 1.0, float("inf")), "finite and rising"),
    ],
)
def test_coding(labels: tuple[str, ...], bins: tuple[float, ...] | None, expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        Coding(labels=labels, bins=bins)


def test_labels_that_are_the_same_number() -> None:
    assert "the labels 1 and 1.0 are the same number" in refused(frame(state=[1]), coding=Coding(labels=("1", "1.0")))


def test_too_many_states() -> None:
    with pytest.raises(DataError, match="more than 10000 distinct values; group them into states with bins="):
        open_series(pd.DataFrame({"state": range(10_001)}), STATE).found_states()


@pytest.mark.parametrize(
    ("times", "row"),
    [
        (["2024-05-01T10:00:00Z", "2024-05-01T10:05:00", "2024-05-01T10:10:00Z"], 2),
        (["2024-05-01 10:00", "2024-05-01 10:05+02:00", "2024-05-01 10:10"], 1),
        (["2024-05-01T10:00:00+02:00", "2024-05-01T10:05:00+01:00", "2024-05-02"], 3),
    ],
)
def test_times_with_and_without_a_zone(times: list[str], row: int, tmp_path: Path) -> None:
    file = tmp_path / "mixed.csv"
    file.write_text("time,state\n" + "".join(f"{time},a\n" for time in times))
    expected = f"'time' has times with a time zone and times without: row {row} is {times[row - 1]!r}"
    ordered = Layout(column="state", order="time")
    assert expected in refused(file, ordered)
    assert expected in refused(frame(time=times, state=["a"] * 3), ordered)
    moments = [datetime.fromisoformat(time) for time in times]
    expected = f"'time' has times with a time zone and times without: row {row} is {str(moments[row - 1])!r}"
    assert expected in refused(pd.DataFrame({"time": pd.Series(moments, dtype=object), "state": "a"}), ordered)


@pytest.mark.parametrize("zone", ["", "Z"])
def test_times_beyond_the_range_of_nanoseconds(zone: str, tmp_path: Path) -> None:
    file = tmp_path / "far.csv"
    file.write_text(f"time,state\n9999-12-31 10:00:00{zone},b\n2024-05-01 10:00:00{zone},a\n")
    assert open_series(file, Layout(column="state", order="time")).found_states() == ("a", "b")
