"""Priors about a series: what they share, and one of them, a Markov chain with a start."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Mask, Matrix, Vector, read_only
from pufferdp.basics.errors import ModelError, NotApplicableError, ParameterError
from pufferdp.basics.words import quoted_value, shape_text
from pufferdp.models.base import LayoutOptions, Lengths, Model
from pufferdp.models.files.json import File, Row

Start = str | Sequence[float] | Vector

ROW_TOLERANCE: Final = 1e-9
"""A row of probabilities may miss 1 by this much; it is then scaled to sum to 1."""


class Box(Protocol):
    """Bounds on every entry of a transition table."""

    @property
    def low(self) -> Matrix:
        """The least that an entry can be."""

    @property
    def high(self) -> Matrix:
        """The most that an entry can be."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the states, in the order of rows and columns."""


class SeriesModel(Model):
    """A model of a series of any length: one chain, or a class of chains."""

    needs_length: ClassVar[bool] = True
    takes_length: ClassVar[bool] = True

    @property
    def chains(self) -> tuple[MarkovChain, ...]:
        """The chains of the class; none where they cannot be listed."""
        return ()

    @property
    def deciding(self) -> tuple[MarkovChain, ...]:
        """Chains of which one has the worst quilt of the class; none where that is not known."""
        return self.chains

    @property
    def rhythm(self) -> npt.NDArray[np.float64] | None:
        """Of a chain whose transitions follow a clock: the table of each step of the period, (steps, k, k)."""
        return None

    @property
    def clock(self) -> SeriesModel | None:
        """The model as a time-of-day chain of records with several matrices; None where it is something else."""
        return None

    @property
    def box(self) -> Box | None:
        """The class as bounds on every entry, for any start, where it is given by bounds."""
        return None

    @property
    def chain(self) -> MarkovChain | None:
        """The only member, where it is a chain."""
        return None

    @property
    def not_listed(self) -> str:
        """Why there is no list of chains to look at, in words."""
        return "the class is a box of chains, which cannot be listed"

    @property
    def single(self) -> bool:
        """Whether the class is one chain."""
        return self.chain is not None

    @property
    def definite_chains(self) -> tuple[MarkovChain, ...]:
        """Some chains of the class, each with a start to draw from: all of a list, otherwise telling ones."""
        return tuple(replace(chain, start="stationary") if chain.any_start else chain for chain in self.deciding)

    @property
    def middle(self) -> MarkovChain:
        """A chain from the middle of the class: the first of a list."""
        if not self.chains:
            raise NotApplicableError(f"{self!r} lists no chain, and does not say which one is in its middle")
        return self.chains[0]

    def nearest(self, chain: MarkovChain) -> MarkovChain | None:
        """Of a class given by bounds a chain near this one, itself where it is inside; None where chains are listed."""
        return None

    def with_bins(self, edges: tuple[float, ...]) -> SeriesModel:
        """This model, with bins that turn numbers into its states."""
        raise ParameterError(f"{self!r} takes no bins: read states instead of numbers", value=edges)

    def dependent(self, longest: int) -> int:
        """A whole chain, unless each step forgets where it came from."""
        if longest == 1 or self.size == 1:
            return 1
        forgetful = [bool(np.all(chain.transition == chain.transition[0])) for chain in self.chains]
        return 1 if forgetful and all(forgetful) else longest

    def group_size(self, longest: int) -> int:
        """A whole chain, even where records are independent."""
        return longest

    @property
    def supports(self) -> tuple[tuple[Mask, Mask], ...]:
        """Of each chain that must be distinguished: which moves are possible, and which states a chain can start in."""
        if self.chains:
            return tuple(support for chain in self.chains for support in chain.supports)
        every = np.ones(self.size, dtype=np.bool_)
        return () if self.box is None else ((np.asarray(self.box.high > 0), every),)

    @property
    def rules_out(self) -> bool:
        """Whether every chain of the class rules out some move, or some first record."""
        return bool(self.supports) and not any(moves.all() and starts.all() for moves, starts in self.supports)

    def allows(self, moves: Iterable[Move]) -> bool:
        """Whether some chain of the class can make all of these moves."""
        listed = list(moves)
        return not self.supports or any(_allowed(pattern, starts, listed) for pattern, starts in self.supports)

    def possible(self, rows: Sequence[npt.NDArray[np.int64]]) -> bool:
        """Whether some chain of a list can take these paths."""
        return any(chain.takes(rows) for chain in self.chains)

    def lengths(self, given: Lengths, divided: str | None = None) -> Lengths:
        """One chain or more, as given."""
        if not given:
            raise ParameterError("there is no chain; a release needs at least one record")
        return given

    def check_reading(self, layout: LayoutOptions, missing: str, id: str | None) -> None:
        """Records have positions, and no names."""
        if id is not None:
            raise ParameterError(
                f"id is {id!r}; it says which record a row is, and a series has positions only: use order=", value=id
            )

    def public_facts(self, records: int) -> list[str]:
        """How long the chains are, and where they are cut."""
        return [
            f"how many records there are ({records}) and how they fall into chains",
            "where gaps and missing values lie",
        ]


