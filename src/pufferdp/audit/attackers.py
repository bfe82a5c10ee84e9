"""Attackers on a sanitised series: each sees the outputs, knows the model and the channel, and guesses every record."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from pufferdp.leakage.hidden import posterior
from pufferdp.leakage.paths import best_path, best_path_rows, posterior_rows
from pufferdp.models.markov import MarkovChain, Matrix, Vector

Codes = npt.NDArray[np.integer]
States = npt.NDArray[np.intp]
Array = npt.NDArray[np.float64]


class Attacker(Protocol):
    """Guesses the true states behind sanitised ones. It knows no record."""

    @property
    def name(self) -> str:
        """What tables call it."""

    def guess(self, outputs: Codes, model: MarkovChain, channel: Matrix) -> States:
        """A state for each output; outputs are one series, or a table with one series a row."""


class SingleBit:
    """Looks at a record's own output and at nothing else: the state that most often leads to it."""

    name: Final = "single-bit"

    def guess(self, outputs: Codes, model: MarkovChain, channel: Matrix) -> States:
        """The state under which the output is likeliest; the output itself where it is one of them."""
        table = np.array(channel)
        best = table.argmax(axis=0)
        same = np.arange(min(table.shape))
        best[same] = np.where(table[same, same] == table.max(axis=0)[same], same, best[same])
        return np.asarray(best[outputs], dtype=np.intp)


class CorrelationAware:
    """Knows how records hang together: the likeliest state of each record given all outputs (forward–backward).

    Nobody who knows the model, the channel and the outputs alone is right more often.
    """

    name: Final = "correlation-aware"

    def guess(self, outputs: Codes, model: MarkovChain, channel: Matrix) -> States:
        """The mode of each record's posterior."""
        return np.asarray(beliefs(outputs, model, channel).argmax(axis=-1), dtype=np.intp)


class Viterbi:
    """The likeliest series as a whole."""

    name: Final = "viterbi"

    def guess(self, outputs: Codes, model: MarkovChain, channel: Matrix) -> States:
        """The best path."""
        read = best_path_rows if outputs.ndim == 2 else best_path
        return read(outputs, first_law(model), model.transition, channel)


ATTACKERS: Final[tuple[Attacker, ...]] = (SingleBit(), CorrelationAware(), Viterbi())
"""Those that need nothing but the model and the channel."""


def beliefs(outputs: Codes, model: MarkovChain, channel: Matrix) -> Array:
    """The law of each record given all outputs of its series, states along the last axis."""
    read = posterior_rows if outputs.ndim == 2 else posterior
    return read(outputs, first_law(model), model.transition, channel)


def first_law(model: MarkovChain) -> Vector:
    """What an attacker believes of the first record: the model's start, or where that is any the stationary law."""
    return model.stationary if model.given_start is None else model.given_start
