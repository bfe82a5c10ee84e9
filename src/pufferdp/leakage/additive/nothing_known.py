"""Exactly what a sum plus Laplace noise leaks about one record of a chain to somebody who knows no record.

The two sides of a record are put together as for windows (see ``windows``): a record leaks at most what its sides and
itself leak together, and an output beyond all sums reaches the sum of the three. Where both agree, no law of the whole
sum need be known; where they do not, the laws decide. Other chains blur outputs among the sums and leave those beyond
them as they are, so that both ends stand.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.leakage.additive.sides import DEEP, corner_side, one_side
from pufferdp.leakage.additive.tables import Learner, NothingKnown
from pufferdp.leakage.additive.windows import Leakage
from pufferdp.leakage.chains.sums import ChainLaws


class UnknownSeries:
    """Sums of ``steps[state]`` over a chain with a definite start, plus noise of scale 1/tau steps."""

    def __init__(self, laws: ChainLaws) -> None:
        chain, self._laws = laws.chain, laws
        start = chain.stationary if chain.given_start is None else chain.given_start
        moves = np.asarray(chain.transition)
        self._ways = (np.ascontiguousarray(moves.T), start[:, None]), (moves, np.ones((chain.size, 1)))

    def at_least(self, dp_loss: float) -> float | None:
        """What outputs beyond all sums tell: quick, mostly the leakage itself. None where doubles do not hold it."""
        left, right = (corner_side(*way, self._laws.steps, dp_loss, self._laws.length - 1) for way in self._ways)
        if left is None or right is None:
            return None
        return max(0.0, float(self._reached(left, right, dp_loss).max())) + 2 * self._laws.error

    def worst(self, dp_loss: float) -> tuple[float, Learner | None]:
        """The leakage, and the value of which record it is about; None where every output is equally likely."""
        top = int(self._laws.steps.max()) * self._laws.length
        if dp_loss * top > DEEP:
            return self._by_laws.worst(dp_loss)
        left, right = (one_side(*way, self._laws.steps, dp_loss, self._laws.length - 1) for way in self._ways)
        reached = self._reached(left.corners, right.corners, dp_loss)
        corner, x, y, record = (int(i) for i in np.unravel_index(int(np.argmax(reached)), reached.shape))
        lower = float(reached[corner, x, y, record])
        upper = float((_joined(left.most, right.most) + np.abs(self._own(dp_loss))[..., None]).max())
        if lower <= 0 or not Leakage(min(lower, upper), max(lower, upper), None).closed:
            return self._by_laws.worst(dp_loss)
        output = float(self._laws.points[-1 if corner else 0])
        return max(lower, upper) + 2 * self._laws.error, Learner(record, (), x, y, output)

    @cached_property
    def _by_laws(self) -> NothingKnown:
        return NothingKnown(self._laws)

    def _reached(self, left: Floats, right: Floats, dp_loss: float) -> Floats:
        """By outputs below all sums, and above them: [corner, likelier, other, record]."""
        own = self._own(dp_loss)
        return np.asarray(_joined(left, right) + np.stack([-own, own])[..., None])

    def _own(self, dp_loss: float) -> Floats:
        return np.asarray(dp_loss * np.subtract.outer(self._laws.steps, self._laws.steps))


def _joined(left: Floats, right: Floats) -> Floats:
    """Both sides of each record in turn: the first has no record before it, and all others behind it."""
    return np.asarray(left[..., 0] + right[..., ::-1, 0])
