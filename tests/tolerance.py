"""Numbers on the safe side of a true one, by no more than the tolerance of the tight bound.

A bound is the upper end of a bracket whose ends are ``TOLERANCE`` apart. A search for the largest DP loss leaves the
tolerance over twice, as a share of the leakage; the loss itself is smaller by a little more where the bound is concave.
"""

from __future__ import annotations

import numpy as np

from pufferdp.bounds.tight.series import TOLERANCE

SEARCHED = 4 * TOLERANCE


class Between:
    """Equal to every number, and to every array of numbers, between two ends."""

    __array_ufunc__ = None
    __hash__ = None

    def __init__(self, low: object, high: object) -> None:
        self.low, self.high = low, high

    def __eq__(self, other: object) -> bool:
        return bool(np.all((self.low <= np.asarray(other)) & (np.asarray(other) <= self.high)))

    def __repr__(self) -> str:
        return f"between {self.low} and {self.high}"


def upper_end(true: object, digits: float = 1e-6) -> Between:
    """Not less than a true leakage, which is known to so many digits, and at most the tolerance more."""
    return Between(np.multiply(true, 1 - digits), np.multiply(true, (1 + TOLERANCE) * (1 + digits)))


def lower_end(true: object, digits: float = 1e-6) -> Between:
    """Not more than a true leakage, and at most the tolerance less."""
    return Between(np.multiply(true, 1 - TOLERANCE - digits), np.multiply(true, 1 + digits))


def safe_loss(true: object, digits: float = 1e-6) -> Between:
    """Not more than the largest loss that is allowed, and hardly less; a leakage of it as well."""
    return Between(np.multiply(true, 1 - SEARCHED - digits), np.multiply(true, 1 + digits))


def safe_scale(true: object, digits: float = 1e-6) -> Between:
    """Not less than the least noise that is allowed, and hardly more."""
    return Between(np.multiply(true, 1 - digits), np.multiply(true, 1 + SEARCHED + digits))


def both_upper_ends(other: object, digits: float = 1e-6) -> Between:
    """An upper end of the same bracket from another search: either may be larger, by the tolerance."""
    return Between(np.multiply(other, 1 - TOLERANCE - digits), np.multiply(other, 1 + TOLERANCE + digits))
