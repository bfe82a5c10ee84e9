"""What the data package should answer, in plain Python over a list of rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

Row = tuple[Any, int, Any]
"""(person, order, value); a value of None is missing."""


@dataclass(frozen=True)
class Answer:
    records: int
    lengths: tuple[tuple[int, int], ...]
    missing: int
    restarts: int
    unobserved: int
    histogram: tuple[int, ...]
    transitions: tuple[tuple[int, ...], ...]
    clipped: Fraction | None
    chains: list[list[int]]
    pieces: list[list[int]]
    """The chains cut at their unobserved steps."""
    moves: dict[Any, set[tuple[int, int, int]]]


def answer(
    rows: Sequence[Row],
    *,
    code: Callable[[Any], int],
    size: int,
    restart: int | None = None,
    step: bool = False,
    clip: tuple[float, float] | None = None,
) -> Answer | None:
    """Count the rows; None where there is no record left.

    A chain goes on past a missing value, and with ``step`` behind a row that is not there: orders are one apart.
    """
    chains: list[list[int]] = []
    pieces: list[list[int]] = []
    restarts = unobserved = 0
    moves: dict[Any, set[tuple[int, int, int]]] = {}
    for person in sorted({row[0] for row in rows}):
        mine = sorted(((order, value) for who, order, value in rows if who == person), key=lambda row: row[0])
        there = [(order if step else n, order, value) for n, (order, value) in enumerate(mine) if value is not None]
        for index, (place, order, value) in enumerate(there):
            before, when = there[index - 1][:2] if index else (None, None)
            begins = before is None or (restart is not None and order - when > restart)
            if begins:
                restarts += before is not None
                chains.append([])
            else:
                unobserved += place - before - 1
            if begins or place - before > 1:
                pieces.append([])
            known = moves.setdefault(person, set())
            first = sum(1 for _, lost in mine[: mine.index((order, value))] if lost is None) if before is None else 0
            known.add((-1, code(value), first) if begins else (chains[-1][-1], code(value), place - before))
            chains[-1].append(code(value))
            pieces[-1].append(code(value))
    present = [value for _, _, value in rows if value is not None]
    if not present:
        return None
    pairs = Counter(pair for piece in pieces for pair in pairwise(piece))
    states = Counter(state for chain in chains for state in chain)
    return Answer(
        records=len(present),
        lengths=tuple(sorted(Counter(len(chain) for chain in chains).items())),
        missing=len(rows) - len(present),
        restarts=restarts,
        unobserved=unobserved,
        histogram=tuple(states[state] for state in range(size)),
        transitions=tuple(tuple(pairs[a, b] for b in range(size)) for a in range(size)),
        clipped=None if clip is None else clipped_sum(present, *clip),
        chains=chains,
        pieces=pieces,
        moves=moves,
    )


def clipped_sum(numbers: Sequence[float], low: float, high: float) -> Fraction:
    total = 0
    for number in numbers:
        share = (min(max(number, low), high) - low) / (high - low)
        total += math.floor(share * 2**30 + 0.5)
    return Fraction(low) * len(numbers) + (Fraction(high) - Fraction(low)) * Fraction(total, 2**30)


def bin_of(bins: Sequence[float]) -> Callable[[float], int]:
    def code(number: float) -> int:
        if number == bins[-1]:
            return len(bins) - 2
        return next(j for j in range(len(bins) - 1) if bins[j] <= number < bins[j + 1])

    return code
