"""Tables end to end: which rows there are, what is in them, what is refused, and how they are read."""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp import (
    Ar1,
    DataError,
    HiddenStates,
    MarkovChain,
    MarkovInterval,
    NotApplicableError,
    ParameterError,
    PufferdpError,
    QueryError,
    Release,
    TableRelease,
    plan_table,
    read_released,
    release,
    verify,
)
from pufferdp.basics.frames import quote_formula, unquote_formula
from pufferdp.publish.noise import SeededSampler
from pufferdp.publish.tables.table import ReleasedTable
from tests.publish.tables.tables import NoNoise, chain

MODEL = chain([[0.8, 0.2], [0.3, 0.7]])
START = datetime.datetime(2024, 1, 1)


def people(records: int = 24, names: str = "xyz", every: int = 6) -> pl.DataFrame:
    """Records of some people every few hours, with a ward each."""
    rows = [
        {
            "x": "ab"[(n * n + p) % 3 == 0],
            "t": START + datetime.timedelta(hours=every * n),
            "who": name,
            "ward": "uv"[n % 2],
            "n": float((n + p) % 7),
        }
        for p, name in enumerate(names)
        for n in range(records)
    ]
    return pl.DataFrame(rows)


def exact(data: Any, query: Any = "histogram", model: Any = MODEL, **more: Any) -> TableRelease:
    """A table without noise."""
    request = {"column": "x", "order": "t", "by": "who", "epsilon": 1.0, "sampler": NoNoise()}
    table = release(data, model=model, query=query, **{**request, **more})
    assert isinstance(table, TableRelease)
    assert verify(table.certificate).valid
    return table


@pytest.mark.parametrize(
    ("per", "keys"),
    [
        ("person", lambda row: (row["who"],)),
        ("who", lambda row: (row["who"],)),
        ("ward", lambda row: (row["ward"],)),
        ("day", lambda row: (row["t"].date().isoformat(),)),
        ("hour", lambda row: (row["t"].strftime("%Y-%m-%dT%H:00"),)),
        ("week", lambda row: ((row["t"].date() - datetime.timedelta(days=row["t"].weekday())).isoformat(),)),
        ("person,day", lambda row: (row["who"], row["t"].date().isoformat())),
        (["ward", "day"], lambda row: (row["ward"], row["t"].date().isoformat())),
    ],
)
def test_every_record_is_counted_in_its_group(per: Any, keys: Any) -> None:
    data = people()
    expected: dict[tuple[str, ...], list[str]] = {}
    for row in data.iter_rows(named=True):
        expected.setdefault(keys(row), []).append(row["x"])
    table = exact(data, per=per).table
    at = table.columns.index("records")
    counted = {row[:at]: row[at:] for row in table.rows}
    for key, states in expected.items():
        assert counted[key] == (len(states), states.count("a"), states.count("b"))
    assert all(row == (0, 0, 0) for key, row in counted.items() if key not in expected)


def test_all_questions_stand_side_by_side() -> None:
    data = people()
    table = exact(data, ["histogram", "count:b", "mean", "sum", "frequency"], per="person", split=[5, 1, 2, 2, 1])
    columns = ("who", "records", "histogram:a", "histogram:b", "count:b", "mean", "sum", "frequency:a", "frequency:b")
    assert table.table.columns == columns
    for row in table.table.rows:
        b = sum(r["x"] == "b" for r in data.iter_rows(named=True) if r["who"] == row[0])
        assert row[1:] == (24, 24 - b, b, b, b / 24, float(b), (24 - b) / 24, b / 24)


def test_several_questions_without_groups_are_one_row() -> None:
    table = exact(people(), ["histogram", "mean"])
    assert table.table.columns == ("records", "histogram:a", "histogram:b", "mean")
    assert len(table.table.rows) == 1


def test_one_question_alone_stays_an_answer() -> None:
    data = people()
    alone = release(data, model=MODEL, column="x", order="t", by="who", query="histogram", epsilon=1.0)
    assert isinstance(alone, Release)
    assert isinstance(exact(data, ["histogram"]), TableRelease)


def test_numbers_of_the_data_are_clipped() -> None:
    data = people()
    model = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]], bins=(0, 3, 7))
    table = exact(data, ["sum", "mean"], model, column="n", clip=(1.0, 5.0), per="person").table
    for who, size, total, mean in table.rows:
        numbers = [min(max(r["n"], 1.0), 5.0) for r in data.iter_rows(named=True) if r["who"] == who]
        assert (size, total) == (len(numbers), sum(numbers))
        assert mean == sum(numbers) / len(numbers)


