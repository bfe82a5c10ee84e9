"""What a table asks of each group: every question is an algorithm with a DP loss for each record of the group.

Groups share no record, so a record pays for the questions of its own group alone, and what it pays is the sum of their
losses. That is all that the guarantee of a table needs to know of a question (docs/guide/tables.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pufferdp.basics.errors import QueryError
from pufferdp.models.base import Model
from pufferdp.publish.noise import Sampler

Number = int | float | None
"""A released number; None where a group without records has no such number."""
Row = tuple[Number, ...]
"""The answer of one group, a number for each label of its question."""


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupRecords:
    """The exact records of one group, in their order. Never printed."""

    states: int
    """How many states the model has."""
    codes: NDArray[np.int64]
    """The state of each record, counted from 0."""
    numbers: NDArray[np.float64] | None = None
    """The number of each record inside the clipping range; None where no question reads numbers."""
    joined: NDArray[np.bool_] | None = None
    """Whether each record comes one step after the one before it in the group; None: none does."""

    def __repr__(self) -> str:
        return "GroupRecords(hidden)"

    @property
    def size(self) -> int:
        """How many records there are: public."""
        return len(self.codes)

    @cached_property
    def histogram(self) -> NDArray[np.int64]:
        """How many records have each state."""
        return np.bincount(self.codes, minlength=self.states)

    @cached_property
    def transitions(self) -> NDArray[np.int64]:
        """How often each state follows each other one inside the group: a row for each state before."""
        pairs = np.zeros((self.states, self.states), dtype=np.int64)
        if self.joined is not None and self.size > 1:
            at = np.flatnonzero(self.joined[1:]) + 1
            np.add.at(pairs, (self.codes[at - 1], self.codes[at]), 1)
        return pairs


@dataclass(frozen=True, kw_only=True)
class QuestionNoise:
    """The noise of one question: public, and recomputed when a table is verified."""

    kind: str
    """Which distribution it has."""
    scale: float
    """Of one number; of answers that are divided by the records of their group, before they are."""
    alpha: float
    """With probability 1−beta every number of a group's answer errs by less; before it is divided, like the scale."""
    beta: float
    about: str
    """What alpha is measured in: counts, values, ranks …"""
    theorem: str
    """The theorem by which it is DP."""
    balanced: bool = False
    """Whether the noise of a group's numbers adds up to 0."""
    divided: bool = False
    """Whether the answer, its scale and its alpha are divided by the records of the group."""


class Question(ABC):
    """A question of a table. Subclasses are frozen dataclasses; ``parse_question`` reads one back from its name."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The command line's spelling, in its one canonical form."""

    @property
    def clip(self) -> tuple[float, float] | None:
        """The range that numbers are clipped to; None where it reads none."""
        return None

    def reads_numbers(self, model: Model) -> bool:
        """Whether it reads numbers of the data, which the model's states do not have."""
        return False

    @abstractmethod
    def check(self, model: Model) -> None:
        """Refuse what does not fit the model, before any data is read."""

    @abstractmethod
    def labels(self, model: Model) -> tuple[str, ...]:
        """What each number of the answer is."""

    def columns(self, model: Model) -> tuple[str, ...]:
        """The columns of its numbers in a table: the kind of the question and the label."""
        kind = self.name.partition(":")[0]
        return tuple(kind if label == kind else f"{kind}:{label}" for label in self.labels(model))

    @abstractmethod
    def noise(self, model: Model, dp_loss: float, beta: float, records: int = 0) -> QuestionNoise:
        """The noise at which the answer has this DP loss for each record, in a table of so many records in all."""

    @abstractmethod
    def measure_each(
        self, model: Model, groups: Sequence[GroupRecords], noise: QuestionNoise, sampler: Sampler
    ) -> list[Row]:
        """The answer of each group with its noise. The only place that draws; exact numbers do not leave it."""

    def for_groups(self, model: Model, groups: int) -> Question:
        """The question with noise that can be drawn for so many groups."""
        return self

    def stated(self, balanced: bool) -> Question:
        """The question with noise of the kind that a certificate states."""
        return self

    def hiding_sizes(self) -> Question:
        """The question with an answer that does not show the number of records of a group.

        Noise that adds up to 0 would: the noisy counts then add up to that number.
        """
        return self

    def estimate_each(self, model: Model, sizes: Sequence[int | None], answers: Sequence[Row]) -> list[Row]:
        """The nearest answers that could be true, from those released and the records of each group, where public."""
        return list(answers)

    def check_answer(self, model: Model, records: int | None, answer: Row, balanced: bool = False) -> None:
        """Refuse an answer of a table that is verified, where no draw could have made it; balanced noise adds up."""
        if len(answer) != len(self.labels(model)):
            raise QueryError(f"the answer to {self.name} does not have one number for each label")
