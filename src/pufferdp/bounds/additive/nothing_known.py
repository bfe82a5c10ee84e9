"""Leakage of a sum over a Markov chain plus Laplace noise to an adversary who knows no record.

Given the target, its two sides are independent. A target leaks at most what both sides and itself leak, added up (the
argument of ``windows``), and outputs beyond all sums reach the sum of the three. Where the two agree the leakage is
exact. Elsewhere the distributions of the whole sum decide (``tables.NothingKnown``). Sums over other, independent
chains blur the outputs among the sums and leave those beyond them as they are, so both ends of the bracket stand.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.bounds.additive.sides import DEEP, corner_side, one_side
from pufferdp.bounds.additive.tables import NothingKnown, RecordAdversary
from pufferdp.bounds.additive.windows import Leakage
from pufferdp.bounds.chains.sums import ChainSums


class UnknownSeries:
    """Sums of ``steps[state]`` over a chain with a definite start, plus Laplace noise of scale 1/dp_loss steps."""

    def __init__(self, sums: ChainSums) -> None:
        chain, self._sums = sums.chain, sums
        start = chain.stationary if chain.given_start is None else chain.given_start
        moves = np.asarray(chain.transition)
        self._ways = (np.ascontiguousarray(moves.T), start[:, None]), (moves, np.ones((chain.size, 1)))

    def at_least(self, dp_loss: float) -> float | None:
        """A lower bound from outputs beyond all sums; None where doubles cannot hold it."""
        left, right = (corner_side(*way, self._sums.steps, dp_loss, self._sums.length - 1) for way in self._ways)
        if left is None or right is None:
            return None
        return max(0.0, float(self._reached(left, right, dp_loss).max())) + 2 * self._sums.error

    def worst(self, dp_loss: float) -> tuple[float, RecordAdversary | None]:
        """The leakage and the adversary who reaches it; None where every output is equally likely."""
        if dp_loss * int(self._sums.steps.max()) * self._sums.length > DEEP:
            return self._by_distribution.worst(dp_loss)
        left, right = (one_side(*way, self._sums.steps, dp_loss, self._sums.length - 1) for way in self._ways)
        reached = self._reached(left.corners, right.corners, dp_loss)
        corner, x, y, record = (int(i) for i in np.unravel_index(int(np.argmax(reached)), reached.shape))
        lower = float(reached[corner, x, y, record])
        upper = float((_join(left.largest, right.largest) + np.abs(self._own(dp_loss))[..., None]).max())
        if lower <= 0 or not Leakage(min(lower, upper), max(lower, upper), None).closed:
            return self._by_distribution.worst(dp_loss)
        output = float(self._sums.points[-1 if corner else 0])
        return max(lower, upper) + 2 * self._sums.error, RecordAdversary(record, (), x, y, output)

    @cached_property
    def _by_distribution(self) -> NothingKnown:
        return NothingKnown(self._sums)

    def _reached(self, left: Floats, right: Floats, dp_loss: float) -> Floats:
        """Leakage at outputs below all sums and above them: [corner, likelier, other, record]."""
        own = self._own(dp_loss)
        return np.asarray(_join(left, right) + np.stack([-own, own])[..., None])

    def _own(self, dp_loss: float) -> Floats:
        """The log-likelihood ratio of an output above all sums from the target itself: [likelier, other]."""
        return np.asarray(dp_loss * np.subtract.outer(self._sums.steps, self._sums.steps))


def _join(left: Floats, right: Floats) -> Floats:
    """The sum of both sides for each record in turn: record i has i records before it, and all others after it."""
    return np.asarray(left[..., 0] + right[..., ::-1, 0])
