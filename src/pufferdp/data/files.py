"""CSV and Parquet files become a DuckDB relation. The engines' own errors never leave this package."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import duckdb

from pufferdp.basics.errors import DataError
from pufferdp.basics.scratch import scratch_folder
from pufferdp.basics.words import shorten
from pufferdp.data.layout import Columns, check_columns, check_row_order
from pufferdp.data.memory import MemoryFile
from pufferdp.data.parts import (
    Parts,
    check_lines_of,
    check_parquet_size,
    csv_scan,
    find_parts,
    identifier,
    literal,
    parquet_scan,
    typed_condition,
)
from pufferdp.data.times import relation_times

_ENGINES: Final = ("polars", "pyo3_runtime", "pyarrow", "pandas", "narwhals")
"""The modules of errors that are not ours, a panic of Polars among them."""
_latest: list[weakref.ref[Any]] = []
"""The connection that was opened last: one scan runs at a time."""


def watch(connection: Any) -> None:
    """Ask this connection from now on."""
    _latest[:] = [weakref.ref(connection)]


def scanned() -> float | None:
    """The share of the running scan that is done, from 0 to 1; None where none runs or nobody knows."""
    connection = _latest[0]() if _latest else None
    percent = -1.0 if connection is None else float(connection.query_progress())
    return percent / 100 if 0 <= percent <= 100 else None


_shared: dict[tuple[int, str | None, str], duckdb.DuckDBPyConnection] = {}
"""The database that frames are scanned by, for this process, its limit of memory and its spill folder.

One of a process that forked stays here untouched: its threads are not there any more, and closing it would wait for
them.
"""


def connect_for_frame() -> duckdb.DuckDBPyConnection:
    """A connection for scanning one frame. Nothing is stored there, so that all share a database: one takes 10 ms."""
    key = os.getpid(), os.environ.get("PUFFERDP_MEMORY"), _spill_folder()
    if key not in _shared:
        _shared[key] = connect()
    connection = _shared[key].cursor()
    connection.execute("SET TimeZone = 'UTC'")
    watch(connection)
    return connection


def connect() -> duckdb.DuckDBPyConnection:
    """A private database in memory that may spill to a folder of our own."""
    connection = duckdb.connect()
    connection.execute(f"SET temp_directory = {literal(_spill_folder())}")
    if limit := os.environ.get("PUFFERDP_MEMORY"):  # by default DuckDB takes 80 % of the memory
        try:
            connection.execute(f"SET memory_limit = {literal(limit)}")
        except duckdb.Error:
            raise DataError(f"PUFFERDP_MEMORY is {limit!r}; it must be an amount such as 4GB", value=limit) from None
    connection.execute("SET preserve_insertion_order = true")
    # Counted on request, and never printed by DuckDB itself.
    connection.execute("SET enable_progress_bar = true")
    connection.execute("SET enable_progress_bar_print = false")
    # A time stamp without an offset must not depend on where the machine stands.
    connection.execute("SET TimeZone = 'UTC'")
    watch(connection)
    return connection


def _spill_folder() -> str:
    """Where DuckDB puts what does not fit into memory: rows as they are, so for nobody else; nowhere if it must be."""
    try:
        return str(scratch_folder())
    except OSError:
        return ""


@contextmanager
def reading(what: str = "the data") -> Iterator[None]:
    """Turn the engines' errors into ours, cut to what helps: where, and why. Also works as a decorator."""
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        raise DataError(f"{what} could not be read: {_reason(error)}") from None
    except BaseException as error:  # a panic of Polars is none of Python's own exceptions
        # Their messages repeat data; the names of the errors do not.
        if type(error) is RuntimeError and str(error) == "Query interrupted":  # Ctrl-C, as DuckDB raises it
            raise KeyboardInterrupt from None
        engine = type(error).__module__.partition(".")[0]
        if engine in ("pyspark", "py4j"):
            why = f"by Spark: {type(error).__name__}; see Spark's own log"
        elif engine in _ENGINES:
            why = f"({type(error).__name__}); look for numbers and times that are too large for their column"
        else:
            raise
        raise DataError(f"{what} could not be read {why}") from None


