"""Every mechanism through the suite, each with its own oracle, and how they compare."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.curves import CURVES
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import MarkovClass
from pufferdp.publish.answers.mechanisms import MECHANISMS
from pufferdp.publish.answers.mechanisms.baselines import Group, PerRecord
from pufferdp.publish.answers.mechanisms.gk16 import Gk16
from pufferdp.publish.answers.mechanisms.quilt import QuiltApprox, QuiltExact
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles.chains import approx_sigma, power, quilt_sigma, stationary
from tests.oracles.leakage import gk16_sigma, leakage
from tests.publish.answers.mechanisms.suite import MechanismSuite, literal_start
from tests.strategies import chains, epsilons

BOTH = (Adversary.PUFFERFISH, Adversary.BDP)


class TestGroup(MechanismSuite):
    mechanism, adversaries = Group(), BOTH

    def literal(self, problem):
        return problem.longest / problem.epsilon


class TestPerRecord(MechanismSuite):
    mechanism, adversaries = PerRecord(), BOTH

    def literal(self, problem):
        P = problem.model.transition
        independent = problem.longest == 1 or all((row == P[0]).all() for row in P)
        return 1 / problem.epsilon if independent else math.inf


class TestQuiltExact(MechanismSuite):
    mechanism, adversaries = QuiltExact(), BOTH

    def literal(self, problem):
        everyone = problem.adversary is Adversary.BDP
        chain = problem.model
        return quilt_sigma(chain.transition, literal_start(chain), problem.longest, problem.epsilon, everyone)


def literal_gap(P):
    """π_min and g as the theory notes define them, by general eigenvalue routines."""
    distribution = stationary(P)
    if (distribution <= 0).any() or not (power(P, (len(P) - 1) ** 2 + 1) > 0).all():
        return None
    if np.allclose(distribution[:, None] * P, (distribution[:, None] * P).T, atol=1e-12):
        values, factor = np.linalg.eigvals(P), 2
    else:
        values, factor = np.linalg.eigvals(P @ (distribution[None, :] * P.T / distribution[:, None])), 1
    rest = np.delete(values, np.argmin(abs(values - 1)))
    gap = factor * (1 - abs(rest).max()) if len(rest) else math.inf
    return (distribution.min(), gap) if gap > 1e-9 else None


class TestQuiltApproxForThoseWhoKnowNothing(MechanismSuite):
    mechanism, adversaries = QuiltApprox(), (Adversary.PUFFERFISH,)

    def literal(self, problem):
        found = literal_gap(problem.model.transition)
        if found is None:
            return math.inf
        least, gap = found

        def odds(t):
            delta = math.exp(-t * gap / 2) / least
            return math.log((1 + delta) / (1 - delta)) if delta < 1 else math.inf

        return approx_sigma(lambda a: 2 * odds(a), odds, problem.longest, problem.epsilon)


class TestQuiltApproxForThoseWhoKnowRecords(MechanismSuite):
    mechanism, adversaries = QuiltApprox(), (Adversary.BDP,)

    def literal(self, problem):
        P = problem.model.transition
        k = len(P)
        block = next((c for c in range(1, (k - 1) ** 2 + 2) if (power(P, c) > 0).all()), None)
        if block is None:
            return math.inf
        Q = power(P, block)
        states = range(k)
        diameter = max(
            math.log(Q[x, y] * Q[z, w] / (Q[x, w] * Q[z, y]))
            for x in states
            for z in states
            for y in states
            for w in states
        )

        def influence(n):
            return diameter * math.tanh(diameter / 4) ** (n // block - 1) if n >= block else math.inf

        return approx_sigma(influence, influence, problem.longest, problem.epsilon)


class TestInferential(MechanismSuite):
    mechanism, adversaries = Gk16(), (Adversary.PUFFERFISH,)

    def literal(self, problem):
        chain = problem.model
        if not chain.any_start:
            start = chain.stationary if chain.given_start is None else chain.given_start
            return gk16_sigma(chain.transition, start, problem.longest, problem.epsilon)
        return self.worst_start(problem)

    def worst_start(self, problem):
        """γ_12 is the only entry that depends on the start, and it is largest near mixtures of two points."""
        k, worst = problem.model.size, 0.0
        weights = [1e-12, 0.5, 1 - 1e-12]
        for x, y in itertools.combinations_with_replacement(range(k), 2):
            for w in weights:
                start = np.full(k, 1e-13)
                start[x] += w
                start[y] += 1 - w
                start /= start.sum()
                found = gk16_sigma(problem.model.transition, start, problem.longest, problem.epsilon)
                worst = max(worst, found)
        return worst


@given(chain=chains(), T=st.integers(1, 8), epsilon=epsilons, adversary=st.sampled_from(BOTH))
def test_quilt_exact_is_never_above_group_nor_above_quilt_approx(chain, T, epsilon, adversary):
    problem = Problem(
        model=chain, query=Query.parse("count:0"), lengths=((T, 1),), epsilon=epsilon, adversary=adversary
    )
    exact = QuiltExact().calibrate(problem).sigma
    assert exact <= Group().calibrate(problem).sigma * (1 + 1e-12)
    try:
        approximate = QuiltApprox().calibrate(problem).sigma
    except NotApplicableError:
        return
    assert exact <= approximate * (1 + 1e-9)


@given(chain=chains(), T=st.integers(1, 7), epsilon=epsilons)
def test_an_adversary_who_may_know_records_never_needs_less_noise(chain, T, epsilon):
    sigma = {}
    for adversary in BOTH:
        problem = Problem(
            model=chain, query=Query.parse("count:0"), lengths=((T, 1),), epsilon=epsilon, adversary=adversary
        )
        sigma[adversary] = QuiltExact().calibrate(problem).sigma
    assert sigma[Adversary.PUFFERFISH] <= sigma[Adversary.BDP] * (1 + 1e-9)


def test_noise_ten_percent_too_small_would_be_caught():
    """The enumeration is not vacuous: for a chain of one record the guarantee is tight."""
    P, start = np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0.8, 0.2])
    assert leakage(P, start, 1, "count:1", 1.0, everyone=False) == pytest.approx(1.0)
    assert leakage(P, start, 1, "count:1", 0.9, everyone=False) > 1.1
    # Copies of one record: group privacy is tight there.
    assert leakage(np.eye(2), [0.5, 0.5], 4, "count:1", 4.0, everyone=True) == pytest.approx(1.0)


@given(seed=st.integers(0, 10**6), T=st.integers(1, 6), epsilon=epsilons, adversary=st.sampled_from(BOTH))
def test_a_listed_class_is_as_bad_as_its_worst_chain(seed, T, epsilon, adversary):
    generator = np.random.default_rng(seed)
    models = tuple(
        MarkovChain(transition=generator.dirichlet([1, 1], size=2), start=generator.choice(["any", "stationary"]))
        for _ in range(12)  # enough of them for the screen to be used
    )
    query = Query.parse("count:0")

    def sigma(model):
        problem = Problem(model=model, query=query, lengths=((T, 1),), epsilon=epsilon, adversary=adversary)
        return QuiltExact().calibrate(problem).sigma

    assert sigma(MarkovClass(models=models)) == pytest.approx(max(sigma(m) for m in models), rel=1e-9)


def test_every_mechanism_has_a_name_and_a_theorem():
    assert [m.name for m in MECHANISMS] == [
        "per-record-dp",
        "group",
        "gk16",
        "wasserstein",
        "quilt-approx",
        "quilt-exact",
        "exact-laplace",
        "laplace-hidden",
        *(f"curve-{name}" for name in CURVES),
        "gaussian-tight",
    ]
    assert all(m.theorem for m in MECHANISMS)


def test_mechanisms_that_need_mixing_say_so():
    def reason(transition, mechanism, adversary):
        problem = Problem(
            model=MarkovChain(transition=transition),
            query=Query.parse("count:0"),
            lengths=((50, 1),),
            epsilon=1.0,
            adversary=adversary,
        )
        with pytest.raises(NotApplicableError) as refusal:
            mechanism.calibrate(problem)
        assert QuiltExact().calibrate(problem).sigma == 50.0  # the others still answer
        return str(refusal.value)

    for adversary in BOTH:
        assert "periodic" in reason([[0, 1], [1, 0]], QuiltApprox(), adversary)
        assert "reducible" in reason([[1, 0], [0, 1]], QuiltApprox(), adversary)
