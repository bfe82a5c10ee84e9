"""Designs for private records: windows, and the paper's mechanisms with three regions (Maßny et al. 2024, 3R)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Matrix, Vector
from pufferdp.basics.errors import NotApplicableError
from pufferdp.leakage.redaction.design import Design, RedactionProblem, blocks_of, design_of, drawable
from pufferdp.leakage.redaction.regions import (
    MOST_DISTANCE,
    PrivateCluster,
    Regions,
    nearest,
    private_clusters,
    reach,
    regions,
)
from pufferdp.leakage.redaction.sides import RedactionSide

MarkedRecords = tuple[int, Matrix]
"""First record and redaction probabilities of a stretch; everything else is released."""


def combine(hiding: RedactionProblem, method: str, solve: Callable[[PrivateCluster], MarkedRecords]) -> Design:
    """A design for every cluster, put together; where two meet each record takes the more careful one."""
    parts = [solve(cluster) for cluster in private_clusters(hiding)]
    joined: list[MarkedRecords] = []
    for first, marks in parts:
        if joined and first <= joined[-1][0] + len(joined[-1][1]):
            start, before = joined.pop()
            low, high = min(start, first), max(start + len(before), first + len(marks))
            both = np.zeros((high - low, marks.shape[1]))
            both[start - low : start - low + len(before)] = before
            at = slice(first - low, first - low + len(marks))
            both[at] = np.maximum(both[at], marks)
            joined.append((low, both))
        else:
            joined.append((first, marks))
    blocks = tuple(b for first, marks in joined for b in blocks_of(hiding, first, tighten(hiding, first, marks)))
    design = design_of(hiding, method, blocks)
    if design is None:
        raise AssertionError(f"{method} leaks more than promised; this is a bug in pufferdp")
    return design


def tighten(hiding: RedactionProblem, first: int, marks: Matrix) -> Matrix:
    """More redaction until the promise is kept: a mark too many can say something, a wider window cannot."""
    inside = tuple(p for p in hiding.private if first <= p < first + len(marks))
    cluster = PrivateCluster(hiding=hiding, private=inside)
    marks = marks.copy()
    marks[[p - first for p in inside]] = 1.0
    marks = drawable(marks)
    if cluster.keeps(first, marks):
        return marks
    # At the end of the way a record that was ever redacted is redacted whatever it holds: that is a window.
    whole = np.where(np.any(marks > 0, axis=1)[:, None], 1.0, 0.0) * np.ones(marks.shape)
    rise = whole - marks
    least = cluster.least(first, marks, rise)
    for more in (0.0, 1e-12, 1e-9, 1e-6):  # rounding may ask for a little more
        out = drawable(np.clip(marks + min(1.0, least + more) * rise, 0.0, 1.0))
        if cluster.keeps(first, out):
            return out
    return whole


def window(hiding: RedactionProblem) -> Design:
    """The fewest records redacted whatever they hold; the two sides of the window may differ."""
    return combine(hiding, "window", best_window)


def best_window(cluster: PrivateCluster) -> MarkedRecords:
    """The smallest window around a cluster, by its exact leakage."""
    (i, j), size = windows(cluster)[0], cluster.hiding.chain.size
    return cluster.stretch(np.ones((i, size)), np.ones((j, size)))


def windows(cluster: PrivateCluster, more: int = 0) -> list[tuple[int, int]]:
    """Records redacted to the left and right: the smallest window, and for every left the least right up to more."""
    left, right = cluster.sides
    epsilon = cluster.hiding.epsilon
    low = [nearest(side, epsilon) for side in (left, right)]
    half = [nearest(side, epsilon / 2) for side in (left, right)]
    if max(*half, *low) > MOST_DISTANCE:
        raise NotApplicableError(
            f"more than {MOST_DISTANCE} records would have to be redacted; raise epsilon, or keep the series back",
            value=epsilon,
        )
    pairs = {(left.records, low[1]), (low[0], right.records), (half[0], half[1])}
    total = min(sum(pair) for pair in pairs) + more
    most = [
        max(min(side.records, total - other), least)
        for side, other, least in zip(cluster.sides, low[::-1], low, strict=True)
    ]
    fits = _window_fits(cluster, most)
    j = most[1]
    for i in range(low[0], most[0] + 1):
        # Each secret sees the window end farther away on one side; the two at the ends decide.
        while j > low[1] and fits(i, j - 1):
            j -= 1
        if fits(i, j) and i + j <= total:
            pairs.add((i, j))
    return sorted((pair for pair in pairs if sum(pair) <= total), key=lambda pair: (sum(pair), abs(pair[0] - pair[1])))


def _window_fits(cluster: PrivateCluster, most: list[int]) -> Callable[[int, int], bool]:
    """Whether a window that redacts so many records to the left and right of a cluster keeps the promise."""
    left, right = cluster.sides
    middle = cluster.last - cluster.first
    lefts, rights = (cluster.wholes(most[side] + middle, side) for side in (0, 1))
    nothing = np.zeros(lefts[0].shape)

    def fits(i: int, j: int) -> bool:
        for start, end in cluster.looked_at:
            # A side that is redacted whole says nothing.
            before = nothing if i == left.records else lefts[i + start - cluster.first]
            after = nothing if j == right.records else rights[j + cluster.last - end]
            if cluster.hiding.both_sides((start, end), before, after) > cluster.hiding.epsilon:
                return False
        return True

    if cluster.hiding.known:  # the nearest known record differs from one secret to the next

        def fits(i: int, j: int) -> bool:
            size = cluster.hiding.chain.size
            return bool(cluster.keeps(*cluster.stretch(np.ones((i, size)), np.ones((j, size)))))

    return fits


def relaxed(hiding: RedactionProblem, *, each: bool = False) -> Design:
    """3R by the paper's relaxed bound: one q in closed form or, with ``each``, its convex programme."""
    if hiding.adversary is not Adversary.PUFFERFISH or hiding.known:
        raise NotApplicableError(
            "3r-relaxed holds only for an adversary who knows no record; name that one with adversary='pufferfish', or "
            "take 3r-numerical or 3r-optimal, which are calibrated on the exact leakage",
            value=hiding.adversary,
        )
    return combine(hiding, "3r-relaxed", lambda cluster: best_of(cluster, relaxed_designs(cluster, each=each)))


