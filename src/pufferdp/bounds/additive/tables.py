"""Leakage of an answer plus Laplace noise, from distributions of the answer or by enumeration of a small model.

As in ``windows``, which treats series without enumeration, the largest ratio of two densities of the output is at a
possible answer.
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
from pufferdp.bounds.chains.starts import worst_start
from pufferdp.bounds.chains.sums import ChainSums
from pufferdp.bounds.distributions.base import AnswerDistributions, Logs, Steps, pairs_of
from pufferdp.models.base import RecordModel

MOST_CELLS: Final = 2**24
"""Sets of known values times possible answers: a family of ten has 4^10 · 11, and takes a second or two."""
_ROUNDING: Final = 1e-12
"""Log-ratios below this are rounding errors of sums of logarithms."""


@dataclass(frozen=True)
class RecordAdversary:
    """An adversary and the output with the largest likelihood ratio. Records and states are counted from 0."""

    record: int
    """The target: the record whose value the adversary wants to know."""
    known: tuple[tuple[int, int], ...]
    """Known records and their states. Unless it is empty, all records independent of these and of the target are known
    as well, whatever their values."""
    likelier: int
    """The state of the target that the output is evidence for."""
    other: int
    """The state of the target that the output is evidence against."""
    output: float
    """The output, in steps, without the known independent records."""


def smoothed(points: Floats, logs: Logs, dp_loss: float) -> Logs:
    """Log-densities of the output at every point, for noise of scale 1/dp_loss: two exponential filters."""
    below, above = logs.copy(), np.full_like(logs, -np.inf)
    fall = dp_loss * np.diff(points)
    for s in range(1, len(points)):
        below[:, s] = np.logaddexp(below[:, s], below[:, s - 1] - fall[s - 1])
    for s in range(len(points) - 2, -1, -1):
        above[:, s] = np.logaddexp(logs[:, s + 1], above[:, s + 1]) - fall[s]
    return np.asarray(np.logaddexp(below, above))


class NothingKnown:
    """The adversary who knows no record, from the distributions of the answer given each value of each record."""

    def __init__(self, answer: AnswerDistributions) -> None:
        self._points, self._error = np.asarray(answer.points, dtype=float), answer.error
        self._given: list[tuple[int, int]] = []
        rows, self._first, self._second = list[Logs](), list[int](), list[int]()
        for given in answer.records():
            p, q = pairs_of(given)
            self._first += [len(self._given) + n for n in p]
            self._second += [len(self._given) + n for n in q]
            rows.append(given.logs)
            self._given += [(given.record, state) for state in given.states]
        self._logs = np.concatenate(rows)

    def at(self, dp_loss: float) -> float:
        """The leakage when the noise has scale 1/dp_loss steps."""
        return self.worst(dp_loss)[0]

    def worst(self, dp_loss: float) -> tuple[float, RecordAdversary | None]:
        """The leakage and the adversary who reaches it; None where every output is equally likely."""
        if not self._first:
            return 0.0, None
        density = smoothed(self._points, self._logs, dp_loss)
        ratio = density[self._first] - density[self._second]
        pair, at = (int(n) for n in np.unravel_index(int(np.argmax(np.abs(ratio))), ratio.shape))
        log_ratio = float(ratio[pair, at])
        both = (self._given[self._first[pair]], self._given[self._second[pair]])
        (record, likelier), (_, other) = both if log_ratio > 0 else both[::-1]
        adversary = RecordAdversary(record, (), likelier, other, float(self._points[at]))
        return abs(log_ratio) + 2 * self._error, adversary if abs(log_ratio) > _ROUNDING else None


class AnyStartLeakage:
    """The adversary who knows no record of a chain whose first record may have any distribution.

    The first record has one distribution for both values of the target. The worst mixture of two first states is known
    (``worst_start``): every distribution where there are two states, and a lower bound where there are more. The upper
    bound then lets each value of the target have a distribution of its own.
    """

    def __init__(self, sums: ChainSums) -> None:
        self._sums, self._free = sums, NothingKnown(sums)
        size = sums.chain.size
        power, moves = np.eye(size), np.asarray(sums.chain.transition)
        self._records = []
        for given in sums.records():
            # Rows come start by start, each with the states that the start can lead to.
            logs = np.full((size, size, given.logs.shape[1]), -np.inf)
            logs[power > 0] = given.logs
            self._records.append((given.record, power.copy(), logs))
            power = power @ moves

    def worst(self, dp_loss: float) -> tuple[float, float, RecordAdversary | None]:
        """A bracket around the leakage, and the adversary who reaches its lower end."""
        upper, _ = self._free.worst(dp_loss)
        best, adversary, size = 0.0, None, self._sums.chain.size
        points = np.asarray(self._sums.points, dtype=float)
        for record, weights, logs in self._records:
            density = np.full_like(logs, -np.inf)
            density[weights > 0] = smoothed(points, logs[weights > 0], dp_loss)
            density = np.exp(density - density.max(axis=(0, 1)))  # [start, state, point], up to a factor for each point
            for first in itertools.combinations_with_replacement(range(size), 2):
                mass = np.broadcast_to(weights[list(first)].T, (len(points), size, 2))
                passed = mass * density[list(first)].transpose(2, 1, 0)
                for x, y in itertools.permutations(range(size), 2):
                    ratio = worst_start(passed[:, [x, y]], mass[:, [x, y]])
                    at = int(np.argmax(ratio))
                    if ratio[at] > best:
                        best, adversary = float(ratio[at]), RecordAdversary(record, (), x, y, float(points[at]))
        best += 2 * self._sums.error if best else 0.0
        return best, best if size == 2 else max(best, upper), adversary


class TableLeakage:
    """Every adversary of a small model: every target, every set of known records, every value they may have.

    Records of other components only blur the answer. An adversary who knows them all loses nothing and is left with the
    component of the target, so the worst component decides.
    """

    def __init__(self, model: RecordModel, steps: Steps) -> None:
        parts: dict[object, _Component] = {}
        for records in model.components:
            part = _Component(model, records, steps)
            parts.setdefault(part.key, part)  # equal families are examined once
        self._parts = tuple(parts.values())

    def at(self, dp_loss: float) -> float:
        """The leakage when the noise has scale 1/dp_loss steps."""
        return self.worst(dp_loss)[0]

    def worst(self, dp_loss: float) -> tuple[float, RecordAdversary | None]:
        """The leakage and the adversary who reaches it; None where nothing leaks."""
        return max((part.worst(dp_loss) for part in self._parts), key=lambda leakage: leakage[0])


class _Component:
    """The joint distribution of records that may depend on each other, as a table."""

    def __init__(self, model: RecordModel, records: tuple[int, ...], steps: Steps) -> None:
        self._records = records
        cells = math.prod(1 + model.sizes[i] for i in records)  # a record is unknown, or in one of its states
        _reject_many(cells, len(records))
        self._answers = reduce(np.add.outer, (steps[i] for i in records))
        self._points = np.unique(self._answers)
        self._moves = [int(np.ptp(steps[i])) for i in records]
        _reject_many(cells * len(self._points), len(records))
        try:
            joint = model.joint(records, {})
        except ModelError as error:  # more states than a table may have
            raise NotApplicableError(str(error), value=error.value) from None
        with np.errstate(divide="ignore"):
            self._joint: Logs = np.log(joint)
        self.key = (joint.shape, joint.tobytes(), self._answers.tobytes())

    def worst(self, dp_loss: float) -> tuple[float, RecordAdversary | None]:
        """The largest log-ratio of two densities of the output, and the adversary who reaches it."""
        best, adversary = 0.0, None
        noisy = self._joint[..., None] - dp_loss * np.abs(self._points - self._answers[..., None])
        for shown, seen, prior in _subsets(tuple(range(len(self._records))), noisy, self._joint):
            # Group privacy: the target and the unknown records together move the answer by at most ``moves``.
            moves = sum(self._moves) - sum(self._moves[i] for i in shown) + max(self._moves[i] for i in shown)
            if dp_loss * moves <= best:
                continue
            possible = np.isfinite(prior)[..., None]
            with np.errstate(invalid="ignore"):
                density = seen - prior[..., None]  # given what is known, and the target
            high, low = np.where(possible, density, -np.inf), np.where(possible, density, np.inf)
            for axis in range(len(shown)):
                # The target is one of the records shown, the others are known. The ratio is largest between the values
                # with the largest and the smallest density.
                ratio = high.max(axis=axis) - low.min(axis=axis)
                if ratio.max() > best:
                    best, at = float(ratio.max()), np.unravel_index(int(np.argmax(ratio)), ratio.shape)
                    adversary = self._describe(shown, axis, at, high, low)
        return best, adversary if best > _ROUNDING else None

    def _describe(
        self, shown: tuple[int, ...], axis: int, at: tuple[np.intp, ...], high: Logs, low: Logs
    ) -> RecordAdversary:
        *states, output = (int(n) for n in at)
        others = shown[:axis] + shown[axis + 1 :]
        return RecordAdversary(
            record=self._records[shown[axis]],
            known=tuple((self._records[i], x) for i, x in zip(others, states, strict=True)),
            likelier=int(np.argmax(np.moveaxis(high, axis, -1)[at])),
            other=int(np.argmin(np.moveaxis(low, axis, -1)[at])),
            output=float(self._points[output]),
        )


def _subsets(
    shown: tuple[int, ...], seen: Logs, prior: Logs, least: int = 0
) -> Iterator[tuple[tuple[int, ...], Logs, Logs]]:
    """Every set of records, the others unknown: log P(records, output) and log P(records), one axis a record.

    The small sets come first, where most is unknown and most can leak. The whole set comes last.
    """
    if len(shown) > 1:
        for axis in range(least, len(shown)):  # earlier records are summed out in other calls: no set comes twice
            less = [np.logaddexp.reduce(table, axis=axis) for table in (seen, prior)]
            yield from _subsets(shown[:axis] + shown[axis + 1 :], less[0], less[1], axis)
    yield shown, seen, prior


def _reject_many(cells: int, records: int) -> None:
    if cells > MOST_CELLS:
        raise NotApplicableError(
            f"every set of known records is tried, and {records} dependent records have too many; "
            "the limit is about ten records of three states, or twelve of two"
        )
