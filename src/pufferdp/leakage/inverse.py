"""From a leakage that is allowed back to the loss that may be spent."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

_TRIES: Final = 200
_SHARE: Final = 1e-12
"""A loss larger by this share was seen to leak too much."""


def largest_loss(value: Callable[[float], float], allowed: float, share: float = _SHARE) -> float:
    """The largest loss whose value is at most ``allowed``, where the value never falls and is at least the loss.

    What is given back has been seen to be small enough; 0 where nothing is.
    """
    high = allowed
    above = value(high)
    if above <= allowed:
        return high
    low = below = 0.0
    for n in range(_TRIES):
        if high <= low * (1 + share) or high < 1e-300:
            break
        middle = math.sqrt(low * high) if low > 0 and n % 3 == 2 else _between(low, below, high, above, allowed)
        found = value(middle)
        if found <= allowed:
            low, below = middle, found
        else:
            high, above = middle, found
    return low


def _between(low: float, below: float, high: float, above: float, allowed: float) -> float:
    """A loss between two: where a power through both would reach what is allowed, and never too near an end."""
    if low <= 0 or below <= 0:
        return high * min(0.5, max(1e-3, allowed / above)) if math.isfinite(above) else high / 4
    span = math.log(high / low)
    if not math.isfinite(above):
        return low * math.exp(span / 2)
    share = math.log(allowed / below) / math.log(above / below)
    near = min(0.5, 1e-13 / span)
    # Too near to the root the other end would never move: overshoot a little. The caller halves now and then.
    if share < 0.5:
        share = max(min(2 * share, share + 1e-3), near)
    else:
        share = min(max(2 * share - 1, share - 1e-3), 1 - near)
    return low * math.exp(span * min(max(share, near), 1 - near))
