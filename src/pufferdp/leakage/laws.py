"""The law of an answer given a secret, one way of computing it for each kind of model, behind one interface."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from pufferdp.leakage.logs import Logs, log_convolve, log_sum
from pufferdp.models.groups import Groups, shares
from pufferdp.models.records import RecordModel

Steps = Sequence[npt.NDArray[np.int64]]
"""For each record: how far each of its states moves the answer, in whole steps."""
Cell = Mapping[int, Sequence[int]]
Points = npt.NDArray[np.int64] | npt.NDArray[np.float64]

UNIT: Final = 2.0**-53


@dataclass(frozen=True, eq=False)
class RecordLaws:
    """Laws of the answer that an adversary may hold given the value of one record: one row each."""

    record: int
    """Position of the record, counted from 0."""
    states: tuple[int, ...]
    """The state that each row is given. Rows of the same state are other beliefs of the class (other starts)."""
    logs: Logs


class AnswerLaws(Protocol):
    """Laws of one answer under one model."""

    @property
    def points(self) -> Points:
        """The values of the answer, rising; one row each for an answer of several numbers."""

    @property
    def error(self) -> float:
        """A bound on the relative error of every mass."""

    def records(self) -> Iterator[RecordLaws]:
        """The laws given each possible value of each record."""

    def event(self, cells: Sequence[Cell]) -> Logs | None:
        """The laws given that one of these conditions holds (no two do); None where that has probability 0."""


def normal(rows: Logs) -> Logs:
    """Each row scaled to a total of 1."""
    return np.asarray(rows - log_sum(rows)[..., None])


def inside(outcomes: npt.NDArray[np.int64], cells: Sequence[Cell]) -> npt.NDArray[np.bool_]:
    """In which outcomes (rows of state numbers) at least one of the conditions holds."""
    holds = np.zeros(len(outcomes), dtype=bool)
    for cell in cells:
        both = np.ones(len(outcomes), dtype=bool)
        for i, states in cell.items():
            both &= np.isin(outcomes[:, i], list(states))
        holds |= both
    return holds


class TableLaws:
    """By enumeration of outcomes; the answer may be anything."""

    def __init__(self, model: RecordModel, answers: npt.NDArray[np.float64] | npt.NDArray[np.int64]) -> None:
        self.model = model
        self._rows, self._law = model.outcomes()
        points, place = np.unique(answers, axis=0, return_inverse=True)
        whole = np.issubdtype(points.dtype, np.integer)
        self.points: Points = points.astype(np.int64) if whole else points.astype(np.float64)
        self._place = place.ravel()
        self.error = (4 * (len(self._law) + len(model.records)) + 2000) * UNIT  # logarithms down to -745 among them

    def records(self) -> Iterator[RecordLaws]:
        """The laws given each possible value of each record."""
        for i in range(len(self.model.records)):
            states = [int(a) for a in np.unique(self._rows[:, i])]
            rows = np.array([self._given(self._rows[:, i] == a) for a in states])
            yield RecordLaws(i, tuple(states), normal(rows))

    def event(self, cells: Sequence[Cell]) -> Logs | None:
        """The laws given that one of these conditions holds."""
        holds = inside(self._rows, cells)
        return normal(self._given(holds)[None]) if holds.any() else None

    def _given(self, rows: npt.NDArray[np.bool_]) -> Logs:
        with np.errstate(divide="ignore"):
            return np.log(np.bincount(self._place[rows], self._law[rows], minlength=len(self.points)))


class GroupLaws:
    """Independent groups: the group's own number of ones given the secret, then all the others added.

    ``step`` is what a one adds more than a zero; where it is negative, the least answer is that of all ones.
    """

    def __init__(self, model: Groups, step: int) -> None:
        self.model, self.step = model, step
        self.points = np.arange(sum(model.group_sizes) + 1) * abs(step)
        with np.errstate(divide="ignore"):
            self._logs = [np.log(law) for law in model.positives]
        self._others: dict[bytes, Logs] = {}
        self.error = (len(self.points) + 8) * 4000 * UNIT  # logarithms of masses down to exp(-1000)

    def records(self) -> Iterator[RecordLaws]:
        """The laws given each possible value of each record; members of equal groups have the same."""
        done: set[bytes] = set()
        for g, component in enumerate(self.model.components):
            if self._key(g) in done:
                continue
            done.add(self._key(g))
            rows = {a: self._law({component[0]: (a,)}) for a in (0, 1)}
            possible = tuple(a for a, row in rows.items() if row is not None)
            yield RecordLaws(component[0], possible, normal(np.array([rows[a] for a in possible])))

    def event(self, cells: Sequence[Cell]) -> Logs | None:
        """The laws given that one of these conditions holds."""
        found = [row for row in (self._law(cell) for cell in cells) if row is not None]
        return normal(np.logaddexp.reduce(found)[None]) if found else None

    def _key(self, g: int) -> bytes:
        return self.model.positives[g].tobytes()

    def _law(self, cell: Cell) -> Logs | None:
        """Log P(number of ones, condition)."""
        fixed = {i: states[0] for i, states in cell.items() if len(set(states)) == 1}
        touched = sorted({self.model.group_of(i) for i in fixed})
        law = self._rest(touched)
        for g in touched:
            told = [x for i, x in fixed.items() if self.model.group_of(i) == g]
            members = self.model.group_sizes[g]
            with np.errstate(divide="ignore"):
                own = self._logs[g] + np.log(shares(members, len(told), sum(told)))
            if np.isneginf(own).all():
                return None
            law = log_convolve(law, own)
        return law if self.step >= 0 else law[::-1]

    def _rest(self, without: Sequence[int]) -> Logs:
        """The law of the ones in all groups but these."""
        key = b"|".join(sorted(self._key(g) for g in without))
        if key not in self._others:
            law = np.zeros(1)
            for g, logs in enumerate(self._logs):
                if g not in without:
                    law = log_convolve(law, logs)
            self._others[key] = law
        return self._others[key]


def pairs_of(laws: RecordLaws) -> tuple[list[int], list[int]]:
    """Rows to be told apart: every two with different states."""
    both = [(p, q) for p, q in itertools.combinations(range(len(laws.states)), 2) if laws.states[p] != laws.states[q]]
    return [p for p, _ in both], [q for _, q in both]
