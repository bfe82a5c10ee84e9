"""What is wrong with a ledger's file beneath its rows, which have hashes of their own.

SQLite's full check compares every index with its table. The rest is what a ledger's file may hold at all: the tables
as they are made here, word for word; nothing beside them; rows of the right types; a header as SQLite writes it; no
page that belongs to nothing and still holds something; no bytes after the last page. What is left are bytes that
nobody reads: gaps inside pages, and counters that SQLite keeps for its caches.
"""

from __future__ import annotations

import sqlite3
import struct
from functools import cache
from typing import Final

from pufferdp.ledger.store.schema import STORAGE_CLASS, TABLES, VERSION, statements

_MOST: Final = 20
_Object = tuple[str, str, str, str | None]

_HEADER: Final = {
    "reserved space": (20, 1, 0),
    "schema format": (44, 4, 4),
    "default cache size": (48, 4, 0),
    "largest root page": (52, 4, 0),
    "text encoding": (56, 4, 1),
    "user version": (60, 4, 0),
    "incremental vacuum": (64, 4, 0),
    "application id": (68, 4, 0),
    "reserved bytes": (72, 20, 0),
}
"""Fields of a file's first hundred bytes: where, how long, and what a ledger has there."""


def problems(connection: sqlite3.Connection, size: int) -> list[str]:
    """What is wrong with a copy of the file in memory; ``size`` is the size of the file itself."""
    lines = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({_MOST})")]
    if lines != ["ok"]:
        return [f"the file is damaged: {text}" for text in lines]
    found = foreign_objects(connection)
    if not found and _listed(connection) != expected():
        found.append("the file lists its tables in another order, or twice")
    if not found:  # tables are as they should be, and can be asked
        found = [*_types(connection), *_pages(connection.serialize(), size)]
    return found


@cache
def expected() -> tuple[_Object, ...]:
    """Tables and indexes of a ledger of this version, with their text."""
    connection = sqlite3.connect(":memory:")
    for statement in statements():
        connection.execute(statement)
    objects = _listed(connection)
    connection.close()
    return objects


def _listed(connection: sqlite3.Connection) -> tuple[_Object, ...]:
    return tuple(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


def foreign_objects(connection: sqlite3.Connection) -> list[str]:
    """Tables, views, indexes and triggers that differ from those of a ledger; the text of the schema alone is read."""
    ours = {item[:2]: item for item in expected()}
    theirs = {item[:2]: item for item in _listed(connection)}
    found = [f"no ledger has the {key[0]} {key[1]!r}, and this file does" for key in theirs if key not in ours]
    found += [f"the {key[0]} {key[1]!r} is missing" for key in ours if key not in theirs]
    found += [
        f"the {key[0]} {key[1]!r} is not as a ledger makes it"
        for key, item in theirs.items()
        if key in ours and item != ours[key]
    ]
    return found


def _types(connection: sqlite3.Connection) -> list[str]:
    found = []
    for name, table in TABLES.items():
        wrong = " OR ".join(f"typeof({column}) <> '{STORAGE_CLASS[kind]}'" for column, kind in table.columns.items())
        ((count,),) = connection.execute(f"SELECT count(*) FROM {name} WHERE {wrong}")
        if count:
            found.append(f"the table {name!r} has {count} rows with a value of another type")
    rows = list(connection.execute("SELECT rowid, version FROM ledger_version"))
    if rows != [(1, VERSION)]:
        found.append(f"the ledger's version is written as {rows}, not as row 1: {VERSION}")
    return found


def _pages(image: bytes, size: int) -> list[str]:
    found = []
    for name, (at, length, value) in _HEADER.items():
        stated = int.from_bytes(image[at : at + length], "big")
        if stated != value:
            found.append(f"the header's {name} is {stated}, not {value}")
    (length,) = struct.unpack(">H", image[16:18])
    length = 65536 if length == 1 else length
    if size > len(image):
        found.append(f"the file has {size - len(image)} bytes after its last page")
    found += [
        f"page {n} belongs to no table, and is not empty" for n in _free(image, length) if any(_page(image, n, length))
    ]
    return found[:_MOST]


def _page(image: bytes, number: int, length: int) -> bytes:
    return image[(number - 1) * length : number * length]


def _free(image: bytes, length: int) -> list[int]:
    """Pages that are listed as free; the list is sound, or the full check would have told."""
    (trunk,) = struct.unpack(">I", image[32:36])
    pages = list[int]()
    while trunk:
        content = _page(image, trunk, length)
        trunk, count = struct.unpack(">II", content[:8])
        pages += struct.unpack(f">{count}I", content[8 : 8 + 4 * count])
    return pages
