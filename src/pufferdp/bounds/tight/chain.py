"""The tight bound of a Markov chain: what the worst algorithm with a DP loss τ on every record leaks, and its inverse.

q*(τ) = τ + the most that both sides add, over all pairs of values, positions and adversaries (Theorems 1 and 2). It is
the leakage of some algorithm, so no bound that holds for every algorithm can be smaller. It is known as a bracket whose
ends differ by at most a tolerance, and the upper end is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats, Ints
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.bounds.inverse import LeakageBound, largest_loss
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.attack import TightLeakage
from pufferdp.bounds.tight.inputs import Chain
from pufferdp.bounds.tight.odds import OddsCurve
from pufferdp.bounds.tight.series import (
    TOLERANCE,
    Problem,
    attack_of,
    losses_problem,
    lower_ends,
    solve,
    steady_problem,
)

MOST_ANY_START: Final = 16
"""States up to which the worst distribution of the first record is looked for; the closed form bounds more."""
_ROUNDING: Final = 1e-12
"""Losses nearer than this share are the same."""
_MOST_ROWS: Final = 1 << 15
"""Slots of a clock times pairs of values that are searched; the closed form bounds more."""


class ChainBound:
    """The bound of one chain, for one length and one adversary."""

    def __init__(self, chain: Chain, adversary: str, length: int | None, tolerance: float | None) -> None:
        self.chain, self.states = inputs.visited(chain, length)
        self.adversary, self.length = adversary, length
        self.row: int | None = None
        self._hints: list[tuple[Floats, Ints]] = []
        self._odds: OddsCurve | None = None
        self.alone = adversary == "dp" or self.chain.independent or length == 1
        pairs = self.chain.size * (self.chain.size - 1)
        self.closed_form = self.chain.period > 1 and self.chain.period * pairs > _MOST_ROWS
        # A stationary chain with a period or several classes has two values whose pasts and futures never meet, and so
        # may the first record of another chain: each record adds its whole loss. Without end, such values make what is
        # learned grow for ever.
        self.unbounded = (self.chain.stationary and not self.chain.primitive) or inputs.keeps_apart(self.chain)
        self.unbounded |= length is None and inputs.leaks_without_bound(self.chain)
        exact = self.alone or self.unbounded or self.closed_form
        self.tolerance = 0.0 if exact else tolerance or TOLERANCE

    def problem(self, loss: float) -> Problem:
        """The targets: at every position, or record by record where kernels change and the start is given."""
        if self.chain.period > 1 and not self.chain.stationary:
            if self.length is None:
                raise NotApplicableError("kernels in turn with a given start need a length")
            return losses_problem(self.chain, np.full(self.length, loss), self.adversary, each=False)
        return steady_problem(self.chain, loss, self.adversary, self.length)

    def group(self, loss: float) -> float:
        """What group privacy bounds: the losses of all records together."""
        return math.inf if self.length is None else loss * self.length

    def leakage(self, loss: float) -> TightLeakage:
        """The bracket at a loss, and the worst-case adversary."""
        problem = self.problem(loss)
        if self.alone or loss == 0 or not len(problem):
            return self._own(loss, problem)
        if self.unbounded:
            return replace(self._own(loss, problem), lower=self.group(loss), upper=self.group(loss))
        if self.closed_form:
            return replace(self._own(loss, problem), upper=min(self.group(loss), self._by_odds(loss)))
        found = solve(problem, self.tolerance)
        if int(found.row[0]) != self.row:
            self.row, self._hints = int(found.row[0]), []
        attack = attack_of(self.chain, problem, found, 0, self.adversary)
        upper = min(attack.upper, self.group(loss))
        if upper > attack.lower * (1 + self.tolerance):
            upper = min(upper, self._by_odds(loss))
        return replace(attack, dp_loss=loss, lower=min(attack.lower, upper), upper=upper).renamed(self.states)

    def reached(self, loss: float) -> float:
        """What the worst pair of values at the last loss leaks at least: questions at several μ, improved by turns."""
        problem = self.problem(loss)
        if self.alone or not len(problem):
            return self._own(loss, problem).upper
        if self.unbounded or self.closed_form:
            return self.group(loss) if self.unbounded else self._by_odds(loss)
        if self.row is None:
            likely = np.argsort(-problem.likely, kind="stable")[:8]
            self.row = int(likely[np.argmax(lower_ends(problem, likely, 0.03, []))])
        found = lower_ends(problem, np.array([self.row]), self.tolerance, self._hints)
        return min(float(found[0]), self.group(loss))

    def _by_odds(self, loss: float) -> float:
        """What the closed form says (Theorem 4)."""
        if self._odds is None:
            kernels = self.chain.kernels if self.chain.period > 1 else self.chain.kernels[0]
            self._odds = OddsCurve.of_chains([kernels], length=self.length)
        return self._odds(loss)

    def _own(self, loss: float, problem: Problem) -> TightLeakage:
        """What is leaked where no side adds anything: the loss of the record, if it has two values."""
        value = loss if len(problem) else 0.0
        found = TightLeakage(dp_loss=loss, lower=value, upper=value, adversary=self.adversary, length=self.length)
        if len(problem):
            found = replace(found, likelier=int(problem.rows[1].x[0]), other=int(problem.rows[1].y[0]))
        return found.renamed(self.states)


class TightCurve(LeakageBound):
    """The leakage of the worst-case algorithm, as a function of its DP loss; it never falls.

    >>> activity = TightCurve([[0.882, 0.118], [0.305, 0.695]], tolerance=1e-8)
    >>> round(activity(0.1), 6), round(activity.inverse(1.0), 6)
    (0.389344, 0.250326)
    """

    def __init__(
        self,
        transition: npt.ArrayLike,
        *,
        start: str | npt.ArrayLike = "stationary",
        length: int | Sequence[int] | None = None,
        adversary: str = "bdp",
        tolerance: float | None = None,
    ) -> None:
        """The tight bound of one chain.

        Args:
            transition: one table, or several that follow each other again and again.
            start: the distribution of the first record, "stationary" or "any".
            length: number of records; several numbers: the worst of them; None: without end.
            adversary: bdp, pufferfish or dp.
            tolerance: how near both ends of a bracket are, as a share; None: 1e-3.
        """
        self.adversary = inputs.adversary(adversary)
        chain = inputs.chain(transition, start)
        self._parts = [(0, n, ChainBound(chain, self.adversary, n, tolerance)) for n in _lengths(length)]
        self._last: dict[int, TightLeakage] = {}

    @classmethod
    def of_class(
        cls,
        models: Sequence[tuple[npt.ArrayLike, str | npt.ArrayLike]],
        *,
        length: int | Sequence[int] | None = None,
        adversary: str = "bdp",
        tolerance: float | None = None,
    ) -> TightCurve:
        """The worst of several chains, each a transition and a start."""
        if not models:
            raise ParameterError("the class has no chain; give one or more", value=models)
        curves = [
            cls(transition, start=start, length=length, adversary=adversary, tolerance=tolerance)
            for transition, start in models
        ]
        curves[0]._parts = [(i, n, part) for i, curve in enumerate(curves) for _, n, part in curve._parts]
        return curves[0]

    @classmethod
    def of_clock(
        cls,
        transitions: npt.ArrayLike,
        *,
        length: int | Sequence[int] | None = None,
        adversary: str = "bdp",
        tolerance: float | None = None,
    ) -> TightCurve:
        """Kernels that follow each other again and again, in the distribution that they keep, from any first slot."""
        kernels = inputs.one_round(inputs.kernels_of(transitions))
        chain = inputs.chain(kernels, "stationary")
        if not inputs.is_representable(chain):
            raise NotApplicableError(
                "some value is possible, and rarer than a double can hold; make the clock coarser, or leave such moves "
                "out of it"
            )
        return cls(kernels, length=length, adversary=adversary, tolerance=tolerance)

    @property
    def bounded(self) -> bool:
        """Whether it is the closed form of a clock that has too many slots and states to search every pair."""
        return any(part.closed_form for _, _, part in self._parts)

    def _value(self, tau: float) -> float:
        return self.leakage(tau).upper

    def leakage(self, loss: float) -> TightLeakage:
        """The bracket, with the worst-case adversary and questions."""
        number = inputs.loss(loss)
        found = [
            replace(self._leakage(i, number), model=model, length=n) for i, (model, n, _) in enumerate(self._parts)
        ]
        worst = max(found, key=lambda part: part.lower)
        return replace(worst, upper=max(part.upper for part in found))

    def _leakage(self, part: int, loss: float) -> TightLeakage:
        """The bracket of one part, kept for those who read the bound again at the same loss."""
        if part not in self._last or self._last[part].dp_loss != loss:
            self._last[part] = self._parts[part][2].leakage(loss)
        return self._last[part]

    def inverse(self, epsilon: float) -> float:
        """The largest DP loss, up to the tolerance, that leaks at most ``epsilon``; 0 where there is none."""
        # A machine that rounds otherwise may end on another upper end within the tolerance: a margin covers that.
        tolerance = max(part.tolerance for _, _, part in self._parts)
        allowed = inputs.target(epsilon) / (1 + tolerance / 4)
        loss = allowed
        for i in range(len(self._parts)):
            loss = min(loss, self._largest(i, allowed, loss))
        shrink = max(tolerance / 4, _ROUNDING)
        while loss > 0 and (leaks := self(loss)) > allowed:
            if not math.isfinite(leaks):
                return 0.0
            loss, shrink = loss * (allowed / leaks) * (1 - shrink), min(1.0, 2 * shrink)
        return loss

    def _largest(self, i: int, allowed: float, most: float) -> float:
        """The largest loss of one part up to a last check: a root of the worst pair's lower end, then a proof."""
        part = self._parts[i][2]
        wanted = allowed / (1 + 1.25 * part.tolerance)
        slope = float(part.problem(1e-6).slopes.sum(axis=0).max(initial=0.0))
        loss = wanted / (1 + slope / 1e-6)
        for _ in range(60):
            loss = largest_loss(part.reached, wanted, max(part.tolerance / 4, _ROUNDING), most, guess=loss)
            if loss == 0:
                return 0.0
            row, found = part.row, self._leakage(i, loss)
            near = found.upper <= allowed * (1 + part.tolerance) or found.lower <= wanted * (1 + part.tolerance / 4)
            if near or part.row == row:
                break
        return loss if math.isfinite(found.upper) else 0.0


def _lengths(length: int | Sequence[int] | None) -> list[int | None]:
    if length is None:
        return [None]
    found = sorted({checks.length(n) for n in np.ravel(np.asarray(length)).tolist()})
    if not found:
        raise ParameterError("length is an empty list; give the number of records, or leave it out", value=length)
    return [*found]
