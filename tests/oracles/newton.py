"""Theorem 1 as it stands: each end of each side by Newton's method (Dinkelbach 1967). Nothing shared with src.

With weights f at the end of a side, z what they say about the target, and λ > 0, the signed vector δ_x/z(x) − λ
δ_y/z(y) is followed outwards. The best algorithm reaches the quotient λ as long as the last vector times f is above 0.
Its two parts are kept apart, so that their quotient is the next λ: it rises from 1 to the root in a few rounds.
"""

from __future__ import annotations

import itertools

import numpy as np


def side(steps, losses, ends, x, y):
    """What each end adds, (E,), as a logarithm; −∞ where a value is impossible: kernels and losses go outwards."""
    z = np.asarray(ends, float).T
    for kernel in reversed(steps):
        z = kernel @ z
        z = z / np.where(z.max(axis=0) > 0, z.max(axis=0), 1.0)
    fits = (z[x] > 0) & (z[y] > 0)
    out = np.full(len(fits), -np.inf)
    weights, quotient = np.asarray(ends, float)[fits], np.ones(int(fits.sum()))
    for _ in range(200):
        if not len(quotient):
            return out
        up, down = np.zeros((2, len(quotient), len(z)))
        up[:, x], down[:, y] = 1 / z[x, fits], 1 / z[y, fits]
        for kernel, loss in zip(steps, losses, strict=True):
            up, down = up @ kernel, down @ kernel
            gain = np.where(up > quotient[:, None] * down, 1.0, np.exp(-loss))
            up, down = up * gain, down * gain
            size = np.maximum(up, down).max(axis=1, keepdims=True)
            up, down = up / size, down / size
        found = (up * weights).sum(axis=1) / (down * weights).sum(axis=1)
        if (found <= quotient * (1 + 1e-14)).all():
            out[fits] = np.log(quotient)
            return out
        quotient = np.maximum(found, quotient)
    raise AssertionError("Newton's method does not end")


def sides(kernels, distribution, losses, target, who):
    """The most that either side adds to one record by values, two of (k, k): −∞ where a value is impossible."""
    n, m, k = len(losses), len(kernels), len(distribution)
    kernels = [np.asarray(kernel, float) for kernel in kernels]
    possible = [np.asarray(distribution) > 0]
    for t in range(n - 1):
        possible.append(possible[-1] @ (kernels[t % m] > 0))
    out = np.full((2, k, k), -np.inf)
    for after in (0, 1):
        most = n - 1 - target if after else target
        for unknown in range(most + 1):
            places = [target + d if after else target - d for d in range(1, unknown + 1)]
            steps = [kernels[(t - 1) % m] if after else kernels[t % m].T for t in places]
            if unknown == most:
                ends = [np.ones(k) if after else np.asarray(distribution, float)]
            elif who == "bdp":
                end = target + unknown + 1 if after else target - unknown - 1
                known = np.flatnonzero(possible[end])
                ends = [kernels[(end - 1) % m][:, v] if after else kernels[end % m][v] for v in known]
            else:
                continue
            for x, y in itertools.permutations(range(k), 2):
                added = side(steps, [losses[t] for t in places], ends, x, y).max(initial=-np.inf)
                out[after, x, y] = max(out[after, x, y], added)
    return out


def leakage(kernels, distribution, losses, who):
    """The most that any algorithm with these losses leaks about each record of a chain (Theorem 2)."""
    found = [
        losses[t] + sides(kernels, distribution, losses, t, who).sum(axis=0).max(initial=-np.inf)
        for t in range(len(losses))
    ]
    return np.maximum(found, 0.0)


def any_start(kernels, losses, who, odds=61, farthest=12):
    """The largest over distributions of the first record: single values, and two of them at some odds."""
    k = len(kernels[0])
    logs = np.linspace(-farthest, farthest, odds)
    shares = list(zip(1 / (1 + np.exp(logs)), 1 / (1 + np.exp(-logs)), strict=True))
    distributions = [*np.eye(k)]
    for u, v in itertools.combinations(range(k), 2):
        distributions += [first * np.eye(k)[u] + second * np.eye(k)[v] for first, second in shares]
    return np.max([leakage(kernels, distribution, losses, who) for distribution in distributions], axis=0)
