"""Every row of a source with its state, in the order of the rows, and a file with the states replaced."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import duckdb
import narwhals as nw
import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from pufferdp.basics.errors import ParameterError
from pufferdp.basics.words import shorten
from pufferdp.data import files
from pufferdp.data.expressions import coded, linked
from pufferdp.data.files import connect, reading
from pufferdp.data.layout import Coding, Columns, Counts, Layout, check_columns, columns_of, refuse_pair
from pufferdp.data.memory import MemoryFile
from pufferdp.data.parts import Parts, find_parts, identifier, literal, path_literal
from pufferdp.data.series import Series
from pufferdp.data.sources import Frame, Source, integers, open_source
from pufferdp.data.tables import Table, open_table, table_of

Codes = npt.NDArray[np.int16]
CHUNK: Final = 1 << 20
"""Rows brought to Python at a time."""
ENDINGS: Final = (".csv", ".csv.gz", ".parquet")


def row_codes(source: Source, layout: Layout, coding: Coding) -> Codes:
    """The state of each row that is read; negative where it is missing. A table without row order is sorted first."""
    refuse_pair(layout)
    unnumbered = isinstance(source, duckdb.DuckDBPyRelation)
    frame = coded(table_of(open_source(source, columns_of(layout, rows=not unnumbered)), layout), coding)
    people = [] if layout.by is None else ["person"]
    (codes,) = integers(frame.sort(*([*people, "order"] if unnumbered else ["row"])).select("code"))
    return codes.astype(np.int16)


@dataclass(frozen=True, kw_only=True, repr=False)
class FileRows:
    """The rows of a file, kept by DuckDB: in memory, or on disk where that is too small."""

    connection: duckdb.DuckDBPyConnection
    table: Table
    layout: Layout

    @classmethod
    @files.reading()
    def of(cls, path: str | os.PathLike[str], layout: Layout) -> FileRows:
        """Read a file once: the column, and those that say whose and when a row is, as they are written."""
        row_keys = {"when": layout.order, "person": layout.by}
        columns = Columns(
            roles={"value": layout.column, **{role: name for role, name in row_keys.items() if name is not None}},
            key="order",
            rows_in_order=columns_of(layout).rows_in_order,
        )
        connection = files.load_files(Path(path), columns)
        if layout.is_part:
            _keep_rows(connection, integers(open_table(path, layout, rows=True).frame.select("row"))[0])
        plain = Layout(column=layout.column, missing=layout.missing)
        table = table_of(nw.from_native(connection.table("series")), plain)
        return cls(connection=connection, table=table, layout=layout)

    @property
    def series(self) -> Series:
        """The rows as one chain, in their order."""
        return Series(self.table)

    @files.reading()
    def chunks(self, coding: Coding) -> Iterator[Codes]:
        """The states, so many rows at a time."""
        frame = coded(self.table, coding)
        total = int(self.connection.execute("SELECT count(*) FROM series").fetchall()[0][0])
        for begin in range(1, total + 1, CHUNK):
            part = frame.filter((nw.col("order") >= begin) & (nw.col("order") < begin + CHUNK))
            order, codes = integers(part.select("order", "code"))
            if (np.diff(order) <= 0).any():
                codes = codes[np.argsort(order)]
            yield codes.astype(np.int16)

    @files.reading("the output")
    def write(
        self, path: str | os.PathLike[str], coding: Coding, labels: tuple[str, ...], change: Callable[[Codes], Codes]
    ) -> None:
        """Write all rows with changed states, as names. Other columns are not written."""
        self.connection.execute("CREATE OR REPLACE TEMP TABLE changed (code SMALLINT)")
        for codes in self.chunks(coding):
            piece: dict[str, Any] = {"code": change(codes)}
            self.connection.register("piece", piece)
            self.connection.execute("INSERT INTO changed SELECT code FROM piece")
            self.connection.unregister("piece")
        names = {"person": self.layout.by, "when": self.layout.order}
        literals = ", ".join(literal(label) for label in labels)
        row_keys = [f"{identifier(role)} AS {identifier(name)}" for role, name in names.items() if name is not None]
        name = identifier(self.layout.column)
        column = f"CASE WHEN code < 0 THEN NULL ELSE ([{literals}])[code + 1] END AS {name}"
        query = f"SELECT {', '.join([*row_keys, column])} FROM series POSITIONAL JOIN changed"
        _copy(self.connection, query, Path(path))


def _keep_rows(connection: duckdb.DuckDBPyConnection, rows: NDArray[np.int64]) -> None:
    """Drop all rows of the table ``series`` but these, and number those that are left from 1."""
    wanted: dict[str, Any] = {"row": rows}
    connection.register("wanted", wanted)
    connection.execute(
        'CREATE OR REPLACE TEMP TABLE series AS SELECT * REPLACE (row_number() OVER (ORDER BY "order") AS "order") '
        'FROM series WHERE "order" IN (SELECT "row" FROM wanted) ORDER BY "order"'
    )
    connection.unregister("wanted")


Span = tuple[int, int]
"""First and last, counted from 1."""
Ints = NDArray[np.int64]
MOST_SPANS: Final = 20
"""More spans than this are looked up in a table; fewer are spelled out as bounds."""


@dataclass(frozen=True, kw_only=True)
class PlacedRows:
    """Where the rows that were asked about are. All of it is public."""

    count: int
    """Steps of the series: rows of the source, missing values included, and rows that are not there between them."""
    missing: int
    """How many steps have no value."""
    chains: tuple[Span, ...]
    """The chain of each row that was asked about, in positions and in their order; none twice."""
    positions: tuple[int, ...]
    """The position of each row that was asked about, as asked."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Placement:
    """A series opened with its rows, and every position in it."""

    series: Series
    coding: Coding

    @property
    def plain(self) -> bool:
        """Whether positions are rows."""
        return self.series.table.layout.order is None and self.series.table.layout.by is None

    @cached_property
    def counts(self) -> Counts:
        """Records, chains and ranges; counting rejects every row that cannot be read."""
        return self.series.counts(self.coding, ranges=True)

    @cached_property
    def _frame(self) -> Frame:
        """Columns row, place, code and start of a chain. Rows that are not there have a place, as missing values do."""
        table = self.series.table
        frame = coded(table, self.coding)
        if self.plain:
            # A chain starts where there is nothing before, and goes on past missing values.
            return frame.with_columns(place=nw.col("order"), start=nw.lit(0, nw.Int64))
        keys = [*table.people, "order"]
        # A new chain begins at the next place, however far away it lies.
        ahead = nw.when(nw.col("start") == 1).then(nw.lit(1, nw.Int64)).otherwise(nw.col("steps").cast(nw.Int64))
        place = nw.col("ahead").cum_sum().over(order_by=keys)
        # Rows without a value have a place of their own: a missing record is one that is never shown.
        rows = linked(table, frame.with_columns(state=nw.col("code"), code=nw.lit(0, nw.Int64)), missing=False)
        placed = rows.with_columns(ahead=ahead).with_columns(code=nw.col("state"), place=place.cast(nw.Int64))
        return _materialize(placed.select("row", "place", "code", "start").sort("place"))

    @reading()
    def find(self, private: Sequence[int]) -> PlacedRows:
        """Check every row of the source, and find those asked about."""
        counts = self.counts
        count = counts.records + counts.missing
        for row in private:
            if row > count:
                raise ParameterError(
                    f"private row is {row}; the data has {count} rows, and they are counted from 1", value=row
                )
        if self.plain:
            return PlacedRows(count=count, missing=counts.missing, chains=((1, count),), positions=tuple(private))
        ((count,),) = integers(self._frame.select(nw.col("place").max()))
        rows, places = integers(self._frame.filter(nw.col("row").is_in(sorted(set(private)))).select("row", "place"))
        where = dict(zip(rows.tolist(), places.tolist(), strict=True))
        positions = [where[row] for row in private]
        (cuts,) = integers(self._frame.filter(nw.col("start") == 1).select("place"))
        cuts = np.sort(cuts)
        # A chain runs from its start to the next one.
        chains = set()
        for position in positions:
            at = int(np.searchsorted(cuts, position, side="right"))
            chains.add((int(cuts[at - 1]), int(cuts[at]) - 1 if at < len(cuts) else int(count)))
        missing = int(count) - counts.records
        return PlacedRows(count=int(count), missing=missing, chains=tuple(sorted(chains)), positions=tuple(positions))

    @reading()
    def rows_between(self, first: str, last: str) -> list[int]:
        """The rows of the source in a segment of the order, both ends included; a date is the whole day."""
        table = self.series.table
        (rows,) = integers(table.frame.filter(table.inside(first, last)).select("row"))
        return sorted(rows.tolist())

    @reading()
    def states_at(self, spans: Sequence[Span]) -> tuple[Ints, Ints]:
        """Rows and states, as positions among the labels, of some segments of the series, one after the other.

        Where there is no row it is 0, and its state −1, as of a missing value.
        """
        if not spans:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        number, hit = "order" if self.plain else "row", _in_spans(nw.col("place"), spans)
        places, found, states = integers(self._frame.filter(hit).sort("place").select("place", number, "code"))
        wanted = np.concatenate([np.arange(first, last + 1) for first, last in spans])
        rows, codes = np.zeros(len(wanted), dtype=np.int64), np.full(len(wanted), -1, dtype=np.int64)
        at = np.searchsorted(wanted, places)
        rows[at], codes[at] = found, states
        return rows, codes


