"""Bounds on all transition probabilities of a chain together, from how often each transition was seen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def confidence_box(moves: Counts, confidence: float) -> tuple[Floats, Floats]:
    """Bounds on all transition probabilities that hold together with this confidence.

    How often a state is left depends on the path itself, so bounds for a fixed number of trials (Clopper–Pearson) would
    not be honest here. The successors of one state are independent draws in the order of its visits, so for each entry
    the mixture martingale B(s+½, n−s+½)/(B(½,½)·p^s·(1−p)^(n−s)) stays below 1/α at ALL numbers of visits n at once
    with probability 1−α (Ville 1939; Robbins 1970): the bounds hold at whatever n the path stops.
    """
    k = len(moves)
    bounds = Bounds(math.log(k * k / (1 - confidence)))
    low, high = np.zeros((k, k)), np.ones((k, k))
    for x in range(k):
        n = int(moves[x].sum())
        for y in range(k):
            s = int(moves[x, y])
            low[x, y], high[x, y] = bounds(s, n - s)
    return low, high


class Bounds:
    """Bounds on one probability from successes and failures, at a level log(1/α). What was solved is kept."""

    def __init__(self, level: float) -> None:
        self._level = level
        self._solved: dict[tuple[int, int], tuple[float, float]] = {}

    def __call__(self, successes: int, failures: int) -> tuple[float, float]:
        """The lower and the upper bound."""
        from scipy.optimize import brentq
        from scipy.special import betaln

        key = successes, failures
        if key not in self._solved:
            constant = float(betaln(successes + 0.5, failures + 0.5) - betaln(0.5, 0.5)) - self._level
            self._solved[key] = _roots(successes, successes + failures, constant, brentq)
        return self._solved[key]


def _roots(s: int, n: int, constant: float, brentq: Any) -> tuple[float, float]:
    """Where s·log p + (n−s)·log(1−p) falls below ``constant``, on both sides of s/n."""

    def above(p: float) -> float:
        return (s * math.log(p) if s else 0.0) + ((n - s) * math.log1p(-p) if n > s else 0.0) - constant

    share, tiny = s / n, 1e-300
    low = float(brentq(above, tiny, share, xtol=1e-15)) if s and above(tiny) < 0 else 0.0
    high = 1.0
    if s < n:
        high = float(brentq(above, share if share > 0 else tiny, 1 - 1e-16, xtol=1e-15))
    # Bounds are rounded outwards by more than the tolerance of the root.
    return max(0.0, low - 1e-12), min(1.0, high + 1e-12)
