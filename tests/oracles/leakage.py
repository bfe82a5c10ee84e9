"""What a release leaks, by enumeration: every path, every output that matters, every secret pair, every adversary.

Outputs. With independent noise of scale s on each coordinate, the likelihood of an output given a path is the product
of exp(−|y_j − F_j(path)|/s). Outside the range of F_j all paths are scaled alike, and between neighbouring values of
F_j the ratio of two mixtures is monotone in y_j (a Möbius function of exp(2·y_j/s)), so the supremum over outputs is
reached on the grid of values that the F_j take.

Noise on a histogram that adds up to 0 has the same likelihoods for outputs that add up to T, and no others exist.
"""

from __future__ import annotations

import itertools
import math

import numpy as np


def path_distribution(P, start, T) -> np.ndarray:
    """Probability of every path, one axis a record."""
    distribution = np.asarray(start, float)
    for _ in range(T - 1):
        distribution = distribution[..., None] * np.asarray(P, float)
    return distribution


def answers(k: int, T: int, query: str, values=None) -> np.ndarray:
    """The exact answer on every path, shape (k,)*T + (coordinates,)."""
    grid = np.indices((k,) * T)
    counts = np.stack([(grid == j).sum(axis=0) for j in range(k)], axis=-1).astype(float)
    if query == "histogram":
        return counts
    if query == "sum":
        return (counts @ np.asarray(values, float))[..., None]
    return counts[..., [int(query.split(":")[1])]]


def likelihoods(exact: np.ndarray, scale: float, balanced: bool = False) -> np.ndarray:
    """Unnormalised likelihood of every output that matters given every path: shape paths + (outputs,)."""
    axes = [np.unique(exact[..., j]) for j in range(exact.shape[-1])]
    out = np.array(list(itertools.product(*axes)))
    if balanced:
        # Outputs beyond the range are like those at its end, so an output with a number at 0 stands for some with a
        # smaller sum as well, and one with a number at T for some with a larger sum.
        total = exact.ravel()[: exact.shape[-1]].sum()
        sums = out.sum(axis=1)
        out = out[
            (sums == total) | ((sums > total) & (out.min(axis=1) == 0)) | ((sums < total) & (out.max(axis=1) == total))
        ]
    distance = np.abs(exact[..., None, :] - out).sum(axis=-1)
    return np.exp(-distance / scale)


def leakage(P, start, T: int, query: str, scale: float, *, everyone: bool, values=None, balanced=False) -> float:
    """The largest log-ratio over secrets, outputs and, with ``everyone``, over all sets of known records."""
    shown = likelihoods(answers(len(P), T, query, values), scale, balanced)
    return channel_leakage(path_distribution(P, start, T), shown, "bdp" if everyone else "pufferfish")


def channel_leakage(distribution: np.ndarray, channel: np.ndarray, adversary: str) -> float:
    """What any algorithm leaks: ``distribution`` has one axis a record, ``channel`` the same and one more, the outputs.

    The adversary knows any set of other records (bdp), none (pufferfish) or all (dp).
    """
    joint, n = distribution[..., None] * channel, distribution.ndim
    worst = 0.0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        counts = {"bdp": range(n), "pufferfish": [0], "dp": [n - 1]}[adversary]
        for known in itertools.chain.from_iterable(itertools.combinations(others, m) for m in counts):
            unknown = tuple(j for j in others if j not in known)
            probability, seen = distribution.sum(axis=unknown), joint.sum(axis=unknown)
            place = sum(1 for j in known if j < i)  # where the axis of record i is now
            probability, seen = np.moveaxis(probability, place, 0), np.moveaxis(seen, place, 0)
            k = distribution.shape[i]
            worst = max(worst, _worst_ratio(probability.reshape(k, -1), seen.reshape(k, probability[0].size, -1)))
    return worst


def laplace_channel(counts: np.ndarray, tau: float) -> np.ndarray:
    """Densities of a noisy number, noise of scale 1/tau, at quarter steps from below its range to above it."""
    outputs = np.arange(counts.min() - 2, counts.max() + 2.1, 0.25)
    return tau / 2 * np.exp(-tau * abs(counts[..., None] - outputs))


def geometric_channel(counts: np.ndarray, tau: float) -> np.ndarray:
    """Probabilities of a count with discrete Laplace noise, beyond its range on both sides as well."""
    outputs, q = np.arange(counts.min() - 3, counts.max() + 4), math.exp(-tau)
    return (1 - q) / (1 + q) * q ** abs(counts[..., None] - outputs)


def flipped_channel(counts: np.ndarray, tau: float) -> np.ndarray:
    """Randomised response: each of n records says whether it counts, wrongly with probability 1/(1+e^tau)."""
    n, wrong = counts.ndim, 1 / (1 + math.exp(tau))
    by_count = []
    for c in range(n + 1):
        distribution = np.ones(1)
        for chance in [1 - wrong] * c + [wrong] * (n - c):
            distribution = np.convolve(distribution, [1 - chance, chance])
        by_count.append(distribution)
    return np.array(by_count)[counts]


def _worst_ratio(probability: np.ndarray, seen: np.ndarray) -> float:
    worst = 0.0
    for a, b in itertools.permutations(range(len(probability)), 2):
        both = (probability[a] > 0) & (probability[b] > 0)
        if both.any():
            top = seen[a][both] / probability[a][both][:, None]
            bottom = seen[b][both] / probability[b][both][:, None]
            worst = max(worst, float(np.log(top / bottom).max()))
    return worst


def gk16_sigma(P, start, T: int, epsilon: float) -> float:
    """GK16 from the joint distribution: conditionals of each record given all others, Γ dense, no structure used."""
    k, distribution = len(P), path_distribution(P, start, T)
    supports = [np.flatnonzero(distribution.sum(axis=tuple(j for j in range(T) if j != i)) > 0) for i in range(T)]
    if (distribution[np.ix_(*supports)] == 0).any():
        return math.inf  # some combination of possible values is impossible: the theorem needs them all
    gamma = np.zeros((T, T))
    for i in range(T):
        moved = np.moveaxis(distribution, i, -1)
        total = moved.sum(axis=-1, keepdims=True)
        with np.errstate(invalid="ignore"):
            conditional = moved / total
        for j in range(T):
            if j == i:
                continue
            axis = j if j < i else j - 1
            c = np.moveaxis(conditional, axis, 0)
            for u, v in itertools.permutations(range(k), 2):
                possible = ~np.isnan(c[u]).any(axis=-1) & ~np.isnan(c[v]).any(axis=-1)
                p, q = c[u][possible].ravel(), c[v][possible].ravel()
                with np.errstate(divide="ignore"):  # x/0 is infinite
                    ratios = np.log(p[p > 0] / q[p > 0])
                gamma[i, j] = max(gamma[i, j], 0.5 * ratios.max(initial=-np.inf))
    if not np.isfinite(gamma).all() or np.linalg.norm(gamma, 2) >= 1:
        return math.inf
    return 2 * np.linalg.inv(np.eye(T) - gamma).sum(axis=1).max() / epsilon
