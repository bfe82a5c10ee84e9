"""Monotone iteration with a bound for all later iterates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats

TOLERANCE: Final = 1e-6
"""Relative width of the bracket around the limit of an iteration."""
LARGEST: Final = 700.0
"""Logarithms beyond this have exponentials too large for a double: such an iteration has no useful limit."""


def iterate_monotone(
    step: Callable[[Floats], Floats], first: Floats, count: int, most_steps: int
) -> tuple[list[Floats], bool]:
    """The iterates of a monotone map from ``first``, and whether the last item bounds all later iterates.

    ``first`` must not be above its image, so that iterates rise. By monotonicity any point that a step does not raise,
    and that is above one iterate, bounds all later ones. Such a point is extrapolated from the iterates, checked, and
    then lowered by further steps until it is within the tolerance of the last iterate.

    Args:
        step: a map of arrays that preserves the order of arrays, entry by entry.
        first: the first iterate.
        count: the number of iterates that are needed; fewer are returned where the last item bounds all others.
        most_steps: the number of steps after which the iteration ends.

    Returns:
        ``count`` iterates at most, followed by the bound where one was found before.
    """
    iterates, upper = [first], None
    while len(iterates) < min(count, most_steps):
        iterates.append(step(iterates[-1]))
        if float(iterates[-1].max()) > LARGEST:
            break
        if upper is None and len(iterates) >= 16 and len(iterates) & (len(iterates) - 1) == 0:
            upper = _checked_bound(step, iterates)
        if upper is not None:
            upper = np.minimum(upper, step(upper))
            if float((upper - iterates[-1]).max()) <= TOLERANCE * float(upper.max()):
                break
    if upper is None or len(iterates) == count:
        return iterates, False
    return [*iterates, upper], True


def _checked_bound(step: Callable[[Floats], Floats], iterates: list[Floats]) -> Floats | None:
    """A point above the last iterate that a step does not raise, from geometric extrapolation; None where none is."""
    before, last = iterates[-2] - iterates[-3], iterates[-1] - iterates[-2]
    ratio = min(float(last.max()) / max(float(before.max()), np.finfo(float).tiny), 0.9999)
    above = np.where(iterates[-1] > iterates[0], TOLERANCE * float(iterates[-1].max()), 0.0)
    rest = np.maximum(last, 0.0) * ratio / (1 - ratio) + above
    for factor in (1.3, 3.0):  # the extrapolation falls short while the ratio of the steps still rises
        bound = iterates[-1] + factor * rest
        if float(bound.max()) <= LARGEST and (step(bound) <= bound).all():
            return np.asarray(bound)
    return None
