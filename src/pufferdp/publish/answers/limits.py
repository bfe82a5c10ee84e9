"""What no mechanism can do for a problem: the error that any of them must make, and how often."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.distributions.lower_bounds import apart_records, apart_series
from pufferdp.models.chain import MarkovChain, series_of
from pufferdp.publish.answers.distributions import grid
from pufferdp.publish.answers.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Two data sets with answers ``apart`` must look alike: for one of them an error of half of it is frequent."""

    apart: float
    """How far the two answers are apart."""
    error: float
    """Half of ``apart``: the error that ``probability`` is about."""
    probability: float
    """For one of the two data sets an error of at least this size has at least this probability: 1 − delta over
    e^epsilon + 1."""
    hopeless: bool
    """Whether the two are half the range of the answer apart, or more: the answer then tells hardly anything."""
    way_out: str
    """What would make it possible."""

    def to_dict(self) -> dict[str, Any]:
        """The keys of the command line's JSON."""
        return {
            "apart": self.apart,
            "error": self.error,
            "probability": self.probability,
            "hopeless": self.hopeless,
            "way_out": self.way_out,
        }


def limit_of(problem: Problem) -> Limit | None:
    """The limit for one number: a count, a sum or a mean; None where nothing is known but that one record is hidden.

    >>> from pufferdp import AnyGroups, Query
    >>> everyone = Problem(model=AnyGroups(largest=100), query=Query.parse("count:1"), lengths=((100, 1),), epsilon=1)
    >>> found = limit_of(everyone)
    >>> found.error, round(found.probability, 3), found.hopeless
    (50.0, 0.269, True)
    """
    if not problem.query.adds_up or problem.secrets is not None:
        return None
    far = _answer_distance(problem)
    if far <= problem.bound.lipschitz * (1 + 1e-9):
        return None  # one record can always move the answer so far, and that is what a guarantee hides
    low, high = problem.answer_range
    return Limit(
        apart=far,
        error=far / 2,
        # An answer near one of the two is far from the other: 1 − β ≤ e^epsilon·β + delta.
        probability=(1 - problem.delta) / (math.exp(problem.epsilon) + 1) if problem.epsilon < 700 else 0.0,
        hopeless=high > low and far >= (high - low) / 2,
        way_out=_way_out(problem),
    )


def _answer_distance(problem: Problem) -> float:
    """How far two answers are apart that must look alike, in the answer's units."""
    model, lipschitz = problem.model, problem.bound.lipschitz
    if model.arbitrary is not None:
        together = min(model.arbitrary, problem.records or model.arbitrary)
        return lipschitz * (1 if problem.adversary is Adversary.DP else together)
    if model.real_valued:
        return 0.0  # normal records can be anything, whatever is known
    try:
        answer_grid = grid(problem, model.domains or [model.labels])
    except NotApplicableError:
        return 0.0
    if answer_grid is None:
        return 0.0
    if model.record_models:
        steps = max(apart_records(member, answer_grid.steps, problem.adversary) for member in model.record_models)
    elif problem.adversary is Adversary.DP or _blurred(problem):
        steps = 0
    else:
        steps = max(
            (apart_series(chain, problem.longest, answer_grid.steps[0]) for chain in _chains(problem)), default=0
        )
    return steps * float(answer_grid.unit)


def _blurred(problem: Problem) -> bool:
    """Whether other chains move the answer, which this adversary does not know."""
    return problem.adversary is Adversary.PUFFERFISH and sum(count for _, count in problem.lengths) > 1


def _chains(problem: Problem) -> tuple[MarkovChain, ...]:
    series = series_of(problem.model)
    if series is None or series.box is None:
        return () if series is None else series.chains
    box, still = series.box, np.eye(series.size)  # of a box only the chain that never moves is looked at
    return (MarkovChain(transition=still, start="any"),) if ((box.low <= still) & (still <= box.high)).all() else ()


def _way_out(problem: Problem) -> str:
    rarer = f"a larger epsilon (at {problem.epsilon + 3:g} it is {1 / (math.exp(problem.epsilon + 3) + 1):.2g})"
    if problem.model.arbitrary is not None:
        return f"smaller groups, many more of them, a model of what holds inside a group, or {rarer}"
    if problem.model.domains is not None:
        return f"many more records that are independent of these, or {rarer}"
    return f"a chain that moves at random, many more series, or {rarer}"
