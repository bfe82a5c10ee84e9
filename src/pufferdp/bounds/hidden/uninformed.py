"""The leakage bound of a hidden Markov chain against an adversary who knows no record (docs/theory/hidden.md).

V(h, h') bounds the log-likelihood ratio of everything on one side of a record, between the hidden states h and h' of
that record. With K the distribution of the next pair y = (hidden state, record), one more record gives

    e^V'(h,h') = min over couplings C of K(h,·) and K(h',·) of max over y' of Σ_y C(y,y')·e^W(y,y') / K(h',y'),

where W = V of the two hidden states, plus τ where the two records differ. Every coupling gives an upper bound, so
nothing rests on the accuracy of the solver. For two hidden states the best coupling is known and the bound is attained.

The step V → V' is monotone, so that ``iteration`` bounds sides of every length.
"""

from __future__ import annotations

import itertools
import math
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.coupling import CouplingProblem, least_log_prices
from pufferdp.bounds.hidden.iteration import TOLERANCE, iterate_monotone
from pufferdp.bounds.hidden.odds import emission_table
from pufferdp.bounds.inverse import LeakageBound
from pufferdp.bounds.tight import inputs

_MOST_ENTRIES: Final = 40_000
"""Entries of all couplings of one step: its linear programme then takes some tenths of a second."""


class UninformedBound(LeakageBound):
    """The largest leakage of any algorithm with privacy loss τ for every record, about any single record.

    It is attained where there are two hidden states, and an upper bound otherwise.
    """

    tolerance = TOLERANCE

    def __init__(
        self, transition: npt.ArrayLike, emission: npt.ArrayLike, start: npt.ArrayLike, *, length: int
    ) -> None:
        """Check the tables of a hidden chain, and that the bound can be computed in seconds.

        Args:
            transition: transition probabilities of the hidden states.
            emission: the distribution of a record given its hidden state, one row each.
            start: a stationary distribution of the hidden states.
            length: the number of records.
        """
        (self._kernel,) = inputs.kernels_of(transition)
        self._emission = emission_table(emission, len(self._kernel))
        self._start = inputs.distribution(start, len(self._kernel), "start")
        self._length = checks.length(length)
        points = np.count_nonzero(self._kernel, axis=1) * np.count_nonzero(self._emission, axis=1).max()
        if not self.exact and points.sum() ** 2 - (points**2).sum() > _MOST_ENTRIES:
            raise NotApplicableError(
                f"{len(self._kernel)} hidden states and {self._emission.shape[1]} values take too long; the odds curve "
                "bounds them"
            )

    @property
    def exact(self) -> bool:
        """Whether some algorithm attains the bound: where there are two hidden states."""
        return len(self._kernel) == 2

    def _value(self, tau: float) -> float:
        backward = (self._start[:, None] * self._kernel).T
        occurs = self._start[:, None] > 0  # rows of hidden states that do not occur are 0
        backward = np.divide(backward, self._start[:, None], out=np.zeros_like(backward), where=occurs)
        left, right = (self._sides(kernel, tau) for kernel in (backward, self._kernel))
        group_privacy = tau * self._length
        return min(group_privacy, tau + self._worst_record(left, right)) if left and right else group_privacy

    def _sides(self, kernel: Floats, tau: float) -> list[Floats]:
        """The evidence V of 0, 1, … records of a stationary chain; the last item bounds all longer sides.

        Empty where the series is longer than that, and no bound for all lengths was found.
        """
        most_steps = 4096 if self.exact else 128  # without and with a linear programme in each step
        sides, bounded = iterate_monotone(
            lambda side: self._step(kernel, side, tau), np.zeros_like(self._kernel), self._length, most_steps
        )
        return sides if bounded or len(sides) == self._length else []

    def _worst_record(self, left: list[Floats], right: list[Floats]) -> float:
        """The largest evidence of both sides about one record; V rises with the number of records on a side."""
        worst = 0.0
        before, after = len(left) - 1, len(right) - 1
        # A record with as much evidence on both sides as there can be decides alone, where there is one.
        middle = range(before, before + 1) if before + after < self._length else range(self._length)
        for t in middle:
            both = left[min(t, before)] + right[min(self._length - 1 - t, after)]
            worst = max(worst, self._target(both))
        return worst

    def _target(self, both: Floats) -> float:
        """The evidence about the value of a record, from the evidence about its hidden state."""
        joint = self._start[:, None] * self._emission
        possible = joint.sum(axis=0) > 0
        given = (joint[:, possible] / joint[:, possible].sum(axis=0)).T
        pairs = list(itertools.permutations(range(len(given)), 2))
        if not pairs:
            return 0.0
        return max(0.0, *least_log_prices([CouplingProblem.on_support(given[x], given[y], both) for x, y in pairs]))

    def _step(self, kernel: Floats, sides: Floats, tau: float) -> Floats:
        """V' of all pairs of hidden states: the evidence of one more record."""
        pairs = list(itertools.permutations(np.flatnonzero(kernel.any(axis=1)).tolist(), 2))
        out = np.zeros_like(sides)
        if self.exact:
            for h, other in pairs:
                out[h, other] = _two_state_step(kernel[h], kernel[other], self._emission, sides, tau)
        elif pairs:
            states, values = (part.ravel() for part in np.indices(self._emission.shape))
            prices = sides[states[:, None], states] + tau * (values[:, None] != values)
            following = (kernel[:, :, None] * self._emission).reshape(len(kernel), -1)
            problems = [CouplingProblem.on_support(following[h], following[other], prices) for h, other in pairs]
            out[tuple(np.transpose(pairs))] = np.maximum(least_log_prices(problems), 0.0)
        return out


def _two_state_step(top: Floats, bottom: Floats, emission: Floats, sides: Floats, tau: float) -> float:
    """V' of one pair of two hidden states, exactly (docs/theory/hidden.md, two hidden states).

    The best function g(hidden state, record) is e^V larger for one hidden state at every record, and e^τ larger for the
    records whose likelihood ratio between the two hidden states passes a threshold: all thresholds are tried.
    """
    worst = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(emission[1] > 0, emission[0] / emission[1], np.inf)
    order = np.argsort(-ratios, kind="stable")
    for likelier, other, ranks in ((0, 1, order), (1, 0, order[::-1])):
        raised = np.vstack([np.zeros(2), np.cumsum(emission[:, ranks], axis=1).T])
        weights = np.log1p(math.expm1(tau) * raised)
        weights[:, likelier] += sides[likelier, other]
        worst = max(worst, float(_log_ratio(weights, top, bottom).max()))
    return worst * (1 + 1e-12)  # more than the rounding of the sums


def _log_ratio(log_weights: Floats, top: Floats, bottom: Floats) -> Floats:
    """The log of Σ top·weight / Σ bottom·weight for each row of weights."""
    with np.errstate(divide="ignore"):
        sums = [np.logaddexp.reduce(log_weights + np.log(row), axis=1) for row in (top, bottom)]
    return np.asarray(sums[0] - sums[1])
