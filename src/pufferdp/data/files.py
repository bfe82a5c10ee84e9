"""A CSV or Parquet file becomes a DuckDB relation. DuckDB's own errors never leave this package."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from pufferdp.data.layout import Columns, shorten
from pufferdp.data.spark import is_spark_error
from pufferdp.errors import DataError

MISSING_TEXTS = ("", "NA", "NaN", "nan", "null", "None")
_TEXT_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
_ACCEPTED = ".csv, .tsv or .txt (also with .gz), .parquet, or a folder of .parquet files"


def connect() -> duckdb.DuckDBPyConnection:
    """A private database in memory that may spill to the temporary folder, never to the working folder."""
    connection = duckdb.connect()
    spill = os.path.join(tempfile.gettempdir(), f"pufferdp-{os.getpid()}")
    connection.execute(f"SET temp_directory = {literal(spill)}")
    connection.execute("SET preserve_insertion_order = true")
    connection.execute("SET enable_progress_bar = false")
    # A time stamp without an offset must not depend on where the machine stands.
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def literal(text: str) -> str:
    """A string as DuckDB writes it."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A column name as DuckDB writes it."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def reading(what: str = "the data") -> Iterator[None]:
    """Turn the engines' errors into ours, cut to what helps: where, and why. Also works as a decorator."""
    try:
        yield
    except duckdb.Error as error:
        raise DataError(f"{what} could not be read: {_reason(error)}") from None
    except Exception as error:
        if not is_spark_error(error):
            raise
        # Spark's message may repeat data; the name of the error does not.
        raise DataError(f"{what} could not be read by Spark: {type(error).__name__}; see Spark's own log") from None


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
        return "there is not enough memory for it"
    return f"{where}cannot be parsed; check quotes and separators there"


def is_text_file(path: Path) -> bool:
    """Whether the file has no types of its own, judged by its ending."""
    return path.is_file() and path.name.lower().endswith(_TEXT_ENDINGS)


def scan_file(path: Path) -> tuple[duckdb.DuckDBPyConnection, str]:
    """A connection and the SQL of a scan over the file, all columns as they are."""
    if str(path) in ("", "."):
        raise DataError("the path of the data is empty; name a file", value=path)
    if not os.path.exists(path):  # Path.exists fails on names that are too long
        raise DataError(f"there is no file {str(path)[:200]!r}; check the path", value=path)
    if path.is_dir():
        parts = sorted(path.rglob("*.parquet"))
        if not parts:
            raise DataError(f"the folder {str(path)!r} holds no .parquet file; give a file or a folder of them")
        scan = f"read_parquet([{', '.join(literal(str(part)) for part in parts)}])"
    elif path.name.lower().endswith(".parquet"):
        scan = f"read_parquet({literal(str(path))})"
    elif is_text_file(path):
        scan = csv_scan(path)
    else:
        raise DataError(f"{str(path)!r} has an ending that is not known; it must be {_ACCEPTED}", value=path)
    if path.is_file() and path.stat().st_size == 0:
        raise DataError(f"{str(path)!r} is empty; a header and at least one row are needed", value=path)
    return connect(), scan


def csv_scan(path: Path, texts: tuple[str, ...] = (), whole: bool = False) -> str:
    """DuckDB's CSV reader, with everything fixed that would otherwise drop or reread rows silently."""
    options = [
        "header = true",
        "skip = 0",
        "comment = ''",
        "quote = '\"'",
        "escape = '\"'",
        f"nullstr = [{', '.join(literal(text) for text in MISSING_TEXTS)}]",
        "allow_quoted_nulls = true",
        f"sample_size = {-1 if whole else 20480}",
    ]
    if ".tsv" in path.name.lower():
        options.append("delim = '\\t'")
    if texts:
        options.append("types = {" + ", ".join(f"{literal(name)}: 'VARCHAR'" for name in texts) + "}")
    return f"read_csv({literal(str(path))}, {', '.join(options)})"


def column_names(connection: duckdb.DuckDBPyConnection, scan: str, path: Path) -> list[str]:
    """The names of the columns of a file."""
    with reading(repr(str(path))):
        names = list(connection.sql(f"SELECT * FROM {scan}").columns)
    if is_text_file(path) and len(names) == 1 and any(mark in names[0] for mark in ",;|\t"):
        raise DataError(
            f"{str(path)!r} does not split into columns: some line has more or fewer fields than the header "
            f"{shorten(names[0][:80])!r}",
            value=path,
        )
    return names


def load_csv(connection: duckdb.DuckDBPyConnection, path: Path, columns: Columns) -> duckdb.DuckDBPyRelation:
    """The columns under the names of their roles, and number, parsed once into DuckDB's own storage.

    All come in as text. DuckDB guesses types from the first rows, and then rounds 0.5 to an integer, cuts the time
    off a date and the offset off a time stamp without a word; here the type of the order is the one that fits all.
    """
    texts = tuple(name for role, name in columns.roles.items() if role != "order")
    with reading(repr(str(path))):
        _create(connection, columns, csv_scan(path, tuple(columns.roles.values())))
        if "order" in columns.roles and not _type_order(connection):
            # Day.month.year and the like: DuckDB's guess, made on all rows. Slow, and rare.
            _create(connection, columns, csv_scan(path, texts, whole=True))
        return connection.table("series")


def _create(connection: duckdb.DuckDBPyConnection, columns: Columns, scan: str) -> None:
    number = f"TRY_CAST({identifier(columns.roles['value'])} AS DOUBLE) AS number"
    picked = f"{picked_columns(columns)}, {number}"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE series AS SELECT {picked} FROM {scan}")


def picked_columns(columns: Columns) -> str:
    """What SQL selects: each column under the name of its role, and the number of the row where it is the order."""
    picked = [f"{identifier(name)} AS {identifier(role)}" for role, name in columns.roles.items()]
    return ", ".join([*picked, 'row_number() OVER () AS "order"'] if columns.numbered else picked)


_ORDER_TYPES = {
    # The pattern is what a text must look like besides being castable.
    "BIGINT": r"\s*[+-]?[0-9]+\s*",
    "DOUBLE": None,
    "TIMESTAMP_NS": r"[0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}([ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?",
    "TIMESTAMPTZ": None,
}


def _type_order(connection: duckdb.DuckDBPyConnection) -> bool:
    """Give the order column the first type that every text fits; False when none does."""
    for kind, pattern in _ORDER_TYPES.items():
        fits = f'TRY_CAST("order" AS {kind}) IS NOT NULL'
        if pattern is not None:
            fits += f' AND regexp_full_match("order", {literal(pattern)})'
        misfit = f'SELECT 1 FROM series WHERE "order" IS NOT NULL AND NOT ({fits}) LIMIT 1'
        if not connection.execute(misfit).fetchall():
            connection.execute(f'ALTER TABLE series ALTER "order" TYPE {kind}')
            return True
    return False
