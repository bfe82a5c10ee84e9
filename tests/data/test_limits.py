"""Text that is no table anybody would want read is refused before it takes memory or time."""

from __future__ import annotations

import gzip
import io
import resource
from pathlib import Path

import pytest

import pufferdp
from pufferdp.basics.errors import DataError, ModelError, QueryError
from pufferdp.data.csv_stream import change_lines
from pufferdp.data.files import memory_columns
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
        memory_columns(MemoryFile("a.csv", content))
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
