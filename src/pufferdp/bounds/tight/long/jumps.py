"""Many steps of one kernel at once, with a proof that nothing changes its sign on the way."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Mask

_BENDS: Final = 1.001
"""Room for rounding where second differences bound a sequence."""
_MOST_GAINED: Final = 1e3
_KEPT: Final = 1024
"""Powers that are kept."""
_FEWEST_STEPS: Final = 32
_MOST_STEPS: Final = 1 << 12
"""Steps that are made at once."""
_CHANGES: Final = 0.2
"""What a chain may leave its state, and gain, within them."""


class Jumps:
    """Many steps of one kernel at once, where the questions stay the same in all of them.

    With questions S the vectors before each gain are a, aM, aM², … where M multiplies the rows of S by e^τ. They leave
    the chord from the first to the last by no more than their second differences allow (``bend``). Those are below
    c·g^j times a law that the kernel keeps, entry by entry, if they are below c times that law at first: M takes the
    law to no more than g = e^τ times itself. So signs that both ends of the chord keep by more than the bend are signs
    of all steps, and one product with a power of M is what the steps would have given.
    """

    def __init__(self, kernel: Floats, gain: float) -> None:
        self.kernel, self.gain = kernel, gain
        self._law = kept_law(kernel)
        self._found: dict[tuple[bytes, int], Floats] = {}

    @cached_property
    def longest(self) -> int:
        """Steps up to which the kernel changes little, a power of two; 0: there is no such law."""
        if self._law is None or self.gain**_FEWEST_STEPS > _MOST_GAINED:
            return 0
        leaves = float((1 - np.diagonal(self.kernel)).max()) + (self.gain - 1)
        steps = _FEWEST_STEPS
        while steps < _MOST_STEPS and 2 * steps * leaves <= _CHANGES:
            steps *= 2
        return steps

    def walk(self, vectors: Floats, steps: int) -> tuple[Floats, Floats]:
        """Vectors (G, 2, k) as they are before the gain of the last of some steps, and lines above signed ones.

        The lines, (2, G, k), go from the first step to the last; no signed vector between lies above.
        """
        last, lines, proved = self.made(vectors, steps)
        if proved.all():
            return last, lines
        left = np.flatnonzero(~proved)
        if steps <= _FEWEST_STEPS:
            last[left], lines[:, left] = self.step_by_step(vectors[left], steps)
            return last, lines
        middle, one = self.walk(vectors[left], steps // 2)
        last[left], two = self.walk(self.gained(middle), steps - steps // 2)
        lines[:, left] = np.maximum(one.max(axis=0), two.max(axis=0))
        return last, lines

    def every(self, vectors: Floats, steps: int) -> Floats:
        """All vectors before each gain, (G, 2, steps, k)."""
        first = vectors @ self.kernel
        asked = first[:, 0] > 0
        out = np.empty((*vectors.shape[:2], steps, vectors.shape[2]))
        for low, high in _runs(asked):
            powers = self._powers(asked[low], steps)
            out[low:high] = (first[low:high] @ powers).reshape(high - low, 2, steps, -1)
        left = np.flatnonzero(((out[:, 0] > 0) != asked[:, None]).any(axis=(1, 2)))
        if not len(left):
            return out
        if steps <= _FEWEST_STEPS:
            now = vectors[left]
            for j in range(steps):
                now = now @ self.kernel
                out[left, :, j] = now
                now = self.gained(now)
            return out
        out[left, :, : steps // 2] = one = self.every(vectors[left], steps // 2)
        out[left, :, steps // 2 :] = self.every(self.gained(one[:, :, -1]), steps - steps // 2)
        return out

    def gained(self, vectors: Floats) -> Floats:
        """Vectors after a gain."""
        return np.asarray(vectors * np.where(vectors[:, :1] > 0, self.gain, 1.0))

    def made(self, vectors: Floats, steps: int) -> tuple[Floats, Floats, Mask]:
        """As ``walk``, and which are proved: rows of which the questions change on the way are not."""
        assert self._law is not None
        first = vectors @ self.kernel
        asked = first[:, 0] > 0
        last, seconds = np.empty_like(first), np.empty_like(first[:, 0])
        for low, high in _runs(asked):
            np.matmul(first[low:high], self._power(asked[low], steps - 1), out=last[low:high])
            np.matmul(first[low:high, 0], self._second(asked[low]), out=seconds[low:high])
        bend = (np.abs(seconds) / self._law).max(axis=1, keepdims=True) * self._law
        bend *= _BENDS * self.gain**steps * steps**2 / 8
        lines = np.stack([first[:, 0], last[:, 0]])
        least = lines.min(axis=0) - bend
        lines += bend
        return last, lines, np.asarray((np.where(asked, -least, lines.max(axis=0)) <= 0).all(axis=1))

    def step_by_step(self, vectors: Floats, steps: int) -> tuple[Floats, Floats]:
        """The same of vectors whose questions change: the last, and the largest of all steps."""
        now = vectors @ self.kernel
        most = now[:, 0]
        for _ in range(steps - 1):
            now = self.gained(now) @ self.kernel
            most = np.maximum(most, now[:, 0])
        return now, most

    def _step(self, asked: Mask) -> Floats:
        return np.asarray(self.kernel * np.where(asked, self.gain, 1.0)[:, None])

    def _power(self, asked: Mask, steps: int) -> Floats:
        """M to the number of steps."""
        return self._kept((asked.tobytes(), steps), lambda: np.linalg.matrix_power(self._step(asked), steps))

    def _second(self, asked: Mask) -> Floats:
        """(M − 1)²."""
        less = self._step(asked) - np.eye(len(self.kernel))
        return self._kept((asked.tobytes(), -1), lambda: less @ less)

    def _powers(self, asked: Mask, steps: int) -> Floats:
        """M to the numbers of steps below one, side by side: (k, steps k)."""

        def made() -> Floats:
            k = len(self.kernel)
            out = np.eye(k)[None]
            while len(out) < steps:
                out = np.concatenate([out, out @ self._power(asked, len(out))])
            return np.ascontiguousarray(out[:steps].transpose(1, 0, 2)).reshape(k, -1)

        return self._kept((asked.tobytes(), -1 - steps), made)

    def _kept(self, key: tuple[bytes, int], made: Callable[[], Floats]) -> Floats:
        if key not in self._found:
            while len(self._found) >= _KEPT:
                del self._found[next(iter(self._found))]
            self._found[key] = made()
        return self._found[key]


def _runs(asked: Mask) -> Iterator[tuple[int, int]]:
    """Rows with the same questions: μ rise, so that they are neighbours."""
    cuts = np.flatnonzero((asked[1:] != asked[:-1]).any(axis=1)) + 1
    return itertools.pairwise((0, *cuts.tolist(), len(asked)))


def kept_law(kernel: Floats) -> Floats | None:
    """A law that the kernel keeps, up to rounding; None: not found."""
    law = np.linalg.matrix_power(kernel, 1 << 40).mean(axis=0)
    law = law / law.max()
    return law if (law > 0).all() and (law @ kernel <= law * (1 + 1e-9)).all() else None
