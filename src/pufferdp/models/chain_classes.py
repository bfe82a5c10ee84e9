"""Classes of chains; the guarantee holds for every member."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from pufferdp.basics.arrays import Matrix, Vector
from pufferdp.basics.errors import ModelError
from pufferdp.basics.words import quoted_value
from pufferdp.models.chain import ChainFile, MarkovChain, SeriesModel, StatesFile, StatesModel, number_array
from pufferdp.models.files.json import File, Row


class _ClassFile(File):
    type: Literal["markov_class"]
    models: list[ChainFile]


@dataclass(frozen=True, kw_only=True, eq=False)
class MarkovClass(SeriesModel):
    """A list of chains over the same states."""

    file_type: ClassVar[str | None] = "markov_class"

    models: tuple[MarkovChain, ...] = field(kw_only=False)
    """The members; the guarantee holds for each."""

    def __post_init__(self) -> None:
        given: object = self.models
        listed = (given,) if isinstance(given, MarkovChain) else given
        models = tuple(listed) if isinstance(listed, Iterable) else (listed,)
        if not all(isinstance(model, MarkovChain) for model in models):
            raise ModelError(f"models is {quoted_value(self.models)}; it must be a list of chains", value=self.models)
        if not models:
            raise ModelError("models is empty; a class needs at least one chain")
        first = models[0]
        for n, model in enumerate(models[1:], start=2):
            for name in ("labels", "values", "bins", "step"):
                if getattr(model, name) != getattr(first, name):
                    what = "states" if name == "labels" else name
                    raise ModelError(f"model {n} of the class has different {what} from model 1; they must agree")
        object.__setattr__(self, "models", models)

    @property
    def chains(self) -> tuple[MarkovChain, ...]:
        """The chains of the class, as they were given."""
        return self.models

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the states, which all chains share."""
        return self.models[0].labels

    @property
    def values(self) -> tuple[float, ...] | None:
        """A number for each state, which all chains share."""
        return self.models[0].values

    @property
    def bins(self) -> tuple[float, ...] | None:
        """Edges of the bins, which all chains share."""
        return self.models[0].bins

    @property
    def step(self) -> str | float | None:
        """The time from one record to the next, which all chains share."""
        return self.models[0].step

    @property
    def fitted(self) -> dict[str, Any] | None:
        """Where a model of the class was estimated from, if one was."""
        return next((m.fitted for m in self.models if m.fitted is not None), None)

    @property
    def checks(self) -> dict[str, Any] | None:
        """What the data said about a model of the class, where they were compared."""
        return next((m.checks for m in self.models if m.checks is not None), None)

    def with_bins(self, edges: tuple[float, ...]) -> MarkovClass:
        """These chains, for numbers that bins turn into their states."""
        return MarkovClass(models=tuple(replace(m, bins=edges) for m in self.models))

    def to_dict(self) -> dict[str, Any]:
        """The content of the file: every chain by itself."""
        return {"type": self.file_type, "models": [model.to_dict() for model in self.models]}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> MarkovClass:
        """The chains of a ``markov_class`` file; an error says which of them is wrong."""
        chains = []
        for n, content in enumerate(_ClassFile.model_validate(raw).models, start=1):
            try:
                chains.append(content.build())
            except ModelError as error:
                raise ModelError(f"model {n} of the class: {error}", value=error.value) from None
        return cls(models=tuple(chains))

    def __repr__(self) -> str:
        return f"MarkovClass({len(self.models)} chain{'s' * (len(self.models) != 1)} of {self.size} states)"


class _IntervalFile(StatesFile):
    type: Literal["markov_interval"]
    low: list[Row]
    high: list[Row]


