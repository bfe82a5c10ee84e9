"""A segment of a series: every source reads the same records, says which they were, and looks at no other."""

from __future__ import annotations

import io
import sqlite3
import tempfile
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pufferdp.basics.errors import DataError
from pufferdp.data import ranges as ranges_module
from pufferdp.data.csv_stream import change_lines
from pufferdp.data.files import connect
from pufferdp.data.layout import Coding, Columns, Layout
from pufferdp.data.parts import typed_condition, untyped_condition
from pufferdp.data.ranges import EVERYTHING, Range, Ranges, moment_text, read_last, read_moment
from pufferdp.data.rewrite import FileRows, row_codes
from pufferdp.data.series import open_series
from tests.data.backends import BACKENDS, ORDERED
from tests.data.reference import Row, answer
from tests.data.test_against_reference import LABELS, ORDERS, random_rows, same, table_of
from tests.strategies import examples

QUICK = settings(max_examples=examples(5), suppress_health_check=list(HealthCheck))
CODING = Coding(labels=LABELS)
OUTSIDE = "no state at all"
"""What stands in rows outside the segment: whoever reads them is refused."""
DAY = 86_400 * 10**9


def moment(kind: str, k: int) -> int | float:
    """The place of a tick, as ranges have it."""
    value = ORDERS[kind][1](k)
    if kind == "nanoseconds":
        return int(value)
    if isinstance(value, datetime):
        whole = value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        whole = whole if value.tzinfo is None else value - datetime(1970, 1, 1, tzinfo=UTC)
        return (whole.days * 86_400 + whole.seconds) * 10**9 + whole.microseconds * 1000
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days * DAY
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else value


def unit(kind: str) -> str:
    return {"zone": "utc", "hours": "utc", "date": "time", "stamp": "time", "nanoseconds": "time"}.get(kind, "number")


def place(kind: str, k: int, as_text: bool) -> Any:
    if kind == "nanoseconds" or as_text:
        return str(moment_text(moment(kind, k), unit(kind)))
    return ORDERS[kind][1](k)


def _sqlite(table: pa.Table, folder: Path) -> str:
    path = folder / f"{len(list(folder.iterdir()))}.db"
    with sqlite3.connect(path) as database:
        database.execute('CREATE TABLE series (who TEXT, "when", value TEXT)')
        rows = [
            (row["who"], row["when"] if isinstance(row["when"], (int, float)) else str(row["when"]), row["value"])
            for row in table.to_pylist()
        ]
        database.executemany("INSERT INTO series VALUES (?, ?, ?)", rows)
    return f"{path}::series"


SOURCES = {**BACKENDS, "sqlite": _sqlite}


def expected_ranges(rows: list[Row], kind: str) -> Ranges:
    segments: dict[tuple[int, int], list[str]] = {}
    for person in sorted({row[0] for row in rows}):
        ticks = [row[1] for row in rows if row[0] == person]
        segments.setdefault((min(ticks), max(ticks)), []).append(person)
    parts = tuple(
        Range(first=moment(kind, a), last=moment(kind, b), people=tuple(people))
        for (a, b), people in sorted(segments.items())
    )
    return Ranges(unit=unit(kind), order="when", by="who", parts=parts)


@pytest.mark.parametrize("source", SOURCES)
@QUICK
@given(
    data=st.data(),
    kind=st.sampled_from(sorted(set(ORDERS) - {"unsigned"})),
    ends=st.tuples(st.none() | st.integers(0, 30), st.none() | st.integers(0, 30)),
    as_text=st.booleans(),
)
def test_every_source_reads_the_same_segment(
    source: str, data: st.DataObject, kind: str, ends: Any, as_text: bool
) -> None:
    if source == "sqlite" and kind in ("nanoseconds", "zone", "hours"):
        kind = "stamp"  # texts with nine digits, and one with a zone, are tested below
    rows = data.draw(random_rows(st.sampled_from(LABELS)))
    first, last = ends if None in ends else sorted(ends)
    low, high = (0 if first is None else first), (30 if last is None else last)
    inside = [row for row in rows if low <= row[1] <= high]
    stored = [(who, k, value if low <= k <= high else OUTSIDE) for who, k, value in rows]
    layout = Layout(
        column="value",
        order="when",
        by="who",
        missing="keep",
        first=None if first is None else place(kind, first, as_text),
        last=None if last is None else place(kind, last, as_text),
    )
    with tempfile.TemporaryDirectory() as folder:
        series = open_series(SOURCES[source](table_of(stored, kind, pa.string()), Path(folder)), layout)
        if not inside:
            with pytest.raises(DataError, match=r"there is no record with 'when' (from|to) "):
                series.counts(CODING)
            return
        expected = answer(inside, code=LABELS.index, size=3)
        if expected is None:
            with pytest.raises(DataError, match=r"every value of 'value'.* is missing"):
                series.counts(CODING)
            return
        counts = series.counts(CODING, transitions=True, ranges=True)
        same(counts, expected)
        wanted = expected_ranges(inside, kind)
        assert counts.ranges == wanted
        assert Ranges.from_dict(counts.ranges.to_dict()) == wanted
        for person, own in series.people(CODING).items():
            mine = expected_ranges([row for row in inside if row[0] == person], kind)
            assert own.ranges == mine
        assert [chain.tolist() for chain in series.states(CODING)] == expected.chains


