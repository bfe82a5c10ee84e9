"""What a fit says to a column that holds no states: numbers get bins proposed, times are refused.

A proposal is rounded and for the owner of the data to judge. Edges that are known beforehand are better: those taken
from the data are part of the model, and are published with it.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import Final

from pufferdp.basics.errors import DataError
from pufferdp.data.series import Series
from pufferdp.data.times import HOUR, all_times

MOST_NUMBERS: Final = 30
"""More different numbers than this are not taken as states unless the caller says so."""
PROPOSED: Final = 5
"""The number of bins in a proposal."""
_SLACK: Final = 0.15
"""The share of a bin's records by which an edge may be off its quantile, to be a round number."""


def refuse_times(series: Series) -> None:
    """Refuse a column whose first values are times or dates: every record would be a state of its own."""
    values = series.first_values(100)
    clock_times = bool(values) and all(isinstance(value, str) and re.fullmatch(HOUR, value.strip()) for value in values)
    if clock_times or all_times(value for value in values if isinstance(value, str)):
        column = series.layout.column
        raise DataError(
            f"the column {column!r} holds times, such as {values[0]!r}, and states are values that recur; name the "
            f"column with the values: column='NAME', order='{column}'",
            value=column,
        )


def refuse_numbers(series: Series) -> None:
    """Refuse many different numbers as states, and propose bins."""
    counts = series.number_counts()
    if counts is None or len(counts) <= MOST_NUMBERS:
        return
    column = series.layout.column
    edges = ",".join(f"{edge:.12g}" for edge in propose_bins(counts))
    raise DataError(
        f"the column {column!r} holds more than {MOST_NUMBERS} different numbers, too many to be states; numbers "
        f"need bins: try bins='{edges}' (rounded from these data: edges that you know beforehand tell less). If they "
        "are states all the same, say as_states=True",
        value=len(counts),
    )


def propose_bins(counts: dict[float, int]) -> tuple[float, ...]:
    """Rising edges, round numbers, with about as many records in each bin as can be had."""
    values = sorted(counts)
    total = sum(counts.values())
    below = dict(zip(values, itertools.accumulate((counts[v] for v in values), initial=0), strict=False))
    edges: list[float] = []
    done = 0
    for left in range(PROPOSED, 1, -1):
        # An edge belongs to the bin above it: what lies below it is done.
        fair, last = (total - done) / left, edges[-1] if edges else values[0]
        edge = next((v for v in values if v > last and below[v] >= done + (1 - _SLACK) * fair), None)
        if edge is None:
            break
        far = max(v for v in values if v == edge or (v > edge and below[v] <= done + (1 + _SLACK) * fair))
        edges.append(roundest(max(last, *(v for v in values if v < edge)), far))
        done = sum(counts[v] for v in values if v < edges[-1])
    unit = 10.0 ** math.floor(math.log10(values[-1] - values[0]) - 0.5)
    first, last = _plain(math.floor(values[0] / unit) * unit), _plain(math.ceil(values[-1] / unit) * unit)
    # Twelve digits may round to the wrong side.
    first, last = first - unit * (first > values[0]), last + unit * (last < values[-1])
    return (first, *(edge for edge in edges if first < edge < last), last)


def roundest(low: float, high: float) -> float:
    """The number above ``low`` and up to ``high`` with the fewest digits."""
    power = math.floor(math.log10(max(abs(low), abs(high), 1e-300)))
    for digits in range(17):
        for step in (5.0, 2.0, 1.0):
            unit = step * 10.0 ** (power - digits)
            edge = _plain(math.floor(high / unit + 1e-9) * unit)
            if low < edge <= high:
                return edge
    return high


def _plain(edge: float) -> float:
    """Without the digits that multiplying by a power of ten adds."""
    return float(f"{edge:.12g}")