def numerical(hiding: RedactionProblem) -> Design:
    """3R with the smallest constant q that the exact leakage allows."""
    return combine(hiding, "3r-numerical", lambda cluster: best_of(cluster, numerical_designs(cluster)))


def best_of(cluster: PrivateCluster, designs: Iterator[MarkedRecords]) -> MarkedRecords:
    """The design that releases most."""
    return max(designs, key=lambda design: cluster.released(*design))


def splits(cluster: PrivateCluster) -> list[tuple[float, float]]:
    """The paper's splits of the budget between the sides: half each, or all to one.

    Giving a whole side up is left out where that alone redacts more than half each does.
    """
    left, right = cluster.sides
    epsilon = cluster.hiding.epsilon
    if not left.records or not right.records:
        return [(epsilon if left.records else 0.0, epsilon if right.records else 0.0)]
    most = sum(reach(side, epsilon / 2) - 1 for side in cluster.sides)
    out = [(epsilon / 2, epsilon / 2)]
    out += [(0.0, epsilon)] if left.records < most else []
    return out + ([(epsilon, 0.0)] if right.records < most else [])


def relaxed_designs(cluster: PrivateCluster, *, each: bool = False) -> Iterator[MarkedRecords]:
    """For each split of the budget the design of the relaxed bound."""
    for split in splits(cluster):
        sides = [regions(side, budget) for side, budget in zip(cluster.sides, split, strict=True)]
        marks = []
        for zone, side, budget in zip(sides, cluster.sides, split, strict=True):
            q = relaxed_probabilities(zone, side, budget, each=each)
            marks.append(np.where(zone.allowed, q[:, None], 1.0))
        yield cluster.stretch(*marks)


def relaxed_probabilities(zone: Regions, side: RedactionSide, budget: float, *, each: bool) -> Vector:
    """Probabilities q before S: 1 in L, and in M what −Σ log q_i ≤ budget − δ_t allows for every t in M.

    With z = −log q the sums of z up to each t are bounded, and Σ exp(−z) is to be small. One z for all is the least
    mean bound; the best z are the slopes of the greatest convex minorant of the bounds, whatever convex function is
    summed, so the convex programme needs no solver.
    """
    out = np.ones(len(zone.allowed))
    medium = zone.medium
    if not len(medium):
        return out
    bounds = []
    for n in range(len(medium)):
        if n + 1 < len(medium):
            after = zone.influence[medium[n + 1] - 1][zone.allowed[medium[n + 1] - 1]].max()
        else:
            after = zone.influence[zone.small - 1].max() if zone.small <= side.records else 0.0
        bounds.append(max(0.0, budget - float(after)))
    z = _minorant_slopes(bounds) if each else [min(c / (n + 1) for n, c in enumerate(bounds))] * len(bounds)
    # Rounded up, so that rounding never passes the bound.
    out[medium - 1] = [min(1.0, math.exp(-v) * (1 + 2.0**-50)) for v in z]
    return out


def _minorant_slopes(bounds: list[float]) -> list[float]:
    """Slopes of the greatest convex function through (0, 0) that stays below the bounds at 1, 2 and so on."""
    hull = [(0, 0.0)]
    for n, c in enumerate(bounds, start=1):
        while len(hull) > 1 and (c - hull[-2][1]) * (hull[-1][0] - hull[-2][0]) <= (hull[-1][1] - hull[-2][1]) * (
            n - hull[-2][0]
        ):
            hull.pop()
        hull.append((n, c))
    slopes: list[float] = []
    for (a, u), (b, v) in itertools.pairwise(hull):
        slopes += [(v - u) / (b - a)] * (b - a)
    return slopes


def numerical_designs(cluster: PrivateCluster) -> Iterator[MarkedRecords]:
    """For each split of the budget the regions of the paper with the smallest constant q, by the exact leakage."""
    for split in splits(cluster):
        factor = 1.0
        for _ in range(40):
            zones = [regions(side, factor * budget) for side, budget in zip(cluster.sides, split, strict=True)]
            allowed = [zone.allowed for zone in zones]
            first, base = cluster.stretch(*(np.where(a, 0.0, 1.0) for a in allowed))
            rise = 1.0 - base
            # Known records make regions too wide for the budget: then they are drawn for a smaller one.
            if cluster.keeps(first, np.clip(base + (1 - 2.0**-20) * rise, 0, 1)):
                yield first, base + cluster.least(first, base, rise, 1 - 2.0**-20) * rise
                break
            if cluster.keeps(first, np.ones_like(base)):
                yield first, np.ones_like(base)
            factor *= 0.9
