"""Streams over time: at step t an algorithm uses record t alone, and what it published before, and spends e_t on it.

That is Theorem 2 with losses τ_t = e_t. Backward leakage comes from the outputs up to the record's own, forward leakage
from its own on, total leakage from all: the record's loss with one side, the other, or both. Known to the tolerance for
any number of states, so never above the recursion of Cao, Yoshikawa, Xiao and Xiong (2017), which keeps one number for
a side, by more than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.arrays import Floats
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.bounds.inverse import largest_loss
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.attack import TightLeakage
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.inputs import Chain
from pufferdp.bounds.tight.search import ENDLESS
from pufferdp.bounds.tight.series import TOLERANCE, Problem, series_leakage, solve, steady_problem

EACH: Final = 200
"""Steps up to which each has a bracket of its own; of longer streams both ends have."""
_FEW_STATES: Final = 8
"""States up to which the ends of a stream are bounded apart from the rest."""


@dataclass(frozen=True, eq=False)
class StreamLeakage:
    """What a stream leaks about the record of each step, at most."""

    backward: Floats
    """From all outputs up to the record's own, step by step; one number, the largest, where there is no end."""
    forward: Floats
    """From the record's own output and all that follow."""
    total: Floats
    """From the outputs of all steps."""
    lower: float
    """Some algorithm leaks as much about the worst step's record."""
    attack: TightLeakage
    """The worst-case adversary and questions."""

    @property
    def upper(self) -> float:
        """No algorithm with these losses leaks more about any record."""
        return float(self.total.max())


def stream_leakage(
    transition: npt.ArrayLike,
    losses: float | npt.ArrayLike,
    *,
    length: int | None = None,
    start: str | npt.ArrayLike = "stationary",
    adversary: str = "bdp",
    tell: Callable[[int], None] = lambda part: None,
) -> StreamLeakage:
    """What a stream leaks about the record of each step, whatever the algorithm.

    >>> found = stream_leakage([[0.882, 0.118], [0.305, 0.695]], 0.1, length=288)
    >>> round(found.upper, 2)
    0.39

    Args:
        transition: one table, or several that follow each other again and again.
        losses: the DP loss of each step; one number: of every step.
        length: steps, for one number; without it the stream has no end.
        start: the distribution of the first record, "stationary" or "any".
        adversary: bdp, pufferfish or dp.
        tell: called before each of three parts of the work, 0, 1 and 2.
    """
    chain, who = inputs.chain(transition, start), inputs.adversary(adversary)
    if np.ndim(losses) > 0:
        return _steps(chain, inputs.losses(losses, length, "stream"), who, tell)
    loss = inputs.loss(float(np.asarray(losses)), "the loss of a step")
    if length is None:
        return _forever(chain, loss, who)
    steps = checks.length(length)
    if steps > 100_000_000:
        raise ParameterError(f"length is {steps:,}; leave it out for a stream without end", value=length)
    small, _ = inputs.visited(chain, steps)
    settles = small.stationary and small.primitive and small.period == 1 and 1 < small.size <= _FEW_STATES
    if not settles or who == "dp" or loss == 0:
        return _steps(chain, np.full(steps, loss), who, tell)
    return _constant(small, _curve(chain, steps, who).leakage(loss), loss, steps, tell)


def _steps(chain: Chain, losses: Floats, adversary: str, tell: Callable[[int], None]) -> StreamLeakage:
    parts = []
    for part, sides in enumerate(("before", "after", "both")):
        tell(part)
        parts.append(series_leakage(chain, losses, adversary, sides=sides, each=len(losses) <= EACH))
    backward, forward, total = parts
    lower = min(float(total.lower.max()), float(total.upper.max()))
    return StreamLeakage(backward.upper, forward.upper, total.upper, lower, total.attack)


def _forever(chain: Chain, loss: float, adversary: str) -> StreamLeakage:
    """The largest at any step of a stream without end."""
    total = _curve(chain, None, adversary).leakage(loss)
    backward, forward = (_largest(chain, loss, adversary, side) for side in (0, 1))
    if not all(math.isfinite(value) for value in (backward, forward, total.upper)):
        raise NotApplicableError(
            f"at {loss:g} a step no bound on a stream without end was found: what it leaks may grow forever; give a "
            "length"
        )
    before, after, both = (np.array([min(value, total.upper)]) for value in (backward, forward, total.upper))
    return StreamLeakage(before, after, both, total.lower, total)


def _curve(chain: Chain, length: int | None, adversary: str) -> TightCurve:
    start = "any" if chain.start is None else "stationary" if chain.stationary else chain.start
    return TightCurve(chain.kernels, start=start, length=length, adversary=adversary)


