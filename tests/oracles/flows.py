"""Transition flows by brute force: every path, exact distances of distributions, total variation of noisy releases."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array


def flow_distribution(P, start, n: int, given: dict[int, int] | None = None) -> dict[tuple[int, ...], float]:
    """The distribution of the transition counts of a path of n transitions, given some of its states."""
    P, start, given = np.asarray(P, float), np.asarray(start, float), given or {}
    k, distribution = len(P), {}
    for path in itertools.product(*([given[t]] if t in given else range(k) for t in range(n + 1))):
        mass = start[path[0]]
        counts = [0] * (k * k)
        for x, y in itertools.pairwise(path):
            mass *= P[x, y]
            counts[x * k + y] += 1
        if mass > 0:
            distribution[tuple(counts)] = distribution.get(tuple(counts), 0.0) + mass
    total = sum(distribution.values())
    return {counts: mass / total for counts, mass in distribution.items()}


def together(*distributions: dict[tuple[int, ...], float]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The flows that any of the distributions allows, as shares, and the masses of each distribution on them."""
    points = sorted(set().union(*distributions))
    flows = np.array(points, float) / sum(points[0])
    return flows, [np.array([distribution.get(p, 0.0) for p in points]) for distribution in distributions]


def two_chains(first: dict, second: dict) -> dict:
    """The distribution of the counts of two independent chains together."""
    distribution: dict[tuple[int, ...], float] = {}
    for (a, p), (b, q) in itertools.product(first.items(), second.items()):
        counts = tuple(x + y for x, y in zip(a, b, strict=True))
        distribution[counts] = distribution.get(counts, 0.0) + p * q
    return distribution


def w1(first: dict, second: dict) -> float:
    """The Wasserstein distance in L2, by linear programming over all couplings."""
    a, b = sorted(first), sorted(second)
    n = sum(a[0])
    cost = np.linalg.norm((np.array(a)[:, None, :] - np.array(b)[None, :, :]) / n, axis=2)
    rows = np.kron(np.eye(len(a)), np.ones(len(b)))
    columns = np.kron(np.ones(len(a)), np.eye(len(b)))
    p, q = np.array([first[x] for x in a]), np.array([second[x] for x in b])
    # One side may take 1e-11 more than it has: rounding could leave no coupling otherwise, and this moves nothing.
    found = linprog(
        cost.ravel(),
        A_ub=csr_array(rows),
        b_ub=p / p.sum() + 1e-11,
        A_eq=csr_array(columns),
        b_eq=q / q.sum(),
        options={"presolve": False},
    )
    assert found.status == 0
    return float(found.fun)


def total_variation(first: dict, second: dict, sigma: float, per_sigma: int = 6) -> float:
    """Total variation between the noisy flows, by a sum over a grid.

    Coordinates in which the two mixtures do not differ drop out: what is left are the directions between flows, three
    or fewer for two states. The grid reaches seven standard deviations beyond every flow (what is outside has a mass
    below 1e-11) and has ``per_sigma`` steps a standard deviation, and more where there are fewer directions.
    """
    flows, (p, q) = together(first, second)
    centred = flows - flows[0]
    _, singular, directions = np.linalg.svd(centred)
    rank = int((singular > 1e-12).sum())
    assert rank <= 3
    if rank == 0:
        return 0.0
    places = centred @ directions[:rank].T
    step, parts = sigma / (per_sigma * {1: 20, 2: 4, 3: 1}[rank]), []
    for x in places.T:
        line = np.arange(x.min() - 7 * sigma, x.max() + 7 * sigma + step, step)
        parts.append(np.exp(-(((line - x[:, None]) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi)) * step)
    while len(parts) < 3:
        parts.append(np.ones((len(places), 1)))
    # einsum("i,ia,ib,ic->abc") as two products, one plane a time.
    planes = (((p - q)[:, None] * parts[0])[:, :, None] * parts[1][:, None, :]).reshape(len(places), -1)
    return float(np.abs(planes.T @ parts[2]).sum()) / 2


def sampled_variation(first: dict, second: dict, sigma: float, draws: int, generator) -> tuple[float, float]:
    """Total variation estimated from noisy flows, E_p (1 − q/p)+, and the success of the likelihood-ratio attacker.

    Both are means of numbers between 0 and 1, so Hoeffding's inequality says how far off they are.
    """
    flows, masses = together(first, second)
    found, right = [], []
    for own in (0, 1):
        which = generator.choice(len(flows), size=draws, p=masses[own])
        noisy = flows[which] + sigma * generator.standard_normal((draws, flows.shape[1]))
        squares = (noisy**2).sum(axis=1)[:, None] - 2 * noisy @ flows.T + (flows**2).sum(axis=1)
        kernel = np.exp(-(squares - squares.min(axis=1, keepdims=True)) / (2 * sigma**2))
        densities = [kernel @ m for m in masses]
        found.append(np.maximum(0.0, 1 - densities[1 - own] / densities[own]).mean())
        right.append((densities[own] > densities[1 - own]).mean() + 0.5 * (densities[0] == densities[1]).mean())
    return float(np.mean(found)), float(np.mean(right))