def _reason(error: duckdb.Error) -> str:
    """Where and why, in our own words: DuckDB's message repeats data and names its own settings."""
    text = str(error)
    line = re.search(r"Line: (\d+)", text)
    where = f"line {line[1]} " if line else "it "
    if "unicode" in text.lower() or "utf-8" in text.lower() or "utf8" in text.lower():
        return f"{where}is not UTF-8 text; save the file as UTF-8"
    if "columns" in text.lower() and line:
        return f"{where}has more or fewer fields than the header; give every line the same number"
    if "sniff" in text.lower():
        return "it is not a table of text: a header line and rows of equally many fields are needed"
    if "parquet" in text.lower() or "magic bytes" in text.lower():
        return "it is not a complete Parquet file; write it again"
    if "memory" in text.lower():
        return "it needs more memory than there is; set PUFFERDP_MEMORY to more, such as 8GB"
    return f"{where}cannot be parsed; check quotes and separators there"


FileSource = str | os.PathLike[str] | MemoryFile
"""A path that stands for files, or a file held in memory."""


def parts_of(source: FileSource) -> AbstractContextManager[Parts]:
    """The files of a source, while the block runs."""
    return source.parts() if isinstance(source, MemoryFile) else nullcontext(find_parts(Path(source)))


def open_files(source: FileSource, columns: Columns) -> duckdb.DuckDBPyRelation:
    """The columns of a file, a folder or a pattern under the names of their roles."""
    with parts_of(source) as parts:
        connection, scan = _scan(parts, columns)
        if parts.text or isinstance(source, MemoryFile):  # the bytes of a file in memory are there only in this block
            return _load(connection, scan, parts, columns)
    where = ""
    if columns.first is not None or columns.last is not None:
        kinds = connection.sql(f"SELECT {identifier(columns.roles['order'])} FROM {scan}").types
        where = typed_condition(columns, str(kinds[0]))
    return connection.sql(f"SELECT {picked_columns(columns)} FROM {scan}{where}")


def plain_scan(parts: Parts) -> str:
    """The SQL that reads files with the types they have."""
    return csv_scan(parts) if parts.text else parquet_scan(parts, {})


def text_scan(connection: duckdb.DuckDBPyConnection, parts: Parts, names: Sequence[str]) -> str:
    """The SQL that reads these columns of files as they are written: every cell of a text file is text."""
    if parts.text:
        return csv_scan(parts)[:-1] + ", all_varchar = true)"
    scan = parquet_scan(parts, {})
    check_parquet_size(connection, parts, scan, names)
    return scan


def column_names(source: FileSource) -> list[str]:
    """The columns of files; refuses what is no table."""
    with parts_of(source) as parts, connect() as connection:
        return _column_names(connection, plain_scan(parts), parts)


def time_columns(source: FileSource) -> list[str]:
    """The columns of files that hold times."""
    with parts_of(source) as parts, connect() as connection:
        return relation_times(connection.sql(f"SELECT * FROM {plain_scan(parts)}"))


def load_files(path: Path, columns: Columns) -> duckdb.DuckDBPyConnection:
    """The columns of files, read once into the table ``series`` of a database of its own."""
    parts = find_parts(path)
    connection, scan = _scan(parts, columns)
    _load(connection, scan, parts, columns)
    return connection


def _scan(parts: Parts, columns: Columns) -> tuple[duckdb.DuckDBPyConnection, str]:
    """A new database, and the SQL that reads the files in it; refuses a column that they do not have."""
    connection = connect()
    scan = csv_scan(parts) if parts.text else parquet_scan(parts, columns.roles)
    _check_columns(connection, scan, parts, columns)
    if not parts.text:
        check_parquet_size(connection, parts, scan, columns.roles.values())
    return connection, scan


def _check_columns(connection: duckdb.DuckDBPyConnection, scan: str, parts: Parts, columns: Columns) -> None:
    """Reject files without one of the columns, and files with times whose rows would be taken as they come."""
    names = _column_names(connection, scan, parts)
    check_columns(names, columns)
    with reading(repr(parts.name)):
        check_row_order(names, columns, lambda: relation_times(connection.sql(f"SELECT * FROM {scan}")))


def no_row_order(columns: Columns) -> DataError:
    """What is said of a table whose rows have no order of their own."""
    key = columns.key
    if columns.rows:
        return DataError("a table has no row order, and rows are named by their number; write it to a file first")
    return DataError(f"a table has no row order; name a column with {key}=")


