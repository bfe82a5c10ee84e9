"""Attackers on a privatised series: each sees the outputs, knows model and channel, and guesses every record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Matrix, Vector
from pufferdp.basics.errors import ParameterError
from pufferdp.bounds.chains.forward_backward import posterior
from pufferdp.bounds.chains.viterbi import best_path
from pufferdp.models.chain import MarkovChain

Codes = npt.NDArray[np.integer]
States = npt.NDArray[np.intp]


class Attacker(Protocol):
    """Guesses the true states behind privatised ones. It knows no record."""

    @property
    def name(self) -> str:
        """What tables and JSON call the attacker."""

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
    """Knows how records are correlated: the likeliest state of each record given all outputs (forward–backward).

    Nobody who knows the model, the channel and the outputs alone is right more often.
    """

    name: Final = "correlation-aware"

    def guess(self, outputs: Codes, model: MarkovChain, channel: Matrix) -> States:
        """The mode of each record's posterior."""
        return np.asarray(posteriors(outputs, model, channel).argmax(axis=-1), dtype=np.intp)


class Viterbi:
    """The likeliest series as a whole."""

    name: Final = "viterbi"

    def guess(self, outputs: Codes, model: MarkovChain, channel: Matrix) -> States:
        """The path of states with the largest probability given the whole output."""
        return best_path(outputs, first_distribution(model), model.transition, channel)


ATTACKERS: Final[tuple[Attacker, ...]] = (SingleBit(), CorrelationAware(), Viterbi())
"""Those that need nothing but the model and the channel."""


def posteriors(outputs: Codes, model: MarkovChain, channel: Matrix) -> Floats:
    """The distribution of each record given all outputs of its series, states along the last axis."""
    return posterior(outputs, first_distribution(model), model.transition, channel)


def first_distribution(model: MarkovChain) -> Vector:
    """An attacker's prior for the first record: the model's start, or the stationary distribution."""
    return model.stationary if model.given_start is None else model.given_start


