"""What a sum with Laplace noise leaks about records that show hidden states."""

from __future__ import annotations

import itertools

import numpy as np

from pufferdp.bounds.tight.inputs import chain
from tests.oracles.algorithms import hidden_table
from tests.oracles.leakage import channel_leakage


def count_leakage(kernels, shown, steps, start, n, tau, adversary):
    """The largest leakage, by enumeration: every series, target, set of known records, and output at half steps."""
    shown = np.asarray(shown)
    kernels = np.asarray(kernels).reshape(-1, len(shown), len(shown))
    joint = hidden_table(kernels, np.eye(int(shown.max()) + 1)[shown], chain(kernels, start).start, n)
    sums = np.asarray(steps)[np.indices(joint.shape)].sum(axis=0)
    outputs = np.arange(sums.min() - 1, sums.max() + 1.5, 0.5)
    return channel_leakage(joint, np.exp(-tau * np.abs(sums[..., None] - outputs)), adversary)


def pattern_leakage(kernel, shown, steps, known, n, tau):
    """What the adversary learns who knows these records, {distance: value} before and after, of n on either side."""
    kernel, shown, steps = np.asarray(kernel), np.asarray(shown), np.asarray(steps)
    prior = chain(kernel, "stationary").start
    before = (prior[:, None] * kernel).T / prior[:, None]
    sides = [_sums(side, shown, steps, some, n) for side, some in zip((before, kernel), known, strict=True)]
    sums = prior[:, None] * np.array([np.convolve(*pair) for pair in zip(*sides, strict=True)])
    outputs = np.arange(-1, sums.shape[1] + steps.max() + 1)[:, None]
    logs = []
    for value in np.unique(shown):
        given = sums[shown == value].sum(axis=0)
        if given.sum() > 1e-250:
            kernels = np.exp(-tau * np.abs(outputs - steps[value] - np.arange(len(given))))
            logs.append(np.log(kernels @ given) - np.log(given.sum()))
    return max((np.max(a - b) for a, b in itertools.permutations(logs, 2)), default=0.0)


def _sums(kernel, shown, steps, known, n):
    """P(sum of the unknown records = s, known records | z) of one side, (h, sums), up to a factor."""
    out = np.ones((len(shown), 1))
    for distance in range(n, 0, -1):
        moved = np.zeros((len(shown), out.shape[1] + steps.max()))
        for u, value in enumerate(shown):
            step = 0 if distance in known else steps[value]
            if known.get(distance, value) == value:
                moved[u, step : step + out.shape[1]] = out[u]
        out = kernel @ moved
        out /= out.max()
    return out
