"""The table of a series: columns value, number, order and person, with the types that are counted."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Final

import narwhals as nw

from pufferdp.basics.errors import DataError
from pufferdp.basics.words import quoted_value
from pufferdp.data.files import reading
from pufferdp.data.layout import Layout, column_pair, columns_of, duration_text
from pufferdp.data.matching import comparable, pair_of, person_of, words
from pufferdp.data.ranges import Moment, read_segment
from pufferdp.data.sources import Frame, Source, open_source
from pufferdp.data.sources import rows as rows_of

_LOOKED_AT: Final = 10_000
"""Rows in which an example is looked for."""
EXACT_ORDERS: Final = (nw.Int8, nw.Int16, nw.Int32, nw.Int64, nw.UInt8, nw.UInt16, nw.UInt32)
"""The types that 64 bits hold."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """The columns of one series, ready for the counting expressions."""

    frame: Frame
    """The columns value; number (Float64) where ``numeric``; order (Int64 or Float64); person and category where the
    layout has them; row where rows are asked for by their number."""
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

    @property
    def unit(self) -> str:
        """What ranges of the order are measured in: one of ``ranges.UNITS``."""
        return "number" if not self.timed else "utc" if self.aware else "time"

    @property
    def timed(self) -> bool:
        """Whether the order column holds times."""
        return self.ticks in ("us", "ns")

    @property
    def people(self) -> list[str]:
        """The column that tells people apart, where there is one."""
        return [] if self.layout.by is None else ["person"]

    @property
    def lost(self) -> nw.Expr:
        """Whether a row has no order, or none that is finite."""
        lost = nw.col("order").is_null()
        return lost if self.exact else lost | ~nw.col("order").is_finite().fill_null(False)

    def inside(self, first: Any, last: Any) -> nw.Expr:
        """Whether a row has a place in a segment of the order, both ends included."""
        low, high = read_segment(first, last, self.unit)
        step = 1000 if self.ticks == "us" else 1
        inside = ~self.lost
        if low is not None:
            # Whole ticks at or after it: the nearest one above.
            least = (math.ceil(low) if step == 1 else -(-int(low) // step)) if self.exact else float(low)
            inside = inside & _compared(least, self.exact, above=True)
        if high is not None:
            most = (math.floor(high) if step == 1 else int(high) // step) if self.exact else float(high)
            inside = inside & _compared(most, self.exact, above=False)
        return inside

    def moment(self, order: Any) -> Moment:
        """An order value as ranges have it."""
        if self.timed:
            return int(order) * (1000 if self.ticks == "us" else 1)
        whole = self.exact or (float(order).is_integer() and abs(order) < 2**53)
        return int(order) if whole else float(order)

    def place(self, order: Any, person: Any = None) -> str:
        """Where a record is, in words."""
        whose = "" if self.layout.by is None else f", {self.layout.by} {str(person)!r}"
        if self.ticks == "row":
            return f"row {int(order)}{whose}"
        if order is None:
            return f"an unknown {self.layout.order}{whose}"
        return f"{self.layout.order} {self.order_text(order)}{whose}"

    def distance(self, distance: Any) -> str | float:
        """A distance along the order, as it is written in a model or on a command line."""
        if not self.timed:
            return int(distance) if self.exact or float(distance).is_integer() else float(distance)
        return duration_text(Fraction(int(distance), 1000 if self.ticks == "ns" else 1))

    def order_text(self, order: Any) -> str:
        """An order value as it was in the data."""
        if not self.timed:
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
    ticks, aware = "us" if "_us" in order else "ns" if "_ns" in order else "number", order.endswith("_utc")
    kind = schema[order]
    if not kind.is_numeric():
        raise DataError(
            f"the order column {layout.order!r} holds {words(kind)}{_neither(frame, order)}; it must hold numbers, "
            "dates or time stamps, such as 2024-05-01 13:30:00",
            value=layout.order,
        )
    exact = isinstance(kind, EXACT_ORDERS)
    # Wider integers and decimals are sorted as doubles: should two fall together they are refused as duplicates.
    picked = [nw.col(order).cast(nw.Int64 if exact else nw.Float64).alias("order")]

    pair = column_pair(layout.column)
    if pair is None:
        value = comparable(schema["value"], "value", layout.column, "states")
        number = nw.col("number") if "number" in schema else value.number
    else:
        value, number = pair_of(schema["value"], schema["second_value"], pair), None
    picked.append(value.value.alias("value"))
    if number is not None:
        picked.append(number.alias("number"))
    if layout.by is not None:
        picked.append(person_of(schema["person"]).alias("person"))
    if layout.group is not None:
        picked.append(person_of(schema["category"], "category").alias("category"))
    if "row" in schema:
        picked.append(nw.col("row").cast(nw.Int64))
    table = Table(
        frame=frame.select(*picked),
        layout=layout,
        text=value.text,
        numeric=number is not None,
        ticks="row" if layout.order is None else ticks,
        aware=aware,
        exact=exact,
    )
    if not layout.is_part:
        return table
    # One without a place is refused later, wherever it belongs.
    return replace(table, frame=table.frame.filter(table.lost | table.inside(layout.first, layout.last)))


def _compared(bound: float, exact: bool, *, above: bool) -> nw.Expr:
    """Whether the order is at least, or at most, a bound, which may lie beyond what 64 bits hold."""
    if exact and not -(2**63) <= bound < 2**63:
        return nw.lit((bound < 0) == above)
    return nw.col("order") >= bound if above else nw.col("order") <= bound


def _neither(frame: Frame, order: str) -> str:
    """A text of the order column that is neither a time nor a number, where there is one among the first."""
    for (text,) in rows_of(frame.select(order).head(_LOOKED_AT)):
        if isinstance(text, str):
            with suppress(ValueError):
                float(text.strip())
                continue
            with suppress(ValueError):
                datetime.fromisoformat(text.strip())
                continue
            return f", {quoted_value(text)} for instance"
    return ""
