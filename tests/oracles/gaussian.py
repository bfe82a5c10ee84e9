"""Every adversary over jointly normal records, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def shift(covariance: Floats, known: tuple[int, ...], target: int) -> float:
    """The L1 norm of what the unknown records' means move by when the target moves by 1."""
    given = [*known, target]
    unknown = [j for j in range(len(covariance)) if j not in given]
    inverse = np.linalg.inv(covariance[np.ix_(given, given)])
    return float(np.abs(covariance[np.ix_(unknown, given)] @ inverse[:, -1]).sum())


def adversaries(n: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Every (known, target)."""
    for target in range(n):
        others = [j for j in range(n) if j != target]
        for size in range(n):
            for known in combinations(others, size):
                yield known, target


def factor(covariance: Floats, most_known: int | None = None) -> float:
    """1 + the largest shift of any adversary who knows at most so many records."""
    n = len(covariance)
    most = n if most_known is None else most_known
    return 1 + max(shift(covariance, known, target) for known, target in adversaries(n) if len(known) <= most)
