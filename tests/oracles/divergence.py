"""Delta between two beliefs by enumeration: every path, every secret, both directions, as the definition is written.

Conventions: secrets are "record i has value a" with positive probability under the belief; 0/0 is skipped, x/0 is
infinite, and so is a secret that the model rules out. Distributions need not sum to 1: conditioning divides it out.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

INF = math.inf
FAINT = 1e-30
"""A weight so small that only its being positive shows."""


def max_divergence(p, q) -> float:
    """D∞(p ‖ q) of two distributions over the same outcomes, each scaled to sum to 1."""
    P, Q = math.fsum(p), math.fsum(q)
    worst = -INF
    for a, b in zip(p, q, strict=True):
        if a > 0:
            worst = max(worst, INF if b <= 0 else math.log(a / P) - math.log(b / Q))
    return worst


def both_ways(p, q) -> float:
    """The larger of the two directions; infinite where q rules the event out."""
    return INF if sum(q) <= 0 else max(max_divergence(p, q), max_divergence(q, p))


def table_delta(member: dict, model: dict) -> float:
    """Two distributions given as {outcome: probability}."""
    outcomes = sorted(set(member) | set(model))
    worst = 0.0
    for i in range(len(outcomes[0])):
        for a in sorted({o[i] for o in outcomes}):
            inside = [o for o in outcomes if o[i] == a]
            p, q = [member.get(o, 0.0) for o in inside], [model.get(o, 0.0) for o in inside]
            if sum(p) > 0:
                worst = max(worst, both_ways(p, q))
    return worst


def paths(P, start, T: int) -> dict:
    """The weight of every path of a chain."""
    out = {}
    for path in itertools.product(range(len(P)), repeat=T):
        weight = float(start[path[0]])
        for x, y in itertools.pairwise(path):
            weight *= float(P[x][y])
        out[path] = weight
    return out


def chain_delta(P_belief, start_belief, P_model, start_model, T: int) -> float:
    """Two chains that start with given distributions."""
    return table_delta(paths(P_belief, start_belief, T), paths(P_model, start_model, T))


def same_start_delta(P_belief, P_model, T: int) -> float:
    """The supremum over shared start distributions: points, and points with a faint weight on another state."""
    k = len(P_belief)
    starts = [np.eye(k)[z] + FAINT * np.eye(k)[y] * (y != z) for z in range(k) for y in range(k)]
    return max(chain_delta(P_belief, start, P_model, start, T) for start in starts)


def open_start_delta(P_belief, P_model, start_model, T: int) -> float:
    """The supremum over the belief's starts against one model: points, faint mixtures and the uniform distribution."""
    k = len(P_belief)
    starts = [np.eye(k)[z] + FAINT * np.eye(k)[y] * (y != z) for z in range(k) for y in range(k)] + [np.ones(k)]
    return max(chain_delta(P_belief, start, P_model, start_model, T) for start in starts)
