"""The segment around a private row of a redaction: what is hidden there, how surely, and why."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.bounds.redaction.methods import pointwise
from pufferdp.data.layout import Layout
from pufferdp.data.series import open_series
from pufferdp.data.sources import rows
from pufferdp.publish.redaction.result import Redaction

Output = tuple[str | os.PathLike[str], Layout]
"""A redacted file and its layout."""
MARGIN: Final = 4
"""Released rows shown on either side of a block."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Places ``low`` to ``high`` of the series, with the block of the private row between."""

    private: int
    """The place of the first private row."""
    low: int
    high: int
    first: int
    """The block: outside it everything is released."""
    last: int
    all_private: tuple[int, ...]
    """All private places that lie here."""
    probabilities: tuple[tuple[float, ...], ...]
    """One row a place: how often each value is redacted."""
    before: tuple[tuple[float, ...], ...]
    """Influence of the private record on each value, from the place before it down to ``low``."""
    after: tuple[tuple[float, ...], ...]
    """Influence of the private record on each value, from the place behind it up to ``high``."""
    published: tuple[tuple[int, int | None], ...] | None = None
    """Places and states of the published series, None for a mark; None without a file."""

    @property
    def places(self) -> range:
        """Every place that is shown, from ``low`` to ``high``."""
        return range(self.low, self.high + 1)

    @property
    def always(self) -> tuple[int, ...]:
        """Places that are redacted whatever their value."""
        return self._where(lambda row: all(q == 1 for q in row))

    @property
    def sometimes(self) -> tuple[int, ...]:
        """Places that are redacted for some values, or not always."""
        return self._where(lambda row: any(row) and not all(q == 1 for q in row))

    def _where(self, holds: Callable[[tuple[float, ...]], bool]) -> tuple[int, ...]:
        return tuple(place for place, row in zip(self.places, self.probabilities, strict=True) if holds(row))


def surroundings(redaction: Redaction, output: Output | None = None) -> Surroundings:
    """Around the first private row; ``output`` is the redacted file and its layout, if there is one."""
    private = redaction.positions[0]
    block = next(b for b in redaction.segments if b.first <= private <= b.last)
    low, high = max(1, block.first - MARGIN), min(redaction.rows, block.last + MARGIN)
    first, design = next((a, d) for a, d in redaction.designs if private - a + 1 in d.hiding.private)
    left, right = design.hiding.sides((private - first + 1,) * 2)
    return Surroundings(
        private=private,
        low=low,
        high=high,
        first=block.first,
        last=block.last,
        all_private=tuple(place for place in range(low, high + 1) if place in redaction.positions),
        probabilities=tuple(_listed(_marks(redaction, place)) for place in range(low, high + 1)),
        before=tuple(map(_listed, pointwise(left, private - low))),
        after=tuple(map(_listed, pointwise(right, high - private))),
        published=None if output is None else _published(redaction, *output, low, high),
    )


def _marks(redaction: Redaction, place: int) -> Floats:
    for block in redaction.segments:
        if block.first <= place <= block.last:
            return np.asarray(block.marks[place - block.first])
    return np.zeros(redaction.hiding.chain.size)


def _listed(values: Any) -> tuple[float, ...]:
    return tuple(map(float, values))


def _published(
    redaction: Redaction, path: str | os.PathLike[str], layout: Layout, low: int, high: int
) -> tuple[tuple[int, int | None], ...]:
    keys = ["order"] if layout.by is None else ["person", "order"]
    column = rows(open_series(os.fspath(path), layout).table.frame.sort(*keys).select("value").head(high))
    labels, bins = redaction.hiding.chain.labels, redaction.hiding.chain.bins
    shown: list[tuple[int, int | None]] = []
    for place, (value,) in enumerate(column[low - 1 :], start=low):
        name = str(value)
        if name == redaction.mark:
            shown.append((place, None))
        elif bins is not None:
            state = np.clip(np.searchsorted(bins, float(name), side="right") - 1, 0, len(labels) - 1)
            shown.append((place, int(state)))
        elif name in labels:
            shown.append((place, labels.index(name)))
    return tuple(shown)
