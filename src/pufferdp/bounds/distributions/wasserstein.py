"""The ∞-Wasserstein distance W∞ of two distributions, from logarithms of their masses.

W is the least c such that every interval of one fits into the interval of the other widened by c, both ways round
(Hall's condition; intervals are enough, because two sets of points whose widened sets overlap may be joined). Written
with all masses as logarithms, each interval is compared in its own small numbers, so tails of 1e-300 count like the
rest.

Rounding. Two masses that are equal in truth differ in the last digits, and W jumps when they do. So an interval may
exceed by a factor 1+slack, a little more than what rounding can do. By the symmetric supply-demand theorem (Ford &
Fulkerson 1962, II.2) there are then distributions within that factor of the two, pointwise, no more than c apart; noise
of scale c/(epsilon − log(1+slack)) keeps the guarantee for the two themselves. The error is paid, not ignored.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats, Mask
from pufferdp.bounds.distributions.base import Logs

Points = npt.NDArray[np.int64] | npt.NDArray[np.float64]

_STEEP: Final = 700.0
"""exp of more than this overflows. Cutting there makes an excess look larger, never smaller."""


@dataclass(frozen=True)
class WorstPair:
    """The largest distance among several pairs of distributions, and the pair that has it."""

    distance: float
    pair: int


class Pairs:
    """Pairs of distributions on sorted points: row n of ``first`` and row n of ``second``."""

    def __init__(self, points: Points, first: Logs, second: Logs, slack: float) -> None:
        self.points, self.first, self.second = points, np.atleast_2d(first), np.atleast_2d(second)
        self._share = math.log1p(slack)

    def worst(self, floor: float = 0.0) -> WorstPair | None:
        """The largest distance, if it passes ``floor``."""
        worst, reached, left = None, floor, np.arange(len(self.first))
        while len(left := left[~self.within_distance(reached, left)]):
            pair = int(left[np.argmax(self._shift[left])])  # a good guess at the worst: the others are then near it
            reached = self._distance(pair, int(np.searchsorted(self._candidates, reached, side="right")))
            worst = WorstPair(reached, pair)
        return worst

    @cached_property
    def _shift(self) -> Logs:
        """How far the means are apart: a guess at which pair is worst."""
        x = np.asarray(self.points, dtype=float)
        return np.asarray(np.abs((np.exp(self.first) - np.exp(self.second)) @ x))

    @cached_property
    def _candidates(self) -> Points:
        return _distances(self.points)

    def _distance(self, pair: int, low: int) -> float:
        """The distance of one pair, which is the candidate number ``low`` or a later one."""
        return _least(self._candidates, low, lambda c: bool(self.within_distance(c, np.array([pair]))[0]))

    def within_distance(self, distance: float, pairs: npt.NDArray[np.int64]) -> Mask:
        """Whether each of these pairs is at most this far apart."""
        first, last = _windows(self.points, distance)
        out = np.ones(len(pairs), dtype=bool)
        step = max(1, 2_000_000 // max(1, len(self.points)))  # level tables of a few hundred megabytes at most
        for begin in range(0, len(pairs), step):
            rows = pairs[begin : begin + step]
            f, g = self.first[rows], self.second[rows]
            out[begin : begin + step] = self._fits(f, g, first, last) & self._fits(g, f, first, last)
        return out

    def _fits(self, f: Logs, g: Logs, first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]) -> Mask:
        """Whether every interval of f fits into the widened interval of g: the largest excess, point by point."""
        g = g + self._share
        window = log_window_sums(g, first, last)
        gained = log_window_sums(g, np.concatenate([[0], last[:-1] + 1]), last)
        scale = np.maximum(f, window)
        ok = np.ones(len(f), dtype=bool)
        excess, unit = np.zeros(len(f)), np.full(len(f), -np.inf)
        for v in range(f.shape[1]):
            here = scale[:, v]
            nothing = np.isneginf(here)
            here = np.where(nothing, np.where(np.isneginf(unit), 0.0, unit), here)
            mass = np.exp(f[:, v] - here)
            with np.errstate(over="ignore"):  # an interval with more spare mass than a double can hold
                before = excess * np.exp(np.minimum(np.where(np.isneginf(unit), 0.0, unit) - here, _STEEP))
            longer = before + mass - np.exp(gained[:, v] - here)
            anew = mass - np.exp(window[:, v] - here)
            # Cut at ±1e300, so that it stays a number: spare mass may look smaller by it, never larger.
            excess, unit = np.clip(np.maximum(longer, anew), -1e300, 1e300), here
            ok &= excess <= 0
        return ok


def log_window_sums(logs: Logs, first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]) -> Logs:
    """Log of the sums over [first, last] along the last axis, from sums over powers of two: nothing is subtracted."""
    lengths = last - first + 1
    out = np.full((*logs.shape[:-1], len(first)), -np.inf)
    begin, level, width = first.copy(), logs, 1
    while width <= int(lengths.max(initial=0)):
        chosen = np.flatnonzero(lengths & width)
        if len(chosen):
            out[..., chosen] = np.logaddexp(out[..., chosen], level[..., begin[chosen]])
            begin[chosen] += width
        if level.shape[-1] <= width:
            break
        level = np.logaddexp(level[..., :-width], level[..., width:])
        width *= 2
    return out


def _distances(points: Points) -> Points:
    """Every distance between two points, rising."""
    if points.dtype.kind == "i":
        return np.arange(int(points[-1] - points[0]) + 1)
    return np.asarray(np.unique(np.abs(points[:, None] - points[None, :])))


def _least(candidates: Points, low: int, enough: Callable[[float], bool]) -> float:
    """The least candidate from number ``low`` on that is enough, where the last one is."""
    numbers = range(len(candidates) - 1)
    return float(candidates[bisect_left(numbers, True, lo=low, key=lambda n: enough(float(candidates[n])))])


def _windows(points: Points, distance: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For every point the first and the last point no farther away than ``distance``."""
    if points.dtype.kind == "i":
        whole = math.floor(distance)
        first = np.searchsorted(points, points - whole, side="left")
        return first.astype(np.int64), (np.searchsorted(points, points + whole, side="right") - 1).astype(np.int64)
    # The same subtraction as in the list of distances, so that a distance is never missed by its last digit.
    near = np.abs(points[:, None] - points[None, :]) <= distance
    return np.argmax(near, axis=1).astype(np.int64), (len(points) - 1 - np.argmax(near[:, ::-1], axis=1)).astype(
        np.int64
    )


