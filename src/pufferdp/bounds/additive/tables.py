"""Leakage of an answer plus Laplace noise to every adversary, by enumeration of a small model.

As in ``windows``, which treats series without enumeration, the largest ratio of two densities of the output is at a
possible answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np

from pufferdp.basics.errors import ModelError, NotApplicableError
from pufferdp.bounds.distributions.base import Logs, Steps
from pufferdp.models.base import RecordModel

MOST_CELLS: Final = 2**24
"""Sets of known values times possible answers: a family of ten has 4^10 · 11, and takes a second or two."""
ROUNDING: Final = 1e-12
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
        return best, adversary if best > ROUNDING else None

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
