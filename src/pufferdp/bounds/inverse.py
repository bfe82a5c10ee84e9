"""From a leakage that is allowed back to the loss that may be spent."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

_SHARE: Final = 1e-12
"""A loss larger by this share was seen to leak too much."""
_JUMP: Final = 64.0
"""Stands for the logarithm of an infinite ratio."""
_STEPS: Final = 60


def largest_loss(value: Callable[[float], float], allowed: float, share: float = _SHARE) -> float:
    """The largest loss whose value is at most ``allowed``, where the value never falls and is at least the loss.

    The loss returned has been seen to be small enough; it is 0 where none is. Regula falsi between logarithms, where
    most values are nearly powers of the loss. (Importing scipy's brentq would take a third of the time of a release.)
    """

    def excess(loss: float) -> float:
        """The logarithm of value over allowed, cut so that it stays finite."""
        reached = value(loss)
        if reached <= 0:
            return -_JUMP
        return min(_JUMP, math.log(reached / allowed)) if reached < math.inf else _JUMP

    high, above = allowed, excess(allowed)
    if above <= 0:
        return allowed
    low, below, times = high, above, 1.0
    while below > 0:
        high, above = low, below
        low, times = low * math.exp(-max(below, share / 2) * times), 2 * times  # at once where the value is a line
        if low < 1e-300:
            return 0.0
        below = excess(low)
    before = math.inf
    while (width := math.log(high / low)) > share:
        part = -below / (above - below)
        # Overshooting by a little brings the far end near too; a bisection follows slow progress, and finds jumps.
        part += math.copysign(min(1e-3, part / 2, (1 - part) / 2), 0.5 - part)
        part = part if width < before / 2 and above < _JUMP else 0.5
        near, before = min(0.5, share / 2 / width), width
        middle = low * math.exp(width * min(max(part, near), 1 - near))
        found = excess(middle)
        if found <= 0:
            low, below = middle, found
        else:
            high, above = middle, found
    return low


def power_root(value: Callable[[float], float], wanted: float, first: float, share: float) -> float:
    """The loss at which a rising function that is nearly a power is ``wanted``, by secants in logarithms; 0: none."""
    loss, slope, points = first, 1.0, list[tuple[float, float]]()
    for _ in range(_STEPS):
        found = value(loss)
        if not math.isfinite(found) or found <= 0:
            if loss < 1e-12 * wanted:
                return 0.0
            loss, points = loss / 16, []
            continue
        points = [*points[-1:], (math.log(loss), math.log(found / wanted))]
        (x0, y0), (x, y) = points[0], points[-1]
        if abs(y) <= share:
            return loss
        if x0 != x:
            slope = min(max((y0 - y) / (x0 - x), 0.2), 5.0)
        loss = math.exp(x - y / slope)
        if x0 != x and abs(y0 * y) <= share / 2:
            return loss  # a secant leaves an error as small as the product of the last two
    return loss
