"""The distribution of each hidden state given all outputs (Baum et al. 1970), scaled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Matrix, Vector
from pufferdp.basics.errors import DataError

Codes = npt.NDArray[np.integer]


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
    """Weights of the states of each record given the outputs up to it, scaled to a sum of 1."""
    table = np.atleast_2d(outputs)
    out = np.empty((*table.shape, len(start)))
    weights = np.tile(np.asarray(start, dtype=float), (len(table), 1))
    for t, says in enumerate(np.asarray(channel).T[table.T]):
        weights = (weights @ transition if t else weights) * says
        total = weights.sum(axis=1, keepdims=True)
        if not (total > 0).all():
            raise impossible_outputs()
        weights = out[:, t] = weights / total
    return out.reshape(*outputs.shape, -1)


def impossible_outputs() -> DataError:
    """The error for outputs of probability 0."""
    return DataError("the series cannot come from this model: an output it rules out is in it")
