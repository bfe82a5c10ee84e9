"""The law of an exact answer under a model, given what is known: what the Wasserstein mechanism compares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pufferdp.errors import ModelError, ParameterError
from pufferdp.mechanisms.answers import answer_laws
from pufferdp.mechanisms.base import Problem
from pufferdp.models.classes import Model
from pufferdp.queries import Query
from pufferdp.secrets import Condition, Secret


@dataclass(frozen=True, eq=False)
class AnswerLaw:
    """The possible answers and their probabilities. Follows from the model alone; no data is read."""

    answers: npt.NDArray[np.float64]
    """The values of the answer, rising; one row each for an answer of several numbers. Sums count from their least."""
    probabilities: npt.NDArray[np.float64]

    def __repr__(self) -> str:
        return f"AnswerLaw({len(self.answers)} answers)"


def answer_law(
    model: Model, query: Query | str, *, length: int | None = None, given: Condition | None = None
) -> AnswerLaw:
    """The law of the exact answer to a query, given what is known of some records.

    >>> from pufferdp import Groups
    >>> clique = Groups(sizes=[4], positives=[[0.1, 0.15, 0.5, 0.15, 0.1]])
    >>> answer_law(clique, "count:1", given={"1": "0"}).probabilities.round(3).tolist()
    [0.2, 0.225, 0.5, 0.075, 0.0]
    """
    problem = Problem(
        model=model,
        query=Query.parse(query) if isinstance(query, str) else query,
        lengths=() if length is None else ((length, 1),),
        epsilon=1.0,
    )
    beliefs = list(answer_laws(problem))
    if len(beliefs) > 1:
        raise ParameterError("the model is a class; the law of an answer needs one belief")
    cells = [{}] if given is None else Secret(name="what is known", when=given).cells(problem.domains)
    found = beliefs[0].laws.event(cells)
    if found is None:
        raise ModelError(f"{given} has probability 0; nothing can be said given it", value=given)
    if len(found) > 1:
        raise ParameterError("the chain may start anywhere; the law of an answer needs a definite start")
    points = np.asarray(beliefs[0].laws.points, dtype=float) * beliefs[0].unit
    return AnswerLaw(points, np.exp(found[0]))
