"""The files a path stands for, the SQL that reads them, and how much may be read.

A path is one file, a folder of Parquet files, a partitioned folder, or a pattern such as day-*.csv. Conditions leave
rows outside a segment where they are: in row groups of Parquet files, or in a database. They may let a few rows more
through, never fewer: what lies in the segment is decided in ``tables``, by one expression for every source. Rows
without a finite place pass too, and are refused there.
"""

from __future__ import annotations

import glob
import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pufferdp.basics.errors import DataError
from pufferdp.data.layout import Columns
from pufferdp.data.ranges import DAY, Moment, moment_text, read_ends, read_last, read_moment

if TYPE_CHECKING:
    import duckdb

_TEXT_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
_ACCEPTED = ".csv, .tsv or .txt (also with .gz), .parquet, .sqlite or .db (FILE::TABLE), or a folder of .parquet files"
MOST_COLUMNS: Final = 10_000
"""Columns of a text file; a reader that guesses takes time and memory that grow faster than their number."""
LONGEST_LINE: Final = 2_000_000
"""Bytes of one line of text."""
_SAMPLE: Final = 20_480
"""Lines that are looked at before anything is guessed from them."""
MISSING_TEXTS = ("", "NA", "NaN", "nan", "null", "None")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Files of one kind with the same columns."""

    name: str
    """The path as it was given."""
    paths: tuple[str, ...]
    text: bool
    """Whether the files have no types of their own."""
    partitions: tuple[str, ...] = ()
    """Columns whose values are in the names of folders, as in person=7/day=2024-05-01/part.parquet."""
    tabs: bool = False
    """Whether fields are separated by tabs, where the paths do not say so."""


def find_parts(path: Path) -> Parts:
    """The files of a path; refuse one that stands for none."""
    name = str(path)
    if os.path.isdir(path):
        # As Spark has it: what begins with _ or . is not data, unless it is the folder of a partition.
        files = [part for part in sorted(path.rglob("*.parquet")) if not _hidden(part.relative_to(path))]
        if not files:
            raise DataError(f"the folder {name!r} holds no .parquet file; give a file or a folder of them")
        paths, root = tuple(str(part) for part in files), path
    elif os.path.exists(path):  # Path.exists fails on names that are too long
        paths, root = (name,), path.parent
    elif paths := tuple(sorted(glob.glob(name, recursive=True))) if glob.has_magic(name) and "\0" not in name else ():
        root = Path()
    else:
        raise DataError(f"there is no file {name[:200]!r}; check the path", value=path)
    kinds = {_kind(part) for part in paths}
    if len(kinds) > 1:
        raise DataError(f"{name!r} stands for {' and '.join(sorted(kinds))} files; name one kind", value=path)
    if any(os.path.getsize(part) == 0 for part in paths):
        empty = next(part for part in paths if os.path.getsize(part) == 0)
        raise DataError(f"{empty!r} is empty; a header and at least one row are needed", value=path)
    text = kinds == {"text"}
    return Parts(name=name, paths=paths, text=text, partitions=() if text else _partitions(paths, root))


def _kind(path: str) -> str:
    if path.lower().endswith(_TEXT_ENDINGS):
        return "text"
    if path.lower().endswith(".parquet"):
        return "Parquet"
    raise DataError(f"{path!r} has an unknown ending; it must be {_ACCEPTED}", value=path)


def _hidden(path: Path) -> bool:
    return any(step[0] == "." or (step[0] == "_" and "=" not in step) for step in path.parts)


def _partitions(paths: tuple[str, ...], root: Path) -> tuple[str, ...]:
    """The names that every path has as name=value, below the folder that was given."""
    named = [[s.split("=", 1)[0] for s in Path(os.path.relpath(p, root)).parts[:-1] if "=" in s] for p in paths]
    return tuple(name for name in named[0] if all(name in others for others in named))


def parquet_scan(parts: Parts, roles: Mapping[str, str]) -> str:
    """DuckDB's Parquet reader, with everything fixed that would otherwise change values silently."""
    files = f"[{', '.join(map(path_literal, parts.paths))}]"
    # By name: otherwise the first file's types are everybody's, and 0.5 is read as 0.
    options = ["union_by_name = true"] if len(parts.paths) > 1 else []
    options.append(f"hive_partitioning = {'true' if parts.partitions else 'false'}")
    # People 01 and 1 are two, so only an order may be taken for a number or a date.
    texts = [name for role, name in roles.items() if role != "order" and name in parts.partitions]
    if texts:
        options.append("hive_types = {" + ", ".join(f"{literal(name)}: VARCHAR" for name in texts) + "}")
    return f"read_parquet({files}, {', '.join(options)})"


