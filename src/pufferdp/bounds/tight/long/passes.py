"""The signed vector of one pair of values, followed over many records at once.

As long as the signs do not change, many steps are one product with a power of the kernel (see ``steady``). Powers carry
a factor e^−loss for each step, so that no gain is too large for a double.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Mask

_FIRST: Final = 16
"""Steps that are made at once at first, and where questions change."""
BLOCK: Final = 256
"""And at most, where sides are not very long."""
DEEP_BLOCK: Final = 1024
DEEP: Final = 1 << 14
"""Sides of so many records hardly change their questions from one block to the next: larger ones pay."""
_TRIED: Final = 32
"""μ at which a side without end is tried at a time."""
_ROUNDS: Final = 60
SETTLED: Final = 1e-9
"""How well what lies farther away is bounded, as a share."""


@dataclass(frozen=True, eq=False)
class Passes:
    """One side of a target, outwards: one kernel, one loss for all records, no end."""

    kernel: Floats
    x: int
    y: int
    loss: float
    powers: dict[bytes, Floats] = field(default_factory=dict, repr=False)
    """Of the kernel, by the states that are asked for; they depend on the loss and on ``block``."""
    block: int = BLOCK
    """Steps that are made at once at most."""

    @property
    def size(self) -> int:
        """Number of states."""
        return len(self.kernel)

    def plain(self, depth: int) -> Floats:
        """Weights of x and y over the record at each distance, where nothing is asked: (2, depth, k)."""
        steps = [self.kernel]
        for _ in range(min(depth, self.block) - 1):
            steps.append(steps[-1] @ self.kernel)
        powers, out = np.stack(steps), np.empty((2, depth, self.size))
        now = np.zeros((2, self.size))
        now[0, self.x] = now[1, self.y] = 1.0
        for d in range(0, depth, self.block):
            part = powers[: depth - d]
            out[:, d : d + len(part)] = (now[:, None, None] @ part)[:, :, 0]
            now = out[:, d + len(part) - 1]
        return out

    def follow(self, logs: Floats, depth: int) -> Iterator[tuple[int, Floats, Floats]]:
        """Vectors at some log μ behind their gains: the distance before, (μ, steps, k), and logs of their scales."""
        size = np.maximum(logs, 0.0)
        vectors = np.zeros((len(logs), self.size))
        vectors[:, self.x] = np.exp(-size)
        vectors[:, self.y] -= np.exp(logs - size)
        done, steps, less = 0, _FIRST, math.exp(-self.loss)
        while done < depth:
            many = min(steps, depth - done)
            seen, changed = self._steps(vectors, many, less)
            after = np.where(seen > 0, seen, seen * less)
            sizes = size[:, None] + self.loss * np.arange(1, many + 1)
            yield done, after, sizes
            largest = np.abs(after[:, -1]).max(axis=1)
            largest[largest == 0] = 1.0
            vectors, size = after[:, -1] / largest[:, None], sizes[:, -1] + np.log(largest)
            done, steps = done + many, max(_FIRST, steps // 2) if changed else min(self.block, 2 * steps)

    def dead(self, logs: Floats, depth: int) -> Mask:
        """At which log μ no entry is positive at a distance: nor is any farther away."""
        last = np.zeros((len(logs), self.size))
        for _, after, _ in self.follow(logs, depth):
            last = after[:, -1]
        return np.asarray((last <= 0).all(axis=1))

    def _steps(self, vectors: Floats, many: int, less: float) -> tuple[Floats, bool]:
        """Vectors before each gain, (μ, steps, k), and whether any question changes."""
        k, asked = self.size, vectors @ self.kernel > 0
        seen = np.empty((len(vectors), many, k))
        patterns, which = np.unique(asked, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            rows = np.flatnonzero(which.ravel() == number)
            flat = self._power(pattern)[:, :many].reshape(k, -1)
            seen[rows] = (vectors[rows] @ flat).reshape(-1, many, k)
        changed = np.flatnonzero(((seen > 0) != asked[:, None]).any(axis=(1, 2)))
        now = vectors[changed]
        for j in range(many) if len(changed) else ():
            now = now @ self.kernel
            seen[changed, j] = now
            now = np.where(now > 0, now, now * less)
        return seen, bool(len(changed))

    def _power(self, asked: Mask) -> Floats:
        """(K D)^j K for j = 0, 1, …, where D divides the states that are not asked for by e^loss: (k, steps, k)."""
        key = asked.tobytes()
        if key not in self.powers:
            step = self.kernel * np.where(asked, 1.0, math.exp(-self.loss))
            out = [self.kernel]
            for _ in range(self.block - 1):
                out.append(step @ out[-1])
            self.powers[key] = np.stack(out, axis=1)
        return self.powers[key]


def beyond(passes: Passes, depth: int, most: float) -> float:
    """What a side of more records than so many adds at most.

    Where no entry is positive at μ, nothing farther away passes μ·z(y)/z(x), and z(y)/z(x) are mediants of those here.

    No side adds more than ``most``, which is infinite where that is not known.
    """
    x, y = passes.plain(depth)[:, -1]
    if ((y > 0) & (x <= 0)).any():
        return most
    said = float(np.log((y[x > 0] / x[x > 0]).max()))
    low, high = -said, min(most, passes.loss * depth) - said
    if not passes.dead(np.array([high]), depth)[0]:
        return most
    for _ in range(_ROUNDS):
        tried = np.linspace(low, high, _TRIED + 2)[1:-1]
        died = passes.dead(tried, depth)
        high = float(tried[died][0]) if died.any() else high
        low = max(low, float(tried[~died][-1])) if (~died).any() else low
        if high - low <= SETTLED * max(high + said, SETTLED):
            break
    return max(0.0, high + said)
