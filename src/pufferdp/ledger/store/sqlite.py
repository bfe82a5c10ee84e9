"""A ledger in one file: SQLite with a write-ahead log, on disk before a commit is acknowledged.

SQLite's own full synchronous writes to disk inside the transaction. Here a transaction ends in the log, and then its
owner waits for the disk before anybody is told. The order is kept: the log is read back up to the first frame that is
missing, and what was written to disk for one charge holds all that came before it. So a charge that was acknowledged is
never lost, and neither is any that it was added to. Where the system has no fdatasync, SQLite's own way is taken.

Whose turn it is to write, and how one process writes for others who wait, is in turns.py.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pufferdp.basics.errors import LedgerError
from pufferdp.ledger.store.base import Row, Session, Settle, Store
from pufferdp.ledger.store.group_commit import LARGEST, Turns

_OWN_SYNC: Final = sys.platform == "linux"
_ERRORS: Final = (sqlite3.Error, OSError)


class SqliteStore(Store):
    """A file on a local disk."""

    def __init__(self, place: str, wait: float, create: bool) -> None:
        super().__init__(place, wait)
        self._create = create
        path = Path(place)
        if path.is_dir():
            raise LedgerError(f"ledger {place!r} is a folder; name a file in it", value=place)
        if not create and not path.exists():
            raise LedgerError(f"ledger {place!r} does not exist; make it with ledger create", value=place)
        if not path.parent.is_dir():
            raise LedgerError(f"ledger is {place!r}, but there is no folder {str(path.parent)!r}", value=place)
        self._turns = Turns(place + "-queue", wait)
        self.shares = self._turns.shares

    def _connect(self) -> sqlite3.Connection:
        mode = "rwc" if self._create else "rw"
        with self._errors():
            connection = sqlite3.connect(
                f"file:{quote(self.place)}?mode={mode}",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
                timeout=self.wait,
            )
            if self._create:
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'NORMAL' if _OWN_SYNC else 'FULL'}")
            found = connection.execute("PRAGMA journal_mode").fetchone()[0]
        if found != "wal":
            raise LedgerError(f"ledger {self.place!r} has no write-ahead log but {found!r}; copy it with ledger export")
        return connection

    def _ready(self, connection: sqlite3.Connection) -> bool:
        with self._errors():
            sql = "SELECT count(*) FROM sqlite_master WHERE name = 'ledger_version'"
            return bool(connection.execute(sql).fetchone()[0])

    def close(self) -> None:
        """Let go of the file and of the queue."""
        super().close()
        self._turns.close()

    def _begin_schema(self, session: Session) -> None:
        """BEGIN IMMEDIATE has done it."""

    def problems(self) -> list[str]:
        """SQLite's own check of its pages."""
        with self._turn, self._errors():
            found = [row[0] for row in self.connection.execute("PRAGMA quick_check(5)")]
        return [] if found == ["ok"] else [f"the file is damaged: {text}" for text in found]

    def _transaction(self, connection: sqlite3.Connection, write: bool) -> AbstractContextManager[Session]:
        return self._writing(connection) if write else self._reading(connection)

    @contextmanager
    def _reading(self, connection: sqlite3.Connection) -> Iterator[Session]:
        with self._errors():
            connection.execute("BEGIN")
            try:
                yield _SqliteSession(connection)
            finally:
                connection.execute("ROLLBACK")

    @contextmanager
    def _writing(self, connection: sqlite3.Connection) -> Iterator[Session]:
        with self._errors():
            with self._turns.turn(), self._commit(connection) as session:
                yield session
            self._to_disk()

    def share(self, request: bytes, settle: Settle) -> bytes:
        """Written by whoever writes now, together with what others ask for."""
        if not self.shares or len(request) > LARGEST:
            return super().share(request, settle)

        def write(requests: list[bytes]) -> list[bytes]:
            with self._commit(self.connection) as session:
                return settle(session, requests)

        with self._turn:
            try:
                return self._turns.share(request, write, self._to_disk)
            except _ERRORS as error:
                raise self._unusable(error) from error

    @contextmanager
    def _commit(self, connection: sqlite3.Connection) -> Iterator[Session]:
        """A transaction that ends in the log, and is not yet on disk."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield _SqliteSession(connection)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def _to_disk(self) -> None:
        """Wait until the log is on disk. It cannot be another file than the one written to while we are connected."""
        if not _OWN_SYNC:
            return
        handle = os.open(self.place + "-wal", os.O_RDWR)
        try:
            os.fdatasync(handle)
        finally:
            os.close(handle)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _ERRORS as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> LedgerError:
        return LedgerError(f"ledger {self.place!r} cannot be used: {error}", value=self.place)


class _SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, *values: object) -> None:
        self._connection.execute(sql, values)

    def many(self, sql: str, rows: Iterable[Row]) -> None:
        self._connection.executemany(sql, rows)

    def rows(self, sql: str, *values: object) -> Iterator[Row]:
        return iter(self._connection.execute(sql, values))
