"""The Wasserstein mechanism by name: check values, tiny masses, ties, answers that do not see the secret."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.chains.sums import ChainSums
from pufferdp.bounds.distributions.wasserstein import Pairs
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import BinaryInterval
from pufferdp.models.groups import AnyGroups, Groups
from pufferdp.models.joint import JointTable
from pufferdp.models.model_class import ModelClass
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.publish.answers.mechanisms.baselines import Group
from pufferdp.publish.answers.mechanisms.wasserstein import Wasserstein
from pufferdp.publish.answers.plan import plan
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles import records as brute
from tests.oracles.transport import w_infinity
from tests.publish.answers.mechanisms.record_suite import case_of

CLIQUE = [0.1, 0.15, 0.5, 0.15, 0.1]
RARE = [[0.999, 0.001], [0.9, 0.1]]


def found(model, query="count:1", epsilon=1.0, lengths=()):
    query = Query.parse(query) if isinstance(query, str) else query
    problem = Problem(model=model, query=query, lengths=lengths, epsilon=epsilon, adversary=Adversary.PUFFERFISH)
    return Wasserstein().calibrate(problem)


def test_clique_of_four():
    """Given a record is 0 or 1 the count has the distributions .2 .225 .5 .075 0 and 0 .075 .5 .225 .2."""
    model = Groups(sizes=[4], positives=[CLIQUE])
    case = case_of(model, "count:1")
    assert brute.wasserstein(case.joint, case.answers) == 2
    transport = found(model).transport
    assert transport.distance == 2.0
    problem = case.problem(1.0)
    assert {transport.first, transport.second} == {problem.value_name(0, 0), problem.value_name(0, 1)}
    assert Group().calibrate(problem).sigma == 4.0
    assert found(model, "histogram").scale == pytest.approx(4.0, rel=1e-9)  # two bins: each move counts twice
    assert found(model, "frequency").scale == pytest.approx(1.0, rel=1e-9)
    assert found(model, "mean").scale == pytest.approx(0.5, rel=1e-9)


def test_independent_records_give_one_exactly():
    """All intervals are ties here; rounding must not make 1 into 2."""
    model = Groups(sizes=[1] * 40, positives=[[1 - p, p] for p in np.linspace(0.01, 0.99, 40)])
    assert found(model).transport.distance == 1.0
    chain = MarkovChain(transition=[[0.7, 0.3], [0.7, 0.3]])
    assert found(chain, lengths=((200, 1),)).transport.distance == 1.0
    thirds = MarkovChain(transition=[[1 / 3, 1 / 3, 1 / 3]] * 3)
    assert found(thirds, "sum", lengths=((60, 1),)).transport.distance == 2.0
    nodes = [Node(name=f"n{v}", states=["0", "1"], table=[0.1 * v, 1 - 0.1 * v]) for v in range(1, 10)]
    assert found(BayesianNetwork(nodes=tuple(nodes))).transport.distance == 1.0


def whole_distributions(P, start, T: int, i: int) -> list[list[int]]:
    """The count of ones in whole numbers, given record i is 0 or 1, not scaled; P and start in whole numbers."""

    def counted(rows):
        return [[*rows[0], 0], [0, *rows[1]]]

    now = counted([[start[0]], [start[1]]])
    for _ in range(i - 1):
        now = counted([[P[0][y] * a + P[1][y] * b for a, b in zip(*now, strict=True)] for y in (0, 1)])
    after = [[1], [1]]
    for _ in range(T - i):
        rows = counted(after)
        after = [[P[x][0] * a + P[x][1] * b for a, b in zip(*rows, strict=True)] for x in (0, 1)]
    return [np.convolve(np.array(now[x], object), np.array(after[x], object)).tolist() for x in (0, 1)]


def walked(p, q) -> int:
    """The quantile coupling in doubles, as it is usually written."""
    p, q, i, j, worst = list(p), list(q), 0, 0, 0
    while i < len(p) and j < len(q):
        mass = min(p[i], q[j])
        worst = max(worst, abs(i - j)) if mass > 0 else worst
        p[i], q[j] = p[i] - mass, q[j] - mass
        i, j = i + (p[i] <= 0), j + (q[j] <= 0)
    return worst


def test_tiny_masses_where_a_walk_in_doubles_goes_wrong():
    """Tails of 1e-300: what is left over from rounding in the middle is carried to the far end."""
    T, records = 120, (1, 2, 60, 119, 120)
    exact = {i: whole_distributions([[999, 1], [900, 100]], [900, 1], T, i) for i in records}
    distances = {i: w_infinity(range(T + 1), *distributions) for i, distributions in exact.items()}
    assert distances == {1: 3, 2: 3, 60: 4, 119: 3, 120: 3}
    naive = walked(
        *(np.array([float(Fraction(m, sum(distribution))) for m in distribution]) for distribution in exact[1])
    )
    assert naive > 90
    distributions = ChainSums(MarkovChain(transition=RARE), T, [0, 1])
    ours = {}
    for given in distributions.records():
        if given.record + 1 in records:
            worst = Pairs(distributions.points, given.logs[[0]], given.logs[[1]], 4 * distributions.error).worst()
            ours[given.record + 1] = worst.distance
    assert ours == distances
    assert found(MarkovChain(transition=RARE), lengths=((T, 1),)).transport.distance == 4.0


def test_long_series_are_computed_and_need_no_more():
    chain = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]])
    assert [found(chain, lengths=((T, 1),)).transport.distance for T in (120, 500)] == [4.0, 4.0]


def test_no_noise_where_the_answer_does_not_see_the_secret():
    """One of two is always ill: their number says nothing of who."""
    model = JointTable(values=[0, 1], outcomes=[(0, 1), (1, 0)], probabilities=[0.3, 0.7])
    calibration = found(model)
    assert (calibration.sigma, calibration.scale, calibration.transport.distance) == (0.0, 0.0, 0.0)
    case = case_of(model, "count:1")
    assert brute.leakage(case.joint, case.answers, 0.0) == 0.0
    made = plan(model, "count:1", epsilon=1.0, adversary="pufferfish")
    assert made.best.mechanism == "wasserstein"
    assert made.best.calibration.distribution.expected_l1_error == 0.0
    # The smallest difference is seen: without noise it would leak without bound.
    nearly = JointTable(values=[0, 1], outcomes=[(0, 1), (1, 0), (1, 1)], probabilities=[0.3, 0.7 - 1e-12, 1e-12])
    assert found(nearly).transport.distance == 1.0


@pytest.mark.parametrize("wide", [False, True], ids=["one number", "two numbers"])
def test_a_function_of_ones_own(wide):
    """Any answer over a table of outcomes; points need not lie on a grid."""
    generator = np.random.default_rng(8)
    outcomes = [tuple(int(x) for x in row) for row in np.ndindex(2, 2, 2)]

    def answer(chains):
        a, b, c = (float(x) for x in chains[0])
        return [a + b * c, 0.3 * max(a, b)] if wide else 0.3 * a + 0.1 * max(b, c) + a * b * c / 7

    query = Query.of_function(answer, lipschitz=1.5, coordinates=2 if wide else 1)
    for _ in range(10):
        distribution = generator.dirichlet(np.ones(8))
        joint = brute.exact(distribution).reshape(2, 2, 2)
        answers = np.array([np.atleast_1d(answer([x])) for x in outcomes]).reshape(2, 2, 2, -1)
        scale = found(JointTable(values=[0, 1], outcomes=outcomes, probabilities=distribution), query, 0.5).scale
        assert scale == pytest.approx(float(brute.wasserstein(joint, answers)) / 0.5, rel=1e-9)
        assert brute.leakage(joint, answers, scale) <= 0.5 + 1e-9


def test_a_function_of_several_chains_is_given_them_all():
    """Refused or right, but never computed from one chain alone: this answer is constant when it sees only one."""
    chain = MarkovChain(transition=[[0.5, 0.5], [0.2, 0.8]])
    query = Query.of_function(lambda seen: float(sum(c.sum() for c in seen)) if len(seen) > 1 else 0.0, 1.0)
    try:
        scale = found(chain, query, lengths=((2, 2),)).scale
    except NotApplicableError:
        return
    assert scale >= 1.0


def test_values_that_no_double_holds_exactly():
    """Steps of 0.1: sums that are equal on paper are one value of the answer, and rounding is paid for."""
    values = [0.1, 0.2, 0.3]
    outcomes = [tuple(values[x] for x in row) for row in np.ndindex(3, 3, 3)]
    distribution = np.random.default_rng(4).dirichlet(np.ones(27))
    scale = found(JointTable(values=values, outcomes=outcomes, probabilities=distribution), "sum").scale
    joint = brute.exact(distribution).reshape(3, 3, 3)
    steps = np.indices((3, 3, 3)).sum(axis=0)[..., None]
    assert scale == pytest.approx(float(brute.wasserstein(joint, steps)) / 10, rel=1e-9)


def test_the_noise_pays_for_the_rounding_of_every_belief():
    """A table and a network with other errors and the same W: the larger error counts, whichever comes first."""
    table = JointTable(values=[0, 1], outcomes=[(0, 0), (0, 1), (1, 0), (1, 1)], probabilities=[0.25] * 4)
    nodes = tuple(Node(name=name, states=["0", "1"], table=[0.5, 0.5]) for name in ("1", "2"))
    members = (table, BayesianNetwork(nodes=nodes))
    paid = [found(member).transport.paid for member in members]
    assert paid[0] != paid[1]
    for order in (members, members[::-1]):
        assert found(ModelClass(models=order)).transport.paid == max(paid)


@pytest.mark.parametrize(
    ("model", "query", "lengths", "reason"),
    [
        (AnyGroups(largest=3), "count:1", (), "anything may hold"),
        (BinaryInterval(low=0.4, high=0.6), "count:1", ((5, 1),), "box of chains"),
        (MarkovChain(transition=[[0.5, 0.5]] * 2), "count:1", ((10**6, 1),), "too many steps"),
        (MarkovChain(transition=[[1 - 1e-40, 1e-40], [0.5, 0.5]]), "count:1", ((9, 1),), "1e-40"),
        (MarkovChain(transition=[[0.2, 0.3, 0.5]] * 3), "histogram", ((40, 1),), "65,536 paths"),
        (MarkovChain(transition=[[0.2, 0.3, 0.5]] * 3, start="any"), "histogram", ((4, 1),), "definite start"),
        (MarkovChain(transition=[[0.5, 0.5]] * 2, values=[0, 3.14159265]), "sum", ((5, 1),), None),
        (MarkovChain(transition=[[0.4, 0.3, 0.3]] * 3, values=[0, 1, 3.14159265]), "sum", ((5, 1),), "common step"),
        (Groups(sizes=[1] * 5001, positives=[[0.5, 0.5]] * 5001), "count:1", (), "5,001"),
    ],
    ids=["any groups", "box", "long", "tiny", "paths", "any start", "one step", "no step", "many records"],
)
def test_limits_are_named(model, query, lengths, reason):
    if reason is None:
        assert found(model, query, lengths=lengths).sigma == pytest.approx(1.0, rel=1e-9)
        return
    with pytest.raises(NotApplicableError, match=reason):
        found(model, query, lengths=lengths)
