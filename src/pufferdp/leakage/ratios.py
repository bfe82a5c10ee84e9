"""Ratios of a chain's powers: how much more likely one value of a record makes what lies n steps away.

0/0 is skipped and x/0 is infinite: values of probability zero are not secrets. Each matrix is computed once and kept.
"""

from __future__ import annotations

import weakref

import numpy as np

from pufferdp.leakage.powers import Powers, product
from pufferdp.leakage.search import Floats, Ints
from pufferdp.models.markov import MarkovChain, Mask, Matrix

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
        found = largest_ratios(logs, pairs)
        self.work += logs.size * (self.size if pairs is None else 1)
        if pairs is None:
            if len(self._full) > self._keep:
                self._full.clear()
            self._full[key] = found
        return found

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
        kept = self._lines.get(key)
        if kept is None or kept[0] > low or kept[0] + len(kept[1]) <= high:
            low_, high_ = low, high
            if kept is not None:
                low_, high_ = min(low, kept[0]), max(high, kept[0] + len(kept[1]) - 1)
            if high_ < _TABLE:  # short lines are made whole, so that the next search finds them
                low_, high_ = 1, (1 << high_.bit_length()) - 1
            line = self._line(way, pair, low_, high_, seen)
            if line is None and (low_, high_) != (low, high):
                low_, high_ = low, high
                line = self._line(way, pair, low, high, seen)
            if line is None:
                return None
            if sum(len(one[1]) for one in self._lines.values()) > _LINES:
                self._lines.clear()
            kept = self._lines[key] = (low_, *line)
        part = slice(low - kept[0], high + 1 - kept[0])
        return np.asarray(kept[1][part]), np.asarray(kept[2][part])

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
    """The same pairs turned round: (x',x) for (x,x')."""
    pairs = np.arange(size * size) if pairs is None else pairs
    return np.asarray(pairs % size * size + pairs // size)


_CACHE: weakref.WeakKeyDictionary[MarkovChain, Ratios] = weakref.WeakKeyDictionary()


def ratios_of(chain: MarkovChain) -> Ratios:
    """The ratios of a chain, kept as long as the chain itself: they serve every epsilon, length and adversary."""
    ratios = _CACHE.get(chain)
    if ratios is None:
        ratios = _CACHE[chain] = Ratios(Powers(chain.transition))
    return ratios