def series_of(model: Model) -> SeriesModel | None:
    """The model as one of series; None where it is about something else."""
    return model if isinstance(model, SeriesModel) else None


def chains_of(model: Model) -> tuple[MarkovChain, ...]:
    """The chains of a class of series that can be listed; none for other models."""
    series = series_of(model)
    return () if series is None else series.chains


def chain_of(model: Model) -> MarkovChain | None:
    """The chain that is the only member; None where there are several, or none that is a chain."""
    series = series_of(model)
    return None if series is None else series.chain


Move = tuple[int, int, int]
"""From a state to a state in so many steps. From -1: the first record that is there, so many steps from the first."""


def _allowed(pattern: Mask, starts: Mask, moves: Iterable[Move]) -> bool:
    """Whether a chain with these possible steps and starts can make all moves."""
    patterns = {1: pattern}

    def after(steps: int) -> Mask:
        if steps not in patterns:
            half = after(steps // 2).astype(np.uint8)
            both = np.asarray((half @ half) > 0)
            patterns[steps] = both if steps % 2 == 0 else (both.astype(np.uint8) @ pattern.astype(np.uint8)) > 0
        return patterns[steps]

    def begins(y: int, steps: int) -> bool:
        return bool((starts & after(steps)[:, y]).any() if steps else starts[y])

    return all(begins(y, steps) if x < 0 else bool(after(steps)[x, y]) for x, y, steps in moves)


_LONGEST_STEP: Final = 100
"""Characters: thousands of digits Python refuses to read, in words of its own."""


def time_step(step: object) -> str | float | None:
    """A step of time, checked: a duration such as 5min, or a number above 0."""
    if step is None:
        return None
    if isinstance(step, timedelta) and step > timedelta(0):
        unit = next(name for name, length in _UNITS.items() if not step % length)
        return f"{step // _UNITS[unit]}{unit}"
    if isinstance(step, str):
        match = _STEP.fullmatch(step) if len(step) <= _LONGEST_STEP else None
        if match and float(match[1]) > 0:
            return step
    elif isinstance(step, (int, float)) and not isinstance(step, bool) and 0 < step < math.inf:
        return float(step)  # as a file is read, so that both have one digest
    raise ModelError(
        f"step is {step!r:.80}; it must be the time from one record to the next: a duration such as 5min, 1h, 30s or "
        "500ms, or a number above 0 in the order column's unit",
        value=step,
    )


_UNITS: Final = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "min": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
}
_STEP: Final = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(us|ms|s|sec|min|h|d|w)\s*")


class StatesFile(File):
    """What files of all kinds of chains share."""

    states: list[str | int] | None = None
    values: Row | None = None
    bins: Row | None = None
    step: str | float | None = None
    fitted: dict[str, Any] | None = None
    checks: dict[str, Any] | None = None

    def common(self) -> dict[str, Any]:
        """The arguments of the same names."""
        return {name: getattr(self, name) for name in _SHARED}