def test_rows_come_in_a_public_order() -> None:
    names = ["p10", "p9", "p1"]
    data = pl.concat([people(24, "x").with_columns(who=pl.lit(name)) for name in names])
    assert exact(data, per="person").table.column("who") == ["p1", "p9", "p10"]
    reverse = data.reverse()
    assert exact(reverse, per="person").table.rows == exact(data, per="person").table.rows
    days = exact(people(), per="day").table.column("day")
    assert days == sorted(days)


def test_empty_periods_have_a_row() -> None:
    data = pl.concat([people(8), people(8).with_columns(pl.col("t") + datetime.timedelta(days=10))])
    table = exact(data, ["histogram", "mean", "frequency"], per="day").table
    assert len(table.rows) == 12
    empty = [row for row in table.rows if row[1] == 0]
    assert len(empty) == 8
    assert all(row[2:] == (0, 0, None, None, None) for row in empty)
    noisy = exact(data, ["histogram", "sum"], per="day", sampler=SeededSampler(5)).table
    assert any(row[2] != 0 for row in noisy.rows if row[1] == 0)  # their noise is that of all


def test_named_groups() -> None:
    table = exact(people(), ["histogram", "mean"], per="ward", groups="v,w,u")
    assert [row[:2] for row in table.table.rows] == [("v", 36), ("w", 0), ("u", 36)]
    public = table.certificate.public
    assert not any("which values of 'ward'" in fact for fact in public)
    assert any("which values of 'ward'" in fact for fact in exact(people(), per="ward").certificate.public)
    with pytest.raises(DataError, match="'v', which is not among the named groups"):
        exact(people(), per="ward", groups=["u"])


def test_groups_from_a_file(tmp_path: Path) -> None:
    names = tmp_path / "wards.txt"
    names.write_text("u\n\nv\nw\n")
    assert exact(people(), per="ward", groups=str(names)).table.column("ward") == ["u", "v", "w"]


def test_a_column_of_its_own_name() -> None:
    data = people().rename({"ward": "day"})
    assert exact(data, per="column:day").table.column("day") == ["u", "v"]
    assert len(exact(data, per="day").table.rows) == 6


def test_a_part_a_hole_and_a_restart() -> None:
    data = people(40)
    whole = exact(data, per="day").certificate
    part = exact(data, per="day", first="2024-01-03", last="2024-01-05")
    assert part.table.column("day") == ["2024-01-03", "2024-01-04", "2024-01-05"]
    assert part.certificate.dp_loss <= whole.dp_loss
    assert "part of a longer series" in part.certificate.guarantee.statement
    unobserved = data.with_columns(x=pl.when(pl.col("t").dt.day() == 4).then(None).otherwise(pl.col("x")))
    table = exact(unobserved, per="day", missing="keep")
    assert table.table.rows[3][:2] == ("2024-01-04", 0)
    assert table.certificate.data.dropped == 12
    assert table.certificate.dp_loss <= whole.dp_loss
    gap = pl.concat([data, data.with_columns(pl.col("t") + datetime.timedelta(days=100))])
    restarted = exact(gap, per="week", restart="30d").certificate
    assert restarted.dp_loss == whole.dp_loss
    assert "independent of what went before" in restarted.guarantee.statement


def test_a_second_order_chain_and_an_interval() -> None:
    memory = HiddenStates.of_order([[[0.8, 0.2], [0.4, 0.6]], [[0.7, 0.3], [0.2, 0.8]]], states=("a", "b"), start="any")
    low, high = np.array([[0.7, 0.1], [0.2, 0.6]]), np.array([[0.9, 0.3], [0.4, 0.8]])
    for model in (memory, MarkovInterval(low=low, high=high, states=("a", "b"))):
        table = exact(people(), ["histogram", "count:b"], model, per="person")
        assert 0 < table.certificate.dp_loss < 1


def test_a_frame_of_the_numbers() -> None:
    table = exact(people(), ["histogram", "mean"], per="person", sampler=SeededSampler(1))
    frame = table.to_frame(backend="polars")
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == list(table.table.columns)
    assert frame.rows() == list(table.table.rows)
    assert list(table.to_frame()["who"]) == ["x", "y", "z"]  # pandas
    nearest = table.to_frame(estimate=True, backend="polars")
    assert (nearest["histogram:a"] + nearest["histogram:b"]).to_list() == pytest.approx([24, 24, 24])
    assert nearest["mean"].is_between(0, 1).all()
    with pytest.raises(ParameterError, match="it must be one of pandas, polars"):
        table.table.to_frame("nothing")


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_table_comes_back_from_its_file(ending: str, tmp_path: Path) -> None:
    data = pl.concat([people(8), people(8).with_columns(pl.col("t") + datetime.timedelta(days=3))])
    data = data.with_columns(who=pl.when(pl.col("who") == "x").then(pl.lit('x, "y"')).otherwise(pl.col("who")))
    table = exact(data, ["histogram", "mean"], per="person,day", sampler=SeededSampler(2))
    path = tmp_path / f"t{ending}"
    table.table.write(path, ending)
    again = read_released(path)
    assert again == table.table
    assert verify(table.certificate, table=again).valid


