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
from pufferdp.basics.arrays import Floats, Ints
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.bounds.inverse import largest_loss
from pufferdp.bounds.tight import inputs
from pufferdp.bounds.tight.attack import TightLeakage
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.bounds.tight.inputs import Chain
from pufferdp.bounds.tight.search import ENDLESS
from pufferdp.bounds.tight.series import TOLERANCE, series_leakage, solve, steady_problem

_SIDES: Final = ("before", "after", "both")
EACH: Final = 1000
"""Steps up to which each has a bracket of its own; of longer streams both ends have."""
_FEW_STATES: Final = 8
"""States up to which the ends of a stream are bounded apart from the rest."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamLeakage:
    """What a stream leaks about the record of each step, at most."""

    losses: Floats
    """DP loss of each step; one number where the stream has no end."""
    backward: Floats
    """From all outputs up to the record's own, step by step; one number, the largest, where there is no end."""
    forward: Floats
    """From the record's own output and all that follow."""
    total: Floats
    """From all outputs."""
    lower: float
    """Some algorithm leaks as much about the worst step's record."""
    attack: TightLeakage
    """The worst-case adversary and questions."""
    length: int | None
    adversary: str

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
    for part, sides in enumerate(_SIDES):
        tell(part)
        parts.append(series_leakage(chain, losses, adversary, sides=sides, each=len(losses) <= EACH))
    backward, forward, total = parts
    return StreamLeakage(
        losses=losses,
        backward=backward.upper,
        forward=forward.upper,
        total=total.upper,
        lower=min(float(total.lower.max()), float(total.upper.max())),
        attack=total.attack,
        length=len(losses),
        adversary=adversary,
    )


def _forever(chain: Chain, loss: float, adversary: str) -> StreamLeakage:
    """The largest at any step of a stream without end."""
    total = _curve(chain, None, adversary).leakage(loss)
    backward, forward = (_largest(chain, loss, adversary, side) for side in (0, 1))
    if not all(math.isfinite(value) for value in (backward, forward, total.upper)):
        raise NotApplicableError(
            f"at {loss:g} a step no bound on a stream without end was found: what it leaks may grow forever; give a "
            "length"
        )
    return StreamLeakage(
        losses=np.array([loss]),
        backward=np.array([min(backward, total.upper)]),
        forward=np.array([min(forward, total.upper)]),
        total=np.array([total.upper]),
        lower=total.lower,
        attack=total,
        length=None,
        adversary=adversary,
    )


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
    if small.stationary:
        records = np.zeros((2, len(problem)), dtype=np.int64)
        records[side] = ENDLESS
        problem = replace(problem, records=records)
        return float(solve(problem, TOLERANCE).upper[0])
    # The first record has no side before it; records before a later one are those of the whole.
    return float(solve(problem, TOLERANCE).upper[0])


def _constant(chain: Chain, worst: TightLeakage, loss: float, steps: int, tell: Callable[[int], None]) -> StreamLeakage:
    """Every step spends the same: both ends step by step, and one value for all steps between them."""
    edge = min(steps, EACH if steps <= EACH else EACH // 4)
    near = np.arange(edge)
    parts: list[Floats] = []
    for part, lanes in enumerate(((0,), (1,), (0, 1))):
        tell(part)
        before = near if steps <= EACH else np.concatenate([near, steps - edge + near, [edge]])
        positions = np.stack([before, steps - 1 - before])
        positions[[lane for lane in (0, 1) if lane not in lanes]] = 0
        upper = _at_positions(chain, loss, worst.adversary, positions)
        if steps > EACH:
            # What is between is at most what the worst step leaks; a longer side never adds less.
            between = max(float(upper[-1]), float(upper[:-1].max())) if len(lanes) == 1 else worst.upper
            upper = np.concatenate([upper[:edge], np.full(steps - 2 * edge, between), upper[edge:-1]])
        parts.append(upper)
    counts = np.arange(1, steps + 1)
    return StreamLeakage(
        losses=np.full(steps, loss),
        backward=np.minimum(parts[0], loss * counts),
        forward=np.minimum(parts[1], loss * counts[::-1]),
        total=np.minimum(parts[2], min(worst.upper, loss * steps)),
        lower=worst.lower,
        attack=worst,
        length=steps,
        adversary=worst.adversary,
    )


def _at_positions(chain: Chain, loss: float, adversary: str, positions: Ints) -> Floats:
    """Upper ends for records with given numbers of others before and after them."""
    longest = int(positions.max()) + 1
    problem = replace(steady_problem(chain, loss, adversary, longest), positions=positions)
    return solve(problem, TOLERANCE).upper


@dataclass(frozen=True, kw_only=True)
class StreamBudget:
    """What each step may spend so that no record leaks more than the target."""

    target: float
    length: int | None
    adversary: str
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
    lasting = TightCurve(transition, start=start, adversary=who).inverse(most)
    ends = _ends(chain, lasting, most, who) if lasting > 0 else None
    constant = (
        lasting if steps is None else TightCurve(transition, start=start, length=steps, adversary=who).inverse(most)
    )
    if constant <= 0:
        raise NotApplicableError(
            "no constant loss keeps a stream without end within a target here: outputs say ever more about where the "
            "chain is in its cycle, or in which part; give a length"
        )
    return StreamBudget(target=most, length=steps, adversary=who, constant=constant, ends=ends)


def _ends(chain: Chain, loss: float, target: float, adversary: str) -> tuple[float, float, float]:
    """More at the ends: only an adversary who knows no record of a side sees what its farthest record spends."""
    small, _ = inputs.visited(chain, None)
    many = small.size > _FEW_STATES or small.period > 1
    if adversary == "dp" or not small.stationary or small.size == 1 or many:
        return loss, loss, loss

    def largest(fits: Callable[[float], bool]) -> float:
        found = largest_loss(lambda own: own if own <= loss or fits(own) else math.inf, target, TOLERANCE)
        # Room for the next search: its brackets may end elsewhere within the tolerance.
        return max(found / (1 + 2 * TOLERANCE), loss)

    both = largest(lambda own: _fits(small, loss, (own, own), target, adversary))
    first = largest(lambda own: _fits(small, loss, (own, both), target, adversary))
    return first, loss, largest(lambda own: _fits(small, loss, (first, own), target, adversary))


def _fits(chain: Chain, loss: float, ends: tuple[float, float], target: float, adversary: str) -> bool:
    """Whether no record of a stream leaks more than the target, whatever its length, if its ends spend more."""
    problem = steady_problem(chain, loss, adversary, None, ends)
    for own, lanes in ((loss, (0, 1)), (ends[0], (1,)), (ends[1], (0,))):
        records = np.zeros((2, len(problem)), dtype=np.int64)
        records[list(lanes)] = ENDLESS
        case = replace(problem, own=np.full(len(problem), own), records=records)
        if float(solve(case, TOLERANCE).upper[0]) > target:
            return False
    return True
