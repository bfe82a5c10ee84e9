"""Tables whose rows are named records: every backend against plain Python, on random tables."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pufferdp.basics.errors import DataError
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.records import read_records
from pufferdp.data.series import open_series
from tests.data.backends import BACKENDS, ORDERED
from tests.strategies import examples

QUICK = settings(max_examples=examples(8), suppress_health_check=list(HealthCheck))
AB = ("a", "b")

Row = tuple[Any, Any]
"""(id, value); None is missing."""


def is_named(value: Any, name: str) -> bool:
    """Whether a value is the one that a name stands for, case by case."""
    if isinstance(value, bool):
        return name.lower() == str(value).lower()
    if isinstance(value, str):
        return value == name or (name.isdigit() and value == f"{name}.0") or (value.isdigit() and name == f"{value}.0")
    try:
        return float(name) == value
    except ValueError:
        return False


def reference(rows: Sequence[Row], records: Sequence[str], domains: Sequence[tuple[str, ...]]) -> list[int] | str:
    """The state of each record, or the words of the refusal."""
    if not rows:
        return "no rows"
    if len(rows) > len(records):
        return f"has {len(rows)} rows and the model {len(records)} records"
    if any(who is None for who, _ in rows):
        return "is missing in"
    value_of: dict[str, Any] = {}
    for who, value in rows:
        named = [name for name in records if is_named(who, name)]
        if not named:
            return "is not a record of the model"
        if named[0] in value_of:
            return "more than once"
        value_of[named[0]] = value
    if len(value_of) < len(records):
        return "have no row"
    for name in records:
        if value_of[name] is None:
            return f"first for record {name!r}"
    codes = []
    for name, domain in zip(records, domains, strict=True):
        code = next((j for j, state in enumerate(domain) if is_named(value_of[name], state)), None)
        if code is None:
            return f"not a state of record {name!r}"
        codes.append(code)
    return codes


def check(
    make: Any, rows: Sequence[Row], types: tuple[Any, Any], records: Sequence[str], domains: Sequence[tuple[str, ...]]
) -> None:
    expected = reference(rows, records, domains)
    table = pa.table(
        {
            "who": pa.array([row[0] for row in rows], types[0]),
            "state": pa.array([row[1] for row in rows], types[1]),
            "other": pa.array(range(len(rows)), pa.int64()),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        source = make(table, Path(folder))
        if isinstance(expected, list):
            found = read_records(source, column="state", id="who", records=records, domains=domains)
            assert found.dtype == np.int64
            assert found.tolist() == expected
        else:
            with pytest.raises(DataError) as caught:
                read_records(source, column="state", id="who", records=records, domains=domains)
            assert expected in str(caught.value)


# How ids and states come: (Arrow type, names, what stands for a name in the table).
IDS: dict[str, tuple[Any, st.SearchStrategy[str], Any]] = {
    "text": (pa.string(), st.sampled_from(["anna", "Ben", "x y", "é", "7", "07", "-2", "a,b", 'q"q', "true"]), str),
    "integers": (pa.int64(), st.integers(-20, 20).map(str), int),
    "bytes": (pa.uint8(), st.integers(0, 255).map(str), int),
    "doubles": (pa.float64(), st.sampled_from(["1", "2", "3.5", "4.0", "-6", "10"]), float),
    "text of doubles": (pa.string(), st.integers(0, 20).map(str), lambda name: name + ".0"),
    "categories": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["anna", "ben", "carl", "1"]), str),
}
STATES: dict[str, tuple[Any, tuple[tuple[str, ...], ...], Any]] = {
    "text": (pa.string(), (AB, ("b", "a"), ("b",), ("c", "a", "7")), str),
    "integers": (pa.int32(), (("0", "1"), ("1", "0", "2"), ("2.0", "-1")), lambda name: int(float(name))),
    "doubles": (pa.float64(), (("0", "1"), ("0.5", "1.0"), ("1", "0.25", "0")), float),
    "truth": (pa.bool_(), (("true", "false"), ("False", "True")), lambda name: name.lower() == "true"),
}


@pytest.mark.parametrize("backend", BACKENDS)
@QUICK
@given(data=st.data(), ids=st.sampled_from(sorted(IDS)), states=st.sampled_from(sorted(STATES)))
def test_shuffled_rows(backend: str, data: st.DataObject, ids: str, states: str) -> None:
    id_type, names, as_id = IDS[ids]
    value_type, pool, as_value = STATES[states]
    records = data.draw(st.lists(names, min_size=1, max_size=8, unique=True))
    domains = [data.draw(st.sampled_from(pool)) for _ in records]
    drawn = [data.draw(st.sampled_from(domain)) for domain in domains]
    rows = [(as_id(name), as_value(state)) for name, state in zip(records, drawn, strict=True)]
    assert isinstance(reference(rows, records, domains), list)
    check(BACKENDS[backend], data.draw(st.permutations(rows)), (id_type, value_type), records, domains)


@pytest.mark.parametrize("backend", BACKENDS)
@QUICK
@given(
    data=st.data(),
    rows=st.lists(st.tuples(st.integers(1, 5) | st.just(None), st.integers(0, 3) | st.just(None)), max_size=5),
)
def test_any_table_of_small_numbers(
    backend: str, data: st.DataObject, rows: list[tuple[int | None, int | None]]
) -> None:
    records = [str(index + 1) for index in range(data.draw(st.integers(1, 4)))]
    domains = [data.draw(st.sampled_from([("0", "1"), ("1", "2", "0")])) for _ in records]
    check(BACKENDS[backend], rows, (pa.int64(), pa.int64()), records, domains)


@pytest.mark.parametrize("backend", ORDERED)
@QUICK
@given(states=st.lists(st.sampled_from(AB), min_size=1, max_size=12), flipped=st.booleans())
def test_row_order(backend: str, states: list[str], flipped: bool) -> None:
    table = pa.table({"state": states, "other": range(len(states))})
    domain = ("b", "a") if flipped else AB
    records = [f"record {index}" for index in range(len(states))]
    with tempfile.TemporaryDirectory() as folder:
        source = ORDERED[backend](table, Path(folder))
        found = read_records(source, column="state", id=None, records=records, domains=[domain] * len(states))
    assert found.tolist() == [domain.index(state) for state in states]


@pytest.mark.slow
def test_row_order_of_a_long_file(tmp_path: Path) -> None:
    states = np.random.default_rng(3).integers(0, 2, 50_000)
    table = pl.DataFrame({"who": range(50_000), "state": states}).reverse()
    names = [str(index) for index in range(50_000)]
    domains = [("0", "1")] * 50_000
    table.write_parquet(tmp_path / "x.parquet", row_group_size=1000)
    table.write_csv(tmp_path / "x.csv")
    for source in (tmp_path / "x.parquet", tmp_path / "x.csv", table):
        named = read_records(source, column="state", id="who", records=names, domains=domains)
        ordered = read_records(source, column="state", id=None, records=names, domains=domains)
        assert (named == states).all() and (ordered == states[::-1]).all()


# names and values


@pytest.mark.parametrize(
    "values",
    [
        [1, "1.0", "true", True],
        ["0", "1", "True", "false"],
        [0.0, 1.0, 0.0, 1.0],
        pd.array([0, 1, 1, 0], dtype="Int64"),
        pd.array([True, False, True, True], dtype="boolean"),
        pd.Categorical(["0", "true", "1.0", "0"]),
    ],
)
def test_values_match_states_as_in_a_series(values: Any) -> None:
    domain = ("0", "1", "true", "false")
    frame = pd.DataFrame({"who": [1.0, 2.0, 3.0, 4.0], "state": values})
    (chain,) = open_series(frame, Layout(column="state")).states(Coding(labels=domain))
    found = read_records(frame, column="state", id="who", records=("1", "2", "3", "4"), domains=[domain] * 4)
    assert found.tolist() == chain.tolist()


@pytest.mark.parametrize("ids", [[2, 1], [2.0, 1.0], ["2", "1.0"], np.array([2, "1"], dtype=object)])
def test_ids_however_pandas_holds_them(ids: Any) -> None:
    source = pd.DataFrame({"who": ids, "state": ["a", "b"]})
    before = source.copy()
    assert read_records(source, column="state", id="who", records=("1", "2"), domains=[AB] * 2).tolist() == [1, 0]
    pd.testing.assert_frame_equal(source, before)


def test_text_ids_are_text(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("who,state\n01,a\n1,b\n")
    found = read_records(tmp_path / "x.csv", column="state", id="who", records=("1", "01"), domains=[AB, AB])
    assert found.tolist() == [1, 0]


def test_columns_named_like_ours(tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": ["a", "b"], "value": ["y", "x"], "order": [1, 1], "number": [0, 0]})
    frame.write_csv(tmp_path / "x.csv")
    frame.write_parquet(tmp_path / "x.parquet")
    relation = duckdb.connect().from_arrow(frame.to_arrow())
    for source in (frame, frame.to_pandas(), frame.to_arrow(), relation, tmp_path / "x.csv", tmp_path / "x.parquet"):
        found = read_records(source, column="id", id="value", records=("x", "y"), domains=[AB, AB])
        assert found.tolist() == [1, 0]


LARGE = 2**53


@pytest.mark.parametrize("cast", [pl.Int64, pl.UInt64, pl.Decimal(20, 0)])
def test_large_numbers_are_not_rounded(cast: Any) -> None:
    frame = pl.DataFrame({"who": [LARGE + 1, 5], "state": ["b", "a"]}).with_columns(pl.col("who").cast(cast))
    for source in (frame, frame.to_arrow(), duckdb.connect().from_arrow(frame.to_arrow())):
        found = read_records(source, column="state", id="who", records=("5", str(LARGE + 1)), domains=[AB, AB])
        assert found.tolist() == [0, 1]
        with pytest.raises(DataError, match=f"'{LARGE + 1}' in the id column 'who' is not a record"):
            read_records(source, column="state", id="who", records=("5", str(LARGE)), domains=[AB, AB])


def test_decimal_states() -> None:
    frame = pl.DataFrame({"who": ["x", "y"], "state": [Decimal("0.5"), Decimal("1.0")]})
    found = read_records(frame, column="state", id="who", records=("x", "y"), domains=[("1", "0.5")] * 2)
    assert found.tolist() == [1, 0]
