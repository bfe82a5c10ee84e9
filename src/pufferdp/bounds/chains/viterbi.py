"""The most probable path through a hidden Markov chain (Viterbi 1967), in logs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Matrix, Vector
from pufferdp.bounds.chains.forward_backward import Codes, impossible_outputs

States = npt.NDArray[np.intp]


def best_path(outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> States:
    """The most probable states given all outputs: of one series, or of each row of a table."""
    table, k = np.atleast_2d(outputs), len(transition)
    rows, n = table.shape
    path = np.zeros((rows, n), dtype=np.intp)
    if n == 0:
        return path.reshape(outputs.shape)
    with np.errstate(divide="ignore"):
        moves, says = np.log(transition)[:, :, None], np.log(channel)
        weights = np.log(start)[:, None] + says[:, table[:, 0]]  # [state, row]
    before = np.zeros((n, k, rows), dtype=np.min_scalar_type(k))  # the best state before each state
    for t in range(1, n):
        ways = weights[:, None] + moves
        before[t] = ways.argmax(axis=0)
        weights = ways.max(axis=0) + says[:, table[:, t]]
    if not np.isfinite(weights.max(axis=0)).all():
        raise impossible_outputs()
    path[:, -1] = weights.argmax(axis=0)
    for t in range(n - 1, 0, -1):
        path[:, t - 1] = before[t, path[:, t], np.arange(rows)]
    return path.reshape(outputs.shape)
