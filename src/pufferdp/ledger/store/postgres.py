"""A ledger in PostgreSQL, for several machines. Charges on one data set queue for its row; the server keeps the order.

psycopg is the extra ``postgres`` and is imported here alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pufferdp.basics.errors import LedgerError
from pufferdp.ledger.store.base import Row, Session, Store

_MAKING: Final = 7_083_519_264
"""Number of the advisory lock that is held while tables are made."""


class PostgresStore(Store):
    """A ledger in a PostgreSQL database, for many writers on several machines."""

    locked = " FOR UPDATE"

    def __init__(self, url: str, wait: float) -> None:
        # A password must not get into messages, certificates or logs.
        super().__init__(re.sub(r"(password=)[^&]*", r"\1…", re.sub(r"://([^:/@]*):[^@]*@", r"://\1:…@", url)), wait)
        self._url = url

    def _connect(self) -> Any:
        try:
            import psycopg
        except ImportError:
            raise LedgerError(
                "a ledger in PostgreSQL needs psycopg: pip install 'pufferdp[postgres]', or keep the ledger in a file"
            ) from None
        self._error: type[Exception] = psycopg.Error
        with self._errors():
            connection = psycopg.connect(self._url, autocommit=True, connect_timeout=max(2, int(self.wait)))
            if connection.execute("SHOW fsync").fetchone() != ("on",):
                connection.close()
                raise LedgerError(
                    f"{self.place!r}: fsync is off, so a crash of the server could lose charges: turn it on"
                )
            if connection.execute("SHOW synchronous_commit").fetchone() == ("off",):
                connection.execute("SET synchronous_commit = on")
            connection.execute(f"SET lock_timeout = '{max(1, round(1000 * self.wait))}ms'")
        return connection

    def _ready(self, connection: Any) -> bool:
        with self._errors():
            # From the catalogue's rows: what to_regclass remembers may be older than a lock that was waited for.
            sql = "SELECT count(*) FROM pg_tables WHERE tablename = 'ledger_version' "
            sql += "AND schemaname = ANY (current_schemas(false))"
            return bool(connection.execute(sql).fetchone()[0])

    def _begin_schema(self, session: Session) -> None:
        list(session.rows("SELECT pg_advisory_xact_lock(?)", _MAKING))

    @contextmanager
    def _transaction(self, connection: Any, write: bool) -> Iterator[Session]:
        with self._errors():
            if connection.closed or connection.broken:  # the server was restarted
                self._connection = None
                connection = self.connection
            with connection.transaction():
                if not write:
                    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                yield _PostgresSession(connection)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            message = " ".join(str(error).split())
            raise LedgerError(f"ledger {self.place!r} cannot be used: {message}", value=self.place) from error


class _PostgresSession:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, sql: str, *values: object) -> None:
        self._connection.execute(sql.replace("?", "%s"), values)

    def many(self, sql: str, rows: Iterable[Row]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(sql.replace("?", "%s"), rows)

    def rows(self, sql: str, *values: object) -> Iterator[Row]:
        if "ORDER BY" not in sql:
            return iter(self._connection.execute(sql.replace("?", "%s"), values))
        return self._streamed(sql.replace("?", "%s"), values)

    def _streamed(self, sql: str, values: tuple[object, ...]) -> Iterator[Row]:
        """Long answers come in pieces, through a cursor on the server."""
        with self._connection.cursor(name="ledger_rows") as cursor:
            cursor.itersize = 20_000
            cursor.execute(sql, values)
            yield from cursor
