"""Bounds on all transition probabilities of a chain together, from how often each transition was seen."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Floats
from pufferdp.publish.noise import NoiseDistribution, NoiseKind, Sampler, draw

Counts = npt.NDArray[np.int64]


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
        for y in range(k if n else 0):  # of a state that was never left anything may be true
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


TRANSITIONS_MOVE: Final = 4.0
"""One record that changes takes its transitions, into it and out of it, from two cells and adds them to two others."""


def transition_scale(dp_epsilon: float) -> float:
    """The scale of the noise on each transition count, rounded up."""
    scale = TRANSITIONS_MOVE / dp_epsilon
    exact = Fraction(scale) * Fraction(dp_epsilon) >= Fraction(TRANSITIONS_MOVE)
    return scale if exact else math.nextafter(scale, math.inf)


def noisy_counts(moves: Counts, scale: float, sampler: Sampler) -> Counts:
    """Counts with discrete Laplace noise; some may be negative."""
    distribution = NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=scale, coordinates=moves.size)
    noisy = draw(distribution, [int(n) for n in moves.ravel()], sampler)
    return np.array(noisy, dtype=np.int64).reshape(moves.shape)


def noisy_box(noisy: Counts, confidence: float, scale: float) -> tuple[Floats, Floats]:
    """Bounds on all transition probabilities that hold together with this confidence, from noisy counts.

    A quarter of the risk is that one count is further from the truth than ``cell_error``, a quarter that a row without
    one of its counts is further than ``rest``, half that the bounds from the true counts fail. A lower bound grows with
    successes and falls with failures, and an upper bound likewise, so the worst counts are at the ends. Negative counts
    stay: raised to 0, many of them would make their row too large.
    """
    k = len(noisy)
    risk = (1 - confidence) / (4 * k * k)
    cell_error, rest = tail_bound(scale, 1, risk), tail_bound(scale, k - 1, risk) if k > 1 else 0
    bounds = Bounds(math.log(2 * k * k / (1 - confidence)))
    low, high = np.zeros((k, k)), np.ones((k, k))
    for x in range(k):
        total = int(noisy[x].sum())
        for y in range(k):
            s, f = int(noisy[x, y]), total - int(noisy[x, y])
            if s > cell_error:
                low[x, y] = bounds(s - cell_error, max(f + rest, 0))[0]
            if f > rest:
                high[x, y] = bounds(max(s + cell_error, 0), f - rest)[1]
    return low, high


def tail_bound(scale: float, terms: int, risk: float) -> int:
    """A distance that a sum of so many discrete Laplace variables stays within, but for this risk.

    Chernoff: P(|S| ≥ t) ≤ 2·M(l)^terms·exp(−l·t), M(l) = (1−q)²/((1−q·e^l)(1−q·e^−l)), q = exp(−1/scale).
    """
    from scipy.optimize import minimize_scalar

    q = math.exp(-1 / (scale * (1 + 2**-50)))

    def distance(share: float) -> float:
        slope = share / scale
        log_moment = 2 * math.log1p(-q) - math.log1p(-q * math.exp(slope)) - math.log1p(-q * math.exp(-slope))
        return (terms * log_moment + math.log(2 / risk)) / slope

    best = minimize_scalar(distance, bounds=(1e-6, 1 - 1e-6), method="bounded")
    return math.ceil(distance(float(best.x)))  # whichever slope was found, the bound holds there
