"""A ledger in one file: SQLite with a rollback journal, on disk before a commit is acknowledged.

A charge is BEGIN IMMEDIATE, a few rows, COMMIT: SQLite lets one process write at a time and makes the others wait. The
journal holds the old content of the pages that a charge changes. COMMIT writes the journal to disk, then the pages into
the file, and then makes the journal empty: when it returns, the charge is in the file itself, and no file beside the
ledger holds any of it. So deleting files beside a ledger in use deletes no charge. The journal is emptied
(TRUNCATE) and not deleted by COMMIT, because a journal that another process has deleted would make COMMIT fail.

A file can be moved, replaced or deleted under an open connection, which would go on writing to what nobody opens any
more. So the path is resolved once, and before and after each charge it must still lead to the file that was opened.

A connection does not survive a fork, not even unused. SQLite counts the locks of a process in memory and the system
drops them in the child, which would go on without. So connections are closed before a fork, and opened again by the
process that needs them. For the same reason nothing here opens the file but SQLite: to close it once more would drop
this process's locks.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pufferdp.basics.errors import LedgerError
from pufferdp.ledger.store import sqlite_check
from pufferdp.ledger.store.base import Row, Session, Store, unknown_charge

_ERRORS: Final = (sqlite3.Error, OSError, MemoryError, UnicodeDecodeError)
_PATIENCE: Final = 0.1
"""Seconds of waiting after which one looks twice as often, three times after twice as many."""
_WATCHED: Final = 100_000
"""Steps of SQLite's virtual machine between two looks for Ctrl-C: a few milliseconds."""
_STEPS_PER_BYTE: Final = 50
"""Steps that a statement may take for each byte of the file. A row has at least ten bytes and takes less than a hundred
steps; a file whose pages point to each other in a circle takes steps without end."""
_NOT_MADE: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_BUSY)
"""Errors of a COMMIT before the journal is emptied, so that the charge is rolled back now or by the next process."""


