"""Every backend against the plain-Python reference, on random data."""

from __future__ import annotations

import tempfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pufferdp.basics.errors import DataError
from pufferdp.data.layout import Coding, Counts, Layout
from pufferdp.data.series import Series, open_series
from tests.data.backends import BACKENDS, ORDERED
from tests.data.reference import Answer, Row, answer, bin_of
from tests.strategies import examples

QUICK = settings(max_examples=examples(5), suppress_health_check=list(HealthCheck))
LABELS = ("rest", "active", "7")
BINS = (-1.0, 0.0, 0.25, 3.0)
# The hour around the end of summer time in Europe: local clocks show 02:30 twice.
BASE = datetime(2023, 10, 29, 0, 59, 59, 300_000, tzinfo=UTC)
STEP = timedelta(milliseconds=100)

ORDERS: dict[str, tuple[Any, Any, Any]] = {
    # name: (Arrow type, tick -> value, gap in ticks -> gap)
    "integer": (pa.int64(), lambda k: k, lambda g: g),
    "unsigned": (pa.uint8(), lambda k: k, lambda g: str(g)),
    "nanoseconds as integer": (pa.int64(), lambda k: 1_700_000_000_000_000_001 + k, lambda g: g),
    "tenths": (pa.float64(), lambda k: k / 10, lambda g: g / 10),
    "date": (pa.date32(), lambda k: date(2024, 2, 25) + timedelta(days=k), lambda g: f"{g}d"),
    "stamp": (pa.timestamp("us"), lambda k: (BASE + k * STEP).replace(tzinfo=None), lambda g: f"{100 * g}ms"),
    "nanoseconds": (pa.timestamp("ns"), lambda k: 1_700_000_000_000_000_001 + 1000 * k, lambda g: f"{g}us"),
    "zone": (pa.timestamp("us", "Europe/Berlin"), lambda k: BASE + k * STEP, lambda g: f"{g / 10}s"),
    "hours": (pa.timestamp("us", "Europe/Berlin"), lambda k: BASE + timedelta(hours=k), lambda g: f"{g}h"),
}


@st.composite
def random_rows(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> list[Row]:
    keys = draw(st.sets(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), min_size=1, max_size=40))
    drawn = draw(st.lists(st.none() | values, min_size=len(keys), max_size=len(keys)))
    shuffled = draw(st.permutations(sorted(keys)))
    return [(who, order, value) for (who, order), value in zip(shuffled, drawn, strict=True)]


def same(counts: Counts, expected: Answer) -> None:
    for name in ("records", "lengths", "missing", "restarts", "unobserved", "histogram", "transitions", "clipped"):
        assert getattr(counts, name) == getattr(expected, name), name


def check(series: Series, coding: Coding, expected: Answer | None, clip: tuple[float, float] | None = None) -> None:
    if expected is None:
        with pytest.raises(DataError, match="every value of 'value' is missing"):
            series.counts(coding)
        return
    same(series.counts(coding, clip=clip, transitions=True), expected)
    assert [chain.tolist() for chain in series.states(coding)] == expected.chains
    assert [chain.tolist() for chain in series.states(coding, pieces=True)] == expected.pieces
    assert series.moves(coding) == expected.moves


def table_of(rows: list[Row], kind: str, value_type: pa.DataType) -> pa.Table:
    arrow, make, _ = ORDERS[kind]
    return pa.table(
        {
            "who": pa.array([row[0] for row in rows], pa.string()),
            "when": pa.array([make(row[1]) for row in rows], arrow),
            "value": pa.array([row[2] for row in rows], value_type),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@QUICK
@given(data=st.data(), kind=st.sampled_from(sorted(ORDERS)), restart=st.none() | st.integers(1, 6), step=st.booleans())
def test_named_states(backend: str, data: st.DataObject, kind: str, restart: int | None, step: bool) -> None:
    rows = data.draw(random_rows(st.sampled_from(LABELS)))
    layout = Layout(
        column="value",
        order="when",
        by="who",
        restart=None if restart is None else ORDERS[kind][2](restart),
        missing="keep",
        step=ORDERS[kind][2](1) if step else None,
        independent=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        series = open_series(BACKENDS[backend](table_of(rows, kind, pa.string()), Path(folder)), layout)
        expected = answer(rows, code=LABELS.index, size=3, restart=restart, step=step)
        check(series, Coding(labels=LABELS), expected)
        if expected is not None:
            assert set(series.found_states()) == {row[2] for row in rows} - {None}


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@QUICK
@given(
    data=st.data(),
    clip=st.tuples(st.floats(-2, 0), st.floats(0.01, 4)),
    restart=st.none() | st.integers(1, 6),
    step=st.booleans(),
)
def test_numbers_in_bins(
    backend: str, data: st.DataObject, clip: tuple[float, float], restart: int | None, step: bool
) -> None:
    numbers = st.floats(-1, 3) | st.sampled_from((-1.0, 0.0, 0.25, 3.0))
    rows = [("", order, value) for _, order, value in data.draw(random_rows(numbers))]
    rows = list({row[1]: row for row in rows}.values())
    layout = Layout(column="value", order="when", restart=restart, missing="keep", step=1 if step else None)
    with tempfile.TemporaryDirectory() as folder:
        table = table_of(rows, "integer", pa.float64()).drop(["who"])
        series = open_series(BACKENDS[backend](table, Path(folder)), layout)
        expected = answer(rows, code=bin_of(BINS), size=3, restart=restart, step=step, clip=clip)
        check(series, Coding(labels=("low", "middle", "high"), bins=BINS), expected, clip)
        if expected is not None:
            present = [row[2] for row in rows if row[2] is not None]
            assert series.number_range() == (min(present), max(present))


@pytest.mark.parametrize("backend", ORDERED)
@pytest.mark.parametrize("by", [None, "who"])
@QUICK
@given(
    values=st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 2)), min_size=1, max_size=30),
)
def test_row_order(backend: str, by: str | None, values: list[tuple[str, int | None]]) -> None:
    rows: list[Row] = [(who if by else "", order, value) for order, (who, value) in enumerate(values)]
    table = table_of([(who, 0, value) for who, value in values], "integer", pa.int32())
    with tempfile.TemporaryDirectory() as folder:
        source = ORDERED[backend](table, Path(folder))
        series = open_series(source, Layout(column="value", by=by, missing="keep", independent=by is not None))
        check(series, Coding(labels=("0", "1", "2")), answer(rows, code=int, size=3))
