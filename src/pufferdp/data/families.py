"""A table of real numbers in families: how many rows each has, and the sum of the clipped numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import narwhals as nw

from pufferdp.basics.errors import DataError
from pufferdp.data.expressions import UNKNOWN
from pufferdp.data.files import reading
from pufferdp.data.layout import Columns, shorten
from pufferdp.data.matching import comparable, keys_of, person_of, shown
from pufferdp.data.sources import Frame, Source, doubles, open_source, rows


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
    clipped = doubles(frame.select(nw.col("number").clip(*clip)))
    return Families(lengths=tuple(sorted(lengths)), clipped=Fraction(math.fsum(clipped.tolist())))


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
    count, missing = nw.len(), nw.col("value").is_null().cast(nw.Int64).sum()
    ((row_count, lacking),) = rows(frame.select(count.alias("rows"), missing.alias("missing")))
    if not row_count:
        raise DataError("the data has no rows; at least one family is needed")
    if lacking:
        raise DataError(
            f"{column!r} is missing in {lacking} rows; every record needs its number: fill it in, "
            "or leave the whole family out"
        )
    strange = frame.filter(nw.col("number").is_null() | ~nw.col("number").is_finite())
    for (value_found,) in rows(strange.select("value").head(1)):
        raise DataError(f"{shown(value_found)} in {column!r} is not a finite number; correct it", value=value_found)
    if by is not None:
        ((nobody,),) = rows(frame.select(nw.col("person").is_null().cast(nw.Int64).sum().alias("nobody")))
        if nobody:
            raise DataError(
                f"the column {by!r} is missing in {nobody} rows; every row must belong to a family: fill it in"
            )
    return frame


def _check_ids(frame: Frame, id: str, by: str | None, records: Sequence[str]) -> None:
    """Refuse ids that are missing, not in the model, or twice in a family."""
    compared = comparable(frame.collect_schema()["id"], "id", id, "ids")
    family = [] if by is None else ["person"]
    frame = frame.select(*family, compared.value.alias("id"), compared.key.alias("key"))
    ((missing,),) = rows(frame.select(nw.col("id").is_null().cast(nw.Int64).sum().alias("missing")))
    if missing:
        raise DataError(
            f"the id column {id!r} is missing in {missing} rows; every row must say which record it is: fill it in"
        )
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
        way = ": tell families apart with --by" if by is None else ": drop the others"
        raise DataError(
            f"{records[int(record)]!r} is in the id column {id!r} more than once{where}; each record of a family has "
            f"one row{way}",
            value=records[int(record)],
        )
