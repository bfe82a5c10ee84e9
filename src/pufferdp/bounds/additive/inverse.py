"""The largest DP loss whose leakage is allowed, where the leakage is known as a function of the DP loss.

The leakage of additive Laplace noise never falls with the DP loss. Noise of a larger scale B is noise of a smaller
scale b plus independent noise: the ratio of their characteristic functions, (1+b²t²)/(1+B²t²) = b²/B² +
(1−b²/B²)/(1+B²t²), belongs to a variable that is 0 with probability b²/B² and Laplace otherwise. Noise added to an
output carries no information about the data. Bounds on a leakage need not be monotone, so the value returned is one
that was evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from pufferdp.basics.errors import NotApplicableError

NEAR: Final = 1e-7
"""The relative tolerance: a loss larger by this share was evaluated and leaks too much."""


def largest_loss(leak: Callable[[float], float], allowed: float, most: float) -> float:
    """The largest loss up to ``most`` that leaks no more than ``allowed``, up to a factor 1+1e-7 and never above it."""
    from scipy import optimize  # half a second to import

    excess: dict[float, float] = {}

    def log_excess(loss: float) -> float:
        """The logarithm of leakage over allowance, from -50 to 50 and never 0, so that a root is a change of sign."""
        if loss not in excess:
            leakage = leak(loss)
            value = max(-50.0, min(50.0, math.log(leakage / allowed))) if leakage > 0 else -50.0
            excess[loss] = min(value, -(2.0**-53)) if leakage <= allowed else max(value, 2.0**-53)
        return excess[loss]

    if log_excess(most) <= 0:
        return most
    low = high = most
    while log_excess(low) > 0:  # leakages grow about as fast as the loss, seldom more slowly than its root
        high, low = low, low * max(1 / 16, math.exp(-2 * log_excess(low))) * (1 - NEAR)
        if low < most * 1e-9:
            raise NotApplicableError("no DP loss was found to be small enough")
    optimize.brentq(log_excess, low, high, xtol=low * NEAR / 4, rtol=NEAR / 4)
    while True:
        enough = max(loss for loss, value in excess.items() if value <= 0)
        too_much = min(loss for loss, value in excess.items() if value > 0)
        if too_much <= enough * (1 + NEAR):
            return enough
        log_excess((enough + too_much) / 2)
