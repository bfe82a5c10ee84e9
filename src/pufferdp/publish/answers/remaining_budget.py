"""A plan beside a ledger: what is left for a segment, and which mechanisms fit. Nothing is charged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pufferdp.basics.checks import MOST_RECORDS
from pufferdp.basics.errors import BudgetError
from pufferdp.ledger.ledger import Ledger
from pufferdp.ledger.refusals import Remaining, down
from pufferdp.publish.answers.kind import KIND, AnswerProblem
from pufferdp.publish.answers.plan import Plan

if TYPE_CHECKING:
    from pufferdp.data.ranges import Ranges
    from pufferdp.models.base import Model


@dataclass(frozen=True)
class RemainingBudget:
    """What a data set has left for the release that is planned."""

    place: str
    dataset: str
    ranges: Ranges
    remaining: Remaining

    @classmethod
    def of(
        cls,
        place: str,
        dataset: str,
        model: Model,
        adversary: str,
        longest: int | None,
        first: str | None,
        last: str | None,
    ) -> RemainingBudget:
        """Ask the ledger; ``longest`` is None for a part of a series that goes on."""
        with Ledger(place) as ledger:
            ledger.expect(dataset, model=model, adversary=adversary)
            ranges = ledger.ranges(dataset, first=first, last=last, otherwise="order")
            return cls(place, dataset, ranges, ledger.remaining(dataset, ranges, longest or MOST_RECORDS))

    @property
    def epsilon(self) -> float:
        """The largest guarantee that fits by a curve."""
        if self.remaining.epsilon is None:
            raise BudgetError(
                f"data set {self.dataset!r} has a DP loss of {down(self.remaining.dp_loss)} left for these records: no "
                "release fits, so choose other records or make another data set",
                value=self.dataset,
            )
        return self.remaining.epsilon

    def verdict(self, plan: Plan) -> dict[str, Any]:
        """Which candidates of a plan would be charged, and which refused."""
        fits, refused = list[str](), list[str]()
        with Ledger(self.place) as ledger:
            for candidate in plan.candidates:
                if candidate.applies and candidate.calibration is not None:
                    problem = AnswerProblem(problem=plan.problem, ranges=self.ranges)
                    charge = KIND.charge(problem, candidate.calibration)
                    (fits if ledger.would_refuse(self.dataset, charge) is None else refused).append(candidate.mechanism)
        words = f"Data set {self.dataset!r} has a DP loss of {down(self.remaining.dp_loss)} left for these records."
        words += f" In the budget: {', '.join(fits) or 'none'}."
        words += f" Refused: {', '.join(refused)}." if refused else ""
        return {
            "dataset": self.dataset,
            "left_dp": self.remaining.dp_loss,
            "left_epsilon": self.remaining.epsilon,
            "fits": fits,
            "refused": refused,
            "words": words,
        }