@dataclass(frozen=True, kw_only=True, eq=False)
class MarkovInterval(StatesModel):
    """Every chain whose entries lie between two tables, with any start.

    The tables are tightened when made: an entry cannot be above what the lower bounds of its row leave, nor below what
    the upper bounds of its row leave. The class of chains stays the same.
    """

    file_type: ClassVar[str | None] = "markov_interval"

    low: Matrix
    """Lower bounds of the entries."""
    high: Matrix
    """Upper bounds of the entries."""

    def __post_init__(self) -> None:
        low, high = _bounds(self.low, "low"), _bounds(self.high, "high")
        if low.shape != high.shape:
            raise ModelError(f"low is {len(low)}×{len(low)} and high is {len(high)}×{len(high)}; they must agree")
        if (low > high).any():
            x, y = (int(v) for v in np.argwhere(low > high)[0])
            raise ModelError(
                f"low[{x}][{y}] is {low[x, y]:g}, above high[{x}][{y}] = {high[x, y]:g}; low must not exceed high"
            )
        for x in range(len(low)):
            if low[x].sum() > 1 + 1e-9 or high[x].sum() < 1 - 1e-9:
                raise ModelError(
                    f"row {x + 1}: low sums to {low[x].sum():g} and high to {high[x].sum():g}; "
                    "1 must lie between them, otherwise no chain is in the class"
                )
        k = len(low)
        others_high = high.sum(axis=1, keepdims=True) - high
        others_low = low.sum(axis=1, keepdims=True) - low
        # Tightening may only remove what no chain of the class can have, so it is skipped where it is mere rounding.
        # What is kept is rounded outwards: 1e-13 covers the rounding of the row sums.
        tight_low = np.where(1 - others_high > low + 1e-12, 1 - others_high - 1e-13, low)
        tight_high = np.where(1 - others_low < high - 1e-12, 1 - others_low + 1e-13, high)
        for name, value in (("low", tight_low), ("high", tight_high)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        self.check_states(k)

    @property
    def size(self) -> int:
        """How many states the tables have, named or not."""
        return len(self.low)

    @property
    def box(self) -> MarkovInterval:
        """Itself, which is given by bounds."""
        return self

    @property
    def definite_chains(self) -> tuple[MarkovChain, ...]:
        """The most inert chain of the box: every state stays as long as it may."""
        stay = np.diag(self.high)
        rest = self.low - np.diag(np.diag(self.low))
        headroom = self.high - np.diag(np.diag(self.high)) - rest
        missing = (1 - stay - rest.sum(axis=1))[:, None]
        total = headroom.sum(axis=1, keepdims=True)
        moves = rest + np.divide(headroom, total, out=np.zeros_like(headroom), where=total > 0) * np.clip(
            missing, 0, total
        )
        np.fill_diagonal(moves, 1 - moves.sum(axis=1))
        return (MarkovChain(transition=moves, states=self.states, values=self.values),)

    @property
    def middle(self) -> MarkovChain:
        """On the way from low to high every row passes 1 once, and stays inside the box."""
        low, headroom = self.low, self.high - self.low
        share = (1 - low.sum(axis=1, keepdims=True)) / np.maximum(headroom.sum(axis=1, keepdims=True), 1e-300)
        return MarkovChain(transition=low + share * headroom, states=self.states)

    def nearest(self, chain: MarkovChain) -> MarkovChain:
        """Each row moved into the box by itself."""
        rows = [_into_box(chain.transition[x], self.low[x], self.high[x]) for x in range(self.size)]
        return MarkovChain(transition=np.stack(rows), start="any", states=self.states)

    def to_dict(self) -> dict[str, Any]:
        """Both tables, and how the states are called."""
        return self.file_content(low=self.low.tolist(), high=self.high.tolist())

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> MarkovInterval:
        """The box of a ``markov_interval`` file."""
        content = _IntervalFile.model_validate(raw)
        low, high = number_array(content.low, "low"), number_array(content.high, "high")
        return cls(low=low, high=high, **content.common())

    def __repr__(self) -> str:
        return f"MarkovInterval({self.size} states, widest entry {float((self.high - self.low).max()):.3g})"


class _BinaryFile(StatesFile):
    type: Literal["binary_interval"]
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, eq=False)
class BinaryInterval(StatesModel):
    """Two states, both stay-probabilities in [low, high], any start."""

    file_type: ClassVar[str | None] = "binary_interval"

    low: float
    """Smallest stay-probability."""
    high: float
    """Largest stay-probability."""

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            number = number_array(getattr(self, name), name)
            if number.ndim != 0 or not 0 <= float(number) <= 1:
                raise ModelError(f"{name} is {getattr(self, name)}; a stay-probability lies between 0 and 1")
            object.__setattr__(self, name, float(number))
        if self.low > self.high:
            raise ModelError(f"low is {self.low:g} and high is {self.high:g}; low must not exceed high")
        self.check_states(2)

    @property
    def size(self) -> int:
        """The number of states, which is two."""
        return 2

    @cached_property
    def corners(self) -> tuple[MarkovChain, ...]:
        """The chains that decide every quilt of the class (see docs/theory/intervals.md for the proof).

        With positive correlation every influence rises with both stay-probabilities, so (high, high) is worst; with
        negative correlation it falls with both, so (low, low) is worst.
        """
        # λ = p0+p1-1 is largest at (high, high) and smallest at (low, low). A corner on the wrong side of λ = 0 stands
        # for no chain: the class then has none of that sign.
        stays = {p for p, decides in ((self.low, self.low <= 0.5), (self.high, self.high >= 0.5)) if decides}
        return tuple(
            MarkovChain(transition=np.array([[p, 1 - p], [1 - p, p]]), start="any", states=self.states)
            for p in sorted(stays)
        )

    @property
    def deciding(self) -> tuple[MarkovChain, ...]:
        """The corners, one of which has the worst quilt of the class."""
        return self.corners

    @property
    def middle(self) -> MarkovChain:
        """Both stay-probabilities halfway."""
        stay = (self.low + self.high) / 2
        return MarkovChain(transition=np.array([[stay, 1 - stay], [1 - stay, stay]]), states=self.states)

    def nearest(self, chain: MarkovChain) -> MarkovChain:
        """Both stay-probabilities clipped."""
        table = chain.transition
        # Clipping both entries of a row keeps their sum. The leave-probabilities are never looked at: 1-p is rounded.
        stays = np.clip(np.diag(table), self.low, self.high)
        rows = [table[x] if stays[x] == table[x, x] else np.roll([stays[x], 1 - stays[x]], x) for x in range(2)]
        return MarkovChain(transition=np.stack(rows), start="any", states=self.states)

    def to_dict(self) -> dict[str, Any]:
        """Both ends, and how the states are called."""
        return self.file_content(low=self.low, high=self.high)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> BinaryInterval:
        """The class of a ``binary_interval`` file."""
        content = _BinaryFile.model_validate(raw)
        return cls(low=content.low, high=content.high, **content.common())

    @property
    def box(self) -> MarkovInterval:
        """Bounds on every entry, that of leaving a state included."""
        a, b = self.low, self.high
        return MarkovInterval(
            low=np.array([[a, 1 - b], [1 - b, a]]), high=np.array([[b, 1 - a], [1 - a, b]]), states=self.states
        )

    def __repr__(self) -> str:
        return f"BinaryInterval(stay-probabilities in [{self.low:g}, {self.high:g}], any start)"