def csv_scan(parts: Parts, texts: tuple[str, ...] = (), whole: bool = False) -> str:
    """DuckDB's CSV reader, with everything fixed that would otherwise drop or reread rows silently."""
    options = [
        "header = true",
        "skip = 0",
        "comment = ''",
        "quote = '\"'",
        "escape = '\"'",
        f"nullstr = [{', '.join(literal(text) for text in MISSING_TEXTS)}]",
        "allow_quoted_nulls = true",
        "hive_partitioning = false",
        f"sample_size = {-1 if whole else _SAMPLE}",
        f"max_line_size = {LONGEST_LINE}",
    ]
    if len(parts.paths) > 1:
        options.append("union_by_name = true")
    if parts.tabs or any(".tsv" in os.path.basename(path).lower() for path in parts.paths):
        options.append("delim = '\\t'")
    if texts:
        options.append("types = {" + ", ".join(f"{literal(name)}: 'VARCHAR'" for name in texts) + "}")
    return f"read_csv([{', '.join(map(path_literal, parts.paths))}], {', '.join(options)})"


def check_lines_of(parts: Parts) -> None:
    """Refuse text that is no table which anybody would want read, before a reader guesses what it is."""
    for path in parts.paths:
        try:
            _check_lines(path, parts.name)
        except (OSError, EOFError, zlib.error):
            continue  # the reader reports it


def _check_lines(path: str, name: str) -> None:
    lines, rest = 0, b""
    with gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb") as file:
        while lines < _SAMPLE and (block := file.read(2 * LONGEST_LINE)):
            *whole, rest = (rest + block).replace(b"\r", b"\n").split(b"\n")
            whole.append(rest)
            if max(map(len, whole)) > MOST_COLUMNS:
                for n, line in enumerate(whole):
                    check_line(line, lines + n + 1, repr(name))
            lines += len(whole) - 1


def check_line(line: bytes, number: int, what: str) -> None:
    """Refuse a line that is too long or has too many fields."""
    if len(line) > LONGEST_LINE:
        raise DataError(
            f"line {number} of {what} is longer than {LONGEST_LINE:,} bytes; this is not a table of records"
        )
    # Only a long line can have so many fields, and only such a line is worth a second look: _check_lines knows.
    if len(line) > MOST_COLUMNS:
        fields = 1 + max(line.count(mark) for mark in (b",", b";", b"|", b"\t"))
        if fields > MOST_COLUMNS:
            raise DataError(
                f"line {number} of {what} has {fields:,} fields, and a table may have {MOST_COLUMNS:,} columns; write "
                "the columns that are needed to a file of their own",
                value=fields,
            )


def literal(text: str) -> str:
    """A string as DuckDB writes it."""
    return "'" + text.replace("'", "''") + "'"


def path_literal(path: str | os.PathLike[str]) -> str:
    """The SQL string for one file; DuckDB's readers take a name for a pattern, so its glob characters are escaped."""
    name = os.path.abspath(path)  # a leading ~ would be the home folder
    escaped = re.sub(r"[*?\[]", lambda mark: f"[{mark[0]}]", name)
    if os.sep == "/" and "\\" in name and escaped != name:  # DuckDB splits a pattern at a backslash
        raise DataError(f"{os.fspath(path)!r} has a backslash and one of * ? [ in its name; rename it", value=path)
    return literal(escaped)


def identifier(name: str) -> str:
    """A column name as DuckDB and PostgreSQL write it."""
    return '"' + name.replace('"', '""') + '"'


_UNITS: Final = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE"), "number"),
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_NS"), "time"),
    **dict.fromkeys(("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"), "utc"),
}
"""What the order is measured in, by DuckDB's name of its type; columns of other types come whole."""
_BEGINS_WITH_DATE: Final = "-".join(["[0-9]" * 4, "[0-9]" * 2, "[0-9]" * 2]) + "*"
_FAR: Final = 9_000 * 365 * DAY
"""Beyond this a date is no text with a year of four digits; such a bound is left out."""
_SQL_NAMES: Final = {"TIMESTAMP_NS": "TIMESTAMP", "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ"}


def typed_condition(columns: Columns, kind: str) -> str:
    """The condition on an order column of this type, in words that DuckDB and PostgreSQL share; empty for none."""
    unit = _UNITS.get(kind)
    if unit is None or columns.rows or columns.numbered or (columns.first is None and columns.last is None):
        return ""
    name = identifier(columns.roles["order"])
    # A microsecond to either side: neither engine need hold nanoseconds.
    first, last = _ends(columns, unit, 1000)
    bounds = [f"{name} {sign} {_literal(end, kind)}" for sign, end in ((">=", first), ("<=", last)) if end is not None]
    if not bounds:
        return ""
    odd = f" OR CAST({name} AS FLOAT8) IN ('NaN', 'Infinity', '-Infinity')" if kind in ("FLOAT", "DOUBLE") else ""
    return f" WHERE {name} IS NULL OR ({' AND '.join(bounds)}){odd}"


