"""Where a ledger is kept: one schema in a SQLite file, or in a PostgreSQL database for a team.

SQL is written once, with ``?`` for values. Both keep a commit once it was acknowledged: the write-ahead log is on disk
by then.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol

from pufferdp.basics.errors import LedgerError

MIGRATIONS: Final = (
    (
        "CREATE TABLE ledger_version (version BIGINT NOT NULL)",
        "INSERT INTO ledger_version (version) VALUES (0)",
        "CREATE TABLE ledger_models (sha256 TEXT PRIMARY KEY, content TEXT NOT NULL)",
        "CREATE TABLE ledger_problems (sha256 TEXT PRIMARY KEY, content TEXT NOT NULL)",
        "CREATE TABLE ledger_datasets (name TEXT PRIMARY KEY, definition TEXT NOT NULL, state TEXT NOT NULL)",
        "CREATE TABLE ledger_entries (dataset TEXT NOT NULL, position BIGINT NOT NULL, created TEXT NOT NULL, "
        "problem TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (dataset, position))",
    ),
    (
        "CREATE TABLE ledger_people (sha256 TEXT PRIMARY KEY, content TEXT NOT NULL)",
        "CREATE TABLE ledger_members (dataset TEXT NOT NULL, person TEXT NOT NULL, crowd BIGINT NOT NULL, "
        "PRIMARY KEY (dataset, person))",
        "CREATE INDEX ledger_crowds ON ledger_members (dataset, crowd)",
        "CREATE TABLE ledger_sums (dataset TEXT NOT NULL, quantity TEXT NOT NULL, crowd BIGINT NOT NULL, "
        "cut BYTEA NOT NULL, value DOUBLE PRECISION NOT NULL, PRIMARY KEY (dataset, quantity, crowd, cut))",
    ),
)
"""What turns version n into version n+1. Never edited once released: a change is a new entry."""
TABLES: Final = {
    "ledger_version": ("version",),
    "ledger_models": ("sha256", "content"),
    "ledger_problems": ("sha256", "content"),
    "ledger_datasets": ("name", "definition", "state"),
    "ledger_entries": ("dataset", "position", "created", "problem", "hash"),
    "ledger_people": ("sha256", "content"),
    "ledger_members": ("dataset", "person", "crowd"),
    "ledger_sums": ("dataset", "quantity", "crowd", "cut", "value"),
}
DERIVED: Final = ("ledger_members", "ledger_sums")
"""Tables that follow from the others."""
WAIT: Final = 60.0
"""Seconds that a process waits for its turn before it gives up."""

Row = tuple[Any, ...]


class Session(Protocol):
    """Statements inside one transaction."""

    def run(self, sql: str, *values: object) -> None:
        """A statement without an answer."""

    def many(self, sql: str, rows: Iterable[Row]) -> None:
        """A statement for each row."""

    def rows(self, sql: str, *values: object) -> Iterator[Row]:
        """The rows of a query, as they come."""


class Store(ABC):
    """A place with tables, used by one process at a time per transaction."""

    locked: str = ""
    """What a query of rows adds to keep them for itself until the end of the transaction."""

    def __init__(self, place: str, wait: float) -> None:
        self.place, self.wait = place, wait
        self._turn = threading.RLock()
        self._connection: Any = None
        self._owner = 0

    @abstractmethod
    def _connect(self) -> Any:
        """A new connection; ``connection`` keeps it for the process."""

    @abstractmethod
    def _transaction(self, connection: Any, write: bool) -> AbstractContextManager[Session]:
        """Everything or nothing."""

    @abstractmethod
    def _ready(self, connection: Any) -> bool:
        """Whether there is a ledger."""

    @abstractmethod
    def _begin_schema(self, session: Session) -> None:
        """Keep others from making the same tables."""

    def problems(self) -> list[str]:
        """What the database itself says is broken."""
        return []

    @property
    def connection(self) -> Any:
        """This process's own: a connection does not survive a fork."""
        if self._connection is None or self._owner != os.getpid():
            self._connection, self._owner = self._connect(), os.getpid()
        return self._connection

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A view of the ledger at one moment."""
        with self._turn, self._transaction(self.connection, False) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """All or nothing; on disk when it ends."""
        with self._turn, self._transaction(self.connection, True) as session:
            yield session

    def open(self, create: bool) -> None:
        """Make the tables where asked to, and bring old ones up to date."""
        with self._turn:
            connection = self.connection
            if not self._ready(connection) and not create:
                raise LedgerError(f"{self.place!r} holds no ledger; make one with ledger create", value=self.place)
            version = -1
            if self._ready(connection):
                version = self._version()
            if version == len(MIGRATIONS):
                return
            with self._transaction(connection, True) as session:
                self._begin_schema(session)
                version = self._version_in(session) if self._ready(connection) else 0
                for n in range(version, len(MIGRATIONS)):
                    for statement in MIGRATIONS[n]:
                        session.run(statement)
                session.run("UPDATE ledger_version SET version = ?", len(MIGRATIONS))

    def _version(self) -> int:
        with self._transaction(self.connection, False) as session:
            return self._version_in(session)

    def _version_in(self, session: Session) -> int:
        rows = list(session.rows("SELECT version FROM ledger_version"))
        known = len(rows) == 1 and isinstance(rows[0][0], int) and 1 <= rows[0][0] <= len(MIGRATIONS)
        if not known:
            versions = ", ".join(str(row[0]) for row in rows) or "missing"
            raise LedgerError(
                f"{self.place!r}: the ledger's version is {versions}; this pufferdp knows up to {len(MIGRATIONS)}: "
                "use a newer one, or restore a backup",
                value=versions,
            )
        return int(rows[0][0])

    def close(self) -> None:
        """Let go of the connection."""
        with self._turn:
            if self._connection is not None and self._owner == os.getpid():
                self._connection.close()
            self._connection = None
