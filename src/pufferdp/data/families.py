"""A table of real numbers, in families or in series: how many rows each has, and the sum of the clipped numbers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from pufferdp.basics.arrays import exact_sum
from pufferdp.basics.errors import DataError, ValuesError
from pufferdp.basics.words import shorten
from pufferdp.data.expressions import UNKNOWN, in_order
from pufferdp.data.files import reading
from pufferdp.data.layout import Coding, Columns, Counts, Layout, hides_values
from pufferdp.data.matching import comparable, keys_of, person_of, shown
from pufferdp.data.series import Series, open_series
from pufferdp.data.sources import Frame, Source, doubles, need_values, open_source, rows


@dataclass(frozen=True, kw_only=True)
class Families:
    """What was read; how many families there are and how large is public."""

    lengths: tuple[tuple[int, int], ...]
    """(rows of a family, how many families have so many), sorted."""
    clipped: Fraction = field(repr=False)
    """EXACT: the sum of the clipped numbers, rounded to a double once. Numbers are not rounded one by one, as those of
    a series are: the sum then never moves by more than the records do."""


@reading()
def read_families(
    source: Source,
    *,
    column: str,
    by: str | None,
    id: str | None,
    records: Sequence[str] | None,
    clip: tuple[float, float],
) -> Families:
    """Read the numbers of one column.

    Args:
        source: A file or a frame, with one row for each record of each family.
        column: The column with the numbers.
        by: The column that tells families apart. None: all rows are one family.
        id: The column that says which record of its family a row is, if there is one.
        records: The names of the records, where there is an id.
        clip: The range that numbers are clipped to.
    """
    named = {"value": column, "person": by, "id": id}
    columns = Columns(roles={role: name for role, name in named.items() if name is not None}, key="value")
    frame = _numbers(open_source(source, columns), column, by)
    if id is not None:
        _check_ids(frame, id, by, records or ())
    if by is None:
        ((count,),) = rows(frame.select(nw.len().alias("rows")))
        lengths = [(int(count), 1)]
    else:
        sizes = frame.group_by("person").agg(nw.len().alias("rows"))
        lengths = [(int(a), int(b)) for a, b in rows(sizes.group_by("rows").agg(nw.len().alias("families")))]
    (numbers,) = doubles(frame.select(_number().clip(*clip)))
    return Families(lengths=tuple(sorted(lengths)), clipped=exact_sum(numbers))


@dataclass(frozen=True, kw_only=True, repr=False)
class NumberSeries:
    """Series of numbers that go on behind every gap. How many there are, how long and which are missing is public."""

    series: Series
    counts: Counts
    numbers: NDArray[np.float64]
    """EXACT: the numbers, one series after the other."""
    distances: NDArray[np.float64]
    """How far each lies behind the number before it, in ticks of the order; below 0 for the first of a series."""

    def __repr__(self) -> str:
        return f"NumberSeries({self.counts.lengths})"

    def clipped(self, low: float, high: float) -> Fraction:
        """EXACT: the sum of the clipped numbers."""
        return exact_sum(np.clip(self.numbers, low, high))


@reading()
def read_number_series(source: Source, layout: Layout) -> NumberSeries:
    """Read a column of numbers as one series, or one for each person; what is missing is an unobserved time step."""
    series = open_series(source, layout)
    table = series.table
    series.need_finite_numbers("the model is about numbers")
    # Refuses rows without a place or with the same one, and those that do not fit the step of the model.
    counts = series.counts(_ANY_NUMBER, ranges=True)
    present = table.frame.filter(~nw.col("value").is_null())
    present = present.with_columns(order_before=in_order(table, nw.col("order").shift(1))).sort(*table.people, "order")
    distance = (nw.col("order") - nw.col("order_before")).cast(nw.Float64).fill_null(-1.0).alias("distance")
    numbers, distances = doubles(present.select(_number(), distance))
    return NumberSeries(series=series, counts=counts, numbers=numbers, distances=distances)


_ANY_NUMBER: Final = Coding(labels=("number",), bins=(-sys.float_info.max, sys.float_info.max))


def _number() -> nw.Expr:
    """The number of a row; 0 where values are hidden."""
    number = nw.col("number")
    return nw.when(number.is_finite()).then(0.0).otherwise(0.0).alias("number") if hides_values() else number


def _numbers(frame: Frame, column: str, by: str | None) -> Frame:
    """The frame with a column number that is finite everywhere, and a person everywhere."""
    schema = frame.collect_schema()
    value = comparable(schema["value"], "value", column, "values")
    number = nw.col("number") if "number" in schema else value.number
    if number is None:
        raise DataError(f"the column {column!r} holds text; the model is about numbers: convert the column")
    picked = [value.value.alias("value"), number.alias("number")]
    if by is not None:
        picked.append(person_of(schema["person"]).alias("person"))
    if "id" in schema:
        picked.append(nw.col("id"))
    frame = frame.select(*picked)
    if not rows(frame.head(1)):
        raise DataError("the data has no rows; at least one family is needed")
    rule = "every record needs its number: fill it in, or leave the whole family out"
    need_values(frame, "value", repr(column), rule)
    strange = frame.filter(_number().is_null() | ~_number().is_finite())
    for (value_found,) in rows(strange.select("value").head(1)):
        raise ValuesError(f"{shown(value_found)} in {column!r} is not a finite number; correct it", value=value_found)
    if by is not None:
        need_values(frame, "person", f"the column {by!r}", "every row must belong to a family: fill it in")
    return frame


def _check_ids(frame: Frame, id: str, by: str | None, records: Sequence[str]) -> None:
    """Refuse ids that are missing, not in the model, or twice in a family."""
    compared = comparable(frame.collect_schema()["id"], "id", id, "ids")
    family = [] if by is None else ["person"]
    frame = frame.select(*family, compared.value.alias("id"), compared.key.alias("key"))
    need_values(frame, "id", f"the id column {id!r}", "every row must say which record it is: fill it in")
    keys = keys_of(records, text=compared.text, what="records")
    which: nw.Expr = nw.lit(UNKNOWN, nw.Int64)
    if keys:
        which = nw.col("key").replace_strict(list(keys), list(keys.values()), default=UNKNOWN, return_dtype=nw.Int64)
    frame = frame.with_columns(record=which)
    for (stranger,) in rows(frame.filter(nw.col("record") == UNKNOWN).select("id").head(1)):
        raise DataError(
            f"{shown(stranger)} in the id column {id!r} is not a record of the model; the records are "
            f"{shorten(list(records))}: correct the id or drop the row",
            value=stranger,
        )
    counted = frame.group_by(*family, "record").agg(nw.len().alias("times"))
    for person, record in rows(counted.filter(nw.col("times") > 1).select(*(family or ["times"]), "record").head(1)):
        where = "" if by is None else f" for {by} {shown(person)}"
        way = ": tell families apart with by=" if by is None else ": drop the others"
        raise DataError(
            f"{records[int(record)]!r} is in the id column {id!r} more than once{where}; each record of a family has "
            f"one row{way}",
            value=records[int(record)],
        )
