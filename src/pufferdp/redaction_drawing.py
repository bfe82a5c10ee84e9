"""Which rows of a series are redacted: a draw for each record whose design leaves a choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import narwhals as nw
import numpy as np

from pufferdp.data import Layout, open_series
from pufferdp.data.placing import Placement, Span
from pufferdp.data.sources import rows as fetched
from pufferdp.leakage.redaction import Block, Design
from pufferdp.models.markov import Matrix
from pufferdp.noise import Sampler, happens


def marked_rows(published: object, column: str, mark: str) -> set[int]:
    """The rows that an earlier redaction marked."""
    frame = open_series(published, Layout(column=column)).table.frame
    return {int(row) for (row,) in fetched(frame.filter(nw.col("value") == mark).select("order"))}


def draw_again(
    blocks: Sequence[Block], earlier: Design, placement: Placement, sampler: Sampler, marked: set[int]
) -> list[Span]:
    """Which rows stay redacted: those marked before, each with the probability that is left of the joint design."""
    out: list[int] = []
    for block in blocks:
        before = np.array([earlier.of(row) for row in range(block.first, block.last + 1)])
        left = np.divide(block.marks, before, out=np.zeros(before.shape), where=before > 0)
        for first, last in draw([Block(block.first, np.minimum(left, 1.0))], placement, sampler):
            out += [row for row in range(first, last + 1) if row in marked]
    return spans_of(out)


def draw(blocks: Sequence[Block], placement: Placement, sampler: Sampler) -> list[Span]:
    """Which rows are redacted, as spans. Values are read only where the decision depends on them."""
    spans: list[Span] = []
    open_: list[Span] = []
    marks: list[Matrix] = []
    for block in blocks:
        sure = (block.marks == 1).all(axis=1)
        edges = np.flatnonzero(np.diff(sure)) + 1
        for part in np.split(np.arange(len(sure)), edges):
            span = block.first + int(part[0]), block.first + int(part[-1])
            if sure[part[0]] and placement.plain:
                spans.append(span)
            else:
                open_.append(span)
                marks.append(block.marks[part])
    rows, codes = placement.look(open_)
    if len(rows):
        spans += spans_of(rows[happens(np.concatenate(marks)[np.arange(len(codes)), codes], sampler)].tolist())
    return merged(spans)


def spans_of(numbers: Iterable[int]) -> list[Span]:
    """Rows as spans."""
    return merged([(row, row) for row in numbers])


def merged(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, those that touch made one."""
    out: list[Span] = []
    for first, last in sorted(spans):
        if out and out[-1][1] >= first - 1:
            out[-1] = out[-1][0], max(last, out[-1][1])
        else:
            out.append((first, last))
    return out
