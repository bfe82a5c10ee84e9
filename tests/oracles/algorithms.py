"""All DP algorithms at once: linear programmes over likelihoods of an output, and over events. Nothing shared with src.

An algorithm's likelihood L of one output satisfies L(u) ≤ e^τ_t · L(v) for data sets u, v that differ in record t
alone, and every such L > 0 belongs to some algorithm. So the most that any algorithm leaks to somebody who knows some
records is the largest quotient of two expectations of L: a linear programme. Data sets of probability 0 are variables
like the others: an algorithm must keep its guarantee there too.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, eye_array, kron

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
MOST_VARIABLES = 512
"""Of small problems so many variables are put into one programme: larger ones take longer than several."""


def probability(kernels, distribution, series):
    """P(series) for the distribution of the first record and a kernel for each step; cycled where there are fewer."""
    chance = distribution[series[0]]
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
    return largest_quotients([(top, bottom, losses)])[0]


def largest_quotients(problems):
    """The same for several (top, bottom, losses), in their order.

    Problems of one shape and the same losses are solved together: side by side in one programme, where none touches
    another. Setting a programme up takes longer than solving one that is so small.
    """
    alike = {}
    for n, (top, _, losses) in enumerate(problems):
        alike.setdefault((top.shape, tuple(float(loss) for loss in losses)), []).append(n)
    found = [0.0] * len(problems)
    for (sizes, losses), numbers in alike.items():
        together = max(1, MOST_VARIABLES // math.prod(sizes))
        for first in range(0, len(numbers), together):
            chosen = numbers[first : first + together]
            tops, bottoms = (np.array([problems[n][part].ravel() for n in chosen]) for part in (0, 1))
            for n, value in zip(chosen, _solved(tops, bottoms, sizes, losses), strict=True):
                found[n] = value
    return found


def _solved(tops, bottoms, sizes, losses):
    """One row a problem."""
    count, size = tops.shape
    constraints = _side_by_side(sizes, losses, count)
    largest, scale = tops.max(axis=1, keepdims=True), bottoms.max(axis=1, keepdims=True)
    objective = tops / largest
    ends = np.arange(0, count * size + 1, size)
    solution = linprog(
        -objective.ravel(),
        A_ub=constraints,
        b_ub=None if constraints is None else np.zeros(constraints.shape[0]),
        A_eq=csr_array(((bottoms / scale).ravel(), np.arange(count * size), ends), shape=(count, count * size)),
        b_eq=np.ones(count),
        bounds=(0, None),
        method="highs",
        options=TIGHT,
    )
    assert solution.status == 0, solution.message
    # The quotient of what was found: that its lower part is 1 holds up to a tolerance only.
    likelihoods = solution.x.reshape(count, size)
    reached = (objective * likelihoods).sum(axis=1) / (bottoms / scale * likelihoods).sum(axis=1)
    return [math.log(value) for value in reached * (largest / scale)[:, 0]]


@functools.lru_cache(maxsize=256)
def _side_by_side(sizes, losses, count):
    """e^-τ L(u) ≤ L(v) for each of so many likelihoods; None where there are no neighbours."""
    u, v, place = neighbours(sizes)
    many = len(u)
    if not many:
        return None
    # Coefficients of at most 1: HiGHS drops those below 1e-9.
    factors = np.exp(-np.asarray(losses, float))[place]
    rows = np.repeat(np.arange(many), 2)
    columns = np.stack([u, v], axis=1).ravel()
    values = np.stack([factors, -np.ones(many)], axis=1).ravel()
    one = coo_array((values, (rows, columns)), shape=(many, math.prod(sizes)))
    return kron(eye_array(count), one, format="csr")


def adversaries(n, target, who):
    """Sets of known records: none, all others, or any that leave one segment around the target unknown.

    Whoever knows less learns less: revealing every record beyond the segment only helps (``every`` tries all sets).
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
    problems = dict(_programmes(joint, losses, target, known))
    return dict(zip(problems, largest_quotients(list(problems.values())), strict=True))


def _programmes(joint, losses, target, known):
    """The problems behind them."""
    n, k = joint.ndim, joint.shape[0]
    unknown = [t for t in range(n) if t != target and t not in known]
    ordered = np.transpose(joint, [*known, target, *unknown])
    for values in itertools.product(range(k), repeat=len(known)):
        given = ordered[values]
        possible = [x for x in range(k) if given[x].sum() > 0]
        for x, y in itertools.permutations(possible, 2):
            # The target is a record as well: the programme has its two values, and its loss between them.
            top, bottom = np.zeros((2, *given.shape[1:])), np.zeros((2, *given.shape[1:]))
            top[0], bottom[1] = given[x] / given[x].sum(), given[y] / given[y].sum()
            yield (values, x, y), (top, bottom, [losses[target], *(losses[t] for t in unknown)])


def table(kernels, distribution, n):
    """The distribution of all records, one axis each."""
    k = len(distribution)
    out = np.zeros((k,) * n)
    for series in itertools.product(range(k), repeat=n):
        out[series] = probability(kernels, distribution, series)
    return out


def leakage(kernels, distribution, losses, who):
    """The most that any algorithm with these losses leaks about each record."""
    joint, n = table(kernels, distribution, len(losses)), len(losses)
    return np.array([joint_leakage(joint, losses, t, who) for t in range(n)])


