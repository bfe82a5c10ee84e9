"""One side of a private record, going away from it: what each outcome there says about the private record.

Each record is replaced by a mark with a probability that depends on its own value only. Carry
    f(x, v) = P(everything nearer is redacted, X_t = v | X_p = x).
The outcome "the first release is at t, with value v" has the ratio f(x, v)/f(x', v), because what follows depends on
X_p only through X_t; "nothing is released" has the ratio of the row sums. So the largest log-ratio of a side takes
linear time, and the two sides are independent given X_p: their largest log-ratios add, for each pair (x, x').

An adversary may know a record at distance b on that side. Whatever lies beyond it then says nothing about X_p, and each
outcome before it is divided by the influence of the known value, log P^b(x, w)/P^b(x', w), which no design changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Mask, Matrix

ANY: Final = -1
"""The adversary may know any record of the side, or none."""

Outcomes = tuple[Matrix, Matrix | None, Mask | None]
"""f of outcomes (…, x, value), what a known record adds (x, x', value), and which values can be seen (…, value)."""


@dataclass(frozen=True, eq=False)
class RedactionSide:
    """The records on one side of a private record."""

    kernel: Matrix
    """Distribution of the next record away from the private one: the chain to the right, its reversal to the left."""
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

    def worst(self, marks: Matrix, redacted: int = 0) -> Matrix:
        """The largest log-ratio over all outcomes of the side, for each pair (x, x').

        Args:
            marks: redaction probabilities of records going away, one row a record, one column a value; records beyond
                are always released. Leading axes are designs to look at together.
            redacted: how many nearer records, before those of ``marks``, are always redacted.
        """
        worst = np.zeros((*marks.shape[:-2], self.size, self.size))  # some outcome is always at 0 or above
        for joint, offset, visible in self._outcomes(marks, redacted):
            ratio = _shifted(log_ratios(joint), offset)
            if visible is not None:
                ratio = np.where(visible[..., None, None, :], ratio, -np.inf)
            worst = np.maximum(worst, ratio.max(axis=-1))
        return worst

    def ratios(self, designs: Matrix) -> Matrix:
        """The log-ratio of every outcome that is visible in the first design: axes design, x, x' and outcome."""
        parts = [np.zeros((len(designs), self.size, self.size, 1))]
        for joint, offset, visible in self._outcomes(designs, 0):
            ratio = _shifted(log_ratios(joint), offset)
            parts.append(ratio if visible is None else ratio[..., visible[0]])
        return np.concatenate(parts, axis=-1)

    def _outcomes(self, marks: Matrix, redacted: int) -> Iterator[Outcomes]:
        """Every outcome of the side, those at one distance together."""
        if self.records == 0 or self.known == 1:
            return
        sure = (marks == 1).all(axis=(*range(marks.ndim - 2), -1))
        # While everything is redacted nothing was learned, so f is a power of the kernel.
        first = redacted + (len(sure) if sure.all() else int(np.argmin(sure))) + 1
        first = min(first, self.known) if self.known and self.known > 0 else first
        joint = np.broadcast_to(self.power(first), (*marks.shape[:-2], self.size, self.size))
        for t in range(first, self.records + 1):
            if t == self.known:
                yield joint, _known_influence(self.kernel.tobytes(), self.size, t), None
                return
            inside = t <= redacted + len(sure)
            row = marks[..., t - redacted - 1, :] if inside else np.zeros((*marks.shape[:-2], self.size))
            yield joint, self._beyond(t), row < 1
            if self.known == ANY:
                yield joint, _known_influence(self.kernel.tobytes(), self.size, t), None
            if not inside:
                return
            joint = (joint * row[..., None, :]) @ self.kernel
            # A common factor leaves every ratio as it is and keeps long products from vanishing.
            top = joint.max(axis=(-1, -2), keepdims=True)
            joint = joint / np.where(top > 0, top, 1.0)
        yield joint.sum(axis=-1, keepdims=True), None, None

    def _beyond(self, distance: int) -> Matrix | None:
        """The worst that a known record beyond this distance adds to a release here: (x, x', value); None for 0."""
        if self.known is None:
            return None
        kernel = self.kernel.tobytes()
        if self.known != ANY:
            return _influence_beyond(kernel, self.size, distance, self.known, self.known, -np.inf)
        # P^b takes its final pattern of zeros within so many steps (Wielandt); after that influence only falls.
        last = min(self.records, distance + self.size**2 + self.size)
        return _influence_beyond(kernel, self.size, distance, distance + 1, last, 0.0)


@lru_cache(maxsize=4096)
def _influence_beyond(kernel: bytes, size: int, distance: int, first: int, last: int, least: float) -> Matrix:
    """The most that a known record at one of these distances adds to each value seen nearer: (x, x', value)."""
    moves = np.frombuffer(kernel).reshape(size, size) > 0
    out = np.full((size, size, size), least)
    reachable = np.linalg.matrix_power(moves, first - distance)
    for b in range(first, last + 1):
        known = _known_influence(kernel, size, b)
        for u in range(size):
            out[:, :, u] = np.maximum(out[:, :, u], known[:, :, reachable[u]].max(axis=-1, initial=-np.inf))
        reachable = reachable @ moves
    out.flags.writeable = False
    return out


@lru_cache(maxsize=4096)
def _known_influence(kernel: bytes, size: int, distance: int) -> Matrix:
    """The ratio log P^b(x', w)/P^b(x, w), or minus infinity where the known value rules one of the two out."""
    ratios = log_ratios(np.linalg.matrix_power(np.frombuffer(kernel).reshape(size, size), distance)).swapaxes(0, 1)
    return np.where(np.isfinite(ratios), ratios, -np.inf)


def log_ratios(joint: Matrix) -> Matrix:
    """The ratio log f(x, v)/f(x', v), on axes x, x', v; nan where both are 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(joint)
        return np.asarray(logs[..., :, None, :] - logs[..., None, :, :])


def _shifted(ratio: Matrix, offset: Matrix | None) -> Matrix:
    """Ratios with what a known record adds; minus infinity where an outcome is impossible either way."""
    if offset is not None:
        with np.errstate(invalid="ignore"):
            ratio = ratio + offset
    return np.where(np.isnan(ratio), -np.inf, ratio)
