"""Streams by brute force: every series, every output of every step, every set of known records.

Nothing is shared with the library. ``distribution`` is the distribution of the first record; channels hold one row a
value.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from tests.oracles.flips import table_loss


def joint(P, distribution, channels):
    """P(x, y) with one axis a record and then one an output; a channel may be a function of the outputs before."""
    n, k = len(channels), len(P)
    first = channels[0] if not callable(channels[0]) else channels[0](())
    out = np.zeros((k,) * n + (len(first[0]),) * n)
    for x in itertools.product(range(k), repeat=n):
        p = distribution[x[0]] * math.prod(P[a][b] for a, b in itertools.pairwise(x))
        if p > 0:
            for y in itertools.product(range(len(first[0])), repeat=n):
                chance = p
                for t, channel in enumerate(channels):
                    chance *= (channel(y[:t]) if callable(channel) else channel)[x[t]][y[t]]
                out[x + y] = chance
    return out


def leakage(P, distribution, channels, everyone):
    """Backward, forward and total for each step."""
    n, k = len(channels), len(P)
    table = joint(P, distribution, channels)
    found = []
    for t in range(n):
        later, before = tuple(range(n + t + 1, 2 * n)), tuple(range(n, n + t))
        parts = (table.sum(axis=later), table.sum(axis=before), table)
        found.append([max(table_loss(part, n, k, everyone, records=[t]).values(), default=0.0) for part in parts])
    return np.array(found).T


def every_set(k, loss):
    """A channel with an output that speaks for each set of values as strongly as the loss allows, and one for none."""
    sets = [s for s in itertools.product((0, 1), repeat=k) if 0 < sum(s) < k]
    rows = np.exp(loss * np.array(sets, dtype=float)).T
    rows = rows / (2 * rows.sum(axis=1).max())
    # What is left goes to one more output, whose likelihoods must keep the loss as well: enough goes there.
    rows *= min(1.0, (1 - math.exp(-loss)) / 2) if loss > 0 else 0.5
    return np.hstack([rows, 1 - rows.sum(axis=1, keepdims=True)])


def randomised_response(loss):
    keep = math.exp(loss) / (1 + math.exp(loss))
    return [[keep, 1 - keep], [1 - keep, keep]]


def laplace_cells(loss):
    """Value 0 or 1 and Laplace noise of scale 1/loss, seen as at most 0, between, at least 1."""

    def below(z):
        return math.exp(loss * z) / 2 if z < 0 else 1 - math.exp(-loss * z) / 2

    return [[below(0 - x), below(1 - x) - below(0 - x), 1 - below(1 - x)] for x in (0, 1)]


def cao(rows, losses):
    """Cao et al. (2017): one side's leakage, one number: the largest ratio of two rows over weights in [1, e^a]."""
    k, found = len(rows), [losses[0]]
    for loss in losses[1:]:
        most = 0.0
        for x, y in itertools.permutations(range(k), 2):
            for favoured in itertools.product((1.0, math.exp(found[-1])), repeat=k):
                top = sum(p * w for p, w in zip(rows[x], favoured, strict=True))
                bottom = sum(p * w for p, w in zip(rows[y], favoured, strict=True))
                most = max(most, math.log(top / bottom))
        found.append(most + loss)
    return found


def tpl_step(rows, a):
    """The largest log-ratio of two rows over weights in [1, e^a]: the best set of columns has the largest quotients."""
    rows, most, room = np.asarray(rows, float), 0.0, math.expm1(a)
    for x, y in itertools.permutations(range(len(rows)), 2):
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(-np.where(rows[x] > 0, rows[x] / rows[y], 0.0))
        top, bottom = (1 + room * np.cumsum(rows[v][order]) for v in (x, y))
        most = max(most, float((np.log(top) - np.log(bottom)).max()))
    return most


def tpl_forever(rows, loss, rounds=60):
    """A lower bound on what their recursion tends to: it rises, and is stopped after some rounds."""
    a = loss
    for _ in range(rounds):
        now = tpl_step(rows, a) + loss
        if now - a <= 1e-10:
            break
        a = now
    return a
