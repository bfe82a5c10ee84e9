"""A table written again with some values of one column replaced by a mark. Rows stream, however many there are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import duckdb
import narwhals as nw
import numpy as np

from pufferdp.data import files
from pufferdp.data.memory import MemoryFile
from pufferdp.data.parts import csv_scan, find_parts, identifier, literal, parquet_scan
from pufferdp.data.placing import Span
from pufferdp.data.sources import Source
from pufferdp.errors import ParameterError

ENDINGS: Final = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet")

MOST_SPANS: Final = 200
"""More spans than this are looked up in a table; fewer are spelled out."""


def rewrite_file(source: str | os.PathLike[str], column: str, spans: Sequence[Span], mark: str, out: str) -> None:
    """Copy a file, with the mark for the values of one column in these rows."""
    parts, connection = find_parts(Path(source)), files.connect()
    scan = csv_scan(parts)[:-1] + ", all_varchar = true)" if parts.text else parquet_scan(parts, {})
    # NULL is written as an empty field, which reads as missing again.
    _copy(connection, _query(connection, scan, column, spans, mark), Path(out))


def _query(connection: duckdb.DuckDBPyConnection, scan: str, column: str, spans: Sequence[Span], mark: str) -> str:
    value = f"CASE WHEN {_hit(connection, spans)} THEN {literal(mark)} ELSE CAST({identifier(column)} AS VARCHAR) END"
    query = f"SELECT * EXCLUDE (pufferdp_row) REPLACE ({value} AS {identifier(column)}) "
    query += f"FROM (SELECT *, row_number() OVER () AS pufferdp_row FROM {scan})"
    # Few spans are looked at row by row, as they stream by; a table of them is joined, which may change the order.
    return query + (" ORDER BY pufferdp_row" if len(spans) > MOST_SPANS else "")


@files.reading()
def _rewrite_memory(source: MemoryFile, column: str, spans: Sequence[Span], mark: str) -> MemoryFile:
    with source.parts() as parts, files.connect() as connection:
        scan = csv_scan(parts)[:-1] + ", all_varchar = true)"
        found = connection.execute(_query(connection, scan, column, spans, mark))
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
    if len(spans) <= MOST_SPANS:
        for first, last in spans:
            hit = hit | ((row >= first) & (row <= last))
    else:
        hit = row.is_in([n for first, last in spans for n in range(first, last + 1)])
    value = nw.when(hit).then(nw.lit(mark)).otherwise(nw.col(column).cast(nw.String))
    return frame.with_columns(value.alias(column)).drop("pufferdp_row").to_native()


def _hit(connection: duckdb.DuckDBPyConnection, spans: Sequence[Span]) -> str:
    """SQL that is true in these rows."""
    if len(spans) <= MOST_SPANS:
        return " OR ".join(f"pufferdp_row BETWEEN {first} AND {last}" for first, last in spans) or "FALSE"
    both: dict[str, Any] = {"first": np.array([a for a, _ in spans]), "last": np.array([b for _, b in spans])}
    connection.register("pufferdp_spans", both)
    connection.execute(
        'CREATE TEMP TABLE pufferdp_marked AS SELECT unnest(range("first", "last" + 1)) AS marked FROM pufferdp_spans'
    )
    return "pufferdp_row IN (SELECT marked FROM pufferdp_marked)"


def _copy(connection: duckdb.DuckDBPyConnection, query: str, target: Path) -> None:
    name = target.name.lower()
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