def joint_leakage(joint, losses, target, who):
    """The same for any distribution of the records and one target."""
    problems = [
        problem
        for known in adversaries(joint.ndim, target, who)
        for _, problem in _programmes(joint, losses, target, known)
    ]
    return max(largest_quotients(problems), default=0.0)


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


def distributions_given(joint, target, pair):
    """The distributions of all records given two values of one of them."""
    top, bottom = np.zeros_like(joint), np.zeros_like(joint)
    for table, value in ((top, pair[0]), (bottom, pair[1])):
        at = (slice(None),) * target + (value,)
        table[at] = joint[at] / joint[at].sum()
    return top, bottom


def hidden_table(kernel, shown, distribution, n):
    """The distribution of n records, each drawn from its hidden state; kernels that follow each other are cycled."""
    hidden, values = table(kernel if np.ndim(kernel) == 3 else [kernel], distribution, n), shown.shape[1]
    out = np.zeros((values,) * n)
    for states in itertools.product(range(len(distribution)), repeat=n):
        if hidden[states] > 0:
            out += hidden[states] * functools.reduce(np.multiply.outer, [shown[z] for z in states])
    return out


def tree_table(distribution, edges):
    """The distribution of all records of a tree: one for the first record, a kernel for each edge to a new one."""
    size = 1 + len(edges)
    sizes = [len(distribution)] + [0] * len(edges)
    for _, child, kernel in edges:
        sizes[child] = kernel.shape[1]
    out = np.zeros(sizes)
    for values in itertools.product(*(range(k) for k in sizes)):
        out[values] = distribution[values[0]] * math.prod(kernel[values[a], values[b]] for a, b, kernel in edges)
    assert out.ndim == size
    return out


def chain_leakage(kernels, distribution, losses, target, who):
    """The most about one record of a chain; the same as ``joint_leakage``, with far fewer programmes.

    Only the nearest known record on either side matters to somebody who believes in a chain: what lies beyond it is
    independent of the target, and a likelihood that is averaged over it keeps its guarantee for the records between.
    """
    n, k = len(losses), len(distribution)
    windows = [(0, n - 1)]
    if who == "bdp":
        windows = list(itertools.product(range(target + 1), range(target, n)))
    distributions = [np.asarray(distribution, float)]
    for t in range(n - 1):
        distributions.append(distributions[-1] @ kernels[t % len(kernels)])
    problems = []
    for left, right in windows:
        befores = [None] if left == 0 else [u for u in range(k) if distributions[left - 1][u] > 0]
        afters = [None] if right == n - 1 else range(k)
        for u, v in itertools.product(befores, afters):
            joint = _window(kernels, distributions, left, right, u, v)
            if joint.sum() > 0:
                within = _programmes(joint / joint.sum(), losses[left : right + 1], target - left, ())
                problems += [problem for _, problem in within]
    return max(largest_quotients(problems), default=0.0)


def _window(kernels, distributions, left, right, before, after):
    """The distribution of the records between two, both included, with the known ones beside them; not scaled."""
    k, m = len(distributions[0]), len(kernels)
    first = distributions[left] if before is None else np.asarray(kernels[(left - 1) % m])[before]
    out = np.zeros((k,) * (right - left + 1))
    for series in itertools.product(range(k), repeat=right - left + 1):
        chance = first[series[0]]
        for t, (a, b) in enumerate(itertools.pairwise(series)):
            chance *= kernels[(left + t) % m][a][b]
        if after is not None:
            chance *= kernels[right % m][series[-1]][after]
        out[series] = chance
    return out


GOLDEN = (math.sqrt(5) - 1) / 2
ODDS = (0.0, *np.logspace(-7, 7, 15), math.inf)


def any_start_leakage(kernels, losses, target, who, rounds=40):
    """The largest over all distributions of the first record: single values, and two of them at odds found by search.

    Any algorithm's quotient is one of linear functions of the distribution, times the same of the plain distribution;
    with the second held fixed its largest value lies at a distribution of two values. The odds are tried on a grid,
    then by golden sections.
    """
    k = len(kernels[0])
    worst = 0.0
    for u, v in itertools.combinations_with_replacement(range(k), 2):

        def at(odds, u=u, v=v):
            distribution = np.zeros(k)
            distribution[u] += 1.0 if odds == 0 else 0.0 if math.isinf(odds) else 1 / (1 + odds)
            distribution[v] += 0.0 if odds == 0 else 1.0 if math.isinf(odds) else odds / (1 + odds)
            return chain_leakage(kernels, distribution, losses, target, who)

        if u == v:
            worst = max(worst, at(0.0))
            continue
        tried = [at(odds) for odds in ODDS]
        best = int(np.argmax(tried))
        worst = max(worst, tried[best])
        if 0 < best < len(ODDS) - 1:
            low, high = (math.log(ODDS[min(max(best + step, 1), len(ODDS) - 2)]) for step in (-1, 1))
            inside = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
            found = [at(math.exp(place)) for place in inside]
            for _ in range(rounds):
                worst = max(worst, *found)
                if found[0] > found[1]:  # one of the two places inside stays one of the next two
                    high, inside[1], found[1] = inside[1], inside[0], found[0]
                    inside[0] = high - GOLDEN * (high - low)
                    found[0] = at(math.exp(inside[0]))
                else:
                    low, inside[0], found[0] = inside[0], inside[1], found[1]
                    inside[1] = low + GOLDEN * (high - low)
                    found[1] = at(math.exp(inside[1]))
            worst = max(worst, *found)
    return worst
