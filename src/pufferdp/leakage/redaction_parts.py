"""Designs as a certificate or a ledger keeps them, read back: every part is checked, it may come from outside."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from pufferdp.errors import ParameterError
from pufferdp.leakage.redaction import Block, Design, Hiding
from pufferdp.models.markov import Matrix


def designs_of(
    hiding: Hiding,
    *,
    method: str,
    chains: Sequence[Sequence[int]],
    blocks: Sequence[tuple[int, Sequence[Sequence[float]]]],
) -> list[Design]:
    """The design of each chain with private records.

    Args:
        hiding: the promise for the whole series: its length, the private records and those that are known.
        method: which method found the designs.
        chains: first and last position of each chain with private records.
        blocks: first position of a stretch, and the redaction probabilities of each record in it.
    """
    out: list[Design] = []
    parts = [Block(first, _marks(first, rows, hiding.chain.size)) for first, rows in blocks]
    for a, b in itertools.pairwise(parts):
        if b.first <= a.last:
            raise ParameterError(f"the blocks at rows {a.first} and {b.first} overlap or are out of order")
    placed = 0
    for span in chains:
        if len(span) != 2 or not 1 <= span[0] <= span[1] <= hiding.length:
            raise ParameterError(f"data.chains holds {span}; it must be the first and the last row of a chain")
        first, last = span
        own = within(hiding, first, last)
        mine = tuple(Block(b.first - first + 1, b.marks) for b in parts if first <= b.first and b.last <= last)
        placed += len(mine)
        design = Design(hiding=own, method=method, blocks=mine)
        for p in own.private:
            if not (design.of(p) == 1).all():
                raise ParameterError(f"private row {p + first - 1} is not always redacted")
        out.append(design)
    if placed < len(parts):
        raise ParameterError("a block lies outside the chains with private records")
    if sum(len(d.hiding.private) for d in out) != len(hiding.private) or not out:
        raise ParameterError("a private row lies in no chain, or in two")
    return out


def within(hiding: Hiding, first: int, last: int) -> Hiding:
    """The same promise for one chain, its records counted from 1."""
    return Hiding(
        chain=hiding.chain,
        length=last - first + 1,
        private=tuple(p - first + 1 for p in hiding.private if first <= p <= last),
        epsilon=hiding.epsilon,
        adversary=hiding.adversary,
        known=tuple(p - first + 1 for p in hiding.known if first <= p <= last),
    )


def _marks(first: int, rows: Sequence[Sequence[float]], size: int) -> Matrix:
    widths = {len(row) for row in rows}
    if widths == {size}:
        marks = np.array(rows, dtype=float)
        if ((marks >= 0) & (marks <= 1)).all():
            return marks
    raise ParameterError(f"the block at row {first} must have a probability for each of the {size} states in each row")


def shown_alike(design: Design) -> bool:
    """Whether what is redacted does not depend on the data: in each record all values are, with one probability."""
    return all(bool((block.marks == block.marks[:, :1]).all()) for block in design.blocks)
