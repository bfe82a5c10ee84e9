"""Draws follow the distributions they are drawn from.

Frequencies are held against exact distributions. By Hoeffding's inequality one frequency among N draws misses its
probability by more than t with probability at most 2·exp(-2Nt²); t is chosen so that all frequencies of one check
together do so with probability below 1e-9. Seeds are fixed, so a test that passes once passes always.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings

from pufferdp.basics.errors import ModelError, ParameterError
from pufferdp.models.base import RecordModel
from pufferdp.models.chain import MarkovChain
from pufferdp.models.gaussian import Gaussian
from pufferdp.models.groups import Groups
from pufferdp.models.joint import JointTable
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.models.simulate import chain_log_probability, sample, sample_chain, sample_normal
from tests.models.test_joint_and_groups import filled, spread
from tests.models.test_network import multiplied, questions, summed
from tests.oracles.leakage import path_distribution
from tests.strategies import SEEDS, chains, examples, groups, networks, tables

DRAWS = 4000


def assert_follows(drawn, distribution):
    """The rows of a table of draws come from this joint distribution."""
    counts = np.zeros(distribution.shape)
    np.add.at(counts, tuple(drawn.T), 1)
    assert not counts[distribution == 0].any()
    tolerance = math.sqrt(math.log(2 * distribution.size / 1e-9) / (2 * len(drawn)))
    assert abs(counts / len(drawn) - distribution).max() < tolerance


class Plain(RecordModel):
    """Some model that sampling knows nothing about but its distributions."""

    def __init__(self, inner):
        self.inner = inner

    records = property(lambda self: self.inner.records)
    domains = property(lambda self: self.inner.domains)
    values = property(lambda self: self.inner.values)
    components = property(lambda self: self.inner.components)

    def joint(self, records, evidence):
        return self.inner.joint(records, evidence)

    def outcomes(self):
        return self.inner.outcomes()


KINDS = {
    "networks": (networks(most_nodes=4), multiplied),
    "tables": (tables(), filled),
    "groups": (groups(), spread),
    "others": (groups(most_groups=2).map(Plain), lambda model: spread(model.inner)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_draws_follow_the_distribution_given_what_is_known(kind):
    models, brute = KINDS[kind]

    @settings(max_examples=examples(30))
    @given(model=models, seed=SEEDS)
    def check(model, seed):
        _, evidence = questions(seed, model.sizes)
        known = {model.records[i]: [model.domains[i][x] for x in states] for i, states in evidence.items()}
        distribution = summed(brute(model), range(len(model.records)), evidence)
        generator = np.random.default_rng(seed)
        if distribution.sum() > 0:
            assert_follows(sample(model, DRAWS, generator, given=known), distribution / distribution.sum())
        else:
            with pytest.raises(ModelError, match="has probability 0; nothing can be said given it"):
                sample(model, DRAWS, generator, given=known)

    check()


def test_a_seed_repeats_the_draws_and_size_may_be_0():
    coin = BayesianNetwork(nodes=(Node(name="x", states=["0", "1"], table=[0.5, 0.5]),))
    table = JointTable(values=[0, 1], outcomes=[(0,), (1,)], probabilities=[0.5, 0.5])
    pair = Groups(sizes=[2], positives=[[0.2, 0.3, 0.5]])
    for model in (coin, table, pair):
        once, twice = (sample(model, 50, np.random.default_rng(7)) for _ in range(2))
        assert (once == twice).all()
        assert sample(model, 0, np.random.default_rng(7)).shape == (0, len(model.records))
        for wrong in (-1, 2.5):
            with pytest.raises(ParameterError, match="size is"):
                sample(model, wrong, np.random.default_rng(7))


@pytest.mark.slow
def test_large_models_are_drawn_quickly():
    """Two thousand records along a path, and a group of a thousand: neither can be enumerated."""
    stay = np.array([[0.9, 0.1], [0.2, 0.8]])
    first = Node(name="0", states=["a", "b"], table=[0.5, 0.5])
    rest = [Node(name=str(i), states=["a", "b"], parents=[str(i - 1)], table=stay) for i in range(1, 2000)]
    path = BayesianNetwork(nodes=(first, *rest))
    drawn = sample(path, 500, np.random.default_rng(1), given={"3": "b"})
    assert (drawn[:, 3] == 1).all()
    moves = np.zeros((2, 2))
    np.add.at(moves, (drawn[:, 3:-1].ravel(), drawn[:, 4:].ravel()), 1)
    # A million moves, each of two kinds from 300,000 or more: Hoeffding, error rate below 1e-9.
    assert moves / moves.sum(axis=1, keepdims=True) == pytest.approx(stay, abs=math.sqrt(math.log(4e9) / 6e5))
    group = Groups(sizes=[1000], positives=[np.eye(1001)[600]])
    drawn = sample(group, 200, np.random.default_rng(2), given={"1": "1", "2": "0"})
    assert (drawn.sum(axis=1) == 600).all()
    assert (drawn[:, :2] == [1, 0]).all()


@pytest.mark.parametrize("start", ["stationary", [0.0, 0.3, 0.7]])
def test_series_follow_the_chain(start):
    transition = [[0.5, 0.5, 0.0], [0.1, 0.2, 0.7], [1.0, 0.0, 0.0]]
    chain = MarkovChain(transition=transition, start=start)
    first = np.linalg.matrix_power(np.array(transition), 200)[0] if start == "stationary" else np.array(start)
    distribution = np.zeros((3, 3, 3, 3))
    for path in np.ndindex(distribution.shape):
        distribution[path] = first[path[0]] * math.prod(transition[a][b] for a, b in itertools.pairwise(path))
    drawn = sample_chain(chain, 4, 20_000, np.random.default_rng(3))
    assert drawn.shape == (20_000, 4)
    assert_follows(drawn, distribution)
    assert sample_chain(chain, 1, 0, np.random.default_rng(3)).shape == (0, 1)


def test_a_chain_with_any_start_has_no_distribution_to_draw_from():
    chain = MarkovChain(transition=np.eye(2), start="any")
    with pytest.raises(ModelError, match='start is "any", which is not a distribution to draw from'):
        sample_chain(chain, 3, 2, np.random.default_rng(0))
    with pytest.raises(ParameterError, match="length is 0"):
        sample_chain(MarkovChain(transition=np.eye(2)), 0, 2, np.random.default_rng(0))


# ---- given some records ----


@given(chain=chains(most_states=3, starts=("stationary", "given")), seed=SEEDS)
@settings(max_examples=examples(40))
def test_series_follow_their_distribution_given_what_is_known(chain, seed):
    """Every path of up to five records, by enumeration; what cannot be is refused, and never drawn."""
    generator = np.random.default_rng(seed)
    n = int(generator.integers(1, 6))
    start = chain.stationary if chain.given_start is None else chain.given_start
    distribution = path_distribution(chain.transition, start, n)
    known = {int(t): int(generator.integers(chain.size)) for t in np.flatnonzero(generator.random(n) < 0.5)}
    fits = np.ones(distribution.shape, dtype=bool)
    for t, x in known.items():
        fits &= np.indices(distribution.shape)[t] == x
    total = float(distribution[fits].sum())
    found = chain_log_probability(chain, n, known)
    if total == 0:
        assert found == -math.inf
        with pytest.raises(ModelError, match="has probability 0"):
            sample_chain(chain, n, 10, generator, known)
        return
    assert found == pytest.approx(math.log(total), abs=1e-9)
    assert_follows(sample_chain(chain, n, DRAWS, generator, known), np.where(fits, distribution / total, 0.0))


def test_a_record_that_is_not_there_cannot_be_known():
    chain = MarkovChain(transition=[[0.5, 0.5], [1.0, 0.0]])
    for known in ({3: 0}, {0: 2}, {-1: 0}):
        with pytest.raises(ModelError, match="3 records with states 0 to 1"):
            sample_chain(chain, 3, 1, np.random.default_rng(0), known)


def test_long_series_do_not_underflow():
    chain = MarkovChain(transition=[[0.9, 0.1], [0.1, 0.9]])
    known = {t: t % 2 for t in range(2000)}
    assert chain_log_probability(chain, 2000, known) == pytest.approx(math.log(0.5) + 1999 * math.log(0.1))
    assert (sample_chain(chain, 2000, 2, np.random.default_rng(0), known) == np.arange(2000) % 2).all()


def test_normal_records_given_some():
    """Mean and covariance of 200,000 draws against the textbook's; six standard errors, about 1e-8 in all."""
    covariance = np.array([[2.0, 0.6, -0.4], [0.6, 1.0, 0.3], [-0.4, 0.3, 1.5]])
    model = Gaussian(mean=[1.0, 2.0, 3.0], covariance=covariance)
    drawn = sample_normal(model, 200_000, np.random.default_rng(3), {1: 0.5})
    assert (drawn[:, 1] == 0.5).all()
    rest = covariance[np.ix_([0, 2], [0, 2])] - np.outer(covariance[[0, 2], 1], covariance[1, [0, 2]])
    mean = np.array([1.0, 3.0]) - 1.5 * covariance[[0, 2], 1]
    assert drawn[:, [0, 2]].mean(axis=0) == pytest.approx(mean, abs=6 * math.sqrt(2 / 200_000))
    assert np.cov(drawn[:, [0, 2]].T) == pytest.approx(rest, abs=6 * 2 * math.sqrt(2 / 200_000))
    everything = sample_normal(model, 3, np.random.default_rng(3), {0: 1.0, 1: 2.0, 2: 3.0})
    assert (everything == [1.0, 2.0, 3.0]).all()
    assert sample_normal(model, 5, np.random.default_rng(3)).shape == (5, 3)
