"""Redaction by enumeration: every series, every output, independent of the package."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np


def series_distribution(transition: np.ndarray, start: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Every series and its probability."""
    rows = np.array(list(itertools.product(range(len(start)), repeat=length)))
    distribution = start[rows[:, 0]].astype(float)
    for t in range(1, length):
        distribution = distribution * transition[rows[:, t - 1], rows[:, t]]
    return rows, distribution


def output_distribution(rows: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """P(output | series) for every output (the last symbol is the mark) and every series, one row an output."""
    size, length = marks.shape[1], marks.shape[0]
    out = np.ones(((size + 1) ** length, len(rows)))
    for n, seen in enumerate(itertools.product(range(size + 1), repeat=length)):
        for t, symbol in enumerate(seen):
            redacted = marks[t, rows[:, t]]
            out[n] *= redacted if symbol == size else np.where(rows[:, t] == symbol, 1 - redacted, 0.0)
    return out


def joint_of_outputs(transition: np.ndarray, start: np.ndarray, marks: np.ndarray, kept: Sequence[int]) -> np.ndarray:
    """P(values of the kept records, output): one axis a kept record, in their order, then one axis a record's symbol.

    The table of all series, each axis of which is sent through its record's channel: every output of every series,
    added up by numpy. ``output_distribution`` says the same one output at a time.
    """
    size, length = marks.shape[1], marks.shape[0]
    table = start.reshape((size,) + (1,) * (length - 1)).astype(float)
    for t in range(1, length):
        table = table * transition.reshape((1,) * (t - 1) + transition.shape + (1,) * (length - t - 1))
    table = np.broadcast_to(table, (size,) * length)
    values, symbols = 0, length  # axes: kept values that are done, records that are not, symbols that are done
    for t in range(length):
        channel = np.hstack([np.diag(1 - marks[t]), marks[t][:, None]])
        if t in kept:
            both = np.einsum("vw,vs->vws", np.eye(size), channel)
            table = np.moveaxis(np.tensordot(table, both, axes=([values], [0])), -2, values)
            values += 1
        else:
            table = np.tensordot(table, channel, axes=([values], [0]))
    assert table.ndim == values + symbols
    return table


def leakage(
    transition: np.ndarray, start: np.ndarray, marks: np.ndarray, private: int, known: Sequence[int] = ()
) -> float:
    """sup over outputs, what is known and two values of record ``private`` (from 0) of the log-ratio."""
    size = len(start)
    kept = sorted([private, *known])
    table = joint_of_outputs(transition, start, marks, kept)
    table = np.moveaxis(table, kept.index(private), 0).reshape(size, size ** len(known), -1)
    given = table.sum(axis=-1, keepdims=True)  # P(what is known, x)
    worst = 0.0
    for a, b in itertools.permutations(range(size), 2):
        both = (given[a, :, 0] > 0) & (given[b, :, 0] > 0)  # what is known leaves both values possible
        p, q = table[a, both] / given[a, both], table[b, both] / given[b, both]
        if (p[q == 0] > 0).any():
            return math.inf
        worst = max(worst, float(np.log(p[p > 0] / q[p > 0]).max(initial=0.0)))
    return worst


def worst_leakage(transition: np.ndarray, start: np.ndarray, marks: np.ndarray, private: int) -> float:
    """The largest leakage over every set of known records."""
    others = [t for t in range(len(marks)) if t != private]
    return max(
        leakage(transition, start, marks, private, known)
        for n in range(len(others) + 1)
        for known in itertools.combinations(others, n)
    )


def segment_leakage(
    transition: np.ndarray, start: np.ndarray, marks: np.ndarray, secret: Sequence[int], known: Sequence[int] = ()
) -> float:
    """sup over outputs, what is known and two ways that the records of ``secret`` (from 0) can have gone together."""
    size = len(start)
    kept = sorted([*secret, *known])
    table = joint_of_outputs(transition, start, marks, kept)
    table = np.moveaxis(table, [kept.index(t) for t in secret], range(len(secret)))
    table = table.reshape(size ** len(secret), size ** len(known), -1)
    given = table.sum(axis=-1)
    worst = 0.0
    for n in range(size ** len(known)):
        ways = np.flatnonzero(given[:, n] > 0)
        distributions = table[ways, n] / given[ways, n][:, None]
        for p, q in itertools.permutations(distributions, 2):
            if (p[q == 0] > 0).any():
                return math.inf
            worst = max(worst, float(np.log(p[p > 0] / q[p > 0]).max(initial=0.0)))
    return worst


def worst_segment_leakage(transition: np.ndarray, start: np.ndarray, marks: np.ndarray, secret: Sequence[int]) -> float:
    """The largest of those over every set of known records outside the segment."""
    others = [t for t in range(len(marks)) if t not in secret]
    return max(
        segment_leakage(transition, start, marks, secret, known)
        for n in range(len(others) + 1)
        for known in itertools.combinations(others, n)
    )


def noisy_count_after(
    transition: np.ndarray, start: np.ndarray, marks: np.ndarray, private: int, state: int, scale: float
) -> float:
    """Leakage of the output together with the count of ``state`` plus Laplace noise, about one record.

    Between whole numbers, and beyond the ends, the ratio of the densities is monotone, so whole numbers are enough.
    """
    rows, distribution = series_distribution(transition, start, len(marks))
    seen = output_distribution(rows, marks)
    count = (rows == state).sum(axis=1)
    grid = np.arange(len(marks) + 1)
    noise = np.exp(-abs(grid[:, None] - count[None, :]) / scale)
    worst = 0.0
    size = len(start)
    for given in seen:
        distributions = {}
        for x in range(size):
            chosen = rows[:, private] == x
            if distribution[chosen].sum() > 0:
                distributions[x] = (
                    noise[:, chosen] @ (given[chosen] * distribution[chosen]) / distribution[chosen].sum()
                )
        for a, b in itertools.permutations(distributions.values(), 2):
            for p, q in zip(a, b, strict=True):
                if p > 0:
                    worst = max(worst, math.log(p / q) if q > 0 else math.inf)
    return worst
