"""Records with any joint distribution, from the table of outcomes: leakage of a release, noise of each mechanism.

A joint distribution is an array with one axis a record. The builders here give Fractions whose distributions sum to
exactly 1, so that ties are ties. Answers are an array of the same shape with one more axis, the coordinates. Only
values of positive probability count, 0/0 is skipped, x/0 is infinite.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np

from tests.oracles.transport import hall, w_infinity

INF = math.inf


def exact(distributions) -> np.ndarray:
    """Doubles as Fractions, each distribution along the last axis scaled to sum to exactly 1."""
    table = np.vectorize(Fraction, otypes=[object])(np.asarray(distributions))
    return table / table.sum(axis=-1, keepdims=True)


def network_joint(parents, tables, distributions=exact) -> np.ndarray:
    """The product of the tables: one axis a parent each, in the order listed, and the record's own axis last.

    With ``distributions=np.asarray`` in doubles, for large networks.
    """
    sizes = [np.shape(table)[-1] for table in tables]
    joint = np.full(sizes, distributions([1])[0])
    for v, (above, table) in enumerate(zip(parents, tables, strict=True)):
        scope = [*above, v]
        turned = np.transpose(distributions(table), np.argsort(scope))
        joint = joint * turned.reshape([sizes[u] if u in scope else 1 for u in range(len(sizes))])
    return joint


def group_joint(positives) -> np.ndarray:
    """Independent groups, the ones of each spread evenly over its members."""
    joint = np.array(Fraction(1), dtype=object)
    for distribution in positives:
        m, distribution = len(distribution) - 1, exact(distribution)
        part = np.empty((2,) * m, dtype=object)
        for outcome in np.ndindex(part.shape):
            part[outcome] = distribution[sum(outcome)] / math.comb(m, sum(outcome))
        joint = np.multiply.outer(joint, part)
    return joint


def pedigree_joint(members, frequency) -> np.ndarray:
    """Families, allele by allele: (position of the father, of the mother) for each member, None where unknown."""
    p = Fraction(frequency)
    letters = ("BB", "Bb", "bb")

    def passed(parent, outcome):
        """What a parent passes on: either of its alleles, or one from the population."""
        if parent is None:
            return [("B", p), ("b", 1 - p)]
        return [(letter, Fraction(1, 2)) for letter in letters[outcome[parent]]]

    joint = np.empty((3,) * len(members), dtype=object)
    for outcome in np.ndindex(joint.shape):
        chance = Fraction(1)
        for own, (father, mother) in zip(outcome, members, strict=True):
            both = itertools.product(passed(father, outcome), passed(mother, outcome))
            chance *= sum(a * b for (x, a), (y, b) in both if "".join(sorted(x + y)) == letters[own])
        joint[outcome] = chance
    return joint


def chain_joint(P, start, T) -> np.ndarray:
    """Every path of a chain."""
    P, joint = exact(P), exact(start)
    for _ in range(T - 1):
        joint = joint[..., None] * P
    return joint


def exact_stationary(P) -> np.ndarray:
    """The stationary distribution in Fractions; the average over the closed classes where there are several."""
    P = exact(P)
    k = len(P)
    reach = np.linalg.matrix_power(((P > 0) | np.eye(k, dtype=bool)).astype(int), k) > 0
    closed = {tuple(np.flatnonzero(reach[x])) for x in range(k) if (reach[:, x] >= reach[x]).all()}
    distribution = np.full(k, Fraction(0), dtype=object)
    for members in closed:
        m = len(members)
        # π(P − I) = 0, with one equation replaced by the sum; by elimination with the largest pivot.
        rows = [[P[y, x] - (x == y) for y in members] + [Fraction(0)] for x in members]
        rows[-1] = [Fraction(1)] * (m + 1)
        for c in range(m):
            pivot = max(range(c, m), key=lambda r, c=c: abs(rows[r][c]))
            rows[c], rows[pivot] = rows[pivot], rows[c]
            rows[c] = [value / rows[c][c] for value in rows[c]]
            for r in range(m):
                if r != c:
                    rows[r] = [a - rows[r][c] * b for a, b in zip(rows[r], rows[c], strict=True)]
        distribution[list(members)] = [row[-1] / len(closed) for row in rows]
    return distribution


def answers(domains, labels, query: str, values=None) -> np.ndarray:
    """The exact answer on every outcome; ``values`` is a number for each label."""
    shape = tuple(len(domain) for domain in domains)
    grid = np.indices(shape)
    told = [np.array([labels.index(s) for s in domain])[grid[i]] for i, domain in enumerate(domains)]
    counts = np.stack([sum((t == j).astype(int) for t in told) for j in range(len(labels))], axis=-1)
    share = len(domains) if query in ("frequency", "mean") else 1
    if query in ("histogram", "frequency"):
        return counts / share
    if query in ("sum", "mean"):
        return sum(np.asarray(values)[t] for t in told)[..., None] / share
    return counts[..., [labels.index(query.removeprefix("count:"))]]


def moves(exact_answers: np.ndarray) -> list[float]:
    """For each record the most that the answer moves in L1 when it alone changes."""
    out = []
    for i in range(exact_answers.ndim - 1):
        by_state = np.moveaxis(exact_answers, i, 0)
        pairs = itertools.combinations(by_state, 2)
        out.append(float(max((np.abs(a - b).sum(axis=-1).max() for a, b in pairs), default=0)))
    return out


def values_of_records(shape) -> list[tuple[np.ndarray, np.ndarray]]:
    """The default secrets: every two values of every record, as events (arrays of truth values)."""
    grid = np.indices(shape)
    return [(grid[i] == a, grid[i] == b) for i, k in enumerate(shape) for a, b in itertools.combinations(range(k), 2)]


def leakage(joint, exact_answers, scale: float, *, pairs=None, everyone: bool = False) -> float:
    """The largest log-ratio over pairs of secrets, outputs and, with ``everyone``, sets of known records.

    The grid of values that the coordinates take is enough (see ``leakage.py``). Scale 0 shows the answer itself.
    """
    distribution = np.asarray(joint).astype(float)
    axes = [np.unique(exact_answers[..., j]) for j in range(exact_answers.shape[-1])]
    outputs = [axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")]
    distance = sum(np.abs(exact_answers[..., j, None] - y) for j, y in enumerate(outputs))
    seen = distribution[..., None] * (np.exp(-distance / scale) if scale > 0 else distance == 0)
    if not everyone:
        events = values_of_records(distribution.shape) if pairs is None else pairs
        return max((_told(distribution, seen, a, b) for a, b in events), default=0.0)
    worst = 0.0
    for i in range(distribution.ndim):
        others = [j for j in range(distribution.ndim) if j != i]
        for known in itertools.chain.from_iterable(itertools.combinations(others, n) for n in range(distribution.ndim)):
            unknown = tuple(j for j in others if j not in known)
            place = sum(1 for j in known if j < i)  # where the axis of record i is now
            by_state = np.moveaxis(distribution.sum(axis=unknown), place, 0)
            shown = np.moveaxis(seen.sum(axis=unknown), place, 0)
            for a, b in itertools.permutations(range(len(by_state)), 2):
                both = (by_state[a] > 0) & (by_state[b] > 0)
                if both.any():
                    rows = [shown[x][both] / by_state[x][both][..., None] for x in (a, b)]
                    worst = max(worst, _log_ratio(*rows))
    return worst


def _told(distribution, seen, first, second) -> float:
    if not (distribution[first].sum() > 0 and distribution[second].sum() > 0):
        return 0.0
    a, b = (seen[event].sum(axis=0) / distribution[event].sum() for event in (first, second))
    return max(_log_ratio(a, b), _log_ratio(b, a))


def _log_ratio(p, q) -> float:
    """The largest log p/q."""
    p, q = p[p > 0], q[p > 0]
    if not p.size:
        return 0.0
    return INF if (q == 0).any() else float(np.log(p / q).max())


def wasserstein(joint, exact_answers, pairs=None) -> Fraction:
    """The largest W-infinity between the distributions of the answer given two secrets of a pair, in Fractions."""
    events = values_of_records(joint.shape) if pairs is None else pairs
    flat = exact_answers.reshape(joint.size, -1)
    points, place = np.unique(flat, axis=0, return_inverse=True)
    masses = list(zip(place.ravel().tolist(), joint.ravel().tolist(), strict=True))

    def distribution(event):
        out = [Fraction(0)] * len(points)
        for inside, (n, mass) in zip(event.ravel().tolist(), masses, strict=True):
            if inside and mass:
                out[n] += mass
        return out

    worst = Fraction(0)
    for first, second in events:
        p, q = distribution(first), distribution(second)
        if sum(p) and sum(q):
            found = w_infinity(points[:, 0], p, q) if points.shape[1] == 1 else hall(points, p, q)
            worst = max(worst, found)
    return worst


def moral(parents) -> list[set[int]]:
    """The moral graph: a record is linked to its parents, and they to each other."""
    links: list[set[int]] = [set() for _ in parents]
    for v, above in enumerate(parents):
        for a, b in itertools.permutations([v, *above], 2):
            links[a].add(b)
    return links


def skeleton(parents) -> list[set[int]]:
    """The drawn graph without directions, in which parents of a common child are NOT linked: wrong for quilts."""
    return [{*above, *(w for w, over in enumerate(parents) if v in over)} for v, above in enumerate(parents)]


def around(links, i: int, without=()) -> set[int]:
    """What can be reached from a record when others are taken out."""
    found, stack = {i}, [i]
    while stack:
        for w in links[stack.pop()]:
            if w not in found and w not in without:
                found.add(w)
                stack.append(w)
    return found


def influence(joint, i: int, quilt) -> float:
    """The largest log P(quilt | record i = a) / P(quilt | record i = b)."""
    distribution = np.asarray(joint).astype(float)
    rest = tuple(j for j in range(distribution.ndim) if j != i and j not in quilt)
    table = np.moveaxis(distribution.sum(axis=rest), sum(1 for j in quilt if j < i), 0).reshape(
        distribution.shape[i], -1
    )
    rows = [row / row.sum() for row in table if row.sum() > 0]
    return max((_log_ratio(a, b) for a, b in itertools.permutations(rows, 2)), default=0.0)


def quilt_sigma(joint, links, weights, epsilon: float) -> float:
    """Every record, every set of other records as a quilt: max over records of min of nearby/(ε − influence)."""
    distribution, everyone = np.asarray(joint).astype(float), range(len(links))
    return max(min(score for score, _ in quilt_scores(distribution, links, weights, epsilon, i)) for i in everyone)


def quilt_scores(joint, links, weights, epsilon: float, i: int) -> list[tuple[float, tuple[int, ...]]]:
    """(score, quilt) for every set of other records."""
    others = [j for j in range(len(links)) if j != i]
    out = []
    for quilt in itertools.chain.from_iterable(itertools.combinations(others, n) for n in range(len(links))):
        nearby, e = math.fsum(weights[j] for j in around(links, i, quilt)), influence(joint, i, quilt)
        out.append((nearby / (epsilon - e) if e < epsilon else INF, quilt))
    return out


def group_size(links, weights, touched=None) -> float:
    """The most that a connected set of records moves the answer; or all connected sets of some records together."""
    if touched is None:
        return max(math.fsum(weights[j] for j in around(links, i)) for i in range(len(links)))
    return math.fsum(weights[j] for j in set().union(*(around(links, i) for i in touched)))
