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
    gaps: int
    histogram: tuple[int, ...]
    transitions: tuple[tuple[int, ...], ...]
    clipped: Fraction | None
    chains: list[list[int]]


def answer(
    rows: Sequence[Row],
    *,
    code: Callable[[Any], int],
    size: int,
    gap: int | None = None,
    clip: tuple[float, float] | None = None,
) -> Answer | None:
    """Count the rows; None where there is no record left."""
    chains: list[list[int]] = []
    gaps = 0
    for person in sorted({row[0] for row in rows}):
        mine = sorted((order, value) for who, order, value in rows if who == person and value is not None)
        holes = [order for who, order, value in rows if who == person and value is None]
        for index, (order, value) in enumerate(mine):
            previous = mine[index - 1][0] if index else None
            begins = (
                previous is None
                or (gap is not None and order - previous > gap)
                or any(previous < hole < order for hole in holes)
            )
            if begins:
                gaps += previous is not None
                chains.append([])
            chains[-1].append(code(value))
    present = [value for _, _, value in rows if value is not None]
    if not present:
        return None
    pairs = Counter(pair for chain in chains for pair in pairwise(chain))
    states = Counter(state for chain in chains for state in chain)
    return Answer(
        records=len(present),
        lengths=tuple(sorted(Counter(len(chain) for chain in chains).items())),
        missing=len(rows) - len(present),
        gaps=gaps,
        histogram=tuple(states[state] for state in range(size)),
        transitions=tuple(tuple(pairs[a, b] for b in range(size)) for a in range(size)),
        clipped=None if clip is None else clipped_sum(present, *clip),
        chains=chains,
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
