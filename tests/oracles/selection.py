"""The distribution of a noisy choice of the least score (permute-and-flip), exactly. Nothing shared with src.

Candidates are tried in a random order, and each is taken with probability w = exp(−(score − least)/scale). With arrival
times that are uniform on [0, 1], candidate i is taken with probability w_i ∫ Π_{j≠i} (1 − w_j·u) du: by the time u each
other one has arrived with probability u, and was taken then with probability w_j. A Gauss rule is exact for such a
polynomial.
"""

from __future__ import annotations

import numpy as np


def choice_distribution(scores, scale: float) -> np.ndarray:
    """The probability of each candidate."""
    scores = np.asarray(scores, float)
    weights = np.exp(-(scores - scores.min()) / scale)
    nodes, measure = np.polynomial.legendre.leggauss(len(scores) // 2 + 1)
    times = (nodes + 1) / 2
    passed = 1 - weights[:, None] * times
    out = np.empty(len(scores))
    for i in range(len(scores)):
        out[i] = weights[i] * (np.delete(passed, i, axis=0).prod(axis=0) * measure / 2).sum()
    return out


def rank_scores(data, candidates, share: float) -> np.ndarray:
    """How many ranks each candidate is from being a quantile of a share, counted record by record."""
    out = []
    for candidate in candidates:
        below, up_to = sum(x < candidate for x in data), sum(x <= candidate for x in data)
        out.append(max(0.0, below - share * len(data), share * len(data) - up_to))
    return np.array(out)
