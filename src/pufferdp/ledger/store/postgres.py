"""A ledger in PostgreSQL, for several machines. Charges on one data set queue for its row; the server keeps the order.

Nothing rests on what a server, a role or a session has for a default: each transaction says its isolation level and its
timeouts itself. What a server does not answer in time, or a connection that is cut, ends on this side: the connection
is replaced and the charge tried again, until the time to wait is over. Before that the ledger is asked for the charge's
identity, under a lock that the first attempt holds for as long as it may still be made.

psycopg is the extra ``postgres`` and is imported here alone.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from itertools import chain, islice
from typing import Any, Final, TypeVar

from pufferdp.basics.errors import LedgerError, UnknownChargeError
from pufferdp.basics.extras import install_advice
from pufferdp.basics.words import redacted_message, redacted_url
from pufferdp.ledger.store.base import Row, Session, Store, unknown_charge
from pufferdp.ledger.store.schema import TABLES

_MAKING: Final = 7_083_519_264
"""Number of the advisory lock that is held while tables are made."""
_GRACE: Final = 0.5
"""Seconds that a server has to tell of its own timeout, before it is taken for dead."""
_PAUSE: Final = 0.05
"""Seconds before the next attempt."""
_BUSY: Final = ("55P03", "57014")
"""Lock not available, statement cancelled: the server's own timeouts."""
_ROLLED_BACK: Final = ("40001", "40P01", "23505", "25P03")
"""Serialisation failure, deadlock, a row that another attempt has written, a transaction that was left idle."""
_GONE: Final = ("08", "57P", "53300")
"""Connection lost, server shut down, too many connections."""

_INSERT: Final = re.compile(r"(INSERT .* VALUES )(\([?, ]*\))(.*)")

T = TypeVar("T")


class _ConnectionError(LedgerError):
    """There is no server, or it does not let us in."""


