"""Folders, partitions, patterns and SQLite files."""

from __future__ import annotations

import io
import os
import random
import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pufferdp.basics.errors import DataError
from pufferdp.data.layout import Coding, Counts, Layout
from pufferdp.data.series import open_series
from tests.data.reference import answer
from tests.data.test_against_reference import LABELS, check
from tests.data.test_servers import random_rows

AB = Coding(labels=("a", "b"))


def write(path: Path, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pl.DataFrame(columns)
    frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)


def count(source: Any, layout: Layout, coding: Coding = AB) -> Counts:
    return open_series(source, layout).counts(coding, transitions=True)


def test_partitions_tell_people_and_days_apart(tmp_path: Path) -> None:
    """01 and 1 are two people, and a day is a date."""
    for person, day, states in (
        ("01", "2024-05-01", ["a"]),
        ("1", "2024-05-01", ["b"]),
        ("01", "2024-05-02", ["b"]),
        ("1", "2024-05-09", ["a"]),
        ("x y", "2024-05-09", ["a"]),
    ):
        write(tmp_path / f"who={person.replace(' ', '%20')}" / f"day={day}" / "part.parquet", state=states)
    counts = count(tmp_path, Layout(column="state", order="day", by="who", restart="2d"))
    assert (counts.lengths, counts.restarts, counts.transitions) == (((1, 3), (2, 1)), 1, ((0, 1), (0, 0)))
    assert list(open_series(tmp_path, Layout(column="state", order="day", by="who")).people(AB)) == ["01", "1", "x y"]
    pattern = str(tmp_path / "who=*1" / "**" / "*.parquet")
    assert count(pattern, Layout(column="state", order="day", by="who")).lengths == ((2, 2),)


def test_a_partition_may_be_the_state(tmp_path: Path) -> None:
    write(tmp_path / "state=a" / "p.parquet", time=[1, 3])
    write(tmp_path / "state=b" / "p.parquet", time=[2])
    assert count(tmp_path, Layout(column="state", order="time")).transitions == ((0, 1), (1, 0))


def test_a_partition_that_is_missing_has_no_person(tmp_path: Path) -> None:
    write(tmp_path / "who=1" / "p.parquet", state=["a"])
    write(tmp_path / "who=__HIVE_DEFAULT_PARTITION__" / "p.parquet", state=["a"])
    with pytest.raises(DataError, match="'who' is missing in 1 row"):
        count(tmp_path, Layout(column="state", by="who"))


def test_what_others_leave_in_a_folder_is_not_data(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", state=["a"])
    write(tmp_path / "_temporary" / "0" / "b.parquet", state=["b"])
    write(tmp_path / ".hidden.parquet", state=["b"])
    (tmp_path / "_SUCCESS").touch()
    assert count(tmp_path, Layout(column="state")).histogram == (1, 0)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_files_whose_types_or_columns_differ(tmp_path: Path, ending: str) -> None:
    """The types of the first file are not everybody's: 0.5 must not become 0."""
    write(tmp_path / f"a.{ending}", time=[1, 2], state=["a", "a"])
    write(tmp_path / f"b.{ending}", state=["b"], time=[1.5])
    counts = count(str(tmp_path / f"*.{ending}"), Layout(column="state", order="time"))
    assert counts.transitions == ((0, 1), (1, 0))
    write(tmp_path / f"c.{ending}", time=[7])
    with pytest.raises(DataError, match="'state' is missing in 1 row"):
        count(str(tmp_path / f"*.{ending}"), Layout(column="state", order="time"))


def test_rows_of_many_files_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    generator = random.Random(1)
    states = [generator.choice("ab") for _ in range(4000)]
    for n in range(8):
        write(tmp_path / f"part-{n}.parquet", state=states[500 * n : 500 * n + 500])
    (chain,) = open_series(tmp_path, Layout(column="state")).states(AB)
    assert ["ab"[x] for x in chain] == states


@pytest.mark.parametrize(
    ("name", "matched"),
    [
        ("a[1]", "a1"),
        ("a]", "ab"),
        ("b?", "bX"),
        ("c*", "cc"),
        ("d{1,2}", "d1"),
        ("[!e]", "f"),
        ("g[", "g"),
        ("~h", "h"),
    ],
)
def test_a_file_is_read_under_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, matched: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, file in ((".", name), (".", matched), (name, name), (matched, name)):
        states = ["a", "b"] if file == name and folder in (".", name) else ["b"]
        (tmp_path / folder).mkdir(exist_ok=True)
        table = pl.DataFrame({"state": states})
        table.write_csv(tmp_path / folder / f"{file}.csv")
        (tmp_path / folder / f"{file}.parquet").write_bytes(table.write_parquet(out := io.BytesIO()) or out.getvalue())
        with closing(sqlite3.connect(tmp_path / folder / f"{file}.sqlite")) as database:
            database.execute("CREATE TABLE visits (n, state)")
            database.executemany("INSERT INTO visits VALUES (?, ?)", enumerate(states))
            database.commit()
    for folder in (".", name):
        for source in (f"{name}.csv", f"{name}.parquet", f"{name}.sqlite::visits"):
            layout = Layout(column="state", order="n" if "::" in source else None)
            assert open_series(os.path.join(folder, source), layout).counts(AB).histogram == (1, 1), source
    assert sum(open_series(f"{name}.csv", Layout(column="state")).counts(AB).histogram) == 2
    assert (
        open_series("?*.csv", Layout(column="state")).counts(AB).records >= 3
    )  # a pattern where no file has that name


def test_a_backslash_beside_a_glob_character_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a\\[1].csv").write_text("state\na\n")
    with pytest.raises(DataError, match="rename it"):
        open_series(tmp_path / "a\\[1].csv", Layout(column="state"))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.tsv", "there is no file"),
        ("*", "stands for Parquet and text files; name one kind"),
        ("[x", "there is no file"),
    ],
)
def test_patterns_that_stand_for_nothing(tmp_path: Path, pattern: str, expected: str) -> None:
    write(tmp_path / "a.parquet", state=["a"])
    write(tmp_path / "a.csv", state=["a"])
    with pytest.raises(DataError, match=expected):
        open_series(str(tmp_path / pattern), Layout(column="state"))


