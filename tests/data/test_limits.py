"""Text that is no table anybody would want read is refused before it takes memory or time."""

from __future__ import annotations

import gzip
import io
import resource
import signal
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

import pufferdp
from pufferdp.basics.errors import DataError, ModelError, QueryError
from pufferdp.data.csv_stream import change_lines
from pufferdp.data.files import column_names, connect, reading
from pufferdp.data.layout import Coding, Layout, read_distance
from pufferdp.data.memory import MemoryFile
from pufferdp.data.parts import LONGEST_LINE, MOST_COLUMNS
from pufferdp.publish.tables.parsing import parse_questions

WIDE = ",".join(f"column{n}" for n in range(200_000)).encode()
ROW = b",".join([b"1"] * 200_000)
LAYOUT, CODING = Layout(column="a"), Coding(labels=("x", "y"), bins=None)
MODEL = pufferdp.MarkovChain(transition=[[0.9, 0.1], [0.2, 0.8]], states=["x", "y"])


def text(kind: str) -> bytes:
    """A table that is refused, and which line of it."""
    return {
        "header": WIDE + b"\n" + ROW + b"\n",
        "semicolons": WIDE.replace(b",", b";") + b"\n",
        "second line": b"a,b\nx,1\n" + ROW + b"\n",
        "quoted header": b'"a\nb",' + WIDE + b"\n" + ROW + b"\n",
        "old ends of lines": WIDE + b"\r" + ROW + b"\r",
        "one line": b"a" * (LONGEST_LINE + 1),
        "one long line": b"a,b\nx,1\n" + b"x" * (LONGEST_LINE + 1),
    }[kind]


def read(content: bytes, way: str, folder: Path) -> None:
    """Have it read from a file, or from memory as the page has it."""
    if way == "memory":
        column_names(MemoryFile("a.csv", content))
        return
    file = folder / ("a.csv.gz" if way == "gz" else "a.csv")
    file.write_bytes(gzip.compress(content) if way == "gz" else content)
    pufferdp.release(file, model=MODEL, query="count:x", column="a", epsilon=1.0)


