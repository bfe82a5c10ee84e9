"""One side of a private record, going away from it: what each outcome there says about the private record.

Each record is replaced by a mark with a probability that depends on its own value only. Carry
    f(x, v) = P(everything nearer is redacted, X_t = v | X_p = x).
The outcome "the first release is at t, with value v" has the ratio f(x, v)/f(x', v), because what follows depends on
X_p only through X_t; "nothing is released" has the ratio of the row sums. So the largest log-ratio of a side takes
linear time, and the two sides are independent given X_p: their largest log-ratios add, for each pair (x, x').

Someone may know a record at distance b on that side. Whatever lies beyond it then says nothing about X_p, and each
outcome before it is divided by the influence of the known value, log P^b(x, w)/P^b(x', w), which no design changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Mask, Matrix

ANY: Final = -1
"""The adversary may know any record of the side, or none."""


@dataclass(frozen=True, eq=False)
class RedactionSide:
    """The records on one side of a private record."""

    kernel: Matrix
    """Law of the next record away from the private one: the chain to the right, its reversal to the left."""
    records: int
    """How many records the side has."""
    known: int | None = None
    """Distance of the nearest record that the adversary knows, None for none, ``ANY`` for whichever is worst."""

    @property
    def size(self) -> int:
        """How many values a record can have."""
        return len(self.kernel)

    def power(self, distance: int) -> Matrix:
        """P(value at this distance | X_p)."""
        return np.asarray(np.linalg.matrix_power(self.kernel, distance), dtype=float)

    @property
    def comparable(self) -> Mask:
        """Which pairs (x, x') of the private record some value of the known record goes with; all where none is."""
        if self.known is None or self.known == ANY or self.records == 0:
            return np.ones((self.size, self.size), dtype=bool)
        possible = self.power(self.known) > 0
        return np.asarray(possible @ possible.T, dtype=bool)

    def influences(self, distances: int) -> Matrix:
        """The ratio log P(X_t = v | x)/P(X_t = v | x') at each distance from 1: axes distance, x, x' and v."""
        law, out = self.kernel, []
        for _ in range(distances):
            out.append(log_ratios(law))
            law = law @ self.kernel
        return np.array(out).reshape(distances, self.size, self.size, self.size)

    def worst(self, marks: Matrix) -> Matrix:
        """The largest log-ratio over all outcomes of the side, for each pair (x, x').

        Args:
            marks: redaction probabilities at distances 1, 2, …, one row a record, one column a value; records beyond
                are always released. Leading axes are designs to look at together.
        """
        worst = np.zeros((*marks.shape[:-2], self.size, self.size))  # some outcome is always at 0 or above
        if self.records == 0 or self.known == 1:
            return worst
        end, first = self._reach(marks)
        law = np.broadcast_to(self.power(first), worst.shape)
        for t in range(first, end + 1):
            if t == self.known:
                return np.maximum(worst, _pairs(law, self._influence_known(t)))
            row = marks[..., t - 1, :]
            worst = np.maximum(worst, _pairs(law, self.after(t), row < 1))
            if self.known == ANY:
                worst = np.maximum(worst, _pairs(law, self._influence_known(t)))
            law = (law * row[..., None, :]) @ self.kernel
            # A common factor leaves every ratio as it is and keeps long products from vanishing.
            top = law.max(axis=(-1, -2), keepdims=True)
            law = law / np.where(top > 0, top, 1.0)
        if end < self.records:
            if end + 1 == self.known or self.known == ANY:
                worst = np.maximum(worst, _pairs(law, self._influence_known(end + 1)))
            if end + 1 != self.known:
                worst = np.maximum(worst, _pairs(law, self.after(end + 1)))
            return worst
        return np.maximum(worst, _pairs(law.sum(axis=-1, keepdims=True), None))

    def gradients(self, marks: Matrix, free: Mask) -> tuple[Matrix, Matrix]:
        """Every outcome's log-ratio (outcome, x, x') and the gradient of its log f (outcome, x, variable).

        Args:
            marks: as in ``worst``, one design.
            free: which entries of ``marks`` are variables; they are numbered row by row.
        """
        k, count = self.size, int(free.sum())
        values: list[Matrix] = []
        slopes: list[Matrix] = []

        def note(law: Matrix, change: Matrix, offset: Matrix | None, columns: Mask) -> None:
            ratio = shifted(log_ratios(law), offset)
            with np.errstate(divide="ignore", invalid="ignore"):
                slope = np.where(law > 0, change / law, 0.0)
            values.extend(np.moveaxis(ratio, -1, 0)[columns])
            slopes.extend(np.moveaxis(slope, -1, 0)[columns].transpose(0, 2, 1))

        every = np.ones(k, dtype=bool)
        if self.records and self.known != 1:
            end, first = self._reach(marks)
            law, done = self.power(first), int(free[: first - 1].sum())
            change = np.zeros((count, k, k))
            for t in range(first, end + 1):
                if t == self.known:
                    note(law, change, self._influence_known(t), every)
                    break
                row = marks[t - 1]
                note(law, change, self.after(t), row < 1)
                if self.known == ANY:
                    note(law, change, self._influence_known(t), every)
                change[:done] = (change[:done] * row) @ self.kernel
                for v in np.flatnonzero(free[t - 1]):
                    change[done] = np.outer(law[:, v], self.kernel[v])
                    done += 1
                law = (law * row) @ self.kernel
                top = law.max() or 1.0
                law, change = law / top, change / top
            else:
                if end < self.records:
                    if end + 1 == self.known or self.known == ANY:
                        note(law, change, self._influence_known(end + 1), every)
                    if end + 1 != self.known:
                        note(law, change, self.after(end + 1), every)
                else:
                    note(law.sum(-1, keepdims=True), change.sum(-1, keepdims=True), None, every[:1])
        if not values:
            return np.zeros((1, k, k)), np.zeros((1, k, count))
        return np.array(values), np.array(slopes)

    def _reach(self, marks: Matrix) -> tuple[int, int]:
        """How many records are looked at, and the first of them that is not surely redacted."""
        end = min(marks.shape[-2], self.records)
        if end == 0:
            return 0, 1
        sure = (marks[..., :end, :] == 1).reshape(-1, end, self.size).all(axis=(0, 2))
        first = end if sure.all() else int(np.argmin(sure)) + 1
        # Up to there nothing was learned, and a known record that is met on the way says all that can be said.
        return end, max(1, min(first, self.known) if self.known and self.known > 0 else first)

    def _influence_known(self, distance: int) -> Matrix:
        """What a known record at this distance had said already, with its sign turned: (x, x', value)."""
        return known_influence(self.size, self.kernel.tobytes(), distance)

    def after(self, distance: int) -> Matrix | None:
        """The worst that a known record beyond this distance adds to a release here: (x, x', value); None for 0."""
        if self.known is None:
            return None
        if self.known != ANY:
            return beyond_influence(self.size, self.kernel.tobytes(), distance, self.known, self.known, -np.inf)
        # P^b takes its final pattern of zeros within so many steps (Wielandt); after that influence only falls.
        last = min(self.records, distance + self.size**2 + self.size)
        return beyond_influence(self.size, self.kernel.tobytes(), distance, distance + 1, last, 0.0)


@lru_cache(maxsize=4096)
def beyond_influence(size: int, kernel: bytes, distance: int, first: int, last: int, least: float) -> Matrix:
    """The most that a known record at one of these distances adds to each value seen nearer: (x, x', value)."""
    steps = np.frombuffer(kernel).reshape(size, size) > 0
    out = np.full((size, size, size), least)
    reach, done = np.eye(size, dtype=bool), 0
    for b in range(first, last + 1):
        while done < b - distance:
            reach, done = reach @ steps, done + 1
        known = known_influence(size, kernel, b)
        for u in range(size):
            out[:, :, u] = np.maximum(out[:, :, u], known[:, :, reach[u]].max(axis=-1, initial=-np.inf))
    out.flags.writeable = False
    return out


@lru_cache(maxsize=4096)
def known_influence(size: int, kernel: bytes, distance: int) -> Matrix:
    """The ratio log P^b(x', w)/P^b(x, w), or minus infinity where the known value rules one of the two out."""
    law = np.linalg.matrix_power(np.frombuffer(kernel).reshape(size, size), distance)
    with np.errstate(divide="ignore"):
        logs = np.log(law)
    with np.errstate(invalid="ignore"):
        out = logs[None, :, :] - logs[:, None, :]
    return np.where(np.isfinite(out), out, -np.inf)


def log_ratios(law: Matrix) -> Matrix:
    """The ratio log f(x, v)/f(x', v), on axes x, x', v; nan where both are 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(law)
        return np.asarray(logs[..., :, None, :] - logs[..., None, :, :])


def shifted(ratio: Matrix, offset: Matrix | None) -> Matrix:
    """Ratios with what a known record adds; minus infinity where an outcome is impossible either way."""
    if offset is not None:
        with np.errstate(invalid="ignore"):
            ratio = ratio + offset
    return np.where(np.isnan(ratio), -np.inf, ratio)


def _pairs(law: Matrix, offset: Matrix | None, which: Mask | None = None) -> Matrix:
    """The largest log-ratio over the values that can be seen; an outcome that is impossible either way is skipped."""
    ratio = shifted(log_ratios(law), offset)
    if which is not None:
        ratio = np.where(which[..., None, None, :], ratio, -np.inf)
    return np.asarray(ratio.max(axis=-1))
