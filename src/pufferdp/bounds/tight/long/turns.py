"""Chains that go round in a cycle of parts and begin in one of them: what long series and those without end leak.

Two values of a record are of one part, and the records beside them forget which it was, as in a chain that is
primitive. So a series that is long enough stands for all that are longer: its first half has the same records before
it, and a side after the target never says less the more records it has. What lies farther away is bounded by the
smallest μ at which no entry of the signed vector is positive (see ``sides``).

The same holds for chains with states that are visited once, if ever, before all records are in one such class.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.inputs import Chain
from pufferdp.bounds.tight.long.passes import Passes, beyond
from pufferdp.bounds.tight.long.transient import transient_series
from pufferdp.bounds.tight.steady import LONG_WIDTH, Steady, WholeSeries, whole_series

_FORGOTTEN: Final = 36.0
"""What is left after so many times the distance at which a share of 1/e is, is lost in rounding."""
_LONGEST: Final = 1 << 15
_MOST_LOST: Final = 230.0
"""Paths through all states that nobody asks for are no rarer than e to minus this."""
_ROUNDING: Final = 80 * 2.0**-53


class Turns:
    """All records of a long series, or of one without end."""

    def __init__(self, series: WholeSeries, length: int | None) -> None:
        """A series that stands for one of ``length`` records, or for one without end."""
        self.series, self.length = series, length
        self.whole = length == series.n
        self.half = series.n // 2
        self.width = LONG_WIDTH

    def serves(self, loss: float) -> bool:
        """Whether products keep all that is positive."""
        return self.series.serves(loss) and loss * self.series.chain.size <= _MOST_LOST

    def quick(self, loss: float) -> float:
        """What those pairs leak that leaked most the last time."""
        return self.series.quick(loss)

    def at(self, loss: float) -> tuple[Steady, float]:
        """What each record of the series that stands for others leaks; and what no record of any leaks more than."""
        found = self.series.at(loss)
        if self.whole:
            return found, float(found.upper.max())
        seen = np.arange(self.series.n) <= self.half
        upper = max(self._upper(loss, pair) for pair in range(len(self.series.x)))
        return replace(found, lower=np.where(seen, found.lower, 0.0)), upper

    def _upper(self, loss: float, pair: int) -> float:
        """Of one pair of values, wherever it is."""
        series = self.series
        before, after = (side[pair] for side in series.highs)
        if not np.isfinite(before).any():
            return 0.0
        x, y = int(series.x[pair]), int(series.y[pair])
        passes = [Passes(kernel, x, y, loss) for kernel in series.kernels]
        # Where values do not come again, no record farther away has them.
        tails = (
            beyond(passes[0], self.half, math.inf) if series.recurs(pair) else -math.inf,
            beyond(passes[1], self.half, math.inf),
        )
        near = np.flatnonzero(np.isfinite(before[: self.half + 1]))
        sums = before[near] + np.maximum(after[::-1][near], tails[1])
        most = max(float(sums.max(initial=0.0)), tails[0] + tails[1])
        return loss + most + 2 * _ROUNDING * (series.n + series.chain.size)


def turns(chain: Chain, length: int | None, adversary: str) -> Turns | None:
    """None for what cannot be worked out this way."""
    if chain.start is None or chain.period > 1 or chain.primitive:
        return None
    values = np.sort(np.abs(np.linalg.eigvals(chain.kernels[0])))
    slow = values[values < 1 - 1e-9]
    depth = _FORGOTTEN / -math.log(max(float(slow[-1]), 1e-3)) if len(slow) else 0.0
    enough = 2 * max(256, math.ceil(depth))
    n = enough if length is None or length > enough else length
    if n > _LONGEST:
        return None
    series = whole_series(chain, n, adversary)
    if series is None and not inputs.tells_ever_more(chain):
        series = transient_series(chain, n, adversary)
    return None if series is None or series.n < n else Turns(series, length)
