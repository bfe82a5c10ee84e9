"""How much more a clipped sum leaks about one record of an AR(1) series: a closed factor (docs/theory/ar1.md).

Changing record i by d moves the mean of a record j steps away by d·φ^j, or by less where another record between the two
or behind it is known; nothing else of the law changes. Absent records move nothing. So of n records that are read the
factor 1 + Σ|φ|^j is largest for the one in their middle, nobody known, none absent.
"""

from __future__ import annotations

import math
from typing import Final

from pufferdp.basics.adversary import Adversary

_ROUNDING: Final = 2.0**-48
"""More than a logarithm, an exponential and five operations can be off, as a share."""


def ar1_factor(coefficient: float, records: int, adversary: Adversary = Adversary.BDP) -> float:
    """1 + S(⌊(n−1)/2⌋) + S(⌈(n−1)/2⌉), S(m) = |φ| + … + |φ|^m; it rises to (1+|φ|)/(1−|φ|) and never passes n.

    Args:
        coefficient: φ, between -1 and 1.
        records: n, those that are read; others, known or not, between them or outside, add nothing.
        adversary: whom it is for. Knowing records never helps, so it is the same for bdp and pufferfish.
    """
    strength = abs(coefficient)
    if records == 1 or strength == 0 or adversary is Adversary.DP:
        return 1.0
    half = (records - 1) // 2
    shift = _geometric(strength, half) + _geometric(strength, records - 1 - half)
    return min(float(records), (1 + shift) * (1 + _ROUNDING))


def _geometric(ratio: float, terms: int) -> float:
    """Ratio + ratio² + … so many terms: ratio·(1 − ratio^m)/(1 − ratio), without losing digits near 1."""
    rest = 1 - ratio  # exact for ratios of ½ and more
    log = math.log(ratio) if ratio < 0.5 else math.log1p(-rest)
    return ratio * -math.expm1(terms * log) / rest
