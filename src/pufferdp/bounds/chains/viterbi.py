"""The most probable path through a hidden Markov chain (Viterbi 1967), in logs, with many blocks of records at once."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Matrix, Vector
from pufferdp.bounds.chains.blocks import Codes, cut_into_blocks, impossible_outputs

States = npt.NDArray[np.intp]
_SUMS: Final = 2**15  # sums of one step over all blocks: as many as the cache holds
_SAME: Final = 1e-8  # logs of weights that differ by less count as equal: what the path may lose in each block


def best_path(outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> States:
    """The most probable states given all outputs: of one series, or of each row of a table.

    A block first assumes equal weights before it, and is run again while the block before it ends with other ones. The
    path is then traced in all blocks from their likeliest end, and again where the block after it begins elsewhere.
    """
    if outputs.shape[-1] == 0:
        return np.zeros(outputs.shape, dtype=np.intp)
    table, k = np.atleast_2d(outputs), len(transition)
    codes, fill, begins = cut_into_blocks(table, _SUMS // k**2, channel.shape[1])
    later = np.flatnonzero(~begins)
    with np.errstate(divide="ignore"):
        first, moves = np.log(start)[:, None], np.log(transition)
        says = np.pad(np.log(channel), ((0, 0), (0, 1)))  # a filler says nothing
    weights = np.empty((len(codes) + 1, k, len(begins)))  # before each step, and after the last
    weights[0], todo = 0.0, np.arange(len(begins))
    while len(todo):
        now = weights[0][:, todo]
        for t, code in enumerate(codes[:, todo]):
            now = (now[:, None] + moves[:, :, None]).max(axis=0)
            if t <= fill:
                now[:, begins[todo]] = first
            now += says[:, code]
            weights[t + 1][:, todo] = now
        if not np.isfinite(now.max(axis=0)).all():
            raise impossible_outputs()
        ends = weights[-1] - weights[-1].max(axis=0)
        todo = later[~np.isclose(ends[:, later - 1], weights[0][:, later], rtol=0, atol=_SAME).all(axis=0)]
        weights[0][:, todo] = ends[:, todo - 1]
    path, todo, state = np.full(codes.shape, -1), np.arange(len(begins)), weights[-1].argmax(axis=0)
    while len(todo):
        for t in range(len(codes) - 1, -1, -1):
            if (path[t, todo] == state).all():
                break
            path[t, todo] = state
            state = (weights[t][:, todo] + moves[:, state]).argmax(axis=0)
        before = (weights[0][:, later] + moves[:, path[0, later]]).argmax(axis=0)
        wrong = path[-1, later - 1] != before
        todo, state = later[wrong] - 1, before[wrong]
    return np.asarray(path.T.reshape(len(table), -1)[:, fill:].reshape(outputs.shape))
