"""No broken file or text ends in a traceback, and none takes long. ``python -m tests.fuzz N`` tries many more."""

from __future__ import annotations

import io
import shutil
import sqlite3
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from pufferdp import DataError, Ledger, LedgerError, PufferdpError, Series, release
from pufferdp.bounds.units.secrets import SegmentSecret
from pufferdp.data.csv_stream import change_lines
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.matching import natural_order
from pufferdp.data.ranges import read_last, read_moment
from pufferdp.models.bins import bins_text
from pufferdp.models.clock import rhythm_of
from pufferdp.models.units import Unit
from tests.fuzz.mutate import json_bytes
from tests.fuzz.sources import count as read_series
from tests.fuzz.targets import GOLDEN, STEPPED, refused, targets
from tests.strategies import examples

CASES, LONGEST = 400, 100.0
TARGETS = targets()


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_broken_inputs_are_refused_with_a_sentence(name: str, tmp_path: Path) -> None:
    target, refusals, count = TARGETS[name], 0, examples(CASES // TARGETS[name].cost)
    for number, content in enumerate(target.cases(count, seed=22)):
        begun = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning is not a traceback
            try:
                refusals += refused(target, content, tmp_path)
            except Exception as error:
                raise AssertionError(f"{name}, case {number}: {content[:300]!r}") from error
        assert time.process_time() - begun < LONGEST, (name, number)
    # The changes do break things. Most of a page's request, or of an environment, may be anything: 3 of 100 fail.
    assert count < 100 or refusals > count / (50 if name in ("page", "settings") else 20)


def test_numbers_of_any_length_are_no_places() -> None:
    """Found by these inputs: a number of 400 digits had no double."""
    for read in (read_moment, read_last):
        with pytest.raises(DataError, match="not a finite number"):
            read("9" * 400, "number")


MANY = "7" * 5000


@pytest.mark.parametrize(
    "read",
    [
        lambda: SegmentSecret.parse(f"all:{MANY}..{MANY}", STEPPED, None),
        lambda: Unit.of(MANY, STEPPED),
        lambda: rhythm_of(MANY),
        lambda: rhythm_of("²"),
        lambda: bins_text([0, 10**400]),
        lambda: Series(["a", "\ud800"]),
        lambda: Series([1, 10**5000]),
        lambda: release(
            Series(["a", "b"] * 9), model=STEPPED, query="histogram", epsilon=1, adversary="pufferfish",
            secrets={"secrets": {"x": {MANY: "a"}, "y": {MANY: "b"}}, "pairs": [["x", "y"]]},
        ),
    ],
)  # fmt: skip
def test_texts_that_python_does_not_read_are_refused(read: Callable[[], object]) -> None:
    """Each was a traceback."""
    with pytest.raises(PufferdpError):
        read()


def test_long_names_and_the_last_day_are_read() -> None:
    """Both were tracebacks: a state with thousands of digits in its name, and a day without another behind it."""
    assert sorted([f"s{MANY}", "s10", "s2"], key=natural_order) == [f"s{MANY}", "s2", "s10"]
    assert SegmentSecret.parse("all:9999-12-31", STEPPED, None).records == 288


def test_a_line_end_inside_a_header_is_refused() -> None:
    """Found by these inputs."""
    layout, coding = Layout(column="s", order="t"), Coding(labels=("a", "b"))
    with pytest.raises(DataError, match="line end inside a name"):
        change_lines(io.BytesIO(b"t,s\rx\n1,a\n"), io.BytesIO(), layout, coding, coding.labels, lambda codes: codes)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ledger_datasets SET definition = replace(definition, 'adversary', 'adversarx')",
        "UPDATE ledger_datasets SET definition = replace(definition, '\"created\"', '\"createx\"')",
        'UPDATE ledger_datasets SET definition = replace(definition, \'"budget":6\', \'"budget":"6"\')',
        "UPDATE ledger_models SET content = substr(content, 1, 40)",
    ],
)
def test_a_damaged_ledger_is_said_to_be_damaged(change: str, tmp_path: Path) -> None:
    """Found by these inputs: what a data set was made with, and its model, were taken at their word."""
    books = tmp_path / "books.db"
    shutil.copy(GOLDEN / "ledger.db", books)
    with sqlite3.connect(books) as connection:
        connection.execute(change)
    connection.close()
    with Ledger(books) as ledger:
        with pytest.raises(LedgerError, match=r"damaged|missing"):
            ledger.dataset("week")
        assert not ledger.verify().valid


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://[::1/books?table=visits",
        "postgresql://\udcff\udcfe:word@h/books?table=visits",
        f"{'a' * 5000}.db::visits",
        "a\0/*.csv",
    ],
)
def test_addresses_that_cannot_be_read_are_refused(url: str) -> None:
    """Each was a traceback: of urllib, of psycopg and twice of a file system."""
    with pytest.raises(DataError, match=r"the URL cannot be read|there is no file") as caught:
        read_series(url)
    assert "word" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "backend", "cell", "role", "verb"),
    [
        ("decimal", "polars", "min", "t", "fit"),
        ("milliseconds", "polars", "max", "who", "release"),
        ("zone", "polars", "max", "who", "flip"),
        ("milliseconds", "pandas of arrow", "max", "t", "redact"),
    ],
)
def test_cells_that_are_too_large_for_their_column_are_refused(
    kind: str, backend: str, cell: str, role: str, verb: str, tmp_path: Path
) -> None:
    """Each was a traceback: one quoted the cells, and a panic of Polars is caught by no ``except Exception``."""
    columns = {
        "t": {"type": "int64", "cells": list(range(6))},
        "s": {"type": "string", "cells": ["a", "b"] * 3},
        role: {"type": kind, "cells": [cell, *(range(5) if kind == "decimal" else ["2024-05-03"] * 5)]},
    }
    options = {"order": "t"} | ({"by": "who"} if role == "who" else {})
    content = json_bytes({"backend": backend, "verb": verb, "options": options, "columns": columns})
    with pytest.raises(DataError, match="could not be read") as caught:
        TARGETS["frame"].run(content, tmp_path)
    assert "9.22" not in str(caught.value)
