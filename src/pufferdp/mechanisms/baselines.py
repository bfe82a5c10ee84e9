"""What every plan shows beside the rest: plain differential privacy, and group privacy."""

from __future__ import annotations

import math

from pufferdp.checks import Adversary
from pufferdp.errors import NotApplicableError
from pufferdp.mechanisms.base import Finding, Mechanism, Problem, refuse_own_secrets
from pufferdp.models.classes import NumberModel, dependent
from pufferdp.models.collection import ModelClass
from pufferdp.models.groups import AnyGroups
from pufferdp.models.records import RecordModel


class PerRecord(Mechanism):
    """Noise L/ε, as if records were independent: what differential privacy asks for, and not enough here."""

    name = "per-record-dp"
    theorem = "Dwork, McSherry, Nissim & Smith 2006, Proposition 1 (independent records)"

    def find(self, problem: Problem) -> Finding:
        """1/ε where records are independent or the adversary knows all the others."""
        refuse_own_secrets(problem)
        longest = problem.longest if problem.lengths else 0
        if problem.adversary is not Adversary.DP and dependent(problem.model, longest) > 1:
            raise NotApplicableError("records are correlated: one record shows in others, and this noise ignores it")
        return self.nominal(problem)

    @staticmethod
    def nominal(problem: Problem) -> Finding:
        """The σ that is shown whether it applies or not."""
        return Finding(sigma=1 / problem.epsilon)


class Group(Mechanism):
    """Group privacy: anything may hold among records that depend on each other, so all may change at once."""

    name = "group"
    theorem = "group privacy over the largest set of dependent records (Dwork & Roth 2014, Theorem 2.2)"

    def find(self, problem: Problem) -> Finding:
        """The most that records which depend on each other can move the answer, over ε."""
        return Finding(sigma=self._together(problem) / problem.epsilon)

    @staticmethod
    def _together(problem: Problem) -> float:
        model = problem.model
        if isinstance(model, AnyGroups):
            return float(model.largest)
        if isinstance(model, NumberModel):
            return float(dependent(model, problem.longest))
        if not isinstance(model, (RecordModel, ModelClass)):
            return float(problem.longest)
        sets = [math.fsum(problem.moves[i] for i in component) for component in model.components]
        if problem.secrets is None:
            return max(sets)
        # A pair of secrets may speak of several independent sets; those it leaves out are the same under both.
        home = {i: n for n, component in enumerate(model.components) for i in component}
        scopes = {s.name: {home[i] for cell in s.cells(model) for i in cell} for s in problem.secrets.secrets}
        return max(math.fsum(sets[n] for n in scopes[a] | scopes[b]) for a, b in problem.secrets.pairs)