def _in_spans(number: nw.Expr, spans: Sequence[Span]) -> nw.Expr:
    """Whether a number lies in one of the spans."""
    if len(spans) > MOST_SPANS:
        return number.is_in([n for first, last in spans for n in range(first, last + 1)])
    inside: nw.Expr = nw.lit(False)
    for first, last in spans:
        inside = inside | ((number >= first) & (number <= last))
    return inside


def _materialize(frame: Frame) -> Frame:
    """A frame computed once: sorting again for every question would cost as much as reading the data."""
    native: Any = frame.to_native()
    if isinstance(native, duckdb.DuckDBPyRelation):
        # Temporary: for this connection alone, and gone with it. Frames share a database.
        native.query("placed", "CREATE OR REPLACE TEMP TABLE pufferdp_placed AS SELECT * FROM placed")
        placed: Frame = nw.from_native(native.query("placed", "SELECT * FROM pufferdp_placed"))
        return placed
    return frame.collect().lazy()


FLOW_ENDINGS: Final = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet")


def written_columns(source: Source, layout: Layout, keep: Sequence[str] = ()) -> tuple[str, ...]:
    """The columns of a rewritten source, in its order: the column, those that say whose and when, and those to keep.

    Others could give a value away, so they are left out. Refuses a column that is not there.
    """
    if isinstance(source, (str, os.PathLike, MemoryFile)):
        names = files.column_names(source)
    else:
        frame: Any = nw.from_native(source)
        names = frame.collect_schema().names()
    check_columns(names, columns_of(layout))
    for name in keep:
        check_columns(names, Columns(roles={"column to keep": name}, key="order"))
    wanted = {layout.column, layout.order, layout.by, *keep}
    return tuple(name for name in names if name in wanted)