def untyped_condition(columns: Columns) -> str:
    """The same for SQLite, where each cell has a type of its own: numbers, and texts that begin with a date."""
    if columns.first is None and columns.last is None:
        return ""
    name = identifier(columns.roles["order"])
    try:
        unit, *_ = read_ends(columns.first, columns.last)
    except DataError:
        return ""  # rejected when it is known what the column holds
    # A text may have any time zone, which moves its date by a day at most.
    first, last = _ends(columns, unit, 0 if unit == "number" else DAY)
    if unit == "number":
        cell, other = name, f"typeof({name}) NOT IN ('integer', 'real')"
        texts = [None if end is None else repr(end) for end in (first, last)]
    else:
        cell, other = f"substr({name}, 1, 10)", f"{name} NOT GLOB {literal(_BEGINS_WITH_DATE)}"
        texts = [None if end is None else literal(str(moment_text(end, "time"))[:10]) for end in (first, last)]
    bounds = [f"{cell} {sign} {text}" for sign, text in zip((">=", "<="), texts, strict=True) if text is not None]
    return f" WHERE {name} IS NULL OR {other} OR ({' AND '.join(bounds)})" if bounds else ""


def _ends(columns: Columns, unit: str, margin: int) -> tuple[Moment | None, Moment | None]:
    first, last = read_moment(columns.first, unit), read_last(columns.last, unit)
    if unit == "number":
        return first, last
    near_first = None if first is None or abs(first) > _FAR else first - margin
    return near_first, None if last is None or abs(last) > _FAR else last + margin


def _literal(end: Moment, kind: str) -> str:
    if _UNITS[kind] == "number":
        return repr(end)
    text = str(moment_text(int(end) // 1000 * 1000, _UNITS[kind]))
    return f"DATE {literal(text[:10])}" if kind == "DATE" else f"{_SQL_NAMES.get(kind, kind)} {literal(text)}"


Piece = TypeVar("Piece", bound=bytes | bytearray | memoryview)
_LIMIT: Final = "PUFFERDP_DATA_LIMIT"
_DEFAULT: Final = "4GB"


def data_limit() -> int:
    """The bytes that the columns of a Parquet file or a database table may take once they are read."""
    text = os.environ.get(_LIMIT) or _DEFAULT
    amount = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?([kMGT])B", text)
    if amount is None:
        raise DataError(f"{_LIMIT} is {text!r}; it must be an amount such as {_DEFAULT}", value=text)
    return int(float(amount[1]) * 1000 ** ("kMGT".index(amount[2]) + 1))


def check_parquet_size(connection: duckdb.DuckDBPyConnection, parts: Parts, scan: str, names: Iterable[str]) -> None:
    """Reject Parquet files whose columns of these names take more than the limit once they are read.

    The sizes are those of the files' own metadata. There a text that is stored once and used in many rows counts
    once, so texts that could exceed the limit this way are measured by a scan, which keeps none of them.
    """
    limit, size, files = data_limit(), 0, ", ".join(path_literal(path) for path in parts.paths)
    for name in dict.fromkeys(names):
        inside = f"starts_with(lower(path_in_schema) || ', ', lower({literal(name + ', ')}))"  # nested ones too
        ((values, stored, text),) = connection.execute(
            "SELECT coalesce(sum(num_values), 0), coalesce(sum(total_uncompressed_size), 0), "
            f"coalesce(bool_or(type = 'BYTE_ARRAY'), false) FROM parquet_metadata([{files}]) WHERE {inside}"
        ).fetchall()
        least = max(stored, 8 * values)  # bytes: a value takes as many as a number, once it is read
        if text and size + least <= limit < size + stored * values:
            ((measured,),) = connection.execute(
                f"SELECT coalesce(sum(strlen(CAST({identifier(name)} AS VARCHAR))), 0) FROM {scan}"
            ).fetchall()
            least = max(least, measured)
        size += least
        if size > limit:
            raise _too_large(repr(parts.name), limit)


def within_limit(pieces: Iterable[Piece], what: str, texts: int) -> Iterator[Piece]:
    """Rows of so many texts as they come; rejects the one that exceeds the limit. DuckDB keeps 16 bytes for a text."""
    limit, size = data_limit(), 0
    for piece in pieces:
        size += len(piece) + 16 * texts
        if size > limit:
            raise _too_large(what, limit)
        yield piece


def _too_large(what: str, limit: int) -> DataError:
    return DataError(
        f"the columns of {what} take more than {limit / 1e9:g} GB once they are read; if they should, set "
        f"{_LIMIT} to more, such as {_LIMIT}={max(2 * limit / 1e9, 0.001):g}GB"
    )
