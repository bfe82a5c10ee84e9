"""Intervals and events as secrets: what any DP algorithm leaks about several consecutive records at once.

Privacy losses are those of single records here. Given the contents of an interval, the rest of the series depends on
its first and last record alone. So for any two contents x and y the average output of an algorithm has a log-ratio of
at most

    c(x, y) = τ·(records that differ) + R_left(first of x, first of y) + R_right(last of x, last of y),

with the sides of ``blocks``. The largest c(x, y) is the leakage about the contents. For an event, "in state s at some
time in the interval" against "never", every coupling of the contents given the event with the contents given its
opposite bounds the leakage. A coupling is built record by record from the last to the first (docs/theory/units.md,
Theorem 4).
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats, Ints
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.bounds.coupling import CouplingProblem, least_log_prices
from pufferdp.bounds.inverse import LeakageBound
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.units.blocks import AFTER, BEFORE, BlockCurve, worst_pair

MOST_RECORDS: Final = 2_000
"""Records of an interval whose events are followed, and of a series whose chain may never mix."""


class SegmentCurve(LeakageBound):
    """The largest leakage of any algorithm with a privacy loss for each record, about the contents of an interval.

    >>> activity = [[0.882, 0.118], [0.305, 0.695]]
    >>> round(SegmentCurve(activity, records=3, before=1, after=1, adversary="pufferfish")(0.5), 6)
    2.096793
    """

    tolerance = 1e-5
    exact: bool
    """Whether some algorithm attains the bound: always where every transition is possible."""

    def __init__(
        self,
        transition: npt.ArrayLike,
        *,
        records: int,
        before: int | None = None,
        after: int | None = None,
        adversary: str = "bdp",
    ) -> None:
        """Check the tables, for an interval of a stationary chain.

        Args:
            transition: the transition matrix.
            records: the number of records in the interval.
            before: the number of records before it; None for an endless series.
            after: the number of records after it; None for an endless series.
            adversary: bdp, pufferfish or dp.
        """
        self.records, self.beside = checks.length(records, "records of the interval"), (before, after)
        self.adversary = checks.adversary(adversary)
        self._single = BlockCurve(transition, block=1, adversary=str(self.adversary))
        self.chain = self._single.chain
        self.exact = bool((self.chain.kernels > 0).all())
        possible = np.flatnonzero(np.asarray(inputs.chain(transition, "stationary").start) > 0)
        self.states = {int(state): n for n, state in enumerate(possible)}
        """The index in ``chain`` of each state of the transition matrix that occurs."""
        if not self.chain.primitive and any(side is None or side > MOST_RECORDS for side in self.beside):
            raise NotApplicableError(
                f"the chain never forgets where it was, so that all records show: give length= up to {MOST_RECORDS:,}"
            )

    def sides(self, tau: float) -> tuple[Floats, Floats]:
        """The log-ratios of the records before and after the interval, by pairs of values of its end records."""
        if self.adversary is Adversary.DP or self.chain.independent or self.chain.size == 1:
            return np.zeros_like(self.chain.kernels[0]), np.zeros_like(self.chain.kernels[0])
        before, after = self.beside
        return self._single.stationary_side(BEFORE, tau, before), self._single.stationary_side(AFTER, tau, after)

    def _value(self, tau: float) -> float:
        return self._whole(tau, self.sides(tau))

    def _whole(self, tau: float, sides: tuple[Floats, Floats]) -> float:
        reach = self._single.reach(self.records)
        return self.records * tau + worst_pair(*sides, reach)


class EventCurve(SegmentCurve):
    """The largest leakage of any algorithm about the event "in state s at some time in the interval".

    Against an adversary who knows no record it is the price of a coupling from record to record: exactly the leakage
    for two states, and an upper bound for more. Against other adversaries the leakage about the contents is the bound.

    >>> activity = [[0.882, 0.118], [0.305, 0.695]]
    >>> curve = EventCurve(activity, state=1, records=3, before=1, after=1, adversary="pufferfish")
    >>> [round(value, 6) for value in curve.ways(0.5)]
    [1.493921, 1.158569]
    """

    def __init__(
        self,
        transition: npt.ArrayLike,
        *,
        state: int,
        records: int,
        before: int | None = None,
        after: int | None = None,
        adversary: str = "bdp",
    ) -> None:
        """Check the tables, for an event in an interval of a stationary chain; ``state`` is its row in the matrix."""
        super().__init__(transition, records=records, before=before, after=after, adversary=adversary)
        if records > MOST_RECORDS:
            raise ParameterError(
                f"the interval has {records:,} records; events are followed over {MOST_RECORDS:,} at most: take a "
                "shorter one",
                value=records,
            )
        self.exact = self.chain.size == 2 and self.adversary is Adversary.PUFFERFISH
        self._kernel, self._start = self.chain.kernels[0], np.asarray(self.chain.start)
        self._state = self.states.get(state, -1)
        self._never = np.arange(self.chain.size) != self._state
        # For each record, from the first to the last, by its value: the weight of never being in s after it, up to a
        # common factor, and the probability of being in s after it.
        avoid, meet = [np.ones(self.chain.size)], [np.zeros(self.chain.size)]
        possible = self._never
        for _ in range(records - 1):
            weights = self._kernel @ (avoid[-1] * self._never)
            avoid.append(weights / max(weights.max(), 1e-300))
            meet.append(self._kernel @ np.where(self._never, meet[-1], 1.0))
            possible = self._never & ((self._kernel > 0) @ possible)  # never in s, whatever the probability
        self._avoid, self._meet = np.array(avoid[::-1]), np.array(meet[::-1])
        self.probability = float(self._start @ np.where(self._never, self._meet[0], 1.0))
        """The prior probability of the event."""
        if self._state < 0 or not (self._start[possible] > 0).any():
            sure = "cannot" if self._state < 0 else "must"
            raise NotApplicableError(f"the state {sure} occur in the interval under the model, so that it is no secret")

    def _value(self, tau: float) -> float:
        return max(self.ways(tau))

    def ways(self, loss: float) -> tuple[float, float]:
        """The largest evidence for the event, and the largest evidence against it."""
        tau = inputs.loss(loss)
        if tau == 0:
            return 0.0, 0.0
        sides = self.sides(tau)
        contents = self._whole(tau, sides)
        if self.adversary is not Adversary.PUFFERFISH:
            return contents, contents
        evidence = []
        for against in (False, True):  # evidence against the event couples in the other direction
            prices = [contents, self._stepwise_price(tau, sides, against=against)]
            if self.chain.size > 2:
                prices.append(self._reversed._stepwise_price(tau, sides[::-1], against=against))
            evidence.append(min(prices))
        return evidence[0], evidence[1]

    @cached_property
    def _reversed(self) -> EventCurve:
        """The event in the reversed series; a coupling from the first record to the last may be cheaper."""
        kernel = (self._start[:, None] * self._kernel).T / self._start[:, None]
        return EventCurve(
            kernel / kernel.sum(axis=1, keepdims=True),
            state=self._state,
            records=self.records,
            before=self.beside[AFTER],
            after=self.beside[BEFORE],
            adversary=str(self.adversary),
        )

    def _stepwise_price(self, tau: float, sides: tuple[Floats, Floats], *, against: bool) -> float:
        """The log price of a coupling that is built record by record, from the last to the first.

        Tables are [flag, y, y']: y a value given the event, with a flag whether s occurred so far, and y' a value given
        "never".
        """
        k, never = self.chain.size, self._never
        before, after = (side.T if against else side for side in sides)
        differ = tau * (1 - np.eye(k))
        values = np.stack([np.full((k, k), -np.inf), differ + after])
        for t in range(self.records - 2, -1, -1):
            cells, problems = list[tuple[int, int, int]](), list[CouplingProblem]()
            for flag, y in itertools.product((0, 1), range(k)):
                following, flags = self._given_event(self._kernel[y], flag, t + 1)
                if following.any() and (flag or never[y]):
                    for other in np.flatnonzero(never & (self._avoid[t] > 0)).tolist():
                        cells.append((flag, y, other))
                        avoiding = self._kernel[other] * never * self._avoid[t + 1]
                        problems.append(_coupling(following, avoiding, values[flags, np.arange(k)], against))
            values = np.full((2, k, k), -np.inf)
            values[tuple(np.array(cells).T)] = least_log_prices(problems)
            values += differ
        first, flags = self._given_event(self._start, 0, 0)
        prices = (values + before)[flags, np.arange(k)]
        return least_log_prices([_coupling(first, self._start * never * self._avoid[0], prices, against)])[0]

    def _given_event(self, pmf: Floats, flag: int, t: int) -> tuple[Floats, Ints]:
        """Weights of record t given that the event comes true, from its distribution without that; and its flags."""
        flags = np.where(self._never, flag, 1)
        return pmf * np.where(flags == 1, 1.0, self._meet[t]), flags


def _coupling(given_event: Floats, given_never: Floats, log_prices: Floats, against: bool) -> CouplingProblem:
    """The coupling of two weighted sets of values; in the other direction for evidence against the event."""
    rows, columns = given_event / given_event.sum(), given_never / given_never.sum()
    if against:
        return CouplingProblem.on_support(columns, rows, log_prices.T)
    return CouplingProblem.on_support(rows, columns, log_prices)
