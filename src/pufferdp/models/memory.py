"""A chain of second order: the next record depends on the last two, and records stay single values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Mask, read_only
from pufferdp.basics.errors import ModelError
from pufferdp.basics.words import shape_text
from pufferdp.models.chain import (
    StatesFile,
    bin_edges,
    check_law,
    number_array,
    scaled,
    state_names,
    state_values,
    states_to_dict,
    time_step,
)
from pufferdp.models.files.json import Row
from pufferdp.models.hidden import HiddenMarkov, HiddenSeries


class _MemoryFile(StatesFile):
    type: Literal["markov_memory"]
    transition: list[list[Row]]
    start: str = "stationary"


@dataclass(frozen=True, kw_only=True, eq=False)
class MemoryChain(HiddenSeries):
    """A Markov chain of second order over named states.

    >>> table = [[[0.9, 0.1], [0.5, 0.5]], [[0.7, 0.3], [0.2, 0.8]]]
    >>> MemoryChain(transition=table, states=["rest", "active"])
    MemoryChain(second order, 2 states: rest, active; start stationary)
    """

    file_type: ClassVar[str | None] = "markov_memory"

    transition: npt.NDArray[np.float64]
    """``transition[x][y]`` holds the probabilities of the next state after x and then y."""
    start: str = "stationary"
    """``"stationary"``, or ``"any"``: the guarantee holds for every law of the first record and one before it."""
    states: tuple[str, ...] | None = None
    """Names of the states; without them states are 0..k-1."""
    values: tuple[float, ...] | None = None
    """A number for each state, for sums and means."""
    bins: tuple[float, ...] | None = None
    """Edges that turned numbers into states: state j is [bins[j], bins[j+1])."""
    step: str | float | None = None
    """The time from one record to the next: ``"5min"``, or a number in the unit of the order column."""
    fitted: dict[str, Any] | None = field(default=None, repr=False)
    """Where the model was estimated from, if it was."""

    def __post_init__(self) -> None:
        table = number_array(self.transition, "transition")
        if table.ndim != 3 or len(set(table.shape)) != 1 or table.size == 0:
            shape = shape_text(table.shape)
            raise ModelError(
                f"transition is {shape}; it must be a cube: for each state, and each state after it, one probability "
                "for each next state",
                value=self.transition,
            )
        for x, rows in enumerate(table):
            for y, row in enumerate(rows):
                check_law(row, f"row {y + 1} of part {x + 1} of transition")
        if self.start not in ("stationary", "any"):
            raise ModelError(f'start is {self.start!r}; it must be "stationary" or "any"', value=self.start)
        k = len(table)
        checked = {
            "transition": read_only(scaled(table)),
            "states": state_names(self.states, k),
            "values": state_values(self.values, k),
            "step": time_step(self.step),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "bins", bin_edges(self.bins, k, self.states))

    @property
    def size(self) -> int:
        """How many states there are, named or not."""
        return len(self.transition)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the states, or their numbers."""
        return self.states if self.states is not None else tuple(str(j) for j in range(self.size))

    @property
    def second_order(self) -> npt.NDArray[np.float64]:
        """Its table."""
        return self.transition

    @cached_property
    def hidden(self) -> HiddenMarkov:
        """The chain of pairs of neighbours: pair (x, y) has number x·k + y, and its record is y."""
        k = self.size
        moves = np.zeros((k, k, k, k))
        for x in range(k):
            for y in range(k):
                moves[x, y, y] = self.transition[x, y]
        return HiddenMarkov(
            transition=moves.reshape(k * k, k * k), emission=np.tile(np.eye(k), (k, 1)), start=self.start
        )

    @property
    def not_listed(self) -> str:
        """One record does not shield another."""
        return "the next record depends on the last two, so no single record says all that its neighbours depend on"

    @property
    def supports(self) -> tuple[tuple[Mask, Mask], ...]:
        """Which states may follow each other at all, and which may come first."""
        return self.hidden.supports

    def dependent(self, longest: int) -> int:
        """A whole series, unless every step forgets where it came from."""
        forgets = bool(np.all(self.transition == self.transition[0, 0]))
        return 1 if longest == 1 or self.size == 1 or forgets else longest

    def with_bins(self, edges: tuple[float, ...]) -> MemoryChain:
        """This chain, for numbers that bins turn into its states."""
        return replace(self, bins=edges)

    def to_dict(self) -> dict[str, Any]:
        """The table and the start, and how the states are called."""
        return states_to_dict(self, transition=self.transition.tolist(), start=self.start)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> MemoryChain:
        """The chain of a ``markov_memory`` file."""
        content = _MemoryFile.model_validate(raw)
        table = number_array(content.transition, "transition")
        return cls(transition=table, start=content.start, **content.common())

    def __repr__(self) -> str:
        names = ", ".join(self.labels[:6]) + (", …" if self.size > 6 else "")
        return f"MemoryChain(second order, {self.size} state{'s' * (self.size != 1)}: {names}; start {self.start})"
