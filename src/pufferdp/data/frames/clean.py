"""Small frames with nothing to refuse, counted by numpy: asking an engine takes ten times as long as counting them.

There is one reading of a series, that of the engines (``Series``). Here is a shortcut to the same counts for one chain
of a few rows in memory, with every value there and every value a state. Whatever else is in a frame, and whatever it
is refused for, is left to the engine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from pufferdp.data.expressions import STEPS, unscaled
from pufferdp.data.files import reading
from pufferdp.data.frames.times import frame_times
from pufferdp.data.layout import ROWS, Coding, Counts, Layout, column_pair, read_distance
from pufferdp.data.matching import keys_of
from pufferdp.data.ranges import EVERYTHING, Range, Ranges
from pufferdp.data.sources import Source, with_ticks
from pufferdp.data.tables import EXACT_ORDERS, moment_of, ticks_of, unit_of

MOST_ROWS: Final = 100_000
"""Engines are faster from here on."""
_EAGER: Final = (nw.Implementation.PANDAS, nw.Implementation.POLARS, nw.Implementation.PYARROW)
_TEXT: Final = (nw.String, nw.Categorical, nw.Enum)
_INTEGERS: Final = EXACT_ORDERS
_FLOATS: Final = (nw.Float32, nw.Float64)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CleanFrame:
    """The columns of one chain, none of their values missing. Never printed."""

    layout: Layout
    texts: list[str] | None
    """The values, where they are compared as text."""
    numbers: NDArray[np.float64] | None
    """The values, where they are compared as numbers."""
    order: NDArray[Any] | None
    """Int64 where it is exact, otherwise Float64, without infinite ones and without ties; None: as the rows are."""
    ticks: str
    """As ``Table`` has it."""
    aware: bool

    def counts(
        self,
        coding: Coding,
        *,
        clip: tuple[float, float] | None = None,
        transitions: bool = False,
        ranges: bool = False,
    ) -> Counts | None:
        """What ``Series.counts`` answers; None where a value is no state or no number that can be clipped."""
        codes = self._codes(coding)
        total = None if clip is None else self._clipped(*clip)
        if codes is None or (clip is not None and total is None):
            return None
        size, records = len(coding.labels), len(codes)
        pairs = None
        if transitions:
            path = codes if self.order is None else codes[np.argsort(self.order)]
            both = np.bincount(path[:-1] * size + path[1:], minlength=size * size)
            pairs = tuple(tuple(row) for row in both.reshape(size, size).tolist())
        return Counts(
            records=records,
            lengths=((records, 1),),
            missing=0,
            restarts=0,
            histogram=tuple(np.bincount(codes, minlength=size).tolist()),
            transitions=pairs,
            ranges=self._ranges() if ranges else EVERYTHING,
            clipped=None if clip is None or total is None else unscaled(total, records, *clip),
        )

    def _codes(self, coding: Coding) -> NDArray[np.int64] | None:
        """The state of each row, as ``expressions.coded`` has it; None where there is a value that is none."""
        if self.texts is not None:
            if coding.bins is not None:
                return None
            of_text = keys_of(coding.labels, text=True)
            try:
                return np.fromiter((of_text[value] for value in self.texts), np.int64, len(self.texts))
            except KeyError:
                return None
        assert self.numbers is not None
        x = self.numbers
        if coding.bins is not None:
            edges = np.array(coding.bins)
            if x.min() < edges[0] or x.max() > edges[-1]:
                return None
            return np.minimum(np.searchsorted(edges, x, side="right") - 1, len(coding.labels) - 1)
        of_number = keys_of(coding.labels, text=False)
        if not of_number:
            return None
        known = np.array(sorted(of_number))
        places = np.minimum(np.searchsorted(known, x), len(known) - 1)
        if (known[places] != x).any():
            return None
        return np.array([of_number[number] for number in known.tolist()], dtype=np.int64)[places]

    def _clipped(self, low: float, high: float) -> int | None:
        """The sum of ``expressions.scaled``."""
        if self.numbers is None or not (low < high and math.isfinite(low) and math.isfinite(high - low)):
            return None
        share = (np.clip(self.numbers, low, high) - low) / (high - low)
        return int(np.floor(share * STEPS + 0.5).astype(np.int64).sum())

    def _ranges(self) -> Ranges:
        if self.order is None:
            return EVERYTHING
        exact = self.order.dtype == np.int64
        first, last = (moment_of(end.item(), self.ticks, exact) for end in (self.order.min(), self.order.max()))
        unit = unit_of(self.ticks, self.aware)
        return Ranges(unit=unit, order=self.layout.order, parts=(Range(first=first, last=last),))


@reading()
def clean_frame(source: Source, layout: Layout) -> CleanFrame | None:
    """The columns of a small frame; None where there may be something to refuse, or more than one chain."""
    if layout.by is not None or layout.group is not None or layout.is_part or column_pair(layout.column) is not None:
        return None
    frame: Any = nw.from_native(source, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or frame.implementation not in _EAGER:
        return None
    names = [name for name in (layout.column, layout.order) if name is not None]
    columns = frame.columns
    if not 0 < len(frame) <= MOST_ROWS or len(set(names)) != len(names) or any(columns.count(n) != 1 for n in names):
        return None
    if layout.order is None and (ROWS in columns if layout.rows_in_order else frame_times(frame)):
        return None
    value = frame.get_column(layout.column)
    texts, numbers = _texts(value), _numbers(value)
    if texts is None and numbers is None:
        return None
    order, ticks, aware = None, "row", False
    if layout.order is not None:
        column = frame.get_column(layout.order).alias("order")
        if isinstance(column.dtype, (nw.Datetime, nw.Date)):
            column = _ticked(column)
        ticks, aware = ticks_of(column.name)
        order = _order(column, ticks, layout)
        if order is None:
            return None
    return CleanFrame(layout=layout, texts=texts, numbers=numbers, order=order, ticks=ticks, aware=aware)


def _texts(value: nw.Series[Any]) -> list[str] | None:
    if not isinstance(value.dtype, _TEXT):
        return None
    values = value.to_list()
    return values if all(type(each) is str for each in values) else None


def _numbers(value: nw.Series[Any]) -> NDArray[np.float64] | None:
    if not isinstance(value.dtype, (*_INTEGERS, *_FLOATS)) or value.null_count():
        return None
    numbers = np.asarray(value.to_numpy()).astype(np.float64)
    return numbers if np.isfinite(numbers).all() else None


def _ticked(order: nw.Series[Any]) -> nw.Series[Any]:
    ticked = with_ticks(order.to_frame())
    (name,) = ticked.columns
    column: nw.Series[Any] = ticked.get_column(name)
    return column


def _order(column: nw.Series[Any], ticks: str, layout: Layout) -> NDArray[Any] | None:
    """The order, where it is finite, without ties, one step apart and nowhere so far that a chain begins anew."""
    exact = isinstance(column.dtype, EXACT_ORDERS)
    if not (exact or isinstance(column.dtype, _FLOATS)) or column.null_count():
        return None
    order = np.asarray(column.to_numpy()).astype(np.int64 if exact else np.float64)
    along = np.sort(order)
    if not np.isfinite(along[[0, -1]]).all() or (along[1:] == along[:-1]).any():  # NaN is sorted to the end
        return None
    if layout.step is None and layout.restart is None:
        return order
    if not exact or int(along[-1]) - int(along[0]) >= 2**62:
        return None  # doubles are compared with some slack: left to the engine
    apart, timed = np.diff(along), ticks in ("us", "ns")
    for text, name in ((layout.step, "step"), (layout.restart, "restart")):
        if text is None:
            continue
        distance = read_distance(text, name)
        amount = distance.amount * (1000 if ticks == "ns" else 1)
        if distance.is_duration != timed or amount >= 2**62 or (name == "step" and amount.denominator != 1):
            return None
        if (apart != int(amount) if name == "step" else apart > math.floor(amount)).any():
            return None
    return order
