"""A hidden chain: states that nobody sees follow each other, and each record is drawn from its hidden state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeGuard

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Mask, Matrix, Vector, read_only
from pufferdp.basics.errors import ModelError
from pufferdp.basics.words import shape_text
from pufferdp.models.base import Model
from pufferdp.models.chain import (
    MarkovChain,
    Start,
    StatesFile,
    StatesModel,
    check_distribution,
    number_array,
    scaled,
)
from pufferdp.models.files.json import Row


class _HiddenFile(StatesFile):
    type: Literal["hidden_markov"]
    transition: list[Row]
    emission: list[Row]
    start: str | Row = "stationary"


class HiddenSeries(StatesModel):
    """A model that can be written as records drawn from the states of a hidden chain."""

    @property
    @abstractmethod
    def hidden(self) -> HiddenMarkov:
        """The model as records drawn from hidden states."""

    @property
    def hidden_steps(self) -> tuple[npt.NDArray[np.float64], Sequence[int], Start]:
        """States that each show one record value: a matrix for each step of a period, the values, and the start."""
        pairs, definite = self.hidden.pair_chain, self.hidden.hidden_chain.given_start is None
        start = "stationary" if definite and not self.hidden.any_start else pairs.start
        return pairs.transition[None], self.hidden.pair_records.tolist(), start

    @property
    def single(self) -> bool:
        """Whether it is one model: also where the start is open, as for a chain."""
        return True

    @property
    def not_listed(self) -> str:
        """No record tells all that the next one depends on."""
        return "records are drawn from hidden states, so no record says all that its neighbours depend on"

    def possible(self, rows: Sequence[npt.NDArray[np.int64]]) -> bool:
        """Whether some path of hidden states gives these records."""
        return all(self.hidden.takes(row) for row in rows)

    @property
    def rules_out(self) -> bool:
        """Whether some series of records is impossible, though each may follow the one before it."""
        return self.hidden.ways.rules_out


class HiddenWays:
    """Which hidden states can be behind the records so far: sets of them, as bits of a number."""

    def __init__(self, moves: Mask, shown: Mask, starts: Mask) -> None:
        self._moves = {1: moves}
        self._shown = [_bits(column) for column in shown.T]
        self._starts = _bits(starts)
        self._size = len(moves)
        self._found: dict[tuple[int, int, int], int] = {}

    def begin(self, record: int, steps: int, inside: bool) -> int:
        """The states behind a first record, ``steps`` after the start; ``inside``: of any segment of a series."""
        now = (1 << self._size) - 1 if inside else self._starts
        return self._reached(now, steps) & self._shown[record]

    def follow(self, now: int, record: int, steps: int) -> int:
        """The states behind a record that comes so many steps after the one whose states are given."""
        key = now, record, steps
        if key not in self._found:
            self._found[key] = self._reached(now, steps) & self._shown[record]
        return self._found[key]

    def first_impossible(
        self, path: npt.NDArray[np.int64], steps: npt.NDArray[np.int64], inside: bool = False
    ) -> int | None:
        """The first record of a path that cannot follow what came before it; None where all can."""
        now = self.begin(int(path[0]), int(steps[0]), inside)
        if not now:
            return 0
        for place, (record, apart) in enumerate(zip(path[1:].tolist(), steps[1:].tolist(), strict=True), start=1):
            now = self.follow(now, record, apart)
            if not now:
                return place
        return None

    @cached_property
    def rules_out(self) -> bool:
        """Whether some series is impossible. Unobserved steps only add possibilities, so complete series decide."""
        waiting = {self.begin(record, 0, False) for record in range(len(self._shown))}
        seen: set[int] = set()
        while waiting:
            now = waiting.pop()
            if not now or len(seen) > _MOST_SETS:
                return True
            seen.add(now)
            waiting |= {self.follow(now, record, 1) for record in range(len(self._shown))} - seen
        return False

    def _reached(self, now: int, steps: int) -> int:
        if not steps:
            return now
        after = self._after(steps)
        return _bits(np.asarray(after[[h for h in range(self._size) if now >> h & 1]].any(axis=0)))

    def _after(self, steps: int) -> Mask:
        """Which state can follow which in so many steps."""
        if steps not in self._moves:
            half = self._after(steps // 2).astype(np.float64)
            both = half @ half > 0
            odd = both.astype(np.float64) @ self._moves[1].astype(np.float64) > 0
            self._moves[steps] = odd if steps % 2 else both
        return self._moves[steps]


_MOST_SETS: Final = 4096
"""Where so many sets of hidden states can be behind the records, some series is taken to be impossible."""


def _bits(mask: Mask) -> int:
    return sum(1 << int(place) for place in np.flatnonzero(mask))


def is_hidden(model: Model) -> TypeGuard[HiddenSeries]:
    """Whether records depend on hidden states, so that no chain of the records says the same."""
    return isinstance(model, HiddenSeries) and model.chain is None and model.clock is None


def hidden_of(model: Model) -> HiddenMarkov | None:
    """The model as records drawn from the states of a hidden chain; None where it is none, or is a chain itself.

    Raises:
        NotApplicableError: where hidden states depend on the time of day, which one matrix cannot say.
    """
    return model.hidden if is_hidden(model) else None


@dataclass(frozen=True, kw_only=True, eq=False)
class HiddenMarkov(HiddenSeries):
    """Records that are drawn from the states of a Markov chain, which are never published and need no protection.

    Where a record shows its hidden state for certain, a `MarkovChain` says the same and needs less noise.

    >>> HiddenMarkov(transition=[[0.9, 0.1], [0.2, 0.8]], emission=[[0.8, 0.2], [0.3, 0.7]], states=["off", "on"])
    HiddenMarkov(2 hidden states; records off, on; start stationary)
    """

    file_type: ClassVar[str | None] = "hidden_markov"

    transition: Matrix
    """Row h holds the probabilities of the next hidden state after hidden state h."""
    emission: Matrix
    """Row h holds the probabilities of the record's values in hidden state h."""
    start: Start = "stationary"
    """``"stationary"``, ``"any"`` (the guarantee covers every start) or the distribution of the first hidden state."""

    def __post_init__(self) -> None:
        hidden = MarkovChain(transition=self.transition, start=self.start)
        emission = number_array(self.emission, "emission")
        if emission.ndim != 2 or len(emission) != hidden.size or emission.shape[1] == 0:
            shape = shape_text(emission.shape)
            raise ModelError(
                f"emission is {shape}; it must have one row for each of the {hidden.size} hidden states and one column "
                "for each value of a record",
                value=self.emission,
            )
        for h, row in enumerate(emission):
            check_distribution(row, f"row {h + 1} of emission")
        k = emission.shape[1]
        if self.states is not None and isinstance(self.states, Sequence | np.ndarray) and len(self.states) != k:
            raise ModelError(
                f"states has {len(self.states)} names; they name the values of records, and emission has {k} columns",
                value=self.states,
            )
        checked = {
            "transition": hidden.transition,
            "start": hidden.start,
            "emission": read_only(scaled(emission)),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        self.check_states(k)

    @property
    def size(self) -> int:
        """How many values a record may have."""
        return int(self.emission.shape[1])

    @property
    def hidden(self) -> HiddenMarkov:
        """The model itself, as it was given."""
        return self

    @cached_property
    def hidden_chain(self) -> MarkovChain:
        """The chain of the hidden states."""
        return MarkovChain(transition=self.transition, start=self.start)

    @property
    def any_start(self) -> bool:
        """Whether the guarantee is for every start."""
        return self.hidden_chain.any_start

    @property
    def start_distribution(self) -> Vector:
        """The distribution of the first hidden state; where the start is open, the stationary one."""
        chain = self.hidden_chain
        return chain.stationary if chain.given_start is None else chain.given_start

    @cached_property
    def _pairs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Hidden states and records that occur together."""
        hidden, records = np.nonzero(self.emission)
        return hidden, records

    @cached_property
    def pair_chain(self) -> MarkovChain:
        """The chain of pairs (hidden state, record) that occur, from which records are read off."""
        hidden, records = self._pairs
        shown = self.emission[hidden, records]
        start: Start = "any" if self.any_start else scaled(self.start_distribution[hidden] * shown)
        return MarkovChain(transition=scaled(self.transition[np.ix_(hidden, hidden)] * shown), start=start)

    @property
    def pair_records(self) -> npt.NDArray[np.int64]:
        """The record value of each pair."""
        return self._pairs[1]

    def dependent(self, longest: int) -> int:
        """A whole series, unless hidden states or records forget what they came from."""
        forgets = bool(np.all(self.transition == self.transition[0]) or np.all(self.emission == self.emission[0]))
        return 1 if longest == 1 or self.size == 1 or forgets else longest

    def takes(self, row: npt.NDArray[np.int64]) -> bool:
        """Whether this series of records has positive probability."""
        steps = np.ones(len(row), dtype=np.int64)
        steps[0] = 0
        return self.ways.first_impossible(row, steps) is None

    @cached_property
    def ways(self) -> HiddenWays:
        """Which hidden states can be behind records."""
        starts = np.ones(len(self.transition), dtype=bool) if self.any_start else self.start_distribution > 0
        return HiddenWays(self.transition > 0, self.emission > 0, np.asarray(starts))

    @property
    def supports(self) -> tuple[tuple[Mask, Mask], ...]:
        """Which records may follow each other at all, whatever went before, and which may come first.

        Chains of these moves include all series of the model: what is refused by them never happens.
        """
        shown, moves = self.emission > 0, self.transition > 0
        first = np.ones(len(moves), dtype=bool) if self.any_start else self.start_distribution > 0
        follow = shown.T.astype(float) @ moves.astype(float) @ shown.astype(float) > 0
        return ((np.asarray(follow), np.asarray(shown[first].any(axis=0))),)

    def to_dict(self) -> dict[str, Any]:
        """Both tables and the start, and how the values of records are called."""
        start = self.start if isinstance(self.start, str) else [float(p) for p in self.start]
        own = {"transition": self.transition.tolist(), "emission": self.emission.tolist(), "start": start}
        return self.file_content(**own)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> HiddenMarkov:
        """The model of a ``hidden_markov`` file."""
        content = _HiddenFile.model_validate(raw)
        return cls(
            transition=number_array(content.transition, "transition"),
            emission=number_array(content.emission, "emission"),
            start=content.start,
            **content.common(),
        )

    def __repr__(self) -> str:
        names = ", ".join(self.labels[:6]) + (", …" if self.size > 6 else "")
        start = self.start if isinstance(self.start, str) else "given"
        h = len(self.transition)
        return f"HiddenMarkov({h} hidden state{'s' * (h != 1)}; records {names}; start {start})"


def from_hmmlearn(
    model: object,
    *,
    states: Sequence[str] | None = None,
    values: Sequence[float] | None = None,
    step: str | float | None = None,
) -> HiddenMarkov:
    """The hidden chain of a fitted ``hmmlearn.hmm.CategoricalHMM``, with the start that was fitted.

    hmmlearn is not needed: what is read are ``transmat_``, ``emissionprob_`` and ``startprob_``.

    Args:
        model: a model that ``fit`` was called on.
        states: names of the values that records have, in hmmlearn's order 0, 1, …; without them, their numbers.
        values: a number for each of them, for sums and means.
        step: the time from one record to the next.
    """
    name = type(model).__name__
    if hasattr(model, "means_") or hasattr(model, "covars_") or hasattr(model, "lambdas_"):
        raise ModelError(
            f"the model is a {name}, whose records are numbers; only categorical ones have a distribution of finitely "
            "many values: turn the numbers into bins and fit a CategoricalHMM",
            value=name,
        )
    tables = {}
    for key in ("transmat_", "emissionprob_", "startprob_"):
        if not hasattr(model, key):
            raise ModelError(
                f"the model is a {name} without {key}; it must be a CategoricalHMM that was fitted: call its fit first",
                value=name,
            )
        tables[key] = number_array(getattr(model, key), key)
    trials = getattr(model, "n_trials", None)
    if trials is not None and np.any(np.asarray(trials) != 1):
        raise ModelError(
            f"the model is a {name} with {trials} trials; a record is one value: fit a CategoricalHMM", value=name
        )
    return HiddenMarkov(
        transition=_exact_rows(tables["transmat_"]),
        emission=_exact_rows(tables["emissionprob_"]),
        start=_exact_rows(tables["startprob_"]),
        states=None if states is None else tuple(states),
        values=None if values is None else tuple(values),
        step=step,
    )


def _exact_rows(table: Matrix) -> Matrix:
    """Rows that an iteration has left off by a millionth, scaled to 1; others stay, and are refused as they are."""
    total = table.sum(axis=-1, keepdims=True)
    return np.asarray(np.where(np.abs(total - 1) <= 1e-6, table / np.where(total == 0, 1.0, total), table))
