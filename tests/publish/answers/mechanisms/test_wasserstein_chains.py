"""The Wasserstein mechanism over chains: against every path, in Fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import MarkovClass
from pufferdp.publish.answers.mechanisms.wasserstein import Wasserstein
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles import records as brute
from tests.oracles.transport import w_infinity
from tests.publish.answers.mechanisms.suite import ROUNDING, starts_of
from tests.strategies import SEEDS, chains, epsilons, random_distribution, random_transition


def problem_of(chain, query, epsilon, lengths) -> Problem:
    return Problem(
        model=chain, query=Query.parse(query), lengths=lengths, epsilon=epsilon, adversary=Adversary.PUFFERFISH
    )


def exact_start(chain: MarkovChain) -> np.ndarray:
    return brute.exact_stationary(chain.transition) if chain.given_start is None else chain.given_start


def answers_of(chain, T, query) -> np.ndarray:
    return brute.answers((chain.labels,) * T, chain.labels, query, range(chain.size))


@st.composite
def series(draw, starts, queries=("count:0", "sum", "histogram"), most_paths=600):
    """A chain, a length and a query, few enough paths to look at each."""
    chain = draw(chains(starts=starts))
    T = draw(st.integers(1, 8))
    while chain.size**T > most_paths:
        T -= 1
    query = draw(st.sampled_from(queries))
    assume(not (query == "sum" and chain.size == 1))
    # Answers of several numbers are compared over all subsets of their values.
    few = len(np.unique(answers_of(chain, T, query).reshape(chain.size**T, -1), axis=0)) <= 8
    return chain, T, query if few else "count:0"


@given(drawn=series(("stationary", "given")), epsilon=epsilons)
def test_scale_is_that_of_all_paths(drawn, epsilon):
    chain, T, query = drawn
    found = Wasserstein().calibrate(problem_of(chain, query, epsilon, ((T, 1),)))
    joint, answers = brute.chain_joint(chain.transition, exact_start(chain), T), answers_of(chain, T, query)
    assert found.scale == pytest.approx(float(brute.wasserstein(joint, answers)) / epsilon, rel=1e-9)
    assert found.transport.distance == pytest.approx(found.scale * epsilon, rel=1e-9)
    assert brute.leakage(joint, answers, found.scale) <= epsilon + ROUNDING


@given(drawn=series(("any",), ("count:0", "sum"), most_paths=64), epsilon=epsilons, seed=SEEDS)
def test_any_start_covers_every_start(drawn, epsilon, seed):
    chain, T, query = drawn
    scale = Wasserstein().calibrate(problem_of(chain, query, epsilon, ((T, 1),))).scale
    answers = answers_of(chain, T, query)
    for start in starts_of(chain, np.random.default_rng(seed)):
        joint = brute.chain_joint(chain.transition, start, T)
        assert float(brute.wasserstein(joint, answers)) / epsilon <= scale * (1 + 1e-9)
        assert brute.leakage(joint, answers, scale) <= epsilon + ROUNDING


@given(chain=chains(most_states=3, starts=("any",)), T=st.integers(1, 4), epsilon=epsilons)
def test_any_start_is_the_worst_of_distributions_from_any_two_points(chain, T, epsilon):
    """No larger than the proof needs: the adversary's two distributions are mixtures of these."""
    scale = Wasserstein().calibrate(problem_of(chain, "count:0", epsilon, ((T, 1),))).scale
    joints = [brute.chain_joint(chain.transition, point, T) for point in np.eye(chain.size)]
    answers, worst = answers_of(chain, T, "count:0")[..., 0], 0
    for i in range(T):
        states = np.indices(joints[0].shape)[i]
        distributions = [
            [[joint[(states == a) & (answers == s)].sum() for s in range(T + 1)] for joint in joints]
            for a in range(chain.size)
        ]
        for a, b in itertools.combinations(range(chain.size), 2):
            possible = [[distribution for distribution in distributions[x] if sum(distribution)] for x in (a, b)]
            worst = max([worst, *(w_infinity(range(T + 1), p, q) for p, q in itertools.product(*possible))])
    assert scale == pytest.approx(float(worst) / epsilon, rel=1e-9)


@given(
    chain=chains(most_states=2, starts=("stationary", "given")),
    lengths=st.sampled_from([((1, 3),), ((2, 2), (3, 1)), ((1, 2), (4, 1)), ((3, 2),)]),
    query=st.sampled_from(["count:0", "histogram"]),
    epsilon=epsilons,
)
def test_other_chains_blur_the_answer_as_they_do_in_truth(chain, lengths, query, epsilon):
    found = Wasserstein().calibrate(problem_of(chain, query, epsilon, lengths))
    joint = np.array(Fraction(1), dtype=object)
    for T in [length for length, count in lengths for _ in range(count)]:
        joint = np.multiply.outer(joint, brute.chain_joint(chain.transition, exact_start(chain), T))
    answers = answers_of(chain, joint.ndim, query)
    assert found.scale == pytest.approx(float(brute.wasserstein(joint, answers)) / epsilon, rel=1e-9)
    assert brute.leakage(joint, answers, found.scale) <= epsilon + ROUNDING


def test_other_chains_do_make_a_difference():
    chain = MarkovChain(transition=[[0.6, 0.4], [0.2, 0.8]], start=[0.4, 0.6])
    distances = [
        Wasserstein().calibrate(problem_of(chain, "count:1", 1.0, lengths)).transport.distance
        for lengths in (((3, 1),), ((3, 2),))
    ]
    assert distances == [3.0, 2.0]
    # Where the distribution of the others is not known they are left out: another start, or another chain of the class,
    # which may never move and blur nothing.
    anywhere = MarkovChain(transition=[[0.6, 0.4], [0.2, 0.8]], start="any")
    still = MarkovChain(transition=np.eye(2), start=[1.0, 0.0])
    for model in (anywhere, MarkovClass(models=(chain, still))):
        assert Wasserstein().calibrate(problem_of(model, "count:1", 1.0, ((3, 2),))).transport.distance == 3.0


@given(seed=SEEDS, epsilon=epsilons)
def test_each_chain_may_follow_its_own_distribution_of_the_class(seed, epsilon):
    """Two people of a class: what the other one follows is not known, so every mixture must be safe."""
    generator = np.random.default_rng(seed)
    members = [
        MarkovChain(transition=random_transition(generator, 2), start=random_distribution(generator, 2))
        for _ in range(2)
    ]
    scale = Wasserstein().calibrate(problem_of(MarkovClass(models=tuple(members)), "count:1", epsilon, ((3, 2),))).scale
    paths = [brute.chain_joint(m.transition, m.given_start, 3) for m in members]
    for one, other in itertools.product(paths, repeat=2):
        joint, answers = np.multiply.outer(one, other), answers_of(members[0], 6, "count:1")
        assert brute.leakage(joint, answers, scale) <= epsilon + ROUNDING
