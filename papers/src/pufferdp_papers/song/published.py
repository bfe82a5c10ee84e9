"""The mechanisms that the paper compares, ours beside them, and the error of their noise.

All of them add independent Laplace noise of scale L·sigma to every number of an answer that one record moves by at most
L, and differ in sigma alone. The paper averages errors over random trials; here they are expectations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pufferdp.basics.adversary import Adversary
from pufferdp.models.base import Lengths
from pufferdp.models.chain import SeriesModel
from pufferdp.publish.answers.plan import plan_problem
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query

PUBLISHED: Final[Mapping[str, str]] = {
    "GroupDP": "group",
    "GK16": "gk16",
    "MQMApprox": "quilt-approx",
    "MQMExact": "quilt-exact",
}
"""What the paper calls a mechanism, and its name in a plan."""
OURS: Final[Mapping[str, str]] = {"ours: tight": "curve-tight"}
COMPARED: Final[Mapping[str, str]] = {**PUBLISHED, **OURS}


def histogram_of(model: SeriesModel, lengths: Lengths, epsilon: float) -> Problem:
    """A relative-frequency histogram, guaranteed to an adversary who knows no record, as everywhere in the paper."""
    return Problem(
        model=model,
        query=Query.parse("frequency"),
        lengths=lengths,
        epsilon=epsilon,
        adversary=Adversary.PUFFERFISH,
    )


def noise_multiplier(problem: Problem, mechanism: str) -> float | None:
    """The sigma of a mechanism; None where it does not apply."""
    candidate = plan_problem(problem, only=[mechanism]).candidate(mechanism)
    return candidate.calibration.sigma if candidate.applies and candidate.calibration is not None else None


def laplace_error(problem: Problem, sigma: float | None) -> float | None:
    """Expected L1 error of Laplace noise, summed over the numbers of the answer: each errs by its scale on average."""
    return None if sigma is None else len(problem.bound.labels) * problem.bound.lipschitz * sigma
