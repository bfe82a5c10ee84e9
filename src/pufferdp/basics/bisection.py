"""Searches that halve an interval."""

from __future__ import annotations

from collections.abc import Callable


def least_count(enough: Callable[[int], bool], most: int | None = None) -> int:
    """The least whole number from 1 that is enough, where every larger one is too, and ``most`` is."""
    high = 1
    while (most is None or high < most) and not enough(high):
        high *= 2
    low, high = high // 2, high if most is None else min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