@pytest.mark.parametrize("source", SOURCES)
def test_ranges_with_an_order_or_people_alone(source: str, tmp_path: Path) -> None:
    table = table_of([("b", 3, "rest"), ("a", 5, "rest"), ("b", 9, "7")], "date", pa.string())
    series = open_series(SOURCES[source](table, tmp_path), Layout(column="value", order="when"))
    assert series.counts(CODING).ranges == EVERYTHING  # nobody has asked
    assert series.counts(CODING, ranges=True).ranges.to_dict() == {
        "order": "when",
        "unit": "time",
        "by": None,
        "parts": [{"from": "2024-02-28T00:00:00", "to": "2024-03-05T00:00:00", "by": None}],
    }
    if source in ORDERED:
        series = open_series(SOURCES[source](table, tmp_path), Layout(column="value", order="rows", by="who"))
        people = Ranges(by="who", parts=(Range(people=("a", "b")),))
        assert series.counts(CODING, ranges=True).ranges == people
        series = open_series(SOURCES[source](table, tmp_path), Layout(column="value", order="rows"))
        assert series.counts(CODING, ranges=True).ranges == EVERYTHING


@pytest.mark.parametrize(
    ("first", "last", "count"),
    [
        ("2024-05-01", "2024-05-01", 24),
        ("2024-05-01T23:00:00", "2024-05-02", 25),
        ("2024-05-01T23:00:01", "2024-05-02T00:00", 1),
        (date(2024, 5, 2), datetime(2024, 5, 2, 1), 2),
        (None, "2024-05-01 01:00", 2),
        ("2024-05-02 23:00:00.000000000", None, 1),
    ],
)
@pytest.mark.parametrize("zone", ["", "+00:00", "-05:00"])
def test_a_date_is_the_whole_day(first: Any, last: Any, count: int, zone: str, tmp_path: Path) -> None:
    lines = [f"2024-05-0{d} {h:02d}:00:00{zone},rest" for d in (1, 2) for h in range(24)]
    (tmp_path / "x.csv").write_text("when,value\n" + "\n".join(lines) + "\n")
    ends = {name: f"{end}{zone}" for name, end in (("first", first), ("last", last)) if end is not None}
    series = open_series(tmp_path / "x.csv", Layout(column="value", order="when", **ends))
    assert series.counts(CODING).records == count
    if zone:  # the UTC day is another day
        with pytest.raises(DataError, match=r"has no time zone, and the order column holds times with one; write 2024"):
            open_series(tmp_path / "x.csv", Layout(column="value", order="when", first=first, last=last)).counts(CODING)


