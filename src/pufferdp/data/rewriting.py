"""A table written again with some values of one column replaced by a mark. Rows stream, however many there are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import narwhals as nw

from pufferdp.data import files
from pufferdp.data.expressions import MISSING
from pufferdp.data.layout import Coding
from pufferdp.data.memory import MemoryFile
from pufferdp.data.parts import csv_scan, find_parts, identifier, literal, parquet_scan
from pufferdp.data.series import Series
from pufferdp.data.sources import Source, rows
from pufferdp.errors import DataError, ParameterError

ENDINGS: Final = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet")

Span = tuple[int, int]
"""First and last row, counted from 1."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of a series in their own order: how many there are and where chains end. All of it is public."""

    count: int
    missing: int
    chains: tuple[Span, ...]
    """The chain of each row that was asked about, in the order asked; none twice."""


def spans_around(series: Series, coding: Coding, asked: Sequence[int]) -> Rows:
    """Check every row, and find the chains that hold the rows asked about: a missing value ends a chain."""
    counts = series.counts(coding)
    count = counts.records + counts.missing
    for row in asked:
        if row > count:
            raise ParameterError(
                f"private row is {row}; the data has {count} rows, and they are counted from 1", value=row
            )
    if not counts.missing:
        return Rows(count=count, missing=0, chains=((1, count),))
    frame, _, _ = series._tally(coding, None)
    holes = frame.filter(nw.col("code") == MISSING)
    found: list[Span] = []
    for row in asked:
        before = rows(holes.filter(nw.col("order") <= row).select(nw.col("order").max()))[0][0] or 0
        after = rows(holes.filter(nw.col("order") >= row).select(nw.col("order").min()))[0][0] or count + 1
        if before == row:
            raise DataError(f"private row is {row}, and its value is missing; there is nothing to hide", value=row)
        span = int(before) + 1, int(after) - 1
        if span not in found:
            found.append(span)
    return Rows(count=count, missing=counts.missing, chains=tuple(sorted(found)))


def codes_between(series: Series, coding: Coding, first: int, last: int) -> list[int]:
    """The states of a few rows in a row, as positions among the labels."""
    frame, _, _ = series._tally(coding, None)
    near = frame.filter((nw.col("order") >= first) & (nw.col("order") <= last)).sort("order")
    return [int(code) for (code,) in rows(near.select("code"))]


def rewrite_file(source: str | os.PathLike[str], column: str, spans: Sequence[Span], mark: str, out: str) -> None:
    """Copy a file, with the mark for the values of one column in these rows."""
    path, target = Path(source), Path(out)
    if target.resolve() == path.resolve():
        raise ParameterError(f"out is {out!r}, the data itself; name another file", value=out)
    parts = find_parts(path)
    scan = csv_scan(parts)[:-1] + ", all_varchar = true)" if parts.text else parquet_scan(parts, {})
    # NULL is written as an empty field, which reads as missing again.
    _copy(files.connect(), _query(scan, column, spans, mark), target)


def _query(scan: str, column: str, spans: Sequence[Span], mark: str) -> str:
    query = f"SELECT * EXCLUDE (pufferdp_row) REPLACE ({_marked(column, spans, mark)} AS {identifier(column)}) "
    return query + f"FROM (SELECT *, row_number() OVER () AS pufferdp_row FROM {scan})"


@files.reading()
def _rewrite_memory(source: MemoryFile, column: str, spans: Sequence[Span], mark: str) -> MemoryFile:
    with source.parts() as parts, files.connect() as connection:
        scan = csv_scan(parts)[:-1] + ", all_varchar = true)"
        found = connection.execute(_query(scan, column, spans, mark))
        return source.written([name for name, *_ in found.description or ()], iter(found.fetchall()))


def rewrite_frame(source: Source, column: str, spans: Sequence[Span], mark: str) -> Any:
    """A frame of the same kind with the mark in these rows; the column becomes text."""
    if isinstance(source, MemoryFile):
        return _rewrite_memory(source, column, spans, mark)
    frame: Any = nw.from_native(source)
    if isinstance(frame, nw.LazyFrame):
        frame = nw.from_native(frame.to_native().with_row_index("pufferdp_row"))
    else:
        frame = frame.with_row_index("pufferdp_row")
    row = nw.col("pufferdp_row").cast(nw.Int64) + 1
    hit: nw.Expr = nw.lit(False)
    for first, last in spans:
        hit = hit | ((row >= first) & (row <= last))
    value = nw.when(hit).then(nw.lit(mark)).otherwise(nw.col(column).cast(nw.String))
    return frame.with_columns(value.alias(column)).drop("pufferdp_row").to_native()


def _marked(column: str, spans: Sequence[Span], mark: str) -> str:
    rows_ = " OR ".join(f"pufferdp_row BETWEEN {first} AND {last}" for first, last in spans) or "FALSE"
    return f"CASE WHEN {rows_} THEN {literal(mark)} ELSE CAST({identifier(column)} AS VARCHAR) END"


def _copy(connection: duckdb.DuckDBPyConnection, query: str, target: Path) -> None:
    name = target.name.lower()
    if not name.endswith(ENDINGS):
        raise ParameterError(f"out is {str(target)!r}; its name must end in one of {', '.join(ENDINGS)}", value=target)
    options = "FORMAT parquet" if name.endswith(".parquet") else "FORMAT csv, HEADER"
    if ".tsv" in name:
        options += ", DELIMITER '\t'"
    if name.endswith(".gz"):
        options += ", COMPRESSION gzip"
    beside = target.with_name(f".{os.getpid()}.part.{target.name}")
    try:
        with files.reading():
            connection.execute(f"COPY ({query}) TO {literal(str(beside))} ({options})")
        beside.replace(target)
    except OSError as error:
        raise ParameterError(f"{str(target)!r} cannot be written: {error.strerror}", value=target) from None
    finally:
        with suppress(OSError):
            beside.unlink()