def _largest(chain: Chain, loss: float, adversary: str, side: int) -> float:
    """The record's loss and what one side adds, at most, forever."""
    small, _ = inputs.visited(chain, None)
    if adversary == "dp" or small.size == 1 or loss == 0:
        return loss if small.size > 1 else 0.0
    if not small.primitive:
        return math.inf
    problem = steady_problem(small, loss, adversary, None)
    if small.stationary:  # otherwise both sides are a bound: the first record has no side before it
        problem = _with_sides(problem, (side,))
    return float(solve(problem, TOLERANCE).upper[0])


def _with_sides(problem: Problem, sides: tuple[int, ...]) -> Problem:
    """The problem of a record with endless sides: before it (0), after it (1) or both, and nothing elsewhere."""
    records = np.zeros((2, len(problem)), dtype=np.int64)
    records[list(sides)] = ENDLESS
    return replace(problem, records=records)


def _constant(chain: Chain, worst: TightLeakage, loss: float, steps: int, tell: Callable[[int], None]) -> StreamLeakage:
    """Every step spends the same: both ends step by step, and one value for all steps between them."""
    each = np.arange(steps) if steps <= EACH else np.r_[: EACH // 2, steps - EACH // 2 : steps]
    problem = steady_problem(chain, loss, worst.adversary, steps)
    parts: list[Floats] = []
    for part, read in enumerate(((1, 0), (0, 1), (1, 1))):
        tell(part)
        positions = np.stack([each * read[0], (steps - 1 - each) * read[1]])
        upper = solve(replace(problem, positions=positions), TOLERANCE).upper
        # A longer side never adds less, and the longest sides are at the ends of the stream.
        parts.append(np.full(steps, upper.max() if part < 2 else worst.upper))
        parts[-1][each] = upper
    counts = np.arange(1, steps + 1)
    return StreamLeakage(
        backward=np.minimum(parts[0], loss * counts),
        forward=np.minimum(parts[1], loss * counts[::-1]),
        total=np.minimum(parts[2], min(worst.upper, loss * steps)),
        lower=worst.lower,
        attack=worst,
    )


@dataclass(frozen=True, kw_only=True)
class StreamBudget:
    """What each step may spend so that no record leaks more than the target."""

    constant: float
    """The loss that is the same at each step."""
    ends: tuple[float, float, float] | None
    """The first step, every one between, the last: safe for any number of steps. None where a stream without end has
    no budget."""


def stream_budget(
    transition: npt.ArrayLike,
    target: float,
    *,
    length: int | None = None,
    start: str | npt.ArrayLike = "stationary",
    adversary: str = "bdp",
) -> StreamBudget:
    """What each step of a stream may spend so that no record leaks more than the target; without a length: forever.

    >>> budget = stream_budget([[0.882, 0.118], [0.305, 0.695]], 1.0)
    >>> round(budget.constant, 2), 0.62 < min(budget.ends[0], budget.ends[2]) < 0.626
    (0.25, True)
    """
    most, who = inputs.target(target, "target"), inputs.adversary(adversary)
    steps = None if length is None else checks.length(length)
    chain = inputs.chain(transition, start)
    lasting = _curve(chain, None, who).inverse(most)
    ends = _ends(chain, lasting, most, who) if lasting > 0 else None
    constant = lasting if steps is None else _curve(chain, steps, who).inverse(most)
    if constant <= 0:
        raise NotApplicableError(
            "no constant loss keeps a stream without end within a target here: outputs say ever more about where the "
            "chain is in its cycle, or in which part; give a length"
        )
    return StreamBudget(constant=constant, ends=ends)


def _ends(chain: Chain, loss: float, target: float, adversary: str) -> tuple[float, float, float]:
    """More at the ends: only an adversary who knows no record of a side sees what its farthest record spends."""
    small, _ = inputs.visited(chain, None)
    many = small.size > _FEW_STATES or small.period > 1
    if adversary == "dp" or not small.stationary or small.size == 1 or many:
        return loss, loss, loss

    def largest(fits: Callable[[float], bool]) -> float:
        found = largest_loss(lambda own: own if own <= loss or fits(own) else math.inf, target, TOLERANCE)
        # A margin for the next search: its brackets may end elsewhere within the tolerance.
        return max(found / (1 + 2 * TOLERANCE), loss)

    both = largest(lambda own: _fits(small, loss, (own, own), target, adversary))
    first = largest(lambda own: _fits(small, loss, (own, both), target, adversary))
    return first, loss, largest(lambda own: _fits(small, loss, (first, own), target, adversary))


def _fits(chain: Chain, loss: float, ends: tuple[float, float], target: float, adversary: str) -> bool:
    """Whether no record of a stream leaks more than the target, whatever its length, if its ends spend more."""
    problem = steady_problem(chain, loss, adversary, None, ends)
    for own, sides in ((loss, (0, 1)), (ends[0], (1,)), (ends[1], (0,))):
        case = replace(_with_sides(problem, sides), own=np.full(len(problem), own))
        if float(solve(case, TOLERANCE / 8).upper[0]) > target:  # the constant loss is close to it
            return False
    return True
