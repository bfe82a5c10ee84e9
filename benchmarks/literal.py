"""What ours are measured against, as it is written in papers, compiled: loops over everything."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=False)
def _sigma(log_powers, log_marginals, epsilon):
    T, k = log_marginals.shape
    worst = 0.0
    for i in range(1, T + 1):
        best = T / epsilon
        for a in range(0, i):  # 0: no left end
            for b in range(0, T - i + 1):  # 0: no right end
                if a == 0 and b == 0:
                    continue
                inside = a + b - 1 if a > 0 and b > 0 else (T - i + a if a > 0 else i + b - 1)
                e = 0.0
                for x in range(k):
                    for y in range(k):
                        if x == y:
                            continue
                        total = 0.0
                        if b > 0:
                            ahead = -np.inf
                            for z in range(k):
                                ahead = max(ahead, log_powers[b, x, z] - log_powers[b, y, z])
                            total += ahead
                        if a > 0:
                            back = -np.inf
                            for z in range(k):
                                back = max(back, log_powers[a, z, x] - log_powers[a, z, y])
                            total += back + log_marginals[i - 1, y] - log_marginals[i - 1, x]
                        e = max(e, total)
                if e < epsilon:
                    best = min(best, inside / (epsilon - e))
        worst = max(worst, best)
    return worst


def literal_sigma(P: np.ndarray, start: np.ndarray, T: int, epsilon: float) -> float:
    """σ of a positive chain for an adversary who knows no record."""
    powers, marginals = [np.eye(len(P))], [start]
    for _ in range(T):
        powers.append(powers[-1] @ P)
        marginals.append(marginals[-1] @ P)
    with np.errstate(divide="ignore"):
        return float(_sigma(np.log(np.array(powers)), np.log(np.array(marginals[:T])), epsilon))


@numba.njit(cache=False)
def _path(first, moves, says):
    n, k = says.shape
    weights, path = np.empty((n, k)), np.empty(n, np.int64)
    for j in range(k):
        weights[0, j] = first[j] + says[0, j]
    for t in range(1, n):
        for j in range(k):
            most = -np.inf
            for i in range(k):
                most = max(most, weights[t - 1, i] + moves[i, j])
            weights[t, j] = most + says[t, j]
    path[n - 1] = np.argmax(weights[n - 1])
    for t in range(n - 2, -1, -1):
        most, path[t] = -np.inf, 0
        for i in range(k):
            weight = weights[t, i] + moves[i, path[t + 1]]
            if weight > most:
                most, path[t] = weight, i
    return path


def literal_path(outputs: np.ndarray, start: np.ndarray, transition: np.ndarray, channel: np.ndarray) -> np.ndarray:
    """Viterbi's recursion, record by record: what hmmlearn's compiled part does."""
    with np.errstate(divide="ignore"):
        return _path(np.log(start), np.log(transition), np.log(channel).T[outputs])
