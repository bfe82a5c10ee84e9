"""Leakage of an answer plus Laplace noise to an adversary who knows no record.

The distributions of the answer given each value of a record decide: the largest ratio of two densities of the output is
at a possible answer. A sum over a long Markov chain needs them seldom. Given the target its two sides are independent,
so a target leaks at most what both sides and itself leak, added up (the argument of ``windows``), and outputs beyond
all sums attain the sum of the three. Where the two agree the leakage is exact. Sums over other, independent chains blur
the outputs among the sums and leave those beyond them as they are, so both ends of the bracket stand.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pufferdp.basics.arrays import Floats
from pufferdp.bounds.additive.sides import DEEP, one_side
from pufferdp.bounds.additive.tables import ROUNDING, RecordAdversary
from pufferdp.bounds.additive.windows import is_closed
from pufferdp.bounds.chains.starts import first_distribution
from pufferdp.bounds.chains.sums import ChainSums
from pufferdp.bounds.distributions.base import AnswerDistributions, Logs, pairs_of


def smoothed(points: Floats, logs: Logs, dp_loss: float) -> Logs:
    """Log-densities of the output at every point, for noise of scale 1/dp_loss: two exponential filters."""
    below, above = logs.copy(), np.full_like(logs, -np.inf)
    fall = dp_loss * np.diff(points)
    for s in range(1, len(points)):
        below[:, s] = np.logaddexp(below[:, s], below[:, s - 1] - fall[s - 1])
    for s in range(len(points) - 2, -1, -1):
        above[:, s] = np.logaddexp(logs[:, s + 1], above[:, s + 1]) - fall[s]
    return np.asarray(np.logaddexp(below, above))


class UninformedLeakage:
    """The leakage from the distributions of the answer given each value of each record, exactly."""

    def __init__(self, answer: AnswerDistributions) -> None:
        self._points, self._error = np.asarray(answer.points, dtype=float), answer.error
        self._given: list[tuple[int, int]] = []
        rows, self._first, self._second = list[Logs](), list[int](), list[int]()
        for given in answer.records():
            p, q = pairs_of(given)
            self._first += [len(self._given) + n for n in p]
            self._second += [len(self._given) + n for n in q]
            rows.append(given.logs)
            self._given += [(given.record, state) for state in given.states]
        self._logs = np.concatenate(rows)

    def worst(self, dp_loss: float) -> tuple[float, RecordAdversary | None]:
        """The leakage and the adversary who reaches it; None where every output is equally likely."""
        if not self._first:
            return 0.0, None
        density = smoothed(self._points, self._logs, dp_loss)
        ratio = density[self._first] - density[self._second]
        pair, at = (int(n) for n in np.unravel_index(int(np.argmax(np.abs(ratio))), ratio.shape))
        log_ratio = float(ratio[pair, at])
        both = (self._given[self._first[pair]], self._given[self._second[pair]])
        (record, likelier), (_, other) = both if log_ratio > 0 else both[::-1]
        adversary = RecordAdversary(record, (), likelier, other, float(self._points[at]))
        return abs(log_ratio) + 2 * self._error, adversary if abs(log_ratio) > ROUNDING else None


class SeriesLeakage:
    """Sums of ``steps[state]`` over a chain with a definite start, plus Laplace noise of scale 1/dp_loss steps."""

    def __init__(self, sums: ChainSums) -> None:
        chain, self._sums = sums.chain, sums
        start = first_distribution(chain)
        moves = np.asarray(chain.transition)
        self._ways = (np.ascontiguousarray(moves.T), start[:, None]), (moves, np.ones((chain.size, 1)))

    def worst(self, dp_loss: float) -> tuple[float, RecordAdversary | None]:
        """The leakage and the adversary who reaches it; None where every output is equally likely."""
        if dp_loss * int(self._sums.steps.max()) * self._sums.length > DEEP:
            return self._by_distribution.worst(dp_loss)
        left, right = (one_side(*way, self._sums.steps, dp_loss, self._sums.length - 1) for way in self._ways)
        # The log-likelihood ratio of an output above all sums from the target itself: [likelier, other].
        own = np.asarray(dp_loss * np.subtract.outer(self._sums.steps, self._sums.steps))
        # Leakage at outputs below all sums and above them: [corner, likelier, other, record].
        reached = _join(left.corners, right.corners) + np.stack([-own, own])[..., None]
        corner, x, y, record = (int(i) for i in np.unravel_index(int(np.argmax(reached)), reached.shape))
        lower = float(reached[corner, x, y, record])
        upper = float((_join(left.largest, right.largest) + np.abs(own)[..., None]).max())
        if lower <= 0 or not is_closed(lower, upper):
            return self._by_distribution.worst(dp_loss)
        output = float(self._sums.points[-1 if corner else 0])
        return max(lower, upper) + 2 * self._sums.error, RecordAdversary(record, (), x, y, output)

    @cached_property
    def _by_distribution(self) -> UninformedLeakage:
        return UninformedLeakage(self._sums)


def _join(left: Floats, right: Floats) -> Floats:
    """The sum of both sides for each record in turn: record i has i records before it, and all others after it."""
    return np.asarray(left[..., 0] + right[..., ::-1, 0])
