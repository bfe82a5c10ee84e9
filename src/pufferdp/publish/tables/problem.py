"""A table as a problem: which questions, of which groups, for which guarantee, and the noise that keeps it.

Every question is an algorithm with a DP loss of its own for each record of its group, and groups share no record. So
the whole table is one algorithm whose DP loss for each record is the sum over its questions, and the lowest leakage
curve that holds for every algorithm says how large that sum may be (docs/guide/tables.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from pufferdp.basics import checks
from pufferdp.basics.errors import NotApplicableError, ParameterError
from pufferdp.basics.words import quoted_value
from pufferdp.bounds.curve_forms import Lowest
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.publish.answers.mechanisms.baselines import curve_of_every_algorithm
from pufferdp.publish.answers.problem import Problem, check_series
from pufferdp.publish.answers.queries import HistogramQuery, Query
from pufferdp.publish.tables.groups import Grouping
from pufferdp.publish.tables.questions import Question, QuestionNoise

SIZES: Final = ("exact", "hidden")
"""Whether the number of records of each group is published. It is no secret of the guarantee either way."""


@dataclass(frozen=True, kw_only=True)
class TableProblem(Problem):
    """A table that is asked for, as any DP algorithm on the records of all groups. Nothing of it is secret."""

    query: Query = field(default_factory=HistogramQuery)
    """Not asked: the questions are. It says that the algorithm reads states."""
    questions: tuple[Question, ...]
    grouping: Grouping = field(default_factory=Grouping)
    split: tuple[float, ...] = ()
    """The share of each question in the DP loss of the table; they add up to 1. Without any all have the same."""
    beta: float = 0.05
    curve: str | None = None
    """The leakage curve by name, as a certificate states it; None: the lowest."""
    ranges: Ranges = EVERYTHING
    """Which records were read, by time and by person."""
    sizes: str = "exact"
    """Whether the number of records of each group is published: one of ``SIZES``."""

    def __post_init__(self) -> None:
        check_series(self.model, "a table")
        super().__post_init__()
        if self.hides_sizes:
            check_hidden(self.grouping, self.questions)
            object.__setattr__(self, "questions", tuple(question.hiding_sizes() for question in self.questions))
        if not self.split:
            object.__setattr__(self, "split", shares_of((), len(self.questions)))
        if shares_of(self.split, len(self.questions)) and not math.isclose(math.fsum(self.split), 1, rel_tol=1e-9):
            raise ParameterError(f"the shares add up to {math.fsum(self.split):g}; it must be 1", value=self.split)
        object.__setattr__(self, "beta", checks.probability(self.beta, "beta"))
        for question in self.questions:
            question.check(self.model)

    @property
    def hides_sizes(self) -> bool:
        """Whether the number of records of each group is not published."""
        return self.sizes == "hidden"

    def columns(self) -> tuple[str, ...]:
        """The columns of the released numbers; refuses two of the same name."""
        names = [name for question in self.questions for name in question.columns(self.model)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ParameterError(f"two queries both release {twice}; ask for it once", value=twice)
        return tuple(names)

    def losses(self, dp_loss: float) -> tuple[float, ...]:
        """The DP loss of each question: its share of that of the table, rounded down, so that they never exceed it."""
        whole = sum(map(Fraction, self.split))
        return tuple(_down(Fraction(dp_loss) * Fraction(weight) / whole) for weight in self.split)


@dataclass(frozen=True, kw_only=True)
class TableNoise:
    """The DP loss of a table and the noise of each of its questions."""

    curve: str
    theorem: str
    """Where the bound of the curve comes from."""
    dp_loss: float
    """Of the whole table, for each record."""
    losses: tuple[float, ...]
    """Of each question; they add up to at most that of the table."""
    questions: tuple[QuestionNoise, ...]


def solve_table(problem: TableProblem) -> TableNoise:
    """The largest DP loss that the guarantee allows, shared among the questions."""
    widened = problem.widened
    curve = curve_of_every_algorithm(widened, problem.curve)
    dp_loss = widened.allowed_loss(curve, curve.inverse)
    losses = problem.losses(dp_loss)
    if min(losses) <= 0:
        raise NotApplicableError(
            f"no noise keeps a guarantee of epsilon {problem.epsilon:g} here: what every question together leaks is "
            "above it however little DP loss is spent"
        )
    decisive = curve.which(dp_loss) if isinstance(curve, Lowest) else curve
    return TableNoise(
        curve=decisive.name,
        theorem=decisive.theorem,
        dp_loss=dp_loss,
        losses=losses,
        questions=tuple(
            question.noise(problem.model, loss, problem.beta, problem.records)
            for question, loss in zip(problem.questions, losses, strict=True)
        ),
    )


def question_part(problem: TableProblem, solution: TableNoise, n: int) -> dict[str, Any]:
    """A question with its share and its noise, as a certificate has it."""
    question, noise = problem.questions[n], solution.questions[n]
    return {
        "name": question.name,
        "clip": clip_list(question.clip),
        "share": problem.split[n],
        "dp_loss": solution.losses[n],
        "labels": list(question.labels(problem.model)),
        "noise": {
            "kind": noise.kind,
            "scale": noise.scale,
            "balanced": noise.balanced,
            "divided": noise.divided,
        },
        "accuracy": {"alpha": noise.alpha, "beta": noise.beta, "about": noise.about},
        "theorem": noise.theorem,
    }


def clip_list(clip: tuple[float, float] | None) -> list[float] | None:
    """A clipping range as JSON has it."""
    return None if clip is None else [float(end) for end in clip]


def check_sizes(sizes: str) -> str:
    """Return ``sizes``; reject a word that is none of ``SIZES``."""
    if sizes not in SIZES:
        raise ParameterError(f"sizes is {quoted_value(sizes)}; it must be {' or '.join(SIZES)}", value=sizes)
    return sizes


def check_hidden(grouping: Grouping, questions: Sequence[Question]) -> None:
    """Reject hidden sizes where the certificate or an answer would show them."""
    if grouping.person:
        raise ParameterError(
            "sizes is hidden, and the table is per person: the certificate states how long each series is, because the "
            "noise depends on it; group by time or by a column, or use sizes='exact'",
            value="hidden",
        )
    shares = next((question.name for question in questions if question.name == "frequency"), None)
    if shares is not None:
        raise ParameterError(
            "sizes is hidden, and frequency divides whole counts by the number of records, which its fractions show; "
            "ask for histogram",
            value=shares,
        )


def shares_of(weights: Sequence[float] | str, questions: int) -> tuple[float, ...]:
    """The shares of questions with these weights; all the same where there are none."""
    if isinstance(weights, str):
        weights = checks.several(weights, "split", "numbers, one for each query, such as [2, 1, 1]")
    numbers = tuple(checks.any_number("split", weight) for weight in weights) or (1.0,) * questions
    if len(numbers) != questions:
        raise ParameterError(
            f"split has {len(numbers)} number{'s' * (len(numbers) != 1)} for {questions} queries; it must have "
            f"one for each",
            value=weights,
        )
    if not all(1 / checks.LARGEST <= weight <= checks.LARGEST for weight in numbers):
        raise ParameterError(
            f"split is {quoted_value(list(weights))}; it must be numbers above 0, one for each query, such as 2 and 1",
            value=weights,
        )
    whole = math.fsum(numbers)
    return tuple(weight / whole for weight in numbers)


def _down(value: Fraction) -> float:
    """The largest double that is not above."""
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, 0.0)
