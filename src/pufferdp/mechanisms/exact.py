"""The least Laplace noise that keeps the promise: the leakage computed exactly, and the scale found by bisection."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from pufferdp.checks import Adversary
from pufferdp.errors import NotApplicableError
from pufferdp.leakage.additive import NothingKnown, TableLeakage
from pufferdp.leakage.windows import WindowLeakage
from pufferdp.mechanisms.answers import Grid, answer_laws, grid
from pufferdp.mechanisms.base import Finding, Mechanism, Problem, refuse_own_secrets
from pufferdp.models.classes import MarkovClass
from pufferdp.models.collection import ModelClass
from pufferdp.models.markov import MarkovChain
from pufferdp.models.records import RecordModel
from pufferdp.queries import QueryKind

_MOST_LOSS: Final = 100.0
"""Beyond it there is hardly any noise, and densities of the output fall below what a double can hold."""
_MOST_STATES: Final = 6
"""Windows of chains with more states take minutes."""
_MOST_WINDOWS: Final = 50
"""Chains of a class times different lengths: each takes some ten milliseconds, some twenty times."""
_SPARE: Final = 1e-10
"""More than rounding can take from a leakage: it is left over, so the noise is wider by it."""

Leak = Callable[[float], float]
"""The leakage at a DP loss."""


class ExactLaplace(Mechanism):
    """The least scale at which the leakage, over all adversaries of the kind, is epsilon."""

    name = "exact-laplace"
    theorem = "exact leakage of a noisy number, over every adversary of the kind (docs/theory/windows.md)"

    def find(self, problem: Problem) -> Finding:
        """One over the largest DP loss whose leakage is at most epsilon, under the worst belief."""
        refuse_own_secrets(problem)
        return Finding(sigma=1 / largest_loss(exact_leakage(problem), problem.epsilon))


def largest_loss(leak: Leak, target: float) -> float:
    """The largest DP loss that leaks no more than the target, by bisection; what is returned has been checked.

    The leakage rises with the loss: a wider Laplace noise is a narrower one with more noise added.
    """
    allowed = target - _SPARE
    low = high = min(target, _MOST_LOSS)
    # To someone who knows no record, records that make up for each other hide each other: more loss may do.
    while leak(high) <= allowed:
        if high == _MOST_LOSS:
            return high
        low, high = high, min(2 * high, _MOST_LOSS)
    while low == high or leak(low) > allowed:
        low, high = low / 2, low
        if low < target * 1e-9:
            raise NotApplicableError("no DP loss was found to be small enough")
    while high / low - 1 > 1e-7:  # about twenty steps; each may take a tenth of a second
        middle = math.sqrt(low * high)
        low, high = (middle, high) if leak(middle) <= allowed else (low, middle)
    return low


def exact_leakage(problem: Problem) -> Leak:
    """The leakage of the answer with Laplace noise of scale L/tau, by tau, under the worst belief of the class."""
    steps = _grid(problem)
    leaks = _leaks(problem, steps)
    share = (float(steps.unit) + steps.inexact) / problem.bound.lipschitz

    def at(tau: float) -> float:
        if tau > _MOST_LOSS:
            raise NotApplicableError(
                f"is computed for a DP loss of at most {_MOST_LOSS:g}; beyond it there is no noise"
            )
        found = max(leak(tau * share) for leak in leaks)
        if not math.isfinite(found):
            raise NotApplicableError("the leakage is not a number that a double can hold")
        return found

    return at


def _leaks(problem: Problem, steps: Grid) -> Sequence[Leak]:
    """One leakage for each belief, and each length of a series."""
    model = problem.model
    if problem.adversary is Adversary.PUFFERFISH:
        return [NothingKnown(given.laws).at for given in answer_laws(problem)]
    if isinstance(model, (MarkovChain, MarkovClass)):
        # Other chains only blur the answer, and the adversary may know them: each chain by itself.
        lengths = [length for length, _ in problem.lengths]
        if model.size > _MOST_STATES or len(lengths) * len(model.chains) > _MOST_WINDOWS:
            raise NotApplicableError(
                f"{model.size} states, {len(model.chains)} chain(s) and {len(lengths)} length(s) take too long; the "
                f"limits are {_MOST_STATES} states and {_MOST_WINDOWS} chains times lengths"
            )
        return [_upper(WindowLeakage(chain, n, steps.steps[0])) for chain in model.chains for n in lengths]
    if isinstance(model, (RecordModel, ModelClass)):
        return [TableLeakage(one, steps.steps, problem.adversary).at for one in model.beliefs]
    raise NotApplicableError("the class cannot be listed, so its leakage cannot be computed belief by belief")


def _upper(window: WindowLeakage) -> Leak:
    return lambda tau: window.at(tau).upper


def _grid(problem: Problem) -> Grid:
    """The answer in whole steps, or the reason why there is no exact leakage."""
    if problem.adversary is Adversary.DP:
        raise NotApplicableError("towards an adversary who knows all other records the DP loss is the leakage")
    if problem.query.kind not in (QueryKind.COUNT, QueryKind.SUM, QueryKind.MEAN):
        raise NotApplicableError("is worked out for one number: a count, a sum or a mean of states with values")
    model = problem.model
    domains = model.domains if isinstance(model, (RecordModel, ModelClass)) else [model.labels]
    found = grid(problem, domains)
    if found is None:
        raise NotApplicableError("needs states with values; the numbers are in the data alone")
    return found
