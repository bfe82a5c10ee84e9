"""How much more a clipped sum leaks about one record of an AR(1) series: a closed factor (docs/theory/ar1.md).

Changing record i by d moves the mean of a record j steps away by d·φ^j, or by less where a record between the two or
behind it is known; the covariance stays. Missing records move nothing. The factor 1 + Σ|φ|^j over n records is largest
for the record in their middle, where no record is known and none is missing.
"""

from __future__ import annotations

import math
from typing import Final

from pufferdp.basics.adversary import Adversary

_ROUNDING: Final = 2.0**-48
"""Larger than the relative error of a logarithm, an exponential and five operations."""


def ar1_factor(coefficient: float, records: int, adversary: Adversary = Adversary.BDP) -> float:
    """The factor 1 + S(⌊(n−1)/2⌋) + S(⌈(n−1)/2⌉), S(m) = |φ| + … + |φ|^m.

    It rises with n to (1+|φ|)/(1−|φ|) and never exceeds n.


    Args:
        coefficient: φ, between -1 and 1.
        records: n, the number of records read; other records, known or not, add nothing.
        adversary: ``bdp`` and ``pufferfish`` have the same factor, since knowing records never helps.
    """
    strength = abs(coefficient)
    if records == 1 or strength == 0 or adversary is Adversary.DP:
        return 1.0
    half = (records - 1) // 2
    shift = _geometric(strength, half) + _geometric(strength, records - 1 - half)
    return min(float(records), (1 + shift) * (1 + _ROUNDING))


def _geometric(ratio: float, terms: int) -> float:
    """The sum ratio + ratio² + … of m terms: ratio·(1 − ratio^m)/(1 − ratio), without losing digits near 1."""
    rest = 1 - ratio  # exact for ratios of ½ and more
    log = math.log(ratio) if ratio < 0.5 else math.log1p(-rest)
    return ratio * -math.expm1(terms * log) / rest
