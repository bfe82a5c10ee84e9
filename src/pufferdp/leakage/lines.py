"""A row times every power of a matrix, in blocks, without a loop over the powers.

Two algebras are used, both in logarithms: the longest path (max, +) and the sum over paths (log-sum-exp, +). Entries
are -inf where nothing leads. A table of n rows times the n-th power gives the next n rows, so a block costs log2(n)
products, and T powers of a k×k matrix cost O(T·k²) time and one block of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

Logs = npt.NDArray[np.float64]
Times = Callable[[Logs, Logs], Logs]

_CELLS: Final = 2**17
_SMALL: Final = 1e-250


def block_sizes(length: int, states: int, columns: int = 1) -> list[int]:
    """Lengths of the blocks that make up ``length`` records: a power of two each but the last."""
    block = 256
    while 2 * block * states * columns <= _CELLS:
        block *= 2
    return [block] * (length // block) + [length % block] * (length % block > 0)


def longest(rows: Logs, matrix: Logs) -> Logs:
    """max_x rows[x] + matrix[x, y], for every column of ``rows`` at once."""
    return np.stack([(rows + matrix[:, y, None]).max(axis=0) for y in range(len(matrix))])


def log_product(rows: Logs, matrix: Logs) -> Logs:
    """Log Σ_x exp(rows[x] + matrix[x, y]), for every column of ``rows`` at once."""
    top = rows.max(axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    linear = np.exp(matrix).T @ np.exp(rows - shift)
    with np.errstate(divide="ignore"):
        out = np.log(linear) + shift
    small = linear < _SMALL
    if small.any():  # a sum this small may have lost terms to underflow: take it in logarithms, where anything leads
        small &= (np.isfinite(matrix).T.astype(float) @ np.isfinite(rows).astype(float)) > 0.5
        for y in np.flatnonzero(small.any(axis=1)):
            at = np.flatnonzero(small[y])
            terms = rows[:, at] + matrix[:, y, None]
            peak = terms.max(axis=0)
            out[y, at] = np.log(np.exp(terms - peak).sum(axis=0)) + peak
    return np.asarray(out)


class Lines:
    """v, v·M, v·M², … for one matrix M in one algebra; a state an axis, several v side by side."""

    def __init__(self, matrix: Logs, times: Times, most: int) -> None:
        self._times, self._powers = times, [matrix]
        while 2 ** len(self._powers) <= most:
            half = self._powers[-1]
            self._powers.append(times(half.T, half).T)

    def rows(self, first: Logs, count: int) -> Logs:
        """The first ``count`` of them from ``first`` (states × columns) on: states × count × columns."""
        table, columns = first, first.shape[1]
        for power in self._powers:
            missing = count * columns - table.shape[1]
            if missing <= 0:
                break
            table = np.concatenate([table, self._times(table[:, :missing], power)], axis=1)
        return table[:, : count * columns].reshape(len(first), count, columns)

    def after(self, first: Logs, steps: int) -> Logs:
        """The one that stands ``steps`` further, at most the ``most`` of the making."""
        for bit, power in enumerate(self._powers):
            if steps >> bit & 1:
                first = self._times(first, power)
        return first
