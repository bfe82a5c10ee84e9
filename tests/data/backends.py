"""The same rows in every kind of source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet


def _csv(table: pa.Table, folder: Path) -> Any:
    pyarrow.csv.write_csv(table, folder / "series.csv")
    return folder / "series.csv"


def _tsv(table: pa.Table, folder: Path) -> Any:
    options = pyarrow.csv.WriteOptions(delimiter="\t", quoting_style="needed")
    pyarrow.csv.write_csv(table, folder / "series.tsv", options)
    return str(folder / "series.tsv")


def _parquet(table: pa.Table, folder: Path) -> Any:
    pyarrow.parquet.write_table(table, folder / "series.parquet")
    return folder / "series.parquet"


def _parquet_folder(table: pa.Table, folder: Path) -> Any:
    half = len(table) // 2
    (folder / "parts").mkdir(exist_ok=True)
    pyarrow.parquet.write_table(table.slice(0, half), folder / "parts" / "a.parquet")
    pyarrow.parquet.write_table(table.slice(half), folder / "parts" / "b.parquet")
    return folder / "parts"


BACKENDS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "csv": _csv,
    "tsv": _tsv,
    "parquet": _parquet,
    "parquet folder": _parquet_folder,
    "pandas": lambda table, _: table.to_pandas(),
    "polars": lambda table, _: pl.from_arrow(table),
    "polars lazy": lambda table, _: pl.from_arrow(table).lazy(),
    "pyarrow": lambda table, _: table,
    "duckdb": lambda table, _: duckdb.connect().from_arrow(table),
}
ORDERED = {name: make for name, make in BACKENDS.items() if name != "duckdb"}
"""Those with a row order of their own."""