class SqliteStore(Store):
    """A ledger in a file on a local disk."""

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
        journal = Path(f"{self._path}-journal")
        if create and not path.exists() and journal.exists() and journal.stat().st_size:
            raise LedgerError(
                f"ledger {place!r} does not exist, but its journal {str(journal)!r} does: the ledger was moved or "
                "deleted without it. Put it back, or take the journal away, before another is made",
                value=place,
            )
        self._file: tuple[int, int] | None = None
        """Device and number of the file that was opened first; of no other is anything read or written."""
        self._crowded = False
        """Whether the last turn had to be waited for."""
        self._read_only = False
        self._steps_left = 0
        """Steps that the statement under way may still take."""

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
            connection = self._connect_with("ro" if self._read_only else "rwc" if self._create else "rw")
            try:
                if not self._read_only and (self._create or self._ready(connection)):
                    self._prepare(connection)  # a file that is no ledger stays as it is
                after = _number(self._path)
                if before not in (None, after):
                    raise self._moved("nothing was read or charged")
            except BaseException:
                connection.close()
                raise
            self._file = after
        return connection

    def _connect_with(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"file:{quote(self._path)}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=self.wait,
        )
        connection.set_progress_handler(self._watch, _WATCHED)
        self._begin_statement()
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        names = os.stat(self._path).st_nlink
        if names > 1:
            raise LedgerError(
                f"ledger {self.place!r} is one of {names} hard links to a file, and each would have a journal of its "
                "own: copy it to a file with one name, or use a symbolic link",
                value=self.place,
            )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA secure_delete = ON")
        (mode,) = connection.execute("PRAGMA journal_mode = TRUNCATE").fetchone()
        if mode != "truncate":
            raise LedgerError(
                f"ledger {self.place!r} is kept in journal mode {mode} by another program; end that program, and "
                "nothing else may set the mode",
                value=self.place,
            )

    def _ready(self, connection: sqlite3.Connection) -> bool:
        with self._errors():
            sql = "SELECT count(*) FROM sqlite_master WHERE name = 'ledger_version'"
            return bool(connection.execute(sql).fetchone()[0])

    def _begin_schema(self, session: Session) -> None:
        """BEGIN IMMEDIATE has done it."""

    def _check_tables(self, session: Session) -> None:
        """Reject views, triggers and other tables: a view may read without end, and a trigger may write."""
        for problem in sqlite_check.foreign_objects(self.connection):
            raise LedgerError(
                f"{self.place!r} is not as a ledger is made: {problem}; restore a backup, or name another file",
                value=self.place,
            )

    def _begin_statement(self) -> None:
        """Give the next statement its steps."""
        size = os.stat(self._path).st_size if os.path.exists(self._path) else 0
        self._steps_left = _STEPS_PER_BYTE * size + 1000 * _WATCHED

    def _watch(self) -> bool:
        """Called by SQLite during a long statement, which ends where this is true or raises: Ctrl-C is raised here."""
        self._steps_left -= _WATCHED
        return self._steps_left < 0

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """A copy in memory, so that charges wait only while the copy is made."""
        with self.reading(), self._errors():
            size, image = os.stat(self._path).st_size, self.connection.serialize()
        with self._errors(), closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
            copy.deserialize(image)
            copy.set_progress_handler(self._watch, _WATCHED)
            yield _Snapshot(copy, self, size)

    def problems(self, session: Session) -> list[str]:
        """Everything that SQLite itself can tell, and everything about the file that rows do not."""
        assert isinstance(session, _Snapshot)
        with self._errors():
            return sqlite_check.problems(session.connection, session.size)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A view of the ledger at one moment."""
        with self._turn:
            connection = self.connection
            with self._errors():
                if self._moved_reason():
                    raise self._moved("nothing was read")
                connection.execute("BEGIN")
                try:
                    yield _SqliteSession(connection, self)
                finally:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")

    @contextmanager
    def settled(self, identity: str) -> Iterator[Session]:
        """The holder of the write lock knows that no other process is in the middle of a charge."""
        with self._turn:
            connection = self.connection
            if self._read_only:
                with self.reading() as session:
                    yield session
                return
            with self._errors():
                self._begin(connection, f"whether charge {identity} was made is not known")
                try:
                    if self._moved_reason():
                        raise self._moved("nothing was read")
                    yield _SqliteSession(connection, self)
                finally:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")

    def close(self) -> None:
        """Let go of the file, and of the empty journal beside it."""
        with self._turn:
            if self._connection is not None and self._owner == os.getpid() and not self._read_only:
                with suppress(sqlite3.Error):  # SQLite deletes the journal where nobody else is writing
                    self._connection.execute("PRAGMA busy_timeout = 0")
                    self._connection.execute("PRAGMA journal_mode = DELETE")
            super().close()

    @contextmanager
    def writing(self, identity: str | None = None) -> Iterator[Session]:
        """All or nothing; on disk when it ends."""
        with self._turn:
            connection = self.connection
            if self._read_only:
                raise LedgerError(
                    f"ledger {self.place!r} cannot be written to by this user; a charge writes the file and, in its "
                    "folder, a journal",
                    value=self.place,
                )
            with self._errors("; nothing was charged"):
                self._begin(connection, "nothing was charged")
                try:
                    if self._moved_reason():
                        raise self._moved("nothing was charged")
                    yield _SqliteSession(connection, self)
                    self._commit(connection, identity)
                except BaseException:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                    raise
            reason = self._moved_reason()
            if reason:
                raise unknown_charge(self.place, f"{reason} during a charge", identity)

    def _commit(self, connection: sqlite3.Connection, identity: str | None) -> None:
        try:
            self._execute_when_free(connection, "COMMIT", "nothing was charged")  # those who read now come first
        except sqlite3.Error as error:
            if error.sqlite_errorcode in _NOT_MADE or error.sqlite_errorcode & 0xFF in _NOT_MADE:
                raise
            raise unknown_charge(self.place, f"the commit failed: {error}", identity) from error

    def _moved_reason(self) -> str | None:
        """Why the path no longer leads to what is open; None where it does."""
        return None if _number(self._path) == self._file else "the file was moved, replaced or deleted"

    def _moved(self, outcome: str) -> LedgerError:
        reason = self._moved_reason() or "the file was replaced"
        return LedgerError(
            f"ledger {self.place!r}: {reason} while it was open, and {outcome}: open it again where it is now, and "
            "look with Ledger.verify(head=…) whether the last charge is there",
            value=self.place,
        )

    def _begin(self, connection: sqlite3.Connection, outcome: str) -> None:
        """BEGIN IMMEDIATE. A process that had to wait for its last turn lets the others go first."""
        if self._crowded:
            time.sleep(_pause())
        self._crowded = self._execute_when_free(connection, "BEGIN IMMEDIATE", outcome)

    def _execute_when_free(self, connection: sqlite3.Connection, sql: str, outcome: str) -> bool:
        """Execute a statement that needs a lock, waited for in a way that is fair; whether it had to wait.

        SQLite's own waiting sleeps longer each time, so that late comers overtake: of fifty processes some had no turn
        in ten seconds. Here a process that has waited longer looks more often.
        """
        began, waited = time.monotonic(), 0.0
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            while True:
                try:
                    connection.execute(sql)
                    return waited > 0
                except sqlite3.OperationalError as error:
                    if not _busy(error):
                        raise
                waited = time.monotonic() - began
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
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_INTERRUPT:
                if self._steps_left >= 0:
                    raise KeyboardInterrupt from None
                message = "it cannot be read to its end: its pages lead in a circle"
            elif code == sqlite3.SQLITE_NOTADB:
                message = "it is not a ledger; name one that is, or a file that is not there yet"
            elif code == sqlite3.SQLITE_READONLY_ROLLBACK:
                message = "a charge was cut off by a crash; open it once with write permission"
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
    """Seconds before the next attempt, up to 0.04, spread so that those who wait do not all look at once."""
    return os.urandom(1)[0] / 256 * 0.04


def _busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # the low byte; the others say of what kind


def _number(path: str) -> tuple[int, int] | None:
    """Device and number of a file; None where there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _writable(path: str) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


_LOST: Final[dict[str, sqlite3.Connection]] = {}
"""Files that were in use when this process was forked, and the connections that must not be closed."""


class _SqliteSession:
    def __init__(self, connection: sqlite3.Connection, store: SqliteStore) -> None:
        self.connection, self._store = connection, store

    def run(self, sql: str, *values: object) -> None:
        self._store._begin_statement()
        self.connection.execute(sql, values)

    def many(self, sql: str, rows: Iterable[Row]) -> None:
        self._store._begin_statement()
        self.connection.executemany(sql, rows)

    def rows(self, sql: str, *values: object) -> Iterator[Row]:
        self._store._begin_statement()
        return iter(self.connection.execute(sql, values))


class _Snapshot(_SqliteSession):
    def __init__(self, connection: sqlite3.Connection, store: SqliteStore, size: int) -> None:
        super().__init__(connection, store)
        self.size = size