def key_columns(source: Source, names: Sequence[str]) -> dict[str, list[str | None]]:
    """Some columns of a file or a frame as text, in the order of its rows."""
    if not names:
        return {}
    if isinstance(source, (str, os.PathLike, MemoryFile)):
        picked = ", ".join(f"CAST({identifier(name)} AS VARCHAR)" for name in names)
        with files.reading(), files.parts_of(source) as parts, files.connect() as connection:
            cells = connection.execute(f"SELECT {picked} FROM {files.text_scan(connection, parts, names)}").fetchall()
        return {name: [row[n] for row in cells] for n, name in enumerate(names)}
    frame: Any = nw.from_native(source)
    frame = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    return {name: frame[name].cast(nw.String).to_list() for name in names}


def rewrite_file(
    source: str | os.PathLike[str],
    column: str,
    spans: Sequence[Span],
    mark: str,
    out: str | Path,
    columns: Sequence[str],
) -> None:
    """Copy some columns of a file, with the mark for the values of one of them in these rows."""
    parts, connection = find_parts(Path(source)), files.connect()
    # NULL is written as an empty field, which reads as missing again.
    with files.reading():
        _copy(connection, _query(connection, parts, column, spans, mark, columns), Path(out))


def _query(
    connection: duckdb.DuckDBPyConnection,
    parts: Parts,
    column: str,
    spans: Sequence[Span],
    mark: str,
    columns: Sequence[str],
) -> str:
    scan = files.text_scan(connection, parts, columns)
    value = f"CASE WHEN {_hit(connection, spans)} THEN {literal(mark)} ELSE CAST({identifier(column)} AS VARCHAR) END"
    picked = [f"{value} AS {identifier(name)}" if name == column else identifier(name) for name in columns]
    query = f"SELECT {', '.join(picked)} FROM (SELECT *, row_number() OVER () AS pufferdp_row FROM {scan})"
    # Few spans are looked at row by row, as they stream by; a table of them is joined, which may change the order.
    return query + (" ORDER BY pufferdp_row" if len(spans) > MOST_SPANS else "")


