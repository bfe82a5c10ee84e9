"""What no mechanism can do: against literal enumeration, and against the mechanisms there are."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pufferdp import (
    AnyGroups,
    BinaryInterval,
    Gaussian,
    MarkovChain,
    MarkovInterval,
    Member,
    ModelClass,
    NotApplicableError,
    Pedigree,
    plan,
)
from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.curves import best_curve, curve
from pufferdp.publish.answers.limits import limit_of
from pufferdp.publish.answers.mechanisms.exact import ExactLaplace
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.noise import NoiseDistribution, NoiseKind
from tests.publish.answers.mechanisms.record_suite import cases
from tests.strategies import epsilons


def problem_of(model, query="count:1", lengths=(), epsilon=1.0, adversary="bdp", clip=None):
    return Problem(
        model=model, query=Query.parse(query, clip=clip), lengths=lengths, epsilon=epsilon, adversary=adversary
    )


def literal(case, adversary):
    """The largest distance between answers that are told apart by one record, given what is known."""
    joint, answers = np.asarray(case.joint, dtype=float), case.answers[..., 0].astype(float)
    n, worst = joint.ndim, 0.0
    rows = [row for row in itertools.product(*map(range, joint.shape)) if joint[row] > 0]
    for target in range(n):
        others = [i for i in range(n) if i != target]
        sets = {
            Adversary.BDP: itertools.chain.from_iterable(itertools.combinations(others, m) for m in range(n)),
            Adversary.PUFFERFISH: [()],
            Adversary.DP: [tuple(others)],
        }[adversary]
        for known in sets:
            found: dict[tuple[int, ...], dict[int, list[float]]] = {}
            for row in rows:
                cell = found.setdefault(tuple(row[i] for i in known), {})
                cell.setdefault(row[target], []).append(answers[row])
            for cell in found.values():
                for x, y in itertools.permutations(cell, 2):
                    worst = max(worst, min(cell[x]) - max(cell[y]))
    return worst


@given(case=cases(), epsilon=epsilons, adversary=st.sampled_from(list(Adversary)))
def test_records_by_enumeration(case, epsilon, adversary):
    assume(case.query not in ("histogram", "frequency"))
    assume(case.joint.ndim <= 6)
    problem = case.problem(epsilon, adversary)
    far, found = literal(case, adversary), limit_of(problem)
    if far <= problem.bound.lipschitz * (1 + 1e-9):
        assert found is None
        return
    assert found.apart == pytest.approx(far, rel=1e-9)
    assert found.error == found.apart / 2
    assert found.probability == pytest.approx(1 / (math.exp(epsilon) + 1))
    try:
        scale = ExactLaplace().calibrate(problem).scale
    except NotApplicableError:
        return
    # The best Laplace noise keeps the guarantee, so it cannot do better than the limit.
    assert math.exp(-found.error / scale) >= found.probability * (1 - 1e-9)


@pytest.mark.parametrize("m", [3, 4, 7])
def test_one_family(m):
    """Two parents and m−2 children: more than (m−1)/2 (Lange 2024, Corollary 5.3)."""
    children = tuple(Member(f"c{n}", "father", "mother") for n in range(m - 2))
    family = Pedigree(members=(Member("father"), Member("mother"), *children), major_allele_frequency=0.7)
    found = limit_of(problem_of(family, "count:BB"))
    assert found.error == (m - 1) / 2
    assert found.hopeless
    assert "independent" in found.way_out
    assert limit_of(problem_of(ModelClass(models=(family, family)), "count:BB")).error == found.error
    alone = tuple(Member(f"x{n}") for n in range(3 * m))
    crowd = Pedigree(members=(*family.members, *alone), major_allele_frequency=0.7)
    assert limit_of(problem_of(crowd, "count:BB")).error == found.error
    assert not limit_of(problem_of(crowd, "count:BB")).hopeless
    assert limit_of(problem_of(crowd, "count:BB", adversary="pufferfish")) is None  # the crowd hides the family


def test_groups_of_any_kind():
    whole = limit_of(problem_of(AnyGroups(largest=50), lengths=((50, 1),)))
    assert (whole.apart, whole.error, whole.hopeless) == (50, 25, True)
    assert not limit_of(problem_of(AnyGroups(largest=5), lengths=((50, 1),))).hopeless
    assert limit_of(problem_of(AnyGroups(largest=50), lengths=((20, 1),))).apart == 20
    assert limit_of(problem_of(AnyGroups(largest=5))).apart == 5
    assert not limit_of(problem_of(AnyGroups(largest=5))).hopeless  # how many records there are is open
    assert limit_of(problem_of(AnyGroups(largest=5), adversary="dp")) is None
    assert limit_of(problem_of(AnyGroups(largest=5), "sum", clip=(2.0, 10.0), lengths=((5, 1),))).apart == 40


@pytest.mark.parametrize(
    ("model", "n", "apart"),
    [
        (MarkovChain(transition=[[1.0, 0.0], [0.0, 1.0]], start=[0.5, 0.5]), 9, 9),
        (MarkovChain(transition=[[0.0, 1.0], [1.0, 0.0]]), 9, 0),  # 4 or 5 ones: what one record shows anyway
        (MarkovChain(transition=[[1.0, 0.0], [0.0, 1.0]], start=[1.0, 0.0]), 9, 0),
        (MarkovChain(transition=[[1.0, 0.0], [1.0, 0.0]], start="any"), 9, 0),
        (MarkovChain(transition=[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]], start="any"), 9, 5),
        (MarkovChain(transition=[[0.9, 0.1], [0.1, 0.9]]), 9, 0),
        (BinaryInterval(low=0.2, high=1.0), 9, 9),
        (BinaryInterval(low=0.2, high=0.9), 9, 0),
        (MarkovInterval(low=[[0.0, 0.0], [0.0, 0.5]], high=[[1.0, 0.5], [0.5, 1.0]]), 9, 9),
    ],
)
def test_series_whose_first_record_decides_all(model, n, apart):
    for adversary in ("bdp", "pufferfish"):
        found = limit_of(problem_of(model, lengths=((n, 1),), adversary=adversary))
        assert (found.apart if found else 0) == apart
    assert limit_of(problem_of(model, lengths=((n, 1),), adversary="dp")) is None
    several = limit_of(problem_of(model, lengths=((n, 2),), adversary="pufferfish"))
    assert several is None


def test_long_circles_are_not_walked_one_by_one():
    turning = MarkovChain(transition=np.roll(np.eye(3), 1, axis=1), start="any")
    found = limit_of(problem_of(turning, "count:0", ((10**9 + 1, 1),)))
    assert found is None  # each state comes a third of the time, whatever the first
    still = MarkovChain(transition=np.eye(2), start=[0.5, 0.5])
    assert limit_of(problem_of(still, lengths=((10**9, 1),))).apart == 10**9


def test_nothing_is_said_of_other_questions():
    assert limit_of(problem_of(AnyGroups(largest=5), "histogram", lengths=((5, 1),))) is None
    heights = Gaussian(mean=[0, 0], covariance=[[1, 0.9], [0.9, 1]])
    assert limit_of(problem_of(heights, "sum", clip=(0.0, 1.0))) is None


def test_a_plan_says_it():
    made = plan(AnyGroups(largest=50), "count:1", epsilon=1, length=50)
    assert "No mechanism can do well here" in str(made)
    assert "0.27" in str(made)
    assert made.to_dict()["limit"]["error"] == 25
    fine = plan(AnyGroups(largest=5), "count:1", epsilon=1, length=50)
    assert "No mechanism" not in str(fine)
    assert fine.to_dict()["limit"]["hopeless"] is False
    assert plan(MarkovChain(transition=[[0.9, 0.1], [0.1, 0.9]]), "count:1", epsilon=1, length=9).limit is None


def test_accuracy_and_factors_of_the_notes():
    assert NoiseDistribution(kind=NoiseKind.LAPLACE, scale=0.5, coordinates=1).accuracy(0.01).alpha == pytest.approx(
        2.3026, abs=1e-4
    )
    chain = MarkovChain(transition=[[0.6, 0.4], [0.4, 0.6]])
    for h in (1.5, 2.0, 4.0):
        epsilon = 4 * math.log(1.5) * h / (h - 1)  # gamma = exp((h−1)·epsilon/(4h)) (Lange 2024, Corollary 7.5)
        assert curve("markov", chain, 100).noise_factor(epsilon) == pytest.approx(h, rel=1e-9)
    assert curve("general", AnyGroups(largest=7)).noise_factor(2.0) == pytest.approx(7)
    assert curve("markov", chain, 100).noise_factor(1.0) == math.inf
    heights = Gaussian(mean=[0, 0, 0], covariance=[[1, 0.2, 0.2], [0.2, 1, 0.2], [0.2, 0.2, 1]])
    assert best_curve(heights).noise_factor(3.0) == pytest.approx(1.4)
    made = plan(AnyGroups(largest=7), "count:1", epsilon=2, length=70).best
    assert made.factor == pytest.approx(7)


def test_a_delta_makes_errors_a_little_rarer():
    """By hand: of two answers one is near with probability at most e^epsilon times its share when far, plus delta."""
    asked = {"model": AnyGroups(largest=100), "query": Query.parse("count:1"), "lengths": ((100, 1),), "epsilon": 1}
    for delta in (0.0, 1e-6, 0.5):
        found = limit_of(Problem(**asked, delta=delta))
        assert found.probability == pytest.approx((1 - delta) / (math.e + 1), rel=1e-12)
