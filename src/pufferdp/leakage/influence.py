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

So the worst known record beyond an end is the next one. A ratio that is infinite there was infinite at the end itself
for the pair turned round, and then the quilt has infinite influence anyway: skipped pairs need no care of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from pufferdp.leakage.ratios import Ratios, turned_pairs
from pufferdp.leakage.search import Floats, Ints
from pufferdp.models.markov import Mask


class _ChainSide(ABC):
    """A side of a quilt in a chain: from a table where there is one, distance by distance otherwise."""

    def __init__(self) -> None:
        self._peaks: dict[int, float] = {}

    def peaks(self, distances: Ints) -> Floats:
        """The largest influence over all pairs, remembered."""
        new = [n for n in distances.tolist() if n not in self._peaks]
        if new:
            self._peaks.update(zip(new, self.at(np.array(new), None).max(axis=1).tolist(), strict=True))
        return np.array([self._peaks[n] for n in distances.tolist()])

    def at(self, distances: Ints, pairs: Ints | None) -> Floats:
        """One row a distance, one column a pair."""
        quick = self._quick(distances)
        if quick is not None:
            return quick if pairs is None else quick[:, pairs]
        return np.stack([self._one(int(n), pairs) for n in distances])

    @abstractmethod
    def _quick(self, distances: Ints) -> Floats | None:
        """All pairs at many distances, or None where there is no table for them."""

    @abstractmethod
    def _one(self, distance: int, pairs: Ints | None) -> Floats:
        """One distance."""


class LeftSide(_ChainSide):
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
        super().__init__()
        self._ratios, self._marginal, self._valid, self._seen = ratios, marginal, valid, seen
        self._steady = steady  # up to this distance the same values are possible
        self._beyond = beyond  # distance of the farthest record on the left; None for K empty

    def _quick(self, distances: Ints) -> Floats | None:
        """The same from tables, where the values possible at the end do not change and none is ruled out."""
        seen = self._seen(1) if int(distances.max()) + 1 <= self._steady else None
        rows = None if seen is None else self._ratios.rows("backward", distances, seen)
        if rows is None:
            return None
        if self._beyond is None:
            with np.errstate(invalid="ignore"):
                return np.where(self._valid, rows + self._marginal, -np.inf)
        far = self._ratios.rows("backward", distances + 1, seen)
        if far is None:
            return None
        far = np.where((distances + 1 <= self._beyond)[:, None], far[:, turned_pairs(self._ratios.size)], -np.inf)
        with np.errstate(invalid="ignore"):
            return np.where(self._valid, np.maximum(rows + np.maximum(far, self._marginal), 0.0), -np.inf)

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

    def _one(self, distance: int, pairs: Ints | None) -> Floats:
        valid = self._valid if pairs is None else self._valid[pairs]
        beyond = self._marginal if pairs is None else self._marginal[pairs]
        if self._beyond is not None and distance < self._beyond:
            round_ = turned_pairs(self._ratios.size, pairs)
            beyond = np.maximum(beyond, self._ratios.backward(distance + 1, self._seen(distance + 1), round_))
        end = self._ratios.backward(distance, self._seen(distance), pairs)
        with np.errstate(invalid="ignore"):
            total = end + beyond
        if self._beyond is not None:
            total = np.maximum(total, 0.0)
        return np.where(valid, total, -np.inf)


class RightSide(_ChainSide):
    """Influence on a right end."""

    def __init__(self, ratios: Ratios, *, valid: Mask, beyond: int | None) -> None:
        super().__init__()
        self._ratios, self._valid, self._beyond = ratios, valid, beyond

    def _quick(self, distances: Ints) -> Floats | None:
        """The same from tables, where no value is ruled out."""
        rows = self._ratios.rows("forward", distances, None)
        if rows is None or self._beyond is None:
            return None if rows is None else np.where(self._valid, rows, -np.inf)
        far = self._ratios.rows("forward", distances + 1, None)
        if far is None:
            return None
        far = np.where((distances + 1 <= self._beyond)[:, None], far[:, turned_pairs(self._ratios.size)], 0.0)
        return np.where(self._valid, np.maximum(rows + np.maximum(far, 0.0), 0.0), -np.inf)

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

    def _one(self, distance: int, pairs: Ints | None) -> Floats:
        valid = self._valid if pairs is None else self._valid[pairs]
        total = self._ratios.forward(distance, pairs)
        if self._beyond is not None:
            if distance < self._beyond:
                far = self._ratios.forward(distance + 1, turned_pairs(self._ratios.size, pairs))
                with np.errstate(invalid="ignore"):
                    total = total + np.maximum(far, 0.0)
            total = np.maximum(total, 0.0)
        return np.where(valid, total, -np.inf)
