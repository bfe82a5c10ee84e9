"""The least Laplace noise against enumeration of all adversaries: it is enough, and a thousandth less is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import BinaryInterval, MarkovClass
from pufferdp.models.groups import Groups
from pufferdp.models.joint import JointTable
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.publish.answers.mechanisms.exact import ExactLaplace, ExactLeakage, leaks_its_loss
from pufferdp.publish.answers.mechanisms.quilt import QuiltExact
from pufferdp.publish.answers.mechanisms.wasserstein import Wasserstein
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles import records as brute
from tests.oracles.leakage import leakage
from tests.publish.answers.mechanisms.record_suite import cases
from tests.publish.answers.mechanisms.suite import ROUNDING, literal_start
from tests.strategies import chains, epsilons
from tests.tolerance import SEARCHED, safe_scale

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
LEAST = 1 / 20
"""With less noise than this, densities of some outputs are too small for doubles, and bounds stand in for them."""


def problem_of(model, query="count:1", lengths=(), epsilon=1.0, adversary=Adversary.BDP):
    return Problem(model=model, query=Query.parse(query), lengths=lengths, epsilon=epsilon, adversary=adversary)


def leak_of(problem, scale):
    chain, everyone = problem.model, problem.adversary is Adversary.BDP
    query, values = problem.query.name, list(range(chain.size))
    start = literal_start(chain)
    return leakage(chain.transition, start, problem.longest, query, scale, everyone=everyone, values=values)


@given(
    chain=chains(3, ("stationary", "given")),
    n=st.integers(1, 5),
    epsilon=epsilons,
    query=st.sampled_from(["count:0", "sum"]),
    adversary=st.sampled_from([Adversary.BDP, Adversary.PUFFERFISH]),
)
def test_enough_and_no_more(chain, n, epsilon, query, adversary):
    assume(not (query == "sum" and chain.size == 1))
    problem = problem_of(chain, query, ((n, 1),), epsilon, adversary)
    try:
        calibration = ExactLaplace().calibrate(problem)
    except NotApplicableError:  # distributions too steep to be compared
        assume(False)
    # Without noise, where no record has two values: any scale shows that nothing leaks.
    assert leak_of(problem, calibration.scale or LEAST) <= (epsilon + ROUNDING if calibration.scale else 0.0)
    if calibration.sigma > LEAST:
        assert leak_of(problem, calibration.scale * 0.995) > epsilon
    if adversary is Adversary.BDP:
        assert calibration.sigma <= QuiltExact().calibrate(problem).sigma * (1 + 4e-3)


@given(case=cases(), epsilon=epsilons, everyone=st.booleans())
def test_small_models_by_enumeration(case, epsilon, everyone):
    adversary = Adversary.BDP if everyone else Adversary.PUFFERFISH
    try:
        calibration = ExactLaplace().calibrate(case.problem(epsilon, adversary))
    except NotApplicableError:
        assume(False)
    scale = calibration.scale or LEAST  # no noise, where no record has two values
    assert brute.leakage(case.joint, case.answers, scale, everyone=everyone) <= epsilon + ROUNDING
    if calibration.sigma > LEAST:
        assert brute.leakage(case.joint, case.answers, calibration.scale * 0.999, everyone=everyone) > epsilon


@pytest.mark.parametrize("n", [288, 15264, 10**6])
def test_the_activity_of_a_day_and_of_a_whole_series(n):
    problem = problem_of(MarkovChain(transition=ACTIVITY), lengths=((n, 1),))
    assert ExactLaplace().calibrate(problem).scale == safe_scale(3.994794)
    assert QuiltExact().calibrate(problem).scale == pytest.approx(15.94, abs=0.005)


def test_never_above_the_wasserstein_mechanism():
    """Both bound the same leakage; W over epsilon is a bound on the least scale."""
    clique = Groups(sizes=[4], positives=[[0.1, 0.15, 0.5, 0.15, 0.1]])
    problem = problem_of(clique, adversary=Adversary.PUFFERFISH)
    least, far = (m.calibrate(problem).scale for m in (ExactLaplace(), Wasserstein()))
    assert least < far == pytest.approx(2, rel=1e-9)


def test_every_chain_of_a_class_and_every_length_counts():
    sticky, loose = MarkovChain(transition=[[0.9, 0.1], [0.1, 0.9]]), MarkovChain(transition=[[0.6, 0.4], [0.4, 0.6]])

    def scale(model, lengths):
        return ExactLaplace().calibrate(problem_of(model, lengths=lengths)).scale

    both = MarkovClass(models=(loose, sticky))
    assert scale(both, ((9, 1),)) == pytest.approx(scale(sticky, ((9, 1),)), rel=1e-6)
    assert scale(sticky, ((4, 2), (9, 3))) == pytest.approx(scale(sticky, ((9, 1),)), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
@pytest.mark.parametrize("start", ["any", "stationary"])
def test_attracting_states_leak_as_any_algorithm_does(adversary, start):
    """By enumeration: the noise meets the guarantee for every start, and a little less does not for some start."""
    P, T = np.array(ACTIVITY), 5
    query = "count:0" if start == "any" else "histogram"
    problem = problem_of(MarkovChain(transition=P, start=start), query, ((T, 1),), adversary=Adversary(adversary))
    scale = ExactLaplace().calibrate(problem).scale
    pi = np.array([P[1, 0], P[0, 1]]) / (P[1, 0] + P[0, 1])
    starts = [np.array([p, 1 - p]) for p in np.linspace(0, 1, 41)] if start == "any" else [pi]

    def most(scale: float) -> float:
        everyone, balanced = adversary == "bdp", problem.balanced
        return max(leakage(P, s, T, query, scale, everyone=everyone, balanced=balanced) for s in starts)

    assert most(scale) <= 1 + 1e-9
    assert most(scale * 0.998) > 1


@pytest.mark.parametrize(("epsilon", "least"), [(1e-6, 3.80432767040347), (1e-3, 3.80458435180939)])
def test_small_guarantees_leave_no_more_over_for_rounding_than_there_is(epsilon, least):
    """Against the scale times epsilon in fifty digits, record by record, over all ends that may be known."""
    problem = problem_of(MarkovChain(transition=ACTIVITY), "count:0", ((100, 1),), epsilon)
    noise = ExactLaplace().calibrate(problem).scale * epsilon
    assert noise == safe_scale(least, digits=1e-9)


def test_what_it_cannot_do_it_says():
    def reason(model, query="count:0", lengths=((9, 1),), epsilon=1.0):
        with pytest.raises(NotApplicableError) as refusal:
            ExactLaplace().calibrate(problem_of(model, query, lengths, epsilon))
        return str(refusal.value)

    chain = MarkovChain(transition=ACTIVITY)
    assert "definite start" in reason(MarkovChain(transition=np.full((3, 3), 1 / 3), start="any"))
    assert "one number" in reason(MarkovChain(transition=np.full((3, 3), 1 / 3)), "histogram")
    assert "9 states" in reason(MarkovChain(transition=np.full((9, 9), 1 / 9)))
    assert "60 length" in reason(chain, lengths=tuple((n, 1) for n in range(1, 61)))
    assert "cannot be listed" in reason(BinaryInterval(low=0.2, high=0.8))
    nodes = [Node(name="0", states=("0", "1"), table=[0.5, 0.5])]
    nodes += [
        Node(name=str(n), states=("0", "1"), parents=(str(n - 1),), table=[[0.9, 0.1], [0.2, 0.8]])
        for n in range(1, 14)
    ]
    assert "about ten records" in reason(BayesianNetwork(nodes=tuple(nodes)), lengths=())


@given(
    moves=st.tuples(st.floats(0.02, 0.98), st.floats(0.02, 0.98)),
    start=st.floats(0.01, 0.99),
    T=st.integers(1, 6),
    epsilon=st.sampled_from([0.2, 1.0, 4.0]),
    query=st.sampled_from(["count:0", "count:1", "histogram"]),
)
def test_a_count_of_states_that_repel_leaks_its_loss_and_no_more(moves, start, T, epsilon, query):
    """By enumeration, over all adversaries. Chains that attract each other are not among them, and leak more."""
    p, q = moves
    table, distribution = np.array([[1 - p, p], [q, 1 - q]]), np.array([start, 1 - start])
    scale = (2 if query == "histogram" else 1) / epsilon
    leaks = leakage(table, distribution, T, query, scale, everyone=True, balanced=query == "histogram")
    problem = problem_of(MarkovChain(transition=table, start=distribution), query, ((T, 1),), epsilon)
    if p + q >= 1.001:
        assert leaks_its_loss(problem)
    if leaks_its_loss(problem):
        assert leaks == pytest.approx(epsilon, rel=1e-9)
        assert ExactLaplace().calibrate(problem).scale == pytest.approx(scale, rel=1e-12)
    elif T > 1 and p + q < 0.999:
        assert leaks > epsilon


def test_who_learns_most_is_named():
    chain = MarkovChain(transition=ACTIVITY, states=["rest", "active"])
    at_seven = ExactLeakage(problem_of(chain, "count:active", ((7, 1),))).witness(2.0)
    assert at_seven.knows == (
        "all but 2 records before the target and 2 after it; the record before these is rest and the record after "
        "these is rest"
    )
    assert {at_seven.likelier, at_seven.other} == {"rest", "active"}
    nothing = ExactLeakage(problem_of(chain, "count:active", ((7, 1),), adversary=Adversary.PUFFERFISH)).witness(2.0)
    assert (nothing.knows, nothing.over) == ("no record", "all records")
    assert nothing.record.startswith("record ")
    others = ExactLeakage(problem_of(chain, "count:active", ((7, 1),), adversary=Adversary.DP))
    assert others(1.5) == pytest.approx(1.5, rel=1e-9)
    assert (others.witness(1.5).record, others.witness(1.5).knows) == ("any record", "all other records")
    never = MarkovChain(transition=[[1.0, 0.0], [0.5, 0.5]], start=[1.0, 0.0])
    assert ExactLeakage(problem_of(never, lengths=((7, 1),))).witness(1.0) is None


def test_an_output_is_told_in_the_units_of_the_answer():
    """Twins who always agree, heights 150 or 180: whoever sees 360 or more knows both."""
    twins = JointTable(values=[150, 180], outcomes=[(150, 150), (180, 180)], probabilities=[0.5, 0.5])
    for query, output in (("sum", {300.0, 360.0}), ("mean", {150.0, 180.0})):
        found = ExactLeakage(problem_of(twins, query)).witness(1.0)
        assert found.output in output
        assert found.knows == "no record"


def test_what_rounding_adds_to_a_sum_is_counted_above_the_least_sum():
    """Values around 2^50: the least sum is public, and what a sum is above it is rounded by the spacing at 2."""
    big = 2.0**50
    numbers = {"values": [big, big + 1], "outcomes": [(big, big), (big + 1, big + 1)], "probabilities": [0.5, 0.5]}
    plain = {"values": [0, 1], "outcomes": [(0, 0), (1, 1)], "probabilities": [0.5, 0.5]}
    large, small = (ExactLeakage(problem_of(JointTable(**table), "sum"))(0.5) for table in (numbers, plain))
    assert large == small == pytest.approx(1.0 + 0.5 * math.ulp(2.0), rel=1e-15)


@pytest.mark.parametrize("adversary", [Adversary.BDP, Adversary.PUFFERFISH])
@pytest.mark.parametrize(
    "moves",
    [ACTIVITY, [[0.2, 0.8], [0.7, 0.3]], [[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]]],
)
@pytest.mark.parametrize("epsilon", [1e-6, 1e-4, 1.0])
def test_small_guarantees_are_used_up_but_for_what_rounding_may_take(moves, epsilon, adversary):
    """The leakage at the loss that is found is the guarantee, less a part in ten million and 2e-12 for rounding.

    At a guarantee of 1e-6 noise is thus wider by two parts in a million. Where two states attract each other the
    leakage is known to the tolerance of the tight bound. To those who know no record a bound on the rounding of
    distributions counts as leakage as well; it grows with the length.
    """
    leakage_of = ExactLeakage(problem_of(MarkovChain(transition=moves), "count:0", ((50, 1),), epsilon, adversary))
    lower, upper = leakage_of.bracket(leakage_of.inverse(epsilon))
    assert upper <= epsilon
    by_tight = moves is ACTIVITY and adversary is Adversary.BDP
    assert lower >= epsilon * (1 - (SEARCHED if by_tight else 1.1e-7)) - 2.3e-12
