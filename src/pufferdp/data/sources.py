"""Any source becomes one kind of frame, its columns named by their roles, in the engine that will count.

Polars frames, DuckDB relations and Spark frames stay where they are. Files, pandas frames and Arrow tables are scanned
by DuckDB: narwhals has no windows by group on Arrow, and on pandas a shifted 64-bit integer becomes a double.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import duckdb
import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from pufferdp.basics.errors import DataError
from pufferdp.basics.words import a_kind, is_address, rows_text
from pufferdp.data import databases, files
from pufferdp.data.layout import Columns, check_columns, check_row_order
from pufferdp.data.memory import MemoryFile
from pufferdp.data.times import frame_times

Source = object
"""A path, a pattern or the URL of a table (text or os.PathLike), or a frame: pandas, polars, pyarrow, DuckDB, Spark."""

Frame = nw.LazyFrame[Any]

_ACCEPTED = (
    "a path to a .csv, .tsv, .txt or .parquet file, a pandas, polars or Spark frame, a pyarrow table "
    "or a DuckDB relation"
)


@files.reading()
def open_source(source: Source, columns: Columns) -> Frame:
    """Read a path or a frame: the columns under the names of their roles, and order where rows are numbered.

    A text file has no types of its own: its columns come as text, and number holds what the value is as a number.
    """
    frame: Frame
    if isinstance(source, str) and databases.is_database(source):
        frame = nw.from_native(databases.open_database(source, columns))
    elif isinstance(source, (str, os.PathLike)) and is_address(os.fspath(source)):
        # It may hold a password, which is not repeated.
        raise DataError("the data is a URL; download the file and give its path, or name a table of postgresql://…")
    elif isinstance(source, str) and not source:
        raise DataError("the path of the data is empty; name a file", value=source)
    elif isinstance(source, (str, os.PathLike, MemoryFile)):
        frame = nw.from_native(files.open_files(source, columns))
    else:
        frame = _open_frame(source, columns)
    ticked: Frame = with_ticks(frame)
    return ticked


@files.reading()
def time_columns(source: Source) -> list[str]:
    """The columns of a file or a frame that hold times."""
    if isinstance(source, (str, os.PathLike, MemoryFile)):
        return files.time_columns(source)
    return frame_times(nw.from_native(source))


def rows(frame: Frame) -> list[tuple[Any, ...]]:
    """Bring the rows of a small result to Python."""
    native: Any = frame.to_native()
    if isinstance(native, duckdb.DuckDBPyRelation):
        # Not .collect(): narwhals goes through Arrow there, which warns of leaks at exit.
        return native.fetchall()
    if _is_spark(frame):
        return [tuple(row) for row in native.collect()]
    return frame.collect().rows()


def arrays(frame: Frame) -> dict[str, NDArray[Any]]:
    """Bring whole columns, none of them with a missing value, to Python by name: numbers, or objects for text."""
    native: Any = frame.to_native()
    if isinstance(native, duckdb.DuckDBPyRelation):
        return {name: np.asarray(column) for name, column in native.fetchnumpy().items()}
    if _is_spark(frame):
        fetched = rows(frame)
        return {name: np.array([row[n] for row in fetched]) for n, name in enumerate(native.columns)}
    return {series.name: np.asarray(series.to_numpy()) for series in frame.collect().iter_columns()}


def integers(frame: Frame) -> list[NDArray[np.int64]]:
    """Bring whole columns of integers to Python."""
    return [column.astype(np.int64) for column in arrays(frame).values()]


def need_values(frame: Frame, column: str, name: str, rule: str) -> None:
    """Refuse rows in which a column is missing, by what it is called and what every row must have."""
    ((missing,),) = rows(frame.select(nw.col(column).is_null().cast(nw.Int64).sum().alias("missing")))
    if missing:
        raise DataError(f"{name} is missing in {rows_text(missing)}; {rule}")


def doubles(frame: Frame) -> list[NDArray[np.float64]]:
    """Bring columns of numbers, none of them missing, to Python."""
    return [column.astype(np.float64) for column in arrays(frame).values()]


def _is_spark(frame: Any) -> bool:
    """Whether a narwhals frame runs on Spark."""
    return frame.implementation in (nw.Implementation.PYSPARK, nw.Implementation.PYSPARK_CONNECT)


def _open_frame(source: Source, columns: Columns) -> Frame:
    try:
        frame: Any = nw.from_native(source)
        names = frame.collect_schema().names()
    except (TypeError, nw.exceptions.NarwhalsError):
        raise DataError(f"the data is {a_kind(source)}; it must be {_ACCEPTED}", value=type(source)) from None
    implementation = frame.implementation
    check_columns(names, columns)
    if (columns.numbered or columns.rows) and (implementation.is_duckdb() or _is_spark(frame)):
        raise files.no_row_order(columns)
    check_row_order(names, columns, lambda: frame_times(frame))
    if _is_spark(frame):
        from pufferdp.data import spark

        picked: Frame = nw.from_native(spark.pick(source, columns.roles))
        return picked
    if not (implementation.is_duckdb() or implementation.is_polars() or isinstance(frame, nw.DataFrame)):
        raise DataError(f"the data is a {implementation.value} frame; it must be {_ACCEPTED}", value=type(source))
    order = frame.collect_schema().get(columns.roles.get("order", ""))
    # Objects of pandas may be times with a zone and times without, which a file would not have in one column.
    if (order == nw.String and not implementation.is_duckdb()) or (order == nw.Object and implementation.is_pandas()):
        return nw.from_native(files.open_files(_as_file(frame.lazy().collect(), columns), columns))
    frame = frame.select(nw.col(name).alias(role) for role, name in columns.roles.items())
    for number in ["order"] * columns.numbered + ["row"] * columns.rows:
        if isinstance(frame, nw.LazyFrame):
            # Lazy polars frames have a row order, but narwhals asks every lazy frame for a column to sort by.
            frame = nw.from_native(frame.to_native().with_row_index(number))
            frame = frame.with_columns(nw.col(number).cast(nw.Int64) + 1)
        else:
            places = np.arange(1, len(frame) + 1, dtype=np.int64)
            frame = frame.with_columns(nw.new_series(number, places, nw.Int64, backend=implementation))
    if implementation.is_pandas_like():
        return _from_pandas(frame)
    if implementation.is_pyarrow():
        return nw.from_native(files.connect_for_frame().from_arrow(with_ticks(frame).to_native()))
    return frame.lazy() if isinstance(frame, nw.DataFrame) else frame


def _as_file(frame: Any, columns: Columns) -> MemoryFile:
    """The columns as the file they would be written to: so its text times are read as those of a file are."""
    picked = frame.select(list(dict.fromkeys(columns.roles.values())))
    return MemoryFile("frame.csv", str(picked.write_csv()).encode())


def _from_pandas(frame: nw.DataFrame[Any]) -> Frame:
    objects = [name for name, kind in frame.schema.items() if kind == nw.Object and name != "order"]
    # Time stamps become integers here: DuckDB would cut those with a time zone to microseconds.
    native = with_ticks(frame).to_pandas()
    for name in objects:
        # DuckDB guesses the type of Python objects from a sample; text cannot fail later.
        native = native.assign(**{name: native[name].map(str, na_action="ignore")})
    # The copy is stored forwards: DuckDB cannot read columns of a reversed frame.
    return nw.from_native(files.connect_for_frame().from_df(native.copy()))


def with_ticks(frame: Any) -> Any:
    """Time stamps as integers, so that differences are exact in every engine; the new name says what they count."""
    kind = frame.collect_schema().get("order")
    if not isinstance(kind, (nw.Datetime, nw.Date)):
        return frame
    unit: Literal["ns", "us"] = "ns" if isinstance(kind, nw.Datetime) and kind.time_unit == "ns" else "us"
    name = f"order_{unit}_utc" if isinstance(kind, nw.Datetime) and kind.time_zone else f"order_{unit}"
    if _is_spark(frame):
        from pufferdp.data import spark

        return nw.from_native(spark.with_ticks(frame.to_native(), name))
    if frame.implementation.is_duckdb():
        # narwhals has no dt.timestamp for DuckDB; epoch_us counts in UTC whatever the connection's time zone.
        native = frame.to_native()
        others = [column for column in native.columns if column != "order"]
        return nw.from_native(native.project(", ".join([*others, f'epoch_{unit}("order") AS {name}'])))
    moment = nw.col("order") if isinstance(kind, nw.Datetime) else nw.col("order").cast(nw.Datetime("us"))
    return frame.with_columns(moment.dt.timestamp(unit).alias(name)).drop("order")
