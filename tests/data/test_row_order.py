"""Rows of data that have times are sorted by them, or somebody states that they are in time order."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import pufferdp as pf
from pufferdp.assess.attack.attack import attack_file
from pufferdp.basics.errors import DataError
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.memory import MemoryFile
from pufferdp.data.series import open_series
from pufferdp.data.times import all_times

RECORDS = 600
CHAIN = pf.MarkovChain(transition=[[0.95, 0.05], [0.1, 0.9]], states=("rest", "active"), step="5min")
CODING = Coding(labels=("rest", "active"))
GENERATOR = np.random.default_rng(20)
TIMES = pd.date_range("2024-01-01", periods=RECORDS, freq="5min", name="time")


def walk() -> list[str]:
    state, out = 0, []
    for draw in GENERATOR.random(RECORDS):
        state = int(draw < CHAIN.transition[state][1])
        out.append(CHAIN.states[state])
    return out


SORTED = pd.Series(walk(), index=TIMES, name="state")
SHUFFLED = SORTED.iloc[GENERATOR.permutation(RECORDS)]
FRAME = SHUFFLED.reset_index()


def files(folder: Path, frame: pd.DataFrame) -> dict[str, Any]:
    """The frame in every form that has a row order."""
    frame.to_csv(folder / "x.csv", index=False)
    frame.to_csv(folder / "x.tsv", index=False, sep="\t")
    frame.to_parquet(folder / "x.parquet", index=False)
    plain = pl.from_pandas(frame)
    return {
        "csv": folder / "x.csv",
        "tsv": str(folder / "x.tsv"),
        "pattern": str(folder / "?.csv"),
        "parquet": folder / "x.parquet",
        "memory": MemoryFile("x.csv", (folder / "x.csv").read_bytes()),
        "pandas": frame,
        "polars": plain,
        "lazy polars": plain.lazy(),
        "arrow": plain.to_arrow(),
        "columns": {name: frame[name].tolist() for name in frame},
        "text of pandas": frame.astype({"time": str}),
        "text of polars": pl.from_pandas(frame.astype({"time": str})),
        "objects": frame.assign(time=[stamp.to_pydatetime() for stamp in frame["time"]]).astype({"time": object}),
    }


FORMS = (
    "csv",
    "tsv",
    "pattern",
    "parquet",
    "memory",
    "pandas",
    "polars",
    "lazy polars",
    "arrow",
    "columns",
    "text of pandas",
    "text of polars",
    "objects",
)


@pytest.mark.parametrize("form", FORMS)
def test_data_with_times_are_not_read_as_the_rows_come(tmp_path: Path, form: str) -> None:
    data = files(tmp_path, FRAME)[form]
    with pytest.raises(DataError) as refused:
        pf.fit(data, column="state")
    for words in ("the column 'time' holds times", "order='time'", "order='rows'"):
        assert words in str(refused.value)
    counts = {}
    for order in ("time", "rows"):
        series = pf.Series(data, "state", order=order)
        counts[order] = open_series(series.data, series.reading()).counts(CODING, transitions=True)
    assert counts["time"].histogram == counts["rows"].histogram
    along = pd.crosstab(SORTED.shift().dropna().to_numpy(), SORTED.iloc[1:].to_numpy()).loc[["rest", "active"]]
    assert counts["time"].transitions == tuple(map(tuple, along[["rest", "active"]].to_numpy().tolist()))
    assert counts["rows"].transitions != counts["time"].transitions


READERS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "fit": lambda data, order: pf.fit(data, column="state", checks=False, **order),
    "fit of pairs": lambda data, order: pf.fit(data, column="state,other", checks=False, **order),
    "release": lambda data, order: pf.release(
        data, column="state", model=CHAIN, query="count:rest", epsilon=1, **order
    ),
    "table": lambda data, order: pf.release(
        data, column="state", model=CHAIN, query=["histogram", "transitions"], epsilon=1, **order
    ),
    "flip": lambda data, order: pf.flip(data, column="state", model=CHAIN, epsilon=1, **order),
    "redact": lambda data, order: pf.redact(
        data,
        column="state",
        model=CHAIN,
        private=[5],
        epsilon=2,
        out=data.with_name("out.csv") if isinstance(data, Path) else None,
        **order,
    ),
    "flow": lambda data, order: pf.flow(
        data,
        column="state",
        model=pf.MarkovChain(transition=[[0.6, 0.4], [0.4, 0.6]], states=CHAIN.states),
        eta=0.01,
        tau=0.5,
        **order,
    ),
    "plan": lambda data, order: pf.plan(CHAIN, "histogram", epsilon=1, series=pf.Series(data, "state", **order)),
    "attack": lambda data, order: attack_file(data, column="state", model=CHAIN, rho=[0.1], **order),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("form", ["csv", "polars"])
def test_every_reader_asks_for_the_order(tmp_path: Path, form: str, reader: str) -> None:
    data = files(tmp_path, FRAME[:50].assign(other="x"))[form]
    with pytest.raises(DataError, match="the column 'time' holds times"):
        READERS[reader](data, {})
    READERS[reader](data, {"order": "rows"})


@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_a_file_that_is_flipped_line_by_line_or_whole_needs_an_order(tmp_path: Path, out: str) -> None:
    path = files(tmp_path, FRAME)["csv"]
    asked: dict[str, Any] = {"column": "state", "model": CHAIN, "epsilon": 1, "out": tmp_path / out}
    with pytest.raises(DataError, match="the column 'time' holds times"):
        pf.flip(path, **asked)
    assert not (tmp_path / out).exists()
    certificate = pf.flip(path, **asked, order="rows").certificate
    assert certificate.data.rows_in_order is True
    assert pf.verify(certificate.to_dict()).valid


def test_a_stream_with_times_needs_an_order() -> None:
    lines = b"time,state\n2024-01-01 00:00,rest\n2024-01-01 00:05,active\n"
    asked: dict[str, Any] = {"column": "state", "model": CHAIN, "epsilon": 1}
    with pytest.raises(DataError, match="the column 'time' holds times"):
        pf.flip_stream(io.BytesIO(lines), out := io.BytesIO(), **asked)
    assert not out.getvalue()
    for order in ("time", "rows"):
        assert pf.flip_stream(io.BytesIO(lines), io.BytesIO(), **asked, order=order).certificate.data.records == 2


def test_tables_have_no_row_order_to_state(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as database:
        database.execute("CREATE TABLE visits (time, state)")
        database.commit()
    for data in (f"{tmp_path / 'x.sqlite'}::visits", duckdb.sql("SELECT 'rest' AS state, DATE '2024-01-01' AS time")):
        for order in ({}, {"order": "rows"}):
            with pytest.raises(DataError, match="a table has no row order; name a column with order="):
                pf.fit(data, column="state", **order)


@pytest.mark.parametrize(
    "index",
    [
        TIMES,
        TIMES.rename(None),
        TIMES.rename("state"),
        TIMES.tz_localize("Europe/Berlin"),
        TIMES.to_period("5min"),
        pd.Index(TIMES.astype(str), name="time"),
        pd.Index(TIMES.to_pydatetime(), dtype=object),
    ],
    ids=["named", "nameless", "as the column", "with a zone", "periods", "text", "objects"],
)
def test_a_time_index_is_the_order(index: pd.Index) -> None:
    series = SORTED.set_axis(index)
    shuffled = series.iloc[np.random.default_rng(3).permutation(RECORDS)]
    fits = [pf.fit(data, column="state") for data in (series, shuffled, shuffled.to_frame())]
    assert {fit.model.step for fit in fits} == {"5min"}
    assert len({str(fit.model.transition.tolist()) for fit in fits}) == 1
    asked: dict[str, Any] = {"column": "state", "model": fits[0].model, "query": "histogram", "epsilon": 1}
    releases = [pf.release(data, **asked) for data in (series, shuffled, shuffled.to_frame())]
    assert len({release.certificate.noise.scale for release in releases}) == 1
    plans = [pf.plan(asked["model"], "histogram", epsilon=1, series=pf.Series(s, "state")) for s in (series, shuffled)]
    assert plans[0].to_dict() == plans[1].to_dict()
    with pytest.raises(DataError, match="rows are missing between them"):
        pf.release(shuffled.drop(index[100:110]), **asked)
    gap = pf.release(shuffled.drop(index[100:110]), **asked, missing="keep")
    assert gap.certificate.data.unobserved == 10
    assert pf.verify(gap.certificate.to_dict()).valid


def test_an_index_of_other_things_is_no_order() -> None:
    for index in (range(RECORDS), [f"r{n}" for n in range(RECORDS)], np.linspace(0, 1, RECORDS)):
        series = pf.Series(SORTED.set_axis(index))
        assert series.order is None
        assert series.reading(CHAIN).order is None


@pytest.mark.parametrize("index", [range(RECORDS), np.linspace(0, 1, RECORDS)], ids=["whole", "numbers"])
def test_rows_that_were_moved_are_in_no_order(index: Any) -> None:
    series = SORTED.set_axis(index)
    moved = series.iloc[np.random.default_rng(3).permutation(RECORDS)]
    verbs: list[Callable[..., Any]] = [
        lambda data, **how: pf.fit(data, checks=False, column="state", **how),
        lambda data, **how: pf.release(data, column="state", model=CHAIN, query="histogram", epsilon=1, **how),
        lambda data, **how: pf.plan(CHAIN, "histogram", epsilon=1, series=pf.Series(data, "state", **how)),
        lambda data, **how: pf.flip(data, column="state", model=CHAIN, epsilon=8, **how),
        lambda data, **how: pf.redact(data, column="state", model=CHAIN, private=[3], epsilon=1, **how),
        lambda data, **how: pf.check(data, CHAIN, column="state", **how),
    ]
    for verb in verbs:
        for data in (moved, moved.to_frame(), series[::-1]):
            with pytest.raises(DataError, match="does not rise from row to row"):
                verb(data)
        verb(moved, order="rows")


def test_time_since_a_start_is_an_order_in_seconds() -> None:
    series = SORTED.set_axis(TIMES - TIMES[0])
    moved = series.iloc[np.random.default_rng(3).permutation(RECORDS)]
    fits = [pf.fit(data, column="state") for data in (series, moved, series[::-1])]
    assert len({str(fit.model.to_dict()) for fit in fits}) == 1
    assert fits[0].model.step == 300
    with pytest.raises(DataError, match="rows are missing between them"):
        pf.release(moved.drop(moved.index[:9]), model=fits[0].model, column="state", query="histogram", epsilon=1)


@pytest.mark.parametrize("kind", ["str", object, "category"])
def test_reversed_frames_are_sorted(kind: Any) -> None:
    fits = [pf.fit(data.astype(kind).to_frame()[::step], column="state") for data, step in ((SORTED, 1), (SORTED, -1))]
    assert fits[0].model == fits[1].model


def test_levels_of_an_index_are_columns() -> None:
    frame = SHUFFLED.to_frame().set_index(pd.Index(["a"] * RECORDS, name="who"), append=True)
    with pytest.raises(DataError, match="the column 'time' holds times"):
        pf.fit(frame, column="state", by="who")
    assert pf.fit(frame, column="state", order="time", by="who").model.step == "5min"


def test_row_order_that_is_stated_is_an_assumption_of_the_guarantee() -> None:
    asked: dict[str, Any] = {"column": "state", "model": CHAIN, "epsilon": 1}
    for certificate in (
        pf.release(FRAME, **asked, order="rows", query="histogram").certificate,
        pf.release(FRAME, **asked, order="rows", query=["histogram", "transitions"]).certificate,
        pf.flip(FRAME, **asked, order="rows").certificate,
        pf.redact(FRAME, **asked, order="rows", private=[3]).certificate,
    ):
        assert certificate.data.rows_in_order is True
        assert "Assumption: the rows are in time order" in certificate.guarantee.statement
        content = certificate.to_dict()
        assert pf.verify(content).valid
        stripped = {**content, "data": {k: v for k, v in content["data"].items() if k != "rows_in_order"}}
        assert not pf.verify(stripped).valid


def test_models_without_an_order_read_any_rows() -> None:
    frame = FRAME[:8].assign(home=["a", "a", "b", "b", "c", "c", "d", "d"])
    groups = pf.AnyGroups(largest=2, states=CHAIN.states)
    for data in (frame, frame.set_index("time")):
        certificate = pf.release(
            data, column="state", by="home", model=groups, query="count:rest", epsilon=1
        ).certificate
        assert certificate.data.order is None
        assert certificate.data.rows_in_order is None


def test_a_column_called_rows_is_not_taken_for_row_order() -> None:
    frame = FRAME.rename(columns={"time": "rows"})
    for data in (frame, pl.from_pandas(frame)):
        with pytest.raises(DataError, match="the data have a column 'rows'; rename it"):
            pf.fit(data, column="state", order="rows")


def test_numbers_and_other_text_are_no_times(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "state": ["rest", "active"],
            "unix": [1_700_000_000, 1_700_000_300],
            "compact": ["20240101", "20240102"],
            "clock": ["12:00", "12:05"],
            "version": ["1.2.3", "1.2.4"],
            "span": pd.to_timedelta(["5min", "10min"]),
            "empty": [None, None],
        }
    )
    for data in (frame, pl.from_pandas(frame)):
        assert open_series(data, Layout(column="state")).counts(CODING).records == 2
    frame.to_csv(tmp_path / "x.csv", index=False)
    assert open_series(tmp_path / "x.csv", Layout(column="state")).counts(CODING).records == 2


@pytest.mark.parametrize(
    "text",
    [
        "2024-05-01",
        "2024-05-01T13:30:00Z",
        "2024-05-01 13:30:00.123456789",
        "2024-05-01 13:30+01:00",
        "2024/5/1",
        "01.05.2024 13:30",
        "5/1/2024 1:30 PM",
    ],
)
def test_text_that_is_a_time(tmp_path: Path, text: str) -> None:
    assert all_times([None, text, float("nan"), pd.NA, pd.NaT])
    assert not all_times([text, "rest"])
    assert not all_times([None])
    (tmp_path / "x.csv").write_text(f'state,when\nrest,"{text}"\nactive,"{text}"\nrest,\n')
    with pytest.raises(DataError, match="the column 'when' holds times"):
        open_series(tmp_path / "x.csv", Layout(column="state"))
