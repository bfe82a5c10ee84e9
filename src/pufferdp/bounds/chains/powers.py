"""Powers of a transition matrix in logarithms, each computed once, with a bound on their rounding.

Products of non-negative matrices lose no relative accuracy to cancellation. A product of n factors, each turned into a
logarithm and back, is off by a relative (k + 2 + 800)·n·2^-53 at most: logarithms of doubles are below 745. Where an
entry could underflow the product is taken in logarithms, so a reachable state never looks unreachable.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Mask, Matrix
from pufferdp.models.chain import MarkovChain

UNIT: Final = 2.0**-53
_MEMORY: Final = 256 * 2**20
"""Bytes of powers, or of ratios, that are kept for one chain."""


class Powers:
    """The logarithms of P, P^2, … of one transition matrix."""

    def __init__(self, transition: Matrix) -> None:
        self.size = len(transition)
        with np.errstate(divide="ignore"):
            self._first = {0: np.log(np.eye(self.size)), 1: np.log(transition)}
        self._logs = dict(self._first)

    def log(self, n: int) -> Matrix:
        """Log P^n, entry by entry; -inf exactly where the state cannot be reached in n steps."""
        if n not in self._logs:
            # From two halves: consecutive powers take one product each, a distant one about 2·log2(n).
            power = _log_multiply(self.log(n // 2), self.log(n - n // 2))
            if len(self._logs) * 8 * self.size**2 > _MEMORY:
                self._logs = dict(self._first)
            self._logs[n] = power
        return self._logs[n]

    def slack(self, n: int) -> float:
        """An upper bound on the rounding error of a difference of two entries of ``log(n)``."""
        return 2.0 * (n + 1) * (self.size + 802) * UNIT


def _log_multiply(a: Matrix, b: Matrix) -> Matrix:
    """Log of the product of exp(a) and exp(b)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if sum(float(np.where(np.isfinite(logs), logs, 0.0).min()) for logs in (a, b)) > -640:
            return np.asarray(np.log(np.exp(a) @ np.exp(b)))
        rows = []
        for row in a:
            terms = row[:, None] + b
            top = terms.max(axis=0)
            shift = np.where(np.isfinite(top), top, 0.0)
            rows.append(np.log(np.exp(terms - shift).sum(axis=0)) + shift)
        return np.array(rows)


def largest_ratios(logs: Matrix) -> Floats:
    """Max over rows r of logs[r,x] − logs[r,x'], flat over (x,x')."""
    with np.errstate(invalid="ignore"):  # inf − inf: a row that says nothing about either value, skipped by fmax
        gaps = (np.fmax.reduce(logs[:, x, None] - logs, axis=0, initial=-np.inf) for x in range(logs.shape[1]))
        return np.concatenate(list(gaps))


def log_ratios(weights: Floats) -> Floats:
    """Log w(x)/w(y) of weights along the last axis, [..., x, y]; −∞ for 0/0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(weights)
        ratios = logs[..., :, None] - logs[..., None, :]
    return np.asarray(np.where(np.isnan(ratios), -np.inf, ratios))


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


@lru_cache(maxsize=16)
def ratios_of(chain: MarkovChain) -> Ratios:
    """The ratios of a chain, kept for a while: they serve every epsilon, length and adversary."""
    return Ratios(Powers(chain.transition))