@dataclass(frozen=True, kw_only=True)
class Learned:
    """A small neural network that sees outputs near and far.

    ``guess`` learns from series drawn from the model, ``cross_validate`` from the truth. Its inputs are the outputs
    next to a record, and for each output how often it is seen on either side: averages that fade by distance, at scales
    1, 2, 4, … up to ``reach``. A window of some outputs sees too little where many records are flipped: what a record
    is then shows in hundreds of others.
    """

    near: int = 3
    """Outputs on either side that it sees one by one."""
    reach: int = 1024
    """The widest average, in records."""
    hidden: int = 32
    epochs: int = 6
    folds: int = 10
    batch: int = 256
    rate: float = 0.005
    decay: float = 1e-3
    """Weights fade by this share of the rate in every step."""
    seed: int = 0
    training: int = 20_000
    """Records drawn from the model for ``guess``."""

    @property
    def name(self) -> str:
        """What tables and JSON call the attacker."""
        return "learned"

    def __post_init__(self) -> None:
        least = {"near": 0, "reach": 1, "hidden": 1, "epochs": 1, "folds": 2, "batch": 1}
        for field, smallest in least.items():
            if getattr(self, field) < smallest:
                raise ParameterError(f"{field} is {getattr(self, field)}; it must be {smallest} or more")

    def guess(self, outputs: Codes, model: MarkovChain, channel: Matrix) -> States:
        """Learn from a series drawn from the model, then guess."""
        from pufferdp.models.simulate import draw_moves, sample_chain

        generator = np.random.default_rng(self.seed)
        truth = sample_chain(model, self.training, 1, generator)
        kinds = channel.shape[1]
        predict = self._train(self._inputs(draw_moves(truth, channel, generator), kinds), truth.ravel(), len(channel))
        return predict(self._inputs(np.atleast_2d(outputs), kinds)).reshape(outputs.shape)

    def cross_validate(
        self, outputs: Codes, truth: Codes, channel: Matrix, progress: Callable[[str], None] | None = None
    ) -> States:
        """Guess each part of a series (or table of series) after learning from the truth of all other parts.

        Parts are segments of records one after the other: neighbours say much about each other.
        """
        states = np.asarray(truth, dtype=np.intp).ravel()
        if len(states) < self.folds:
            raise ParameterError(f"folds is {self.folds}, and there are {len(states)} records; use fewer folds")
        inputs = self._inputs(np.atleast_2d(outputs), channel.shape[1])
        out = np.empty(len(states), dtype=np.intp)
        for fold, part in enumerate(np.array_split(np.arange(len(states)), self.folds)):
            if progress is not None:
                progress(f"learning, part {fold + 1} of {self.folds}")
            rest = np.ones(len(states), dtype=bool)
            rest[part] = False
            out[part] = self._train(inputs[rest], states[rest], len(channel))(inputs[part])
        return out.reshape(outputs.shape)

    def _inputs(self, rows: Codes, kinds: int) -> Floats:
        """A row of numbers for each record, from the outputs of its series alone."""
        from scipy.signal import lfilter

        scales = 2.0 ** np.arange(int(np.log2(self.reach)) + 1)
        columns = []
        for kind in range(1, kinds):
            seen = (rows == kind) - float((rows == kind).mean())
            # Beyond the ends of a series nothing is seen: zero is the mean.
            padded = np.pad(seen, ((0, 0), (self.near, self.near)))
            columns += [padded[:, d : d + rows.shape[1]] for d in range(2 * self.near + 1)]
            for scale in scales:
                for step in (1, -1):
                    faded = lfilter([1 / scale], [1.0, 1 / scale - 1], seen[:, ::step], axis=1)
                    columns.append(np.pad(faded, ((0, 0), (1, 0)))[:, :-1][:, ::step])
        return np.stack([column.ravel() for column in columns], axis=1)

    def _train(self, inputs: Floats, states: States, kinds: int) -> Callable[[Floats], States]:
        """One layer of tanh, the softmax of its outputs, and Adam (Kingma & Ba 2015) with a rate that falls to 0."""
        generator = np.random.default_rng(self.seed)
        middle, spread = inputs.mean(axis=0), inputs.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        rows, wanted = (inputs - middle) / spread, np.eye(kinds)[states]
        width = rows.shape[1]
        weights = [
            generator.normal(0.0, width**-0.5, (width, self.hidden)),
            np.zeros(self.hidden),
            generator.normal(0.0, self.hidden**-0.5, (self.hidden, kinds)),
            np.zeros(kinds),
        ]
        means, squares = ([np.zeros_like(w) for w in weights] for _ in range(2))
        forget, forget_squares = 0.1, 0.001
        total, step = self.epochs * -(-len(rows) // self.batch), 0
        for _ in range(self.epochs):
            order = generator.permutation(len(rows))
            for begin in range(0, len(rows), self.batch):
                chosen = order[begin : begin + self.batch]
                gradients = _gradients(weights, rows[chosen], wanted[chosen])
                step += 1
                rate = self.rate * (1 - step / total)
                for w, gradient, mean, square in zip(weights, gradients, means, squares, strict=True):
                    mean += forget * (gradient - mean)
                    square += forget_squares * (gradient**2 - square)
                    moved = mean / (1 - (1 - forget) ** step)
                    scale = np.sqrt(square / (1 - (1 - forget_squares) ** step)) + 1e-8
                    w -= rate * (moved / scale + self.decay * w)

        def predict(others: Floats) -> States:
            layer = np.tanh((others - middle) / spread @ weights[0] + weights[1])
            return np.asarray((layer @ weights[2] + weights[3]).argmax(axis=1), dtype=np.intp)

        return predict


def _gradients(weights: Sequence[Floats], rows: Floats, wanted: Floats) -> tuple[Floats, ...]:
    """Of the mean cross-entropy, by each of the weights."""
    layer = np.tanh(rows @ weights[0] + weights[1])
    scores = layer @ weights[2] + weights[3]
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    off = (chances - wanted) / len(rows)
    back = (off @ weights[2].T) * (1 - layer**2)
    return rows.T @ back, back.sum(axis=0), layer.T @ off, off.sum(axis=0)
