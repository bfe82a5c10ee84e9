"""Any source becomes one kind of table: columns value, number, order and person, in the engine that will count.

Polars frames and DuckDB relations stay where they are. Files, pandas frames and Arrow tables are scanned by DuckDB:
narwhals has no windows by group on Arrow, and on pandas a shifted 64-bit integer becomes a double.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import duckdb
import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from pufferdp.data import files
from pufferdp.data.layout import Layout, shorten
from pufferdp.errors import DataError

Source = object
"""A path (text or os.PathLike) or a frame: pandas, polars, pyarrow or DuckDB."""

Frame = nw.LazyFrame[Any]

_ACCEPTED = (
    "a path to a .csv, .tsv, .txt or .parquet file, a pandas or polars frame, a pyarrow table or a DuckDB relation"
)


@dataclass(frozen=True, kw_only=True)
class Table:
    """The columns of one series, ready for the counting expressions."""

    frame: Frame
    """value; number (Float64) where ``numeric``; order (Int64 or Float64); person where the layout has one."""
    layout: Layout
    text: bool
    """The values are compared as text, otherwise as numbers."""
    numeric: bool
    """There is a column number; it is null where a text is not a number."""
    ticks: str
    """What one unit of order is: ``row``, ``number``, ``us`` or ``ns`` since 1970 in UTC."""
    aware: bool
    """Whether the time stamps had a time zone."""
    exact: bool
    """Whether order is an integer."""

    def place(self, order: Any, person: Any = None) -> str:
        """Where a record is, in words."""
        whose = "" if self.layout.by is None else f", {self.layout.by} {str(person)!r}"
        if self.ticks == "row":
            return f"row {int(order)}{whose}"
        if order is None:
            return f"an unknown {self.layout.order}{whose}"
        return f"{self.layout.order} {self.order_text(order)}{whose}"

    def order_text(self, order: Any) -> str:
        """An order value as it was in the data."""
        if self.ticks not in ("us", "ns"):
            return f"{order:.15g}" if isinstance(order, float) else str(order)
        microseconds, rest = divmod(int(order), 1000 if self.ticks == "ns" else 1)
        try:
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
        except OverflowError:
            return f"{order} {self.ticks} after 1970"
        zone = "" if not self.aware else " UTC"
        return moment.replace(tzinfo=None).isoformat(sep=" ") + (f" and {rest} ns" if rest else "") + zone


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


@files.reading()
def open_table(source: Source, layout: Layout) -> Table:
    """Read a source: a path or a frame."""
    if isinstance(source, (str, os.PathLike)):
        frame = _open_file(Path(source), layout)
        numbers_in_text = files.is_text_file(Path(source))
    else:
        frame = _open_frame(source, layout)
        numbers_in_text = False
    return _normal(frame, layout, numbers_in_text)


def _open_file(path: Path, layout: Layout) -> Frame:
    connection, scan = files.scan_file(path)
    _check_columns(files.columns_of(connection, scan, path), layout)
    if files.is_text_file(path):
        return nw.from_native(files.load_csv(connection, path, layout))
    picked = [f"{files.identifier(name)} AS {files.identifier(role)}" for role, name in _roles(layout).items()]
    if layout.order is None:
        picked.append('row_number() OVER () AS "order"')
    return nw.from_native(connection.sql(f"SELECT {', '.join(picked)} FROM {scan}"))


def _open_frame(source: Source, layout: Layout) -> Frame:
    try:
        frame: Any = nw.from_native(source)
        names = frame.collect_schema().names()
    except (TypeError, nw.exceptions.NarwhalsError):
        kind = f"{type(source).__module__}.{type(source).__qualname__}"
        raise DataError(f"the data is a {kind}; it must be {_ACCEPTED}", value=type(source)) from None
    implementation = frame.implementation
    _check_columns(names, layout)
    if implementation.is_duckdb() and layout.order is None:
        raise DataError("a table has no row order; name a column with order=, or --order on the command line")
    if not (implementation.is_duckdb() or implementation.is_polars() or isinstance(frame, nw.DataFrame)):
        raise DataError(f"the data is a {implementation.value} frame; it must be {_ACCEPTED}", value=type(source))
    frame = frame.select(nw.col(name).alias(role) for role, name in _roles(layout).items())
    if layout.order is None:
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


def _normal(frame: Frame, layout: Layout, numbers_in_text: bool) -> Table:
    """Check types and bring the columns to their final ones."""
    frame = _with_ticks(frame)
    schema = frame.collect_schema()
    order = next(name for name in schema if name.startswith("order"))
    ticks = "us" if "_us" in order else "ns" if "_ns" in order else "number"
    kind = schema[order]
    if not kind.is_numeric():
        raise DataError(
            f"the order column {layout.order!r} holds {_words(kind)}; it must hold numbers, dates or time stamps, "
            "such as 2024-05-01 13:30:00",
            value=layout.order,
        )
    small = (nw.Int8, nw.Int16, nw.Int32, nw.Int64, nw.UInt8, nw.UInt16, nw.UInt32)
    exact = isinstance(kind, small)
    # Wider integers and decimals are sorted as doubles: should two fall together they are refused as duplicates.
    picked = [nw.col(order).cast(nw.Int64 if exact else nw.Float64).alias("order")]

    kind = schema["value"]
    value = _without_nan(kind, "value")
    text, number = True, nw.col("number") if numbers_in_text else None
    if kind.is_numeric():
        text, number = False, value.cast(nw.Float64)
    elif isinstance(kind, nw.Boolean):
        number = value.cast(nw.Int64).cast(nw.Float64)
        value = nw.when(~value.is_null()).then(nw.when(value).then(nw.lit("true")).otherwise(nw.lit("false")))
    elif isinstance(kind, (nw.Categorical, nw.Enum)):
        value = value.cast(nw.String)
    elif not isinstance(kind, nw.String):
        raise DataError(
            f"the column {layout.column!r} holds {_words(kind)}; states must be text, numbers or true and false",
            value=layout.column,
        )
    picked.append(value.alias("value"))
    if number is not None:
        picked.append(number.alias("number"))
    if layout.by is not None:
        person = _without_nan(schema["person"], "person")
        if isinstance(schema["person"], (nw.Categorical, nw.Enum)):
            person = person.cast(nw.String)
        picked.append(person.alias("person"))
    return Table(
        frame=frame.select(*picked),
        layout=layout,
        text=text,
        numeric=number is not None,
        ticks="row" if layout.order is None else ticks,
        aware=order.endswith("_utc"),
        exact=exact,
    )


def _without_nan(kind: Any, name: str) -> nw.Expr:
    return nw.when(~nw.col(name).is_nan()).then(nw.col(name)) if kind.is_float() else nw.col(name)


def _words(kind: Any) -> str:
    names = {"String": "text", "Object": "Python objects", "Boolean": "true and false", "Time": "times without a date"}
    return names.get(str(kind), f"values of type {kind}")


def _roles(layout: Layout) -> dict[str, str]:
    named = {"value": layout.column, "order": layout.order, "person": layout.by}
    return {role: name for role, name in named.items() if name is not None}


def _check_columns(names: list[str], layout: Layout) -> None:
    for role, name in _roles(layout).items():
        if name not in names:
            close = difflib.get_close_matches(name, [str(other) for other in names], n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            option = "column" if role == "value" else "order" if role == "order" else "by"
            raise DataError(f"there is no {option} {name!r}; the columns are {shorten(names)}{hint}", value=name)
