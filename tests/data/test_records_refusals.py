"""Tables of named records, one test a refusal: the message names the value, the rule and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from pufferdp.basics.errors import DataError
from pufferdp.data import records as module
from pufferdp.data.records import read_records
from tests.data.backends import BACKENDS, ORDERED

FAMILY = ("anna", "ben", "carl")


def refused(source: object, *, records: Sequence[str] = FAMILY, column: Any = "state", id: Any = "who") -> str:
    with pytest.raises(DataError) as caught:
        read_records(source, column=column, id=id, records=records, domains=[("a", "b")] * len(records))
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    return message


def family(who: Sequence[Any] = FAMILY, state: Sequence[Any] = ("a", "b", "a")) -> pa.Table:
    return pa.table({"who": list(who), "state": list(state), "other": [1] * len(who)})


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            family(["ben", "dora", "anna"]),
            "'dora' in the id column 'who' is not a record of the model; the records are anna, ben, carl: "
            "correct the id or drop the row",
        ),
        (
            family(["ben", "ben", "anna"]),
            "'ben' is in the id column 'who' more than once; each record has one row: drop the others",
        ),
        (
            family(["ben"], ["a"]),
            "2 of the 3 records of the model have no row, first 'anna'; every record needs one: add the rows, "
            "or use a model without those records",
        ),
        (
            family(["ben", None, "anna"]),
            "the id column 'who' is missing in 1 row; every row must say which record it is: "
            "fill it in or drop those rows",
        ),
        (
            family(["carl", "ben", "anna"], [None, None, "a"]),
            "'state' is missing in 2 rows, first for record 'ben'; every record needs a state: fill it in",
        ),
        (
            family(["carl", "ben", "anna"], ["d", "c", "a"]),
            "'c' is not a state of record 'ben'; its states are a, b: correct the value, or add the state to the model",
        ),
        (
            family([*FAMILY, "ben"], ["a", "b", "a", "b"]),
            "the data has 4 rows and the model 3 records; each record has one row: drop the extra rows, "
            "or use a model of all of them",
        ),
        (family().slice(0, 0), "the data has no rows; one for each of the 3 records of the model is needed"),
    ],
)
def test_rows(tmp_path: Path, backend: str, table: pa.Table, expected: str) -> None:
    assert refused(BACKENDS[backend](table, tmp_path)) == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_unknown_column(tmp_path: Path, backend: str) -> None:
    source = BACKENDS[backend](family(), tmp_path)
    assert refused(source, id="whom") == (
        "there is no column 'whom' (id=); the columns are who, state, other; did you mean 'who'?"
    )
    assert refused(source, column="states") == (
        "there is no column 'states'; the columns are who, state, other; did you mean 'state'?"
    )


@pytest.mark.parametrize("backend", ORDERED)
def test_row_order_needs_as_many_rows(tmp_path: Path, backend: str) -> None:
    source = ORDERED[backend](family(), tmp_path)
    assert refused(source, records=("x", "y"), id=None) == (
        "the data has 3 rows and the model 2 records; each record has one row: drop the extra rows, "
        "or use a model of all of them"
    )
    assert refused(source, records=("x", "y", "z", "u"), id=None) == (
        "the data has 3 rows and the model 4 records; in row order there must be as many: add the missing rows, "
        "or name the column that says which record a row is, with id="
    )


def test_row_order_names_the_record() -> None:
    assert "first for record 'ben'" in refused(family(state=["a", None, "b"]), id=None)
    assert "'x' is not a state of record 'carl'" in refused(family(state=["a", "b", "x"]), id=None)


def test_relation_without_id() -> None:
    relation = duckdb.connect().sql("SELECT 'a' AS state")
    assert refused(relation, records=("x",), id=None) == ("a table has no row order; name a column with id=")


def test_same_column_twice() -> None:
    assert refused(family(), id="state") == "column and id are both 'state'; they must differ"


@pytest.mark.parametrize("name", ["", 3])
def test_names_that_are_none(name: Any) -> None:
    assert refused(family(), id=name) == f"id is {name!r}; it must be the name of a column"
    assert refused(family(), column=name) == f"column is {name!r}; it must be the name of a column"


@pytest.mark.parametrize("ids", [[1.0, float("nan")], [1, None], ["1", None]])
def test_missing_id_however_it_is_held(ids: list[Any]) -> None:
    table = pl.DataFrame({"who": ids, "state": ["a", "b"]}, strict=False)
    for source in (table, table.lazy(), table.to_pandas(), table.to_arrow()):
        assert "the id column 'who' is missing in 1 row" in refused(source, records=("1", "2"))


def test_the_same_id_written_in_two_ways(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("who,state\n1,a\n1.0,b\n")
    assert "'1' is in the id column 'who' more than once" in refused(tmp_path / "x.csv", records=("1", "2"))


@pytest.mark.parametrize("bad", [1.5, 13.0, float("inf")])
def test_numbers_that_are_no_record(bad: float) -> None:
    message = refused(pl.DataFrame({"who": [bad], "state": ["a"]}), records=tuple(map(str, range(1, 13))))
    assert f"'{bad:g}' in the id column 'who' is not a record of the model; the records are 1, 2, 3," in message
    assert "8, 9, 10 and 2 more" in message


def test_numbers_where_records_have_names() -> None:
    assert "'7' in the id column 'who' is not a record" in refused(family([7, 8, 9]))
    assert "'7' is not a state of record 'anna'; its states are a, b" in refused(family(state=[7, 8, 9]))


def test_records_that_are_the_same_number() -> None:
    message = refused(family([1, 2, 3]), records=("1", "1.0", "x"))
    assert message == (
        "the records 1 and 1.0 are the same number; a column of numbers needs records that differ as numbers"
    )


def test_long_values_are_cut() -> None:
    long = "z" * 41
    cut = repr("z" * 40 + "…")
    assert refused(family(state=["a", "b", long])).startswith(f"{cut} is not a state of record 'carl'")
    assert refused(family(["anna", "ben", long])).startswith(f"{cut} in the id column")
    assert f"first {cut};" in refused(family(["anna", "ben"], ["a", "b"]), records=("anna", "ben", long))


def test_types_without_names() -> None:
    moments = pl.DataFrame({"who": FAMILY, "state": ["a", "b", "a"]}).with_columns(when=pl.date(2024, 1, 1))
    assert refused(moments, id="when") == ("the column 'when' holds dates; ids must be text, numbers or true and false")
    assert "states must be text, numbers or true and false" in refused(moments, column="when")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_table_that_is_too_long_is_only_counted(
    tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[int] = []
    fetch = module.rows

    def spied(frame: Any) -> list[tuple[Any, ...]]:
        found = fetch(frame)
        fetched.append(len(found))
        return found

    monkeypatch.setattr(module, "rows", spied)
    source = BACKENDS[backend](pa.table({"who": range(5000), "state": ["a"] * 5000}), tmp_path)
    assert "the data has 5000 rows and the model 3 records" in refused(source, records=("0", "1", "2"))
    assert fetched == [1]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"not a parquet file at all")
    assert "could not be read" in refused(tmp_path / "x.parquet")
    assert "there is no file" in refused(tmp_path / "absent.csv")
    assert "it must be a path" in refused(42)
