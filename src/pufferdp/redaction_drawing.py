"""Which rows of a series are redacted: a draw for each record whose design leaves a choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import narwhals as nw
import numpy as np

from pufferdp.data import Coding, Layout, open_series
from pufferdp.data.rewriting import Span, codes_between
from pufferdp.data.series import Series
from pufferdp.data.sources import rows
from pufferdp.leakage.redaction import Block, Design
from pufferdp.noise import Sampler, happens

BATCH: Final = 65_536
"""Records drawn at a time."""


def marked_rows(published: object, column: str, mark: str) -> set[int]:
    """The rows that an earlier redaction marked."""
    frame = open_series(published, Layout(column=column)).table.frame
    return {int(row) for (row,) in rows(frame.filter(nw.col("value") == mark).select("order"))}


def draw_again(
    blocks: Sequence[Block], earlier: Design, series: Series, coding: Coding, sampler: Sampler, marked: set[int]
) -> list[Span]:
    """Which rows stay redacted: those marked before, each with the probability that is left of the joint design."""
    out: list[Span] = []
    for block in blocks:
        before = np.array([earlier.of(row) for row in range(block.first, block.last + 1)])
        left = np.divide(block.marks, before, out=np.zeros(before.shape), where=before > 0)
        for first, last in draw([Block(block.first, np.minimum(left, 1.0))], series, coding, sampler):
            out += [(row, row) for row in range(first, last + 1) if row in marked]
    return out


def draw(blocks: Sequence[Block], series: Series, coding: Coding, sampler: Sampler) -> list[Span]:
    """Which rows are redacted, as spans. Values are read only where the decision depends on them."""
    spans: list[Span] = []

    def add(first: int, last: int) -> None:
        if spans and spans[-1][1] == first - 1:
            spans[-1] = spans[-1][0], last
        else:
            spans.append((first, last))

    for block in blocks:
        sure = (block.marks == 1).all(axis=1)
        edges = np.flatnonzero(np.diff(sure)) + 1
        for part in np.split(np.arange(len(sure)), edges):
            first, last = block.first + int(part[0]), block.first + int(part[-1])
            if sure[part[0]]:
                add(first, last)
                continue
            for start in range(first, last + 1, BATCH):
                end = min(last, start + BATCH - 1)
                codes = codes_between(series, coding, start, end)
                chances = block.marks[np.arange(start, end + 1) - block.first, codes]
                for n in np.flatnonzero(happens(chances, sampler)):
                    add(start + int(n), start + int(n))
    return spans