def coupling(points: Sequence[float], first: Sequence[float], second: Sequence[float]) -> list[tuple[int, int, float]]:
    """The quantile coupling as (from, to, mass): walk both and always pair what is left. For figures."""
    a, b = [Fraction(p) for p in first], [Fraction(p) for p in second]
    a, b = [p / sum(a) for p in a], [p / sum(b) for p in b]
    plan, i, j = [], 0, 0
    while i < len(points) and j < len(points):
        mass = min(a[i], b[j])
        if mass > 0:
            plan.append((i, j, float(mass)))
        a[i], b[j] = a[i] - mass, b[j] - mass
        i, j = i + (a[i] == 0), j + (b[j] == 0)
    return plan


MOST_POINTS: Final = 250
"""Distributions on more points are declined: the flow would take minutes."""
_ONE: Final = 2**1200
"""The whole number that stands for mass 1."""


def worst_flow(
    points: npt.NDArray[np.float64], first: Logs, second: Logs, slack: float, floor: float = 0.0
) -> WorstPair | None:
    """The largest distance among pairs of distributions (row n against row n), if it passes ``floor``."""
    lengths = np.abs(points[:, None, :] - points[None, :, :]).sum(axis=-1)
    candidates = np.unique(lengths)
    worst, reached = None, floor
    for pair, (f, g) in enumerate(zip(first, second, strict=True)):
        supply, demand = [_whole(p) for p in f], [_whole(p) for p in g]
        enough = partial(_transportable, lengths, supply, demand, slack)
        if not enough(reached):
            reached = _least(candidates, int(np.searchsorted(candidates, reached, side="right")), enough)
            worst = WorstPair(reached, pair)
    return worst


def _whole(log_mass: float) -> int:
    return 0 if np.isneginf(log_mass) else max(1, int(Fraction(float(np.exp(log_mass))) * _ONE))


def _transportable(lengths: Floats, supply: list[int], demand: list[int], slack: float, distance: float) -> bool:
    """Whether each of two distributions fits into the other, widened by ``distance`` and enlarged by 1+slack."""
    near, more = lengths <= distance, Fraction(1 + slack)
    return _fits(near, supply, [int(d * more) for d in demand]) and _fits(
        near.T, demand, [int(s * more) for s in supply]
    )


def _fits(near: npt.NDArray[np.bool_], supply: Sequence[int], capacity: Sequence[int]) -> bool:
    """Whether all supply fits into the capacities along near edges, by augmenting paths (Ford & Fulkerson 1956)."""
    free, edges = list(capacity), [np.flatnonzero(row).tolist() for row in near]
    sent: list[dict[int, int]] = [{} for _ in free]  # for each sink: from which source how much
    for source, left in enumerate(supply):
        while left:
            path = _augmenting_path(source, edges, free, sent)
            if path is None:
                return False
            # Each source on the path sends to its sink, and takes as much back from the sink before.
            back = [(i, j) for (i, _), (_, j) in zip(path[1:], path, strict=False)]
            amount = min(left, free[path[-1][1]], *(sent[j][i] for i, j in back))
            for i, j in path:
                sent[j][i] = sent[j].get(i, 0) + amount
            for i, j in back:
                sent[j][i] -= amount
            free[path[-1][1]] -= amount
            left -= amount
    return True


def _augmenting_path(
    source: int, edges: list[list[int]], free: list[int], sent: list[dict[int, int]]
) -> list[tuple[int, int]] | None:
    """A shortest path from a source to a sink with free capacity, as (source, sink) pairs; None where there is none."""
    paths, queue, seen = {source: list[tuple[int, int]]()}, deque([source]), set[int]()
    while queue:
        i = queue.popleft()
        for j in edges[i]:
            if free[j]:
                return [*paths[i], (i, j)]
        for j in edges[i]:
            if j not in seen:
                seen.add(j)
                reached = [other for other, mass in sent[j].items() if mass and other not in paths]
                paths.update((other, [*paths[i], (i, j)]) for other in reached)
                queue.extend(reached)
    return None