class PostgresStore(Store):
    """A ledger in a PostgreSQL database, for many writers on several machines."""

    locked = " FOR UPDATE"

    def __init__(self, url: str, wait: float) -> None:
        super().__init__(redacted_url(url), wait)
        self._url = url
        self._synchronous = "on"
        self._error: type[Exception] = _ConnectionError

    def _connect(self) -> Any:
        try:
            import psycopg
        except ImportError:
            raise LedgerError(
                f"a ledger in PostgreSQL needs psycopg: {install_advice('postgres')}, or keep the ledger in a file"
            ) from None
        self._error = psycopg.Error
        with self._errors(kind=_ConnectionError):
            connection = _bounded_connection().connect(self._url, autocommit=True, **self._connection_settings())
            connection.patience = self.wait + _GRACE
            try:
                milliseconds = max(1, round(1000 * self.wait))
                connection.execute(f"SET statement_timeout = {milliseconds}; SET lock_timeout = {milliseconds}")
                if connection.execute("SHOW fsync").fetchone() != ("on",):
                    raise LedgerError(
                        f"{self.place!r}: fsync is off, so a crash of the server could lose charges: turn it on"
                    )
                (stated,) = connection.execute("SHOW synchronous_commit").fetchone()
            except BaseException:
                connection.close()
                raise
            self._synchronous = "on" if stated == "off" else stated
        return connection

    def _connection_settings(self) -> dict[str, int]:
        """A dead network is noticed within the time to wait; what the URL says itself comes first."""
        from psycopg import Error
        from psycopg.conninfo import conninfo_to_dict

        seconds = max(1, round(self.wait / 4))
        settings = {
            "connect_timeout": max(2, round(self.wait)),
            "keepalives": 1,
            "keepalives_idle": seconds,
            "keepalives_interval": seconds,
            "keepalives_count": 3,
            "tcp_user_timeout": max(1000, round(1000 * self.wait)),
        }
        try:
            stated = conninfo_to_dict(self._url)
        except (UnicodeError, Error):  # the driver's words may repeat a password
            raise LedgerError(
                f"ledger {self.place!r} cannot be read as a URL; write odd characters in it as %40", value=self.place
            ) from None
        return {name: value for name, value in settings.items() if name not in stated}

    @property
    def connection(self) -> Any:
        """A connection that works, as far as is known: one that was cut, or left by a fork, is replaced."""
        broken = self._connection is not None and (self._connection.closed or self._connection.broken)
        if broken:
            self._drop()
        return super().connection

    def _drop(self) -> None:
        """Let go of a connection in whatever state it is, without a word to the server."""
        connection, self._connection = self._connection, None
        if connection is not None and self._owner == os.getpid():
            with suppress(Exception):
                connection.close()

    def _ready(self, connection: Any) -> bool:
        with self._errors():
            # From the catalogue's rows: what to_regclass remembers may be older than a lock that was waited for.
            sql = "SELECT count(*) FROM pg_tables WHERE tablename = 'ledger_version' "
            sql += "AND schemaname = ANY (current_schemas(false))"
            return bool(connection.execute(sql).fetchone()[0])

    def _begin_schema(self, session: Session) -> None:
        list(session.rows("SELECT pg_advisory_xact_lock(?)", _MAKING))

    def _check_tables(self, session: Session) -> None:
        sql = "SELECT tablename::text FROM pg_tables WHERE schemaname = ANY (current_schemas(false))"
        tables = {row[0] for row in session.rows(sql)}
        for name in TABLES:
            if name not in tables:
                raise LedgerError(
                    f"{self.place!r} is not as a ledger is made: there is no table {name!r}; restore a backup, or name "
                    "another database",
                    value=self.place,
                )

    def snapshot(self) -> AbstractContextManager[Session]:
        """A transaction that reads: nobody waits for one on a server."""
        return self.reading()

    def problems(self, session: Session) -> list[str]:
        """Tables that are not as a ledger makes them, and what a database does by itself when rows are written."""
        tables = {name: _table(session, name) for name in TABLES}
        hooks = [row for sql in _HOOKS for row in session.rows(sql, list(TABLES))]
        found = [
            f"the table {name!r} is not as a ledger makes it" for name in TABLES if tables[name] != _expected(name)
        ]
        return found + [
            f"no ledger has the {what} {name!r}, and the table {table!r} does" for what, name, table in hooks
        ]

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A view of the ledger at one moment."""
        with self._turn, self._errors(), self._view("REPEATABLE READ, READ ONLY", "") as session:
            yield session

    @contextmanager
    def settled(self, identity: str) -> Iterator[Session]:
        """Waits for an attempt at this charge that is still under way, be it on another machine."""
        # Read committed: the moment that is seen is after the lock was waited for.
        lock = f"SELECT pg_advisory_xact_lock_shared({_key(identity)});"
        with (
            self._turn,
            self._errors(f"; whether charge {identity} was made is not known: ask again"),
            self._view("READ COMMITTED, READ ONLY", lock) as session,
        ):
            yield session

    @contextmanager
    def _view(self, mode: str, lock: str) -> Iterator[Session]:
        connection = self._begun(mode, self.wait, lock)
        try:
            yield _PostgresSession(connection)
        finally:
            self._rollback(connection)

    def _begun(self, mode: str, seconds: float, lock: str, shared: bool = False) -> Any:
        """A connection in a new transaction. One that was cut since it was used last is replaced: nothing was sent."""
        connection = self.connection
        try:
            self._begin(connection, mode, seconds, lock, shared)
        except self._error as error:
            self._rollback(connection)
            if not connection.answers or not connection.closed or not self._can_be_retried(error):
                raise
            connection = self.connection
            self._begin(connection, mode, seconds, lock, shared)
        return connection

    def _begin(self, connection: Any, mode: str, seconds: float, lock: str, shared: bool) -> None:
        """Begin a transaction that owes nothing to anybody's defaults, in one message to the server."""
        connection.patience, connection.shared = seconds + _GRACE, shared
        milliseconds = max(1, round(1000 * seconds))
        connection.execute(
            f"BEGIN TRANSACTION ISOLATION LEVEL {mode}, NOT DEFERRABLE; "
            f"SET LOCAL lock_timeout = {milliseconds}; SET LOCAL statement_timeout = {milliseconds}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {max(1000, round(1000 * self.wait))}; "
            f"SET LOCAL synchronous_commit = '{self._synchronous}'; {lock}"
        )

    def _rollback(self, connection: Any) -> None:
        """End a transaction; a connection that cannot even do that is dropped."""
        with suppress(self._error):
            if connection.answers and not connection.closed and not connection.broken:
                connection.shared = False
                connection.execute("ROLLBACK")
                return
        self._drop()

    @contextmanager
    def writing(self, identity: str | None = None) -> Iterator[Session]:
        """All or nothing; on disk when it ends."""
        with self._turn, self._errors("; nothing was charged"), self._attempt(identity, self.wait) as session:
            yield session

    @contextmanager
    def _attempt(self, identity: str | None, seconds: float) -> Iterator[Session]:
        """One transaction, in which the server is waited for no longer than so many seconds."""
        lock = "" if identity is None else f"SELECT pg_advisory_xact_lock({_key(identity)});"
        connection = self._begun("READ COMMITTED, READ WRITE", seconds, lock, shared=True)
        try:
            yield _PostgresSession(connection)
            self._commit(connection, identity)
        except BaseException:
            self._rollback(connection)
            raise

    def _commit(self, connection: Any, identity: str | None) -> None:
        try:
            outcome = connection.execute("COMMIT").statusmessage
        except self._error as error:
            if getattr(error, "sqlstate", None) in _ROLLED_BACK:
                raise
            raise unknown_charge(
                self.place, f"the commit was not answered: {redacted_message(error, self._url)}", identity
            ) from None
        if outcome != "COMMIT":
            raise LedgerError(f"ledger {self.place!r}: the server answered {outcome}; nothing was charged")

    def commit(self, work: Callable[[Session, bool], T], identity: str) -> T:
        """Do some work in one transaction; again, until the time to wait is over, where that may help."""
        deadline, again = time.monotonic() + self.wait, False
        doubt: UnknownChargeError | None = None
        while True:
            try:
                with self._turn, self._attempt(identity, max(deadline - time.monotonic(), 0.001)) as session:
                    result = work(session, again)
                    doubt = None  # under the lock of the identity: an earlier attempt is over
                return result
            except UnknownChargeError as error:
                problem: Exception = error
                doubt = error
            except _ConnectionError as error:
                problem = error
                if not again:
                    break
            except self._error as error:
                problem = error
                if not self._can_be_retried(error):
                    break
            again = True
            if time.monotonic() + _PAUSE > deadline:
                break
            time.sleep(_PAUSE)
        if doubt is not None:
            raise doubt
        raise self._not_made(problem) from None

    def _can_be_retried(self, error: Exception) -> bool:
        state = getattr(error, "sqlstate", None)
        return state is None or state in _ROLLED_BACK or state.startswith(_GONE)

    def _not_made(self, error: Exception) -> LedgerError:
        if getattr(error, "sqlstate", None) in _BUSY:
            return LedgerError(
                f"ledger {self.place!r} was busy for {self.wait:g} s, and nothing was charged; try again, and if it "
                "stays busy look for a session that holds it",
                value=self.place,
            )
        message = str(error)
        if not isinstance(error, LedgerError):
            message = f"ledger {self.place!r} cannot be used: {redacted_message(error, self._url)}"
        return LedgerError(f"{message}; nothing was charged", value=self.place)

    @contextmanager
    def _errors(self, outcome: str = "", kind: type[LedgerError] = LedgerError) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            if isinstance(error, LedgerError):
                raise
            message = f"ledger {self.place!r} cannot be used: {redacted_message(error, self._url)}{outcome}"
            raise kind(message, value=self.place) from None


