"""What a table may come in: frames with columns of every type, files of Arrow and Parquet, SQLite, URLs, settings."""

from __future__ import annotations

import io
import json
import os
import random
import sqlite3
import tempfile
import warnings
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import duckdb
import pandas as pd
import polars as pl
import psycopg
import psycopg.conninfo
import pyarrow as pa
import pyarrow.parquet

from pufferdp import MarkovChain, Series, fit, flip, redact, release
from pufferdp.apps.web.charged import AnswerFolder
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.series import open_series
from pufferdp.ledger import open_ledger
from pufferdp.ledger.store import postgres

CHAIN: Final = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], states=("a", "b"))
ROWS: Final = 6
ODD_NAME: Final = '"odd ""name"""'
TYPES: Final[dict[str, pa.DataType]] = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
    "dictionary of numbers": pa.dictionary(pa.int32(), pa.float64()),
    "bool": pa.bool_(),
    "null": pa.null(),
    "int8": pa.int8(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float64": pa.float64(),
    "decimal": pa.decimal128(38, 2),
    "wide decimal": pa.decimal256(60, 2),
    "date": pa.date32(),
    "milliseconds": pa.timestamp("ms"),
    "nanoseconds": pa.timestamp("ns"),
    "zone": pa.timestamp("us", tz="Europe/Vienna"),
    "offset": pa.timestamp("ns", tz="+05:30"),
    "time": pa.time64("us"),
    "duration": pa.duration("s"),
    "binary": pa.binary(),
    "list": pa.list_(pa.string()),
    "struct": pa.struct([("x", pa.int64())]),
    "map": pa.map_(pa.string(), pa.int64()),
}
"""Columns by the name of their type; "objects" are whatever Python has, in a frame of pandas."""
_ODD: Final[dict[str, Any]] = {
    "nan": float("nan"), "inf": float("inf"), "-0.0": -0.0, "max": 2**63 - 1, "min": -(2**63), "huge": 2**64 - 1,
    "long": 10**30, "none": None, "yes": True, "empty": "", "letters": "a" * 300, "surrogate": "\ud800",
    "nul": "a\x00b", "date": date(2024, 5, 3), "first": datetime(1, 1, 1), "last": datetime(9999, 12, 31, 23, 59, 59),
    "moment": datetime(2024, 5, 3, 8), "time": time(8, 30), "day": timedelta(days=1), "decimal": Decimal("1.50"),
    "bytes": b"\xff", "list": ["a", None], "dict": {"x": 1}, "nat": pd.NaT, "na": pd.NA, "complex": 1j,
    "stamp": pd.Timestamp("2024-05-03", tz="UTC"),
}  # fmt: skip
"""Cells that JSON has no word for, each under a word of ours."""
_USUAL: Final[dict[str, list[Any]]] = {
    "states": ["a", "b", "a", "a", "b", "a"],
    "numbers": [0, 1, 2, 3, 4, 5],
    "moments": [f"2024-05-03 08:0{n}" for n in range(ROWS)],
}
BACKENDS: Final[dict[str, Callable[[pa.Table], Any]]] = {
    "arrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "pandas of arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "lazy": lambda table: pl.DataFrame(pl.from_arrow(table)).lazy(),
    "duckdb": lambda table: duckdb.connect().from_arrow(table),
}
VERBS: Final[dict[str, Callable[[Series], object]]] = {
    "release": lambda series: release(series, model=CHAIN, query="histogram", epsilon=1.0),
    "flip": lambda series: flip(series, model=CHAIN, epsilon=1.0),
    "redact": lambda series: redact(series, model=CHAIN, private=[2], epsilon=1.0),
    "fit": fit,
}


def frame_contents() -> tuple[dict[str, Any], ...]:
    """Frames: each type as states and as an order, in every kind of frame."""
    out = []
    draw = random.Random(22)
    for number, (kind, backend) in enumerate(product([*TYPES, "objects"], BACKENDS)):
        timed = kind in ("date", "milliseconds", "nanoseconds", "zone", "offset", "time")
        cells = _USUAL["moments" if timed else "numbers" if "int" in kind or "float" in kind else "states"]
        odd = draw.sample([*cells, *_ODD], ROWS) if number % 3 == 0 else cells
        odd = [*cells[:-1], draw.choice([*_ODD])] if number % 3 == 1 else odd
        column, other = {"type": kind, "cells": odd}, {"type": "string", "cells": _USUAL["states"]}
        s, t = (other, column) if timed or number % 2 else (column, {"type": "int64", "cells": _USUAL["numbers"]})
        options = ({"order": "t"}, {}, {"order": "t", "missing": "keep"}, {"order": "t", "by": "who"})[number % 4]
        people = {"who": {"type": "dictionary", "cells": ["x"] * ROWS}} if "by" in options else {}
        verb = list(VERBS)[number % len(VERBS)]
        out.append({"backend": backend, "verb": verb, "options": options, "columns": {"t": t, "s": s, **people}})
    return tuple(out)


