"""One suite that every mechanism inherits: what it releases leaks at most epsilon, and its scale is the literal one.

The first alone would let a wrong but generous scale pass; the second alone would let a wrong theory pass.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.answers.problem import Calibrated, Mechanism, Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles.leakage import leakage
from tests.strategies import SEEDS, chains, epsilons, random_distribution

ROUNDING = 1e-9
"""Leakage by enumeration is itself computed in doubles."""


def starts_of(chain: MarkovChain, generator: np.random.Generator) -> list[np.ndarray]:
    """The start distributions a guarantee must hold for; for any start: every point and some mixtures."""
    if chain.given_start is not None:
        return [chain.given_start]
    if not chain.any_start:
        return [chain.stationary]
    k = chain.size
    return [*np.eye(k), np.full(k, 1 / k), *(random_distribution(generator, k) for _ in range(3))]


class MechanismSuite:
    """Inherit, set ``mechanism`` and ``adversaries``, and say how the literal scale is computed."""

    mechanism: Mechanism
    adversaries: tuple[Adversary, ...]

    def literal(self, problem: Problem) -> float:
        """σ by a slow oracle, inf where the mechanism does not apply."""
        raise AssertionError("each suite brings its own oracle")

    def sigma(self, problem: Problem) -> float:
        try:
            return self.mechanism.calibrate(problem).sigma
        except NotApplicableError as refusal:
            assert str(refusal), "a refusal says why"
            return np.inf

    # Some mechanisms apply to few of the ugly chains. Those that are filtered out do not count as examples.
    @settings(suppress_health_check=[*settings().suppress_health_check, HealthCheck.filter_too_much])
    @given(chain=chains(), T=st.integers(1, 6), epsilon=epsilons, seed=SEEDS, data=st.data())
    def test_leaks_at_most_epsilon(self, chain, T, epsilon, seed, data):
        adversary = data.draw(st.sampled_from(self.adversaries))
        # A histogram of many states over many records has too many outputs to enumerate.
        queries = ["count:0", "sum"] + ["histogram"] * (chain.size**T <= 300)
        query = data.draw(st.sampled_from(queries))
        assume(not (query == "sum" and chain.size == 1))
        problem = Problem(
            model=chain, query=Query.parse(query), lengths=((T, 1),), epsilon=epsilon, adversary=adversary
        )
        sigma = self.sigma(problem)
        assume(np.isfinite(sigma))
        calibration = self.mechanism.with_finding(problem, Calibrated(sigma=sigma))
        values = list(range(chain.size)) if query == "sum" else None
        for start in starts_of(chain, np.random.default_rng(seed)):
            everyone = adversary is Adversary.BDP
            found = leakage(
                chain.transition,
                start,
                T,
                query,
                calibration.scale,
                everyone=everyone,
                values=values,
                balanced=calibration.distribution.balanced,
            )
            assert found <= epsilon + ROUNDING

    @given(chain=chains(), T=st.integers(1, 6), epsilon=epsilons, data=st.data())
    def test_scale_is_the_literal_one(self, chain, T, epsilon, data):
        adversary = data.draw(st.sampled_from(self.adversaries))
        problem = Problem(
            model=chain, query=Query.parse("count:0"), lengths=((T, 1),), epsilon=epsilon, adversary=adversary
        )
        assert self.sigma(problem) == pytest.approx(self.literal(problem), rel=1e-9)

    def test_more_chains_cost_no_more_than_the_longest(self):
        chain = MarkovChain(transition=[[0.55, 0.45], [0.4, 0.6]])
        problems = [
            Problem(
                model=chain, query=Query.parse("count:1"), lengths=lengths, epsilon=2.0, adversary=self.adversaries[0]
            )
            for lengths in (((9, 1),), ((4, 7), (9, 3)))
        ]
        assert self.sigma(problems[0]) == self.sigma(problems[1])


def literal_start(chain: MarkovChain) -> object:
    """How the oracles spell a start."""
    if chain.any_start:
        return "any"
    return chain.stationary if chain.given_start is None else chain.given_start
