"""W-infinity between two discrete distributions in Fractions: by the quantile coupling, and by Hall's condition."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from fractions import Fraction

import numpy as np


def log_of(mass: Fraction) -> float:
    """The logarithm of a positive Fraction, however small: -inf for 0."""
    if not mass:
        return -math.inf
    power = mass.numerator.bit_length() - mass.denominator.bit_length()
    return math.log(float(mass / Fraction(2) ** power)) + power * math.log(2)


def scaled(first, second) -> tuple[list[Fraction], list[Fraction]]:
    """Both distributions as Fractions that sum to exactly 1."""
    p, q = [[Fraction(mass) for mass in distribution] for distribution in (first, second)]
    return [mass / sum(p) for mass in p], [mass / sum(q) for mass in q]


def w_infinity(points, first, second) -> Fraction:
    """On the line, points rising: walk both distributions and pair the remaining masses; the longest move."""
    x = [Fraction(point) for point in points]
    p, q = scaled(first, second)
    i = j = 0
    worst = Fraction(0)
    while i < len(x) and j < len(x):
        mass = min(p[i], q[j])
        if mass:
            worst = max(worst, abs(x[i] - x[j]))
        p[i], q[j] = p[i] - mass, q[j] - mass
        i, j = i + (not p[i]), j + (not q[j])
    return worst


def hall(points, first, second, more: Fraction = Fraction(1)) -> Fraction:
    """In L1: the least c such that every set of points of one distribution fits into its c-neighbourhood.

    With ``more`` above 1 a set may exceed its place by that factor, both ways round.
    """
    p, q = scaled(first, second)
    distance = _distances(points)
    for c in sorted({d for row in distance for d in row}):
        near = [[d <= c for d in row] for row in distance]
        if _fits(near, p, q, more) and (more == 1 or _fits(near, q, p, more)):
            return c
    raise AssertionError("the largest distance is always enough")


def _distances(points) -> list[list[Fraction]]:
    rows = [[Fraction(x) for x in np.atleast_1d(point).tolist()] for point in points]
    return [[sum((abs(a - b) for a, b in zip(u, v, strict=True)), Fraction(0)) for v in rows] for u in rows]


def _fits(near, p, q, more) -> bool:
    support = [i for i, mass in enumerate(p) if mass]
    assert len(support) <= 8, "every subset is looked at"
    for n in range(1, len(support) + 1):
        for inside in itertools.combinations(support, n):
            room = sum(mass for j, mass in enumerate(q) if any(near[i][j] for i in inside))
            if sum(p[i] for i in inside) > more * room:
                return False
    return True


def intervals(points, first, second, more: Fraction = Fraction(1)) -> Fraction:
    """On the line: the least c such that each interval of one distribution fits into the other's, widened by c."""
    x = [Fraction(point) for point in points]
    p, q = scaled(first, second)
    upto_p, upto_q = (list(itertools.accumulate(distribution, initial=Fraction(0))) for distribution in (p, q))
    candidates = sorted({abs(a - b) for a in x for b in x})
    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        first_near = [bisect_left(x, a - candidates[middle]) for a in x]
        last_near = [bisect_right(x, a + candidates[middle]) for a in x]
        fits = all(
            f[j + 1] - f[i] <= more * (g[last_near[j]] - g[first_near[i]])
            for f, g in ((upto_p, upto_q), (upto_q, upto_p))
            for i in range(len(x))
            for j in range(i, len(x))
        )
        low, high = (low, middle) if fits else (middle + 1, high)
    return candidates[low]