def test_a_segment_with_a_time_zone(tmp_path: Path) -> None:
    lines = [f"2024-05-01T{h:02d}:00:00+02:00,rest" for h in range(24)]
    (tmp_path / "x.csv").write_text("when,value\n" + "\n".join(lines) + "\n")
    layout = Layout(column="value", order="when", first="2024-05-01T10:00:00Z", last="2024-05-01T14:30+02:00")
    counts = open_series(tmp_path / "x.csv", layout).counts(CODING, ranges=True)
    assert counts.records == 3
    (part,) = counts.ranges.to_dict()["parts"]
    assert (part["from"], part["to"]) == ("2024-05-01T10:00:00Z", "2024-05-01T12:00:00Z")
    with sqlite3.connect(tmp_path / "x.db") as database:
        database.execute('CREATE TABLE x ("when", value)')
        database.executemany("INSERT INTO x VALUES (?, ?)", [line.split(",") for line in lines])
    assert open_series(f"{tmp_path}/x.db::x", layout).counts(CODING, ranges=True) == counts


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"first": "5"}, "a segment from 5 is asked for, but no order column is given.*order="),
        ({"first": "5", "last": "4", "order": "n"}, "the segment goes from 5 to 4; its first place must come first"),
        ({"first": "2024-05-01", "order": "n"}, "'2024-05-01' is not a number, and the order column holds numbers"),
        ({"last": "x", "order": "when"}, "'x' is not a date or a time without a time zone, such as 2024-05-01"),
        ({"last": "2024-05-01T10:00Z", "order": "when"}, "is not a date or a time without a time zone"),
        ({"first": "7", "last": "9", "order": "n"}, "there is no record with 'n' from 7 to 9; choose a segment"),
        ({"first": "nan", "order": "n"}, "'nan' is not a finite number"),
    ],
)
def test_refusals(options: dict[str, Any], words: str) -> None:
    frame = pl.DataFrame({"n": [1, 2], "when": [date(2024, 5, 1), date(2024, 5, 2)], "value": ["rest", "7"]})
    with pytest.raises(DataError, match=words):
        open_series(frame, Layout(column="value", **options)).counts(CODING)


def test_a_row_without_a_place_is_refused_wherever_it_belongs(tmp_path: Path) -> None:
    frame = pl.DataFrame({"n": [1.0, None, float("nan"), 3.0], "value": ["rest"] * 4})
    layout = Layout(column="value", order="n", first=1, last=2)
    frame.write_parquet(tmp_path / "x.parquet")
    for source in (frame, tmp_path / "x.parquet", frame.to_arrow()):
        with pytest.raises(DataError, match="'n' is missing or infinite in 2 rows"):
            open_series(source, layout).counts(CODING)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_of_a_segment_are_rewritten_in_their_order(tmp_path: Path, ending: str) -> None:
    frame = pl.DataFrame({"n": [4, 1, 3, 2, 9], "value": ["rest", OUTSIDE, "7", "rest", OUTSIDE]})
    path = tmp_path / f"x.{ending}"
    _ = frame.write_csv(path) if ending == "csv" else frame.write_parquet(path)
    layout = Layout(column="value", order="n", first=2, last=4)
    rows = FileRows.of(path, layout)
    assert np.concatenate(list(rows.chunks(CODING))).tolist() == [0, 2, 0]
    rows.write(tmp_path / "out.csv", CODING, LABELS, lambda codes: codes)
    assert (tmp_path / "out.csv").read_text() == "n,value\n4,rest\n3,7\n2,rest\n"
    assert row_codes(frame, layout, CODING).tolist() == [0, 2, 0]
    assert row_codes(connect().from_arrow(frame.to_arrow()), layout, CODING).tolist() == [0, 2, 0]  # by order: 2, 3, 4


def test_a_stream_passes_over_what_lies_outside() -> None:
    lines = ["when,value"] + [f"2024-05-0{d}T12:00:00,{'rest' if d == 2 else OUTSIDE}" for d in (1, 2, 3)]
    source, sink, begun = io.BytesIO("\n".join(lines).encode()), io.BytesIO(), list[Ranges]()
    layout = Layout(column="value", order="when", first="2024-05-02", last="2024-05-02")
    passed = change_lines(source, sink, layout, CODING, LABELS, lambda codes: codes, begun.append)
    assert (passed.records, passed.line) == (1, 4)
    assert sink.getvalue() == b"when,value\n2024-05-02T12:00:00,rest\n"
    assert [r.to_dict()["parts"] for r in begun] == [
        [{"from": "2024-05-02T00:00:00", "to": "2024-05-02T23:59:59.999999999", "by": None}]
    ]


