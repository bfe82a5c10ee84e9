"""Tables of PostgreSQL and SQLite, brought into DuckDB's own storage row by row: the memory needed does not grow.

DuckDB's own readers of both are extensions that it fetches from the network when first used; nothing is fetched here.
A table passes through a file that only its owner can read and that is gone when the table has been read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, BinaryIO, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import duckdb

from pufferdp.basics.errors import DataError
from pufferdp.basics.extras import install_advice
from pufferdp.basics.scratch import scratch
from pufferdp.basics.words import redacted_message, shorten
from pufferdp.data import files
from pufferdp.data.layout import Columns, check_columns
from pufferdp.data.parts import identifier, literal, path_literal, typed_condition, untyped_condition, within_limit

Load = Callable[[], duckdb.DuckDBPyRelation]
_SERVERS: Final = ("postgresql://", "postgres://")
_FILES: Final = (".sqlite", ".sqlite3", ".db")
_STEPS: Final = 1_000_000
"""Steps of SQLite's machine, some hundredths of a second, between two looks for Ctrl-C."""
_TYPES: Final = {
    **dict.fromkeys(("int2", "int4", "int8"), "BIGINT"),
    **dict.fromkeys(("float4", "float8", "numeric"), "DOUBLE"),
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "uuid", "citext"), "VARCHAR"),
    "bool": "BOOLEAN",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
}
"""What a type of PostgreSQL becomes; enumerations become text."""


def is_database(source: str) -> bool:
    """Whether this names a database, or a table in one."""
    return source.startswith(_SERVERS) or source.partition("::")[0].lower().endswith(_FILES)


def open_database(source: str, columns: Columns) -> duckdb.DuckDBPyRelation:
    """The columns of a table under the names of their roles."""
    if columns.numbered or columns.rows:
        raise files.no_row_order(columns)
    return _open_postgres(source, columns) if source.startswith(_SERVERS) else _open_sqlite(source, columns)


def _open_postgres(url: str, columns: Columns) -> duckdb.DuckDBPyRelation:
    try:
        import psycopg
    except ImportError:
        raise DataError(f"a PostgreSQL table needs psycopg; {install_advice('postgres')}") from None
    try:
        address, table = _table_of(url)
        psycopg.conninfo.conninfo_to_dict(address)
    except (ValueError, psycopg.Error):  # it may hold a password, which is not repeated
        raise DataError(
            "the URL cannot be read; it must be like postgresql://user@host:5432/database?table=visits, with odd "
            "characters as %40"
        ) from None
    try:
        with psycopg.connect(address, application_name="pufferdp") as server:
            server.read_only = True
            # Times leave the server in one zone and one spelling, whatever it is set to.
            server.execute("SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'iso_8601'")
            name, kinds = _describe(server, table)
            check_columns(list(kinds), columns)
            types = {role: _type_of(role, column, kinds[column]) for role, column in columns.roles.items()}
            casts = {"DOUBLE": "::float8", "VARCHAR": "::text"}
            picked = (identifier(name) + casts.get(types[role], "") for role, name in columns.roles.items())
            rows = f"SELECT {', '.join(picked)} FROM {name}{typed_condition(columns, types.get('order', ''))}"
            order = f"COPY ({rows}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)"
            with _through_a_file(types) as (file, load), server.cursor() as cursor:
                with cursor.copy(order) as stream:
                    file.writelines(within_limit(stream, repr(table), len(types)))
                return load()
    except psycopg.Error as error:
        # The server's own words may repeat data; those about the connection do not.
        connecting = isinstance(error, psycopg.OperationalError)
        why = redacted_message(error, address) if connecting else type(error).__name__
        raise DataError(f"PostgreSQL table {table!r} could not be read: {why}; check the URL and your rights") from None