KINDS = ("header", "semicolons", "second line", "quoted header", "old ends of lines", "one line", "one long line")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["file", "gz", "memory"])
def test_wide_and_long_text_is_refused_before_it_is_parsed(kind: str, way: str, tmp_path: Path) -> None:
    content = text(kind)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(pufferdp.DataError, match=r"fields, and a table may have 10,000|longer than 2,000,000 bytes"):
        read(content, way, tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # kilobytes


@pytest.mark.parametrize(
    "content",
    [
        WIDE + b"\n",
        b"a" * (LONGEST_LINE + 1),
        b"a\nx\n" + b"x" * (LONGEST_LINE + 1),
        b'a\n"x"\n' + b"x" * (LONGEST_LINE + 1),
        b'a\n"' + b"x" * 200_000,
    ],
)
def test_a_stream_is_refused_too(content: bytes) -> None:
    with pytest.raises(pufferdp.DataError, match=r"columns|longer than|field is too long"):
        change_lines(io.BytesIO(content), io.BytesIO(), LAYOUT, CODING, ("x", "y"), lambda codes: codes)


def parquet(path: Path, *, once: bool, rows: int = 400) -> Path:
    """Rows of one long text, and of one short one; written once and used in every row, or plainly and compressed."""
    table = pyarrow.table({"a": ["x", "y"] * (rows // 2), "long": ["a" * 10_000] * rows, "n": range(rows)})
    pyarrow.parquet.write_table(table, path, use_dictionary=once, compression="zstd")
    assert path.stat().st_size < 50_000
    return path


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("way", ["file", "memory", "keep"])
def test_a_small_parquet_file_of_much_text_is_rejected_before_it_is_read(
    once: bool, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4 MB of text against a limit of 1 MB; columns that are not read do not count."""
    file = parquet(tmp_path / "a.parquet", once=once)
    source = MemoryFile("a.parquet", file.read_bytes()) if way == "memory" else file

    def read() -> object:
        if way == "keep":
            options = {"column": "a", "private": 5, "epsilon": 1.0, "keep": ["long"], "out": tmp_path / "out.csv"}
            return pufferdp.redact(source, model=MODEL, overwrite=True, **options)
        return pufferdp.fit(source, column="long")

    monkeypatch.setenv("PUFFERDP_DATA_LIMIT", "1MB")
    with pytest.raises(DataError, match=r"a\.parquet' take more than 0\.001 GB .* PUFFERDP_DATA_LIMIT=0\.002GB"):
        read()
    pufferdp.fit(source, column="a", order="n")
    monkeypatch.setenv("PUFFERDP_DATA_LIMIT", "7 MB")
    read()


def test_a_limit_that_is_no_amount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUFFERDP_DATA_LIMIT", "much")
    with pytest.raises(DataError, match="PUFFERDP_DATA_LIMIT is 'much'; it must be an amount such as 4GB"):
        pufferdp.fit(parquet(tmp_path / "a.parquet", once=True), column="a")


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} AS t, 'x' AS s FROM n"


def endless(path: Path) -> Path:
    """A SQLite file with a view that gives rows without end, and one that works without end for its first row."""
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE VIEW rows AS {ENDLESS.format('i')}")
        database.execute(f"CREATE VIEW silent AS {ENDLESS.format('count(*)')}")
    return path


def test_an_endless_view_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUFFERDP_DATA_LIMIT", "100kB")
    with pytest.raises(DataError, match=r"the columns of '.*::rows' take more than 0\.0001 GB"):
        pufferdp.fit(f"{endless(tmp_path / 'a.db')}::rows", column="s", order="t")


def test_short_rows_count_with_what_is_kept_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless rows of a few letters took ten minutes and more to reach 4 GB."""
    monkeypatch.setenv("PUFFERDP_DATA_LIMIT", "100kB")
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute(f"CREATE VIEW rows AS {ENDLESS.format('i')} LIMIT 3000")
    with pytest.raises(DataError, match="take more than"):
        pufferdp.fit(f"{tmp_path / 'a.db'}::rows", column="s", order="t")


def interrupt_soon() -> None:
    threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()


def test_ctrl_c_ends_a_view_that_gives_no_row(tmp_path: Path) -> None:
    source = f"{endless(tmp_path / 'a.db')}::silent"
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        pufferdp.fit(source, column="s", order="t")


def test_ctrl_c_ends_a_query_of_duckdb() -> None:
    """DuckDB itself raises a RuntimeError. The query takes hours.

    DuckDB notices a signal in the thread that called it, unless that waits for another: so there is no other here.
    """
    with connect() as connection:
        connection.execute("SET threads = 1")
        interrupt_soon()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt), reading():
            connection.execute("SELECT count(DISTINCT hash(range) % 9) FROM range(2000000000000)").fetchall()
    assert time.monotonic() - began < 100


def test_a_table_at_the_limit_is_read(tmp_path: Path) -> None:
    names = ",".join(f"c{n}" for n in range(MOST_COLUMNS))
    file = tmp_path / "a.csv"
    file.write_text(f"{names}\n" + "\n".join(",".join([state] * MOST_COLUMNS) for state in "xyxxy"))
    made = pufferdp.release(file, model=MODEL, query="count:x", column="c9999", epsilon=1.0)
    assert made.certificate.to_dict()["data"]["lengths"] == [[5, 1]]


@pytest.mark.parametrize("text", ["7" * 5065 + "h", "7" * 5065, "1e999999999", "1e-999999999", "0." + "1" * 9999])
def test_distances_of_thousands_of_digits(text: str) -> None:
    """Python has a limit and words of its own for the first, and would write out a billion zeros of the third."""
    with pytest.raises(DataError, match=r"restart is .{,90}; it must be above 0"):
        read_distance(text, "restart")


@pytest.mark.parametrize("text", ["7" * 5065, "1e-999999999"])
def test_shares_of_thousands_of_digits(text: str) -> None:
    with pytest.raises(QueryError, match="shares are numbers"):
        parse_questions([f"quantile:{text}"])


@pytest.mark.parametrize("text", ["7" * 5065 + "min", "1e999999999", "7" * 5065])
def test_steps_of_thousands_of_digits(text: str) -> None:
    with pytest.raises(ModelError, match="step is"):
        pufferdp.MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], step=text)
