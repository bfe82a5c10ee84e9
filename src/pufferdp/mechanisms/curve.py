"""Any leakage curve as a mechanism: spend no more DP loss than the curve allows, and add plain Laplace noise for it."""

from __future__ import annotations

import math

from pufferdp.checks import LARGEST
from pufferdp.errors import NotApplicableError
from pufferdp.leakage.bounds import CURVES, curve
from pufferdp.leakage.curves import Absent
from pufferdp.mechanisms.base import Finding, Mechanism, Problem, refuse_own_secrets


class CurveNoise(Mechanism):
    """The DP loss τ with q(τ) = ε, spent on the query: noise L/τ."""

    theorem = "a leakage curve, read backwards (docs/guide/leakage.md)"

    def __init__(self, name: str) -> None:
        self.curve = name
        self.name = f"curve-{name}"

    def find(self, problem: Problem) -> Finding:
        """One over the DP loss that may be spent."""
        refuse_own_secrets(problem)
        longest = problem.longest if problem.lengths else None
        found = curve(self.curve, problem.model, longest, problem.adversary)
        if isinstance(found, Absent):
            raise NotApplicableError(found.reason)
        loss = found.inverse(min(problem.epsilon, LARGEST))
        if loss <= 0:
            raise NotApplicableError(f"is above {problem.epsilon:g} however little DP loss is spent")
        # A DP loss of 1/σ that is not above the one that was checked.
        return Finding(sigma=math.nextafter(1 / loss, math.inf), theorem=found.theorem)


CURVE_MECHANISMS = tuple(CurveNoise(name) for name in CURVES)
"""One mechanism a curve."""
