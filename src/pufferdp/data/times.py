"""Columns that hold times: dates and time stamps by their type, and text that is written as them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any, Final

import duckdb
import narwhals as nw

SAMPLE: Final = 100
"""Rows of a text column that are looked at: a column of other text shows itself in the first few."""
HOUR: Final = r"\d{1,2}:\d{2}(:\d{2}([.,]\d*)?)?"
_DATE: Final = r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{4})"
_TIME: Final = re.compile(rf"\s*{_DATE}([T ]{HOUR}\s*([AaPp][Mm]|Z|UTC|[+-]\d{{2}}(:?\d{{2}})?)?)?\s*")
"""A date, alone or with a time of day."""


def all_times(values: Iterable[object]) -> bool:
    """Whether there are values, and each is a date or a time stamp, or text of one; missing ones do not count."""
    present = [value for value in values if not _is_missing(value)]
    return bool(present) and all(
        isinstance(value, date) or (isinstance(value, str) and _TIME.fullmatch(value)) for value in present
    )


def _is_missing(value: object) -> bool:
    """Whether a cell is None, NaN, or what pandas has in its place."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and math.isnan(value))
    )


def relation_times(relation: duckdb.DuckDBPyRelation) -> list[str]:
    """The columns of a DuckDB relation that hold times."""
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    texts = [name for name, kind in kinds.items() if kind == "VARCHAR"]
    picked = ", ".join('"' + name.replace('"', '""') + '"' for name in texts)
    written = _times_among(texts, relation.limit(SAMPLE).project(picked).fetchall() if texts else [])
    return [name for name, kind in kinds.items() if kind.startswith(("DATE", "TIMESTAMP")) or name in written]


def frame_times(frame: Any) -> list[str]:
    """The columns of a narwhals frame of pandas, polars or Arrow that hold times."""
    schema = frame.collect_schema()
    texts = [name for name, kind in schema.items() if kind in (nw.String, nw.Object)]
    written = _times_among(texts, frame.select(texts).head(SAMPLE).lazy().collect().rows() if texts else [])
    return [name for name, kind in schema.items() if kind in (nw.Date, nw.Datetime) or name in written]


def _times_among(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> set[str]:
    return {name for name, values in zip(names, zip(*rows, strict=True), strict=False) if all_times(values)}
