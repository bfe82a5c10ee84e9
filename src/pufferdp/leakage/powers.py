"""Powers of a transition matrix, each computed once, in logarithms, with their supports and a bound on their rounding.

Products of non-negative matrices lose no relative accuracy to cancellation: every entry of P^n is right up to a factor
(1+u)^(n·(k+1)), u = 2^-53. Where an entry would underflow, that product is taken in logarithms instead, so a reachable
state never looks unreachable.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pufferdp.models.markov import Mask, Matrix

UNIT: Final = 2.0**-53
_TINY: Final = 1e-280
_MEMORY: Final = 256 * 2**20


def product(rows: Matrix, matrix: Matrix) -> Matrix:
    """The product of rows and a matrix, a few rows at a time.

    Large products wake the BLAS's threads, and on a busy machine waiting for them costs more than they save.
    """
    step = max(1, 250_000 // matrix.size)
    if len(rows) <= step:
        return np.asarray(rows @ matrix)
    return np.concatenate([rows[s : s + step] @ matrix for s in range(0, len(rows), step)])


class Powers:
    """P, P^2, … of one transition matrix, made on demand."""

    def __init__(self, transition: Matrix) -> None:
        self.size = len(transition)
        self._positive = bool((transition > 0).all())
        self._linear: dict[int, Matrix] = {0: np.eye(self.size), 1: transition}
        self._support: dict[int, Mask] = {0: np.eye(self.size, dtype=bool), 1: transition > 0}
        self._log: dict[int, Matrix] = {}
        self._keep = max(64, _MEMORY // (24 * self.size**2))
        self._deep: set[int] = set()  # powers that exist in logarithms only

    def log(self, n: int) -> Matrix:
        """Log P^n, entry by entry; -inf exactly where the state cannot be reached in n steps."""
        self._ready(n)
        return self._logs(n)

    def _logs(self, n: int) -> Matrix:
        if n not in self._log:
            with np.errstate(divide="ignore"):
                self._log[n] = np.log(self._linear[n])
        return self._log[n]

    def linear(self, n: int) -> Matrix | None:
        """P^n itself, or None where it has entries too small for a double."""
        self._ready(n)
        return self._linear.get(n)

    def log_table(self, count: int) -> Matrix | None:
        """Log P^1 … log P^count in one array, or None where an entry is too small for a double."""
        table, reach = self._linear[1][None], self._support[1][None]
        while len(table) < count:
            table = np.concatenate([table, table @ table[-1]])
            if not self._positive:
                reach = np.concatenate([reach, (reach.astype(float) @ reach[-1].astype(float)) > 0.5])
        smallest = table.min() if self._positive else table[reach].min(initial=np.inf)
        if smallest < _TINY:
            return None
        with np.errstate(divide="ignore"):
            return np.log(table[:count])

    def positive(self, n: int) -> bool:
        """Whether every state can be reached from every state in exactly n steps."""
        return self._positive or bool(self.support(n).all())

    def support(self, n: int) -> Mask:
        """Which states can be reached from which in exactly n steps."""
        if self._positive and n >= 1:
            return self._support[1]
        self._ready(n)
        return self._support[n]

    def slack(self, n: int) -> float:
        """An upper bound on the rounding error of a difference of two entries of ``log(n)``."""
        extra = 0.0 if not self._deep else 800.0 * UNIT * (n + 1)
        return 2.0 * ((n + 1) * (self.size + 2) * UNIT + extra) + 4 * UNIT

    def _ready(self, n: int) -> None:
        """Make P^n. Room is made before, never while a product still needs its factors."""
        if n not in self._linear and len(self._linear) > self._keep:
            self._forget()
        self._make(n)

    def _make(self, n: int) -> None:
        if n in self._linear or n in self._deep:
            return
        below = 1 << (n.bit_length() - 1)
        if below == n:  # n is a power of two: square the half
            self._make(n // 2)
            self._multiply(n // 2, n // 2)
            return
        # Walk up from the largest power of two; a neighbour that is there already saves the walk.
        near = max(self._near(n), default=below)
        self._make(near)
        self._make(n - near)
        self._multiply(near, n - near)

    def _near(self, n: int) -> list[int]:
        steps = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
        return [n - s for s in steps if n - s > 1 and (n - s in self._linear or n - s in self._deep)]

    def _multiply(self, m: int, n: int) -> None:
        total = m + n
        if not self._positive:
            # float64 products run in the BLAS and count paths exactly enough to tell 0 from 1.
            self._support[total] = (self._support[m].astype(float) @ self._support[n].astype(float)) > 0.5
        if m not in self._deep and n not in self._deep:
            power = self._linear[m] @ self._linear[n]
            reachable = power if self._positive else power[self._support[total]]
            if reachable.size == 0 or reachable.min() > _TINY:
                self._linear[total] = power
                return
        self._log[total] = _log_multiply(self._logs(m), self._logs(n))
        self._deep.add(total)

    def _forget(self) -> None:
        for n in [n for n in self._linear if n & (n - 1)]:
            self._linear.pop(n)
            self._log.pop(n, None)
            if not self._positive:
                self._support.pop(n)


def _log_multiply(a: Matrix, b: Matrix) -> Matrix:
    out = np.empty_like(a)
    with np.errstate(divide="ignore", invalid="ignore"):
        for x in range(len(a)):
            terms = a[x][:, None] + b
            top = terms.max(axis=0)
            shift = np.where(np.isfinite(top), top, 0.0)
            out[x] = np.log(np.exp(terms - shift).sum(axis=0)) + shift
    return out
