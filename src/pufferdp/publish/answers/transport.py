"""Two distributions of an answer and the transport between them, for a figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pufferdp.basics.errors import ParameterError
from pufferdp.bounds.distributions.wasserstein import Pairs, coupling
from pufferdp.publish.answers.distributions import AnswerDistribution
from pufferdp.publish.noise import ROUNDING

MOST_ANSWERS: Final = 200
"""More bars than this are a grey block."""


@dataclass(frozen=True)
class Moves:
    """A transport between two distributions on the same answers that carries nothing farther than it must."""

    answers: tuple[float, ...]
    """The answers that are possible under either distribution, rising."""
    first: tuple[float, ...]
    """Probability of each answer under the first distribution."""
    second: tuple[float, ...]
    """Probability of each answer under the second distribution."""
    moves: tuple[tuple[int, int, float], ...]
    """Moves as (from, to, mass), from and to as places among the answers."""
    distance: float
    """W-infinity: the length of the longest move, unless the mass that must go so far is lost in rounding."""

    def length(self, move: tuple[int, int, float]) -> float:
        """How far a move carries its mass."""
        return abs(self.answers[move[0]] - self.answers[move[1]])


def moves_between(distribution_first: AnswerDistribution, distribution_second: AnswerDistribution) -> Moves:
    """The quantile coupling of two distributions of an answer that is one number."""
    if distribution_first.answers.ndim != 1 or distribution_second.answers.ndim != 1:
        raise ParameterError("the answer is several numbers; a figure of a transport needs an answer of one number")
    distributions = [
        {float(x): float(p) for x, p in zip(distribution.answers, distribution.probabilities, strict=True) if p > 0}
        for distribution in (distribution_first, distribution_second)
    ]
    answers = sorted({x for distribution in distributions for x in distribution})
    if len(answers) > MOST_ANSWERS:
        raise ParameterError(
            f"the distributions have {len(answers):,} possible answers; a figure shows at most {MOST_ANSWERS}",
            value=len(answers),
        )
    first, second = ([distribution.get(x, 0.0) for x in answers] for distribution in distributions)
    points = np.array(answers)
    if all(x.is_integer() for x in answers):
        points = points.astype(np.int64)
    with np.errstate(divide="ignore"):  # masses that are equal in truth may differ by rounding: no noise depends on it
        worst = Pairs(points, np.log(first), np.log(second), ROUNDING).worst()
    distance = 0.0 if worst is None else worst.distance
    # Masses that differ in their last digits leave dust, which would be carried on to the next answer.
    moves = [
        (i, j, mass) for i, j, mass in coupling(answers, first, second) if abs(answers[i] - answers[j]) <= distance
    ]
    return Moves(tuple(answers), tuple(first), tuple(second), tuple(moves), distance)
