"""Every byte of a ledger's file changed, one at a time: what ``ledger verify`` says of each.

A change is effective where SQLite reads something else from the file, or nothing: a name or the text of a table, a row
by its table, a row by an index, a number of the header. Whether it does is asked of SQLite alone, without our code.
``python -m tests.ledger.flips`` tries all bytes of a ledger of some forty kilobytes.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd

from pufferdp import Charge, Ledger, LedgerError, MarkovChain, release
from pufferdp.data.ranges import Range, Ranges
from pufferdp.ledger.charge import flip_charge
from pufferdp.publish.noise import SeededSampler

CHAIN = MarkovChain(transition=[[0.7, 0.3], [0.4, 0.6]], states=["rest", "active"])
FRAME = pd.DataFrame({"state": ["rest", "active", "active", "rest", "rest"]})
_NUMBERS = ("user_version", "application_id", "encoding", "page_size", "auto_vacuum", "default_cache_size")


def make(path: Path, rows: int) -> None:
    """A ledger of two data sets and charges of five kinds, on ranges too; closed."""
    with Ledger(path, create=True) as ledger:
        ledger.create("a", model=CHAIN, adversary="bdp", budget=500.0)
        ledger.create("b", model=CHAIN, adversary="pufferfish", budget=5.0)
        asked = {"model": CHAIN, "column": "state", "query": "count:active", "mechanism": "group"}
        for epsilon in (0.5, 0.5, 1.0):
            release(FRAME, **asked, epsilon=epsilon, ledger=ledger, dataset="a", sampler=SeededSampler(1))
        ledger.charge("a", flip_charge([[0.6, 0.4], [0.4, 0.6]], longest=5))
        ledger.charge("b", Charge(kind="fit", dp_loss=0.5, longest=5, facts={"lipschitz": 4.0, "scale": 8.0}))
        ledger.charge_many([("b", Charge(kind="dp", dp_loss=0.1, longest=5))] * 2)
        # Segments of some people, whose sums and names have tables of their own; more than fifty are a list apart.
        people = [("ann",), tuple(f"person {n:02d}" for n in range(60))]
        for n, names in enumerate(people):
            ranges = Ranges(order="t", by="p", parts=(Range(first=n, last=n + 1.5, people=names),))
            ledger.charge("a", Charge(kind="dp", dp_loss=0.1, longest=5, ranges=ranges))
        for _ in range(rows):
            ledger.charge("a", Charge(kind="dp", dp_loss=0.1, longest=5))


def reading(path: Path) -> Any:
    """Everything that SQLite reads from a file, by every way there is; the error where it reads nothing."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
            # As bytes: what is no text is a reading like any other.
            connection.text_factory = bytes
            objects = list(connection.execute("SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master"))
            parts: list[Any] = [objects]
            for kind, name, table, _, _ in objects:
                way = "NOT INDEXED" if kind == b"table" else f'INDEXED BY "{name.decode()}"'
                columns = [row[1].decode() for row in connection.execute(f'PRAGMA table_info("{table.decode()}")')]
                wanted = columns
                if kind == b"index":
                    wanted = [row[2].decode() for row in connection.execute(f'PRAGMA index_info("{name.decode()}")')]
                listed = ", ".join(wanted)
                where = f"WHERE {wanted[0]} > x'' OR {wanted[0]} < x''" if kind == b"index" else ""
                sql = f'SELECT rowid, {listed} FROM "{table.decode()}" {way} {where}'
                parts.append([(*row, *map(type, row)) for row in connection.execute(sql)])
            parts += [list(connection.execute(f"PRAGMA {name}")) for name in _NUMBERS]
            return parts
    except (sqlite3.Error, UnicodeDecodeError, IndexError, MemoryError) as error:
        return type(error)


def verdict(path: Path) -> str:
    """What ``ledger verify`` says: valid, found, or the name of an error that nobody meant to raise."""
    try:
        with Ledger(path) as ledger:
            return "valid" if ledger.verify().valid else "found"
    except LedgerError:
        return "found"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return type(error).__name__


def change(original: Path, at: int, mask: int, path: Path) -> bool:
    """Write a copy with one byte changed; whether that is effective."""
    content = bytearray(original.read_bytes())
    content[at] ^= mask
    for beside in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{beside}").unlink(missing_ok=True)
    path.write_bytes(content)
    return bool(reading(path) != reading(original))


def main(first: int, last: int | None) -> None:
    """All bytes from one place to another, with each of the 255 masks in turn."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    counts, missed = Counter[tuple[bool, str]](), []
    try:
        make(folder / "original.db", 12)
        print(f"{(folder / 'original.db').stat().st_size} bytes")
        size = (folder / "original.db").stat().st_size
        assert verdict(shutil.copy(folder / "original.db", folder / "books.db")) == "valid"
        began = time.monotonic()
        for at in range(first, size if last is None else min(last, size)):
            mask = 1 + at * 97 % 255
            effective = change(folder / "original.db", at, mask, folder / "books.db")
            if not effective and at % 7:  # nobody reads it: a seventh of these is enough to look for tracebacks
                counts[effective, "not asked"] += 1
                continue
            said = verdict(folder / "books.db")
            counts[effective, said] += 1
            if said != "found" and (effective or said != "valid"):
                missed.append((at, mask, said))
                print(f"\nbyte {at}, mask {mask}: {said}", flush=True)
            if at % 500 == 0:
                print(f"\r{at} of {size} bytes, {time.monotonic() - began:.0f} s", end="", flush=True)
    finally:
        shutil.rmtree(folder)
    print(f"\n{dict(counts)}; effective and not found, or a traceback: {len(missed)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0, int(sys.argv[2]) if len(sys.argv) > 2 else None)
