"""What the start of a chain implies for each record: which values it can have, and how its marginal is tilted.

Positions count from 1. A start may be stationary, given, or any at all; the three differ in
- ``support(i)``: the values record i has with positive probability, and
- ``tilt(range)``: an upper bound, exact for a single record, on log m_i(x')/m_i(x) over a range of records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, Mask, Matrix
from pufferdp.bounds.chains.powers import Ratios
from pufferdp.models.chain import MarkovChain

_TABLE: Final = 2**11
"""Records whose marginals are listed; marginals of later ones are bounded by their limit."""
_TINY: Final = 1e-280
"""Smaller probabilities may have lost digits, and count as the least favourable number up to this."""


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

    def over(self, nodes: NodeRange, distance: int) -> Mask:
        """The union of the supports ``distance`` before the records of a range."""
        first = nodes.first - distance
        if nodes.single or first >= self.settled:
            return self.at(first)
        positions = range(first, min(nodes.last - distance, self.settled + self.period) + 1, nodes.step)
        return np.asarray(np.logical_or.reduce([self.at(p) for p in positions if p >= 1]), dtype=np.bool_)


def first_distribution(chain: MarkovChain) -> Floats:
    """The distribution of the first record of a chain with a definite start."""
    return chain.stationary if chain.given_start is None else chain.given_start


class Start:
    """What quilts need to know of the start of a chain."""

    def __init__(self, chain: MarkovChain, ratios: Ratios, length: int) -> None:
        given, self._ratios = chain.given_start, ratios
        self.same_everywhere = given is None and not chain.any_start
        """Whether every record has the stationary distribution."""
        first = np.ones(chain.size) if chain.any_start else chain.stationary if given is None else given
        self.supports = Supports(first > 0, chain.transition > 0)
        self._table, power = first[None, :], np.asarray(chain.transition)  # marginals of the first records
        while given is not None and len(self._table) < min(length, _TABLE):
            self._table = np.concatenate([self._table, self._table @ power])
            power = power @ power
        if chain.any_start:
            self._table = self._table[:0]

    def tilt(self, nodes: NodeRange) -> Floats:
        """An upper bound on log m_i(x')/m_i(x), flat over (x,x'), for the records of a range; exact in the table.

        For later records it is that of the worst start with these first states, max_y log P^(i−1)(y,x')/P^(i−1)(y,x),
        which falls with i: the first of them bounds the rest.
        """
        if self.same_everywhere:
            return _tilt(self._table)
        size, k = len(self._table), self._ratios.size
        listed = self._table[nodes.first - 1 : nodes.last : nodes.step]
        if nodes.last <= size:
            return _tilt(listed)
        far = max(nodes.first, size)
        later = self._ratios.backward(far - 1, self.supports.at(1)).reshape(k, k).T.ravel()
        later = later + self._ratios.powers.slack(far)
        return np.maximum(_tilt(listed), later) if len(listed) else later


def _tilt(marginals: Matrix) -> Floats:
    """Max over rows m of log m(x')/m(x), flat over (x,x'). Masses too small for a double count as largest and as 0."""
    with np.errstate(divide="ignore"):
        top = np.where(marginals > 0, np.log(np.maximum(marginals, _TINY)), -np.inf)
        bottom = np.where(marginals > _TINY, np.log(marginals), -np.inf)
    with np.errstate(invalid="ignore"):
        tilts = np.concatenate([(top - bottom[:, x, None]).max(axis=0) for x in range(marginals.shape[1])])
    return np.where(np.isnan(tilts), np.inf, tilts)


def worst_start(passed: Floats, plain: Floats) -> Floats:
    """The largest log of N(x)·z(y) / (N(y)·z(x)) over all mixtures of two first states.

    With t the odds of the two first states, N and z are linear in t and the ratio is a quotient of two quadratics. Its
    largest value is at an end, or where its derivative, a quadratic, is zero.

    Args:
        passed: weights of the output, [..., value, first state] with the values x and y: N(x) is their mixture.
        plain: weights without an output, of the same shape: z(x) is their mixture.
    """
    p, q, s, t = passed[..., 0, :], passed[..., 1, :], plain[..., 1, :], plain[..., 0, :]
    first = p[..., 1] * q[..., 0] - p[..., 0] * q[..., 1]
    second = s[..., 1] * t[..., 0] - s[..., 0] * t[..., 1]
    a = first * s[..., 1] * t[..., 1] + second * p[..., 1] * q[..., 1]
    b = first * (s[..., 0] * t[..., 1] + s[..., 1] * t[..., 0])
    b = b + second * (p[..., 0] * q[..., 1] + p[..., 1] * q[..., 0])
    c = first * s[..., 0] * t[..., 0] + second * p[..., 0] * q[..., 0]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        half = -(b + np.copysign(np.sqrt(np.maximum(b * b - 4 * a * c, 0.0)), b)) / 2
        odds = [np.zeros_like(a), np.ones_like(a), np.full_like(a, np.inf), half / a, c / half]
        values = [np.where(o >= 0, np.log(_quotient(p, t, o)) + np.log(_quotient(s, q, o)), -np.inf) for o in odds]
        possible = (t > 0).any(axis=-1) & (s > 0).any(axis=-1)
        return np.where(possible, np.max(values, axis=0), -np.inf)


def _quotient(top: Floats, bottom: Floats, odds: Floats) -> Floats:
    """The quotient of two mixtures at some odds; at 0 and infinity its limit."""
    zero, infinite = odds == 0, np.isinf(odds)
    w0 = np.where(infinite & (bottom[..., 1] > 0), 0.0, 1.0)
    w1 = np.where(infinite | (zero & (bottom[..., 0] <= 0)), 1.0, np.where(odds > 0, odds, 0.0))
    return np.asarray((w0 * top[..., 0] + w1 * top[..., 1]) / (w0 * bottom[..., 0] + w1 * bottom[..., 1]))
