"""The closed form of Maßny et al. 2024 for three regions: one probability by the relaxed bound, equation 4.

``3r-numerical`` with the same regions releases at least as much, so that releases do not offer it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.redaction.design import Design, RedactionProblem
from pufferdp.bounds.redaction.methods import (
    MarkedRecords,
    PrivateCluster,
    Regions,
    best_of,
    combine,
    regions,
    splits,
)
from pufferdp.bounds.redaction.sides import RedactionSide


def relaxed(hiding: RedactionProblem) -> Design:
    """3R with one q in closed form, by the relaxed bound of the paper (equation 4)."""
    if hiding.adversary is not Adversary.PUFFERFISH or hiding.known:
        raise NotApplicableError(
            "3r-relaxed holds only for an adversary who knows no record; name that one with adversary='pufferfish', or "
            "take 3r-numerical or 3r-optimal, which are calibrated on the exact leakage",
            value=hiding.adversary,
        )
    return combine(hiding, "3r-relaxed", lambda cluster: best_of(cluster, relaxed_designs(cluster)))


def relaxed_designs(cluster: PrivateCluster) -> Iterator[MarkedRecords]:
    """For each split of the budget the design of the relaxed bound."""
    for split in splits(cluster):
        marks = []
        for side, budget in zip(cluster.sides, split, strict=True):
            zone = regions(side, budget)
            marks.append(np.where(zone.allowed, relaxed_probability(zone, side, budget), 1.0))
        yield cluster.join_sides(*marks)


def relaxed_probability(zone: Regions, side: RedactionSide, budget: float) -> float:
    """The smallest q with −n·log q ≤ budget − δ_n for every n, where the n-th record of M is followed by δ_n.

    δ_n is the influence on the next record that may be released: the next one in M, the first in S, or none.
    """
    medium, bounds = np.flatnonzero(zone.allowed.any(axis=1)) + 1, []  # distances where some values may be released
    for n in range(len(medium)):
        if n + 1 < len(medium):
            after = zone.influence[medium[n + 1] - 1][zone.allowed[medium[n + 1] - 1]].max()
        else:
            after = zone.influence[zone.small - 1].max() if zone.small <= side.records else 0.0
        bounds.append(max(0.0, budget - float(after)) / (n + 1))
    # Rounded up, so that rounding never passes the bound.
    return min(1.0, math.exp(-min(bounds, default=0.0)) * (1 + 2.0**-50))
