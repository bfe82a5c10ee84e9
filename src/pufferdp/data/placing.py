"""Where rows of a source stand in the series: in the order of time, person by person, and in which chain.

Rows are counted from 1 as the source has them, positions from 1 as the series has them. Both are the same for a source
that is read in its row order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import duckdb
import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from pufferdp.data.expressions import MISSING, coded
from pufferdp.data.files import reading
from pufferdp.data.layout import Coding
from pufferdp.data.series import Series
from pufferdp.data.sources import Frame, integers
from pufferdp.errors import DataError, ParameterError

Span = tuple[int, int]
"""First and last, counted from 1."""
Ints = NDArray[np.int64]
SPELLED: Final = 20
"""Up to so many spans are spelled out as bounds; more are looked up record by record."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """Where the rows that were asked about are. All of it is public."""

    count: int
    """Rows of the source, missing values included."""
    missing: int
    chains: tuple[Span, ...]
    """The chain of each row that was asked about, in positions and in their order; none twice."""
    positions: tuple[int, ...]
    """The position of each row that was asked about, as asked."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Placement:
    """A series opened with its rows, and every position in it."""

    series: Series
    coding: Coding

    @property
    def plain(self) -> bool:
        """Whether positions are rows."""
        return self.series.table.layout.order is None and self.series.table.layout.by is None

    @cached_property
    def _frame(self) -> Frame:
        """Columns row, place, code, start of a chain and record (0 where the value is missing)."""
        table = self.series.table
        frame = coded(table, self.coding)
        if self.plain:
            # A chain starts where there is nothing before; only missing values cut one.
            return frame.with_columns(
                place=nw.col("order"), start=nw.lit(0, nw.Int64), record=(nw.col("code") != MISSING).cast(nw.Int64)
            )
        keys = ["order"] if table.layout.by is None else ["person", "order"]
        place = nw.col("code").cum_count().over(order_by=keys)
        placed = self.series._linked(frame).with_columns(place=place.cast(nw.Int64))
        return _kept(placed.select("row", "place", "code", "start", "record").sort("place"))

    @reading()
    def find(self, asked: Sequence[int]) -> Found:
        """Check every row of the source, and find those asked about."""
        counts = self.series.counts(self.coding)
        count = counts.records + counts.missing
        for row in asked:
            if row > count:
                raise ParameterError(
                    f"private row is {row}; the data has {count} rows, and they are counted from 1", value=row
                )
        if self.plain and not counts.missing:
            return Found(count=count, missing=0, chains=((1, count),), positions=tuple(asked))
        number = "order" if self.plain else "row"
        rows, places, there = integers(
            self._frame.filter(nw.col(number).is_in(sorted(set(asked)))).select(number, "place", "record")
        )
        where = dict(zip(rows.tolist(), zip(places.tolist(), there.tolist(), strict=True), strict=True))
        for row in asked:
            if not where[row][1]:
                raise DataError(f"private row is {row}, and its value is missing; there is nothing to hide", value=row)
        positions = [where[row][0] for row in asked]
        edges = self._frame.filter((nw.col("start") == 1) | (nw.col("record") == 0))
        cuts, record = integers(edges.select("place", "record"))
        order = np.argsort(cuts)
        cuts, record = cuts[order], record[order]
        # A chain runs from its start, or from behind a missing value, to the next of either.
        found = set()
        for position in positions:
            at = int(np.searchsorted(cuts, position, side="right"))
            first = 1 if at == 0 else int(cuts[at - 1]) + (0 if record[at - 1] else 1)
            found.add((first, int(cuts[at]) - 1 if at < len(cuts) else count))
        return Found(count=count, missing=counts.missing, chains=tuple(sorted(found)), positions=tuple(positions))

    @reading()
    def look(self, spans: Sequence[Span]) -> tuple[Ints, Ints]:
        """Rows and states, as positions among the labels, of some stretches of the series, one after the other."""
        if not spans:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        number = "order" if self.plain else "row"
        if len(spans) <= SPELLED:
            hit: nw.Expr = nw.lit(False)
            for first, last in spans:
                hit = hit | ((nw.col("place") >= first) & (nw.col("place") <= last))
        else:
            hit = nw.col("place").is_in([n for first, last in spans for n in range(first, last + 1)])
        rows, codes = integers(self._frame.filter(hit).sort("place").select(number, "code"))
        return rows, codes


def _kept(frame: Frame) -> Frame:
    """The same, computed once: sorting again for every question would cost as much as reading the data."""
    native: Any = frame.to_native()
    if isinstance(native, duckdb.DuckDBPyRelation):
        native.create("pufferdp_placed")
        kept: Frame = nw.from_native(native.query("placed", "SELECT * FROM pufferdp_placed"))
        return kept
    return frame.collect().lazy()
