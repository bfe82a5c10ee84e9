"""A ledger in one file: SQLite with a write-ahead log and full synchronous, on disk before a commit is acknowledged.

A charge is BEGIN IMMEDIATE, a few rows, COMMIT: SQLite lets one process write at a time and makes the others wait, up
to the busy timeout. COMMIT returns once the log is on disk. Afterwards the log is taken into the file itself, as far
as nobody is reading: charges that were acknowledged do not live in the log alone, which somebody may delete. Where
little is going on the log is emptied, too.

A file can be moved, replaced or deleted under an open connection, which would go on writing to what nobody opens any
more. So the path is resolved once, and before and after each charge it must still lead to the file that was opened,
and beside it to the log that was.

A connection does not survive a fork, not even unused. SQLite counts the locks of a process in memory and the system
drops them in the child, which would go on without: another process could then take itself for the last one and delete
the log under the child's hands. So connections are closed before a fork, and opened again by whoever needs them.

For the same reason nothing here opens the file but SQLite: to close it once more would drop this process's locks.
"""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pufferdp.basics.errors import LedgerError
from pufferdp.basics.scratch import scratch
from pufferdp.ledger.store import schema, sqlite_check
from pufferdp.ledger.store.base import Row, Session, Store, migrate, unknown_charge

_ERRORS: Final = (sqlite3.Error, OSError, MemoryError, UnicodeDecodeError)
_PAUSE: Final = 0.04
"""Seconds between two attempts to write, at most."""
_PATIENCE: Final = 0.1
"""Seconds of waiting after which one looks twice as often, three times after twice as many."""
_BUSY: Final = 1.0
"""Seconds between two charges below which more are taken to follow."""
_SETTLED: Final = 0.05
"""Seconds after which the time of a file's last change tells it from the next one: the grain of its clock, and more."""
_NOT_MADE: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
"""Errors of a COMMIT whose last frame was not written, so that nobody will ever read it as made."""

