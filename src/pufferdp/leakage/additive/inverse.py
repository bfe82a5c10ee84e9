"""From a leakage that is allowed back to the DP loss that may be spent, when the leakage is known as a function.

The leakage of additive Laplace noise never falls with the loss. Noise of a larger scale B is noise of a smaller scale b
plus independent noise: their characteristic functions have the ratio (1+b²t²)/(1+B²t²) = b²/B² + (1−b²/B²)/(1+B²t²),
that of a law which is 0 with probability b²/B² and Laplace otherwise. What is added to an output tells nothing more
about the data. Bounds on a leakage need not share this, so the value returned is one that was looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from pufferdp.basics.errors import NotApplicableError
from pufferdp.leakage.chains.powers import UNIT

NEAR: Final = 1e-7
"""A loss larger by this share was seen to leak too much."""
_LEAST: Final = 1e-9
"""As a share of the largest loss: below it the search is given up."""
_STEPS: Final = 100
_FAR: Final = 50.0
"""Logarithms of leakages are cut here: the search for a root cannot use an infinite one."""


def largest_loss(leak: Callable[[float], float], allowed: float, most: float) -> float:
    """The largest loss up to ``most`` that leaks no more than ``allowed``, up to a factor 1+1e-7 and never above it."""
    seen: dict[float, float] = {}

    def over(loss: float) -> float:
        """The leakage over what is allowed, as a logarithm: Brent's method needs far fewer steps than bisection."""
        if loss not in seen:
            leaks = leak(loss)
            value = max(-_FAR, min(_FAR, math.log(leaks / allowed))) if leaks > 0 else -_FAR
            seen[loss] = value if leaks <= allowed else max(value, UNIT)  # a quotient may round to 1
        return seen[loss]

    if over(most) <= 0:
        return most
    low = high = most
    while over(low) > 0:  # leakages rise about as fast as the loss, seldom more slowly than its root
        high, low = low, low * max(1 / 16, math.exp(-2 * over(low))) * (1 - NEAR)
        if low < most * _LEAST:
            raise NotApplicableError("no DP loss was found to be small enough")
    root = _brent(over, low, high, low * NEAR / 4, NEAR / 4)
    for tried in (root * (1 - NEAR / 3), root * (1 + NEAR / 3)):
        enough, too_much = _ends(seen)
        if too_much > enough * (1 + NEAR) and enough < tried < too_much:
            over(tried)
    while True:
        enough, too_much = _ends(seen)
        if too_much <= enough * (1 + NEAR):
            return enough
        over((enough + too_much) / 2)


def _brent(f: Callable[[float], float], low: float, high: float, near: float, share: float) -> float:
    """Brent's method, step by step as scipy.optimize.brentq has it, whose import takes half a second."""
    before, here, across = low, high, 0.0
    at_before, at_here, at_across = f(before), f(here), 0.0
    step = last_step = 0.0
    if at_before == 0 or at_here == 0:
        return before if at_before == 0 else here
    for _ in range(_STEPS):
        if at_before != 0 and at_here != 0 and (at_before < 0) != (at_here < 0):
            across, at_across = before, at_before
            last_step = step = here - before
        if abs(at_across) < abs(at_here):
            before, here, across = here, across, here
            at_before, at_here, at_across = at_here, at_across, at_here
        least, half = (near + share * abs(here)) / 2, (across - here) / 2
        if at_here == 0 or abs(half) < least:
            break
        tried = math.inf
        if abs(last_step) > least and abs(at_here) < abs(at_before):
            if before == across:  # a line
                tried = -at_here * (here - before) / (at_here - at_before)
            else:  # a parabola that lies on its side
                first, second = (at_before - at_here) / (before - here), (at_across - at_here) / (across - here)
                tried = -at_here * (at_across * second - at_before * first) / (second * first * (at_across - at_before))
        if 2 * abs(tried) < min(abs(last_step), 3 * abs(half) - least):
            last_step, step = step, tried
        else:
            last_step = step = half
        before, at_before = here, at_here
        here += step if abs(step) > least else math.copysign(least, half)
        at_here = f(here)
    return here


def _ends(seen: dict[float, float]) -> tuple[float, float]:
    """The largest loss that does, and the smallest that does not."""
    return max(loss for loss in seen if seen[loss] <= 0), min(loss for loss in seen if seen[loss] > 0)