REFUSED: list[tuple[dict[str, Any], type[PufferdpError], str]] = [
    ({"per": "person", "by": None}, QueryError, "needs the column that tells people apart"),
    ({"per": "day,hour"}, QueryError, "per is 'day, hour'"),
    ({"per": "ward,n"}, QueryError, "it must be person or a column"),
    ({"per": "nothing"}, DataError, "there is no column 'nothing' .per=.;"),
    ({"per": "x"}, DataError, "column and per are both 'x'"),
    ({"per": "day", "order": None, "by": None}, ParameterError, "needs the column that says when"),
    ({"per": "day", "groups": "a"}, QueryError, "neither per person nor per column"),
    ({"per": "ward", "groups": "u,u"}, QueryError, "one or more different names"),
    ({"query": ["histogram", "histogram"]}, QueryError, "histogram is asked twice"),
    ({"query": ["histogram"], "split": [1, 2]}, ParameterError, "split has 2 numbers for 1 queries"),
    ({"query": ["histogram", "mean"], "split": [1, 0]}, ParameterError, "numbers above 0"),
    ({"query": []}, QueryError, "there is no query"),
    ({"query": ["histogram", "flow"]}, QueryError, "it must be count:STATE, histogram"),
    ({"query": ["histogram", "sum"], "clip": (3, 1)}, PufferdpError, "clip"),
    ({"query": ["histogram", "count:a"], "clip": (1, 3)}, QueryError, "reads none"),
    ({"query": ["histogram", "mean"], "mechanism": "group"}, ParameterError, "mechanism goes with one query"),
    ({"query": ["histogram", "mean"], "delta": 1e-6}, ParameterError, "delta goes with .* noise that needs none"),
    (
        {"query": ["histogram", "mean"], "unit": 2},
        ParameterError,
        "unit goes with .* guarantee is about single records",
    ),
    ({"query": "histogram", "split": [1.0]}, ParameterError, "split and sizes go with a table"),
    ({"query": ["histogram", "mean"], "epsilon": -1}, PufferdpError, "epsilon"),
    ({"model": Ar1(coefficient=0.5), "query": ["sum", "mean"]}, NotApplicableError, "needs a series of states"),
]


@pytest.mark.parametrize(("change", "error", "words"), REFUSED)
def test_what_is_refused(change: dict[str, Any], error: type[PufferdpError], words: str) -> None:
    request = {"model": MODEL, "column": "x", "order": "t", "by": "who", "query": ["histogram"], "epsilon": 1.0}
    with pytest.raises(error, match=words):
        release(people(), **{**request, **change})


def test_periods_need_times() -> None:
    data = people().with_columns(t=pl.int_range(72))
    with pytest.raises(DataError, match="a table per day needs times"):
        exact(data, per="day")


def test_a_stray_date_makes_too_many_groups() -> None:
    data = people(4, "x").with_columns(t=pl.Series([START.replace(year=y) for y in (1024, 2023, 2024, 2025)]))
    with pytest.raises(DataError, match="hours; there must be at most"):
        exact(data, per="hour", by=None)


def test_a_record_without_a_group() -> None:
    data = people().with_columns(ward=pl.when(pl.col("t").dt.day() == 2).then(None).otherwise(pl.col("ward")))
    with pytest.raises(DataError, match="'ward' is missing in 12 rows"):
        exact(data, per="ward")


def test_a_plan_says_what_the_release_has() -> None:
    queries = ["histogram", "mean", "frequency"]
    table = exact(people(), queries, per="person", split=[2, 1, 1]).certificate
    plan = plan_table(MODEL, queries, epsilon=1.0, lengths=[24, 24, 24], per="person", split=[2, 1, 1])
    content = plan.to_dict()
    assert content["dp_loss"] == pytest.approx(table.dp_loss, rel=1e-12)
    for planned, made in zip(content["queries"], table.questions, strict=True):
        over = 24 if made.noise.divided else 1
        assert planned["scale"] == pytest.approx(made.noise.scale / over)
        assert planned["accuracy"]["alpha"] == pytest.approx(made.accuracy.alpha / over)
    assert "Shares and means are those of a group of 24 records" in " ".join(str(plan).split())
    days = plan_table(chain([[0.8, 0.2], [0.3, 0.7]], step="6h"), "mean", epsilon=1.0, length=400, per="day")
    assert days.to_dict()["group_records"] == 4


