"""The distributions of an answer given a secret: each mass within the stated error, against Fractions.

The guarantee matters: ties are told from differences by it, and the noise pays for it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.chains.sums import ChainSums
from pufferdp.models.chain import MarkovChain
from pufferdp.models.groups import Groups
from pufferdp.models.joint import JointTable
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.publish.answers.distributions import answer_distributions
from pufferdp.publish.answers.mechanisms.wasserstein import Wasserstein
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles import records as brute
from tests.oracles.transport import log_of
from tests.publish.answers.mechanisms.record_suite import case_of
from tests.strategies import SEEDS


def steep(generator, k: int, depth: float) -> np.ndarray:
    """A distribution whose masses lie down to 10^-depth; some are 0."""
    distribution = 10.0 ** -generator.uniform(0, depth, size=k) * (generator.random(k) < 0.9)
    distribution[generator.integers(k)] = 1.0
    return distribution / distribution.sum()


def assert_within_guarantee(distributions, joint, counts, event, row) -> None:
    """One row of logs against the distribution of the count given the event."""
    masses = [joint[event & (counts == point)].sum() / joint[event].sum() for point in distributions.points]
    for mass, log in zip(masses, row.tolist(), strict=True):
        expected = log_of(Fraction(mass))
        if mass:
            assert abs(log - expected) <= distributions.error + 4 * np.spacing(abs(expected))
        else:
            assert log == -np.inf


def assert_all_within_guarantee(distributions, joint, counts) -> None:
    seen = 0
    for given_record in distributions.records():
        for state, row in zip(given_record.states, given_record.logs, strict=True):
            event = np.indices(joint.shape)[given_record.record] == state
            assert_within_guarantee(distributions, joint, counts, event, row)
            seen += 1
    assert seen


@st.composite
def steep_models(draw):
    """Tables, groups and small networks with masses down to 1e-130."""
    generator, depth = np.random.default_rng(draw(SEEDS)), draw(st.sampled_from([0.5, 8, 130]))
    kind = draw(st.sampled_from(["table", "groups", "network"]))
    if kind == "table":
        outcomes = list(np.ndindex(2, 2, 2))
        return JointTable(values=[0, 1], outcomes=outcomes, probabilities=steep(generator, 8, depth))
    if kind == "groups":
        sizes = [int(m) for m in generator.integers(1, 4, size=2)]
        return Groups(sizes=sizes, positives=[steep(generator, m + 1, depth) for m in sizes])
    depth = min(depth, 70)  # four tables are multiplied
    nodes = []
    for v in range(4):
        above = [u for u in range(v) if generator.random() < 0.5]
        rows = [steep(generator, 2, depth) for _ in range(2 ** len(above))]
        table = np.reshape(rows, (2,) * (len(above) + 1))
        nodes.append(Node(name=f"n{v}", states=["0", "1"], parents=[f"n{u}" for u in above], table=table))
    return BayesianNetwork(nodes=tuple(nodes))


@given(model=steep_models())
def test_distributions_of_records_are_within_their_error(model):
    case = case_of(model, "count:1")
    distributions = next(answer_distributions(case.problem(1.0))).distributions
    counts = case.answers[..., 0]
    assert_all_within_guarantee(distributions, case.joint, counts)
    # Given an event: two conditions that cannot both hold.
    last = case.joint.ndim - 1
    cells = [{0: (0,)}, {0: (1,), last: (1,)}] if last else [{0: (0,)}]
    axes = np.indices(case.joint.shape)
    event = (axes[0] == 0) | ((axes[0] == 1) & (axes[last] == 1) if last else False)
    rows = distributions.event(cells)
    if case.joint[event].sum():
        assert_within_guarantee(distributions, case.joint, counts, event, rows[0])
    else:
        assert rows is None


@given(seed=SEEDS, T=st.integers(1, 6), depth=st.sampled_from([0.5, 8, 29]))
def test_distributions_of_chains_are_within_their_error(seed, T, depth):
    generator = np.random.default_rng(seed)
    P, start = [steep(generator, 2, depth) for _ in range(2)], steep(generator, 2, depth)
    distributions = ChainSums(MarkovChain(transition=P, start=start), T, [0, 1])
    joint = brute.chain_joint(P, start, T)
    assert_all_within_guarantee(distributions, joint, np.indices(joint.shape).sum(axis=0))
    total = np.ones(joint.shape, dtype=bool)
    assert_within_guarantee(distributions, joint, np.indices(joint.shape).sum(axis=0), total, distributions.total())


def test_states_may_take_any_number_of_steps():
    """A sum with steps 0, 2 and 5: some numbers of the grid are impossible."""
    P, start = np.array([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0], [0.1, 0.1, 0.8]]), np.array([0.5, 0.25, 0.25])
    distributions = ChainSums(MarkovChain(transition=P, start=start), 4, [0, 2, 5])
    joint = brute.chain_joint(P, start, 4)
    assert_all_within_guarantee(distributions, joint, np.array([0, 2, 5])[np.indices(joint.shape)].sum(axis=0))


def test_a_rare_small_and_a_common_large_value():
    """The distribution of the sum falls by 1e-30 a step and rises again at every 100; independent records need 100."""
    T, chain = 12, MarkovChain(transition=[[0.5, 1e-30, 0.5]] * 3, values=[0, 1, 100])
    problem = Problem(
        model=chain, query=Query.parse("sum"), lengths=((T, 1),), epsilon=1.0, adversary=Adversary.PUFFERFISH
    )
    distributions = next(answer_distributions(problem)).distributions
    logs = next(iter(distributions.records())).logs
    assert np.isneginf(logs[0][T:100]).all()
    assert logs[0][T - 1] == pytest.approx((T - 1) * np.log(1e-30), rel=1e-12)
    assert logs[0][100] == pytest.approx(np.log(T - 1) + (T - 1) * np.log(0.5), rel=1e-9)  # one of the others is large
    assert Wasserstein().calibrate(problem).transport.distance == 100.0
