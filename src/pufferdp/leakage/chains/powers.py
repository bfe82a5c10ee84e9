"""Powers of a transition matrix, each computed once, in logarithms, with their supports and a bound on their rounding.

Products of non-negative matrices lose no relative accuracy to cancellation: every entry of P^n is right up to a factor
(1+u)^(n·(k+1)), u = 2^-53. Where an entry would underflow, that product is taken in logarithms instead, so a reachable
state never looks unreachable.
"""

from __future__ import annotations

import weakref
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Ints, Mask, Matrix
from pufferdp.models.chain import MarkovChain

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


_SMALL, _TABLE = 8, 4096
"""Up to so many states and distances all powers are kept in one table."""


_LINES = 4_000_000
"""Lines of single pairs are kept up to so many entries in all, 64 MB."""


def largest_ratios(logs: Matrix, pairs: Ints | None = None) -> Floats:
    """Max over rows r of logs[r,x] − logs[r,x'], flat over (x,x')."""
    k = logs.shape[1]
    finite = bool(np.isfinite(logs).all())
    if pairs is not None:
        return _reduce(logs[:, pairs // k], logs[:, pairs % k], finite)
    step = max(1, 4_000_000 // max(1, logs.size))
    parts = [_reduce(logs[:, s : s + step, None], logs[:, None, :], finite) for s in range(0, k, step)]
    return np.concatenate(parts).ravel()


def _reduce(top: Matrix, bottom: Matrix, finite: bool) -> Floats:
    if finite:
        return np.asarray((top - bottom).max(axis=0, initial=-np.inf))
    with np.errstate(invalid="ignore"):
        difference = top - bottom
    return np.asarray(np.fmax.reduce(difference, axis=0, initial=-np.inf))


class Ratios:
    """The ratios of a chain's powers in both directions, each computed once."""

    def __init__(self, powers: Powers) -> None:
        self.powers = powers
        self.size = powers.size
        self.work = 0  # ratios computed so far: what a search has cost, whatever the clock says
        self._full: dict[tuple[str, int, bytes], Floats] = {}
        self._tables: dict[tuple[str, bytes], Floats] = {}
        self._lines: dict[tuple[str, int, bytes], tuple[int, Floats, Floats]] = {}
        self._keep = max(64, 128 * 2**20 // (8 * self.size**2))

    def backward(self, n: int, seen: Mask, pairs: Ints | None = None) -> Floats:
        """Max over z in ``seen`` of log P^n(z,x)/P^n(z,x')."""
        return self._ratios("backward", n, seen, pairs)

    def forward(self, n: int, pairs: Ints | None = None) -> Floats:
        """Max over y of log P^n(x,y)/P^n(x',y)."""
        return self._ratios("forward", n, None, pairs)

    def _ratios(self, way: str, n: int, seen: Mask | None, pairs: Ints | None) -> Floats:
        key = (way, n, b"" if seen is None else seen.tobytes())
        full = self._full.get(key)
        if full is not None:
            return full if pairs is None else full[pairs]
        if pairs is not None and len(pairs) > self.size:  # most of them: make all, once
            return self._ratios(way, n, seen, None)[pairs]
        logs = self.powers.log(n)
        logs = logs.T if seen is None else logs if seen.all() else logs[seen]
        ratios = largest_ratios(logs, pairs)
        self.work += logs.size * (self.size if pairs is None else 1)
        if pairs is None:
            if len(self._full) > self._keep:
                self._full.clear()
            self._full[key] = ratios
        return ratios

    def rows(self, way: str, distances: Ints, seen: Mask | None) -> Floats | None:
        """All pairs at many distances from one table, for small chains; None where the table would be large or deep."""
        most = int(distances.max())
        if self.size > _SMALL or most > _TABLE:
            return None
        key = (way, b"" if seen is None else seen.tobytes())
        table = self._tables.get(key)
        if table is None or len(table) < most:
            logs = self.powers.log_table(max(32, 1 << (most - 1).bit_length()))
            if logs is None:
                return None
            logs = logs.transpose(0, 2, 1) if seen is None else logs[:, seen]
            finite = bool(np.isfinite(logs).all())
            table = _reduce(logs.transpose(1, 0, 2)[..., None], logs.transpose(1, 0, 2)[..., None, :], finite)
            table = self._tables[key] = table.reshape(len(logs), -1)
        return np.asarray(table[distances - 1])

    def along(self, way: str, pair: int, low: int, high: int, seen: Mask | None) -> tuple[Floats, Floats] | None:
        """For one pair, at n = low..high: max log-ratio of (x,x') and of (x',x). None where something is impossible.

        Two columns (or rows) of P^n are carried along instead of whole powers, in blocks that double.
        """
        key = (way, pair, b"" if seen is None else seen.tobytes())
        saved_line = self._lines.get(key)
        if saved_line is None or saved_line[0] > low or saved_line[0] + len(saved_line[1]) <= high:
            low_, high_ = low, high
            if saved_line is not None:
                low_, high_ = min(low, saved_line[0]), max(high, saved_line[0] + len(saved_line[1]) - 1)
            if high_ < _TABLE:  # short lines are made whole, so that the next search finds them
                low_, high_ = 1, (1 << high_.bit_length()) - 1
            line = self._line(way, pair, low_, high_, seen)
            if line is None and (low_, high_) != (low, high):
                low_, high_ = low, high
                line = self._line(way, pair, low, high, seen)
            if line is None:
                return None
            if sum(len(saved[1]) for saved in self._lines.values()) > _LINES:
                self._lines.clear()
            saved_line = self._lines[key] = (low_, *line)
        part = slice(low - saved_line[0], high + 1 - saved_line[0])
        return np.asarray(saved_line[1][part]), np.asarray(saved_line[2][part])

    def _line(self, way: str, pair: int, low: int, high: int, seen: Mask | None) -> tuple[Floats, Floats] | None:
        x, y = divmod(pair, self.size)

        def matrix(n: int) -> Matrix | None:
            power = self.powers.linear(n)
            return power if power is None or way == "backward" else power.T

        block = matrix(low)
        if block is None:
            return None
        count = high - low + 1
        columns = np.ascontiguousarray(np.stack([block[:, x], block[:, y]]))  # (2, k)
        block = columns[:, None, :]
        while block.shape[1] < count:
            step = matrix(block.shape[1])
            if step is None:
                return None
            block = np.concatenate([block, product(block.reshape(-1, self.size), step.T).reshape(block.shape)], axis=1)
        block = block[:, :count]
        if seen is not None:
            block = block[:, :, seen]
        if block.min() < 1e-280:
            return None
        difference = np.log(block[0] / block[1])
        return np.asarray(difference.max(axis=1)), np.asarray(-difference.min(axis=1))


def turned_pairs(size: int, pairs: Ints | None = None) -> Ints:
    """Numbers of the pairs (x',x) for those of (x,x'); of all pairs without ``pairs``."""
    pairs = np.arange(size * size) if pairs is None else pairs
    return np.asarray(pairs % size * size + pairs // size)


_CACHE: weakref.WeakKeyDictionary[MarkovChain, Ratios] = weakref.WeakKeyDictionary()


def ratios_of(chain: MarkovChain) -> Ratios:
    """The ratios of a chain, kept as long as the chain itself: they serve every epsilon, length and adversary."""
    ratios = _CACHE.get(chain)
    if ratios is None:
        ratios = _CACHE[chain] = Ratios(Powers(chain.transition))
    return ratios
