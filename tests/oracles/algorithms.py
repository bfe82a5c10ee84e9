"""All DP algorithms at once: linear programmes over likelihoods of an output, and over events. Nothing shared with src.

An algorithm's likelihood L of one output satisfies L(u) ≤ e^τ_t · L(v) for data sets u, v that differ in record t
alone, and every such L > 0 belongs to some algorithm. So the most that any algorithm leaks to somebody who knows some
records is the largest quotient of two expectations of L: a linear programme. Data sets of probability 0 are variables
like the others: an algorithm must keep its promise there too.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def probability(kernels, law, series):
    """P(series) for the law of the first record and a kernel for each step; cycled where there are fewer."""
    chance = law[series[0]]
    for t, (a, b) in enumerate(itertools.pairwise(series)):
        chance *= kernels[t % len(kernels)][a][b]
    return chance


@functools.lru_cache(maxsize=256)
def neighbours(sizes):
    """Pairs of data sets that differ in one place alone, as (from, to, place); data sets are numbered in C order."""
    table = np.arange(math.prod(sizes)).reshape(sizes)
    found = []
    for place, size in enumerate(sizes):
        moved = np.moveaxis(table, place, 0).reshape(size, -1)
        for a, b in itertools.permutations(range(size), 2):
            found.append(np.stack([moved[a], moved[b], np.full(moved.shape[1], place)]))
    return np.concatenate(found, axis=1) if found else np.zeros((3, 0), dtype=int)


def largest_quotient(top, bottom, losses):
    """log of the largest E_top[L]/E_bottom[L] over all L with these losses; tables have one axis a record."""
    sizes = top.shape
    u, v, place = neighbours(sizes)
    top, bottom = top.ravel(), bottom.ravel()
    many = len(u)
    # e^-τ L(u) ≤ L(v): coefficients of at most 1. HiGHS drops those below 1e-9, so both rows are scaled to 1 at most.
    factors = np.exp(-np.asarray(losses, float))[place]
    rows = np.repeat(np.arange(many), 2)
    columns = np.stack([u, v], axis=1).ravel()
    values = np.stack([factors, -np.ones(many)], axis=1).ravel()
    constraints = coo_array((values, (rows, columns)), shape=(many, len(top))).tocsr() if many else None
    scale = bottom.max()
    found = linprog(
        -top / top.max(),
        A_ub=constraints,
        b_ub=np.zeros(many) if many else None,
        A_eq=(bottom / scale)[None],
        b_eq=[1.0],
        bounds=(0, None),
        method="highs",
        options=TIGHT,
    )
    assert found.status == 0, found.message
    return math.log(-found.fun * top.max() / scale)


def adversaries(n, target, who):
    """Sets of known records: none, all others, or any that leave one stretch around the target unknown.

    Whoever knows less learns less: revealing every record beyond the stretch only helps (``every`` tries all sets).
    """
    others = [t for t in range(n) if t != target]
    if who == "pufferfish":
        return [()]
    if who == "dp":
        return [tuple(others)]
    if who == "every":
        return [known for size in range(n) for known in itertools.combinations(others, size)]
    return [
        tuple(t for t in others if not left <= t <= right) for left in range(target + 1) for right in range(target, n)
    ]


def pairs(joint, losses, target, known):
    """What each pair of values of the target can leak to somebody who knows these records: {(values, x, y): log}."""
    n, k = joint.ndim, joint.shape[0]
    unknown = [t for t in range(n) if t != target and t not in known]
    ordered = np.transpose(joint, [*known, target, *unknown])
    found = {}
    for values in itertools.product(range(k), repeat=len(known)):
        given = ordered[values]
        possible = [x for x in range(k) if given[x].sum() > 0]
        for x, y in itertools.permutations(possible, 2):
            # The target is a record as well: the programme has its two values, and its loss between them.
            top, bottom = np.zeros((2, *given.shape[1:])), np.zeros((2, *given.shape[1:]))
            top[0], bottom[1] = given[x] / given[x].sum(), given[y] / given[y].sum()
            found[values, x, y] = largest_quotient(top, bottom, [losses[target], *(losses[t] for t in unknown)])
    return found


def table(kernels, law, n):
    """The law of all records, one axis each."""
    k = len(law)
    out = np.zeros((k,) * n)
    for series in itertools.product(range(k), repeat=n):
        out[series] = probability(kernels, law, series)
    return out


def leakage(kernels, law, losses, who):
    """The most that any algorithm with these losses leaks about each record."""
    joint, n = table(kernels, law, len(losses)), len(losses)
    return np.array([joint_leakage(joint, losses, t, who) for t in range(n)])


def joint_leakage(joint, losses, target, who):
    """The same for any law of the records and one target."""
    every = [
        found
        for known in adversaries(joint.ndim, target, who)
        for found in pairs(joint, losses, target, known).values()
    ]
    return max(every, default=0.0)


def event_delta(top, bottom, epsilon, losses, deltas):
    """The largest E_top[e] − e^epsilon·E_bottom[e] over events e of all (losses, deltas)-DP algorithms."""
    sizes = top.shape
    u, v, place = neighbours(sizes)
    many = len(u)
    factors, room = np.exp(np.asarray(losses, float))[place], np.asarray(deltas, float)[place]
    rows = np.repeat(np.arange(many), 2)
    columns = np.stack([u, v], axis=1).ravel()
    scale = room.max() if room.max() > 0 else 1.0  # events are as small as the deltas
    values = np.stack([np.ones(many), -factors], axis=1).ravel()
    found = linprog(
        -(top - math.exp(epsilon) * bottom).ravel(),
        A_ub=coo_array((values, (rows, columns)), shape=(many, top.size)).tocsr(),
        b_ub=room / scale,
        bounds=(0, 1 / scale),
        method="highs",
        options=TIGHT,
    )
    assert found.status == 0, found.message
    return -found.fun * scale