def _bounds(value: object, name: str) -> Matrix:
    matrix = number_array(value, name)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ModelError(f"{name} must be a square table, one row and one column per state", value=value)
    if not np.isfinite(matrix).all() or (matrix < 0).any() or (matrix > 1).any():
        bad = matrix[~((matrix >= 0) & (matrix <= 1))][0]
        raise ModelError(f"{name} has an entry {bad:g}; bounds on a probability lie between 0 and 1", value=float(bad))
    return matrix


def _into_box(row: Vector, low: Vector, high: Vector) -> Vector:
    """The distribution clip(c·row, low, high), with the c that makes it sum to 1: no log-ratio to row gets large."""
    if ((low <= row) & (row <= high)).all():
        return row
    alive = row > 0
    with np.errstate(over="ignore"):
        bends = np.unique(np.concatenate([[0.0], low[alive] / row[alive], high[alive] / row[alive]]))
    bends = bends[np.isfinite(bends)]
    sums = np.array([np.clip(c * row, low, high).sum() for c in bends])
    if sums[-1] >= 1:  # between two bends the sum is a line
        return np.clip(float(np.interp(1.0, sums, bends)) * row, low, high)
    # What the alternative allows cannot fill the row: the rest goes to what it rules out: infinite distance.
    full = np.where(alive, np.clip(bends[-1] * row, low, high), low)
    headroom = np.where(alive, 0.0, high - low)
    return np.asarray(full + (1 - full.sum()) * headroom / max(headroom.sum(), 1e-300))
