"""Powers of a transition matrix, each computed once, in logarithms, with their supports and a bound on their rounding.

Products of non-negative matrices lose no relative accuracy to cancellation: every entry of P^n is right up to a factor
(1+u)^(n·(k+1)), u = 2^-53. Where an entry would underflow, that product is taken in logarithms instead, so a reachable
state never looks unreachable.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask, Matrix
from pufferdp.models.chain import MarkovChain

UNIT: Final = 2.0**-53
_TINY: Final = 1e-280
_MEMORY: Final = 256 * 2**20


class Powers:
    """P, P^2, … of one transition matrix, made when needed."""

    def __init__(self, transition: Matrix) -> None:
        self.size = len(transition)
        self._positive = bool((transition > 0).all())
        self._linear: dict[int, Matrix] = {0: np.eye(self.size), 1: transition}
        self._support: dict[int, Mask] = {0: np.eye(self.size, dtype=bool), 1: transition > 0}
        self._log: dict[int, Matrix] = {}
        self._keep = max(64, _MEMORY // (24 * self.size**2))
        self._underflows = False  # whether some powers exist in logarithms only

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
        extra = 800.0 * UNIT * (n + 1) if self._underflows else 0.0
        return 2.0 * ((n + 1) * (self.size + 2) * UNIT + extra) + 4 * UNIT

    def _ready(self, n: int) -> None:
        """Make P^n. Room is made before, never while a product still needs its factors."""
        if len(self._linear) + len(self._log) > 2 * self._keep:
            for kept in (self._linear, self._log, self._support):
                for m in [m for m in kept if m > 1]:
                    del kept[m]
        self._make(n)

    def _make(self, n: int) -> None:
        """P^n from its two halves. Powers in a row take one product each, a distant one about 2·log2(n)."""
        if n not in self._linear and n not in self._log:
            self._make(n // 2)
            self._make(n - n // 2)
            self._multiply(n // 2, n - n // 2)

    def _multiply(self, m: int, n: int) -> None:
        total = m + n
        if not self._positive:
            # float64 products run in the BLAS and count paths exactly enough to tell 0 from 1.
            self._support[total] = (self._support[m].astype(float) @ self._support[n].astype(float)) > 0.5
        if m in self._linear and n in self._linear:
            power = self._linear[m] @ self._linear[n]
            reachable = power if self._positive else power[self._support[total]]
            if reachable.size == 0 or reachable.min() > _TINY:
                self._linear[total] = power
                return
        self._log[total] = _log_multiply(self._logs(m), self._logs(n))
        self._underflows = True


def _log_multiply(a: Matrix, b: Matrix) -> Matrix:
    """Log of the product of exp(a) and exp(b), row by row."""
    out = np.empty_like(a)
    with np.errstate(divide="ignore", invalid="ignore"):
        for x in range(len(a)):
            terms = a[x][:, None] + b
            top = terms.max(axis=0)
            shift = np.where(np.isfinite(top), top, 0.0)
            out[x] = np.log(np.exp(terms - shift).sum(axis=0)) + shift
    return out


def largest_ratios(logs: Matrix) -> Floats:
    """Max over rows r of logs[r,x] − logs[r,x'], flat over (x,x')."""
    with np.errstate(invalid="ignore"):  # inf − inf: a row that says nothing about either value, skipped by fmax
        gaps = (np.fmax.reduce(logs[:, x, None] - logs, axis=0, initial=-np.inf) for x in range(logs.shape[1]))
        return np.concatenate(list(gaps))


class Ratios:
    """The ratios of a chain's powers in both directions, each computed once."""

    def __init__(self, powers: Powers) -> None:
        self.powers = powers
        self.size = powers.size
        self._kept: dict[tuple[int, bytes], Floats] = {}

    def backward(self, n: int, seen: Mask) -> Floats:
        """Max over z in ``seen`` of log P^n(z,x)/P^n(z,x'), flat over (x,x')."""
        return self._ratios(n, seen.tobytes(), lambda: self.powers.log(n)[seen])

    def forward(self, n: int) -> Floats:
        """Max over y of log P^n(x,y)/P^n(x',y), flat over (x,x')."""
        return self._ratios(n, b"", lambda: self.powers.log(n).T)

    def _ratios(self, n: int, way: bytes, logs: Callable[[], Matrix]) -> Floats:
        if (n, way) not in self._kept:
            if len(self._kept) * 8 * self.size**2 > _MEMORY:
                self._kept.clear()
            self._kept[n, way] = largest_ratios(logs())
        return self._kept[n, way]


def turned_pairs(size: int) -> Ints:
    """The positions of the pairs (x',x) in the order of the pairs (x,x')."""
    return np.arange(size * size).reshape(size, size).T.ravel()


_CACHE: weakref.WeakKeyDictionary[MarkovChain, Ratios] = weakref.WeakKeyDictionary()


def ratios_of(chain: MarkovChain) -> Ratios:
    """The ratios of a chain, kept as long as the chain itself: they serve every epsilon, length and adversary."""
    ratios = _CACHE.get(chain)
    if ratios is None:
        ratios = _CACHE[chain] = Ratios(Powers(chain.transition))
    return ratios
