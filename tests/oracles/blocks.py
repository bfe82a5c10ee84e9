"""All algorithms that have one DP loss for a whole block of records, by linear programmes. Nothing shared with src."""

from __future__ import annotations

import itertools

import numpy as np

from tests.oracles.algorithms import largest_quotients, table


def cut(n, block, phase):
    """Blocks of a series as lists of records; the first has ``phase`` records, or as many as the others."""
    starts = [0, *range(phase or block, n, block)]
    return [list(range(a, b)) for a, b in itertools.pairwise([*starts, n])]


def known_sets(records, who):
    """Sets of records that may be known: none, all, or any at all."""
    if who == "pufferfish":
        return [()]
    if who == "dp":
        return [tuple(records)]
    return [known for size in range(len(records) + 1) for known in itertools.combinations(records, size)]


def block_pairs(joint, blocks, target, loss, known):
    """What each pair of values of a block can leak to somebody who knows some records of others: {(values, x, y)}."""
    k = joint.shape[0]
    here = blocks[target]
    rest = [[t for t in block if t not in known] for b, block in enumerate(blocks) if b != target]
    rest = [block for block in rest if block]
    ordered = np.transpose(joint, [*known, *here, *(t for block in rest for t in block)])
    shape = [k ** len(block) for block in rest]
    problems = {}
    for values in itertools.product(range(k), repeat=len(known)):
        given = ordered[values].reshape(k ** len(here), *shape)
        possible = [x for x in range(len(given)) if given[x].sum() > 0]
        for x, y in itertools.permutations(possible, 2):
            top, bottom = np.zeros((2, *shape)), np.zeros((2, *shape))
            top[0], bottom[1] = given[x] / given[x].sum(), given[y] / given[y].sum()
            problems[values, x, y] = (top, bottom, [loss] * (1 + len(rest)))
    return dict(zip(problems, largest_quotients(list(problems.values())), strict=True))


def block_leakage(kernel, distribution, n, block, phase, loss, who):
    """The most that any algorithm leaks about any block, for one way to cut the series; ``every`` tries all sets.

    Otherwise ``bdp`` is somebody who knows at most one record on either side. What lies beyond a known record of a
    chain is independent of the target, and a likelihood that is averaged over it keeps its guarantee: it is left out.
    """
    joint, blocks = table([kernel], distribution, n), cut(n, block, phase)
    most = 0.0
    for target, here in enumerate(blocks):
        if who != "bdp":
            others = [t for t in range(n) if t not in here]
            for known in known_sets(others, who):
                most = max([most, *block_pairs(joint, blocks, target, loss, known).values()])
            continue
        for left, right in itertools.product(range(-1, here[0]), range(here[-1] + 1, n + 1)):
            inside = range(max(left, 0), min(right, n - 1) + 1)
            window = joint.sum(axis=tuple(t for t in range(n) if t not in inside))
            cut_blocks = [[t - inside[0] for t in b if t in inside] for b in blocks]
            place = sum(1 for b in cut_blocks[:target] if b)
            known = tuple(t - inside[0] for t in (left, right) if 0 <= t < n)
            pairs = block_pairs(window, [b for b in cut_blocks if b], place, loss, known)
            most = max([most, *pairs.values()])
    return most
