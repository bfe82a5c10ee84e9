"""Flipped series by brute force: every output, every set of known records, every value.

Nothing is shared with the library. ``distribution`` is the distribution of the first record.
"""

from __future__ import annotations

import itertools
import math

import numpy as np


def joint(P, distribution, B, n):
    """P(x, z) for every series and every output, as an array with 2n axes (x first)."""
    k, m = len(P), len(B[0])
    series = [distribution[x[0]] * math.prod(P[a][b] for a, b in itertools.pairwise(x)) for x in _all(k, n)]
    passed = np.ones((1, 1))
    for _ in range(n):
        passed = np.kron(passed, np.asarray(B, float))
    return (np.array(series)[:, None] * passed).reshape((k,) * n + (m,) * n)


def _all(k, n):
    return itertools.product(range(k), repeat=n)


def table_loss(table, n, k, everyone=True, records=None):
    """The largest log-likelihood ratio of an output between two values of a record, over all adversaries.

    ``table`` holds P(x, z). Returns a dictionary: (value, other value) -> loss. Every set of records is summed out
    once, from the set that has one record less; what is left are a target and the records that are known.
    """
    worst = dict.fromkeys(itertools.permutations(range(k), 2), -math.inf)
    wanted = set(range(n) if records is None else records)

    def visit(known, left, least):
        """``known``: an axis for each record in ``left``, then one for all outputs."""
        if everyone or len(left) == 1:
            for place, i in enumerate(left):
                if i in wanted:
                    _compare(np.moveaxis(known, place, 0).reshape(k, -1, known.shape[-1]), worst)
        for place, i in enumerate(left):
            if i >= least and len(left) > 1:
                visit(known.sum(axis=place), left[:place] + left[place + 1 :], i + 1)

    visit(table.reshape((k,) * n + (-1,)), tuple(range(n)), 0)
    return {pair: (0.0 if loss == -math.inf else loss) for pair, loss in worst.items()}


def _compare(known, worst):
    """P(value of the target, known values, output): what each output says, given what is known."""
    prior = known.sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(known / prior[:, :, None])
        for x, y in worst:
            both = (prior[x] > 0) & (prior[y] > 0)
            said = np.where(known[x] > 0, logs[x] - logs[y], -np.inf)[both]
            worst[x, y] = max(worst[x, y], float(said.max(initial=-math.inf)))


def slow_loss(P, distribution, B, n, everyone=True):
    """The same without arrays, a loop for each thing that can differ: what the quick one is checked against."""
    k, m, worst = len(P), len(B[0]), {}
    mass = {x: distribution[x[0]] * math.prod(P[a][b] for a, b in itertools.pairwise(x)) for x in _all(k, n)}

    def seen(i, value, known, z):
        """P(z and x_i = value and what is known), and the same without z."""
        fits = [x for x in mass if x[i] == value and all(x[j] == v for j, v in known)]
        likely = [mass[x] * math.prod(B[a][b] for a, b in zip(x, z, strict=True)) for x in fits]
        return sum(likely), sum(mass[x] for x in fits)

    for i, (x, y) in itertools.product(range(n), itertools.permutations(range(k), 2)):
        others = [j for j in range(n) if j != i]
        for size in range(len(others) + 1 if everyone else 1):
            for K, values in itertools.product(itertools.combinations(others, size), _all(k, size)):
                for z in _all(m, n):
                    known = list(zip(K, values, strict=True))
                    (p, prior_x), (q, prior_y) = seen(i, x, known, z), seen(i, y, known, z)
                    if prior_x > 0 and prior_y > 0 and p > 0:
                        said = math.inf if q == 0 else math.log(p / prior_x) - math.log(q / prior_y)
                        worst[x, y] = max(worst.get((x, y), -math.inf), said)
    return {pair: worst.get(pair, 0.0) for pair in itertools.permutations(range(k), 2)}


def loss(P, distribution, B, n, everyone=True):
    """The loss of independent noise with channel B."""
    return table_loss(joint(P, distribution, B, n), n, len(P), everyone)


def flips(rho0, rho1):
    return [[1 - rho0, rho0], [rho1, 1 - rho1]]


def xor_joint(P, N, n, distributions=None):
    """P(x, z) for z = x XOR y, y a chain with transition N; stationary unless ``distributions`` are given."""
    if distributions is None:
        distributions = [np.array([M[1][0], M[0][1]]) / (M[1][0] + M[0][1]) for M in (P, N)]
    out = np.zeros((2,) * (2 * n))
    for x in itertools.product(range(2), repeat=n):
        for y in itertools.product(range(2), repeat=n):
            p = distributions[0][x[0]] * distributions[1][y[0]]
            p *= math.prod(P[a][b] for a, b in itertools.pairwise(x))
            p *= math.prod(N[a][b] for a, b in itertools.pairwise(y))
            out[x + tuple(a ^ b for a, b in zip(x, y, strict=True))] += p
    return out


def worst_start(P, B, n, everyone=True, grid=None):
    """The loss for the worst of many distributions of the first record: a lower bound on that for any start."""
    distributions = grid if grid is not None else [1 / (1 + math.exp(-e)) for e in np.linspace(-16, 16, 321)]
    found = {(0, 1): 0.0, (1, 0): 0.0}
    for p in distributions:
        for pair, value in loss(P, [p, 1 - p], B, n, everyone).items():
            found[pair] = max(found[pair], value)
    return found
