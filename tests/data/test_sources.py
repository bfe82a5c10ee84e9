"""What files and frames look like in the wild."""

from __future__ import annotations

import gzip
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from pufferdp.data.layout import Coding, Layout
from pufferdp.data.series import open_series

STATE = Layout(column="state")
KEEP = Layout(column="state", missing="keep")
BITS = Coding(labels=("0", "1"))


@pytest.mark.slow
def test_row_order_of_a_large_csv_survives_threads(tmp_path: Path) -> None:
    generator = random.Random(7)
    values = [generator.randrange(2) for _ in range(300_000)]
    path = tmp_path / "large.csv"
    path.write_text("id,state\n" + "".join(f"{generator.random()},{value}\n" for value in values))
    (chain,) = open_series(path, STATE).states(BITS)
    assert chain.tolist() == values
    table = pl.DataFrame({"state": values})
    table.write_parquet(tmp_path / "large.parquet", row_group_size=10_000)
    for source in (tmp_path / "large.parquet", table.to_pandas(), table.to_arrow(), table.lazy()):
        (chain,) = open_series(source, STATE).states(BITS)
        assert chain.tolist() == values


@pytest.mark.parametrize("name", ["x.csv", "x.txt", "x.csv.gz", "it's [1].csv"])
@pytest.mark.parametrize("mark", [",", ";", "|", "\t"])
def test_delimiters_and_endings(tmp_path: Path, name: str, mark: str) -> None:
    content = f"when{mark}state\n3{mark}1\n1{mark}0\n2{mark}1\n".encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    (chain,) = open_series(str(tmp_path / name), Layout(column="state", order="when")).states(BITS)
    assert chain.tolist() == [0, 1, 1]


def test_every_way_to_write_missing(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('state,n\n0,1\n,2\nNA,3\n"NA",4\nNaN,5\nnan,6\nnull,7\nNone,8\n"",9\n1,10\n')
    counts = open_series(tmp_path / "x.csv", KEEP).counts(BITS)
    assert (counts.records, counts.missing, counts.unobserved, counts.lengths) == (2, 8, 8, ((2, 1),))


def test_a_column_that_turns_into_text_far_down(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,state\n" + "1,0\n" * 40_000 + "1,walk\n")
    series = open_series(tmp_path / "x.csv", STATE)
    assert series.found_states() == ("0", "walk")
    assert series.counts(Coding(labels=("0", "walk"))).histogram == (40_000, 1)


def test_an_order_that_turns_fractional_far_down(tmp_path: Path) -> None:
    rows = "".join(f"{index},0\n" for index in range(30_000))
    (tmp_path / "x.csv").write_text(f"when,state\n{rows}0.5,1\n")
    (chain,) = open_series(tmp_path / "x.csv", Layout(column="state", order="when")).states(BITS)
    assert chain.tolist()[:3] == [0, 1, 0]


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("2020-01-01", "2020-01-01 12:00:00"),
        ("2020-01-01 00:00:00Z", "2020-01-01T12:00:00+02:00"),
        ("01/13/2020", "01/14/2020"),
        ("9999-12-30", "9999-12-31"),
    ],
)
def test_an_order_that_changes_its_kind_far_down(tmp_path: Path, early: str, late: str) -> None:
    people = "".join(f"{early},{index},0\n" for index in range(30_000))
    (tmp_path / "x.csv").write_text(f"when,who,state\n{late},7,1\n{people}{late},8,1\n")
    layout = Layout(column="state", order="when", by="who", restart="9h")
    assert open_series(tmp_path / "x.csv", layout).counts(BITS, transitions=True).restarts == 2
    layout = Layout(column="state", order="when", by="who", restart="24h")
    counts = open_series(tmp_path / "x.csv", layout).counts(BITS, transitions=True)
    assert (counts.restarts, counts.transitions) == (0, ((0, 2), (0, 0)))


