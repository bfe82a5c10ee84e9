"""The variance of the numbers: their mean squared distance from their mean.

Let W be the width of the range and m the mean of the other n − 1 numbers. The sum of squared distances is that of the
others, and (1 − 1/n)·(x − m)² for a record x. A record that moves from u to v moves it by (1 − 1/n)·d·|u + v − 2m|,
where d = |u − v|. As u, v and m lie in the range, |u + v − 2m| is at most 2W − d. The product d·(2W − d) rises with d,
up to W².
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.publish.answers.queries import NumberQuery, Range


class VarianceQuery(NumberQuery):
    """The variance of the numbers, divided by their number and not by one less."""

    word = "variance"
    noun = "variance"
    averaged = True
    reads_each = True

    def move(self, span: float, width: float) -> float:
        """As proved at the head of this file, rounded up."""
        return math.nextafter(span * (2 * width - span) * (1 + 2**-50), math.inf)

    def total(self, numbers: Floats, counts: Sequence[int] | None = None) -> Fraction:
        """The sum of squared distances from the mean, in whole arithmetic."""
        times = [1] * len(numbers) if counts is None else list(counts)
        records = sum(times)
        if not records:
            return Fraction(0)
        mantissas, exponents = np.frexp(np.asarray(numbers, dtype=float))
        whole, sums, squares = (mantissas * 2.0**53).astype(np.int64), Fraction(0), Fraction(0)
        for exponent in np.unique(exponents).tolist():
            parts = [(times[n], int(whole[n])) for n in np.flatnonzero(exponents == exponent).tolist()]
            sums += Fraction(2) ** (exponent - 53) * sum(count * part for count, part in parts)
            squares += Fraction(4) ** (exponent - 53) * sum(count * part**2 for count, part in parts)
        return squares - sums**2 / records

    def limits(self, range_: Range | None, records: int) -> Range | None:
        """Half of the records at either end of the range have the largest variance."""
        return None if range_ is None else (0.0, (range_[1] - range_[0]) ** 2 / 4)
