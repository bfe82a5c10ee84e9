"""Small frames without anything to refuse: numpy counts what the engine counts, and leaves everything else to it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pufferdp.basics.errors import DataError
from pufferdp.data.frames import clean
from pufferdp.data.frames.clean import clean_frame
from pufferdp.data.layout import Coding, Counts, Layout
from pufferdp.data.series import open_series
from tests.data.backends import BACKENDS
from tests.data.reference import answer, bin_of
from tests.data.test_against_reference import BINS, LABELS, ORDERS, same, table_of
from tests.strategies import examples

EAGER = ("pandas", "polars", "pyarrow")
QUICK = settings(max_examples=examples(10), suppress_health_check=list(HealthCheck), deadline=None)


def counted_twice(source: object, layout: Layout, coding: Coding, **asked: Any) -> Counts:
    """The counts by numpy, which must be those of the engine."""
    series = open_series(source, layout)
    assert series.clean is not None
    counts = series.clean.counts(coding, transitions=True, ranges=True, **asked)
    assert counts is not None
    assert counts == series.counts(coding, transitions=True, ranges=True, **asked)
    assert counts == replace(series, clean=None).counts(coding, transitions=True, ranges=True, **asked)
    return counts


@pytest.mark.parametrize("backend", EAGER)
@pytest.mark.parametrize("kind", [None, *ORDERS])
@QUICK
@given(
    places=st.lists(st.integers(0, 30), min_size=1, max_size=30, unique=True),
    data=st.data(),
    restart=st.none() | st.integers(1, 6),
    even=st.booleans(),
)
def test_states(
    backend: str, kind: str | None, places: list[int], data: st.DataObject, restart: int | None, even: bool
) -> None:
    """Against the engine and plain Python, wherever no gap is too long; ``even`` is a model that has a step."""
    if even:
        places = data.draw(st.permutations(range(len(places))))
    values = data.draw(st.lists(st.sampled_from(LABELS), min_size=len(places), max_size=len(places)))
    rows = [("", place, value) for place, value in zip(places, values, strict=True)]
    exact = kind != "tenths"
    distance = ORDERS[kind or "integer"][2]
    layout = Layout(
        column="value",
        order=None if kind is None else "when",
        restart=None if restart is None or kind is None or not exact else distance(restart),
        step=distance(1) if even and exact else None,
    )
    source = BACKENDS[backend](table_of(rows, kind or "integer", pa.string()), Path())
    gaps = np.diff(sorted(places))
    objects = (backend, kind) == ("pandas", "date")  # there a date is a Python object: left to the engine
    if objects or (layout.restart is not None and (gaps > restart).any()):
        assert open_series(source, layout).clean is None
        return
    plain = [("", n, value) for n, (_, _, value) in enumerate(rows)] if kind is None else rows
    expected = answer(plain, code=LABELS.index, size=3)
    assert expected is not None
    same(counted_twice(source, layout, Coding(labels=LABELS)), expected)


@pytest.mark.parametrize("backend", EAGER)
@QUICK
@given(
    numbers=st.lists(st.floats(-1, 3) | st.sampled_from((-1.0, -0.0, 0.25, 3.0)), min_size=1, max_size=30),
    clip=st.tuples(st.floats(-2, 0), st.floats(0.01, 4)),
    single=st.booleans(),
)
def test_numbers(backend: str, numbers: list[float], clip: tuple[float, float], single: bool) -> None:
    if single:
        numbers = [float(np.float32(x)) for x in numbers]
    table = pa.table({"value": pa.array(numbers, pa.float32() if single else pa.float64())})
    expected = answer([("", n, x) for n, x in enumerate(numbers)], code=bin_of(BINS), size=3, clip=clip)
    assert expected is not None
    coding = Coding(labels=("low", "middle", "high"), bins=BINS)
    same(counted_twice(BACKENDS[backend](table, Path()), Layout(column="value"), coding, clip=clip), expected)


@pytest.mark.parametrize("backend", EAGER)
@QUICK
@given(values=st.lists(st.sampled_from((-3, 0, 250, 2**53)), min_size=1, max_size=30))
def test_numbers_that_are_states(backend: str, values: list[int]) -> None:
    labels = ("250.0", "rest", "-3", "0", "9007199254740993")  # the last is the double 2**53
    states = {250: 0, -3: 2, 0: 3, 2**53: 4}
    source = BACKENDS[backend](pa.table({"value": pa.array(values, pa.int64())}), Path())
    expected = answer([("", n, x) for n, x in enumerate(values)], code=states.__getitem__, size=5)
    assert expected is not None
    same(counted_twice(source, Layout(column="value"), Coding(labels=labels)), expected)


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
            counted_twice(frame, Layout(column=column, order=order), coding)
    polars = pl.DataFrame({"enum": pl.Series(["a", "b"], dtype=pl.Enum(["a", "b"])), "n": [2, 1]})
    counted_twice(polars, Layout(column="enum", order="n"), coding)


STAMP = datetime(2024, 5, 1, tzinfo=UTC)
LEFT: dict[str, tuple[dict[str, list[Any]], dict[str, Any]]] = {
    "missing": ({"value": ["a", None]}, {}),
    "missing, an unobserved step": ({"value": ["a", None, "b"]}, {"missing": "keep"}),
    "no state": ({"value": ["a", "x"]}, {}),
    "no rows": ({"value": []}, {}),
    "no column": ({"other": ["a"]}, {}),
    "a tie": ({"value": ["a", "b"], "when": [1, 1]}, {"order": "when"}),
    "an order that is missing": ({"value": ["a", "b"], "when": [1, None]}, {"order": "when"}),
    "an infinite order": ({"value": ["a", "b"], "when": [1.0, float("inf")]}, {"order": "when"}),
    "an order that is no number": ({"value": ["a", "b"], "when": [1.0, float("nan")]}, {"order": "when"}),
    "an order of text": ({"value": ["a", "b"], "when": ["1", "2"]}, {"order": "when"}),
    "decimals": ({"value": ["a", "b"], "when": [Decimal("1.5"), Decimal("2.5")]}, {"order": "when"}),
    "a step too far": ({"value": ["a", "b"], "when": [1, 3]}, {"order": "when", "step": 1}),
    "off the step": ({"value": ["a", "b"], "when": [1, 4]}, {"order": "when", "step": 2}),
    "a step of another kind": ({"value": ["a", "b"], "when": [1, 2]}, {"order": "when", "step": "1min"}),
    "a time and a bare restart": (
        {"value": ["a", "b"], "when": [STAMP, STAMP + timedelta(1)]},
        {"order": "when", "restart": 5},
    ),
    "beyond 64 bits": ({"value": ["a", "b"], "when": [-(2**63), 2**63 - 1]}, {"order": "when", "restart": 5}),
    "a restart": ({"value": ["a", "b"], "when": [1, 9]}, {"order": "when", "restart": 5}),
    "people": ({"value": ["a", "b"], "who": ["x", "y"]}, {"by": "who"}),
    "a segment": ({"value": ["a", "b"], "when": [1, 2]}, {"order": "when", "first": 2}),
    "true and false": ({"value": [True, False]}, {}),
    "pairs": ({"v": ["a", "b"], "w": ["a", "b"]}, {"column": "v,w"}),
}


@pytest.mark.parametrize("backend", ["pandas", "polars"])
@pytest.mark.parametrize("case", LEFT)
def test_everything_else_is_left_to_the_engine(case: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same counts and the same refusal, word for word, as where there is no shortcut."""
    columns, more = LEFT[case]
    frame: Any = pd.DataFrame(columns) if backend == "pandas" else pl.DataFrame(columns, strict=False)

    def outcome() -> object:
        try:
            layout = Layout(**{"column": "value", **more})
            return open_series(frame, layout).counts(Coding(labels=("a", "b")), ranges=True)
        except DataError as error:
            return str(error)

    shortcut = clean_frame(frame, Layout(**{"column": "value", **more}))
    assert shortcut is None or shortcut.counts(Coding(labels=("a", "b"))) is None
    with_shortcut = outcome()
    monkeypatch.setattr(clean, "MOST_ROWS", -1)
    assert with_shortcut == outcome()


def test_only_small_frames_are_counted_here(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(column="value")
    frame = pl.DataFrame({"value": ["a"] * 11})
    monkeypatch.setattr(clean, "MOST_ROWS", 10)
    assert clean_frame(frame, layout) is None
    assert clean_frame(frame.head(10), layout) is not None
    assert clean_frame(frame.lazy(), layout) is None
    assert clean_frame("week.csv", layout) is None


def test_nothing_of_the_data_is_printed() -> None:
    frame = clean_frame(pd.DataFrame({"value": ["sick", "well"]}), Layout(column="value"))
    assert "sick" not in repr(frame)
