"""Literal quilt algorithms over Markov chains: every record, every quilt, every value, one loop each.

Nothing here is clever. Conventions: only values of positive probability count, 0/0 is skipped, x/0 is infinite.
``start`` is a distribution (a list), or ``"any"``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

INF = math.inf


def power(P, n):
    out = np.eye(len(P))
    for _ in range(n):
        out = out @ P
    return out


def log_ratio(p: float, q: float, impossible: float = INF) -> float | None:
    """log p/q; None when there is nothing to compare."""
    if p <= 0:
        return None
    if q <= 0:
        return impossible
    return math.log(p / q)


def largest(values, default=-INF):
    found = [v for v in values if v is not None]
    return max(found) if found else default


class Literal:
    """The formulas of the theory notes, evaluated as written, for one chain of one length."""

    def __init__(self, P, start, T):
        self.P, self.start, self.T = np.asarray(P, float), start, T
        self.k = len(self.P)
        self.pow = [power(self.P, n) for n in range(T + 1)]
        if isinstance(start, str):
            self.marginal = None
            self.support = [[bool((self.pow[i][:, x] > 0).any()) for x in range(self.k)] for i in range(T)]
        else:
            self.marginal = [np.asarray(start, float) @ self.pow[i] for i in range(T)]
            self.support = [[bool(m[x] > 0) for x in range(self.k)] for m in self.marginal]

    def values(self, i):  # i counts from 1
        return [x for x in range(self.k) if self.support[i - 1][x]]

    def tilt(self, i, x, xp):
        """log m_i(x')/m_i(x), or its supremum over all starts."""
        if self.marginal is not None:
            return math.log(self.marginal[i - 1][xp] / self.marginal[i - 1][x])
        return largest(log_ratio(self.pow[i - 1][y, xp], self.pow[i - 1][y, x]) for y in range(self.k))

    def end_left(self, i, a, x, xp):
        return largest(log_ratio(self.pow[a][z, x], self.pow[a][z, xp]) for z in self.values(i - a))

    def end_right(self, b, x, xp):
        return largest(log_ratio(self.pow[b][x, y], self.pow[b][xp, y]) for y in range(self.k))

    def left(self, i, a, x, xp, everyone):
        end, beyond = self.end_left(i, a, x, xp), self.tilt(i, x, xp)
        if not everyone:
            return end + beyond
        known = [
            log_ratio(self.pow[far][v, xp], self.pow[far][v, x], impossible=None)
            for far in range(a + 1, i)
            for v in self.values(i - far)
        ]
        return max(0.0, end + max(beyond, largest(known)))

    def right(self, i, b, x, xp, everyone):
        end = self.end_right(b, x, xp)
        if not everyone:
            return end
        known = [
            log_ratio(self.pow[far][xp, v], self.pow[far][x, v], impossible=None)
            for far in range(b + 1, self.T - i + 1)
            for v in range(self.k)
        ]
        return max(0.0, end + max(0.0, largest(known)))

    def quilts(self, i) -> Iterator[tuple[int | None, int | None, int]]:
        T = self.T
        yield None, None, T
        for a in range(1, i):
            yield a, None, T - i + a
        for b in range(1, T - i + 1):
            yield None, b, i + b - 1
        for a, b in itertools.product(range(1, i), range(1, T - i + 1)):
            yield a, b, a + b - 1

    def influence(self, i, a, b, everyone):
        worst = 0.0
        for x, xp in itertools.permutations(self.values(i), 2):
            e = 0.0
            if a is not None:
                e += self.left(i, a, x, xp, everyone)
            if b is not None:
                e += self.right(i, b, x, xp, everyone)
            worst = max(worst, e)
        return worst

    def worst(self, objective, everyone=False):
        """(value, node, quilt): max over records of min over quilts."""
        out = (-INF, None, None)
        for i in range(1, self.T + 1):
            best = min(
                ((objective(n, self.influence(i, a, b, everyone)), (a, b)) for a, b, n in self.quilts(i)),
                key=lambda v: v[0],
            )
            if best[0] > out[0]:
                out = (best[0], i, best[1])
        return out


def score(epsilon):
    return lambda nearby, influence: nearby / (epsilon - influence) if influence < epsilon else INF


def quilt_sigma(P, start, T, epsilon, everyone=False) -> float:
    return Literal(P, start, T).worst(score(epsilon), everyone)[0]


def stationary(P: Sequence[Sequence[float]]) -> np.ndarray:
    """By least squares on π(P−I)=0, Σπ=1: another way than the library's."""
    P = np.asarray(P, float)
    k = len(P)
    A = np.vstack([P.T - np.eye(k), np.ones(k)])
    distribution = np.linalg.lstsq(A, np.append(np.zeros(k), 1.0), rcond=None)[0]
    distribution[np.abs(distribution) < 1e-12] = 0.0
    return distribution / distribution.sum()


def approx_sigma(influence_left, influence_right, T, epsilon) -> float:
    """The same max-min with influences that depend on distances only."""
    s, out = score(epsilon), -INF
    for i in range(1, T + 1):
        best = s(T, 0.0)
        for a in range(1, i):
            best = min(best, s(T - i + a, influence_left(a)))
        for b in range(1, T - i + 1):
            best = min(best, s(i + b - 1, influence_right(b)))
        for a in range(1, i):
            for b in range(1, T - i + 1):
                best = min(best, s(a + b - 1, influence_left(a) + influence_right(b)))
        out = max(out, best)
    return out


def path_log_probability(path, outputs, start, transition, channel):
    """Log P(path and outputs) of a hidden Markov chain."""
    with np.errstate(divide="ignore"):
        moves, says = np.log(transition)[path[:-1], path[1:]], np.log(channel)[path, outputs]
        return float(np.log(start)[path[0]] + moves.sum() + says.sum())
