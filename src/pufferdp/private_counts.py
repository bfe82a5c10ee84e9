"""Transition counts with noise, and bounds on the probabilities behind them that allow for the noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np

from pufferdp.boxes import Bounds, Counts, Floats
from pufferdp.noise import NoiseKind, NoiseLaw, Sampler, draw

TRANSITIONS_MOVE: Final = 4.0
"""One record that changes takes its transitions, into it and out of it, from two cells and adds them to two others."""


def transition_scale(dp_epsilon: float) -> float:
    """The scale of the noise on each transition count, rounded up."""
    scale = TRANSITIONS_MOVE / dp_epsilon
    exact = Fraction(scale) * Fraction(dp_epsilon) >= Fraction(TRANSITIONS_MOVE)
    return scale if exact else math.nextafter(scale, math.inf)


def noisy_counts(moves: Counts, scale: float, sampler: Sampler) -> Counts:
    """Counts with discrete Laplace noise; some may be negative."""
    law = NoiseLaw(kind=NoiseKind.DISCRETE_LAPLACE, scale=scale, coordinates=moves.size)
    noisy = draw(law, [int(n) for n in moves.ravel()], sampler)
    return np.array(noisy, dtype=np.int64).reshape(moves.shape)


def noisy_box(noisy: Counts, confidence: float, scale: float) -> tuple[Floats, Floats]:
    """Bounds on all transition probabilities that hold together with this confidence, from noisy counts.

    A quarter of the risk is that one count is further from the truth than ``one``, a quarter that a row without one of
    its counts is further than ``rest``, half that the bounds from the true counts fail. A lower bound grows with
    successes and falls with failures, and an upper bound likewise, so the worst counts are at the ends. Negative counts
    stay: raised to 0, many of them would make their row too large.
    """
    k = len(noisy)
    risk = (1 - confidence) / (4 * k * k)
    one, rest = far(scale, 1, risk), far(scale, k - 1, risk) if k > 1 else 0
    bounds = Bounds(math.log(2 * k * k / (1 - confidence)))
    low, high = np.zeros((k, k)), np.ones((k, k))
    for x in range(k):
        total = int(noisy[x].sum())
        for y in range(k):
            s, f = int(noisy[x, y]), total - int(noisy[x, y])
            if s > one:
                low[x, y] = bounds(s - one, max(f + rest, 0))[0]
            if f > rest:
                high[x, y] = bounds(max(s + one, 0), f - rest)[1]
    return low, high


def far(scale: float, terms: int, risk: float) -> int:
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
