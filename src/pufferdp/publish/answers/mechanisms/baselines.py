"""What every plan shows beside the rest: plain differential privacy, and group privacy."""

from __future__ import annotations

import math
from typing import Final

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.curve_forms import EVERY_ALGORITHM, Absent, Curve
from pufferdp.bounds.curves import CURVES, curve, lowest
from pufferdp.models.base import records_of
from pufferdp.publish.answers.problem import (
    Calibrated,
    Mechanism,
    Problem,
    refuse_endless_search,
    refuse_own_secrets,
)

CURVE: Final = "curve-"
"""What mechanisms that are curves begin with."""


class PerRecord(Mechanism):
    """Noise L/ε, as if records were independent: what differential privacy asks for, and not enough here."""

    name = "per-record-dp"
    theorem = "Dwork, McSherry, Nissim & Smith 2006, Proposition 1 (independent records)"

    covers = ("parts", "units")
    """The answer shows no record but those read, and all of a period move it as often as there are of them."""

    def find(self, problem: Problem) -> Calibrated:
        """1/ε where records are independent or the adversary knows all the others."""
        refuse_own_secrets(problem)
        longest = problem.longest if problem.lengths else 0
        if problem.adversary is not Adversary.DP and problem.model.dependent(longest) > 1:
            raise NotApplicableError("records are correlated: one record shows in others, and this noise ignores it")
        return self.nominal(problem)

    @staticmethod
    def nominal(problem: Problem) -> Calibrated:
        """The σ that is shown whether it applies or not."""
        return Calibrated(sigma=problem.block / problem.epsilon)


class Group(Mechanism):
    """Group privacy: anything may hold among records that depend on each other, so all may change at once."""

    name = "group"
    theorem = "group privacy over the largest set of dependent records (Dwork & Roth 2014, Theorem 2.2)"

    covers = ("parts", "units", "secrets")
    """All records that are read may change at once, whatever belongs together or is secret about them."""

    def find(self, problem: Problem) -> Calibrated:
        """The most that records which depend on each other can move the answer, over ε."""
        if problem.cut_units:
            assert problem.unit is not None
            raise NotApplicableError(
                f"{problem.unit.words} may lie in several chains, which begin anew behind gaps, and links all of them"
            )
        return Calibrated(sigma=self._group_sensitivity(problem) / problem.epsilon)

    @staticmethod
    def _group_sensitivity(problem: Problem) -> float:
        model = records_of(problem.model)
        if model is None:
            return float(problem.model.group_size(problem.longest if problem.lengths else 0))
        sets = [math.fsum(problem.moves[i] for i in component) for component in model.components]
        if problem.secrets is None:
            return max(sets)
        # A pair of secrets may speak of several independent sets; those it leaves out are the same under both.
        home = {i: n for n, component in enumerate(model.components) for i in component}
        scopes = {s.name: {home[i] for cell in s.cells(model) for i in cell} for s in problem.secrets.secrets}
        return max(math.fsum(sets[n] for n in scopes[a] | scopes[b]) for a, b in problem.secrets.pairs)


_READ_ALONE: Final = ("independent", "general")
"""Curves that let all records change that are read: those outside a part add nothing."""


def problem_curve(name: str, problem: Problem, spread: int = 1) -> Curve:
    """A curve by name, for chains as long as the problem needs; ``spread`` as in ``unit_curve``."""
    if problem.secret is not None:
        from pufferdp.bounds.units.curves import secret_curve

        about = secret_curve(problem.model, problem.secret, str(problem.adversary))
        return about if about.name == name else Absent(name, "", f"the {about.name} bound is the one for this secret")
    if problem.unit is not None:
        from pufferdp.bounds.units.curves import unit_curve

        # With unobserved steps the records read may lie in more blocks than as many in a row.
        endless = problem.cut_units or (problem.endless and (problem.unobserved or name not in _READ_ALONE))
        length = None if endless else problem.longest
        return unit_curve(name, problem.model, length, problem.adversary, problem.unit.records, spread)
    if not problem.lengths:
        return curve(name, problem.model, None, problem.adversary)
    length = problem.longest if name in _READ_ALONE else problem.series_length
    return curve(name, problem.model, length, problem.adversary)


def curve_of_every_algorithm(problem: Problem, name: str | None = None) -> Curve:
    """The named curve, or the lowest, that holds for every algorithm.

    No other lies below the tight one, but for group privacy over a short part of a series, which counts its records.
    """
    if name is not None:
        named = problem_curve(name, problem) if name in CURVES else None
        if named is None or not named.applies or named.holds_for != EVERY_ALGORITHM:
            raise NotApplicableError(f"the {name} curve does not bound every algorithm here", value=name)
        return named
    tight = problem_curve("tight", problem)
    if tight.applies and not problem.endless:
        return tight
    names = ("tight", "general") if tight.applies else CURVES
    candidates = {name: problem_curve(name, problem) for name in names}
    return lowest({name: other for name, other in candidates.items() if other.holds_for == EVERY_ALGORITHM})


class CurveNoise(Mechanism):
    """The DP loss τ with q(τ) = ε, spent on the query: noise L/τ."""

    theorem = "a leakage curve, read backwards (docs/guide/leakage.md)"

    def __init__(self, name: str) -> None:
        self.curve = name
        self.name = f"{CURVE}{name}"
        # An algorithm of a part is one of the whole series that ignores the rest.
        self.covers = ("parts", "units", *(("secrets",) if name in ("tight", "potential") else ()))

    def spared_by(self, problem: Problem) -> str | None:
        """The mechanism that makes the bound for any algorithm needless where that bound takes minutes."""
        from pufferdp.publish.answers.mechanisms.exact import LaplaceHidden, bounds_count

        return LaplaceHidden.name if self.curve == "potential" and bounds_count(problem) else None

    def find(self, problem: Problem) -> Calibrated:
        """One over the DP loss that may be spent."""
        refuse_own_secrets(problem)
        if self.curve == "quilt":
            refuse_endless_search(problem)
        leakage_curve = problem_curve(self.curve, problem, spread=problem.block)
        if isinstance(leakage_curve, Absent):
            raise NotApplicableError(leakage_curve.reason)
        loss = problem.allowed_loss(leakage_curve, leakage_curve.inverse)
        if loss <= 0:
            raise NotApplicableError(f"is above {problem.epsilon:g} however little DP loss is spent")
        # A DP loss of 1/σ that is not above the one that was checked; all records of a block move the answer as often.
        return Calibrated(sigma=math.nextafter(problem.block / loss, math.inf), theorem=leakage_curve.theorem)


CURVE_MECHANISMS = tuple(CurveNoise(name) for name in CURVES)
"""A mechanism for each leakage curve."""
