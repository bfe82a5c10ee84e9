"""Curves as mechanisms: the DP loss that a curve allows, spent on Laplace noise."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.curves import CURVES, curve
from pufferdp.models.chain import MarkovChain
from pufferdp.models.groups import AnyGroups
from pufferdp.publish.answers.mechanisms import MECHANISMS
from pufferdp.publish.answers.mechanisms.baselines import CURVE_MECHANISMS, CurveNoise
from pufferdp.publish.answers.mechanisms.quilt import QuiltExact
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles.chains import quilt_sigma
from tests.publish.answers.mechanisms.record_suite import RecordSuite
from tests.publish.answers.mechanisms.suite import MechanismSuite, literal_start
from tests.strategies import chains, epsilons
from tests.tolerance import SEARCHED

BOTH = (Adversary.PUFFERFISH, Adversary.BDP)
ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])


def independent(problem) -> bool:
    rows = problem.model.transition
    return problem.longest == 1 or all((row == rows[0]).all() for row in rows)


class TestQuilt(MechanismSuite):
    mechanism, adversaries = CurveNoise("quilt"), BOTH

    def literal(self, problem):
        everyone = problem.adversary is Adversary.BDP
        chain = problem.model
        return quilt_sigma(chain.transition, literal_start(chain), problem.longest, problem.epsilon, everyone)


class TestGeneral(MechanismSuite):
    mechanism, adversaries = CurveNoise("general"), BOTH

    def literal(self, problem):
        return (1 if independent(problem) else problem.longest) / problem.epsilon


class TestMarkov(MechanismSuite):
    mechanism, adversaries = CurveNoise("markov"), BOTH

    def literal(self, problem):
        chain = problem.model
        if chain.any_start or chain.given_start is not None or chain.transition.min() <= 0:
            return math.inf
        left = problem.epsilon - 4 * math.log(chain.transition.max() / chain.transition.min())
        return 1 / left if left > 1e-12 else math.inf


class TestZhao(MechanismSuite):
    mechanism, adversaries = CurveNoise("zhao"), BOTH

    def literal(self, problem):
        rows = problem.model.transition
        if rows.min() <= 0:
            return math.inf
        left = problem.epsilon - 6 * math.log((rows.max(axis=0) / rows.min(axis=0)).max())
        return 1 / left if left > 1e-12 else math.inf


class TestGeneralOnRecords(RecordSuite):
    mechanism, adversaries = CurveNoise("general"), BOTH

    def literal(self, case, epsilon):
        from tests.oracles import records as brute

        return brute.group_size(case.links, [1.0] * case.joint.ndim) / epsilon


def test_one_mechanism_a_curve():
    names = [m.name for m in CURVE_MECHANISMS]
    assert names == [f"curve-{name}" for name in CURVES]
    assert set(names) < {m.name for m in MECHANISMS}


@given(chain=chains(), epsilon=epsilons)
def test_the_quilt_curve_is_the_quilt_mechanism(chain, epsilon):
    """One reads q backwards, the other minimises nearby/(epsilon − influence): the same quilts decide."""
    for adversary in BOTH:
        problem = Problem(
            model=chain, query=Query.parse("histogram"), lengths=((7, 1),), epsilon=epsilon, adversary=adversary
        )
        by_curve, by_score = (m.calibrate(problem).sigma for m in (CurveNoise("quilt"), QuiltExact()))
        assert by_curve == pytest.approx(by_score, rel=1e-12)


def test_the_loss_that_is_spent_is_one_the_curve_allows():
    problem = Problem(model=ACTIVITY, query=Query.parse("count:1"), lengths=((288, 1),), epsilon=12.0)
    for mechanism in CURVE_MECHANISMS:
        found = curve(mechanism.curve, ACTIVITY, 288, "bdp")
        if not found.applies:
            continue
        calibration = mechanism.calibrate(problem)
        assert found(1 / calibration.sigma) <= 12
        assert found((1 + 2 * SEARCHED if mechanism.curve == "tight" else 1.001) / calibration.sigma) > 12
        assert calibration.theorem == found.theorem
    assert CurveNoise("quilt").calibrate(problem).scale < CurveNoise("general").calibrate(problem).scale


def test_where_no_loss_is_small_enough_it_says_so():
    problem = Problem(model=ACTIVITY, query=Query.parse("count:1"), lengths=((288, 1),), epsilon=8.0)
    with pytest.raises(NotApplicableError, match="above 8 however little"):
        CurveNoise("markov").calibrate(problem)  # 4 ln(.882/.118) = 8.046
    later = Problem(model=ACTIVITY, query=Query.parse("count:1"), lengths=((288, 1),), epsilon=8.05)
    assert CurveNoise("markov").calibrate(later).sigma > 200


def test_groups_of_any_kind_and_any_number():
    problem = Problem(model=AnyGroups(largest=4), query=Query.parse("count:1"), epsilon=2.0)
    assert CurveNoise("general").calibrate(problem).sigma == pytest.approx(2.0)
    dp = Problem(model=AnyGroups(largest=4), query=Query.parse("count:1"), epsilon=2.0, adversary=Adversary.DP)
    assert CurveNoise("independent").calibrate(dp).sigma == pytest.approx(0.5)
