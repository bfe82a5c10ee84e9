"""Flipped series by brute force: every output, every set of known records, every value, one loop each.

Nothing is shared with the library. ``law`` is the law of the first record.
"""

from __future__ import annotations

import itertools
import math

import numpy as np


def joint(P, law, B, n):
    """P(x, z) for every series and every output, as an array with 2n axes (x first)."""
    k, m = len(P), len(B[0])
    out = np.zeros((k,) * n + (m,) * n)
    for x in itertools.product(range(k), repeat=n):
        p = law[x[0]] * math.prod(P[a][b] for a, b in itertools.pairwise(x))
        if p == 0:
            continue
        for z in itertools.product(range(m), repeat=n):
            out[x + z] = p * math.prod(B[a][b] for a, b in zip(x, z, strict=True))
    return out


def table_loss(table, n, k, everyone=True, records=None):
    """The largest log-likelihood ratio of an output between two values of a record, over all adversaries.

    ``table`` holds P(x, z). Returns a dictionary: (value, other value) -> loss.
    """
    worst = dict.fromkeys(itertools.permutations(range(k), 2), -math.inf)
    for i in records or range(n):
        others = [j for j in range(n) if j != i]
        for size in range(len(others) + 1 if everyone else 1):
            for K in itertools.combinations(others, size):
                summed = tuple(j for j in others if j not in K)
                known = table.sum(axis=summed) if summed else table
                # Axes now: i and K in rising order, then outputs.
                axes = sorted([i, *K])
                known = np.moveaxis(known, axes.index(i), 0)
                known = known.reshape(k, k ** len(K), -1)
                prior = known.sum(axis=2)
                for x, y in worst:
                    for v in range(k ** len(K)):
                        if prior[x, v] <= 0 or prior[y, v] <= 0:
                            continue
                        p, q = known[x, v] / prior[x, v], known[y, v] / prior[y, v]
                        there = p > 0
                        if (q[there] == 0).any():
                            worst[x, y] = math.inf
                        elif there.any():
                            worst[x, y] = max(worst[x, y], float(np.log(p[there] / q[there]).max()))
    return {pair: (0.0 if loss == -math.inf else loss) for pair, loss in worst.items()}


def loss(P, law, B, n, everyone=True):
    """The loss of independent noise with channel B."""
    return table_loss(joint(P, law, B, n), n, len(P), everyone)


def flips(rho0, rho1):
    return [[1 - rho0, rho0], [rho1, 1 - rho1]]


def xor_joint(P, N, n):
    """P(x, z) for z = x XOR y, y a stationary chain with transition N; two states."""
    laws = [np.array([M[1][0], M[0][1]]) / (M[1][0] + M[0][1]) for M in (P, N)]
    out = np.zeros((2,) * (2 * n))
    for x in itertools.product(range(2), repeat=n):
        for y in itertools.product(range(2), repeat=n):
            p = laws[0][x[0]] * laws[1][y[0]]
            p *= math.prod(P[a][b] for a, b in itertools.pairwise(x))
            p *= math.prod(N[a][b] for a, b in itertools.pairwise(y))
            out[x + tuple(a ^ b for a, b in zip(x, y, strict=True))] += p
    return out


def worst_start(P, B, n, everyone=True, grid=None):
    """The loss for the worst of many laws of the first record: a lower bound on that for any start."""
    laws = grid if grid is not None else [1 / (1 + math.exp(-e)) for e in np.linspace(-16, 16, 321)]
    found = {(0, 1): 0.0, (1, 0): 0.0}
    for p in laws:
        for pair, value in loss(P, [p, 1 - p], B, n, everyone).items():
            found[pair] = max(found[pair], value)
    return found