@pytest.mark.parametrize(
    ("cells", "first", "words"),
    [
        (["1", "x"], 1, "'n' on line 3: 'x' is not a number"),
        (["word"], 1, "'n' begins with 'word', which is not a number, a date or a time"),
        (["1", "2"], 5, "the stream has no records with 'n' from 5; at least one is needed"),
    ],
)
def test_streams_that_are_refused(cells: list[str], first: int, words: str) -> None:
    source = io.BytesIO(("n,value\n" + "".join(f"{cell},rest\n" for cell in cells)).encode())
    layout = Layout(column="value", order="n", first=first)
    with pytest.raises(DataError, match=words):
        change_lines(source, io.BytesIO(), layout, CODING, LABELS, lambda codes: codes)


def test_a_bad_state_in_a_stream_is_named_by_its_line() -> None:
    source = io.BytesIO(b"n,value\n1,x\n2,rest\n3,y\n")
    with pytest.raises(DataError, match="'y' on line 4 is not a state"):
        change_lines(
            source, io.BytesIO(), Layout(column="value", order="n", first=2), CODING, LABELS, lambda codes: codes
        )


def test_conditions_leave_rows_in_the_database() -> None:
    """They are there to save reading: one that lets everything through would pass every other test."""
    columns = Columns(roles={"value": "v", "order": "t"}, key="order", first="2024-05-01", last="2024-05-02")
    assert typed_condition(columns, "DATE") == (
        ' WHERE "t" IS NULL OR ("t" >= DATE \'2024-04-30\' AND "t" <= DATE \'2024-05-03\')'
    )
    zoned = Columns(roles=columns.roles, key="order", last="2024-05-02Z")
    assert "TIMESTAMPTZ '2024-05-03T00:00:00Z'" in typed_condition(zoned, "TIMESTAMPTZ")
    assert typed_condition(columns, "VARCHAR") == ""
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE x (t)")
        cells = [("2024-04-20",), ("2024-05-01T10:00:00+02:00",), (None,), ("1 May",), ("2024-05-09",)]
        database.executemany("INSERT INTO x VALUES (?)", cells)
        assert database.execute(f"SELECT count(*) FROM x{untyped_condition(columns)}").fetchall() == [(3,)]
        numbers = Columns(roles={"value": "v", "order": "t"}, key="order", first=2, last="3.5")
        database.executemany("INSERT INTO x VALUES (?)", [(1,), (2,), (3.5,), (4,), ("5",)])
        assert database.execute(f"SELECT count(*) FROM x{untyped_condition(numbers)}").fetchall() == [(2 + 6,)]


def test_many_different_segments_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges_module, "MOST_PARTS", 2)
    frame = pl.DataFrame({"who": list("aabbc"), "n": [1, 2, 3, 4, 5], "value": ["rest"] * 5})
    layout = Layout(column="value", order="n", by="who")
    assert open_series(frame, layout).counts(CODING, ranges=True).ranges.parts == (
        Range(first=1, last=5, people=("a", "b", "c")),
    )


def test_many_people_have_few_segments(tmp_path: Path) -> None:
    count = 10**5
    person = np.repeat(np.arange(count), 3)
    frame = pl.DataFrame({"who": person, "n": np.tile([1, 2, 3], count) + person % 5, "value": ["rest"] * (3 * count)})
    frame.write_parquet(tmp_path / "x.parquet")
    counts = open_series(tmp_path / "x.parquet", Layout(column="value", order="n", by="who")).counts(
        CODING, ranges=True
    )
    assert counts.lengths == ((3, count),)
    assert [len(part.people or ()) for part in counts.ranges.parts] == [count // 5] * 5


@pytest.mark.parametrize(
    ("text", "unit", "written"),
    [
        ("2024-05-01 13:30:00.25+02:00", "utc", "2024-05-01T11:30:00.25Z"),
        ("2024-05-01T10:00:00.123456789", "time", "2024-05-01T10:00:00.123456789"),
        ("1969-12-31T23:59:59.5", "time", "1969-12-31T23:59:59.5"),
        ("1700000000000000001", "number", "1700000000000000001"),
        ("0.1", "number", 0.1),
        ("2.0", "number", 2),
    ],
)
def test_places_are_read_and_written_without_loss(text: str, unit: str, written: Any) -> None:
    place = read_moment(text, unit)
    assert moment_text(place, unit) == written
    assert read_moment(written, unit) == place
    zone = "Z" * (unit == "utc")
    if unit != "number":
        assert read_last(text, unit) == place
        assert read_last(f"2024-05-01{zone}", unit) == (read_moment(f"2024-05-02{zone}", unit) or 0) - 1