def _column_names(connection: duckdb.DuckDBPyConnection, scan: str, parts: Parts) -> list[str]:
    if parts.text:
        check_lines_of(parts)
    with reading(repr(parts.name)):
        names = list(connection.sql(f"SELECT * FROM {scan}").columns)
    if parts.text and len(names) == 1 and any(mark in names[0] for mark in ",;|\t"):
        raise DataError(
            f"{parts.name!r} does not split into columns: some line has more or fewer fields than the header "
            f"{shorten(names[0][:80])!r}",
            value=parts.name,
        )
    return names


def _load(connection: duckdb.DuckDBPyConnection, scan: str, parts: Parts, columns: Columns) -> duckdb.DuckDBPyRelation:
    """The columns under the names of their roles, brought into DuckDB's own storage; of text files also number.

    All of a text file come in as text. DuckDB guesses types from the first rows, and then rounds 0.5 to an integer,
    cuts the time off a date and the offset off a time stamp without a word; here the type of the order is the one that
    fits all.
    """
    with reading(repr(parts.name)):
        if not parts.text:
            connection.execute(f"CREATE TEMP TABLE series AS SELECT {picked_columns(columns)} FROM {scan}")
            return connection.table("series")
        _create(connection, columns, csv_scan(parts, tuple(columns.roles.values())))
        if "order" in columns.roles and not type_order(connection, columns.roles["order"]):
            # Day.month.year and the like: DuckDB's guess, made on all rows. Slow, and rare.
            texts = tuple(name for role, name in columns.roles.items() if role != "order")
            _create(connection, columns, csv_scan(parts, texts, whole=True))
        return connection.table("series")


def _create(connection: duckdb.DuckDBPyConnection, columns: Columns, scan: str) -> None:
    number = f"TRY_CAST({identifier(columns.roles['value'])} AS DOUBLE) AS number"
    picked = f"{picked_columns(columns)}, {number}"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE series AS SELECT {picked} FROM {scan}")


def picked_columns(columns: Columns) -> str:
    """What SQL selects: each column under the name of its role, and the number of the row where it is the order."""
    picked = [f"{identifier(name)} AS {identifier(role)}" for role, name in columns.roles.items()]
    picked += ['row_number() OVER () AS "order"'] if columns.numbered else []
    picked += ['row_number() OVER () AS "row"'] if columns.rows else []
    return ", ".join(picked)


_NO_ZONE = r"[0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}([ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?"
"""A date or a time that does not say where."""
_ZONE = r".*:[0-9]{2}(\.[0-9]+)?\s*([Zz]|[+-][0-9]{2}(:?[0-9]{2}){0,2}|[A-Za-z]+(/[A-Za-z_]+)*)"
"""A time that says where, by a zone or an offset."""

_ORDER_TYPES = {
    # The pattern is what a text must look like besides being castable.
    "BIGINT": r"\s*[+-]?[0-9]+\s*",
    "DOUBLE": None,
    "TIMESTAMP_NS": _NO_ZONE,
    "TIMESTAMPTZ": None,
}


def type_order(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Give the order column, called so in the data, the first type that every text fits; False when none does."""
    for kind, pattern in _ORDER_TYPES.items():
        fits = f'TRY_CAST("order" AS {kind}) IS NOT NULL'
        if pattern is not None:
            fits += f' AND regexp_full_match("order", {literal(pattern)})'
        misfit = f'SELECT 1 FROM series WHERE "order" IS NOT NULL AND NOT ({fits}) LIMIT 1'
        if not connection.execute(misfit).fetchall():
            if kind == "TIMESTAMPTZ":
                _refuse_mixed_zones(connection, name)
            connection.execute(f'ALTER TABLE series ALTER "order" TYPE {kind}')
            return True
    return False


def _refuse_mixed_zones(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """A time without a zone among times with one would be taken for UTC, which nobody said.

    Times beyond the year 2262 fit no other type than these, though none of them has a zone.
    """
    zoned, bare = (f'regexp_full_match(trim("order"), {literal(pattern)})' for pattern in (_ZONE, _NO_ZONE))
    if not connection.execute(f"SELECT 1 FROM series WHERE {zoned} LIMIT 1").fetchall():
        return
    first = connection.execute(f'SELECT rowid + 1, "order" FROM series WHERE {bare} ORDER BY rowid LIMIT 1').fetchall()
    for row, text in first:
        raise DataError(
            f"{name!r} has times with a time zone and times without: row {row} is {shorten(text)!r}, which has none; "
            "write the zone, such as +01:00, in all rows or in none",
            value=text,
        )
