"""Where a ledger is kept: one schema in a SQLite file, or in a PostgreSQL database for a team.

SQL is written once, with ``?`` for values. Both keep a commit once it was acknowledged: it is on disk by then. A
caller who is not told whether a commit was made gets ``UnknownChargeError``, and can ask by its identity.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeVar

from pufferdp.basics.errors import LedgerError, UnknownChargeError
from pufferdp.ledger.store import schema

WAIT: Final = 60.0
"""Seconds that a process waits for its turn before it gives up."""

Row = tuple[Any, ...]
T = TypeVar("T")


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
        _OPEN.add(self)

    @abstractmethod
    def _connect(self) -> Any:
        """A new connection; ``connection`` keeps it for the process."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Session]:
        """A view of the ledger at one moment."""

    @abstractmethod
    def writing(self, identity: str | None = None) -> AbstractContextManager[Session]:
        """All or nothing; on disk when it ends. The identity is for the error where that is not known."""

    @abstractmethod
    def _ready(self, connection: Any) -> bool:
        """Whether there is a ledger."""

    @abstractmethod
    def _begin_schema(self, session: Session) -> None:
        """Keep others from making the same tables."""

    @abstractmethod
    def _check_tables(self, session: Session) -> None:
        """Reject what is not the tables of a ledger, such as a view, before a row of it is read."""

    @abstractmethod
    def settled(self, identity: str) -> AbstractContextManager[Session]:
        """A view in which a charge of this identity is either there or will not come: nobody is at it any more."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[Session]:
        """A view of one moment for a long computation; charges do not wait for it."""

    @abstractmethod
    def problems(self, session: Session) -> list[str]:
        """What is wrong with a snapshot below the rows: pages, tables, and whatever does not belong there."""

    @property
    def connection(self) -> Any:
        """This process's own: a connection does not survive a fork."""
        if self._connection is None or self._owner != os.getpid():
            self._connection, self._owner = self._connect(), os.getpid()
        return self._connection

    def commit(self, work: Callable[[Session, bool], T], identity: str) -> T:
        """Do some work in one transaction, and again where that may help.

        Args:
            work: what is done, told whether an earlier attempt may have been the one that was made.
            identity: of the charge.
        """
        with self.writing(identity) as session:
            return work(session, False)

    def open(self, create: bool) -> None:
        """Make the tables where asked to; reject a place that holds anything but a ledger of this version."""
        with self._turn:
            if not self._ready(self.connection):
                if not create:
                    raise LedgerError(
                        f"{self.place!r} holds no ledger; make one with Ledger(place, create=True)", value=self.place
                    )
                self._make_tables()
            with self.reading() as session:
                self._check_tables(session)
                versions = [row[0] for row in session.rows("SELECT version FROM ledger_version LIMIT 2")]
            if versions != [schema.VERSION]:
                stated = ", ".join(map(str, versions)) or "missing"
                raise LedgerError(
                    f"{self.place!r}: the ledger's version is {stated}; this pufferdp reads version {schema.VERSION}: "
                    "use the pufferdp that made it, or restore a backup",
                    value=stated,
                )

    def _make_tables(self) -> None:
        with self.writing() as session:
            self._begin_schema(session)
            if not self._ready(self.connection):  # nobody else has made them by now
                for statement in schema.statements():
                    session.run(statement)
                self._check_tables(session)

    def close(self) -> None:
        """Let go of the connection."""
        with self._turn:
            if self._connection is not None and self._owner == os.getpid():
                self._connection.close()
            self._connection = None

    def before_fork(self) -> bool:
        """Get ready for a fork; what is returned is handed to ``after_fork_in_parent``."""
        return False

    def after_fork_in_parent(self, held: bool) -> None:
        """Release the lock that other threads wait for."""
        if held:
            self._turn.release()

    def after_fork_in_child(self) -> None:
        """A lock of one's own: the thread that held the parent's is not here."""
        self._turn = threading.RLock()


def unknown_charge(place: str, reason: str, identity: str | None) -> UnknownChargeError:
    """The error of a commit that may have been made."""
    if identity is None:
        return UnknownChargeError(
            f"ledger {place!r}: {reason}; whether this was written is not known: look with Ledger.dataset()",
            value=place,
        )
    return UnknownChargeError(
        f"ledger {place!r}: {reason}; whether charge {identity} was made is not known: ask with "
        f"Ledger.find({identity!r})",
        value=place,
        identity=identity,
    )


_OPEN: Final = weakref.WeakSet[Store]()
_HELD: Final[list[tuple[Store, bool]]] = []


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
