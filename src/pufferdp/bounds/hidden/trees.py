"""The cheapest coupling of two laws on at most three points each, for many pairs of laws at once.

The linear programme of ``nothing_known`` has the dual: the largest Σ top(i) g(i) with g(i) ≤ e^W(i,j) h(j), h ≥ 0 and
Σ bottom(j) h(j) = 1. At its best no h(j) is 0, as no g could be above 0 then, so that at a vertex as many inequalities
are tight as make a spanning tree of rows and columns: 81 of them for three points each, 12 for two and three. All are
tried. A vertex that rounding may have made infeasible counts, so that no best one is missed: never too small.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats, read_only

MOST_POINTS: Final = 3
"""Of a law: four points each have 4,096 trees."""
_ROOM: Final = 1e-12
"""Room for the rounding of sums along a path, as a share of the largest cost."""


def tree_costs(tops: Floats, bottoms: Floats, costs: Floats) -> Floats:
    """The largest log of Σ top·g / Σ bottom·h over g for each of many problems; costs are (problem, row, column)."""
    many, rows, columns = costs.shape
    paths = _paths(rows, columns)
    logs = costs.reshape(many, -1) @ paths  # (problem, tree · node)
    logs = logs.reshape(many, -1, rows + columns)
    above, below = logs[:, :, :rows], logs[:, :, rows:]
    room = _ROOM * (1.0 + np.abs(costs).max(axis=(1, 2)))
    apart = above[:, :, :, None] - below[:, :, None, :] - costs[:, None]
    problem, tree = np.nonzero((apart <= room[:, None, None, None]).all(axis=(2, 3)))
    # Few of the trees are feasible, and the others need no sums.
    with np.errstate(divide="ignore"):
        heights = _log_sums(above[problem, tree] + np.log(tops)[problem])
        heights -= _log_sums(below[problem, tree] + np.log(bottoms)[problem])
    found = np.full(many, -np.inf)
    np.maximum.at(found, problem, heights)
    return np.asarray(found + room)


def _log_sums(terms: Floats) -> Floats:
    """Logs of the sums of e^term, row by row."""
    most = terms.max(axis=1, keepdims=True)
    return np.asarray(most[:, 0] + np.log(np.exp(terms - most).sum(axis=1)))


@cache
def _paths(rows: int, columns: int) -> Floats:
    """What costs sum up to the log of each node, (row · column, tree · node): along the path from the first row."""
    edges = list(itertools.product(range(rows), range(columns)))
    found = []
    for tree in itertools.combinations(range(len(edges)), rows + columns - 1):
        values: dict[int, Floats] = {0: np.zeros(len(edges))}
        for _ in tree:
            for edge in tree:
                row, column = edges[edge][0], rows + edges[edge][1]
                step = np.zeros(len(edges))
                step[edge] = 1.0  # log g(row) = W + log h(column)
                if row in values and column not in values:
                    values[column] = values[row] - step
                elif column in values and row not in values:
                    values[row] = values[column] + step
        if len(values) == rows + columns:
            found.append(np.stack([values[node] for node in range(rows + columns)]))
    return read_only(np.concatenate(found).T)
