"""A ledger in one file: SQLite with a write-ahead log, on disk before a commit is acknowledged.

SQLite's own full synchronous writes the log to disk inside the transaction, so that everybody waits for every write in
turn. Here a transaction ends in the log, the next may begin, and only then does its owner wait for the disk: one write
serves all who wait. The order is kept. The log is read back up to the first frame that is missing, and what was
written to disk for one charge holds all that came before it; so a charge that was acknowledged is never lost, and
neither is any that it was added to. Where the system has no fdatasync, SQLite's own way is taken.

SQLite makes waiters poll, with sleeps that grow: late comers overtake, and the disk idles. So whoever wants to write
first queues for a lock on a file beside the ledger, which the system hands on when its holder ends, however it ends.
The queue is for order alone: SQLite's own locks keep the ledger right without it.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pufferdp.errors import LedgerError
from pufferdp.ledger.store import Row, Session, Store

if sys.platform != "win32":  # there SQLite's own waiting has to do
    import fcntl

_OWN_SYNC: Final = sys.platform == "linux"


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
        self._queue = _Queue(place + "-queue", wait)

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
        self._queue.close()

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
            with self._queue.turn():
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield _SqliteSession(connection)
                    connection.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                    raise
            self._to_disk()

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
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(f"ledger {self.place!r} cannot be used: {error}", value=self.place) from error


class _SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, *values: object) -> None:
        self._connection.execute(sql, values)

    def rows(self, sql: str, *values: object) -> Iterator[Row]:
        return iter(self._connection.execute(sql, values))


class _Queue:
    """Waiters in the order they came, as far as the system keeps it."""

    def __init__(self, path: str, wait: float) -> None:
        self._path, self._wait = path, wait
        self._handle: int | None = None
        self._owner = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One's turn, or an error after waiting too long."""
        handle = self._open()
        if handle is None:
            yield
            return
        if not self._get(handle):
            self._handle = None  # the thread that still waits closes it
            raise LedgerError(
                f"the ledger was busy for {self._wait:g} s; try again, and if it stays busy look for a process that "
                f"holds {self._path!r}"
            )
        try:
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file."""
        if self._handle is not None and self._owner == os.getpid():
            os.close(self._handle)
        self._handle = None

    def _open(self) -> int | None:
        """This process's own: a lock is shared with children that were forked."""
        if sys.platform == "win32":
            return None
        if self._handle is None or self._owner != os.getpid():
            try:
                self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                self._owner = os.getpid()
            except OSError:
                return None  # a folder that cannot be written: SQLite will say so
        return self._handle

    def _get(self, handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _Waiter(handle).wait(self._wait)
        except OSError:  # a file system without such locks
            return True
        return True


class _Waiter:
    """A lock that is waited for in a thread, because the system's call knows no time limit."""

    def __init__(self, handle: int) -> None:
        self._handle, self._mutex = handle, threading.Lock()
        self._has, self._gave_up = False, False

    def wait(self, seconds: float) -> bool:
        """Whether it came in time."""
        thread = threading.Thread(target=self._block, daemon=True)
        thread.start()
        try:
            thread.join(seconds)
        finally:  # also when the user stops it
            with self._mutex:
                self._gave_up = not self._has
        return self._has

    def _block(self) -> None:
        while True:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX)
                break
            except OSError:
                time.sleep(0.01)
        with self._mutex:
            self._has = not self._gave_up
        if not self._has:
            os.close(self._handle)
