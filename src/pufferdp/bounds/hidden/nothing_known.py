"""Hidden chains and an adversary who knows no record: a recursion on pairs of hidden states (docs/theory/hidden.md).

V(h, h') bounds what the records of a side tell of its first hidden state. One record farther,

    e^V'(h,h') = min over couplings C of K(h,·) and any weights, of max over y' of Σ_y C(y,y') e^W(y,y') / K(h',y'),

where y = (hidden state, record), K is the law of the next such pair, C has rows that sum to K(h,·), and
W = τ where the records differ, and V of the two hidden states. Every coupling gives a bound, so that nothing rests on
how well the best one was found. For two hidden states the best one is known, and the bound is reached.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats, Ints
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.hidden.odds import emission_table
from pufferdp.bounds.hidden.trees import MOST_POINTS, tree_costs
from pufferdp.bounds.inverse import largest_loss
from pufferdp.bounds.tight import inputs

_MOST_ENTRIES: Final = 40_000
"""Entries of all couplings of a step: a step then takes some tenths of a second."""
_LONGEST: Final = 256
"""Records of a series that does not start in its stationary law."""
_FEW: Final = {True: 2048, False: 24}
"""Records up to which each has its own sides, for two hidden states and for more; beyond it one bound is for all."""
_MOST_STEPS: Final = {True: 4096, False: 128}
"""Steps after which a side is no longer followed, for two hidden states and for more."""
_FAR: Final = (1.02, 1.3, 3.0)
"""How far ahead of a side a bound for all longer ones is looked for, in what the steps to come seem to add."""
_REFINED: Final = {True: 512, False: 48}
"""Steps by which such a bound is lowered, for two hidden states and for more."""
_TINY: Final = 1e-290
"""Below it doubles have fewer digits."""
_SLACK: Final = 1e-12
_SHARE: Final = 1e-5
"""How near to the largest loss the inverse comes where couplings are searched for."""


@dataclass(frozen=True, eq=False)
class Coupling:
    """Two laws to be compared, and what each pair of their points costs."""

    top: Floats
    bottom: Floats
    costs: Floats
    """W, (points of top, points of bottom); logs."""


class NothingKnown:
    """The most that any algorithm with loss τ leaks to somebody who knows no record; exact for two hidden states."""

    def __init__(
        self,
        transition: npt.ArrayLike,
        emission: npt.ArrayLike,
        start: npt.ArrayLike,
        *,
        length: int,
        stationary: bool,
    ) -> None:
        """A hidden chain.

        Args:
            transition: how hidden states follow each other.
            emission: the law of a record given its hidden state, a row each.
            start: the law of the first hidden state.
            length: records.
            stationary: whether the start is the law that the chain keeps.
        """
        (self._kernel,) = inputs.kernels_of(transition)
        self._shown = emission_table(emission, len(self._kernel))
        self._start = inputs.law(start, len(self._kernel), "start")
        self._length, self._stationary = checks.length(length), stationary
        self._compared: dict[bytes, tuple[list[_Alike], list[_Alike]]] = {}
        if not stationary and length > _LONGEST:
            raise NotApplicableError(
                f"follows a start of its own for at most {_LONGEST} records; the odds curve bounds it for any number"
            )
        if not self._two and self._entries > _MOST_ENTRIES:
            raise NotApplicableError(
                f"{len(self._kernel)} hidden states and {self._shown.shape[1]} values take too long; the odds curve "
                "bounds them"
            )

    @property
    def exact(self) -> bool:
        """Whether some algorithm leaks as much."""
        return self._two

    @property
    def _two(self) -> bool:
        return len(self._kernel) == 2

    @property
    def _entries(self) -> int:
        points = np.count_nonzero(self._kernel, axis=1) * np.count_nonzero(self._shown, axis=1).max()
        return int(points.sum() ** 2 - (points**2).sum())

    @cached_property
    def _laws(self) -> Floats:
        """Of each hidden state, one after the other; one for all where the start is kept."""
        laws = [self._start]
        if not self._stationary:
            for _ in range(self._length - 1):
                laws.append(laws[-1] @ self._kernel)
        return np.array(laws)

    def __call__(self, loss: float) -> float:
        """No algorithm with this DP loss on every record leaks more about any of them to such an adversary."""
        tau = inputs.loss(loss)
        if tau == 0:
            return 0.0
        group = tau * self._length
        if self._stationary and self._length > _FEW[self._two]:
            left, right = self._settled(self._backward(self._start, self._start), tau), self._settled(self._kernel, tau)
            if left is not None and right is not None:
                return min(group, tau + self._targets(self._start, left + right))
            if self._length > _LONGEST:
                return group
        lefts, rights = self._all_sides(tau)
        return min(group, tau + self._worst_record(lefts, rights))

    def inverse(self, epsilon: float) -> float:
        """The largest loss whose bound is at most ``epsilon``."""
        allowed = inputs.target(epsilon)
        return largest_loss(self, allowed) if self._two else largest_loss(self, allowed, _SHARE)

    def _all_sides(self, tau: float) -> tuple[list[Floats], list[Floats]]:
        """What 0, 1, … records before and after a hidden state tell; from some length on a bound for all lengths."""
        zero = np.zeros_like(self._kernel)
        if self._stationary:
            both = []
            for kernel in (self._backward(self._start, self._start), self._kernel):
                sides = [zero]
                while len(sides) < self._length:
                    sides.append(self._step(kernel, sides[-1], tau))
                    if _worth_a_try(len(sides)) and len(sides) < self._length:
                        bound = self._above(kernel, sides, tau)
                        if bound is not None:
                            sides += [bound] * (self._length - len(sides))
                both.append(sides)
            return both[0], both[1]
        lefts, rights = [zero], [zero]
        for before, here in zip(self._laws, self._laws[1:], strict=False):
            lefts.append(self._step(self._backward(before, here), lefts[-1], tau))
            rights.append(self._step(self._kernel, rights[-1], tau))
        return lefts, rights

    def _settled(self, kernel: Floats, tau: float) -> Floats | None:
        """A bound for a side of any length; None where none was found."""
        sides = [np.zeros_like(self._kernel)]
        while len(sides) < _MOST_STEPS[self._two]:
            sides.append(self._step(kernel, sides[-1], tau))
            if _worth_a_try(len(sides)):
                bound = self._above(kernel, sides, tau)
                if bound is not None:
                    return bound
        return None

    def _above(self, kernel: Floats, sides: list[Floats], tau: float) -> Floats | None:
        """What a step does not raise bounds every longer side, because steps keep the order.

        Tried a little above where the last steps lead to if each changes as large a share as the one before.
        """
        change, before = sides[-1] - sides[-2], sides[-2] - sides[-3]
        last, earlier, most = float(change.max()), float(before.max()), float(sides[-1].max())
        share = min(last / earlier, 0.9999) if last > 1e-9 * most else 0.0  # below it is rounding
        ahead, apart = np.maximum(change, 0.0) * share / (1 - share), 1 - np.eye(len(change))
        for far in _FAR:
            bound = sides[-1] * (1 + 1e-9) + far * (ahead + 1e-9 * most * apart)
            lower = self._step(kernel, bound, tau)
            if (lower <= bound).all():
                for _ in range(_REFINED[self._two]):  # a step turns bounds into bounds
                    before, lower = lower, np.minimum(lower, self._step(kernel, lower, tau))
                    if float((before - lower).max()) <= 1e-7 * most:
                        break
                return lower
        return None

    def _worst_record(self, lefts: list[Floats], rights: list[Floats]) -> float:
        """Over all records; equal pairs of sides are looked at once."""
        worst, seen = 0.0, set()
        for t in range(self._length):
            left, right = lefts[t], rights[self._length - 1 - t]
            key = (id(left), id(right))
            if key not in seen or not self._stationary:
                seen.add(key)
                worst = max(worst, self._targets(self._laws[0 if self._stationary else t], left + right))
        return worst

    def _targets(self, law: Floats, both: Floats) -> float:
        """What the hidden state of a record tells of its value, the worst pair of values."""
        together = law[:, None] * self._shown
        possible = together.sum(axis=0) > 0
        given = (together[:, possible] / together[:, possible].sum(axis=0)).T
        pairs = [(x, y) for x in range(len(given)) for y in range(len(given)) if x != y]
        if not pairs:
            return 0.0
        if self._two:
            return max(_two_points(given[x], given[y], both) for x, y in pairs)
        return max(least_costs([_support(given[x], given[y], both) for x, y in pairs]))

    def _backward(self, before: Floats, here: Floats) -> Floats:
        """The law of a hidden state given the next one; rows of what is not reached are 0."""
        table = (before[:, None] * self._kernel).T
        return np.asarray(np.divide(table, here[:, None], out=np.zeros_like(table), where=here[:, None] > 0))

    def _step(self, kernel: Floats, sides: Floats, tau: float) -> Floats:
        """V' of all pairs of hidden states, one record farther."""
        rows = [int(h) for h in np.flatnonzero(kernel.any(axis=1))]
        out = np.zeros_like(sides)
        if self._two:
            for h, other in ((0, 1), (1, 0)):
                if len(rows) == 2:
                    out[h, other] = _two_hidden(kernel[h], kernel[other], self._shown, sides, tau)
            return out
        states, values = (part.ravel() for part in np.indices(self._shown.shape))
        costs = sides[states[:, None], states] + tau * (values[:, None] != values)
        few, many = self._couplings(kernel)
        for alike in few:
            out[alike.pairs] = _tree_costs(alike.tops, alike.bottoms, costs[alike.rows, alike.columns])
        if many:
            made = [Coupling(one.tops[0], one.bottoms[0], costs[one.rows[0], one.columns[0]]) for one in many]
            for one, value in zip(many, least_costs(made), strict=True):
                out[one.pairs] = value
        return out

    def _couplings(self, kernel: Floats) -> tuple[list[_Alike], list[_Alike]]:
        """The laws that a step compares: those with few points, of one shape at a time, and one by one those with many.

        They do not change from step to step, and there are two kernels at most, or one for each record.
        """
        key = kernel.tobytes()
        if key not in self._compared:
            rows = np.flatnonzero(kernel.any(axis=1)).tolist()
            laws = (kernel[:, :, None] * self._shown).reshape(len(kernel), -1)
            points = [np.flatnonzero(law) for law in laws]
            shapes: dict[tuple[int, ...], list[tuple[int, int]]] = {}
            many = []
            for h, other in itertools.permutations(rows, 2):
                shape = len(points[h]), len(points[other])
                if max(shape) > MOST_POINTS:
                    many.append(_Alike.of([(h, other)], laws, points))
                else:
                    shapes.setdefault(shape, []).append((h, other))
            self._compared = {key: ([_Alike.of(pairs, laws, points) for pairs in shapes.values()], many)} | (
                self._compared if len(self._compared) < 2 else {}
            )
        return self._compared[key]


