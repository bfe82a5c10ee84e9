"""What every plan shows beside the rest: plain differential privacy, and group privacy."""

from __future__ import annotations

import numpy as np

from pufferdp.checks import Adversary
from pufferdp.errors import NotApplicableError
from pufferdp.leakage.quilts import WorstRecord
from pufferdp.mechanisms.base import Mechanism, Problem
from pufferdp.models.classes import BinaryInterval, MarkovInterval


class PerRecord(Mechanism):
    """Noise L/ε, as if records were independent: what differential privacy asks for, and not enough here."""

    name = "per-record-dp"
    theorem = "Dwork, McSherry, Nissim & Smith 2006, Proposition 1 (independent records)"

    def multiplier(self, problem: Problem) -> tuple[float, WorstRecord | None]:
        """1/ε where records are independent or the adversary knows all the others."""
        if problem.adversary is not Adversary.DP and not _independent(problem):
            raise NotApplicableError("records are correlated: one record shows in others, and this noise ignores it")
        return self.nominal(problem), None

    @staticmethod
    def nominal(problem: Problem) -> float:
        """The σ that is shown whether it applies or not."""
        return 1 / problem.epsilon


def _independent(problem: Problem) -> bool:
    if problem.longest == 1 or problem.model.size == 1:
        return True
    if isinstance(problem.model, (BinaryInterval, MarkovInterval)):
        return False
    return all(bool(np.all(c.transition == c.transition[0])) for c in problem.model.chains)


class Group(Mechanism):
    """Group privacy: anything may hold inside a chain, so all its records may change at once."""

    name = "group"
    theorem = "group privacy over the longest chain (Dwork & Roth 2014, Theorem 2.2)"

    def multiplier(self, problem: Problem) -> tuple[float, WorstRecord | None]:
        """Longest chain over ε."""
        return problem.longest / problem.epsilon, None
