"""Exactly what an answer plus Laplace noise leaks: with nothing known from its laws, otherwise by enumeration.

Over a series and for an adversary who may know records, ``windows`` does it without enumeration. As there, the largest
ratio of two densities of the output is reached at a possible answer.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import ModelError, NotApplicableError
from pufferdp.leakage.chains.sums import ChainLaws
from pufferdp.leakage.laws.base import AnswerLaws, Logs, Steps, pairs_of
from pufferdp.models.base import RecordModel

MOST_CELLS: Final = 2**24
"""What is known, times the possible answers: a family of ten has 4^10 · 11, and takes a second or two."""


_ROUNDING: Final = 1e-12
"""A log-ratio below this is what sums of logarithms lose: nobody learns anything."""


@dataclass(frozen=True)
class Learner:
    """Who learns most, and from what. Records and states are counted from 0."""

    record: int
    """The record whose value they want to know."""
    known: tuple[tuple[int, int], ...]
    """Records they know and their states. Unless nothing is known, records that are independent of these and of the
    target are known as well, whatever they are."""
    likelier: int
    """The state of the target that the output speaks for."""
    other: int
    """The state of the target that it speaks against."""
    output: float
    """The output they would like to see, in steps, without records that are known to them as independent."""


def smoothed(points: Floats, logs: Logs, dp_loss: float) -> Logs:
    """Log-density of the output at every point, for noise of scale 1/tau; one row a law. Sums only, nothing cancels."""
    below, above = logs.copy(), np.full_like(logs, -np.inf)
    fall = dp_loss * np.diff(points)
    for s in range(1, len(points)):
        below[:, s] = np.logaddexp(below[:, s], below[:, s - 1] - fall[s - 1])
    for s in range(len(points) - 2, -1, -1):
        above[:, s] = np.logaddexp(logs[:, s + 1], above[:, s + 1]) - fall[s]
    return np.asarray(np.logaddexp(below, above))


class NothingKnown:
    """The adversary who knows no record, over the laws of the answer given each value of each record."""

    def __init__(self, laws: AnswerLaws) -> None:
        self._points = np.asarray(laws.points, dtype=float)
        self._error, first, second = laws.error, [], []
        self._given: list[tuple[int, int]] = []
        rows = []
        for given in laws.records():
            p, q = pairs_of(given)
            first += [len(self._given) + n for n in p]
            second += [len(self._given) + n for n in q]
            rows.append(given.logs)
            self._given += [(given.record, state) for state in given.states]
        self._logs, self._first, self._second = np.concatenate(rows), first, second

    def at(self, dp_loss: float) -> float:
        """The leakage when the noise has scale 1/tau steps."""
        return self.worst(dp_loss)[0]

    def worst(self, dp_loss: float) -> tuple[float, Learner | None]:
        """The leakage, and the value of which record it is about; None where every output is equally likely."""
        if not self._first:
            return 0.0, None
        density = smoothed(self._points, self._logs, dp_loss)
        ratio = density[self._first] - density[self._second]
        pair, at = (int(n) for n in np.unravel_index(int(np.argmax(np.abs(ratio))), ratio.shape))
        log_ratio = float(ratio[pair, at])
        both = (self._given[self._first[pair]], self._given[self._second[pair]])
        (record, likelier), (_, other) = both if log_ratio > 0 else both[::-1]
        learner = Learner(record, (), likelier, other, float(self._points[at])) if abs(log_ratio) > _ROUNDING else None
        return abs(log_ratio) + 2 * self._error, learner


class AnyStartLeakage:
    """The same where the first record may have any law: one law of the first record for both values of the target.

    Given the law of the first record, P(y | x) is a mean over first states. Two of these give, with t their odds, a
    ratio (a + b·t)(g + h·t) / ((c + d·t)(e + f·t)), whose largest value lies at an end or where its derivative is 0:
    a quadratic equation. For two states that is every law. For more it is a lower end, and the upper end lets
    each value of the target have a law of its own.
    """

    def __init__(self, laws: ChainLaws) -> None:
        self._laws, self._free = laws, NothingKnown(laws)
        size = laws.chain.size
        self._points = np.asarray(laws.points, dtype=float)
        power, moves = np.eye(size), np.asarray(laws.chain.transition)
        self._records = []
        for given in laws.records():
            rows = given.logs.reshape(-1, given.logs.shape[1])
            # Rows come start by start, each with the states that it can lead to.
            table, place = np.full((size, size, rows.shape[1]), -np.inf), 0
            for start in range(size):
                for state in np.flatnonzero(power[start] > 0):
                    table[start, state], place = rows[place], place + 1
            self._records.append((given.record, power.copy(), table))
            power = power @ moves

    def worst(self, dp_loss: float) -> tuple[float, float, Learner | None]:
        """A bracket, and the value of which record its lower end is about."""
        upper, _ = self._free.worst(dp_loss)
        best, learner, size = 0.0, None, self._laws.chain.size
        for record, weights, logs in self._records:
            density = np.full_like(logs, -np.inf)
            for start in range(size):
                here = np.flatnonzero(weights[start] > 0)
                density[start, here] = smoothed(self._points, logs[start, here], dp_loss)
            for x, y in itertools.permutations(range(size), 2):
                for first in itertools.combinations_with_replacement(range(size), 2):
                    starts = list(dict.fromkeys(first))
                    ratio = _best_mixture(
                        weights[starts, x], density[starts, x], weights[starts, y], density[starts, y]
                    )
                    at = int(np.argmax(ratio))
                    if ratio[at] > best:
                        best, learner = float(ratio[at]), Learner(record, (), x, y, float(self._points[at]))
        best += 2 * self._laws.error if best else 0.0
        return (best, best if size == 2 else max(best, upper), learner)


def _best_mixture(p: Floats, top: Logs, q: Floats, bottom: Logs) -> Floats:
    """The largest log of (Σ π p e^top / Σ π p) / (Σ π q e^bottom / Σ π q) over laws π of one or two first states."""
    if not (p.any() and q.any()):
        return np.full(top.shape[1], -np.inf)
    peak = np.maximum(top.max(axis=0), bottom.max(axis=0))
    weight, other = p[:, None] * np.exp(top - peak), q[:, None] * np.exp(bottom - peak)
    # Next to 0 and to infinity, where a value of the target may be impossible for one first state; and one between.
    options = [np.full(top.shape[1], odds) for odds in (1e-100, 1.0, 1e100)]
    if len(p) == 2:
        # Of log (a+bt) + log (g+ht) − log (c+dt) − log (e+ft) the derivative is 0 where a polynomial is.
        a, b, c, d, g, h, e, f = weight[0], weight[1], p[0], p[1], q[0], q[1], other[0], other[1]
        up = (a * g, a * h + b * g, b * h)
        down = (c * e, c * f + d * e, d * f)
        flat = up[1] * down[0] - up[0] * down[1]
        linear = 2 * (up[2] * down[0] - up[0] * down[2])
        square = up[2] * down[1] - up[1] * down[2]
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(np.maximum(linear**2 - 4 * square * flat, 0.0))
            options += [(-linear + root) / (2 * square), (-linear - root) / (2 * square), -flat / linear]
    best = np.full(top.shape[1], -np.inf)
    for odds in options:
        odds = np.where(np.isfinite(odds) & (odds > 0), odds, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            law = np.stack([1 / (1 + odds), odds / (1 + odds)]) if len(p) == 2 else np.ones((1, top.shape[1]))
            masses = (law * p[:, None]).sum(axis=0), (law * q[:, None]).sum(axis=0)
            value = np.log((law * weight).sum(axis=0) / masses[0]) - np.log((law * other).sum(axis=0) / masses[1])
        best = np.maximum(best, np.where((masses[0] > 0) & (masses[1] > 0), value, -np.inf))
    return best


class TableLeakage:
    """Every adversary of a small model: every target, every set of known records, every value they may have.

    Records of other components only blur the answer. Who knows them all loses nothing, and is left with the component
    of the target; so the worst component decides.
    """

    def __init__(self, model: RecordModel, steps: Steps) -> None:
        parts: dict[object, _Component] = {}
        for records in model.components:
            part = _Component(model, records, steps)
            parts.setdefault(part.key, part)  # equal families are looked at once
        self._parts = tuple(parts.values())

    def at(self, dp_loss: float) -> float:
        """The leakage when the noise has scale 1/tau steps."""
        return self.worst(dp_loss)[0]

    def worst(self, dp_loss: float) -> tuple[float, Learner | None]:
        """The leakage and the adversary who reaches it; None where nothing leaks."""
        return max((part.worst(dp_loss) for part in self._parts), key=lambda leakage: leakage[0])


class _Component:
    """Records that may depend on each other, all their states written out."""

    def __init__(self, model: RecordModel, records: tuple[int, ...], steps: Steps) -> None:
        self._records = records
        cells = math.prod(1 + model.sizes[i] for i in records)  # a record is unknown, or in one of its states
        _refuse_many(cells, len(records))
        self._answers = reduce(np.add.outer, (steps[i] for i in records))
        self._points = np.unique(self._answers)
        self._moves = [int(np.ptp(steps[i])) for i in records]
        _refuse_many(cells * len(self._points), len(records))
        try:
            law = model.joint(records, {})
        except ModelError as error:  # more states than a table may have
            raise NotApplicableError(str(error), value=error.value) from None
        with np.errstate(divide="ignore"):
            self._law: Logs = np.log(law)
        self.key = (law.shape, law.tobytes(), self._answers.tobytes())

    def worst(self, dp_loss: float) -> tuple[float, Learner | None]:
        """The largest log-ratio of two densities of the output, and who sees it."""
        best, learner = 0.0, None
        noisy = self._law[..., None] - dp_loss * np.abs(self._points - self._answers[..., None])
        for shown, seen, law in _subsets(tuple(range(len(self._records))), noisy, self._law):
            # Group privacy: the target and the unknown records together move the answer no farther than this.
            moves = sum(self._moves) - sum(self._moves[i] for i in shown) + max(self._moves[i] for i in shown)
            if dp_loss * moves <= best:
                continue
            possible = np.isfinite(law)[..., None]
            with np.errstate(invalid="ignore"):
                density = seen - law[..., None]  # given what is known, and the target
            high, low = np.where(possible, density, -np.inf), np.where(possible, density, np.inf)
            for axis in range(len(shown)):
                # The target is one of the records shown, the others are known; over its values the ratio is largest
                # between the likeliest and the least likely.
                ratio = high.max(axis=axis) - low.min(axis=axis)
                if ratio.max() > best:
                    best, at = float(ratio.max()), np.unravel_index(int(np.argmax(ratio)), ratio.shape)
                    learner = self._learner(shown, axis, at, high, low)
        return best, learner if best > _ROUNDING else None

    def _learner(self, shown: tuple[int, ...], axis: int, at: tuple[np.intp, ...], high: Logs, low: Logs) -> Learner:
        *states, output = (int(n) for n in at)
        others = shown[:axis] + shown[axis + 1 :]
        return Learner(
            record=self._records[shown[axis]],
            known=tuple((self._records[i], x) for i, x in zip(others, states, strict=True)),
            likelier=int(np.argmax(np.moveaxis(high, axis, -1)[at])),
            other=int(np.argmin(np.moveaxis(low, axis, -1)[at])),
            output=float(self._points[output]),
        )


def _subsets(
    shown: tuple[int, ...], seen: Logs, law: Logs, least: int = 0
) -> Iterator[tuple[tuple[int, ...], Logs, Logs]]:
    """Every set of records, the others unknown: log P(records, output) and log P(records), one axis a record.

    The small sets come first, where most is unknown and most can leak. The whole set comes last.
    """
    if len(shown) > 1:
        for axis in range(least, len(shown)):  # those before were forgotten in other calls: no set comes twice
            less = [np.logaddexp.reduce(table, axis=axis) for table in (seen, law)]
            yield from _subsets(shown[:axis] + shown[axis + 1 :], less[0], less[1], axis)
    yield shown, seen, law


def _refuse_many(cells: int, records: int) -> None:
    if cells > MOST_CELLS:
        raise NotApplicableError(
            f"every set of known records is tried, and {records} dependent records have too many; "
            "the limit is about ten records of three states, or twelve of two"
        )