def _key(identity: str) -> int:
    """The number of the advisory lock of a charge; rows that are charged together share one."""
    token = identity.partition("/")[0]
    return int.from_bytes(hashlib.sha256(token.encode()).digest()[:8], "big", signed=True)


@cache
def _bounded_connection() -> Any:
    """A kind of connection that waits for its server only so long."""
    import psycopg

    class BoundedConnection(psycopg.Connection[Any]):
        """Timeouts of the server's own do not hold when it is frozen, nor does the network's while the system runs."""

        patience = math.inf
        """Seconds that an answer may take."""
        shared = False
        """Whether all answers from now on have these seconds together."""
        answers = True
        """Whether every answer has come in time so far."""

        def wait(self, gen: Any, *more: Any, **named: Any) -> Any:
            began = time.monotonic()
            try:
                return super().wait(self._until(gen, began + self.patience), *more, **named)
            finally:
                if self.shared:
                    self.patience -= time.monotonic() - began

        def _until(self, gen: Any, deadline: float) -> Generator[Any, Any, Any]:
            """The same steps; a waiting caller looks several times a second."""
            try:
                step = next(gen)
                while True:
                    ready = yield step
                    if not ready and time.monotonic() > deadline:
                        self.answers = False
                        raise psycopg.OperationalError("the server does not answer")
                    step = gen.send(ready)
            except StopIteration as end:
                return end.value

    return BoundedConnection