def _table_of(url: str) -> tuple[str, str]:
    """The address of the database, and the table that the URL names."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    tables = [value for key, value in options if key == "table"]
    if len(tables) != 1 or not tables[0]:
        raise DataError(
            "the URL names no table; end it with ?table=NAME or ?table=SCHEMA.NAME, "
            "as in postgresql://user@host/database?table=visits"
        )
    rest = urlencode([(key, value) for key, value in options if key != "table"])
    return urlunsplit(parts._replace(query=rest)), tables[0]


def _describe(server: Any, table: str) -> tuple[str, dict[str, tuple[str, str]]]:
    """The table as SQL writes it, and the type of each column: its name, and e for an enumeration."""
    # As it is written, or in small letters: PostgreSQL itself has made those of a name without quotes.
    for written in (table, table.lower()):
        spelling = ".".join(identifier(step) for step in written.split("."))
        ((oid, name),) = server.execute(
            "SELECT to_regclass(%s)::oid, to_regclass(%s)::text", (spelling, spelling)
        ).fetchall()
        if oid is not None:
            break
    else:
        there = server.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
            "WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1 LIMIT 1000"
        ).fetchall()
        tables = f"the tables are {shorten([row[0] for row in there])}" if there else "there is no table in it"
        raise DataError(f"there is no table {table!r} in the database; {tables}", value=table)
    kinds = server.execute(
        "SELECT attname, typname, typtype::text FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid "
        "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        (oid,),
    ).fetchall()
    return name, {column: (kind, sort) for column, kind, sort in kinds}


def _type_of(role: str, column: str, kind: tuple[str, str]) -> str:
    name, sort = kind
    if sort != "e" and name not in _TYPES:
        raise DataError(f"the column {column!r} holds values of type {name}; cast it in a view", value=column)
    # People whose numbers have many digits must not fall together as doubles.
    return "VARCHAR" if sort == "e" or (role in ("person", "id") and name == "numeric") else _TYPES[name]


def _open_sqlite(source: str, columns: Columns) -> duckdb.DuckDBPyRelation:
    path, _, table = source.partition("::")
    if not os.path.isfile(path):  # also where the name is too long for a file
        raise DataError(f"there is no file {path[:200]!r}; check the path", value=path)
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as database:
            # Python looks for Ctrl-C only where it runs a line of its own, and a view may go on without giving a row.
            database.set_progress_handler(lambda: 0, _STEPS)
            # A view may call no function that does more than compute.
            database.execute("PRAGMA trusted_schema = OFF")
            query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
            tables = [name for (name,) in database.execute(f"{query} ORDER BY name")]
            if table not in tables:
                if table or len(tables) != 1:
                    problem = f"there is no table {table!r}" if table else "name a table"
                    there = f"the tables are {shorten(tables)}" if tables else "it has no table"
                    raise DataError(f"{problem} of {path!r}, as in {path}::TABLE; {there}", value=table)
                (table,) = tables
            names = [row[1] for row in database.execute(f"PRAGMA table_info({identifier(table)})")]
            check_columns(names, columns)
            picked = ", ".join(identifier(column) for column in columns.roles.values())
            # A column of SQLite has no type: all come as text, and the order gets the type that fits.
            with _through_a_file(dict.fromkeys(columns.roles, "VARCHAR"), untyped=columns) as (file, load):
                query = f"SELECT {picked} FROM {identifier(table)}{untyped_condition(columns)}"
                lines = _lines(database.execute(query), columns)
                file.writelines(within_limit(lines, repr(source), len(columns.roles)))
                return load()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            raise KeyboardInterrupt from None
        raise DataError(
            f"{path!r} could not be read by SQLite: {type(error).__name__}; check that it is whole"
        ) from None


def _lines(rows: Iterable[tuple[Any, ...]], columns: Columns) -> Iterator[bytes]:
    for row in rows:
        cells = []
        for cell, column in zip(row, columns.roles.values(), strict=True):
            if isinstance(cell, bytes):
                raise DataError(f"the column {column!r} holds bytes; it must hold text or numbers", value=column)
            cells.append("" if cell is None else identifier(cell if isinstance(cell, str) else repr(cell)))
        yield (",".join(cells) + "\n").encode()


@contextmanager
def _through_a_file(types: Mapping[str, str], *, untyped: Columns | None = None) -> Iterator[tuple[BinaryIO, Load]]:
    """A file to write lines to, every field quoted but missing ones, and a call that loads what was written.

    ``untyped`` are columns whose texts tell what they hold.
    """
    with scratch() as folder:
        path = folder / "table.csv"

        def load() -> duckdb.DuckDBPyRelation:
            file.flush()
            connection = files.connect()
            kinds = ", ".join(f"{literal(role)}: {literal(kind)}" for role, kind in types.items())
            scan = (
                f"read_csv({path_literal(path)}, auto_detect = false, header = false, delim = ',', quote = '\"', "
                f"escape = '\"', nullstr = '', allow_quoted_nulls = false, columns = {{{kinds}}})"
            )
            with files.reading("the table"):
                number = ", TRY_CAST(value AS DOUBLE) AS number" if untyped is not None else ""
                connection.execute(f"CREATE TEMP TABLE series AS SELECT *{number} FROM {scan}")
                if untyped is not None and "order" in types:
                    files.type_order(connection, untyped.roles["order"])
            return connection.table("series")

        with open(path, "wb") as file:
            yield file, load
