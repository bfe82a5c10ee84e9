"""Which chains of a listed class can be the worst: a cheap upper bound for all of them at once, highest first.

For a quilt with both ends at distance a: a record that has a left end there is at least a+1 steps from the start, so
whatever the start its marginal is tilted by at most max_y log P^a(y,x')/P^a(y,x); a record nearer to an end of the
chain does better with the one-sided quilt that is left. So one number bounds all records of a chain, and both
adversaries: beyond an end nothing tilts more than at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from pufferdp.checks import Adversary
from pufferdp.leakage.quilts import WorstRecord, worst_record
from pufferdp.leakage.search import Floats, Objective
from pufferdp.models.markov import MarkovChain

_WORTH_IT: Final = 8
_SMALL: Final = 8
_AT_ONCE: Final = 8192


@lru_cache(maxsize=32)
def worst_of_chains(
    chains: tuple[MarkovChain, ...], length: int, objective: Objective, adversary: Adversary
) -> WorstRecord:
    """The worst record of the worst chain. Kept: the quilt mechanism and the quilt curve ask for the same."""
    worst: WorstRecord | None = None
    for bound, chain in worst_first(chains, length, objective, adversary):
        floor = worst.value if worst else -np.inf
        if bound <= floor:
            break
        worst = worst_record(chain, length, objective, adversary, floor) or worst
    assert worst is not None
    return worst


def worst_first(
    chains: Sequence[MarkovChain], length: int, objective: Objective, adversary: Adversary
) -> Iterator[tuple[float, MarkovChain]]:
    """Chains with an upper bound on the objective of their worst record, highest bound first."""
    if len(chains) < _WORTH_IT or chains[0].size > _SMALL:
        yield from ((np.inf, chain) for chain in chains)
        return
    everyone = adversary is Adversary.BDP
    tables = [np.stack([c.transition for c in chains[s : s + _AT_ONCE]]) for s in range(0, len(chains), _AT_ONCE)]
    bounds = np.concatenate([_bounds(table, length, objective, everyone) for table in tables])
    for n in np.argsort(-bounds, kind="stable"):
        yield float(bounds[n]), chains[n]


def _bounds(transitions: Floats, length: int, objective: Objective, everyone: bool) -> Floats:
    best = np.full(len(transitions), objective.one(length, 0.0))
    still = np.arange(len(transitions))  # chains that a wider quilt may still help
    power, distance = transitions, 1
    while True:
        keep = objective(2 * distance - 1, 0.0) < best[still]
        if not keep.all():
            still, power = still[keep], power[keep]
        if not len(still):
            return best * (1 + 1e-9)  # covers the rounding of the powers; this is only a screen
        best[still] = np.minimum(best[still], objective(2 * distance - 1, _influence(power, everyone)))
        power, distance = power @ transitions[still], distance + 1


def _influence(power: Floats, everyone: bool) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(power)
        back = np.fmax.reduce(logs[:, :, :, None] - logs[:, :, None, :], axis=1, initial=-np.inf)
        ahead = np.fmax.reduce(logs[:, :, None, :] - logs[:, None, :, :], axis=3, initial=-np.inf)
        right = ahead + ahead.transpose(0, 2, 1) if everyone else ahead
        total = back + back.transpose(0, 2, 1) + right
    return np.asarray(np.nan_to_num(total, nan=np.inf, posinf=np.inf, neginf=-np.inf).max(axis=(1, 2)))