@dataclass(frozen=True, eq=False)
class _Alike:
    """Pairs of hidden states whose next (state, record) have as many points each."""

    pairs: tuple[Ints, Ints]
    tops: Floats
    bottoms: Floats
    rows: Ints
    """(pair, point, 1), and (pair, 1, point) of the columns: where their costs are in a table of all."""
    columns: Ints

    @classmethod
    def of(cls, pairs: list[tuple[int, int]], laws: Floats, points: list[Ints]) -> _Alike:
        """Of these pairs."""
        first, second = np.array(pairs).T
        rows, columns = (np.array([points[h] for h in side]) for side in (first, second))
        return cls(
            (first, second),
            laws[first[:, None], rows],
            laws[second[:, None], columns],
            rows[:, :, None],
            columns[:, None, :],
        )


def _worth_a_try(steps: int) -> bool:
    """After 16, 24, 32, 48, 64, 96, … steps."""
    return steps >= 16 and (steps & (steps - 1) == 0 or (steps % 3 == 0 and (steps // 3) & (steps // 3 - 1) == 0))


def _two_hidden(top: Floats, bottom: Floats, shown: Floats, sides: Floats, tau: float) -> float:
    """V' for two hidden states: one of them is worth e^V more at every record, and a yes/no question splits the values.

    With a(h) = top(h) − λ·bottom(h) of different signs, the best G(h,x) ≤ e^V G(h',x) is reached at every x at once.
    What is left is one factor e^τ on the values where the sum of both is positive: those with a large quotient of
    O(h,x) and O(h',x).
    """
    worst = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = np.where(shown[1] > 0, shown[0] / shown[1], np.inf)
    order = np.argsort(-quotients, kind="stable")
    for likely, other, ranks in ((0, 1, order), (1, 0, order[::-1])):
        asked = np.vstack([np.zeros(2), np.cumsum(shown[:, ranks], axis=1).T])
        weights = 1 + math.expm1(tau) * asked
        weights[:, likely] *= math.exp(sides[likely, other])
        worst = max(worst, float(np.log((weights @ top) / (weights @ bottom)).max()))
    return worst * (1 + _SLACK) if worst > 0 else 0.0


def _two_points(top: Floats, bottom: Floats, both: Floats) -> float:
    """The largest log E_top[g]/E_bottom[g] where the log of g(0)/g(1) is at most ``both``, in either direction."""
    worst = 0.0
    for likely, other in ((0, 1), (1, 0)):
        weights = np.ones(2)
        weights[likely] = math.exp(both[likely, other])
        worst = max(worst, math.log((weights @ top) / (weights @ bottom)))
    return worst * (1 + _SLACK)


def _support(top: Floats, bottom: Floats, costs: Floats) -> Coupling:
    """The points that occur."""
    rows, columns = top > 0, bottom > 0
    return Coupling(top[rows], bottom[columns], costs[np.ix_(rows, columns)])


def least_costs(problems: Sequence[Coupling]) -> list[float]:
    """For each problem the log of min over couplings of max over y' of Σ_y C(y,y') e^W(y,y') / bottom(y').

    Few points have few vertices to try. The rest goes into one linear programme. Whatever it gives is made a coupling,
    whose cost is then the answer: never too small.
    """
    found = np.zeros(len(problems))
    alike: dict[tuple[int, ...], list[int]] = {}
    for n, problem in enumerate(problems):
        alike.setdefault(problem.costs.shape, []).append(n)
    others: list[int] = []
    for shape, numbers in alike.items():
        if max(shape) > MOST_POINTS:
            others += numbers
            continue
        tops, bottoms, costs = (
            np.array([getattr(problems[n], part) for n in numbers]) for part in ("top", "bottom", "costs")
        )
        found[numbers] = _tree_costs(tops, bottoms, costs)
    if others:
        rest = [problems[n] for n in others]
        found[others] = [_cost(problem, table) for problem, table in zip(rest, _tables(rest), strict=True)]
    return found.tolist()


def _tree_costs(tops: Floats, bottoms: Floats, costs: Floats) -> Floats:
    """The same of many problems with few points each."""
    return np.maximum(tree_costs(tops, bottoms, costs), 0.0) * (1 + _SLACK) + 1e-15


def _tables(problems: Sequence[Coupling]) -> list[Floats]:
    from scipy.optimize import linprog

    sizes = [problem.costs.size for problem in problems]
    begins = np.concatenate([[0], np.cumsum(sizes)])
    entries = int(begins[-1])
    equal, above, mass = [], [], []
    row_at = column_at = 0
    for n, problem in enumerate(problems):
        rows, columns = problem.costs.shape
        at = np.arange(rows * columns)
        equal.append((np.ones(at.size), row_at + at // columns, begins[n] + at))
        # Scaled to costs of at most 1: the programme drops coefficients that are too small.
        prices = np.exp(problem.costs - problem.costs.max()).ravel() / problem.bottom[at % columns]
        scale = prices.max()
        above.append((prices / scale, column_at + at % columns, begins[n] + at))
        above.append((-np.ones(columns), column_at + np.arange(columns), np.full(columns, entries + n)))
        mass.append(problem.top)
        row_at, column_at = row_at + rows, column_at + columns
    width = entries + len(problems)
    result = linprog(
        np.concatenate([np.zeros(entries), np.ones(len(problems))]),
        A_ub=_matrix(above, (column_at, width)),
        b_ub=np.zeros(column_at),
        A_eq=_matrix(equal, (row_at, width)),
        b_eq=np.concatenate(mass),
        bounds=(0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    solved = result.x if result.x is not None else np.zeros(width)
    return [solved[begins[n] : begins[n + 1]].reshape(problem.costs.shape) for n, problem in enumerate(problems)]


def _matrix(parts: list[tuple[Floats, Ints, Ints]], shape: tuple[int, int]) -> Any:
    from scipy.sparse import coo_array

    values, rows, columns = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return coo_array((values, (rows, columns)), shape=shape).tocsr()


def _cost(problem: Coupling, table: Floats) -> float:
    """The cost of a table once it is a coupling: rows that sum to the law, nothing below 0."""
    kept = np.maximum(table, 0.0)
    sums = kept.sum(axis=1)
    lost = sums <= 0
    kept[lost, np.argmin(problem.costs[lost], axis=1)] = 1.0
    kept *= (problem.top / np.where(lost, 1.0, sums))[:, None]
    top = float(problem.costs.max())
    worst = float(((kept * np.exp(problem.costs - top)).sum(axis=0) / problem.bottom).max())
    if worst > _TINY:
        value = math.log(worst) + top
    else:  # what is paid is so much less than another cost that their quotient has lost its digits
        with np.errstate(divide="ignore"):
            columns = np.logaddexp.reduce(np.log(kept) + problem.costs, axis=0) - np.log(problem.bottom)
        value = float(columns.max())
    return max(value, 0.0) * (1 + _SLACK) + 1e-15
