"""The signed vector of a pair of values, one record at a time. Nothing shared with src.

It begins as 1 at one value and −μ at the other. Each record multiplies it by the kernel; then entries above 0 gain a
factor of e^loss. The part below is what began as μ, with the gains of the signed vector.
"""

from __future__ import annotations

import numpy as np


def followed(kernel, loss, x, y, logs, last):
    """All steps at some log μ: signed vectors and parts below (last, Q, 2, k), and logs of their scales (last, Q)."""
    logs = np.asarray(logs, float)
    size = np.maximum(logs, 0.0)
    now = np.zeros((len(logs), 2, len(kernel)))
    now[:, 1, y] = np.exp(logs - size)
    now[:, 0, x] = np.exp(-size)
    now[:, 0] -= now[:, 1]
    out, sizes, grown = np.empty((last, *now.shape)), np.empty((last, len(logs))), np.zeros(len(logs))
    for step in range(last):
        now = now @ kernel
        now = np.where(now[:, :1] > 0, now, now * np.exp(-loss))
        scale = np.abs(now).max(axis=(1, 2), keepdims=True)
        # Apart from the loss, which is large in all: a sum of thousands of large numbers would lose digits.
        now, grown = now / scale, grown + np.log(scale[:, 0, 0])
        out[step], sizes[step] = now, size + (step + 1) * loss + grown
    return out, sizes


def changes(steps):
    """How often each entry changes between asked for and not, (Q, k), and the shortest stretch between two changes."""
    asked = steps[:, :, 0] > 0
    turned = asked[1:] != asked[:-1]
    count = turned.sum(axis=0)
    shortest = np.full(count.shape, len(steps))
    for row, entry in zip(*np.nonzero(count > 1), strict=True):
        shortest[row, entry] = np.diff(np.flatnonzero(turned[:, row, entry])).min()
    return count, shortest
