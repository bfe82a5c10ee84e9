"""The suite for beliefs about a list of records: networks, tables and groups. As for chains, every mechanism inherits.

What is released leaks at most epsilon, by enumeration of all outcomes, and the scale is the literal one.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.models.groups import Groups
from pufferdp.models.joint import JointTable
from pufferdp.models.network import BayesianNetwork
from pufferdp.models.pedigree import Pedigree
from pufferdp.publish.answers.problem import Mechanism, Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles import records as brute
from tests.strategies import epsilons, groups, networks, tables

ROUNDING = 1e-9
"""Leakage by enumeration is itself computed in doubles."""
FEW_POINTS = 8
"""Answers of several numbers are compared over all subsets of their values."""
MOST_MASSES = 150_000
"""Outcomes times outputs that are enumerated."""

record_models = st.one_of(networks(), tables(), groups())


@dataclass(frozen=True, eq=False)
class Case:
    """A model, a query, and what both come to when everything is written out."""

    model: BayesianNetwork | JointTable | Groups | Pedigree
    query: str
    joint: np.ndarray
    answers: np.ndarray
    links: list[set[int]]
    """Records that may depend on each other directly."""

    @property
    def moves(self) -> list[float]:
        return brute.moves(self.answers)

    @property
    def lipschitz(self) -> float:
        return max(self.moves)

    @property
    def weights(self) -> list[float]:
        """How far each record moves the answer, as a share of L."""
        return [move / self.lipschitz for move in self.moves]

    def problem(self, epsilon, adversary=Adversary.PUFFERFISH, secrets=None) -> Problem:
        return Problem(
            model=self.model, query=Query.parse(self.query), epsilon=epsilon, adversary=adversary, secrets=secrets
        )


def written_out(model) -> tuple[np.ndarray, list[set[int]]]:
    """The joint distribution in Fractions, and which records are linked, from the numbers that made the model."""
    if isinstance(model, Pedigree):
        names = [member.id for member in model.members]
        parents = [[None if p is None else names.index(p) for p in (m.father, m.mother)] for m in model.members]
        known = [[p for p in above if p is not None] for above in parents]
        return brute.pedigree_joint(parents, model.major_allele_frequency), brute.moral(known)
    if isinstance(model, BayesianNetwork):
        names = [node.name for node in model.nodes]
        parents = [[names.index(p) for p in node.parents] for node in model.nodes]
        return brute.network_joint(parents, [node.table for node in model.nodes]), brute.moral(parents)
    if isinstance(model, Groups):
        ends = np.cumsum([0, *model.group_sizes]).tolist()
        members = [set(range(a, b)) for a, b in itertools.pairwise(ends)]
        return brute.group_joint(model.positives), [own - {i} for own in members for i in sorted(own)]
    joint = np.full((len(model.states),) * len(model.names), Fraction(0), dtype=object)
    for row, p in zip(model.listed, brute.exact(model.probabilities), strict=True):
        joint[tuple(row)] += p
    # In a table anything may depend on anything, save a record that never changes.
    varies = {i for i in range(joint.ndim) if np.count_nonzero(joint.sum(axis=tuple({*range(joint.ndim)} - {i}))) > 1}
    return joint, [varies - {i} if i in varies else set() for i in range(joint.ndim)]


def case_of(model, query: str) -> Case:
    joint, links = written_out(model)
    return Case(model, query, joint, brute.answers(model.domains, model.labels, query, model.values), links)


@st.composite
def cases(draw, models=record_models) -> Case:
    """A model and a query that some record can move."""
    model = draw(models)
    if not isinstance(model, JointTable) and draw(st.booleans()):
        numbers = draw(st.lists(st.sampled_from([-1, 0, 0.5, 2, 3]), min_size=model.size, max_size=model.size))
        values = dict(zip(model.labels, numbers, strict=True))
        if isinstance(model, Groups):
            model = Groups(sizes=model.group_sizes, positives=model.positives, values=values)
        else:
            model = replace(model, values=values)
    kind = draw(st.sampled_from(["count", "histogram", "frequency", "sum", "mean"]))
    if kind in ("histogram", "frequency") and not _small(case_of(model, kind)):
        kind = "count"
    if kind in ("sum", "mean") and model.values is None:
        kind = "count"
    case = case_of(model, f"count:{draw(st.sampled_from(model.labels))}" if kind == "count" else kind)
    assume(case.lipschitz > 0)
    return case


def _small(case: Case) -> bool:
    """Whether an answer of several numbers can be enumerated: its values, and its values times its outputs."""
    flat = case.answers.reshape(case.joint.size, -1)
    outputs = int(np.prod([len(np.unique(column)) for column in flat.T]))
    return len(np.unique(flat, axis=0)) <= FEW_POINTS and outputs * case.joint.size <= MOST_MASSES


class RecordSuite:
    """Inherit, set ``mechanism``, ``adversaries`` and ``models``, and say how the literal scale is computed."""

    mechanism: Mechanism
    adversaries: tuple[Adversary, ...]
    models = record_models
    """Those for which the mechanism gives a scale often enough."""

    def literal(self, case: Case, epsilon: float) -> float:
        """σ by a slow oracle, inf where the mechanism does not apply."""
        raise AssertionError("each suite brings its own oracle")

    def calibration(self, problem: Problem):
        try:
            return self.mechanism.calibrate(problem)
        except NotApplicableError as refusal:
            assert str(refusal), "a refusal says why"
            return None

    @given(epsilon=epsilons, data=st.data())
    def test_leaks_at_most_epsilon(self, epsilon, data):
        adversary = data.draw(st.sampled_from(self.adversaries))
        case = data.draw(cases(self.models))
        everyone = adversary is Adversary.BDP
        assume(not everyone or case.joint.ndim <= 6)  # every set of known records is tried
        found = self.calibration(case.problem(epsilon, adversary))
        assume(found is not None)
        assert brute.leakage(case.joint, case.answers, found.scale, everyone=everyone) <= epsilon + ROUNDING

    @given(epsilon=epsilons, data=st.data())
    def test_scale_is_the_literal_one(self, epsilon, data):
        adversary = data.draw(st.sampled_from(self.adversaries))
        case = data.draw(cases(self.models))
        found = self.calibration(case.problem(epsilon, adversary))
        literal = self.literal(case, epsilon)
        if found is None:
            assert literal == np.inf
        else:
            assert found.sigma == pytest.approx(literal, rel=1e-9)
            assert found.lipschitz == pytest.approx(case.lipschitz, rel=1e-12)
            assert found.scale == pytest.approx(literal * case.lipschitz, rel=1e-9)
