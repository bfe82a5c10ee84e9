"""Numbers read off an output, in which an event is looked for.

Beside the output itself: its last digits and bits, where careless code leaves the exact answer; differences of
coordinates, from which reused noise drops out; the whole row, which repeats where noise is seeded; and for outputs of
many numbers the score of a linear classifier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.audit.mechanism import Outputs

Scores = npt.NDArray[np.float64]

DIGITS: Final = (0, 2, 4, 6, 8, 10)
"""Decimal places after which the rest is looked at."""
_COORDINATES: Final = 4
"""Coordinates looked at on their own: those whose means differ most."""
_RIDGE: Final = 1e-3
_TRAINED: Final = 20_000
"""Rows that a classifier learns from."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Feature:
    """One number for each output."""

    words: str
    """What it is, as the subject of a sentence."""
    kind: str = "coordinate"
    at: int = 0
    """A coordinate, or decimal places."""
    weights: Scores | None = None
    """Of a classifier: an intercept, the coordinates, and products of neighbouring ones."""
    atoms: bool = False
    """Only single values count, not their order."""
    spread: bool = True
    """Ranges of it are worth trying, and"""
    fine: bool = True
    """many of them."""

    def __call__(self, outputs: Outputs) -> Scores:
        """The number for each row."""
        if self.kind == "coordinate":
            return outputs[:, self.at]
        if self.kind == "sum":
            return np.asarray(outputs.sum(axis=1))
        if self.kind == "difference":
            return outputs[:, self.at] - outputs[:, self.at + 1]
        if self.kind == "digits":
            shifted = outputs[:, 0] * 10.0**self.at
            return np.asarray(shifted - np.round(shifted))
        bits = np.ascontiguousarray(outputs).view(np.int64)
        if self.kind == "bits":
            return (bits[:, 0] & 255).astype(float)
        if self.kind == "row":
            return _hashes(bits.view(np.uint64))
        assert self.weights is not None
        return np.asarray(expanded(outputs, len(self.weights)) @ self.weights)


def _hashes(bits: npt.NDArray[np.uint64]) -> Scores:
    """52 bits for each row, which rows that differ hardly ever share: multiplied and folded, number after number."""
    out = np.zeros(len(bits), dtype=np.uint64)
    for column in bits.T:
        out = (out ^ column) * np.uint64(0x9E3779B97F4A7C15)
        out ^= out >> np.uint64(29)
    return np.asarray(out >> np.uint64(12), dtype=float)


def expanded(outputs: Outputs, width: int) -> Outputs:
    """Coordinates and, where the classifier has weights for them, products of neighbouring ones."""
    return outputs if width == outputs.shape[1] else np.hstack([outputs, outputs[:, :-1] * outputs[:, 1:]])


def features(first: Outputs, second: Outputs) -> Iterator[Feature]:
    """What to look at in outputs like these: two samples, one for each value of the record."""
    d = first.shape[1]
    if d == 1:
        yield Feature(words="the output", atoms=True)
        for places in DIGITS:
            after = f"after {places} decimal places" if places else "after the point"
            yield Feature(words=f"what the output has {after}", kind="digits", at=places, fine=False)
        yield Feature(words="the number in the last eight bits of the output", kind="bits", atoms=True, spread=False)
        return
    gap = np.abs(first.mean(axis=0) - second.mean(axis=0))
    noise = first.std(axis=0) + second.std(axis=0)
    apart = np.divide(gap, noise, out=np.where(gap > 0, np.inf, 0.0), where=noise > 0)
    for j in np.argsort(-apart, kind="stable")[:_COORDINATES]:
        yield Feature(words=f"number {j + 1} of the output", at=int(j), atoms=True)
    yield Feature(words="the sum of the output", kind="sum")
    differences = np.abs(np.diff(first, axis=1).mean(axis=0) - np.diff(second, axis=1).mean(axis=0))
    for j in np.argsort(-differences, kind="stable")[:_COORDINATES]:
        words = f"number {j + 1} of the output less number {j + 2}"
        yield Feature(words=words, kind="difference", at=int(j), atoms=True)
    yield Feature(words="the output as a whole", kind="row", atoms=True, spread=False)
    yield Feature(words="the score of a linear classifier", kind="score", weights=discriminant(first, second))


def discriminant(first: Outputs, second: Outputs) -> Scores:
    """Fisher's linear discriminant, with products of neighbouring numbers where there are few; slightly shrunk."""
    d = first.shape[1]
    width = 2 * d - 1 if d <= 128 else d
    rows = [expanded(sample[:_TRAINED], width) for sample in (first, second)]
    within = sum(np.cov(part, rowvar=False) for part in rows)
    ridge = _RIDGE * float(np.trace(within)) / width + 1e-300
    gap = rows[0].mean(axis=0) - rows[1].mean(axis=0)
    return np.asarray(np.linalg.solve(within + ridge * np.eye(width), gap))
