"""Any source becomes one kind of frame, its columns named by their roles, in the engine that will count.

Polars frames and DuckDB relations stay where they are. Files, pandas frames and Arrow tables are scanned by DuckDB:
narwhals has no windows by group on Arrow, and on pandas a shifted 64-bit integer becomes a double.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any, Literal

import duckdb
import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from pufferdp.data import files
from pufferdp.data.layout import Columns, option, shorten
from pufferdp.errors import DataError

Source = object
"""A path (text or os.PathLike) or a frame: pandas, polars, pyarrow or DuckDB."""

Frame = nw.LazyFrame[Any]

_ACCEPTED = (
    "a path to a .csv, .tsv, .txt or .parquet file, a pandas or polars frame, a pyarrow table or a DuckDB relation"
)


@files.reading()
def open_source(source: Source, columns: Columns) -> Frame:
    """Read a path or a frame: the columns under the names of their roles, and order where rows are numbered.

    A text file has no types of its own: its columns come as text, and number holds what the value is as a number.
    """
    if isinstance(source, (str, os.PathLike)):
        frame = _open_file(Path(source), columns)
    else:
        frame = _open_frame(source, columns)
    ticked: Frame = _with_ticks(frame)
    return ticked


def rows(frame: Frame) -> list[tuple[Any, ...]]:
    """Bring the rows of a small result to Python."""
    native: Any = frame.to_native()
    if isinstance(native, duckdb.DuckDBPyRelation):
        # Not .collect(): narwhals goes through Arrow there, which warns of leaks at exit.
        return native.fetchall()
    return frame.collect().rows()


def integers(frame: Frame) -> list[NDArray[np.int64]]:
    """Bring whole columns of integers to Python."""
    native: Any = frame.to_native()
    if isinstance(native, duckdb.DuckDBPyRelation):
        return [np.asarray(column, dtype=np.int64) for column in native.fetchnumpy().values()]
    return [column.to_numpy().astype(np.int64) for column in frame.collect().iter_columns()]


def doubles(frame: Frame) -> NDArray[np.float64]:
    """Bring one column of numbers, none of them missing, to Python."""
    native: Any = frame.to_native()
    if isinstance(native, duckdb.DuckDBPyRelation):
        (column,) = native.fetchnumpy().values()
        return np.asarray(column, dtype=np.float64)
    (series,) = frame.collect().iter_columns()
    return np.asarray(series.to_numpy(), dtype=np.float64)


def _open_file(path: Path, columns: Columns) -> Frame:
    connection, scan = files.scan_file(path)
    check_columns(files.column_names(connection, scan, path), columns)
    if files.is_text_file(path):
        return nw.from_native(files.load_csv(connection, path, columns))
    return nw.from_native(connection.sql(f"SELECT {files.picked_columns(columns)} FROM {scan}"))


def _open_frame(source: Source, columns: Columns) -> Frame:
    try:
        frame: Any = nw.from_native(source)
        names = frame.collect_schema().names()
    except (TypeError, nw.exceptions.NarwhalsError):
        kind = f"{type(source).__module__}.{type(source).__qualname__}"
        raise DataError(f"the data is a {kind}; it must be {_ACCEPTED}", value=type(source)) from None
    implementation = frame.implementation
    check_columns(names, columns)
    if implementation.is_duckdb() and columns.numbered:
        key = columns.key
        raise DataError(f"a table has no row order; name a column with {key}=, or --{key} on the command line")
    if not (implementation.is_duckdb() or implementation.is_polars() or isinstance(frame, nw.DataFrame)):
        raise DataError(f"the data is a {implementation.value} frame; it must be {_ACCEPTED}", value=type(source))
    frame = frame.select(nw.col(name).alias(role) for role, name in columns.roles.items())
    if columns.numbered:
        if isinstance(frame, nw.LazyFrame):
            # Lazy polars frames have a row order, but narwhals asks every lazy frame for a column to sort by.
            frame = nw.from_native(frame.to_native().with_row_index("order"))
        else:
            frame = frame.with_row_index("order")
        frame = frame.with_columns(nw.col("order").cast(nw.Int64) + 1)
    if implementation.is_pandas_like():
        return _from_pandas(frame)
    if implementation.is_pyarrow():
        return nw.from_native(files.connect().from_arrow(_with_ticks(frame).to_native()))
    return frame.lazy() if isinstance(frame, nw.DataFrame) else frame


def _from_pandas(frame: nw.DataFrame[Any]) -> Frame:
    objects = [name for name, kind in frame.schema.items() if kind == nw.Object and name != "order"]
    # Time stamps become integers here: DuckDB would cut those with a time zone to microseconds.
    native = _with_ticks(frame).to_pandas()
    for name in objects:
        # DuckDB guesses the type of Python objects from a sample; text cannot fail later.
        native = native.assign(**{name: native[name].map(str, na_action="ignore")})
    return nw.from_native(files.connect().from_df(native))


def _with_ticks(frame: Any) -> Any:
    """Time stamps as integers, so that differences are exact in every engine; the new name says what they count."""
    kind = frame.collect_schema().get("order")
    if not isinstance(kind, (nw.Datetime, nw.Date)):
        return frame
    unit: Literal["ns", "us"] = "ns" if isinstance(kind, nw.Datetime) and kind.time_unit == "ns" else "us"
    name = f"order_{unit}_utc" if isinstance(kind, nw.Datetime) and kind.time_zone else f"order_{unit}"
    if frame.implementation.is_duckdb():
        # narwhals has no dt.timestamp for DuckDB; epoch_us counts in UTC whatever the connection's time zone.
        native = frame.to_native()
        others = [column for column in native.columns if column != "order"]
        return nw.from_native(native.project(", ".join([*others, f'epoch_{unit}("order") AS {name}'])))
    moment = nw.col("order") if isinstance(kind, nw.Datetime) else nw.col("order").cast(nw.Datetime("us"))
    return frame.with_columns(moment.dt.timestamp(unit).alias(name)).drop("order")


def check_columns(names: list[str], columns: Columns) -> None:
    """Refuse a column that is not there."""
    for role, name in columns.roles.items():
        if name not in names:
            close = difflib.get_close_matches(name, [str(other) for other in names], n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise DataError(f"there is no {option(role)} {name!r}; the columns are {shorten(names)}{hint}", value=name)
