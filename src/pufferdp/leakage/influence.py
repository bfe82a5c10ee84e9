"""Influence of one record of a chain on the ends of a quilt, for each pair of values it may have.

For the pair (x, x') the influence on a left end at distance a and a right end at distance b is
    left(a)  = max_z log P^a(z,x)/P^a(z,x') + log m_i(x')/m_i(x)
    right(b) = max_y log P^b(x,y)/P^b(x',y)
for an adversary who knows no record (Song et al. 2017, Section 4.4.1). Someone who knows any set of records may also
know one beyond each end; then, with the maxima running over records beyond,
    left(a)  = max(0, max_z log P^a(z,x)/P^a(z,x') + max(log m_i(x')/m_i(x), max_{a'>a,v} log P^a'(v,x')/P^a'(v,x)))
    right(b) = max(0, max_y log P^b(x,y)/P^b(x',y) + max_{b'>b,v} log P^b'(x',v)/P^b'(x,v)).
Values of probability zero are not secrets: 0/0 is skipped, x/0 is infinite, and a pair that is impossible given the
record beyond is skipped. All of these fall as the distance grows, because a row of P^(n+1) is a mixture of rows of P^n.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Final

import numpy as np

from pufferdp.leakage.powers import Powers
from pufferdp.leakage.search import Floats, Ints
from pufferdp.models.markov import MarkovChain, Mask, Matrix

_FAR_STEPS: Final = 512
"""How far beyond an end the search for the worst known record goes before it settles for infinity."""


def largest_ratios(logs: Matrix, pairs: Ints | None = None, *, skip: bool = False) -> Floats:
    """Max over rows r of logs[r,x] − logs[r,x'], flat over (x,x'); ``skip`` leaves out rows where x' is impossible."""
    k = logs.shape[1]
    finite = bool(np.isfinite(logs).all())
    if pairs is not None:
        return _reduce(logs[:, pairs // k], logs[:, pairs % k], finite, skip)
    step = max(1, 4_000_000 // max(1, logs.size))
    parts = [_reduce(logs[:, s : s + step, None], logs[:, None, :], finite, skip) for s in range(0, k, step)]
    return np.concatenate(parts).ravel()


def _reduce(top: Matrix, bottom: Matrix, finite: bool, skip: bool) -> Floats:
    if finite:
        return np.asarray((top - bottom).max(axis=0, initial=-np.inf))
    with np.errstate(invalid="ignore"):
        difference = top - bottom
    if skip:
        difference[np.isposinf(difference)] = -np.inf
    return np.asarray(np.fmax.reduce(difference, axis=0, initial=-np.inf))


class Ratios:
    """The ratios of a chain's powers in both directions, each computed once."""

    def __init__(self, powers: Powers) -> None:
        self.powers = powers
        self.size = powers.size
        self._full: dict[tuple[str, int, bytes, bool], Floats] = {}
        self._lines: dict[tuple[str, int, bytes], tuple[int, Floats, Floats]] = {}
        self._keep = max(64, 128 * 2**20 // (8 * self.size**2))

    def backward(self, n: int, seen: Mask, pairs: Ints | None = None, *, skip: bool = False) -> Floats:
        """Max over z in ``seen`` of log P^n(z,x)/P^n(z,x')."""
        return self._ratios("backward", n, seen, pairs, skip)

    def forward(self, n: int, pairs: Ints | None = None, *, skip: bool = False) -> Floats:
        """Max over y of log P^n(x,y)/P^n(x',y)."""
        return self._ratios("forward", n, None, pairs, skip)

    def _ratios(self, way: str, n: int, seen: Mask | None, pairs: Ints | None, skip: bool) -> Floats:
        skip = skip and not self.powers.positive(n)
        key = (way, n, b"" if seen is None else seen.tobytes(), skip)
        full = self._full.get(key)
        if full is not None:
            return full if pairs is None else full[pairs]
        logs = self.powers.log(n)
        logs = logs.T if seen is None else logs if seen.all() else logs[seen]
        found = largest_ratios(logs, pairs, skip=skip)
        if pairs is None:
            if len(self._full) > self._keep:
                self._full.clear()
            self._full[key] = found
        return found

    def along(self, way: str, pair: int, low: int, high: int, seen: Mask | None) -> tuple[Floats, Floats] | None:
        """For one pair, at n = low..high: max log-ratio of (x,x') and of (x',x). None where something is impossible.

        Two columns (or rows) of P^n are carried along instead of whole powers, in blocks that double.
        """
        key = (way, pair, b"" if seen is None else seen.tobytes())
        kept = self._lines.get(key)
        if kept is None or kept[0] > low or kept[0] + len(kept[1]) <= high:
            if kept is not None:
                low_, high_ = min(low, kept[0]), max(high, kept[0] + len(kept[1]) - 1)
            else:
                low_, high_ = low, high
            line = self._line(way, pair, low_, high_, seen)
            if line is None:
                return None
            if len(self._lines) > 256:
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
            block = np.concatenate([block, (block.reshape(-1, self.size) @ step.T).reshape(block.shape)], axis=1)
        block = block[:, :count]
        if seen is not None:
            block = block[:, :, seen]
        if block.min() < 1e-280:
            return None
        difference = np.log(block[0] / block[1])
        return np.asarray(difference.max(axis=1)), np.asarray(-difference.min(axis=1))

    def worst_beyond(
        self, ratio: Callable[[int, bool], Floats], distance: int, most: int, valid: Mask, pairs: Ints | None
    ) -> Floats:
        """Max over n in distance+1..most of ``ratio(n, skip=True)``, −inf when there is no such n.

        ``ratio(n, skip=False)`` falls with n and is the same where it is finite, so a pair is settled at the first n
        where it is finite; a pair that never is within ``_FAR_STEPS`` is given infinity.
        """
        wanted = valid if pairs is None else valid[pairs]
        worst = np.full(len(wanted), -np.inf)
        for n in range(distance + 1, min(most, distance + _FAR_STEPS) + 1):
            worst = np.asarray(np.maximum(worst, ratio(n, True)))
            if np.isfinite(ratio(n, False)[wanted]).all():
                return worst
        if most > distance + _FAR_STEPS:
            worst[np.isposinf(ratio(distance + _FAR_STEPS, False))] = np.inf
        return worst


_CACHE: weakref.WeakKeyDictionary[MarkovChain, Ratios] = weakref.WeakKeyDictionary()


def ratios_of(chain: MarkovChain) -> Ratios:
    """The ratios of a chain, kept as long as the chain itself: they serve every epsilon, length and adversary."""
    ratios = _CACHE.get(chain)
    if ratios is None:
        ratios = _CACHE[chain] = Ratios(Powers(chain.transition))
    return ratios


class LeftSide:
    """Influence on a left end, for one record or, as an upper bound, for a range of them."""

    def __init__(
        self,
        ratios: Ratios,
        *,
        marginal: Floats,
        valid: Mask,
        seen: Callable[[int], Mask],
        steady: int,
        beyond: int | None,
    ) -> None:
        self._ratios, self._marginal, self._valid, self._seen = ratios, marginal, valid, seen
        self._steady = steady  # up to this distance the same values are possible
        self._beyond = beyond  # distance of the farthest record on the left; None for K empty

    def at(self, distances: Ints, pairs: Ints | None) -> Floats:
        """One row a distance, one column a pair."""
        return np.stack([self._one(int(a), pairs) for a in distances])

    def along(self, low: int, high: int, pair: int) -> Floats:
        """One pair at the distances low..high."""
        far = 0 if self._beyond is None else 1
        line_high = min(high, self._steady - far)  # up to here one set of values is possible at the left end
        line = None
        if line_high >= low and self._valid[pair]:
            line = self._ratios.along("backward", pair, low, line_high + far, self._seen(low))
        if line is None:
            return np.asarray(self.at(np.arange(low, high + 1), np.array([pair]))[:, 0])
        if self._beyond is None:
            steady = line[0] + self._marginal[pair]
        else:
            beyond = np.where(np.arange(low + 1, line_high + 2) <= self._beyond, line[1][1:], -np.inf)
            steady = np.maximum(line[0][:-1] + np.maximum(beyond, self._marginal[pair]), 0.0)
        if line_high == high:
            return np.asarray(steady)
        return np.append(steady, self.at(np.arange(line_high + 1, high + 1), np.array([pair]))[:, 0])

    def _one(self, a: int, pairs: Ints | None) -> Floats:
        valid = self._valid if pairs is None else self._valid[pairs]
        beyond = self._marginal if pairs is None else self._marginal[pairs]
        if self._beyond is not None:
            far = self._ratios.worst_beyond(self._towards, a, self._beyond, self._valid, None)
            beyond = np.maximum(beyond, far if pairs is None else far[pairs])
        end = self._ratios.backward(a, self._seen(a), pairs)
        with np.errstate(invalid="ignore"):
            total = end + beyond
        if self._beyond is not None:
            total = np.maximum(total, 0.0)
        return np.where(valid, total, -np.inf)

    def _towards(self, n: int, skip: bool) -> Floats:
        k = self._ratios.size
        return self._ratios.backward(n, self._seen(n), skip=skip).reshape(k, k).T.ravel()


class RightSide:
    """Influence on a right end."""

    def __init__(self, ratios: Ratios, *, valid: Mask, beyond: int | None) -> None:
        self._ratios, self._valid, self._beyond = ratios, valid, beyond

    def at(self, distances: Ints, pairs: Ints | None) -> Floats:
        """One row a distance, one column a pair."""
        return np.stack([self._one(int(b), pairs) for b in distances])

    def along(self, low: int, high: int, pair: int) -> Floats:
        """One pair at the distances low..high."""
        far = 0 if self._beyond is None else 1
        line = self._ratios.along("forward", pair, low, high + far, None)
        if line is None or not self._valid[pair]:
            return np.asarray(self.at(np.arange(low, high + 1), np.array([pair]))[:, 0])
        if self._beyond is None:
            return line[0]
        beyond = np.where(np.arange(low + 1, high + 2) <= self._beyond, line[1][1:], 0.0)
        return np.maximum(line[0][:-1] + np.maximum(beyond, 0.0), 0.0)

    def _one(self, b: int, pairs: Ints | None) -> Floats:
        valid = self._valid if pairs is None else self._valid[pairs]
        total = self._ratios.forward(b, pairs)
        if self._beyond is not None:
            far = self._ratios.worst_beyond(self._towards, b, self._beyond, self._valid, None)
            with np.errstate(invalid="ignore"):
                total = np.maximum(total + np.maximum(far if pairs is None else far[pairs], 0.0), 0.0)
        return np.where(valid, total, -np.inf)

    def _towards(self, n: int, skip: bool) -> Floats:
        k = self._ratios.size
        return self._ratios.forward(n, skip=skip).reshape(k, k).T.ravel()
