"""The law of an answer given a secret, one way of computing it for each kind of model, behind one interface."""

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
_MOST_TILTS: Final = 8


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
    """Log of the convolution of two laws.

    Multiplying both by exp(t·place) multiplies the result by the same, so a few tilts bring every place in turn into
    the range of doubles. What no tilt reaches is summed in logarithms.
    """
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    possible = np.convolve(np.isfinite(a).astype(float), np.isfinite(b).astype(float)) > 0.5
    out = np.full(len(possible), -np.inf)
    missing, tilt = possible.copy(), 0.0
    for _ in range(_MOST_TILTS):
        if not missing.any():
            return out
        tilted = _tilted(a, b, tilt)
        take = missing & (tilted > np.log(_VALID))
        out[take] = tilted[take] - tilt * np.flatnonzero(take) + _offset(a, b, tilt)
        missing &= ~take
        if missing.any():
            tilt = _tilt_for(a, b, int(np.flatnonzero(missing)[np.count_nonzero(missing) // 2]))
    for place in np.flatnonzero(missing).tolist():
        u = np.arange(max(0, place - len(b) + 1), min(len(a), place + 1))
        out[place] = log_sum(a[u] + b[place - u])
    return out


def _tilted(a: Logs, b: Logs, tilt: float) -> Logs:
    """Log of the convolution of both tilted laws, each scaled to a largest mass of 1."""
    x, y = a + tilt * np.arange(len(a)), b + tilt * np.arange(len(b))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.convolve(np.exp(x - x.max()), np.exp(y - y.max()))))


def _offset(a: Logs, b: Logs, tilt: float) -> float:
    return float((a + tilt * np.arange(len(a))).max() + (b + tilt * np.arange(len(b))).max())


def _tilt_for(a: Logs, b: Logs, place: int) -> float:
    """A tilt under which the masses that meet at ``place`` are among the largest."""
    u = np.arange(max(0, place - len(b) + 1), min(len(a), place + 1))
    best = int(u[np.argmax(a[u] + b[place - u])])
    slopes = [_slope(a, best), _slope(b, place - best)]
    known = [s for s in slopes if np.isfinite(s)]
    return -float(np.mean(known)) if known else 0.0


def _slope(logs: Logs, at: int) -> float:
    """The slope of a law at a possible place, from its nearest possible neighbours."""
    places = np.flatnonzero(np.isfinite(logs))
    n = int(np.searchsorted(places, at))
    low, high = places[max(0, n - 1)], places[min(len(places) - 1, n + 1)]
    return float((logs[high] - logs[low]) / (high - low)) if high > low else np.nan


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
        laws = [row for row in (self._law(cell) for cell in cells) if row is not None]
        return normal(np.logaddexp.reduce(laws)[None]) if laws else None

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
