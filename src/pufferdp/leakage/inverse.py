"""From a leakage that is allowed back to the loss that may be spent."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

_TRIES: Final = 200
_STEPS: Final = 60
_SHARE: Final = 1e-12
"""A loss larger by this share was seen to leak too much."""


def largest_loss(
    value: Callable[[float], float], allowed: float, share: float = _SHARE, likely: float | None = None
) -> float:
    """The largest loss whose value is at most ``allowed``, where the value never falls and is at least the loss.

    What is given back has been seen to be small enough; 0 where nothing is. Where it is known which loss is ``likely``,
    two looks are mostly enough.
    """
    low = below = 0.0
    if likely is not None and 0 < likely < allowed:
        for loss in (likely, likely * (1 + share)):
            found = value(loss)
            if found > allowed:
                break
            low, below = loss, found
        if 0 < low == likely:
            return low
    high = allowed
    above = value(high)
    if above <= allowed:
        return high
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


def power_root(value: Callable[[float], float], wanted: float, first: float, share: float) -> float:
    """Where a rising function that is nearly a power has a value, by interpolation in logarithms; 0: nowhere."""
    loss, points = first, list[tuple[float, float]]()
    for _ in range(_STEPS):
        found = value(loss)
        if not math.isfinite(found) or found <= 0:
            if loss < 1e-12 * wanted:
                return 0.0
            loss, points = loss / 16, []
            continue
        points = [*points[-2:], (math.log(loss), math.log(found / wanted))]
        if abs(points[-1][1]) <= share:
            return loss
        loss = math.exp(_interpolated(points))
        if len(points) > 1 and abs(points[-2][1] * points[-1][1]) <= share / 2:
            return loss  # what interpolation leaves is as small as the product of the last two errors
    return loss


def _interpolated(points: list[tuple[float, float]]) -> float:
    """Where a rising function through one to three points is 0; its slope is taken to lie between 1/5 and 5."""
    x, y = points[-1]
    slope = 1.0
    if len(points) > 1 and points[-2][0] != x:
        slope = min(max((points[-2][1] - y) / (points[-2][0] - x), 0.2), 5.0)
    guess = x - y / slope
    values = {v for _, v in points}
    if len(points) == 3 and len(values) == 3:  # a parabola through all three, if it says nearly the same
        (x0, y0), (x1, y1), (x2, y2) = points
        parts = (
            x0 * y1 * y2 / ((y0 - y1) * (y0 - y2)),
            x1 * y0 * y2 / ((y1 - y0) * (y1 - y2)),
            x2 * y0 * y1 / ((y2 - y0) * (y2 - y1)),
        )
        if abs(sum(parts) - guess) <= 0.5 * abs(guess - x):
            return sum(parts)
    return guess