_FileState = tuple[int, int, int, int]


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
            raise LedgerError(f"ledger {place!r} does not exist; make it with Ledger(place, create=True)", value=place)
        if not path.parent.is_dir():
            raise LedgerError(f"ledger is {place!r}, but there is no folder {str(path.parent)!r}", value=place)
        if create and not path.exists() and _size(self._path + "-wal"):
            raise LedgerError(
                f"ledger {place!r} does not exist, but its log {self._path + '-wal'!r} does: the ledger was moved or "
                "deleted without it. Put it back, or take the log away, before another is made",
                value=place,
            )
        self._file: tuple[int, int] | None = None
        """Device and number of the file that was opened first; of no other is anything read or written."""
        self._log: tuple[int, int] | None = None
        """The same of the log that the connection has open."""
        self._crowded = False
        """Whether the last turn had to be waited for."""
        self._last = -math.inf
        """When something was written last."""
        self._read_only = False
        self._unlocked: _FileState | None = None
        """Of a connection without locks: the file as it was when it was opened."""

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
        self._read_only = os.path.exists(self._path) and not all(_writable(p) for p in (self._path, folder))
        with self._errors():
            before = _number(self._path)
            if self._file not in (None, before):
                raise self._moved("nothing was read or charged")
            connection = self._connect_to_read() if self._read_only else self._connect_to_write()
            after = _number(self._path)
            if before not in (None, after):
                connection.close()
                raise self._moved("nothing was read or charged")
            self._file, self._log = after, None if self._read_only else _number(self._path + "-wal")
        return connection

    def _connect_to_write(self) -> sqlite3.Connection:
        connection = self._connect_with(f"mode={'rwc' if self._create else 'rw'}")
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA cache_size = -65536")
            connection.execute("PRAGMA secure_delete = ON")
            if self._create or self._ready(connection):  # a file that is no ledger stays as it is
                self._refuse_second_name()
                self._start_log(connection)
                self._ready(connection)  # opens the log
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse_second_name(self) -> None:
        """Each name of a file has a log of its own, and a charge under one is not seen under the other."""
        names = os.stat(self._path).st_nlink
        if names > 1:
            raise LedgerError(
                f"ledger {self.place!r} is one of {names} hard links to a file, and each would have a log of its own: "
                "copy it to a file with one name, or use a symbolic link",
                value=self.place,
            )

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
            connection = self._connect_with("mode=ro&readonly_shm=1")
        elif _size(self._path + "-wal"):
            connection = self._copied_with_log()
        else:
            # No log: nobody is at work, and the file is all there is. Reading checks that it stays so.
            self._unlocked = self._settled_state(self._path)
            connection = self._connect_with("mode=ro&immutable=1")
        if not self._ready(connection):
            return connection
        version = self._version_in(_SqliteSession(connection))
        return connection if version == len(schema.MIGRATIONS) else self._up_to_date(connection, version)

    def _copied_with_log(self) -> sqlite3.Connection:
        """A copy in memory of a ledger with a log that a crash left, and that only its owner can take in."""
        paths = [self._path, self._path + "-wal"]
        with scratch() as folder:
            copy = os.path.join(folder, "books.db")
            before = [self._settled_state(path) for path in paths]
            for path in paths:
                shutil.copyfile(path, copy + path.removeprefix(self._path))
            if [_state(path) for path in paths] != before or os.path.exists(self._path + "-shm"):
                raise LedgerError(f"ledger {self.place!r} was written to while it was read; try again")
            with closing(sqlite3.connect(copy)) as connection:
                return _in_memory(connection)

    def _up_to_date(self, connection: sqlite3.Connection, version: int) -> sqlite3.Connection:
        """A copy in memory with the newest tables, of an old ledger that cannot be brought up to date itself."""
        with closing(connection):
            copy = _in_memory(connection)
        migrate(_SqliteSession(copy), version)
        return copy

    def _settled_state(self, path: str) -> _FileState:
        """A file as it is, once a change from now on would show."""
        while time.time_ns() - os.stat(path).st_mtime_ns < 1e9 * _SETTLED:
            time.sleep(_SETTLED)
        return _state(path)

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
        """Everything that SQLite itself can tell, and everything about the file that rows do not."""
        with self.reading(), self._errors():
            (_, _, file) = self.connection.execute("PRAGMA database_list").fetchone()  # the main one comes first
            # Before the first page is read: the file may grow from here on, and is then longer than this says.
            size = os.stat(self._path).st_size if file else None
            return sqlite_check.problems(self.connection, size)

    @contextmanager
    def _reading(self) -> Iterator[Session]:
        connection = self.connection
        with self._errors():
            if self._moved_reason():
                raise self._moved("nothing was read")
            connection.execute("BEGIN")
            try:
                yield _SqliteSession(connection)
            finally:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if self._unlocked is not None and _state(self._path) != self._unlocked:
                self.close()
                raise LedgerError(f"ledger {self.place!r} was written to while it was read; try again")

    @contextmanager
    def settled(self, identity: str) -> Iterator[Session]:
        """Whoever holds the turn to write knows that nobody else is in the middle of a charge."""
        with self._turn:
            connection = self.connection
            if self._read_only:
                with self._reading() as session:
                    yield session
                return
            with self._errors():
                self._begin(connection, f"whether charge {identity} was made is not known")
                try:
                    if self._moved_reason():
                        raise self._moved("nothing was read")
                    yield _SqliteSession(connection)
                finally:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")

    def close(self) -> None:
        """Let go of the file. The last one to do so takes the log in and removes it."""
        super().close()
        self._unlocked = None

    @contextmanager
    def _writing(self, identity: str | None) -> Iterator[Session]:
        connection = self.connection
        if self._read_only:
            raise LedgerError(
                f"ledger {self.place!r} cannot be written to by this user; a charge writes the file and, in its "
                "folder, a log",
                value=self.place,
            )
        with self._errors("; nothing was charged"):
            self._begin(connection, "nothing was charged")
            try:
                if self._moved_reason():
                    raise self._moved("nothing was charged")
                yield _SqliteSession(connection)
                self._commit(connection, identity)
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
        self._take_log_in(connection)
        reason = self._moved_reason()
        if reason:
            raise unknown_charge(self.place, f"{reason} during a charge", identity)

    def _commit(self, connection: sqlite3.Connection, identity: str | None) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if error.sqlite_errorcode in _NOT_MADE or error.sqlite_errorcode & 0xFF in _NOT_MADE:
                raise
            raise unknown_charge(self.place, f"the commit failed: {error}", identity) from error

    def _take_log_in(self, connection: sqlite3.Connection) -> None:
        """What was charged goes from the log into the file; where little is going on the log is emptied, too.

        An empty log can be lost, or meet a file that was put in the place of the old one, and does no harm. To grow it
        again takes the disk twice as long, so among many charges it is kept. While others read SQLite does as much as
        it can, and the next charge does the rest. The charge is on disk already: whatever fails here is no harm.
        """
        before, self._last = self._last, time.monotonic()
        busy = self._crowded or self._last - before < _BUSY
        with suppress(sqlite3.Error, MemoryError):
            connection.execute("PRAGMA busy_timeout = 0")
            connection.execute(f"PRAGMA wal_checkpoint({'PASSIVE' if busy else 'TRUNCATE'})").fetchall()
        with suppress(sqlite3.Error, MemoryError):
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * self.wait)}")

    def _moved_reason(self) -> str | None:
        """Why the path no longer leads to what is open; None where it does."""
        if _number(self._path) != self._file:
            return "the file was moved, replaced or deleted"
        if self._log is not None and _number(self._path + "-wal") != self._log:
            return "its log (-wal) was moved, replaced or deleted"
        return None

    def _moved(self, outcome: str) -> LedgerError:
        reason = self._moved_reason() or "the file was replaced"
        return LedgerError(
            f"ledger {self.place!r}: {reason} while it was open, and {outcome}: open it again where it is now, and "
            "look with Ledger.verify(head=…) whether the last charge is there",
            value=self.place,
        )

    def _begin(self, connection: sqlite3.Connection, outcome: str) -> None:
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
                        f"ledger {self.place!r} was busy for {self.wait:g} s, and {outcome}; try again, and if it "
                        "stays busy look for a process that holds it",
                        value=self.place,
                    )
                time.sleep(_pause() / (1 + waited / _PATIENCE))
        finally:
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * self.wait)}")

    @contextmanager
    def _errors(self, outcome: str = "") -> Iterator[None]:
        try:
            yield
        except _ERRORS as error:
            message = str(error) or type(error).__name__
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
                message = "it is not a ledger; name one that is, or a file that is not there yet"
            raise LedgerError(f"ledger {self.place!r} cannot be used: {message}{outcome}", value=self.place) from error

    def before_fork(self) -> bool:
        """Wait for other threads and close the connection; False where this thread is inside a transaction."""
        held = self._turn.acquire(timeout=self.wait)
        if held and self._connection is not None and not self._connection.in_transaction:
            self.close()
        return held

    def after_fork_in_child(self) -> None:
        """A lock of one's own; a connection that could not be closed is kept for ever, since closing it does harm."""
        super().after_fork_in_child()
        if self._connection is not None:
            _LOST[self._path] = self._connection
            self._connection = None


def _pause() -> float:
    """Seconds before the next attempt, spread so that those who wait do not all look at once."""
    return os.urandom(1)[0] / 256 * _PAUSE


def _busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # the low byte; the others say of what kind


def _number(path: str) -> tuple[int, int] | None:
    """Device and number of a file; None where there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _state(path: str) -> _FileState:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _size(path: str) -> int:
    """Bytes of a file; 0 where there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _writable(path: str) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _in_memory(source: sqlite3.Connection) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    source.backup(copy)
    return copy


_LOST: Final[dict[str, sqlite3.Connection]] = {}
"""Files that were in use when this process was forked, and the connections that must not be closed."""


class _SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, *values: object) -> None:
        self._connection.execute(sql, values)

    def many(self, sql: str, rows: Iterable[Row]) -> None:
        self._connection.executemany(sql, rows)

    def rows(self, sql: str, *values: object) -> Iterator[Row]:
        return iter(self._connection.execute(sql, values))