def test_accuracy_is_kept() -> None:
    """Of 2,000 groups about 5 % err by more than alpha; by chance 150 would have a probability below 1e-6."""
    data = people(2_000, "x", every=1)
    queries = ["histogram", "mean"]
    noisy = exact(data, queries, per="hour", by=None, sampler=SeededSampler(3))
    true = exact(data, queries, per="hour", by=None)
    for n, question in enumerate(noisy.certificate.questions):
        at = 2 + 2 * n
        pairs = zip(noisy.table.rows, true.table.rows, strict=True)
        wrong = sum(abs(a[at] - b[at]) >= question.accuracy.alpha for a, b in pairs)
        assert 0 < wrong < 150


def test_text_shows_the_first_rows() -> None:
    text = str(exact(people(60), ["histogram", "mean"], per="person,day"))
    assert "… and 33 more rows" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_wide_tables_fit_a_terminal() -> None:
    names = tuple(f"a state with the number {n} and a long name of its own" for n in range(6))
    model = MarkovChain(transition=np.full((6, 6), 1 / 6), states=names)
    data = people(60, "xy").with_columns(x=pl.Series([names[n % 6] for n in range(120)]))
    text = str(exact(data, ["histogram", "frequency"], model, per="person,day"))
    assert "more columns" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_no_exact_number_is_shown_by_what_was_read() -> None:
    from pufferdp.publish.tables.groups import Groups
    from pufferdp.publish.tables.questions import GroupRecords

    group = GroupRecords(states=2, codes=np.array([0, 1, 1]), numbers=np.array([1.0, 2.0, 3.0]))
    assert repr(group) == "GroupRecords(hidden)"
    assert "1" in repr(Groups(keys=(("a",),), records=(group,))) and "codes" not in repr(Groups(keys=(), records=()))


def test_neighbours_stay_inside_their_group() -> None:
    from pufferdp.publish.tables.questions import GroupRecords

    codes, joined = np.array([0, 1, 1, 0]), np.array([True, True, False, True])
    group = GroupRecords(states=2, codes=codes, joined=joined)
    assert group.transitions.tolist() == [[0, 1], [1, 0]]
    for cut in itertools.product([True, False], repeat=4):
        pairs = GroupRecords(states=2, codes=codes, joined=np.array(cut)).transitions.sum()
        assert pairs == sum(cut[1:])


@pytest.mark.parametrize("split", [[1e308, 1e308], [1e308, 1e-300], [1.0, float("inf")], [1, 0]])
def test_weights_beyond_all_measure_are_refused(split: list[float]) -> None:
    """The first was a traceback, and the second gave a question no share at all."""
    from pufferdp.publish.tables.problem import shares_of

    with pytest.raises(ParameterError, match="split is"):
        shares_of(split, 2)


NAMES = ["=HYPERLINK(1)", "@SUM(A1)", "+1-2", "-cmd", "\tx", "\rx", "'=x", "'plain", "-1.5", "+7", "1e3", "x", "''@y"]


def test_names_that_a_spreadsheet_would_run_are_quoted_in_csv_and_come_back(tmp_path: Path) -> None:
    """The rule of OWASP: a single quote before a text that begins with = + - @, a tab or a line end; numbers stay."""
    table = ReleasedTable(("=who", "records", "count:a"), tuple((name, 3, -1.5) for name in NAMES))
    lines = list(csv.reader(io.StringIO(table.to_csv().decode())))
    assert lines[0] == ["'=who", "records", "count:a"]
    kept = {"'plain", "-1.5", "+7", "1e3", "x"}
    assert [line[0] for line in lines[1:]] == [name if name in kept else f"'{name}" for name in NAMES]
    assert all(line[2] == "-1.5" for line in lines[1:])
    for ending in (".csv", ".parquet"):
        table.write(tmp_path / f"t{ending}", ending)
        again = read_released(tmp_path / f"t{ending}")
        assert again == table
        assert again.sha256 == table.sha256
    assert duckdb.sql(f"SELECT * FROM '{tmp_path}/t.parquet'").columns[0] == "=who"  # no spreadsheet reads these


@given(st.text(st.sampled_from("'=+-@\t\r\n1.5x"), max_size=5))
def test_a_quoted_name_is_the_name_again(name: str) -> None:
    quoted = str(quote_formula(name))
    assert unquote_formula(quoted) == name
    assert not re.match(r"[=+\-@\t\r\n]", quoted) or float(quoted) is not None
