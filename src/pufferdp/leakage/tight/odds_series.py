"""The closed form record by record: what each side adds where losses differ, for classes that cannot be listed.

Theorem 4 passes the records of a side one by one, the farthest first: D ← C(Δ, τ + D). Several steps at once, where a
class has their odds, and every pair of values by itself, where there are few, can only lower the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.leakage.tight.odds import OddsCurve, contraction, side_bound

_SLACK: Final = 1e-12
_PAIRED: Final = 1_000_000
"""Records times entries of a table of pairs up to which every pair of values has a bound of its own."""


@dataclass(frozen=True, eq=False)
class OddsSeries:
    """Upper bounds for any start and any adversary, record by record; one number each where a series has no end."""

    backward: Floats
    """The record's loss and the side before it."""
    forward: Floats
    total: Floats


def odds_forever(curve: OddsCurve, loss: float) -> OddsSeries:
    """A series without end, all of whose records spend the same: the largest at any record."""
    total = curve(loss)
    side = loss + min(side_bound(loss, odds, m) for m, odds in enumerate(curve.log_odds, start=1))
    side = min(side, total) if loss > 0 else 0.0
    return OddsSeries(np.array([side]), np.array([side]), np.array([total]))


def odds_series(curve: OddsCurve, losses: Floats) -> OddsSeries:
    """A series of records that spend these losses."""
    before, after = _side(curve.log_odds, losses), _side(curve.log_odds, losses[::-1])[::-1]
    backward, forward, total = losses + before, losses + after, losses + before + after
    pairs = curve.pairs
    if pairs is not None and len(losses) * pairs.after.size <= _PAIRED:
        left, right = _pair_sides(pairs.before, losses), _pair_sides(pairs.after, losses[::-1])[::-1]
        backward = np.minimum(backward, losses + left.max(axis=(1, 2)))
        forward = np.minimum(forward, losses + right.max(axis=(1, 2)))
        total = np.minimum(total, losses + (left + right).max(axis=(1, 2)))
    most = curve(float(losses.max()))  # leakage grows with every loss
    return OddsSeries(*(np.minimum(part, most) for part in (backward, forward, total)))


def _side(log_odds: tuple[float, ...], losses: Floats) -> Floats:
    """What the records before each one add: R_t = τ_{t−1} + … + τ_{t−m+1} + C(Δ_m, τ_{t−m} + R_{t−m}), the best m."""
    spent, added, group = losses.tolist(), [0.0], 0.0
    finite = [(m, odds) for m, odds in enumerate(log_odds, start=1) if math.isfinite(odds)]
    for t in range(1, len(spent)):
        group += spent[t - 1]
        least, near, passed = group, 0.0, 1
        for m, odds in finite:
            if m > t:
                break
            while passed < m:
                near += spent[t - passed]
                passed += 1
            if near >= least:
                break
            least = min(least, near + _contracted(odds, spent[t - m] + added[t - m]) * (1 + _SLACK))
        added.append(least)
    return np.array(added)


def _contracted(odds: float, variation: float) -> float:
    """C(Δ, D) of two finite numbers."""
    product = math.tanh(odds / 4) * math.tanh(variation / 4)
    if product < 0.5:
        return 4 * math.atanh(product)
    least = min(odds, variation)
    far, near = (odds + variation) / 2, abs(odds - variation) / 2
    return min(least, least + 2 * (math.log1p(math.exp(-far)) - math.log1p(math.exp(-near))))


def _pair_sides(odds: Floats, losses: Floats) -> Floats:
    """The same for every pair of values, (n, k, k): D'(x,x') = max over u, u' of C(log κ, D(u,u') + τ)."""
    k, n = len(odds), len(losses)
    out, now, positive = np.zeros((n, k, k)), np.zeros((k, k)), np.maximum(odds, 0.0)
    apart = 1 - np.eye(k)
    for t in range(1, n):
        now = contraction(positive, now + losses[t - 1] * apart).max(axis=(2, 3)) * (1 + _SLACK)
        np.fill_diagonal(now, 0.0)
        out[t] = now
    return out
