"""The largest privacy loss whose leakage is at most an allowed one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final

from pufferdp.bounds.tight import inputs

_LARGEST: Final = 64.0
"""Stands for the logarithm of an infinite or vanishing ratio."""


class LeakageBound(ABC):
    """An upper bound on the leakage of any algorithm, as a function of its privacy loss; it never falls."""

    tolerance: ClassVar[float] = 1e-12
    """Relative tolerance of the inverse."""

    def __call__(self, loss: float) -> float:
        """The bound at this privacy loss; an algorithm without privacy loss leaks nothing."""
        tau = inputs.loss(loss)
        return self._value(tau) if tau > 0 else 0.0

    @abstractmethod
    def _value(self, tau: float) -> float:
        """The bound at a privacy loss above 0."""

    def inverse(self, epsilon: float) -> float:
        """The largest privacy loss whose bound is at most ``epsilon``; 0 where there is none."""
        return largest_loss(self, inputs.target(epsilon), self.tolerance)


def largest_loss(
    leakage: Callable[[float], float],
    allowed: float,
    tolerance: float = 1e-12,
    most: float | None = None,
    guess: float | None = None,
) -> float:
    """The largest loss with a leakage of at most ``allowed``, up to a relative tolerance; 0 where none is found.

    The loss that is returned has been evaluated and is small enough, whether or not the leakage is monotone. Either it
    leaks as much as is allowed, up to the tolerance, or a loss larger by the tolerance leaks too much. Regula falsi
    between logarithms, since most leakages are nearly powers of the loss, with bisections after slow progress. (The
    import of scipy.optimize.brentq would take a third of the time of a release.)

    Args:
        leakage: a function that does not fall.
        allowed: the largest leakage, above 0.
        tolerance: relative tolerance of the loss.
        most: the largest loss to consider; ``allowed`` by default, for leakages that are at least the loss.
        guess: the loss to begin with; ``most`` by default.
    """

    def excess(loss: float) -> float:
        """The logarithm of leakage over allowance, between finite limits; positive only where it is too large."""
        value = leakage(loss)
        if value <= 0:
            return -_LARGEST
        return min(_LARGEST, math.log(value / allowed)) if value < math.inf else _LARGEST

    most = allowed if most is None else most
    low = high = most if guess is None else min(guess, most)
    below = above = excess(low)
    factor = 1.0
    while below > 0:
        high, above = low, below
        low, factor = low * math.exp(-max(below, tolerance / 2) * factor), 2 * factor
        if low < 1e-300:
            return 0.0
        below = excess(low)
    while above <= 0:
        low, below = high, above
        if high >= most:
            return high
        high, factor = min(most, high * math.exp(max(-above, tolerance / 2) * factor)), 2 * factor
        above = excess(high)
    last_width = math.inf
    while -below > tolerance and (width := math.log(high / low)) > tolerance:
        share = (-tolerance / 2 - below) / (above - below)
        share = share if width < last_width / 2 and above < _LARGEST else 0.5
        least, last_width = min(0.5, tolerance / 2 / width), width
        middle = low * math.exp(width * min(max(share, least), 1 - least))
        value = excess(middle)
        if value <= 0:
            low, below = middle, value
        else:
            high, above = middle, value
    return low