def test_states_that_look_like_something_else(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("state\nt\nf\n01\n2020-01-01\n")
    assert open_series(tmp_path / "x.csv", STATE).found_states() == ("01", "2020-01-01", "f", "t")


def test_people_are_text_in_a_csv(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("who,state\n01,0\n1,1\n")
    assert open_series(tmp_path / "x.csv", Layout(column="state", by="who")).counts(BITS).lengths == ((1, 2),)


def test_offsets_in_a_csv(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("when,state\n2023-10-29T02:30:00+02:00,0\n2023-10-29T02:30:00+01:00,1\n")
    layout = Layout(column="state", order="when", restart="59min")
    assert open_series(tmp_path / "x.csv", layout).counts(BITS).restarts == 1
    layout = Layout(column="state", order="when", restart="1h")
    assert open_series(tmp_path / "x.csv", layout).counts(BITS).restarts == 0


def test_a_day_is_24_hours_whatever_the_connection_says() -> None:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'Europe/Berlin'")
    start = datetime(2023, 10, 28, 22, tzinfo=UTC)
    stamps = pl.DataFrame({"when": [start, start + timedelta(hours=25)], "state": [0, 1]})
    relation = connection.from_arrow(stamps.to_arrow())
    layout = Layout(column="state", order="when", restart="1d")
    assert open_series(relation, layout).counts(BITS).restarts == 1
    assert open_series(stamps, layout).counts(BITS).restarts == 1


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 1.0, None],
        ["0", "1.0", None],
        pd.array([0, 1, None], dtype="Int64"),
        pd.Categorical(["0", "1", None]),
        np.array([0, "1.0", None], dtype=object),
        np.array([0, 1.0, float("nan")], dtype=object),
        pd.array([False, True, None], dtype="boolean"),
    ],
)
def test_ones_however_pandas_holds_them(values: Any) -> None:
    source = pd.DataFrame({"state": values})
    before = source.copy()
    counts = open_series(source, KEEP).counts(BITS if not isinstance(values, pd.arrays.BooleanArray) else TRUTH)
    assert (counts.histogram, counts.missing) == ((1, 1), 1)
    pd.testing.assert_frame_equal(source, before)


TRUTH = Coding(labels=("False", "true"))


def test_found_states_are_sorted_naturally() -> None:
    assert open_series(pl.DataFrame({"state": [10.0, 2.0, -1.5]}), STATE).found_states() == ("-1.5", "2", "10")
    assert open_series(pl.DataFrame({"state": ["s10", "s2", "a"]}), STATE).found_states() == ("a", "s2", "s10")


def test_tenths_equal_to_the_gap_do_not_split() -> None:
    frame = pl.DataFrame({"when": [1e9 + index / 10 for index in range(1000)], "state": [0] * 1000})
    assert open_series(frame, Layout(column="state", order="when", restart=0.1)).counts(BITS).restarts == 0


def test_columns_named_like_ours() -> None:
    frame = pl.DataFrame({"order": ["0", "1"], "value": [2, 1], "person": [1, 1], "code": [0, 0], "number": ["", ""]})
    layout = Layout(column="order", order="value", by="person")
    for source in (frame, frame.to_pandas(), frame.to_arrow(), duckdb.connect().from_arrow(frame.to_arrow())):
        assert [chain.tolist() for chain in open_series(source, layout).states(BITS)] == [[1, 0]]


def test_exact_counts_are_not_printed() -> None:
    series = open_series(pl.DataFrame({"state": [0, 1, 1, 1, 0, 1, 1]}), STATE)
    counts = series.counts(BITS, clip=(0.0, 3.0), transitions=True)
    assert repr(counts) == str(counts) == "Counts(records=7, lengths=((7, 1),), missing=0, restarts=0, unobserved=0)"
    assert "Series(Layout(column='state'" in repr(series)


@pytest.mark.slow
def test_types_of_pandas_and_polars() -> None:
    """Whatever a frame calls its text, its integers and its times."""
    zone = pd.date_range("2023-10-29 00:30", periods=3, freq="30min", tz="Europe/Berlin")
    frame = pd.DataFrame(
        {
            "object": pd.Series(["a", "b", "a"], dtype=object),
            "category": pd.Categorical(["a", "b", "a"]),
            "arrow": pd.Series(["a", "b", "a"], dtype="string[pyarrow]"),
            "nullable": pd.Series([3, 1, 2], dtype="Int64"),
            "small": np.array([3, 1, 2], dtype=np.int8),
            "seconds": zone.as_unit("s"),
            "naive": zone.tz_localize(None),
        }
    ).set_axis([7, 7, 7])
    coding = Coding(labels=("a", "b"))
    for column in ("object", "category", "arrow"):
        for order in ("rows", "nullable", "small", "seconds", "naive"):
            counts = open_series(frame, Layout(column=column, order=order)).counts(coding, transitions=True)
            assert (counts.histogram, counts.lengths) == ((2, 1), ((3, 1),))
            assert counts.transitions == (((1, 0), (1, 0)) if order in ("nullable", "small") else ((0, 1), (1, 0)))
    polars = pl.DataFrame({"enum": pl.Series(["a", "b"], dtype=pl.Enum(["a", "b"])), "n": [2, 1]})
    assert open_series(polars, Layout(column="enum", order="n")).counts(coding, transitions=True).transitions == (
        (0, 0),
        (1, 0),
    )
