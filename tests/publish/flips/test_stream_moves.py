"""Streams and plain files that are flipped line by line: moves and steps that break the model's belief are refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferdp
from pufferdp.basics.errors import DataError, DeliveryError
from pufferdp.data.csv_stream import change_lines
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.series import open_series
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.flips.publication import flip_stream
from tests.strategies import examples

CODING = Coding(labels=("a", "b", "c"))
NEVER_TWICE = MarkovChain(transition=[[0.5, 0.5], [1, 0]], states=["a", "b"])
ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"], step="5min")


class Dripping(io.BytesIO):
    """A stream that gives a few bytes at a time, so that moves go over the ends of blocks."""

    def read1(self, size: int | None = -1) -> bytes:
        return super().read1(7)


@settings(max_examples=examples(60))
@given(
    values=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=12),
    people=st.lists(st.sampled_from(["p", "q"]), min_size=12, max_size=12),
    steps=st.lists(st.integers(1, 3), min_size=12, max_size=12),
    by=st.booleans(),
    order=st.booleans(),
    step=st.sampled_from([None, 2.0]),
)
def test_a_stream_has_the_moves_of_its_table(
    values: list[str | None], people: list[str], steps: list[int], by: bool, order: bool, step: float | None
) -> None:
    if all(value is None for value in values):
        values[0] = "a"
    places = [2 * sum(steps[: n + 1]) for n in range(len(values))]
    frame = pl.DataFrame({"who": people[: len(values)], "t": places, "state": pl.Series(values, dtype=pl.String)})
    layout = Layout(
        column="state",
        order="t" if order else None,
        by="who" if by else None,
        missing="keep",
        step=step,
        independent=by,
    )
    seen = set[tuple[int, int, int]]()
    source = Dripping(frame.write_csv().encode())
    passed = change_lines(source, io.BytesIO(), layout, CODING, CODING.labels, lambda codes: codes, refuse=seen.update)
    # A frame without an order is refused; the same rows are in order by their number.
    numbered = frame.with_columns(n=pl.int_range(pl.len()))
    read = layout if order else Layout(column="state", order="n", by=layout.by, missing="keep", independent=by)
    series = open_series(numbered, read)
    table = set().union(*series.moves(CODING).values())
    if order and step is not None:  # before the first record a table counts its rows, and a stream the steps

        def begun(moves: set[tuple[int, int, int]]) -> set[tuple[int, int, int]]:
            return {(before, code, steps if before >= 0 else 0) for before, code, steps in moves}

        seen, table = begun(seen), begun(table)
    assert seen == table
    assert passed.unobserved == series.counts(CODING).unobserved


def stream(text: str, model: MarkovChain, **options: Any) -> bytes:
    sink = io.BytesIO()
    pufferdp.flip_stream(io.BytesIO(text.encode()), sink, model=model, column="state", epsilon=1, **options)
    return sink.getvalue()


@pytest.mark.parametrize("ledger", [False, True])
@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["a", "b", "a", "a"], None),
        (["a", "b", "b"], "a move from 'b' to 'b' in 1 step"),
    ],
)
def test_impossible_moves_are_refused_line_by_line(
    tmp_path: Path, rows: list[str], says: str | None, ledger: bool
) -> None:
    text = "\n".join(["state", *rows, ""])
    (tmp_path / "data.csv").write_text(text)
    account: dict[str, Any] = {}
    if ledger:
        account = {"ledger": tmp_path / "books.db", "dataset": "week"}
        with pufferdp.Ledger(account["ledger"], create=True) as books:
            books.create("week", model=NEVER_TWICE, adversary="bdp", budget=50.0)
    out = tmp_path / "out.csv"

    def file() -> object:
        return pufferdp.flip(
            tmp_path / "data.csv", model=NEVER_TWICE, column="state", epsilon=1, out=out, overwrite=True, **account
        )

    if says is None:
        file()
        assert stream(text, NEVER_TWICE, **account).count(b"\n") == len(rows) + 1
        return
    rejected = DeliveryError if ledger else DataError
    with pytest.raises(rejected, match=says):
        file()
    assert not out.exists()
    with pytest.raises(rejected, match=says):
        stream(text, NEVER_TWICE, **account)
    if ledger:  # values are rejected after the charge: otherwise requests that cost nothing would tell of them
        with pufferdp.Ledger(account["ledger"]) as books:
            assert books.dataset("week").releases == 2


@pytest.mark.parametrize(
    ("times", "options", "says"),
    [
        (["00:00", "00:05", "00:10"], {}, None),
        (["00:00", "00:05", "00:20"], {}, "comes 3 of the model's steps of 5min after the one before"),
        (["00:00", "00:05", "00:20"], {"missing": "keep"}, None),
        (["00:00", "00:05", "00:12"], {"missing": "keep"}, "not a whole number of the model's steps"),
        (["00:00", "00:10", "00:05"], {"missing": "keep"}, "does not come after the one before it"),
    ],
)
def test_times_of_a_stream_are_compared_with_the_step(
    times: list[str], options: dict[str, Any], says: str | None
) -> None:
    text = "t,state\n" + "".join(f"2024-05-01 {time},rest\n" for time in times)
    if says is None:
        assert stream(text, ACTIVITY, order="t", **options).count(b"\n") == 4
        return
    with pytest.raises(DataError, match=says):
        stream(text, ACTIVITY, order="t", **options)


def test_numbers_do_not_go_with_a_step_of_time() -> None:
    with pytest.raises(DataError, match="the model's step is 5min but 't' holds numbers"):
        stream("t,state\n1,rest\n2,rest\n", ACTIVITY, order="t")


def test_a_stream_of_times_with_and_without_a_zone() -> None:
    lines = b"time,state\n2024-05-01T10:00:00Z,rest\n2024-05-01T10:05:00,rest\n"
    out = io.BytesIO()
    options: dict[str, Any] = {"model": ACTIVITY, "column": "state", "order": "time", "epsilon": 1}
    with pytest.raises(DataError, match="'2024-05-01T10:05:00' has no time zone"):
        flip_stream(io.BytesIO(lines), out, **options)
