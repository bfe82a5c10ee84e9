"""Stretches and events as secrets: what any DP algorithm leaks about several records at once.

Losses are those of records here. Behind a stretch of r records x and y the rest of the series depends on its outermost
records alone, so an algorithm averaged over it has, for any two contents of the stretch, a quotient of at most

    c(x, y) = τ·(records that differ) + R_left(first of x, first of y) + R_right(last of x, last of y),

with the sides of ``blocks``. For the stretch as a whole that is the leakage. For an event in it, "in state s at some
time" against "never", every plan that moves the law given the event onto the law given its opposite bounds the
leakage, and a plan is built record by record, from the last to the first (docs/theory/units.md, Theorem 4).
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.arrays import Floats, Ints, Mask
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.bounds.inverse import largest_loss
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.units.blocks import AFTER, BEFORE, BlockCurve, Sides, worst_pair
from pufferdp.bounds.units.coupling import cheapest_plan

MOST_RECORDS: Final = 2_000
"""Records of a stretch whose events are followed."""
_SHARE: Final = 1e-6
_LARGEST: Final = 600.0
"""Logs of prices are spread over no more than this, so that their exponentials are numbers."""
_MOST_CONTENTS: Final = 243
_MOST_PAIRS: Final = 1_100
"""Contents of a stretch, and pairs of them, whose best plan a linear programme finds in an instant."""
_SLOW: Final = 2_000
"""Records of a series that may never forget."""


class StretchCurve:
    """What any algorithm with a DP loss for each record leaks about r records that follow each other, as a whole.

    >>> activity = [[0.882, 0.118], [0.305, 0.695]]
    >>> round(StretchCurve(activity, records=3, before=1, after=1, adversary="pufferfish")(0.5), 6)
    2.096793
    """

    exact: bool
    """Whether some algorithm leaks as much; where some steps are impossible, contents that differ everywhere may be."""

    def __init__(
        self,
        transition: npt.ArrayLike,
        *,
        records: int,
        before: int | None = None,
        after: int | None = None,
        adversary: str = "bdp",
    ) -> None:
        """A stretch of a stationary chain.

        Args:
            transition: the table of a step.
            records: of the stretch.
            before: records before it; None: without end.
            after: records behind it; None: without end.
            adversary: bdp, pufferfish or dp.
        """
        self.records, self.beside = checks.length(records, "records of the stretch"), (before, after)
        self.adversary = checks.adversary(adversary)
        self._single = BlockCurve(transition, block=1, adversary=str(self.adversary))
        self.chain = self._single.chain
        self.exact = bool((self.chain.kernels > 0).all())
        known = np.flatnonzero(np.asarray(inputs.chain(transition, "stationary").start) > 0)
        self.states = {int(state): n for n, state in enumerate(known)}
        """Where each state of the table that occurs stands among those of the chain."""
        if not self.chain.primitive and any(side is None or side > _SLOW for side in self.beside):
            raise NotApplicableError(
                f"the chain never forgets where it was, so that all records show: give length= up to {_SLOW:,}"
            )

    def sides(self, tau: float) -> tuple[Sides, Sides]:
        """What the records before and behind the stretch add, by pairs of values of its outermost records."""
        if self.adversary is Adversary.DP or self.chain.independent or self.chain.size == 1:
            return Sides.nothing(self.chain.size), Sides.nothing(self.chain.size)
        before, after = (
            self._single.stationary_side(lane, tau, records, each=True)
            for lane, records in zip((BEFORE, AFTER), self.beside, strict=True)
        )
        return before, after

    def __call__(self, loss: float) -> float:
        """No algorithm with this DP loss leaks more about the stretch."""
        tau = inputs.loss(loss)
        if tau == 0:
            return 0.0
        return self._whole(tau, self.sides(tau))

    def _whole(self, tau: float, sides: tuple[Sides, Sides]) -> float:
        reach = self._single.reach(self.records)
        return self.records * tau + worst_pair(sides[BEFORE].upper, sides[AFTER].upper, reach)

    def inverse(self, epsilon: float) -> float:
        """The largest DP loss whose leakage is at most ``epsilon``; 0 where there is none."""
        return largest_loss(self, inputs.target(epsilon), _SHARE)


class EventCurve(StretchCurve):
    """What any algorithm with a DP loss for each record leaks about "in state s at some time in a stretch".

    For somebody who knows no record it is the price of a plan from record to record: exactly the leakage for two
    states, and a bound for more. For somebody who knows some, what leaks about the stretch as a whole is a bound.

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
        """An event in a stretch of a stationary chain; ``state`` is its number in the table."""
        super().__init__(transition, records=records, before=before, after=after, adversary=adversary)
        if records > MOST_RECORDS:
            raise ParameterError(
                f"the stretch has {records:,} records; events are followed over {MOST_RECORDS:,} at most: take a "
                "shorter one",
                value=records,
            )
        self.exact = self.chain.size == 2 and self.adversary is Adversary.PUFFERFISH
        self._kernel, self._law = self.chain.kernels[0], np.asarray(self.chain.start)
        self._state = self.states.get(state, -1)
        never = np.ones(self.chain.size, dtype=bool)
        if self._state >= 0:
            never[self._state] = False
        # From each value of a record: weights of never being in s behind it, and the probability of being there. By
        # record, from the first to the last; weights are scaled, since only their proportions count.
        rest, comes = [np.ones(self.chain.size)], [np.zeros(self.chain.size)]
        for _ in range(records - 1):
            stays_away = self._kernel @ (rest[-1] * never)
            rest.append(stays_away / max(stays_away.max(), 1e-300))
            comes.append(self._kernel @ np.where(never, comes[-1], 1.0))
        self._never, self._rest, self._comes = never, np.array(rest[::-1]), np.array(comes[::-1])
        self.probability = float(self._law @ np.where(never, self._comes[0], 1.0))
        """Of the event, before anything is released."""
        can_stay_away = bool(self._law @ (never * _possible(self._kernel, never, records)) > 0)
        if self._state < 0 or not can_stay_away:
            sure = "cannot" if self._state < 0 else "must"
            raise NotApplicableError(f"the state {sure} occur in the stretch under the model, so that it is no secret")

    def __call__(self, loss: float) -> float:
        """No algorithm with this DP loss shifts the odds between the event and its opposite by more."""
        return max(self.ways(loss))

    def ways(self, loss: float) -> tuple[float, float]:
        """What algorithms leak that speak for the event, and those that speak against it."""
        tau = inputs.loss(loss)
        if tau == 0:
            return 0.0, 0.0
        sides = self.sides(tau)
        whole = self._whole(tau, sides)
        if self.adversary is not Adversary.PUFFERFISH:
            return whole, whole
        out = []
        for turned in (False, True):
            prices = [whole, self._price(tau, sides, turned=turned)]
            if self.chain.size > 2 and self._contents is not None:
                prices.append(self._whole_price(tau, sides, turned=turned))
            elif self.chain.size > 2:
                prices.append(self._backwards._price(tau, sides[::-1], turned=turned))
            out.append(min(prices))
        return out[0], out[1]

    @cached_property
    def _contents(self) -> tuple[Ints, Floats, Mask] | None:
        """All contents of the stretch that occur, their laws and whether s is among them; None for too many."""
        if self.chain.size**self.records > _MOST_CONTENTS:
            return None
        contents = np.array(list(itertools.product(range(self.chain.size), repeat=self.records)))
        steps = [self._kernel[contents[:, t], contents[:, t + 1]] for t in range(self.records - 1)]
        law = self._law[contents[:, 0]] * np.prod(steps, axis=0, initial=1.0)
        contents, law = contents[law > 0], law[law > 0]
        event = (contents == self._state).any(axis=1)
        return None if event.sum() * (~event).sum() > _MOST_PAIRS else (contents, law, event)

    def _whole_price(self, tau: float, sides: tuple[Sides, Sides], *, turned: bool) -> float:
        """The log of the price of the best plan between whole contents of the stretch: no plan of records is cheaper.

        Only whether a record differs counts in between, so that c(x, y) above is the price of a pair.
        """
        assert self._contents is not None
        contents, law, event = self._contents
        ours, theirs = contents[event], contents[~event]
        before, after = (side.upper.T if turned else side.upper for side in sides)
        logs = tau * (ours[:, None] != theirs[None]).sum(axis=2)
        logs = logs + before[ours[:, 0][:, None], theirs[:, 0]] + after[ours[:, -1][:, None], theirs[:, -1]]
        top = float(logs.max())
        prices = np.exp(np.maximum(logs - top, -_LARGEST))
        p, q = law[event] / law[event].sum(), law[~event] / law[~event].sum()
        return top + math.log(cheapest_plan(q, p, prices.T) if turned else cheapest_plan(p, q, prices))

    @cached_property
    def _backwards(self) -> EventCurve:
        """The same event in the same series, told from its end: of two plans the cheaper one bounds what leaks."""
        law = self._law[:, None]
        kernel = (law * self._kernel).T / law
        return EventCurve(
            kernel / kernel.sum(axis=1, keepdims=True),
            state=self._state,
            records=self.records,
            before=self.beside[AFTER],
            after=self.beside[BEFORE],
            adversary=str(self.adversary),
        )

    def _price(self, tau: float, sides: tuple[Sides, Sides], *, turned: bool) -> float:
        """The log of the price of a plan; turned round, from the law given "never" onto the law given the event.

        Pairs are (y, flag) given the event, flag whether s occurred, and y' given never: tables are (flag, k, k).
        """
        k, never = self.chain.size, self._never
        differ = tau * (1 - np.eye(k))
        end = sides[AFTER].upper if not turned else sides[AFTER].upper.T
        values = np.full((2, k, k), -np.inf)
        values[1] = differ + end
        for t in range(self.records - 2, -1, -1):
            moved = np.full((2, k, k), -np.inf)
            for flag in (0, 1):
                for y in np.flatnonzero(never) if flag == 0 else range(k):
                    chances, flags = self._event_step(self._kernel[y], flag, t + 1)
                    if chances.sum() > 0:
                        for other in np.flatnonzero(never & (self._rest[t] > 0)):
                            against = self._kernel[other] * never * self._rest[t + 1]
                            moved[flag, y, other] = self._planned(chances, flags, against, values, turned)
            values = moved + differ
        start = sides[BEFORE].upper if not turned else sides[BEFORE].upper.T
        chances, flags = self._event_step(self._law, 0, 0)
        return self._planned(chances, flags, self._law * never * self._rest[0], values + start, turned)

    def _event_step(self, law: Floats, flag: int, t: int) -> tuple[Floats, Mask]:
        """Weights of record t given that the event comes true, from its law without that; and the flags after it."""
        flags = np.full(self.chain.size, flag == 1) | ~self._never
        return law * np.where(flags, 1.0, self._comes[t]), np.asarray(flags)

    def _planned(self, chances: Floats, flags: Mask, against: Floats, values: Floats, turned: bool) -> float:
        """One step: the law of a record given the event onto the one given never, or the other way round."""
        ours, theirs = np.flatnonzero(chances > 0), np.flatnonzero(against > 0)
        logs = values[flags[ours].astype(int)[:, None], ours[:, None], theirs[None]]
        top = float(logs.max())
        prices = np.exp(np.maximum(logs - top, -_LARGEST))
        p, q = chances[ours] / chances.sum(), against[theirs] / against.sum()
        price = cheapest_plan(q, p, prices.T) if turned else cheapest_plan(p, q, prices)
        return top + math.log(price)

    def inverse(self, epsilon: float) -> float:
        """The largest DP loss whose leakage is at most ``epsilon``; 0 where there is none."""
        return largest_loss(self, inputs.target(epsilon), _SHARE if self.chain.size <= 3 else 1e-4)


def _possible(kernel: Floats, never: Mask, records: int) -> Mask:
    """From which states a stretch can go by without s, whatever the probability."""
    pattern, found = (kernel > 0).astype(float), never.copy()
    for _ in range(min(records - 1, len(never) ** 2)):
        found = never & (pattern @ found > 0)
    return found
