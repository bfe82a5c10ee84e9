"""Exactly what an answer plus Laplace noise leaks, from the laws of the answer: by enumeration, or with nothing known.

Over a series and for an adversary who may know records, ``windows`` does it without enumeration.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.errors import ModelError, NotApplicableError
from pufferdp.leakage.laws import AnswerLaws, pairs_of
from pufferdp.leakage.logs import Logs
from pufferdp.models.records import Outcomes, RecordModel

Floats = npt.NDArray[np.float64]

MOST_RECORDS: Final = 10
"""Every set of known records is tried: 2^9 for each target."""
MOST_OUTCOMES: Final = 2**12


def smoothed(points: Floats, logs: Logs, tau: float) -> Logs:
    """Log-density of the output at every point, for noise of scale 1/tau; one row a law. Sums only, nothing cancels."""
    below, above = logs.copy(), np.full_like(logs, -np.inf)
    fall = tau * np.diff(points)
    for s in range(1, len(points)):
        below[:, s] = np.logaddexp(below[:, s], below[:, s - 1] - fall[s - 1])
    for s in range(len(points) - 2, -1, -1):
        above[:, s] = np.logaddexp(logs[:, s + 1], above[:, s + 1]) - fall[s]
    return np.asarray(np.logaddexp(below, above))


class NothingKnown:
    """The adversary who knows no record, over the laws of the answer given each value of each record."""

    def __init__(self, laws: AnswerLaws) -> None:
        self._points = np.asarray(laws.points, dtype=float)
        self._error, first, second, count = laws.error, [], [], 0
        rows = []
        for given in laws.records():
            p, q = pairs_of(given)
            first += [count + n for n in p]
            second += [count + n for n in q]
            rows.append(given.logs)
            count += len(given.logs)
        self._logs, self._first, self._second = np.concatenate(rows), first, second

    def at(self, tau: float) -> float:
        """The leakage when the noise has scale 1/tau steps."""
        if not self._first:
            return 0.0
        density = smoothed(self._points, self._logs, tau)
        return float(np.abs(density[self._first] - density[self._second]).max()) + 2 * self._error


class TableLeakage:
    """Every adversary of a small model: every target, every set of known records, every value they may have."""

    def __init__(self, model: RecordModel, answers: Callable[[Outcomes], npt.NDArray[np.int64]]) -> None:
        self._sizes = model.sizes
        if len(self._sizes) > MOST_RECORDS:  # before the outcomes are listed, which may be impossible
            raise NotApplicableError(
                f"every set of known records is tried, and {len(self._sizes)} records have too many; "
                f"the limit is {MOST_RECORDS}"
            )
        try:
            self._rows, self._law = model.outcomes()
        except ModelError as error:
            raise NotApplicableError(str(error), value=error.value) from None
        if len(self._law) > MOST_OUTCOMES:
            raise NotApplicableError(
                f"every set of known records is tried over {len(self._law):,} outcomes; the limit is {MOST_OUTCOMES:,}"
            )
        self._points, self._place = np.unique(answers(self._rows), return_inverse=True)

    def at(self, tau: float) -> float:
        """The leakage when the noise has scale 1/tau steps."""
        smooth = np.exp(-tau * np.abs(self._points[:, None] - self._points[None, :]))
        worst = 1.0
        others = range(len(self._sizes))
        for target in others:
            rest = [i for i in others if i != target]
            for known in itertools.chain.from_iterable(itertools.combinations(rest, n) for n in range(len(rest) + 1)):
                worst = max(worst, self._ratio(target, known, smooth))
        return math.log(worst)

    def _ratio(self, target: int, known: tuple[int, ...], smooth: Floats) -> float:
        """The largest ratio of two densities of the output, over what is known and the values of the target."""
        size = self._sizes[target]
        place = np.zeros(len(self._law), dtype=np.int64)
        for i in known:
            place = place * self._sizes[i] + self._rows[:, i]
        _, cell = np.unique(place, return_inverse=True)
        table = np.zeros((int(cell.max()) + 1, size, len(self._points)))
        np.add.at(table, (cell, self._rows[:, target], self._place), self._law)
        mass = table.sum(axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            density = (table @ smooth) / mass[..., None]
            worst = 1.0
            for x, y in itertools.permutations(range(size), 2):
                both = (mass[:, x] > 0) & (mass[:, y] > 0)
                if both.any():
                    worst = max(worst, float((density[both, x] / density[both, y]).max()))
        return worst
