"""Redaction by enumeration: every series, every output, independent of the package."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np


def series_law(transition: np.ndarray, start: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Every series and its probability."""
    rows = np.array(list(itertools.product(range(len(start)), repeat=length)))
    law = start[rows[:, 0]].astype(float)
    for t in range(1, length):
        law = law * transition[rows[:, t - 1], rows[:, t]]
    return rows, law


def output_law(rows: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """P(output | series) for every output (the last symbol is the mark) and every series, one row an output."""
    size, length = marks.shape[1], marks.shape[0]
    out = np.ones(((size + 1) ** length, len(rows)))
    for n, seen in enumerate(itertools.product(range(size + 1), repeat=length)):
        for t, symbol in enumerate(seen):
            redacted = marks[t, rows[:, t]]
            out[n] *= redacted if symbol == size else np.where(rows[:, t] == symbol, 1 - redacted, 0.0)
    return out


def leakage(
    transition: np.ndarray, start: np.ndarray, marks: np.ndarray, private: int, known: Sequence[int] = ()
) -> float:
    """sup over outputs, what is known and two values of record ``private`` (from 0) of the log-ratio."""
    rows, law = series_law(transition, start, len(marks))
    seen = output_law(rows, marks)
    size = len(start)
    worst = 0.0
    for fixed in itertools.product(range(size), repeat=len(known)):
        match = (
            np.all(rows[:, list(known)] == np.array(fixed, dtype=int), axis=1) if known else np.ones(len(rows), bool)
        )
        laws = {}
        for x in range(size):
            chosen = match & (rows[:, private] == x)
            if law[chosen].sum() > 0:
                laws[x] = seen[:, chosen] @ law[chosen] / law[chosen].sum()
        for a, b in itertools.permutations(laws.values(), 2):
            for p, q in zip(a, b, strict=True):
                if p > 0:
                    worst = max(worst, math.log(p / q) if q > 0 else math.inf)
    return worst


def worst_leakage(transition: np.ndarray, start: np.ndarray, marks: np.ndarray, private: int) -> float:
    """The largest leakage over every set of known records."""
    others = [t for t in range(len(marks)) if t != private]
    return max(
        leakage(transition, start, marks, private, known)
        for n in range(len(others) + 1)
        for known in itertools.combinations(others, n)
    )


def noisy_count_after(
    transition: np.ndarray, start: np.ndarray, marks: np.ndarray, private: int, state: int, scale: float
) -> float:
    """Leakage of the output together with the count of ``state`` plus Laplace noise, about one record.

    Between whole numbers, and beyond the ends, the ratio of the densities is monotone, so whole numbers are enough.
    """
    rows, law = series_law(transition, start, len(marks))
    seen = output_law(rows, marks)
    count = (rows == state).sum(axis=1)
    grid = np.arange(len(marks) + 1)
    noise = np.exp(-abs(grid[:, None] - count[None, :]) / scale)
    worst = 0.0
    size = len(start)
    for given in seen:
        laws = {}
        for x in range(size):
            chosen = rows[:, private] == x
            if law[chosen].sum() > 0:
                laws[x] = noise[:, chosen] @ (given[chosen] * law[chosen]) / law[chosen].sum()
        for a, b in itertools.permutations(laws.values(), 2):
            for p, q in zip(a, b, strict=True):
                if p > 0:
                    worst = max(worst, math.log(p / q) if q > 0 else math.inf)
    return worst
