"""The distribution of each hidden state given all outputs (Baum et al. 1970), scaled, with many blocks at once."""

from __future__ import annotations

from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Matrix, Vector
from pufferdp.bounds.chains.blocks import Codes, cut_into_blocks, impossible_outputs

_WEIGHTS: Final = 2**14  # weights of one step over all blocks: as many as the cache holds
_SAME: Final = 1e-12  # weights that differ by this share count as equal


def posterior(outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> Floats:
    """P(state | all outputs) of each record of one series, or of each row of a table; states along the last axis."""
    says = np.asarray(channel).T[outputs]
    if outputs.shape[-1] == 0:
        return says
    # After the forward pass the weights of record t are P(x_t, outputs up to t). The pass from the end with the
    # transposed transition gives P(outputs from t on | x_t), and both contain what the output of record t says.
    until = _filter(outputs, start, transition, channel)
    since = _filter(outputs[..., ::-1], np.ones(len(start)), np.transpose(transition), channel)[..., ::-1, :]
    both = np.divide(until * since, says, out=np.zeros(says.shape), where=says > 0)
    total = both.sum(axis=-1, keepdims=True)
    if not (total > 0).all():
        raise impossible_outputs()
    return np.asarray(both / total)


def _filter(outputs: Codes, start: Vector, transition: Matrix, channel: Matrix) -> Floats:
    """Weights of the states of each record given the outputs up to it: (start or weights before · transition) · says.

    A block first assumes equal weights before it, and is run again while the block before it ends with other ones.
    """
    table = np.atleast_2d(outputs)
    codes, fill, begins = cut_into_blocks(table, _WEIGHTS // len(start), channel.shape[1])
    says = np.pad(channel, ((0, 0), (0, 1)), constant_values=1.0)  # a filler says nothing
    weights = np.empty((len(codes) + 1, len(start), len(begins)))  # before each step, and after the last
    weights[0], todo = 1.0, np.arange(len(begins))
    while len(todo):
        now = weights[0][:, todo]
        for t, code in enumerate(codes[:, todo]):
            now = np.transpose(transition) @ now
            if t <= fill:
                now[:, begins[todo]] = np.asarray(start)[:, None]
            now *= says[:, code]
            with np.errstate(invalid="ignore"):  # 0/0: found below
                now /= now.sum(axis=0)
            weights[t + 1][:, todo] = now
        if not np.isfinite(now).all():
            raise impossible_outputs()
        todo = np.flatnonzero(~begins)
        todo = todo[~np.isclose(weights[-1][:, todo - 1], weights[0][:, todo], rtol=_SAME, atol=0).all(axis=0)]
        weights[0][:, todo] = weights[-1][:, todo - 1]
    by_row = weights[1:].transpose(2, 0, 1).reshape(len(table), -1, len(start))
    return np.asarray(by_row[:, fill:].reshape(*outputs.shape, -1))
