"""The distribution of an answer given a secret: one way to compute it for each type of model, behind one interface."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from pufferdp.models.base import RecordModel
from pufferdp.models.groups import Groups, shares

Logs = npt.NDArray[np.float64]

_VALID: Final = 1e-280
"""Products below 1e-300 are lost in doubles; a sum of them above this has lost nothing that shows."""


def log_sum(logs: Logs, axis: int = -1) -> Logs:
    """Log of the sum of exponentials along an axis."""
    top = np.max(logs, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(logs - shift).sum(axis=axis, keepdims=True)) + shift
    return np.asarray(np.squeeze(total, axis=axis))


def log_step(logs: Logs, transition: npt.NDArray[np.float64]) -> Logs:
    """Log of transition' · exp(logs): rows are states, columns are kept apart."""
    top = logs.max(axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        out = np.log(transition.T @ np.exp(logs - shift)) + shift
        # A state far below its column's largest is lost in doubles, and it may be the only way to another state.
        deep = np.flatnonzero(((logs > -np.inf) & (logs < top - 600)).any(axis=0))
        if len(deep):
            out[:, deep] = log_sum(np.log(transition)[:, :, None] + logs[:, None, deep], axis=0)
    return np.asarray(out)


def log_convolve(a: Logs, b: Logs) -> Logs:
    """Log of the convolution of two distributions; entries that doubles cannot hold are summed in logarithms."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if len(a) > len(b):
        a, b = b, a
    possible = np.convolve(np.isfinite(a).astype(float), np.isfinite(b).astype(float)) > 0.5
    with np.errstate(divide="ignore"):
        out = np.log(np.convolve(np.exp(a - a.max()), np.exp(b - b.max())))
    deep = np.flatnonzero(possible & (out < np.log(_VALID)))
    out = np.where(possible, out + a.max() + b.max(), -np.inf)
    padded = np.pad(b, len(a) - 1, constant_values=-np.inf)
    terms = np.lib.stride_tricks.sliding_window_view(padded, len(a))
    for part in np.array_split(deep, 1 + len(deep) * len(a) // 2**20):
        out[part] = log_sum(terms[part] + a[::-1])
    return np.asarray(out)


Steps = Sequence[npt.NDArray[np.int64]]
"""For each record: how far each of its states moves the answer, in whole steps."""
Cell = Mapping[int, Sequence[int]]
Points = npt.NDArray[np.int64] | npt.NDArray[np.float64]

UNIT: Final = 2.0**-53


@dataclass(frozen=True, eq=False)
class RecordDistributions:
    """Distributions of the answer given the value of one record: one row each."""

    record: int
    """Position of the record, counted from 0."""
    states: tuple[int, ...]
    """The state that each row is given. Rows with one state are other models of the class (other starts)."""
    logs: Logs


class AnswerDistributions(Protocol):
    """Distributions of one answer under one model."""

    @property
    def points(self) -> Points:
        """The values of the answer, rising; one row each for an answer of several numbers."""

    @property
    def error(self) -> float:
        """A bound on the relative error of every mass."""

    def records(self) -> Iterator[RecordDistributions]:
        """The distributions given each possible value of each record."""

    def event(self, cells: Sequence[Cell]) -> Logs | None:
        """The distributions given that one of these conditions holds (no two do); None where none can."""


def normal(rows: Logs) -> Logs:
    """Each row scaled to a total of 1."""
    return np.asarray(rows - log_sum(rows)[..., None])


def inside(outcomes: npt.NDArray[np.int64], cells: Sequence[Cell]) -> npt.NDArray[np.bool_]:
    """In which outcomes (rows of state numbers) at least one of the conditions holds."""
    holds = np.zeros(len(outcomes), dtype=bool)
    for cell in cells:
        holds |= np.logical_and.reduce([np.isin(outcomes[:, i], list(states)) for i, states in cell.items()])
    return holds


class TableDistributions:
    """By enumeration of outcomes; the answer may be anything."""

    def __init__(self, model: RecordModel, answers: npt.NDArray[np.float64] | npt.NDArray[np.int64]) -> None:
        self.model = model
        self._rows, self._masses = model.outcomes()
        points, place = np.unique(answers, axis=0, return_inverse=True)
        whole = np.issubdtype(points.dtype, np.integer)
        self.points: Points = points.astype(np.int64) if whole else points.astype(np.float64)
        self._place = place.ravel()
        self.error = (4 * (len(self._masses) + len(model.records)) + 2000) * UNIT  # logarithms down to -745 among them

    def records(self) -> Iterator[RecordDistributions]:
        """The distributions given each possible value of each record."""
        for i in range(len(self.model.records)):
            states = [int(a) for a in np.unique(self._rows[:, i])]
            rows = np.array([self._given(self._rows[:, i] == a) for a in states])
            yield RecordDistributions(i, tuple(states), normal(rows))

    def event(self, cells: Sequence[Cell]) -> Logs | None:
        """The distributions given that one of these conditions holds."""
        holds = inside(self._rows, cells)
        return normal(self._given(holds)[None]) if holds.any() else None

    def _given(self, rows: npt.NDArray[np.bool_]) -> Logs:
        with np.errstate(divide="ignore"):
            return np.log(np.bincount(self._place[rows], self._masses[rows], minlength=len(self.points)))


class GroupDistributions:
    """Independent groups: the group's own number of ones given the secret, then all the others added.

    ``step`` is what a one adds more than a zero; where it is negative, the least answer is that of all ones.
    """

    def __init__(self, model: Groups, step: int) -> None:
        self.model, self.step = model, step
        self.points = np.arange(sum(model.group_sizes) + 1) * abs(step)
        with np.errstate(divide="ignore"):
            self._logs = [np.log(masses) for masses in model.positives]
        self._others: dict[bytes, Logs] = {}
        self.error = (len(self.points) + 8) * 4000 * UNIT  # logarithms of masses down to exp(-1000)

    def records(self) -> Iterator[RecordDistributions]:
        """The distributions given each possible value of each record, for one member of each type of group."""
        done: set[bytes] = set()
        for g, component in enumerate(self.model.components):
            if self._key(g) in done:
                continue
            done.add(self._key(g))
            rows = {a: self._joint({component[0]: (a,)}) for a in (0, 1)}
            possible = tuple(a for a, row in rows.items() if row is not None)
            yield RecordDistributions(component[0], possible, normal(np.array([rows[a] for a in possible])))

    def event(self, cells: Sequence[Cell]) -> Logs | None:
        """The distributions given that one of these conditions holds."""
        rows = [row for row in (self._joint(cell) for cell in cells) if row is not None]
        return normal(np.logaddexp.reduce(rows)[None]) if rows else None

    def _key(self, g: int) -> bytes:
        return self.model.positives[g].tobytes()

    def _joint(self, cell: Cell) -> Logs | None:
        """Log P(number of ones, condition)."""
        fixed = {i: states[0] for i, states in cell.items() if len(set(states)) == 1}
        touched = sorted({self.model.group_of(i) for i in fixed})
        joint = self._rest(touched)
        for g in touched:
            fixed_here = [x for i, x in fixed.items() if self.model.group_of(i) == g]
            with np.errstate(divide="ignore"):
                own = self._logs[g] + np.log(shares(self.model.group_sizes[g], len(fixed_here), sum(fixed_here)))
            if np.isneginf(own).all():
                return None
            joint = log_convolve(joint, own)
        return joint if self.step >= 0 else joint[::-1]

    def _rest(self, without: Sequence[int]) -> Logs:
        """The distribution of the number of ones in all groups but these."""
        key = b"|".join(sorted(self._key(g) for g in without))
        if key not in self._others:
            total = np.zeros(1)
            for g, logs in enumerate(self._logs):
                if g not in without:
                    total = log_convolve(total, logs)
            self._others[key] = total
        return self._others[key]


def pairs_of(given: RecordDistributions) -> tuple[list[int], list[int]]:
    """Rows to compare: every two with different states."""
    both = [
        (p, q) for p, q in itertools.combinations(range(len(given.states)), 2) if given.states[p] != given.states[q]
    ]
    return [p for p, _ in both], [q for _, q in both]
