"""The counting expressions, in narwhals alone: the same for every engine."""

from __future__ import annotations

import math
from fractions import Fraction

import narwhals as nw

from pufferdp.basics.errors import DataError
from pufferdp.data.layout import Coding, Distance, hides_values, read_distance
from pufferdp.data.matching import keys_of
from pufferdp.data.sources import Frame
from pufferdp.data.tables import Table

MISSING = -1
"""The code of a missing value."""
UNKNOWN = -2
"""The code of a value that is no state."""
STEPS = 2**30
"""A clipped number is rounded to one of this many equal steps of its range, so that sums are exact in any order."""


def coded(table: Table, coding: Coding) -> Frame:
    """Add the column code: the index of the state, ``MISSING`` or ``UNKNOWN``."""
    if coding.bins is not None:
        need_numbers(table, "bins need numbers")
    if hides_values():
        code: nw.Expr = nw.lit(0, nw.Int64)
    elif coding.bins is not None:
        x = nw.col("number")
        inside = (x >= coding.bins[0]) & (x <= coding.bins[-1])
        code = nw.when(inside).then(_bin(x, coding.bins, 0, len(coding.labels))).otherwise(nw.lit(UNKNOWN, nw.Int64))
    else:
        keys = keys_of(coding.labels, text=table.text)
        if keys:
            matched = nw.col("value") if table.text else nw.col("number")
            code = matched.replace_strict(list(keys), list(keys.values()), default=UNKNOWN, return_dtype=nw.Int64)
        else:
            code = nw.lit(UNKNOWN, nw.Int64)
    code = nw.when(nw.col("value").is_null()).then(nw.lit(MISSING, nw.Int64)).otherwise(code)
    return table.frame.with_columns(code.alias("code"))


def need_numbers(table: Table, why: str) -> None:
    """Refuse a column of text where numbers are needed."""
    if not table.numeric:
        raise DataError(
            f"the column {table.layout.column!r} holds text; {why}: convert the column, or name its states",
            value=table.layout.column,
        )


def _bin(x: nw.Expr, bins: tuple[float, ...], low: int, high: int) -> nw.Expr:
    """Binary search among the edges, written as an expression."""
    if high - low == 1:
        return nw.lit(low, nw.Int64)
    middle = (low + high) // 2
    return nw.when(x < bins[middle]).then(_bin(x, bins, low, middle)).otherwise(_bin(x, bins, middle, high))


def scaled(low: float, high: float) -> nw.Expr:
    """The number clipped to [low, high], as an integer between 0 and ``STEPS``."""
    # floor(y + 1/2), because engines differ in how they round halves.
    share = (nw.col("number").clip(low, high) - low) / (high - low)
    return (share * STEPS + 0.5).floor().cast(nw.Int64)


def unscaled(total: int, records: int, low: float, high: float) -> Fraction:
    """The sum that a sum of ``scaled`` numbers stands for."""
    return Fraction(low) * records + (Fraction(high) - Fraction(low)) * Fraction(total, STEPS)


def linked(table: Table, frame: Frame, missing: bool, pieces: bool = False) -> Frame:
    """The records among coded rows, each linked to the one before it.

    Adds twin (same order as the row before), before (the code of the record before), start of a chain, steps from the
    record before, and off (no whole number of steps). A missing value is a record of the chain that is not read, so it
    counts as a step and is dropped; ``missing`` says whether there is any. With ``pieces`` what follows an unobserved
    step starts a chain of its own.
    """

    def previous(name: str) -> nw.Expr:
        return in_order(table, nw.col(name).shift(1))

    layout, more = table.layout, dict[str, nw.Expr]()
    if missing:
        frame = frame.with_columns(row_place=in_order(table, nw.col("code").cum_count()), row_before=previous("order"))
        again = (nw.col("order") == nw.col("row_before")).fill_null(False)
        # A missing value beside a record of the same order stays, so that both are refused.
        frame = frame.with_columns(again=again.cast(nw.Int64)).filter((nw.col("code") >= 0) | again)
        more["place_before"] = previous("row_place")
    frame = frame.with_columns(before=previous("code"), order_before=previous("order"), **more)
    starts = nw.col("before").is_null()
    if layout.restart is not None:
        starts = starts | _far(table, read_distance(layout.restart, "restart"))
    steps, off = _steps(table, missing)
    if pieces:
        starts = starts | (steps != 1)
    twin = (nw.col("order") == nw.col("order_before")).fill_null(False).cast(nw.Int64)
    return frame.with_columns(
        twin=nw.max_horizontal(twin, nw.col("again")) if missing else twin,
        start=(starts & (nw.col("code") >= 0)).cast(nw.Int64),
        record=(nw.col("code") >= 0).cast(nw.Int64),
        steps=steps,
        off=off.cast(nw.Int64),
    )


