"""Attacks on a stream: likelihoods that are found, so that what they leak is a lower bound on the worst algorithm.

The likelihood of an output may favour any set of values by exp(e_t): vectors of ones and exp(e_t) are the extreme ones,
and each belongs to an output of some algorithm with that DP loss (for two states: randomised response). From the far
end towards the target the best vector of weights for every pair of values is kept. For two states nothing better is
thrown away, so the attack is the worst one.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats
from pufferdp.leakage.streams.bounds import extreme_sets, pair_logs
from pufferdp.leakage.streams.sides import StreamSide

REACH: Final = 600
"""Records on a side that the attack looks at; leaving outputs out only makes it weaker."""
_MOST: Final = 300.0
"""Losses are cut to this: an attack may use less than it could."""
_NEAR: Final = 64
"""Distances at which each record is tried as the known one; farther away only some."""


@dataclass(frozen=True)
class Attack:
    """What a side's best outputs add for each pair of values, and the known record behind it."""

    added: Floats
    known: dict[tuple[int, int], tuple[int, int] | None]
    """For each pair: the distance and the value of the known record; None: none."""


def attack_side(side: StreamSide, nothing: Floats, losses: Floats, possible: npt.NDArray[np.bool_]) -> Attack:
    """The best attack from the records of one side, the farthest first; ``nothing`` are the weights before them."""
    k, n = len(side.table), len(losses)
    favours = extreme_sets(k)
    starts: list[tuple[int, int] | None] = [None]
    kept, bases = nothing[None, None, :], nothing[None]
    for j in range(n):
        kept, bases = (
            _passed(kept, side.table, np.exp((favours - 1) * min(float(losses[j]), _MOST)), favours),
            bases @ side.table.T,
        )
        distance = n - j
        if side.everyone and _tried(distance, k):
            values = np.flatnonzero(possible[j] & side.table.any(axis=0))
            new = side.table.T[values]
            starts += [(distance, int(v)) for v in values]
            kept = np.concatenate([kept, np.repeat(new[:, None, :], kept.shape[1], axis=1)])
            bases = np.concatenate([bases, new])
        bases = bases / bases.max(axis=1, keepdims=True)
    alive = (bases[:, :, None] > 0) & (bases[:, None, :] > 0)
    said = np.where(alive, pair_logs(bases), 0.0)
    added = np.where(alive, pair_logs(kept).max(axis=1) - said, -np.inf)
    which = added.argmax(axis=0)
    pairs = itertools.permutations(range(k), 2)
    return Attack(added.max(axis=0), {(x, y): starts[int(which[x, y])] for x, y in pairs})


def _passed(kept: Floats, table: Floats, favoured: Floats, sums: Floats) -> Floats:
    """Weights after one more record: every likelihood is tried, the best for each pair of values is kept."""
    tried = ((kept[:, :, None, :] * favoured) @ table.T).reshape(len(kept), -1, len(table))
    tried /= tried.max(axis=-1, keepdims=True)
    ratios = pair_logs(tried).reshape(*tried.shape[:2], -1)
    off = [i for i in range(ratios.shape[2]) if i % (len(table) + 1)]
    ratios = ratios[:, :, off]
    if len(table) > 2:
        # What is best for a pair later may now be best for a set of values against the others.
        with np.errstate(divide="ignore"):
            sets = np.log(tried @ sums.T) - np.log(tried @ (1 - sums).T)
        ratios = np.concatenate([ratios, sets], axis=2)
    best = ratios.argmax(axis=1)
    return np.take_along_axis(tried, best[:, :, None], axis=1)


def _tried(distance: int, k: int) -> bool:
    near = _NEAR if k == 2 else _NEAR // (2 * k)
    return distance <= near or distance % (distance // near * 8) == 0
