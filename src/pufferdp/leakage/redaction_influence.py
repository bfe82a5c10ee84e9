"""Influence of a private record on single records, the regions it makes, and what data-independent designs can reach.

Maßny et al. 2024 (3R). Their bound for data-independent designs has 2Δ*(ε/2) − 1 where its proof gives
2Δ*(ε/2) − 2 besides the private record itself; the printed one is beaten by a lopsided window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pufferdp.errors import NotApplicableError
from pufferdp.leakage.redaction_sides import Side
from pufferdp.leakage.search import Ints
from pufferdp.models.markov import MarkovChain, Mask, Matrix, Vector

MOST_DISTANCE = 1 << 20


def pointwise(side: Side, distances: int) -> Matrix:
    """The influence of the private record on each value at each distance from 1: one row a distance."""
    return np.asarray(np.nan_to_num(side.influences(distances), nan=0.0, posinf=np.inf).max(axis=(1, 2)))


def max_influence(side: Side, distances: int) -> Vector:
    """The largest influence on any value at each distance from 1."""
    return np.asarray(pointwise(side, distances).max(axis=1))


def reach(side: Side, budget: float) -> int:
    """Δ*: the smallest distance at which no value is influenced by more than the budget; one beyond the side if none.

    Max-influence never rises with the distance (a row of P^(n+1) is a mixture of rows of P^n), so it is bisected.
    """
    if side.records == 0 or peak(side, side.records) > budget:
        return side.records + 1
    step = 1
    while step < side.records and peak(side, step) > budget:
        step *= 2
    low, high = step // 2, min(step, side.records)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if peak(side, middle) <= budget else (middle, high)
    return high


def peak(side: Side, distance: int) -> float:
    """The largest influence at one distance."""
    law = side.power(distance)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(law)
        spread = logs.max(axis=0) - logs.min(axis=0)
    return float(np.nan_to_num(spread, nan=0.0, posinf=np.inf).max())


@dataclass(frozen=True, eq=False)
class Regions:
    """Which values of which records may be released on one side, within a budget for that side."""

    allowed: Mask
    """One row for each distance before S, one column a value: influence within the budget."""
    influence: Matrix
    """The influence on each value at each of those distances, and at the first record of S where there is one."""
    small: int
    """Distance of the first record in S; one beyond the side if there is none."""

    @property
    def medium(self) -> Ints:
        """Distances in M."""
        return np.asarray(np.flatnonzero(self.allowed.any(axis=1)) + 1)

    @property
    def large(self) -> Ints:
        """Distances in L."""
        return np.asarray(np.flatnonzero(~self.allowed.any(axis=1)) + 1)


def regions(side: Side, budget: float) -> Regions:
    """S: every value within the budget. M: some are. L: none is. With a budget of 0 or less all of a side is L."""
    small = reach(side, budget) if budget > 0 else side.records + 1
    if small > MOST_DISTANCE:
        raise NotApplicableError(
            f"records {small} apart still show more than epsilon = {budget:g}; so long a stretch is not designed: "
            "raise epsilon, or redact the whole series",
            value=small,
        )
    if budget <= 0:
        return Regions(np.zeros((side.records, side.size), dtype=bool), np.zeros((side.records, side.size)), small)
    influence = pointwise(side, min(small, side.records))
    before = influence[: small - 1]
    return Regions(before <= budget, influence, small)


def independent_bound(chain: MarkovChain, length: int, private: int, epsilon: float, *, printed: bool = False) -> float:
    """No data-independent design of a binary chain with one private record releases a larger share than this.

    Args:
        chain: a binary chain.
        length: records in the series.
        private: the private record, counted from 1.
        epsilon: the promise, towards somebody who knows no record.
        printed: the bound as the paper prints it, which is too small by one record in places.
    """
    if chain.size != 2:
        raise NotApplicableError(f"the bound is for two states; this chain has {chain.size}", value=chain)
    p = min(private, length + 1 - private)  # mirror: a binary chain is reversible
    side = Side(chain.transition, length - p)
    if side.records == 0 or epsilon < peak(side, length - p):
        return 0.0
    one = reach(side, epsilon) + p - 1
    least = one
    if p > 1 and epsilon >= peak(side, p - 1) + peak(side, length - p):
        least = min(one, 2 * reach(side, epsilon / 2) - (1 if printed else 2))
    return 1 - max(least, 1) / length
