"""SQL conditions that leave rows outside a stretch where they are: in a database, or in row groups of Parquet files.

They may let a few rows more through, never fewer: what lies in the stretch is decided in ``tables``, by one expression
for every source. Rows without a finite place pass too, and are refused there.
"""

from __future__ import annotations

from typing import Final

from pufferdp.basics.errors import DataError
from pufferdp.data.layout import Columns
from pufferdp.data.parts import identifier, literal
from pufferdp.data.ranges import Moment, moment_text, read_last, read_moment

_UNITS: Final = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE"), "number"),
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_NS"), "time"),
    **dict.fromkeys(("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"), "utc"),
}
"""What the order is measured in, by DuckDB's name of its type; columns of other types come whole."""
_BEGINS_WITH_DATE: Final = "-".join(["[0-9]" * 4, "[0-9]" * 2, "[0-9]" * 2]) + "*"
_MICROSECOND: Final = 1000
_DAY: Final = 86_400 * 10**9
_FAR: Final = 9_000 * 365 * _DAY
"""Beyond this a date is no text with a year of four digits; such a bound is left out."""


def typed_condition(columns: Columns, kind: str) -> str:
    """The condition on an order column of this type, in words that DuckDB and PostgreSQL share; empty for none."""
    unit = _UNITS.get(kind)
    if unit is None or columns.rows or columns.numbered or (columns.first is None and columns.last is None):
        return ""
    name = identifier(columns.roles["order"])
    # A microsecond to either side: neither engine need hold nanoseconds.
    first, last = _ends(columns, unit, _MICROSECOND)
    bounds = [f"{name} {sign} {_literal(end, kind)}" for sign, end in ((">=", first), ("<=", last)) if end is not None]
    if not bounds:
        return ""
    odd = f" OR CAST({name} AS FLOAT8) IN ('NaN', 'Infinity', '-Infinity')" if kind in ("FLOAT", "DOUBLE") else ""
    return f" WHERE {name} IS NULL OR ({' AND '.join(bounds)}){odd}"


def untyped_condition(columns: Columns) -> str:
    """The same for SQLite, where each cell has a type of its own: numbers, and texts that begin with a date."""
    if columns.first is None and columns.last is None:
        return ""
    name = identifier(columns.roles["order"])
    for unit in ("number", "utc"):
        try:
            # A text may have any time zone, which moves its date by a day at most.
            first, last = _ends(columns, unit, 0 if unit == "number" else _DAY)
        except DataError:
            continue
        break
    else:
        return ""  # refused when it is known what the column holds
    if unit == "number":
        cell, other = name, f"typeof({name}) NOT IN ('integer', 'real')"
        texts = [None if end is None else repr(end) for end in (first, last)]
    else:
        cell, other = f"substr({name}, 1, 10)", f"{name} NOT GLOB {literal(_BEGINS_WITH_DATE)}"
        texts = [None if end is None else literal(str(moment_text(end, "time"))[:10]) for end in (first, last)]
    bounds = [f"{cell} {sign} {text}" for sign, text in zip((">=", "<="), texts, strict=True) if text is not None]
    return f" WHERE {name} IS NULL OR {other} OR ({' AND '.join(bounds)})" if bounds else ""


def _ends(columns: Columns, unit: str, margin: int) -> tuple[Moment | None, Moment | None]:
    first, last = read_moment(columns.first, unit), read_last(columns.last, unit)
    if unit == "number":
        return first, last
    near_first = None if first is None or abs(first) > _FAR else first - margin
    return near_first, None if last is None or abs(last) > _FAR else last + margin


def _literal(end: Moment, kind: str) -> str:
    if _UNITS[kind] == "number":
        return repr(end)
    text = str(moment_text(int(end) // _MICROSECOND * _MICROSECOND, _UNITS[kind]))
    return f"DATE {literal(text[:10])}" if kind == "DATE" else f"{_SQL_NAMES.get(kind, kind)} {literal(text)}"


_SQL_NAMES: Final = {"TIMESTAMP_NS": "TIMESTAMP", "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ"}