def _steps(table: Table, missing: bool) -> tuple[nw.Expr, nw.Expr]:
    """How many steps lie between a record and the one before, and whether that is no whole number."""
    layout, nothing = table.layout, nw.lit(False)
    if layout.step is None or layout.order is None:
        # Rows are one step apart, those without a value included.
        rows = (nw.col("row_place") - nw.col("place_before")).cast(nw.Int64) if missing else nw.lit(1, nw.Int64)
        return rows, nothing
    amount = read_distance(layout.step, "step").amount * (1000 if table.ticks == "ns" else 1)
    distance = nw.col("order") - nw.col("order_before")
    if table.exact and amount.denominator == 1 and amount < 2**62:
        whole = distance // int(amount)
        return whole.cast(nw.Int64), (distance - whole * int(amount)) != 0
    share = distance.cast(nw.Float64) / float(amount)
    whole = (share + 0.5).floor()
    # Doubles are within rounding of what was written; a step of exact times that is no whole number is off by more.
    slack = nw.col("order").cast(nw.Float64).abs() * (2.0**-50 / float(amount)) + 2.0**-40
    return whole.cast(nw.Int64), (share - whole).abs() > slack


def chains(table: Table, links: Frame) -> Frame:
    """One row a chain of linked records: person, length, first (of its person) and twin (records of an order taken).

    What comes before the first record of a person is a row of length 0.
    """
    numbered = links.with_columns(chain=in_order(table, nw.col("start").cum_sum()).cast(nw.Int64))
    summed = numbered.group_by(*table.people, "chain").agg(nw.col("record").sum().alias("length"), nw.col("twin").sum())
    return summed.with_columns(nw.col("length").cast(nw.Int64), first=(nw.col("chain") == 1).cast(nw.Int64))


def in_order(table: Table, expression: nw.Expr) -> nw.Expr:
    """Evaluate along the order of each person."""
    return expression.over(*table.people, order_by="order")


def moves(table: Table, frame: Frame, missing: bool, pieces: bool = False) -> Frame:
    """The records, each with the move that leads to it.

    Adds first (1 for the first record of a person); before, -1 where a chain starts; and apart, the steps from the
    record before, and where a chain starts the rows that are missing before the first record of the person.
    """
    links = linked(table, frame, missing, pieces).filter(nw.col("record") == 1)
    starts, first = nw.col("start") == 1, nw.col("before").is_null()
    lead = nw.when(first).then(nw.col("row_place") - 1).otherwise(0) if missing else nw.lit(0)
    return links.with_columns(
        first=first.cast(nw.Int64),
        before=nw.when(starts).then(nw.lit(-1, nw.Int64)).otherwise(nw.col("before").cast(nw.Int64)),
        apart=nw.when(starts).then(lead.cast(nw.Int64)).otherwise(nw.col("steps")),
    )


def slot_moves(table: Table, frame: Frame, missing: bool, period: Distance, slots: int) -> Frame:
    """How often which state follows which, so many steps later, from each slot of a period on, for each person.

    Columns before, code, apart, slot (that of the record before), count and person. At the start of a chain before is
    -1, apart is 0 and the slot is that of the first record.
    """
    starts = nw.col("start") == 1
    left_at = nw.when(starts).then(nw.col("order")).otherwise(nw.col("order_before"))
    frame = moves(table, frame, missing).with_columns(
        slot=_slot(table, left_at, period, slots), apart=nw.when(starts).then(0).otherwise(nw.col("apart"))
    )
    keys = ["before", "code", "apart", "slot", *table.people]
    counted = frame.group_by(*keys).agg(nw.len().cast(nw.Int64).alias("count"))
    return counted.select(*keys[:4], "count", *keys[4:])


_MONDAY = Fraction(4 * 86_400_000_000)
"""The first Monday after 1970 began, at midnight, in microseconds: slots of times are counted from there."""


def _slot(table: Table, order: nw.Expr, period: Distance, slots: int) -> nw.Expr:
    """Which of the equal parts of a period a place lies in; times as they are written, or in UTC with a zone."""
    ticks = 1000 if table.ticks == "ns" else 1
    whole, begins = period.amount * ticks, (_MONDAY if period.is_duration else Fraction(0)) * ticks
    part = whole / slots
    if table.exact and part.denominator == 1 and whole < 2**62:
        # Twice, because engines differ in the sign of what is left of a negative number.
        rest = ((order - int(begins)) % int(whole) + int(whole)) % int(whole)
        return (rest // int(part)).cast(nw.Int64)
    # Doubles are within rounding of what was written: a place within that of a slot is in it.
    place = ((order.cast(nw.Float64) - float(begins)) / float(part) + 2.0**-30).floor()
    return (place - (place / slots).floor() * slots).cast(nw.Int64)


def _far(table: Table, gap: Distance) -> nw.Expr:
    """Whether the record before is farther away than the gap."""
    distance = nw.col("order") - nw.col("order_before")
    if table.exact:
        # Whole distances exceed the gap exactly when they exceed its whole part.
        whole = math.floor(gap.amount * (1000 if table.ticks == "ns" else 1))
        return distance > min(whole, 2**63 - 1)
    # 0.4 - 0.3 is a little more than 0.1 in doubles: a distance within rounding of the gap counts as equal.
    return (distance - float(min(gap.amount, Fraction(2) ** 1000))) > nw.col("order").abs() * 2.0**-51


def check_distance(timed: bool, order: str | None, distance: Distance) -> None:
    """A duration needs an order column with times, a bare number one with numbers."""
    name, text = distance.name, distance.text
    whose = "the model's step" if name == "step" else name
    if distance.is_duration and not timed:
        raise DataError(
            f"{whose} is {text} but {order!r} holds numbers; give a number in that column's unit", value=text
        )
    if timed and not distance.is_duration:
        raise DataError(f"{whose} is {text} but {order!r} holds times; say of what, for example {text}min", value=text)
