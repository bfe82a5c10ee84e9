"""What the start of a chain implies for each record: which values it can have, and how its marginal is tilted.

Positions count from 1. A start may be stationary, given, or any at all; the three differ in
- ``support(i)``: the values record i has with positive probability, and
- ``tilt(range)``: an upper bound, exact for a single record, on log m_i(x')/m_i(x) over a range of records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from pufferdp.basics.arrays import Floats, Mask, Vector
from pufferdp.leakage.chains.powers import Ratios, product
from pufferdp.models.chain import MarkovChain

_TABLE: Final = 2**17
_FIRST: Final = 2**10
_PATIENCE: Final = 12
_SETTLED: Final = 1e-13
_TINY: Final = 1e-280


@dataclass(frozen=True)
class NodeRange:
    """Records first, first+step, … up to last."""

    first: int
    last: int
    step: int

    @property
    def single(self) -> bool:
        """Whether it holds one record."""
        return self.first == self.last


class Supports:
    """The support of each record: a sequence of sets that ends in a cycle."""

    def __init__(self, first: Mask, pattern: Mask) -> None:
        seen: dict[bytes, int] = {}
        self._masks: list[Mask] = []
        mask = first
        while mask.tobytes() not in seen and len(self._masks) < 4096:
            seen[mask.tobytes()] = len(self._masks)
            self._masks.append(mask)
            mask = np.asarray(pattern[mask].any(axis=0), dtype=np.bool_)
        if mask.tobytes() in seen:
            self._cycle = seen[mask.tobytes()]
        else:  # a cycle too long to follow: every set is taken to be their union, which only asks for more noise
            union = np.logical_or.reduce(self._masks) | pattern.any(axis=0)
            self._masks, self._cycle = [np.asarray(union, dtype=np.bool_)], 0

    @property
    def settled(self) -> int:
        """The first position from which the supports repeat."""
        return self._cycle + 1

    @property
    def period(self) -> int:
        """After how many positions they repeat."""
        return len(self._masks) - self._cycle

    def at(self, position: int) -> Mask:
        """The support of the record at this position."""
        n = position - 1
        return self._masks[n if n < len(self._masks) else self._cycle + (n - self._cycle) % self.period]

    def steady_before(self, nodes: NodeRange) -> int:
        """Up to which distance before the records of a range there is one support."""
        return nodes.first - self.settled if self.period == 1 else 0

    def over(self, nodes: NodeRange, distance: int) -> Mask:
        """The union of the supports ``distance`` before the records of a range."""
        first = nodes.first - distance
        if nodes.single or first >= self.settled:
            return self.at(first)
        positions = range(first, min(nodes.last - distance, self.settled + self.period) + 1, nodes.step)
        return np.asarray(np.logical_or.reduce([self.at(p) for p in positions if p >= 1]), dtype=np.bool_)


class Start(Protocol):
    """What quilts need to know of a start."""

    supports: Supports
    same_everywhere: bool

    def tilt(self, nodes: NodeRange) -> Floats:
        """An upper bound on log m_i(x')/m_i(x), flat over (x,x'), for the records of a range; exact for one record."""


def start_of(chain: MarkovChain, ratios: Ratios, length: int) -> Start:
    """The start of a chain, as quilts see it."""
    given = chain.given_start
    if given is not None:
        return GivenStart(chain, given, ratios, length)
    return AnyStart(chain, ratios) if chain.any_start else StationaryStart(chain)


class StationaryStart:
    """Every record has the stationary law."""

    same_everywhere = True

    def __init__(self, chain: MarkovChain) -> None:
        support = chain.stationary > 0
        self.supports = Supports(support, chain.transition > 0)
        self._tilt = _tilt(chain.stationary, chain.stationary)

    def tilt(self, nodes: NodeRange) -> Floats:
        """What the stationary law adds, whatever the range: no record has another law."""
        return self._tilt


class AnyStart:
    """Nothing is known of the first record: the worst start decides, record by record."""

    same_everywhere = False

    def __init__(self, chain: MarkovChain, ratios: Ratios) -> None:
        self.supports = Supports(np.ones(chain.size, dtype=bool), chain.transition > 0)
        self._ratios = ratios

    def tilt(self, nodes: NodeRange) -> Floats:
        """max_y log P^(i−1)(y,x')/P^(i−1)(y,x); it falls with i, so the first record of a range bounds the rest."""
        k = self._ratios.size
        if nodes.first == 1:
            return np.full(k * k, np.inf)  # the first record has no left end
        everything = np.ones(k, dtype=bool)
        return self._ratios.backward(nodes.first - 1, everything).reshape(k, k).T.ravel()


class GivenStart:
    """The law of the first record is given; marginals move towards a limit."""

    same_everywhere = False

    def __init__(self, chain: MarkovChain, law: Vector, ratios: Ratios, length: int) -> None:
        self.supports = Supports(law > 0, chain.transition > 0)
        self._chain, self._ratios = chain, ratios
        self._most = min(length, _TABLE)
        self._table, self._power = law[None, :], np.asarray(chain.transition)
        self._settled, self._asked = False, 0
        self._extend(min(self._most, _FIRST))

    def _extend(self, goal: int) -> None:
        """m_1, m_2, … up to ``goal``, or until they no longer move."""
        period = self.supports.period
        while len(self._table) < goal and not self._settled:
            self._table = np.concatenate([self._table, product(self._table, self._power)])
            self._power = self._power @ self._power
            if len(self._table) >= 4 * period + 8:
                last, before = self._table[-1], self._table[-1 - (len(self._table) // 4 // period + 1) * period]
                still = _SETTLED + len(self._table) * 2.0**-51  # products add rounding as they go
                same = np.array_equal(last > 0, before > 0)
                self._settled = same and bool(np.allclose(last, before, rtol=still, atol=0.0))

    def tilt(self, nodes: NodeRange) -> Floats:
        """Exact for one record; for a range the smaller of a table bound and a limit bound."""
        if nodes.single:
            law = self._law(nodes.first)
            return _tilt(law, law)
        if nodes.last > len(self._table) and not self._settled:
            # Far ranges seldom need more than the limit. A search that keeps asking gets a longer table.
            self._asked += 1
            if self._asked > _PATIENCE:
                self._extend(min(self._most, 4 * len(self._table)))
                self._asked = 0
        limit = self._limit(nodes.first)
        bounds = [self._from_limit(nodes, limit)] if limit is not None else []
        if nodes.last <= len(self._table):
            bounds.append(self._from_table(nodes, limit))
        return np.asarray(np.minimum.reduce(bounds)) if bounds else _nothing_known(self._chain.size)

    def _law(self, position: int) -> Vector:
        """m_i: from the table, from its end where it no longer moves, or by one product."""
        if position <= len(self._table):
            return np.asarray(self._table[position - 1])
        if self._settled:
            return np.asarray(self._table[len(self._table) - 1 - (len(self._table) - position) % self.supports.period])
        power = self._ratios.powers.linear(position - 1)
        if power is None:  # entries too small for a double: nothing is known of the small ones
            return np.where(self.supports.at(position), _TINY, 0.0)
        return np.asarray(self._table[0] @ power)

    def _limit(self, position: int) -> Vector | None:
        """The law that marginals at this place in the cycle of supports tend to, and that stays put."""
        chain, period = self._chain, self.supports.period
        if period == 1 and len(chain.closed_classes) == 1:
            stays = np.array_equal(self.supports.at(2**30), chain.stationary > 0)
            return chain.stationary if stays else None
        if not self._settled:
            return None
        later = max(0, (len(self._table) - position) // period + 1) * period  # the same place in the cycle, at the end
        return self._law(position + later)

    def _from_table(self, nodes: NodeRange, limit: Vector | None) -> Floats:
        laws = self._table[nodes.first - 1 : nodes.last : nodes.step]
        if len(laws) <= 32:
            return np.asarray(np.maximum.reduce([_tilt(m, m) for m in laws]))
        if limit is None:
            return _tilt(laws.max(axis=0), laws.min(axis=0))
        # Marginals over their limit vary slowly, so bounding numerator and denominator apart loses little.
        reference = np.where(limit > 0, limit, 1.0)
        over = laws / reference
        return _tilt(over.max(axis=0), over.min(axis=0)) + _tilt(reference, reference)

    def _from_limit(self, nodes: NodeRange, limit: Vector) -> Floats:
        """A law over its limit is averaged at each step, so its spread only shrinks: max h_i(x')/h_i(x) ≤ spread."""
        alive = self.supports.at(nodes.first)
        if not (limit[alive] > 0).all():
            return _nothing_known(len(limit))
        h = self._law(nodes.first)[alive] / limit[alive]
        spread = np.log(h.max() / h.min()) if h.min() > _TINY else np.inf
        tilt = _tilt(limit, limit) + spread + 1e-12  # 1e-12: the limit is known up to its own rounding
        return np.where(np.eye(len(limit), dtype=bool).ravel(), 0.0, tilt)


def _nothing_known(k: int) -> Floats:
    return np.where(np.eye(k, dtype=bool).ravel(), 0.0, np.inf)


def _tilt(most: Vector, least: Vector) -> Floats:
    """Log most(x')/least(x), flat over (x,x'). Probabilities too small for a double count as largest and as zero."""
    with np.errstate(divide="ignore"):
        top = np.where(most > 0, np.log(np.maximum(most, _TINY)), -np.inf)
        bottom = np.where(least > _TINY, np.log(least), -np.inf)
    with np.errstate(invalid="ignore"):
        tilt = top[None, :] - bottom[:, None]
    return np.where(np.isnan(tilt), np.inf, tilt).ravel()
