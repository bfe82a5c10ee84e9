"""How often each state follows each other one, as a question of a table.

A record has at most two neighbours, and a pair that changes leaves one cell and enters another: one record moves the
table by at most 4 in L1, and by 2 at an end of a chain or beside an unobserved step. Pairs across unobserved steps and
across the borders of groups are not counted. How many pairs there are follows from where records are, which is public,
so the noise adds up to 0, as in a histogram.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pufferdp.basics.errors import QueryError
from pufferdp.models.base import Model
from pufferdp.models.chain import series_of
from pufferdp.publish.answers.estimate import simplex
from pufferdp.publish.noise import NoiseDistribution, NoiseKind, Sampler
from pufferdp.publish.tables.classic import noise_of_scale, noisy_rows, scale_of, takes_long
from pufferdp.publish.tables.questions import GroupRecords, Question, QuestionNoise, Row

MOVE: Final = 4.0
"""The most that one record moves the table in L1: two pairs, each out of one cell and into another."""
ARROW: Final = ">"
_THEOREM: Final = "Laplace noise of scale 4/tau (Dwork, McSherry, Nissim & Smith 2006, Proposition 1)"


@dataclass(frozen=True)
class TransitionsQuestion(Question):
    """Counts of neighbouring pairs of states."""

    independent: bool = False
    """Whether each count has noise of its own, also where the noise could add up to 0: of very many groups or states,
    whose noise would take long to draw otherwise."""

    @property
    def name(self) -> str:
        """The command line's spelling."""
        return "transitions"

    def check(self, model: Model) -> None:
        """Refuse a model whose records do not follow each other, and names that could not be distinguished."""
        if series_of(model) is None or len(model.labels) < 2:
            raise QueryError(
                "transitions are of a series with two or more states, and the model is of another kind; ask for a "
                "histogram",
                value=self.name,
            )
        odd = next((label for label in model.labels if ARROW in label), None)
        if odd is not None:
            raise QueryError(
                f"state {odd!r} has a {ARROW!r} in its name, which stands between the states of a pair; rename it",
                value=odd,
            )

    def labels(self, model: Model) -> tuple[str, ...]:
        """``before>after``, all that begin with the first state first."""
        return tuple(f"{before}{ARROW}{after}" for before in model.labels for after in model.labels)

    def noise(self, model: Model, dp_loss: float, beta: float, records: int = 0) -> QuestionNoise:
        """Discrete Laplace noise of scale 4/tau, rounded up."""
        distribution = self._distribution(model, scale_of(MOVE, dp_loss))
        return QuestionNoise(
            kind=str(distribution.kind),
            scale=distribution.scale,
            alpha=distribution.accuracy(beta).alpha,
            beta=beta,
            about="counts",
            theorem=_THEOREM,
            balanced=distribution.balanced,
        )

    def measure_each(
        self, model: Model, groups: Sequence[GroupRecords], noise: QuestionNoise, sampler: Sampler
    ) -> list[Row]:
        """The noisy counts, row by row of each group's table; their noise is drawn together."""
        distribution = self._distribution(model, noise.scale)
        exact = np.array([group.transitions.ravel() for group in groups], dtype=np.int64)
        return noisy_rows(distribution, exact, sampler)

    def for_groups(self, model: Model, groups: int) -> Question:
        """With noise that can be drawn for so many groups."""
        return replace(self, independent=takes_long(len(self.labels(model)), groups))

    def stated(self, balanced: bool) -> Question:
        """With the noise that a certificate states."""
        return replace(self, independent=not balanced)

    def hiding_sizes(self) -> Question:
        """With noise of its own for each count."""
        return replace(self, independent=True)

    def estimate_each(self, model: Model, sizes: Sequence[int | None], answers: Sequence[Row]) -> list[Row]:
        """The nearest counts that are not below 0 and as many in all as were released."""
        numbers = np.array([[value or 0 for value in answer] for answer in answers], dtype=float)
        most = np.array([math.inf if size is None else max(size - 1, 0) for size in sizes])
        total = np.clip(numbers.sum(axis=1), 0, most)[:, np.newaxis]
        nearest = np.where(total > 0, simplex(numbers, np.maximum(total, 1e-9)), 0.0)
        return [tuple(row) for row in nearest.tolist()]

    def check_answer(self, model: Model, records: int | None, answer: Row, balanced: bool = False) -> None:
        """Counts are whole, and noise that adds up to 0 leaves as many pairs as there can be: fewer than records."""
        super().check_answer(model, records, answer)
        if any(type(value) is not int for value in answer):
            raise QueryError("the answer to transitions must be whole numbers")
        if balanced and not 0 <= sum(value or 0 for value in answer) <= max((records or 0) - 1, 0):
            raise QueryError("the answer to transitions does not add up, as its noise makes it do")

    def _distribution(self, model: Model, scale: float) -> NoiseDistribution:
        return noise_of_scale(NoiseKind.DISCRETE_LAPLACE, scale, len(model.labels) ** 2, not self.independent)
