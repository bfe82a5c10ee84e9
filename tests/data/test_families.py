"""Families of real numbers from every kind of table: exact sums, sizes, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from pufferdp.basics.errors import DataError
from pufferdp.data.families import read_families

ROWS = pd.DataFrame(
    {
        "house": ["b", "a", "b", "a", "c"],
        "who": ["child", "father", "father", "child", "father"],
        "height": [0.1, 0.2, 70.0, 90.5, -3.0],
    }
)
READ = {"column": "height", "by": "house", "id": "who", "records": ("father", "child"), "clip": (0.0, 80.0)}


@pytest.mark.parametrize("kind", ["pandas", "category", "polars", "lazy", "pyarrow", "duckdb", "csv", "parquet"])
def test_every_source(kind, tmp_path):
    ROWS.to_csv(tmp_path / "r.csv", index=False)
    ROWS.to_parquet(tmp_path / "r.parquet")
    source = {
        "pandas": ROWS,
        "category": ROWS.astype({"house": "category", "who": "category"}),
        "polars": pl.from_pandas(ROWS),
        "lazy": pl.from_pandas(ROWS).lazy(),
        "pyarrow": pa.Table.from_pandas(ROWS),
        "duckdb": duckdb.from_df(ROWS),
        "csv": tmp_path / "r.csv",
        "parquet": tmp_path / "r.parquet",
    }[kind]
    found = read_families(source, **READ)
    assert found.lengths == ((1, 1), (2, 2))
    # The exact sum 0.1 + 0.2 + 70 + 80 + 0; 0.1 + 0.2 alone would be 0.30000000000000004.
    assert found.clipped == Fraction(0.1) + Fraction(0.2) + 150
    assert "150" not in repr(found)


def test_sums_are_exact_whatever_the_order():
    """A double that is added up row by row would lose the ones."""
    rng = np.random.default_rng(1)
    numbers = np.concatenate([np.full(1000, 1e16), np.full(1000, -1e16), np.ones(1000)])
    for _ in range(3):
        rng.shuffle(numbers)
        found = read_families(
            pd.DataFrame({"x": numbers}), column="x", by=None, id=None, records=None, clip=(-1e17, 1e17)
        )
        assert found.clipped == 1000
        assert found.lengths == ((3000, 1),)


def test_numbers_may_name_records_and_families():
    frame = pd.DataFrame({"house": [1, 1, 2, 2], "who": [1, 2, 2, 1], "x": [1, 2, 3, 4]})
    for source in (frame, frame.astype({"who": float, "house": float}), frame.astype({"who": str})):
        found = read_families(source, column="x", by="house", id="who", records=("1", "2"), clip=(0, 9))
        assert found.lengths == ((2, 2),)
        assert found.clipped == 10


def changed(column, row, value):
    frame = ROWS.copy()
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (ROWS[:0], "the data has no rows"),
        (ROWS.assign(height=[1, 2, np.nan, 4, np.nan]), "'height' is missing in 2 rows; every record needs its number"),
        (ROWS.assign(height=[1, 2, np.inf, 4, 5]), "'inf' in 'height' is not a finite number"),
        (ROWS.assign(height=list("abcde")), "holds text; the model is about numbers"),
        (changed("house", 0, None), "the column 'house' is missing in 1 row"),
        (changed("who", 0, None), "the id column 'who' is missing in 1 row"),
        (changed("who", 0, "uncle"), "'uncle' in the id column 'who' is not a record of the model.*father, child"),
        (changed("who", 0, "father"), "'father' is in the id column 'who' more than once for house 'b'"),
        (ROWS.drop(columns="who"), "there is no column 'who' .id=.;"),
        (ROWS.assign(who=range(5)), "is not a record of the model"),
    ],
)
def test_what_is_wrong_is_named(frame, words):
    with pytest.raises(DataError, match=words):
        read_families(frame, **READ)


def test_text_in_a_file_is_named(tmp_path):
    (tmp_path / "r.csv").write_text("house,who,height\na,father,tall\n")
    with pytest.raises(DataError, match="'tall' in 'height' is not a finite number"):
        read_families(tmp_path / "r.csv", **READ)


def test_without_families_an_id_that_comes_twice_asks_for_them():
    with pytest.raises(DataError, match=r"more than once; .*tell families apart with by="):
        read_families(ROWS, **{**READ, "by": None})