@files.reading()
def _rewrite_memory(
    source: MemoryFile, column: str, spans: Sequence[Span], mark: str, columns: Sequence[str]
) -> MemoryFile:
    with source.parts() as parts, files.connect() as connection:
        result = connection.execute(_query(connection, parts, column, spans, mark, columns))
        return source.written([name for name, *_ in result.description or ()], iter(result.fetchall()))


def rewrite_frame(source: Source, column: str, spans: Sequence[Span], mark: str, columns: Sequence[str]) -> Any:
    """A frame of the same kind with some columns, and the mark in these rows of one of them; that one becomes text."""
    if isinstance(source, MemoryFile):
        return _rewrite_memory(source, column, spans, mark, columns)
    frame: Any = nw.from_native(source)
    if isinstance(frame, nw.LazyFrame):
        frame = nw.from_native(frame.to_native().with_row_index("pufferdp_row"))
    else:
        frame = frame.with_row_index("pufferdp_row")
    hit = _in_spans(nw.col("pufferdp_row").cast(nw.Int64) + 1, spans)
    value = nw.when(hit).then(nw.lit(mark)).otherwise(nw.col(column).cast(nw.String))
    return frame.with_columns(value.alias(column)).select(*columns).to_native()


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


@reading("the output")
def formula_warning(written: str | os.PathLike[str] | MemoryFile) -> str:
    """What to say of a written series with texts that a spreadsheet runs as formulas; nothing where it has none.

    A series keeps the names and other columns of its data as they are, because others join on them, so nothing is
    quoted here.
    """
    name = written.name if isinstance(written, MemoryFile) else os.fspath(written)
    if name.lower().endswith(".parquet"):
        return ""
    with files.parts_of(written) as parts, connect() as connection:
        scan = files.text_scan(connection, parts, ())
        names = connection.sql(f"SELECT * FROM {scan}").columns
        tests = [f"coalesce(bool_or({_runs(identifier(name))}), false) OR {_runs(literal(name))}" for name in names]
        (hits,) = connection.execute(f"SELECT {', '.join(tests)} FROM {scan}").fetchall()
    columns = [name for name, hit in zip(names, hits, strict=True) if hit]
    if not columns:
        return ""
    return (
        f"a spreadsheet runs texts of {shorten(columns)} as formulas, because they begin with = + - @ or a line end; "
        "import the file with these columns as text"
    )


def _runs(text: str) -> str:
    """SQL that is true where a spreadsheet takes a text for a formula."""
    return f"(regexp_matches({text}, '^[=+@\t\r\n-]') AND TRY_CAST({text} AS DOUBLE) IS NULL)"


def csv_to_parquet(source: Path, types: Mapping[str, str], target: Path) -> None:
    """Write a CSV file of ours as Parquet, its columns of these types of DuckDB's; an empty field is no value."""
    columns = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in types.items())
    scan = f"read_csv({path_literal(source)}, header = true, auto_detect = false, delim = ',', quote = '\"', "
    with connect() as connection:
        _copy(connection, f"SELECT * FROM {scan}escape = '\"', nullstr = '', columns = {{{columns}}})", target)


@reading("the table")
def parquet_rows(path: Path) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and the rows of a Parquet file that is small enough to be brought to Python."""
    with connect() as connection:
        relation = connection.sql(f"SELECT * FROM read_parquet({path_literal(path)})")
        return relation.columns, relation.fetchall()


def _copy(connection: duckdb.DuckDBPyConnection, query: str, target: Path) -> None:
    """Write the rows of a query, in the format that the name of the file says."""
    name = target.name.lower()
    options = "FORMAT parquet" if name.endswith(".parquet") else "FORMAT csv, HEADER"
    if name.endswith((".tsv", ".tsv.gz")):
        options += ", DELIMITER '\t'"
    if name.endswith(".gz"):
        options += ", COMPRESSION gzip"
    try:
        connection.execute(f"COPY ({query}) TO {literal(str(target))} ({options})")
    except duckdb.IOException as error:  # its message names files of ours
        full = "space" in str(error).lower()
        raise OSError(errno.ENOSPC if full else errno.EIO, os.strerror(errno.ENOSPC if full else errno.EIO)) from None
