"""Sanitised series drawn for experiments, from numpy's generators. A release never draws from here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pufferdp.models.markov import Matrix


def draw_outputs(
    states: npt.NDArray[np.integer], channel: Matrix, generator: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Every state passed through the channel on its own."""
    reached = np.cumsum(channel, axis=1)
    reached[:, -1] = np.inf  # rounding must not carry a draw past the last output
    drawn = generator.random(states.shape)
    out = np.zeros(states.shape, dtype=np.intp)
    for edge in reached.T[:-1]:
        out += edge[states] <= drawn
    # A channel may end in outputs of probability 0.
    last = channel.shape[1] - 1 - np.argmax(channel[:, ::-1] > 0, axis=1)
    return np.asarray(np.minimum(out, last[states]), dtype=np.intp)