_COLUMNS: Final = (
    "SELECT x.attname::text, format_type(x.atttypid, x.atttypmod), x.attnotnull, x.atthasdef, c.relkind::text "
    "FROM pg_attribute x, pg_class c WHERE c.oid = to_regclass(?) AND x.attrelid = c.oid AND x.attnum > 0 "
    "AND NOT x.attisdropped"
)
_CONSTRAINTS: Final = (
    "SELECT pg_get_constraintdef(x.oid) FROM pg_constraint x WHERE x.conrelid = to_regclass(?) AND x.contype <> 'n'"
)
_HOOKS: Final = (
    "SELECT 'trigger', tgname::text, tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal "
    "AND tgrelid = ANY (?::regclass[])",
    "SELECT 'rule', rulename::text, ev_class::regclass::text FROM pg_rewrite WHERE ev_class = ANY (?::regclass[])",
    "SELECT 'policy', polname::text, polrelid::regclass::text FROM pg_policy WHERE polrelid = ANY (?::regclass[])",
)
"""What a database does by itself when a row is read or written."""


def _table(session: Session, name: str) -> tuple[set[Row], set[str]]:
    return set(session.rows(_COLUMNS, name)), {row[0].replace('"', "") for row in session.rows(_CONSTRAINTS, name)}


def _expected(name: str) -> tuple[set[Row], set[str]]:
    table = TABLES[name]
    columns: set[Row] = {(name, kind.lower(), True, False, "r") for name, kind in table.columns.items()}
    constraints = {f"UNIQUE ({table.unique})"} if table.unique else set()
    return columns, constraints | ({f"PRIMARY KEY ({', '.join(table.key)})"} if table.key else set())


def _chunks(rows: Iterable[Row], most: int) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while chunk := list(islice(remaining, most)):
        yield chunk


class _PostgresSession:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, sql: str, *values: object) -> None:
        self._connection.execute(sql.replace("?", "%s"), values)

    def many(self, sql: str, rows: Iterable[Row]) -> None:
        # 10,000 values in a statement; the protocol allows for 65,535. Not by executemany: it sends in a pipeline, and
        # does not notice that a connection was cut.
        insert = _INSERT.fullmatch(sql)
        if insert is None:
            for row in rows:
                self.run(sql, *row)
            return
        start, marks, end = insert.groups()
        for chunk in _chunks(rows, 10_000 // marks.count("?")):
            self.run(start + ", ".join([marks] * len(chunk)) + end, *chain.from_iterable(chunk))

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
