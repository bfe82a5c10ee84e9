"""Classes of chains: sets of beliefs the guarantee must hold for, every one of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pufferdp.basics.arrays import Matrix
from pufferdp.basics.errors import ModelError
from pufferdp.models.base import RecordModel
from pufferdp.models.chain import MarkovChain, bin_edges, number_array, state_names, state_values
from pufferdp.models.gaussian import Gaussian, LimitedCorrelation
from pufferdp.models.groups import AnyGroups
from pufferdp.models.model_class import ModelClass


@dataclass(frozen=True, kw_only=True, eq=False)
class MarkovClass:
    """A list of chains over the same states."""

    models: tuple[MarkovChain, ...]
    """The beliefs; the guarantee holds for each."""

    def __post_init__(self) -> None:
        models = tuple(self.models)
        if not models:
            raise ModelError("models is empty; a class needs at least one chain")
        first = models[0]
        for n, model in enumerate(models[1:], start=2):
            for name in ("labels", "values", "bins"):
                if getattr(model, name) != getattr(first, name):
                    what = "states" if name == "labels" else name
                    raise ModelError(f"model {n} of the class has other {what} than model 1; they must agree")
        object.__setattr__(self, "models", models)

    @property
    def chains(self) -> tuple[MarkovChain, ...]:
        """The chains of the class."""
        return self.models

    @property
    def size(self) -> int:
        """Number of states."""
        return self.models[0].size

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the states."""
        return self.models[0].labels

    @property
    def values(self) -> tuple[float, ...] | None:
        """A number for each state."""
        return self.models[0].values

    @property
    def bins(self) -> tuple[float, ...] | None:
        """Edges of the bins."""
        return self.models[0].bins

    @property
    def fitted(self) -> dict[str, Any] | None:
        """Where a model of the class was estimated from, if one was."""
        return next((m.fitted for m in self.models if m.fitted is not None), None)

    def __repr__(self) -> str:
        return f"MarkovClass({len(self.models)} chains of {self.size} states)"


@dataclass(frozen=True, kw_only=True, eq=False)
class MarkovInterval:
    """Every chain whose entries lie between two tables, with any start.

    The tables are tightened when made: an entry cannot be above what the lower bounds of its row leave, nor below what
    the upper bounds of its row leave. The class of chains stays the same.
    """

    low: Matrix
    """Lower bounds of the entries."""
    high: Matrix
    """Upper bounds of the entries."""
    states: tuple[str, ...] | None = None
    """Names of the states."""
    values: tuple[float, ...] | None = None
    """A number for each state."""
    bins: tuple[float, ...] | None = None
    """Edges of the bins."""
    fitted: dict[str, Any] | None = field(default=None, repr=False)
    """Where the class was estimated from, if it was."""

    def __post_init__(self) -> None:
        low, high = _bounds(self.low, "low"), _bounds(self.high, "high")
        if low.shape != high.shape:
            raise ModelError(f"low is {len(low)}×{len(low)} and high is {len(high)}×{len(high)}; they must agree")
        if (low > high).any():
            x, y = (int(v) for v in np.argwhere(low > high)[0])
            raise ModelError(
                f"low[{x}][{y}] is {low[x, y]:g}, above high[{x}][{y}] = {high[x, y]:g}; low must not pass high"
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
        template = MarkovChain(transition=np.eye(k), states=self.states, values=self.values, bins=self.bins)
        for name in ("states", "values", "bins"):
            object.__setattr__(self, name, getattr(template, name))

    @property
    def size(self) -> int:
        """Number of states."""
        return len(self.low)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the states, or their numbers."""
        return self.states if self.states is not None else tuple(str(j) for j in range(self.size))

    def __repr__(self) -> str:
        return f"MarkovInterval({self.size} states, widest entry {float((self.high - self.low).max()):.3g})"


@dataclass(frozen=True, kw_only=True, eq=False)
class BinaryInterval:
    """Two states, both stay-probabilities anywhere in [low, high], any start."""

    low: float
    """Smallest stay-probability."""
    high: float
    """Largest stay-probability."""
    states: tuple[str, ...] | None = None
    """Names of the two states."""
    values: tuple[float, ...] | None = None
    """A number for each state."""
    bins: tuple[float, ...] | None = None
    """Edges of the bins."""
    fitted: dict[str, Any] | None = field(default=None, repr=False)
    """Where the class was estimated from, if it was."""

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            number = number_array(getattr(self, name), name)
            if number.ndim != 0 or not 0 <= float(number) <= 1:
                raise ModelError(f"{name} is {getattr(self, name)}; a stay-probability lies between 0 and 1")
            object.__setattr__(self, name, float(number))
        if self.low > self.high:
            raise ModelError(f"low is {self.low:g} and high is {self.high:g}; low must not pass high")
        object.__setattr__(self, "states", state_names(self.states, 2))
        object.__setattr__(self, "values", state_values(self.values, 2))
        object.__setattr__(self, "bins", bin_edges(self.bins, 2, self.states))

    @property
    def size(self) -> int:
        """Number of states."""
        return 2

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the states, or their numbers."""
        return self.states if self.states is not None else ("0", "1")

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
    def box(self) -> MarkovInterval:
        """The same class as bounds on every entry."""
        a, b = self.low, self.high
        return MarkovInterval(
            low=np.array([[a, 1 - b], [1 - b, a]]), high=np.array([[b, 1 - a], [1 - a, b]]), states=self.states
        )

    def __repr__(self) -> str:
        return f"BinaryInterval(stay-probabilities in [{self.low:g}, {self.high:g}], any start)"


def _bounds(value: object, name: str) -> Matrix:
    matrix = number_array(value, name)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ModelError(f"{name} must be a square table, one row and one column a state", value=value)
    if not np.isfinite(matrix).all() or (matrix < 0).any() or (matrix > 1).any():
        bad = matrix[~((matrix >= 0) & (matrix <= 1))][0]
        raise ModelError(f"{name} has an entry {bad:g}; bounds on a probability lie between 0 and 1", value=float(bad))
    return matrix


SeriesModel = MarkovChain | MarkovClass | BinaryInterval | MarkovInterval
"""What can be believed about a series, however long it is."""
NumberModel = Gaussian | LimitedCorrelation
"""What can be believed about records that are real numbers, without states."""
Model = SeriesModel | RecordModel | ModelClass | AnyGroups | NumberModel
"""Everything a guarantee can be made for."""


def dependent(model: Model, longest: int) -> int:
    """Records in the largest set that may depend on each other; ``longest`` is the longest chain of a series."""
    if isinstance(model, AnyGroups):
        return model.largest
    if isinstance(model, LimitedCorrelation):
        return 1 if model.rho == 0 else model.records
    if isinstance(model, (RecordModel, ModelClass, Gaussian)):
        return max(len(component) for component in model.components)
    if longest == 1 or model.size == 1:
        return 1
    if isinstance(model, (BinaryInterval, MarkovInterval)):
        return longest
    return 1 if all(bool(np.all(chain.transition == chain.transition[0])) for chain in model.chains) else longest