# SQLite


def database(path: Path, rows: list[tuple[Any, ...]], columns: str = '"wh""o", [when], value') -> str:
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE visits ({columns})")
    connection.executemany(f"INSERT INTO visits VALUES ({', '.join('?' * len(columns.split(',')))})", rows)
    connection.execute("CREATE TABLE other (x)")
    connection.commit()
    connection.close()
    return f"{path}::visits"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["integer", "tenths", "date", "stamp"])
def test_sqlite_against_the_reference(tmp_path: Path, kind: str) -> None:
    from tests.data.test_servers import ORDERS

    rows = random_rows(11, list(LABELS))
    _, _, make, gap = ORDERS[kind]
    told = [str(make(order)) if kind in ("date", "stamp") else make(order) for _, order, _ in rows]
    source = database(tmp_path / "it's.db", [(row[0], when, row[2]) for row, when in zip(rows, told, strict=True)])
    layout = Layout(column="value", order="when", by='wh"o', restart=gap(2), missing="keep")
    check(open_series(source, layout), Coding(labels=LABELS), answer(rows, code=LABELS.index, size=3, restart=2))


def test_sqlite_keeps_what_was_written(tmp_path: Path) -> None:
    """An empty text is a value, quotes and lines are kept, and numbers are numbers."""
    rows = [("x", 1, ""), ("x", 2, 'a "b",\nc'), ("x", 3, None), ("x", 4, 0.1)]
    source = database(tmp_path / "x.sqlite", rows)
    labels = ("", 'a "b",\nc', "0.1")
    counts = count(source, Layout(column="value", order="when", missing="keep"), Coding(labels=labels))
    assert (counts.histogram, counts.missing) == ((1, 1, 1), 1)


def test_sqlite_numbers_may_have_bins(tmp_path: Path) -> None:
    source = database(tmp_path / "x.sqlite", [("x", n, n / 4) for n in range(8)])
    bins = Coding(labels=("low", "high"), bins=(0.0, 1.0, 2.0))
    assert count(source, Layout(column="value", order="when"), bins).histogram == (4, 4)


@pytest.mark.parametrize(
    ("rest", "layout", "expected"),
    [
        ("::nothing", Layout(column="value", order="when"), "there is no table 'nothing' of .*; the tables are other"),
        ("", Layout(column="value", order="when"), "name a table of .*; the tables are other, visits"),
        ("::visits", Layout(column="value"), "a table has no row order; name a column with order="),
        ("::visits", Layout(column="valu", order="when"), "there is no column 'valu'.* did you mean 'value'"),
        ("::visits", Layout(column="value", order="when"), "the column 'value' holds bytes"),
    ],
)
def test_sqlite_refusals(tmp_path: Path, rest: str, layout: Layout, expected: str) -> None:
    database(tmp_path / "x.db", [("x", 1, b"bytes")])
    with pytest.raises(DataError, match=expected):
        open_series(str(tmp_path / "x.db") + rest, layout)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(DataError, match="could not be read by SQLite: DatabaseError"):
        open_series(str(tmp_path / "x.db::t"), Layout(column="value", order="when"))
    with pytest.raises(DataError, match="there is no file"):
        open_series(str(tmp_path / "y.db::t"), Layout(column="value", order="when"))


def test_days_in_sqlite_are_dates(tmp_path: Path) -> None:
    source = database(tmp_path / "x.sqlite", [("x", str(date(2024, 2, day)), "a") for day in (27, 28, 29)])
    assert count(source, Layout(column="value", order="when", restart="1d")).lengths == ((3, 1),)
