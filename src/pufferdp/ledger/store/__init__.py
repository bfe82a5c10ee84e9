"""Where a ledger keeps its rows: a SQLite file by its path, or a PostgreSQL database by its URL."""

from __future__ import annotations

import os

from pufferdp.basics.errors import LedgerError
from pufferdp.basics.words import a_kind, is_address
from pufferdp.ledger.store.base import WAIT, Store
from pufferdp.ledger.store.sqlite import SqliteStore


def open_store(place: str | os.PathLike[str], *, create: bool = False, wait: float = WAIT) -> Store:
    """The store at a place, its tables made where asked to."""
    if not isinstance(place, (str, os.PathLike)):
        raise LedgerError(f"ledger is {a_kind(place)}; it must be the path of a file, or postgresql://…", value=place)
    text = os.fspath(place)
    store: Store
    if text.startswith(("postgresql://", "postgres://")):
        from pufferdp.ledger.store.postgres import PostgresStore  # a file does without it

        store = PostgresStore(text, wait)
    elif is_address(text):  # it may hold a password, which is not repeated
        raise LedgerError("ledger is a URL of another kind; it must be a file or postgresql://…")
    else:
        store = SqliteStore(text, wait, create)
    try:
        store.open(create)
    except BaseException:
        store.close()
        raise
    return store
