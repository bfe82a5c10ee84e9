"""A ledger in one file: SQLite with a write-ahead log and full synchronous, on disk before a commit is acknowledged.

A charge is BEGIN IMMEDIATE, a few rows, COMMIT: SQLite lets one process write at a time and makes the others wait, up
to the busy timeout. COMMIT returns once the log is on disk. Afterwards the log is taken into the file itself, as far
as nobody is reading: charges that were acknowledged do not live in the log alone, which somebody may delete.

A connection does not survive a fork, not even unused. SQLite counts the locks of a process in memory and the system
drops them in the child, which would go on without: another process could then take itself for the last one and delete
the log under the child's hands. So connections are closed before a fork, and opened again by whoever needs them.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pufferdp.basics.errors import LedgerError
from pufferdp.ledger.store.base import Row, Session, Store

_ERRORS: Final = (sqlite3.Error, OSError)
_PAUSE: Final = 0.04
"""Seconds between two attempts to write, at most."""
_PATIENCE: Final = 0.1
"""Seconds of waiting after which one looks twice as often, three times after twice as many."""


_FileState = tuple[int, int, int]


class SqliteStore(Store):
    """A file on a local disk."""

    def __init__(self, place: str, wait: float, create: bool) -> None:
        super().__init__(place, wait)
        self._create = create
        # Connections come and go; a change of folder must not lead the next one to another file.
        self._path = os.path.realpath(place)
        path = Path(self._path)
        if path.is_dir():
            raise LedgerError(f"ledger {place!r} is a folder; name a file in it", value=place)
        if not create and not path.exists():
            raise LedgerError(f"ledger {place!r} does not exist; make it with ledger create", value=place)
        if not path.parent.is_dir():
            raise LedgerError(f"ledger is {place!r}, but there is no folder {str(path.parent)!r}", value=place)
        self._crowded = False
        """Whether the last turn had to be waited for."""
        self._read_only = False
        self._unlocked: _FileState | None = None
        """Of a connection without locks: the file as it was when it was opened."""
        _OPEN.add(self)

    def open(self, create: bool) -> None:
        """Make the tables where asked to; from then on a file that is gone is missed and not made anew."""
        super().open(create)
        self._create = False

    def _connect(self) -> sqlite3.Connection:
        if self._path in _LOST:
            raise LedgerError(
                f"ledger {self.place!r} was in use when this process was forked, and cannot be used here: "
                "fork between charges, or start a new process",
                value=self.place,
            )
        folder = os.path.dirname(self._path)
        self._read_only = os.path.exists(self._path) and not all(os.access(p, os.W_OK) for p in (self._path, folder))
        with self._errors():
            if self._read_only:
                return self._connect_to_read()
            connection = self._connect_with(f"mode={'rwc' if self._create else 'rw'}")
            try:
                connection.execute("PRAGMA synchronous = FULL")
                if self._create or self._ready(connection):  # a file that is no ledger stays as it is
                    self._start_log(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _connect_with(self, options: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"file:{quote(self._path)}?{options}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=self.wait,
        )

    def _connect_to_read(self) -> sqlite3.Connection:
        """For who may not write: without making a -wal or -shm, which would then be theirs and lock the owner out."""
        log, shared = Path(self._path + "-wal"), Path(self._path + "-shm")
        if log.exists() and shared.exists():
            return self._connect_with("mode=ro&readonly_shm=1")
        if log.exists() and log.stat().st_size:
            raise LedgerError(
                f"ledger {self.place!r} has a log that was not taken in yet, which takes the right to write: let its "
                "owner run ledger show once",
                value=self.place,
            )
        # No log: nobody is at work, and the file is all there is. Reading checks that it stays so.
        self._unlocked = self._state()
        return self._connect_with("mode=ro&immutable=1")

    def _start_log(self, connection: sqlite3.Connection) -> None:
        """Make sure of the write-ahead log, which the file remembers. Others may be doing so at the same moment."""
        deadline = time.monotonic() + self.wait
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                break
            except sqlite3.OperationalError as error:
                if not _busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(_pause())
        if mode != "wal":
            raise LedgerError(
                f"ledger {self.place!r} lies on a file system without shared memory, so that processes cannot share "
                "it safely; keep it on a local disk, or in PostgreSQL",
                value=self.place,
            )

    def _ready(self, connection: sqlite3.Connection) -> bool:
        with self._errors():
            sql = "SELECT count(*) FROM sqlite_master WHERE name = 'ledger_version'"
            return bool(connection.execute(sql).fetchone()[0])

    def _begin_schema(self, session: Session) -> None:
        """BEGIN IMMEDIATE has done it."""

    def problems(self) -> list[str]:
        """SQLite's own check of its pages."""
        with self._turn, self._errors():
            lines = [row[0] for row in self.connection.execute("PRAGMA quick_check(5)")]
        return [] if lines == ["ok"] else [f"the file is damaged: {text}" for text in lines]

    def _transaction(self, connection: sqlite3.Connection, write: bool) -> AbstractContextManager[Session]:
        return self._writing(connection) if write else self._reading(connection)

    @contextmanager
    def _reading(self, connection: sqlite3.Connection) -> Iterator[Session]:
        with self._errors():
            connection.execute("BEGIN")
            try:
                yield _SqliteSession(connection)
            finally:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if self._unlocked is not None and self._state() != self._unlocked:
                self.close()
                raise LedgerError(f"ledger {self.place!r} was written to while it was read; try again")

    def _state(self) -> _FileState:
        status = os.stat(self._path)
        return status.st_ino, status.st_size, status.st_mtime_ns

    def close(self) -> None:
        """Let go of the file. The last one to do so takes the log in and removes it."""
        super().close()
        self._unlocked = None

    @contextmanager
    def _writing(self, connection: sqlite3.Connection) -> Iterator[Session]:
        if self._read_only:
            raise LedgerError(
                f"ledger {self.place!r} cannot be written to by this user; a charge writes the file and, in its "
                "folder, a log",
                value=self.place,
            )
        with self._errors():
            self._begin(connection)
            try:
                yield _SqliteSession(connection)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
        # The charge is on disk. What fails here, or is kept up by readers, is made good by the next checkpoint.
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _begin(self, connection: sqlite3.Connection) -> None:
        """BEGIN IMMEDIATE, waited for in a way that is fair.

        SQLite's own waiting sleeps longer each time, so that late comers overtake: of fifty processes some had no turn
        in ten seconds. Here whoever has waited longer looks more often, and whoever had to wait for the last turn
        takes no part in the next race before the others have had a chance to.
        """
        began = time.monotonic()
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            if self._crowded:
                time.sleep(_pause())
            self._crowded = False
            while True:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if not _busy(error):
                        raise
                waited, self._crowded = time.monotonic() - began, True
                if waited > self.wait:
                    raise LedgerError(
                        f"ledger {self.place!r} was busy for {self.wait:g} s, and nothing was charged; try again, and "
                        "if it stays busy look for a process that holds it",
                        value=self.place,
                    )
                time.sleep(_pause() / (1 + waited / _PATIENCE))
        finally:
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * self.wait)}")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _ERRORS as error:
            raise LedgerError(f"ledger {self.place!r} cannot be used: {error}", value=self.place) from error

    def before_fork(self) -> bool:
        """Wait for other threads and close the connection; False where this thread is inside a transaction."""
        held = self._turn.acquire(timeout=self.wait)
        if held and self._connection is not None and not self._connection.in_transaction:
            self.close()
        return held

    def after_fork_in_parent(self, held: bool) -> None:
        """Let other threads go on."""
        if held:
            self._turn.release()

    def after_fork_in_child(self) -> None:
        """A lock of one's own; a connection that could not be closed is kept for ever, since closing it does harm."""
        self._turn = threading.RLock()
        if self._connection is not None:
            _LOST[self._path] = self._connection
            self._connection = None


def _pause() -> float:
    """Seconds before the next attempt, spread so that those who wait do not all look at once."""
    return os.urandom(1)[0] / 256 * _PAUSE


def _busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # the low byte; the others say of what kind


_OPEN: Final = weakref.WeakSet[SqliteStore]()
_HELD: Final[list[tuple[SqliteStore, bool]]] = []
_LOST: Final[dict[str, sqlite3.Connection]] = {}
"""Files that were in use when this process was forked, and the connections that must not be closed."""


def _before_fork() -> None:
    _HELD.extend((store, store.before_fork()) for store in list(_OPEN))


def _after_fork_in_parent() -> None:
    while _HELD:
        store, held = _HELD.pop()
        store.after_fork_in_parent(held)


def _after_fork_in_child() -> None:
    while _HELD:
        _HELD.pop()[0].after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


class _SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, *values: object) -> None:
        self._connection.execute(sql, values)

    def many(self, sql: str, rows: Iterable[Row]) -> None:
        self._connection.executemany(sql, rows)

    def rows(self, sql: str, *values: object) -> Iterator[Row]:
        return iter(self._connection.execute(sql, values))
