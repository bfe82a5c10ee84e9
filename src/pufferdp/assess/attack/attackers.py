"""Attackers on a sanitised series: each sees the outputs, knows the model and the channel, and guesses every record."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Matrix, Vector
from pufferdp.basics.errors import ParameterError
from pufferdp.basics.extras import install_advice
from pufferdp.leakage.chains.forward_backward import posterior
from pufferdp.leakage.chains.viterbi import best_path, best_path_rows, posterior_rows
from pufferdp.models.chain import MarkovChain

Codes = npt.NDArray[np.integer]
States = npt.NDArray[np.intp]


class Attacker(Protocol):
    """Guesses the true states behind sanitised ones. It knows no record."""

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
        """The path of states with the largest probability given the whole output."""
        read = best_path_rows if outputs.ndim == 2 else best_path
        return read(outputs, first_law(model), model.transition, channel)


ATTACKERS: Final[tuple[Attacker, ...]] = (SingleBit(), CorrelationAware(), Viterbi())
"""Those that need nothing but the model and the channel."""


def beliefs(outputs: Codes, model: MarkovChain, channel: Matrix) -> Floats:
    """The law of each record given all outputs of its series, states along the last axis."""
    read = posterior_rows if outputs.ndim == 2 else posterior
    return read(outputs, first_law(model), model.transition, channel)


def first_law(model: MarkovChain) -> Vector:
    """What an attacker believes of the first record: the model's start, or where that is any the stationary law."""
    return model.stationary if model.given_start is None else model.given_start


def torch_there() -> bool:
    """Whether torch is installed; nothing is imported."""
    return importlib.util.find_spec("torch") is not None


@dataclass(frozen=True, kw_only=True)
class Learned:
    """An LSTM over a window. ``guess`` learns from series drawn from the model, ``cross_validate`` from the truth."""

    window: int = 21
    """Outputs it sees at once, the record in the middle."""
    hidden: int = 16
    epochs: int = 4
    folds: int = 10
    batch: int = 256
    rate: float = 0.01
    seed: int = 0
    training: int = 20_000
    """Records drawn from the model for ``guess``."""

    @property
    def name(self) -> str:
        """What tables and JSON call the attacker."""
        return "learned"

    def __post_init__(self) -> None:
        for field, least in (("window", 1), ("hidden", 1), ("epochs", 1), ("folds", 2), ("batch", 1)):
            if getattr(self, field) < least:
                raise ParameterError(f"{field} is {getattr(self, field)}; it must be {least} or more")

    def guess(self, outputs: Codes, model: MarkovChain, channel: Matrix) -> States:
        """Learn from a series drawn from the model, then guess."""
        from pufferdp.models.simulate import draw_moves, sample_chain

        generator = np.random.default_rng(self.seed)
        truth = sample_chain(model, self.training, 1, generator)
        kinds = channel.shape[1]
        predict = self._train(self._windows(draw_moves(truth, channel, generator), kinds), truth.ravel(), channel)
        rows = np.atleast_2d(outputs)
        return np.asarray(predict(self._windows(rows, kinds)).reshape(outputs.shape))

    def cross_validate(
        self, outputs: Codes, truth: Codes, channel: Matrix, progress: Callable[[str], None] | None = None
    ) -> States:
        """Guess each part of a series (or table of series) after learning from the truth of all other parts.

        Parts are stretches of records one after the other: neighbours say much about each other.
        """
        rows = np.atleast_2d(outputs)
        windows, states = self._windows(rows, channel.shape[1]), np.asarray(truth).ravel()
        if len(states) < self.folds:
            raise ParameterError(f"folds is {self.folds}, and there are {len(states)} records; use fewer folds")
        out = np.empty(len(states), dtype=np.intp)
        for fold, part in enumerate(np.array_split(np.arange(len(states)), self.folds)):
            if progress is not None:
                progress(f"learning, part {fold + 1} of {self.folds}")
            rest = np.ones(len(states), dtype=bool)
            rest[part] = False
            out[part] = self._train(windows[rest], states[rest], channel)(windows[part])
        return out.reshape(outputs.shape)

    def _windows(self, rows: Codes, kinds: int) -> npt.NDArray[np.int64]:
        """A row for each record; one output more stands for what lies beyond the ends of a series."""
        before = self.window // 2
        padded = np.pad(rows.astype(np.int64), ((0, 0), (before, self.window - 1 - before)), constant_values=kinds)
        return np.lib.stride_tricks.sliding_window_view(padded, self.window, axis=1).reshape(-1, self.window)

    def _train(
        self, windows: npt.NDArray[np.int64], states: Codes, channel: Matrix
    ) -> Callable[[npt.NDArray[np.int64]], States]:
        torch = _torch()
        device = "cuda" if torch.cuda.is_available() else "cpu"
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # steps are so small that several threads wait for each other
        try:
            return self._fit(torch, device, windows, states, channel)
        finally:
            torch.set_num_threads(threads)

    def _fit(
        self, torch: Any, device: str, windows: npt.NDArray[np.int64], states: Codes, channel: Matrix
    ) -> Callable[[npt.NDArray[np.int64]], States]:
        with torch.random.fork_rng(devices=[]):  # whoever else draws from torch is left alone
            torch.manual_seed(self.seed)
            net = torch.nn.ModuleList(
                [
                    torch.nn.Embedding(channel.shape[1] + 1, 4),
                    torch.nn.LSTM(4, self.hidden, batch_first=True),
                    torch.nn.LSTM(4, self.hidden, batch_first=True),
                    torch.nn.Linear(2 * self.hidden, len(channel)),
                ]
            ).to(device)
        embed, before, after, head = net
        middle = self.window // 2

        def logits(rows: Any) -> Any:
            seen = embed(rows)
            left, right = before(seen[:, : middle + 1])[0], after(seen[:, middle:].flip(1))[0]
            return head(torch.cat([left[:, -1], right[:, -1]], dim=1))

        inputs, targets = torch.from_numpy(windows.copy()).to(device), torch.from_numpy(states.astype(np.int64))
        targets = targets.to(device)
        optimiser = torch.optim.Adam(net.parameters(), lr=self.rate)
        steps = self.epochs * -(-len(states) // self.batch)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=self.rate, total_steps=steps)
        generator = np.random.default_rng(self.seed)
        for _ in range(self.epochs):
            order = torch.from_numpy(generator.permutation(len(states))).to(device)
            for chosen in order.split(self.batch):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(logits(inputs[chosen]), targets[chosen]).backward()
                optimiser.step()
                schedule.step()

        def predict(rows: npt.NDArray[np.int64]) -> States:
            with torch.no_grad():
                parts = torch.from_numpy(rows.copy()).to(device).split(8192)
                return np.concatenate([logits(part).argmax(dim=1).cpu().numpy() for part in parts]).astype(np.intp)

        return predict


def _torch() -> Any:
    """Torch, or a refusal that says how to get it. Untyped: it need not be there where types are checked."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError:
        raise ParameterError(f"the learned attacker needs torch; install it with: {install_advice('attack')}") from None