def read_frame(content: bytes, folder: Path) -> None:
    """A frame as a notebook hands it over, with columns that pandas, polars and Arrow can make."""
    try:
        asked = json.loads(content)
        frame = BACKENDS[asked["backend"]](_table(asked["columns"]))
        if any(column["type"] == "objects" for column in asked["columns"].values()) and asked["backend"] == "pandas":
            frame = _with_objects(frame, asked["columns"])
        verb, options = VERBS[asked["verb"]], dict(asked["options"])
    except KeyboardInterrupt:
        raise
    except BaseException:  # no frame: whoever makes it is told by its own library, Polars by a panic
        return
    known = {field.name for field in fields(Series)} - {"data", "column"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verb(Series(frame, "s", **{name: value for name, value in options.items() if name in known}))


def _cells(column: dict[str, Any]) -> list[Any]:
    return [_ODD.get(cell, cell) if isinstance(cell, str) else cell for cell in column["cells"]]


def _table(columns: dict[str, Any]) -> pa.Table:
    made = {}
    for name, column in columns.items():
        if column["type"] == "objects":
            made[name] = pa.array([str(cell) for cell in _cells(column)])
            continue
        kind, cells = TYPES[column["type"]], _cells(column)
        if pa.types.is_temporal(kind):
            cells = [pd.Timestamp(cell) if isinstance(cell, str) else cell for cell in cells]
        value = kind.value_type if pa.types.is_dictionary(kind) else kind
        made[name] = pa.array(cells, value).cast(kind) if value != kind else pa.array(cells, kind)
    return pa.table(made)


def _with_objects(frame: pd.DataFrame, columns: dict[str, Any]) -> pd.DataFrame:
    out = frame.copy()
    for name, column in columns.items():
        if column["type"] == "objects":
            out[name] = pd.Series(_cells(column), dtype=object)
    return out


@cache
def parquet_files() -> tuple[bytes, ...]:
    """Files of Parquet, with columns of several types."""
    table = _table(
        {
            "t": {"type": "zone", "cells": _USUAL["moments"]},
            "s": {"type": "dictionary", "cells": _USUAL["states"]},
            "n": {"type": "decimal", "cells": _USUAL["numbers"]},
            "x": {"type": "struct", "cells": [{"x": 1}, None] * 3},
        }
    )
    out = []
    for part in (table, table.select(["t", "s"])):
        parquet = io.BytesIO()
        pa.parquet.write_table(part, parquet, compression="none")
        out.append(parquet.getvalue())
    return tuple(out)


LONG: Final = 40
_STATES: Final = pa.array(["a", "b", "c", None, "é", "1.0", "", "a" * 50])
BUFFERS: Final = tuple(
    b"\xff" * (LONG // 8) + b"".join(n.to_bytes(8, "little") for n in range(first, first + LONG * step, step)) + states
    for first, step, states in ((0, 1, b"\0\1" * 20), (1_714_723_200_000_000, 60_000_000, b"\0\1\1\0" * 10))
)
"""What Arrow keeps of a column of numbers or moments and of one of states: which are there, and their bits."""


def read_buffers(content: bytes, folder: Path) -> None:
    """A table as another process hands it over, whose columns hold whatever bits they like, if Arrow takes them."""
    whole = content.ljust(len(BUFFERS[0]), b"\0")[: len(BUFFERS[0])]
    there, order, codes = (
        pa.py_buffer(part) for part in (whole[:5], whole[5:-LONG], bytes(c % 8 for c in whole[-LONG:]))
    )
    kind = (pa.int64(), pa.uint64(), pa.float64(), pa.timestamp("us"), pa.timestamp("ms", tz="UTC"))[len(content) % 5]
    states = pa.DictionaryArray.from_arrays(pa.Array.from_buffers(pa.int8(), LONG, [there, codes]), _STATES)
    table = pa.table({"t": pa.Array.from_buffers(kind, LONG, [None, order]), "s": states})
    table.validate(full=True)
    count(table)


def count(source: object) -> None:
    """As every verb reads."""
    layout = Layout(column="s", order="t")
    open_series(source, layout).counts(Coding(labels=("a", "b")), transitions=True, ranges=True)


@cache
def database() -> bytes:
    """A small SQLite database with two tables, a view and cells of every type."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.db"
        with closing(sqlite3.connect(path)) as made:
            made.execute("PRAGMA page_size = 512")
            made.execute("CREATE TABLE visits (t, s TEXT, n REAL)")
            rows = [(n, "ab"[n % 2], n / 3) for n in range(20)]
            made.executemany("INSERT INTO visits VALUES (?, ?, ?)", rows)
            made.execute(f"CREATE TABLE {ODD_NAME} (t, s)")
            made.execute(f"INSERT INTO {ODD_NAME} VALUES (1.5, 'a'), ('x', x'ff'), (NULL, 'é')")
            made.execute("CREATE VIEW later AS SELECT * FROM visits WHERE t > 3")
            made.commit()
        return path.read_bytes()


def read_sqlite(path: Path) -> None:
    """Every table of a database."""
    for more in ("-wal", "-shm", "-journal"):
        Path(f"{path}{more}").unlink(missing_ok=True)
    with suppress_refusal():
        count(f"{path}::later")
    count(f"{path}::visits")


def suppress_refusal() -> Any:
    """Go on where one of several readings is refused."""
    from pufferdp import PufferdpError

    return suppress(PufferdpError)


URLS: Final = (
    b"x.db::visits", b"x.db::odd \"name\"", b"x.db::later", b"x.db", b"x.sqlite3::visits", b"other.db::visits",
    b"postgresql://user:word@127.0.0.1:5432/books?table=visits", b"postgres://h/b?table=a.b&sslmode=require",
    b"postgresql://[::1]:5432/books?connect_timeout=2&table=visits", b"https://example.org/x.csv", b"x.csv", b"*.csv",
)  # fmt: skip


def read_url(text: str, folder: Path) -> None:
    """What stands where a path may stand; no server is asked."""

    def connect(address: str, **options: Any) -> Any:
        psycopg.conninfo.conninfo_to_dict(address)
        raise psycopg.OperationalError("connection refused")

    if not (folder / "x.db").exists():
        (folder / "x.db").write_bytes(database())
    where = os.getcwd()
    os.chdir(folder)
    try:
        with (
            patch.object(psycopg, "connect", connect),
            patch.object(postgres, "_bounded_connection", lambda: SimpleNamespace(connect=connect)),
        ):
            if "://" in text and text.startswith("postgres"):
                with suppress_refusal(), open_ledger(text, "week"):
                    pass
            count(text)
    finally:
        os.chdir(where)


SETTINGS: Final = (
    {"PUFFERDP_MEMORY": "1GB"},
    {"PUFFERDP_MEMORY": "50%"},
    {"PUFFERDP_MEMORY": "200MiB", "COLUMNS": "90"},
    {"PUFFERDP_HOME": "home", "XDG_CONFIG_HOME": "there", "HOME": "here"},
    {"TMPDIR": "tmp", "COLUMNS": "0", "TZ": "Europe/Vienna"},
)


def read_settings(content: bytes, folder: Path) -> None:
    """Variables of the environment, each with anything that one can hold."""
    try:
        asked = {
            name: value for name, value in json.loads(content).items() if isinstance(value, str) and "=" not in name
        }
        for name, value in asked.items():
            assert b"\0" not in os.fsencode(name + value)
    except (ValueError, AttributeError, AssertionError, RecursionError):
        return  # no environment has this
    data = folder / "x.csv"
    data.write_text("t,s\n1,a\n2,b\n3,a\n", encoding="utf-8")
    cleared = {name: value for name, value in os.environ.items() if not name.startswith("PUFFERDP_")}
    where = os.getcwd()
    os.chdir(folder)
    try:
        with patch.dict(os.environ, cleared | asked, clear=True), patch.object(tempfile, "tempdir", None):
            with suppress_refusal():
                AnswerFolder.of("postgresql://h/b").check()
            print(
                release(Series(data, "s", order="t"), model=CHAIN, query="histogram", epsilon=1.0), file=io.StringIO()
            )
    finally:
        os.chdir(where)
