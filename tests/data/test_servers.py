"""Spark and PostgreSQL against the plain-Python reference, on a few large random series."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet
import pytest

from pufferdp import MarkovChain, fit, release
from pufferdp.basics.errors import DataError
from pufferdp.data.families import read_families
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.records import read_records
from pufferdp.data.series import open_series
from tests.data.reference import Answer, Row, answer, bin_of
from tests.data.test_against_reference import BASE, BINS, LABELS, STEP, check

COUNT = 3000
ORDERS: dict[str, tuple[pa.DataType, str, Any, Any]] = {
    # name: (Arrow type, type of PostgreSQL, tick -> value, gap in ticks -> gap)
    "integer": (pa.int64(), "int8", lambda k: 1_700_000_000_000_000_001 + k, lambda g: g),
    "small": (pa.int16(), "int2", lambda k: k, lambda g: str(g)),
    "tenths": (pa.float64(), "float8", lambda k: k / 10, lambda g: g / 10),
    "date": (pa.date32(), "date", lambda k: date(1969, 2, 25) + timedelta(days=k), lambda g: f"{g}d"),
    "stamp": (
        pa.timestamp("us"),
        "timestamp",
        lambda k: (BASE + k * STEP).replace(tzinfo=None),
        lambda g: f"{100 * g}ms",
    ),
    "old": (pa.timestamp("us"), "timestamp", lambda k: datetime(1953, 3, 29) + k * STEP, lambda g: f"{100 * g}ms"),
    # The hour that local clocks show twice is among these.
    "zone": (pa.timestamp("us", "UTC"), "timestamptz", lambda k: BASE + k * STEP, lambda g: f"{g / 10}s"),
    "hours": (pa.timestamp("us", "UTC"), "timestamptz", lambda k: BASE + timedelta(hours=k), lambda g: f"{g}h"),
}


def random_rows(seed: int, values: list[Any]) -> list[Row]:
    generator = random.Random(seed)
    keys = generator.sample([(who, order) for who in "abcde'\n\"" for order in range(1000)], COUNT)
    return [(who, order, generator.choice([*values, None])) for who, order in keys]


class Engine:
    """Makes a source of rows (who, when, value) in an engine."""

    def source(self, rows: list[Row], kind: str, value: str) -> Any:
        raise NotImplementedError


class SparkEngine(Engine):
    def __init__(self, session: Any, folder: Path) -> None:
        self.session, self.folder = session, folder

    def source(self, rows: list[Row], kind: str, value: str) -> Any:
        arrow, _, make, _ = ORDERS[kind]
        kinds = {"text": pa.string(), "double": pa.float64(), "bool": pa.bool_()}
        table = pa.table(
            {
                "who.am.i": pa.array([row[0] for row in rows], pa.string()),
                "when": pa.array([make(row[1]) for row in rows], arrow),
                "value": pa.array([row[2] for row in rows], kinds[value]),
            }
        )
        path = self.folder / f"{len(list(self.folder.iterdir()))}.parquet"
        pyarrow.parquet.write_table(table, path)
        return self.session.read.parquet(str(path))


class PostgresEngine(Engine):
    def __init__(self, url: str) -> None:
        import psycopg

        self.url, self.server = url, psycopg.connect(url, autocommit=True)

    def source(self, rows: list[Row], kind: str, value: str) -> Any:
        _, postgres_type, make, _ = ORDERS[kind]
        kinds = {"text": "text", "double": "float8", "bool": "bool"}
        self.server.execute('CREATE SCHEMA IF NOT EXISTS "My Data"')
        self.server.execute('DROP TABLE IF EXISTS "My Data"."Rows"')
        self.server.execute(
            f'CREATE TABLE "My Data"."Rows" ("who.am.i" text, "when" {postgres_type}, value {kinds[value]})'
        )
        with self.server.cursor() as cursor, cursor.copy('COPY "My Data"."Rows" FROM STDIN') as copy:
            for who, order, cell in rows:
                copy.write_row((who, make(order), cell))
        return f"{self.url}?table={quote('My Data.Rows')}"


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.servers) for name in ("spark", "postgres")])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "spark":
        yield SparkEngine(request.getfixturevalue("spark"), tmp_path)
    else:
        made = PostgresEngine(request.getfixturevalue("postgres"))
        yield made
        made.server.close()


def layout(kind: str, gap: int | None, **more: Any) -> Layout:
    return Layout(
        column="value",
        order="when",
        by="who.am.i",
        restart=None if gap is None else ORDERS[kind][3](gap),
        missing="keep",
        **more,
    )


@pytest.mark.parametrize(
    ("engine", "seed", "kind"),
    [
        pytest.param(name, seed, kind, marks=pytest.mark.servers)
        for seed, kind in enumerate(ORDERS)
        for name in ("spark", "postgres")
        # Spark takes ten seconds for each. It reads the others in test_a_segment.
        if name == "postgres" or kind in ("integer", "old")
    ],
    indirect=["engine"],
)
def test_named_states(engine: Engine, seed: int, kind: str) -> None:
    gap = [None, 1, 3, 6][seed % 4]
    rows = random_rows(seed, list(LABELS))
    series = open_series(engine.source(rows, kind, "text"), layout(kind, gap))
    expected = answer(rows, code=LABELS.index, size=3, restart=gap)
    check(series, Coding(labels=LABELS), expected)
    assert set(series.found_states()) == set(LABELS)


def test_numbers_in_bins_and_their_sum(engine: Engine) -> None:
    generator = random.Random(5)
    rows = random_rows(5, [*(generator.uniform(-1, 3) for _ in range(400)), -1.0, -0.0, 0.25, 3.0])
    series = open_series(engine.source(rows, "integer", "double"), layout("integer", 2))
    expected = answer(rows, code=bin_of(BINS), size=3, restart=2, clip=(-0.3, 2.1))
    check(series, Coding(labels=("low", "middle", "high"), bins=BINS), expected, (-0.3, 2.1))
    present = [row[2] for row in rows if row[2] is not None]
    assert series.number_range() == (min(present), max(present))


def test_true_and_false(engine: Engine) -> None:
    rows = random_rows(6, [True, False])
    series = open_series(engine.source(rows, "small", "bool"), layout("small", 2))
    check(series, Coding(labels=("false", "true")), answer(rows, code=int, size=2, restart=2))


def test_not_a_number_is_missing(engine: Engine) -> None:
    rows = random_rows(7, [0.5, 2.0])
    nan = [(who, order, float("nan") if value is None else value) for who, order, value in rows]
    series = open_series(engine.source(nan, "integer", "double"), layout("integer", None))
    check(series, Coding(labels=("0.5", "2")), answer(rows, code=lambda value: int(value == 2), size=2))


def test_ties_are_refused(engine: Engine) -> None:
    source = engine.source([("a", 3, "rest"), ("b", 3, "rest"), ("a", 3, "rest")], "zone", "text")
    with pytest.raises(DataError, match=r"two rows have when 2023-10-29 00:59:59.6.* UTC, who.am.i 'a'; an order"):
        open_series(source, layout("zone", None)).counts(Coding(labels=LABELS))


def test_missing_people_and_times_are_refused(engine: Engine) -> None:
    source = engine.source([(None, 3, "rest"), ("b", 3, "rest")], "zone", "text")
    with pytest.raises(DataError, match=r"'who.am.i' is missing in 1 row"):
        open_series(source, layout("zone", None)).counts(Coding(labels=LABELS))


def test_unknown_states_are_refused(engine: Engine) -> None:
    source = engine.source([("a", 3, "rest"), ("b", 3, "sleep")], "zone", "text")
    with pytest.raises(DataError, match=r"'sleep' at when 2023-10-29 .* is not a state"):
        open_series(source, layout("zone", None)).counts(Coding(labels=LABELS))


def test_a_table_has_no_row_order(engine: Engine) -> None:
    source = engine.source([("a", 3, "rest")], "zone", "text")
    with pytest.raises(DataError, match="a table has no row order; name a column with order="):
        open_series(source, Layout(column="value"))
    with pytest.raises(DataError, match=r"there is no column 'valu'; the columns are who.am.i, when, value; did you"):
        open_series(source, Layout(column="valu", order="when"))


def test_a_chain_is_fitted_and_an_answer_released(engine: Engine) -> None:
    rows = random_rows(8, list(LABELS))
    source = engine.source(rows, "hours", "text")
    expected = answer(rows, code=LABELS.index, size=3, restart=2, step=True)
    assert expected is not None
    options = {"column": "value", "order": "when", "by": "who.am.i", "restart": "2h", "missing": "keep"}
    model = fit(source, **options).model
    assert isinstance(model, MarkovChain)
    names = [LABELS.index(name) for name in model.labels]
    for x, row in zip(names, model.transition, strict=True):
        total = sum(expected.transitions[x])
        assert row.tolist() == pytest.approx([expected.transitions[x][y] / total for y in names], rel=1e-12)
    box = fit(source, confidence=0.9, **options).model
    assert (box.low <= model.transition).all() and (model.transition <= box.high).all()
    answered = release(source, model=model, query="histogram", epsilon=1.0, independent=True, **options)
    assert answered.to_dict()["certificate"]["data"]["lengths"] == [list(pair) for pair in expected.lengths]


def test_named_records_and_families(engine: Engine) -> None:
    people = [(who, n, 0.1 * n) for n, who in enumerate("abcdefgh")]
    states = engine.source([(who, n, LABELS[n % 3]) for who, n, _ in people], "integer", "text")
    found = read_records(states, column="value", id="who.am.i", records=list("hgfedcba"), domains=[LABELS] * 8)
    assert found.tolist() == [n % 3 for n in reversed(range(8))]
    numbers = engine.source([*people, ("a", 9, 0.7)], "integer", "double")
    families = read_families(numbers, column="value", by="who.am.i", id=None, records=None, clip=(0.0, 0.5))
    assert families.lengths == ((1, 7), (2, 1))
    assert float(families.clipped) == sum([0.1, 0.2, 0.1 * 3, 0.4, 0.5, 0.5, 0.5, 0.5])


# Spark alone


def test_no_row_leaves_spark_but_those_of_a_result(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random_rows(9, list(LABELS))
    source = SparkEngine(spark, tmp_path).source(rows, "zone", "text")
    sizes: list[int] = []
    frame = type(source)
    collect = frame.collect

    def counted(self: Any) -> Any:
        result = collect(self)
        sizes.append(len(result))
        return result

    def never(self: Any, *args: Any) -> Any:
        raise AssertionError("rows leave Spark")

    monkeypatch.setattr(frame, "collect", counted)
    for way in ("toPandas", "toArrow", "toLocalIterator", "take"):
        monkeypatch.setattr(frame, way, never)
    series = open_series(source, layout("zone", 2))
    counts = series.counts(Coding(labels=series.found_states()), transitions=True)
    # Counts of pairs, and of chains by their length.
    assert max(sizes) <= 9 + len(counts.lengths)


def test_errors_of_spark_are_ours(spark: Any) -> None:
    bad = spark.sql("SELECT 'secret' AS who, 1 AS when, CAST(who AS INT) AS value FROM (SELECT 'secret' AS who)")
    series = open_series(bad, Layout(column="value", order="when"))
    with pytest.raises(DataError, match="could not be read by Spark: ") as refused:
        series.counts(Coding(labels=("0", "1")))
    assert "secret" not in str(refused.value)


# PostgreSQL alone


def test_types_of_postgres(postgres: str) -> None:
    engine = PostgresEngine(postgres)
    engine.server.execute("DROP TABLE IF EXISTS kinds; DROP TYPE IF EXISTS mood")
    engine.server.execute("CREATE TYPE mood AS ENUM ('low', 'high')")
    engine.server.execute(
        "CREATE TABLE kinds (who numeric, n numeric, state mood, padded char(6), label varchar(9), f float4, j json)"
    )
    engine.server.execute(
        "INSERT INTO kinds VALUES (10000000000000000000001, 0.1, 'low', 'a', '', 0.5, '{}'),"
        " (10000000000000000000002, 0.2, 'high', 'b', NULL, 0.25, '{}'), (10000000000000000000001, 0.3, 'high', 'a',"
        " 'x,\"y\"', 'NaN', '{}')"
    )
    engine.server.close()
    source = f"{postgres}?table=kinds"

    def counts(column: str, labels: tuple[str, ...], by: str | None = "who") -> Any:
        series = open_series(source, Layout(column=column, order="n", by=by, restart=0.1, missing="keep"))
        return series.counts(Coding(labels=labels), transitions=True)

    assert counts("state", ("low", "high")).lengths == ((1, 3),)
    assert counts("state", ("low", "high"), None).transitions == ((0, 1), (0, 1))
    assert counts("padded", ("a", "b"), None).histogram == (2, 1)
    # An empty text is a value; only NULL is missing.
    assert (counts("label", ("", 'x,"y"')).histogram, counts("label", ("", 'x,"y"')).missing) == ((1, 1), 1)
    assert (counts("f", ("0.25", "0.5")).histogram, counts("f", ("0.25", "0.5")).missing) == ((1, 1), 1)
    with pytest.raises(DataError, match="'j' holds values of type json"):
        counts("j", ("a",))


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ("", "the URL names no table; end it with"),
        ("?table=", "the URL names no table"),
        ("?table=nothing_there", "there is no table 'nothing_there' in the database; "),
        ("?table=a.b.c.d", "could not be read"),
    ],
)
def test_urls_that_name_no_table(postgres: str, ending: str, expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        open_series(postgres + ending, Layout(column="value", order="when"))


def test_a_table_is_left_as_it_was_and_no_file_is_left(postgres: str, tmp_path: Any, monkeypatch: Any) -> None:
    import tempfile

    engine = PostgresEngine(postgres)
    rows = random_rows(3, list(LABELS))
    source = engine.source(rows, "stamp", "text")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    expected: Answer | None = answer(rows, code=LABELS.index, size=3, restart=None)
    check(open_series(source, layout("stamp", None)), Coding(labels=LABELS), expected)
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and file.stat().st_size]
    ((count,),) = engine.server.execute('SELECT count(*) FROM "My Data"."Rows"').fetchall()
    engine.server.close()
    assert count == COUNT


@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        pytest.param(name, kind, marks=pytest.mark.servers)
        for kind in ORDERS
        for name in ("spark", "postgres")
        # Spark takes five seconds for each. It reads the others in the tests above.
        if kind != "old" and (name == "postgres" or kind not in ("integer", "small", "hours"))
    ],
    indirect=["engine"],
)
def test_a_segment(engine: Engine, kind: str) -> None:
    """The rows outside hold no states; they are left where they are."""
    low, high = 300, 700
    rows = random_rows(9, list(LABELS))
    inside = [row for row in rows if low <= row[1] <= high]
    stored = [(who, k, state if low <= k <= high else "no state") for who, k, state in rows]
    make = ORDERS[kind][2]
    series = open_series(engine.source(stored, kind, "text"), layout(kind, 3, first=make(low), last=make(high)))
    check(series, Coding(labels=LABELS), answer(inside, code=LABELS.index, size=3, restart=3))
    ranges = series.counts(Coding(labels=LABELS), ranges=True).ranges
    assert sum(len(part.people or ()) for part in ranges.parts) == len({row[0] for row in inside})
