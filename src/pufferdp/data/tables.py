"""The table of a series: columns value, number, order and person, with the types that are counted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import narwhals as nw

from pufferdp.basics.errors import DataError
from pufferdp.data.files import reading
from pufferdp.data.layout import Layout, columns_of
from pufferdp.data.matching import comparable, person_of, words
from pufferdp.data.sources import Frame, Source, open_source


@dataclass(frozen=True, kw_only=True)
class Table:
    """The columns of one series, ready for the counting expressions."""

    frame: Frame
    """The columns value; number (Float64) where ``numeric``; order (Int64 or Float64); person where the layout has one;
    row where rows are asked for by their number."""
    layout: Layout
    text: bool
    """The values are compared as text, otherwise as numbers."""
    numeric: bool
    """There is a column number; it is null where a text is not a number."""
    ticks: str
    """What one unit of order is: ``row``, ``number``, ``us`` or ``ns`` since 1970 in UTC."""
    aware: bool
    """Whether the time stamps had a time zone."""
    exact: bool
    """Whether order is an integer."""

    def place(self, order: Any, person: Any = None) -> str:
        """Where a record is, in words."""
        whose = "" if self.layout.by is None else f", {self.layout.by} {str(person)!r}"
        if self.ticks == "row":
            return f"row {int(order)}{whose}"
        if order is None:
            return f"an unknown {self.layout.order}{whose}"
        return f"{self.layout.order} {self.order_text(order)}{whose}"

    def order_text(self, order: Any) -> str:
        """An order value as it was in the data."""
        if self.ticks not in ("us", "ns"):
            return f"{order:.15g}" if isinstance(order, float) else str(order)
        microseconds, rest = divmod(int(order), 1000 if self.ticks == "ns" else 1)
        try:
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
        except OverflowError:
            return f"{order} {self.ticks} after 1970"
        zone = "" if not self.aware else " UTC"
        return moment.replace(tzinfo=None).isoformat(sep=" ") + (f" and {rest} ns" if rest else "") + zone


@reading()
def open_table(source: Source, layout: Layout, rows: bool = False) -> Table:
    """Read a source, a path or a frame: check the types of its columns and bring them to their final ones."""
    return table_of(open_source(source, columns_of(layout, rows)), layout)


def table_of(frame: Frame, layout: Layout) -> Table:
    """The table of a frame whose columns have the names of their roles."""
    schema = frame.collect_schema()
    order = next(name for name in schema if name.startswith("order"))
    ticks = "us" if "_us" in order else "ns" if "_ns" in order else "number"
    kind = schema[order]
    if not kind.is_numeric():
        raise DataError(
            f"the order column {layout.order!r} holds {words(kind)}; it must hold numbers, dates or time stamps, "
            "such as 2024-05-01 13:30:00",
            value=layout.order,
        )
    small = (nw.Int8, nw.Int16, nw.Int32, nw.Int64, nw.UInt8, nw.UInt16, nw.UInt32)
    exact = isinstance(kind, small)
    # Wider integers and decimals are sorted as doubles: should two fall together they are refused as duplicates.
    picked = [nw.col(order).cast(nw.Int64 if exact else nw.Float64).alias("order")]

    value = comparable(schema["value"], "value", layout.column, "states")
    picked.append(value.value.alias("value"))
    number = nw.col("number") if "number" in schema else value.number
    if number is not None:
        picked.append(number.alias("number"))
    if layout.by is not None:
        picked.append(person_of(schema["person"]).alias("person"))
    if "row" in schema:
        picked.append(nw.col("row").cast(nw.Int64))
    return Table(
        frame=frame.select(*picked),
        layout=layout,
        text=value.text,
        numeric=number is not None,
        ticks="row" if layout.order is None else ticks,
        aware=order.endswith("_utc"),
        exact=exact,
    )