@dataclass(frozen=True, kw_only=True, eq=False)
class StatesModel(SeriesModel):
    """A series model whose file says how states are called, which numbers they stand for and how far apart records are.

    A subclass says how many states there are with ``size``, and calls ``check_states`` when it is made.
    """

    states: tuple[str, ...] | None = None
    """Names of the values that records have; without them they are 0..k-1."""
    values: tuple[float, ...] | None = None
    """A number for each state, for sums and means."""
    bins: tuple[float, ...] | None = None
    """Edges that turned numbers into states: state j is [bins[j], bins[j+1])."""
    step: str | float | None = None
    """The time from one record to the next: ``"5min"``, or a number in the unit of the order column."""
    fitted: dict[str, Any] | None = field(default=None, repr=False)
    """Where the model was estimated from, if it was (see ``pufferdp fit``)."""
    checks: dict[str, Any] | None = field(default=None, repr=False)
    """What the data said about the model, where ``fit`` or ``check`` compared them."""

    def check_states(self, k: int) -> None:
        """Check names, numbers, edges and step for k states, and keep them as a file is read."""
        checked = {
            "states": state_names(self.states, k),
            "values": state_values(self.values, k),
            "step": time_step(self.step),
            "checks": json_object(self.checks, "checks"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "bins", bin_edges(self.bins, k, self.states))

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the states, or their numbers."""
        return self.states if self.states is not None else tuple(str(j) for j in range(self.size))

    @property
    def names(self) -> dict[str, Any]:
        """The fields that all of these models share, for a model made from this one."""
        return {name: getattr(self, name) for name in _SHARED}

    def with_bins(self, edges: tuple[float, ...]) -> Self:
        """This model, for numbers that bins turn into its states."""
        return replace(self, bins=edges)

    def file_content(self, **own: Any) -> dict[str, Any]:
        """The content of the model's file: what is its own, and what all of these models share."""
        named = {n: list(v) if isinstance(v, tuple) else v for n, v in self.names.items() if v is not None}
        return {"type": self.file_type, **own, **named}


_SHARED: Final = ("states", "values", "bins", "step", "fitted", "checks")


class ChainFile(StatesFile):
    """The content of a file with one chain."""

    type: Literal["markov_chain"]
    transition: list[Row]
    start: str | Row = "stationary"

    def build(self) -> MarkovChain:
        """The chain that the file describes, checked."""
        table = number_array(self.transition, "transition")
        return MarkovChain(transition=table, start=self.start, **self.common())


@dataclass(frozen=True, kw_only=True, eq=False)
class MarkovChain(StatesModel):
    """A Markov chain over named states, the start included.

    >>> MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"])
    MarkovChain(2 states: rest, active; start stationary)
    """

    file_type: ClassVar[str | None] = "markov_chain"

    transition: Matrix = field(kw_only=False)
    """Row x holds the probabilities of the next state after state x."""
    start: Start = "stationary"
    """``"stationary"``, ``"any"`` (the guarantee holds for every start) or the distribution of the first record."""

    def __post_init__(self) -> None:
        transition = probability_rows(self.transition, "transition")
        k = len(transition)
        set_field = object.__setattr__
        set_field(self, "transition", transition)
        if isinstance(self.start, str):
            if self.start not in ("stationary", "any"):
                raise ModelError(
                    f'start is {self.start!r}; it must be "stationary", "any" or a list of {k} probabilities',
                    value=self.start,
                )
        else:
            set_field(self, "start", _distribution(self.start, k))
        self.check_states(k)

    @property
    def size(self) -> int:
        """How many states the table has, named or not."""
        return len(self.transition)

    @property
    def chains(self) -> tuple[MarkovChain, ...]:
        """The chains of the class: a model is a class of one."""
        return (self,)

    @property
    def chain(self) -> MarkovChain:
        """The chain itself, the only member."""
        return self

    @property
    def supports(self) -> tuple[tuple[Mask, Mask], ...]:
        """The possible moves and first states of this chain."""
        distribution = self.stationary if self.given_start is None else self.given_start
        return ((self.transition > 0, np.asarray((distribution > 0) | self.any_start)),)

    def takes(self, paths: Sequence[npt.NDArray[np.int64]]) -> bool:
        """Whether each of these paths, in state numbers, has positive probability."""
        distribution = self.stationary if self.given_start is None else self.given_start
        starts = np.ones(self.size, dtype=bool) if self.any_start else distribution > 0
        return all(bool(starts[path[0]]) and bool((self.transition[path[:-1], path[1:]] > 0).all()) for path in paths)

    def to_dict(self) -> dict[str, Any]:
        """The table and the start, and how the states are called."""
        start = self.start if isinstance(self.start, str) else [float(p) for p in self.start]
        return self.file_content(transition=self.transition.tolist(), start=start)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> MarkovChain:
        """The chain of a ``markov_chain`` file."""
        return ChainFile.model_validate(raw).build()

    @property
    def any_start(self) -> bool:
        """Whether the guarantee is for every start."""
        return isinstance(self.start, str) and self.start == "any"

    @property
    def given_start(self) -> Vector | None:
        """The distribution of the first record, where one was given."""
        return None if isinstance(self.start, str) else np.asarray(self.start, dtype=float)

    @cached_property
    def closed_classes(self) -> tuple[tuple[int, ...], ...]:
        """The sets of states that are never left, each irreducible."""
        reach = self._reach
        mutual = reach & reach.T
        classes = {tuple(int(j) for j in np.flatnonzero(mutual[x])) for x in range(self.size)}
        return tuple(sorted(c for c in classes if not reach[c[0]][[j for j in range(self.size) if j not in c]].any()))

    @cached_property
    def _reach(self) -> Mask:
        """Which states can be reached from which, in any number of steps (0 included)."""
        reach = (self.transition > 0) | np.eye(self.size, dtype=bool)
        while True:
            wider = (reach.astype(np.uint8) @ reach.astype(np.uint8)) > 0
            if np.array_equal(wider, reach):
                return np.asarray(reach, dtype=np.bool_)
            reach = wider

    @property
    def irreducible(self) -> bool:
        """Every state can be reached from every other."""
        return bool(self._reach.all())

    @cached_property
    def primitive(self) -> bool:
        """Some power of the transition matrix is positive: irreducible and aperiodic."""
        pattern = (self.transition > 0).astype(np.uint8)
        # Wielandt: a primitive pattern is positive at the power (k-1)^2+1, and stays so.
        for _ in range(int((self.size - 1) ** 2 + 1).bit_length()):
            pattern = ((pattern @ pattern) > 0).astype(np.uint8)
        return bool(pattern.all())

    @cached_property
    def stationary(self) -> Vector:
        """The stationary distribution, by a linear solve; transient states are exactly 0.

        With several closed classes it is not unique. The average over the classes is returned: which mixture is
        taken does not matter for a guarantee, because states of different classes never meet again.
        """
        distribution = np.zeros(self.size)
        for members in self.closed_classes:
            index = np.asarray(members)
            block = self.transition[np.ix_(index, index)]
            distribution[index] += irreducible_distribution(block) / len(self.closed_classes)
        return read_only(distribution)

    @cached_property
    def reversal(self) -> Matrix:
        """The chain read backwards, P*(x,y) = π(y)·P(y,x)/π(x); needs every stationary probability positive."""
        distribution = self.stationary
        if not (distribution > 0).all():
            state = self.labels[int(np.argmin(distribution))]
            raise ModelError(f"state {state!r} has stationary probability 0; a reversal needs an irreducible chain")
        return read_only(distribution[None, :] * self.transition.T / distribution[:, None])

    @property
    def reversible(self) -> bool:
        """Detailed balance holds up to rounding: π(x)·P(x,y) = π(y)·P(y,x)."""
        flow = self.stationary[:, None] * self.transition
        return bool(np.allclose(flow, flow.T, rtol=1e-9, atol=1e-15))

    def __repr__(self) -> str:
        names = ", ".join(self.labels[:6]) + (", …" if self.size > 6 else "")
        start = self.start if isinstance(self.start, str) else "given"
        return f"MarkovChain({self.size} state{'s' * (self.size != 1)}: {names}; start {start})"


def irreducible_distribution(block: Matrix) -> Vector:
    """π of an irreducible block, or of each in a stack, by the GTH elimination.

    Nothing is subtracted, so every entry is right to many digits.
    """
    a = np.array(block)
    k = a.shape[-1]
    for n in range(k - 1, 0, -1):
        a[..., :n, n] /= a[..., n, :n].sum(axis=-1, keepdims=True)
        a[..., :n, :n] += a[..., :n, n, None] * a[..., n, None, :n]
    distribution = np.zeros(a.shape[:-1])
    distribution[..., 0] = 1.0
    for n in range(1, k):
        distribution[..., n] = (distribution[..., :n] * a[..., :n, n]).sum(axis=-1)
    return np.asarray(distribution / distribution.sum(axis=-1, keepdims=True), dtype=float)


def probability_rows(value: object, name: str) -> Matrix:
    """A square matrix whose rows are probabilities, as a read-only array."""
    matrix = number_array(value, name)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        shape = shape_text(matrix.shape)
        raise ModelError(f"{name} is {shape}; it must be a square table, one row and one column per state", value=value)
    for x, row in enumerate(matrix):
        check_distribution(row, f"row {x + 1} of {name}")
    return read_only(scaled(matrix))


def check_distribution(row: Vector, where: str) -> None:
    """Refuse a row that is no distribution: an entry that is no probability, or a sum that is not 1."""
    wrong = np.flatnonzero(~(np.isfinite(row) & (row >= 0)))
    if len(wrong):
        p = float(row[wrong[0]])
        raise ModelError(f"entry {wrong[0] + 1} of {where} is {p:g}; a probability lies between 0 and 1", value=p)
    with np.errstate(over="ignore"):
        total = float(row.sum())
    if abs(total - 1) > ROW_TOLERANCE:
        raise ModelError(f"{where} sums to {total:.12g}; it must sum to 1 within {ROW_TOLERANCE:g}", value=total)


def _distribution(value: object, k: int) -> Vector:
    distribution = number_array(value, "start")
    if distribution.shape != (k,):
        raise ModelError(
            f"start has {distribution.size} probabilities; it must have one for each of the {k} states", value=value
        )
    check_distribution(distribution, "start")
    return read_only(scaled(distribution))


def scaled(distributions: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Distributions along the last axis scaled to sum to 1, or untouched where only rounding is off.

    So reading a model twice changes nothing.
    """
    total = distributions.sum(axis=-1, keepdims=True)
    return np.where(abs(total - 1) <= distributions.shape[-1] * 2.0**-52, distributions, distributions / total)


def number_array(value: object, name: str) -> npt.NDArray[np.float64]:
    """Nested lists of numbers as an array; refuses text, booleans, gaps and ragged rows."""
    try:
        raw = np.asarray(value)
        if raw.dtype.kind not in "iuf":
            raise ValueError
        return np.array(raw, dtype=float)
    except (TypeError, ValueError):
        if isinstance(value, (list, tuple)) and any(isinstance(row, (list, tuple)) for row in value):
            raise ModelError(f"{name} must be a table of numbers, every row of the same length", value=value) from None
        raise ModelError(f"{name} is {quoted_value(value)}; it must be made of numbers", value=value) from None


def json_object(value: object, name: str) -> dict[str, Any] | None:
    """An object that a JSON file can hold, or None; rejects other values and keys that are not text."""
    if value is None:
        return None
    try:
        same = isinstance(value, dict) and json.loads(json.dumps(value, allow_nan=False)) == value
    except (TypeError, ValueError):
        same = False
    if not isinstance(value, dict) or not same:
        raise ModelError(
            f"{name} is {quoted_value(value)}; it must be an object as JSON has it, with keys that are text and finite "
            "numbers",
            value=value,
        )
    return value


def state_names(value: object, k: int) -> tuple[str, ...] | None:
    """Names of k states, all different; whole numbers become their text."""
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)):
        raise ModelError(f"states is {value!r}; it must be a list of {k} names", value=value)
    names = tuple(str(v) for v in value)
    if len(names) != k:
        raise ModelError(
            f"states has {len(names)} name{'s' * (len(names) != 1)}; the transition table has {k} rows", value=value
        )
    if "" in names:
        raise ModelError("a state has an empty name; in a file that reads as missing, so give it another", value=value)
    repeated = sorted({n for n in names if names.count(n) > 1})
    if repeated:
        raise ModelError(f"state {repeated[0]!r} is named twice; every state needs its own name", value=value)
    return names


def state_values(value: object, k: int) -> tuple[float, ...] | None:
    """A finite number for each of k states."""
    if value is None:
        return None
    numbers = number_array(value, "values")
    if numbers.shape != (k,) or not np.isfinite(numbers).all():
        raise ModelError(f"values must be {k} finite numbers, one for each state", value=value)
    return tuple(float(v) for v in numbers)


def bin_edges(value: object, k: int | None = None, states: Sequence[str] | None = None) -> tuple[float, ...] | None:
    """Edges of the bins, rising: as many bins as states, or states named after the bins they are."""
    if value is None:
        return None
    edges = number_array(value, "bins")
    if edges.ndim != 1 or len(edges) < 2 or not np.isfinite(edges).all() or not (np.diff(edges) > 0).all():
        raise ModelError("bins must be two or more finite edges in rising order, for example 0,200,400", value=value)
    if k is not None and len(edges) != k + 1:
        names = bin_names(tuple(edges))
        if states is None or not set(states) <= set(names):
            raise ModelError(
                f"bins has {len(edges)} edges, so {len(edges) - 1} states; the model has {k}, "
                f"and they are not named after bins, as in {names[0]!r}",
                value=value,
            )
    return tuple(float(e) for e in edges)


def bin_names(edges: Sequence[float]) -> tuple[str, ...]:
    """A name for each bin: its edges."""
    return tuple(f"{a:.12g}..{b:.12g}" for a, b in itertools.pairwise(edges))
