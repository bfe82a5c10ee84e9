"""The check values of the theory notes, to the digits given, and the papers' errata by name."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.chains.mixing import eigen_gap
from pufferdp.bounds.chains.powers import ratios_of
from pufferdp.bounds.curve_forms import Spent
from pufferdp.bounds.quilts.chains import worst_record
from pufferdp.bounds.quilts.search import Score
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import BinaryInterval
from pufferdp.models.groups import Groups
from pufferdp.models.joint import JointTable
from pufferdp.models.pedigree import Member, Pedigree
from pufferdp.publish.answers.mechanisms.exact import ExactLeakage
from pufferdp.publish.answers.mechanisms.gk16 import Gk16
from pufferdp.publish.answers.plan import plan
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles.chains import Literal, score
from tests.oracles.leakage import leakage

PUFFERFISH, BDP = Adversary.PUFFERFISH, Adversary.BDP
ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]


def test_three_records_influences_and_scores_of_the_middle_one():
    literal = Literal([[0.9, 0.1], [0.4, 0.6]], [0.8, 0.2], 3)
    quilts = [(None, None, 3), (1, None, 2), (None, 1, 2), (1, 1, 1)]
    influences = [literal.influence(2, a, b, False) for a, b, _ in quilts]
    assert influences == pytest.approx([0, math.log(6), math.log(6), math.log(36)], rel=1e-12)
    scores = [score(10)(n, e) for (_, _, n), e in zip(quilts, influences, strict=True)]
    assert scores == pytest.approx([0.3, 0.2437, 0.2437, 0.1558], abs=5e-5)
    chain = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], start=[0.8, 0.2])
    found = worst_record(chain, 3, Score(10.0), PUFFERFISH)
    assert found.value == pytest.approx(literal.worst(score(10))[0], rel=1e-9)


def test_running_example_of_the_paper_second_chain():
    chain = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]], start=[0.9, 0.1])
    found = worst_record(chain, 100, Score(1.0), PUFFERFISH)
    assert found.value == pytest.approx(10.640193, abs=5e-7)
    assert (found.node, found.left, found.right) == (6, None, 4)  # X_6 with {X_10}


def test_erratum_an_impossible_first_value_does_not_count():
    """The paper prints 13.0219 for X_8 with {X_3, X_13}: it lets the impossible value of X_1 count."""
    chain = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], start=[1.0, 0.0])
    found = worst_record(chain, 100, Score(1.0), PUFFERFISH)
    assert found.value == pytest.approx(12.9341, abs=5e-5)
    assert (found.node, found.left, found.right) == (8, 7, 5)  # X_8 with {X_1, X_13}


@pytest.mark.parametrize(
    ("query", "scale"), [("count:1", 10.640193), ("histogram", 21.280386), ("frequency", 0.21280386)]
)
def test_plan_scales_by_the_lipschitz_constant(query, scale):
    chain = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]], start=[0.9, 0.1])
    made = plan(chain, query, epsilon=1, length=100, adversary="pufferfish")
    assert made.candidate("quilt-exact").calibration.scale == pytest.approx(scale, rel=5e-8)


def test_interval_class_any_start():
    made = plan(BinaryInterval(low=0.2, high=0.8), "count:1", epsilon=1, length=100, adversary="pufferfish")
    assert made.candidate("quilt-exact").calibration.scale == pytest.approx(14.215224, abs=5e-7)


def test_gk16_check_value():
    chain = MarkovChain(transition=[[0.4, 0.6], [0.65, 0.35]])
    problem = Problem(model=chain, query=Query.parse("count:1"), lengths=((100, 1),), epsilon=1.0, adversary=PUFFERFISH)
    assert Gk16().calibrate(problem).scale == pytest.approx(6.043202, abs=5e-7)
    # γ itself, as half the log-ratio of P(x|l,r) when one neighbour changes
    P = chain.transition
    conditional = {
        (x, left, r): P[left, x] * P[x, r] / (P @ P)[left, r] for x in (0, 1) for left in (0, 1) for r in (0, 1)
    }
    gamma = max(0.5 * abs(math.log(conditional[x, 0, r] / conditional[x, 1, r])) for x in (0, 1) for r in (0, 1))
    assert gamma == pytest.approx(0.3345248, abs=5e-8)


def test_gk16_where_a_record_rules_out_values_would_guarantee_too_much():
    """Γ only sees neighbours that can occur together: copies of one record would look independent (σ = 2, ε = 1)."""
    P, start, T = np.eye(2), [0.5, 0.5], 3
    problem = Problem(
        model=MarkovChain(transition=P, start=start),
        query=Query.parse("count:0"),
        lengths=((T, 1),),
        epsilon=1.0,
        adversary=PUFFERFISH,
    )
    with pytest.raises(NotApplicableError, match="rule out"):
        Gk16().calibrate(problem)
    assert leakage(P, start, T, "count:0", 2.0, everyone=False) == pytest.approx(1.5)


def test_erratum_eigenvalue_one_twice():
    """P·P* has the eigenvalue 1 twice although the chain mixes: the paper's bound is far below the true influence."""
    chain = MarkovChain(transition=[[0, 1, 0], [0, 0, 1], [0.01, 0.99, 0]])
    assert chain.primitive
    with pytest.raises(NotApplicableError, match="eigenvalue 1 twice"):
        eigen_gap(chain)
    ratios, k = ratios_of(chain), 3
    everything = np.ones(k, dtype=bool)
    tilt = np.log(chain.stationary)[None, :] - np.log(chain.stationary)[:, None]
    total = ratios.forward(12).reshape(k, k) + ratios.backward(12, everything).reshape(k, k) + tilt
    assert total.max() == pytest.approx(5.963, abs=5e-4)
    # what the paper's rule gives: drop every eigenvalue of modulus 1
    values = np.linalg.eigvals(chain.transition @ chain.reversal)
    gap = min(1 - abs(v) for v in values if abs(abs(v) - 1) > 1e-9)
    delta = math.exp(-12 * gap / 2) / chain.stationary.min()
    assert 3 * math.log((1 + delta) / (1 - delta)) == pytest.approx(3.284, abs=5e-4)


def test_erratum_stationary_distribution_of_a_slow_chain():
    chain = MarkovChain(transition=[[0.9901, 0.0099], [0.0001, 0.9999]])
    assert chain.stationary.min() == pytest.approx(0.01, rel=1e-12)
    assert np.linalg.matrix_power(chain.transition, 100)[0].min() == pytest.approx(0.372, abs=5e-4)


@pytest.mark.parametrize(("tau", "leak"), [(0.01, 0.225783), (0.1, 1.416863), (0.5, 4.051870), (1.0, 5.598492)])
def test_the_mechanism_is_the_quilt_curve_turned_round(tau, leak):
    """Noise of scale 1/τ passes the test exactly when the curve at τ is at most ε (n=50, every adversary)."""
    chain = MarkovChain(transition=ACTIVITY)
    curve = Literal(ACTIVITY, chain.stationary, 50)

    def linear(nearby, influence):
        return nearby * tau + influence

    by_hand = max(
        min(
            linear(n, curve.influence(i, a, b, True))
            for a, b, n in curve.quilts(i)
            if n <= 30 or a is None or b is None
        )
        for i in (1, 2, 3, 5, 10, 25, 26, 40, 50)
    )
    assert by_hand == pytest.approx(leak, abs=5e-7)
    sigma = worst_record(chain, 50, Score(leak), BDP).value
    assert sigma == pytest.approx(1 / tau, rel=5e-6)  # the check value has six decimals


def test_curve_objective_on_the_same_search():
    chain = MarkovChain(transition=ACTIVITY)
    for tau, leak in [(0.01, 0.225783), (0.1, 1.416863), (0.5, 4.051870), (1.0, 5.598492)]:
        assert worst_record(chain, 50, Spent(tau), BDP).value == pytest.approx(leak, abs=5e-7)


def exact(model, tau, adversary):
    return ExactLeakage(Problem(model=model, query=Query.parse("count:1"), epsilon=1.0, adversary=adversary))(tau)


def test_bdp_guarantees_do_not_add_up():
    """Six records, mostly independent, seldom all equal. Two answers that agree are one answer with half the noise."""
    ones = [math.comb(6, j) * 0.3**j * 0.7 ** (6 - j) for j in range(7)]
    distribution = [0.998 * p + 0.002 * {0: 0.7, 6: 0.3}.get(j, 0.0) for j, p in enumerate(ones)]
    model = Groups(sizes=[6], positives=[distribution])
    once, twice = (exact(model, tau, BDP) for tau in (1.0, 2.0))
    assert once == pytest.approx(1.1462, abs=5e-5)
    assert twice == pytest.approx(2.3180, abs=5e-5)
    assert twice > 2 * once == pytest.approx(2.2924, abs=1e-4)


def test_pufferfish_guarantees_add_up_even_less():
    model = Groups(sizes=[5], positives=[[0.3, 0.698, 0.0, 0.0, 0.0, 0.002]])
    once, twice = (exact(model, tau, PUFFERFISH) for tau in (1.0, 2.0))
    assert once == pytest.approx(0.8133, abs=5e-5)
    assert twice == pytest.approx(4.1231, abs=5e-5)


def test_erratum_the_general_bound_is_tight_however_small_the_correlation():
    """Lange 2024, Theorem 4.3. Equation 48 prints P(X2=0 | X1=0) as beta/(1-beta); it is 1, and the end is right."""
    tau = 1.3
    for r in (10, 1000, 100_000):
        alpha, beta = (r - 1) / r, 1 / r**2
        cells = {(0, 0): beta, (1, 0): 1 - alpha - beta, (1, 1): alpha}
        model = JointTable(values=[0, 1], outcomes=list(cells), probabilities=list(cells.values()))
        assert model.distribution("2", given={"1": "0"})[0] == 1.0
        found = exact(model, tau, BDP)
        assert found >= 2 * tau + math.log((r**2 - 1) / (math.exp(tau) * (r - 1) + r**2 - r)) - 1e-9
        assert found <= 2 * tau + 1e-9
        pearson = alpha * beta / math.sqrt(beta * (1 - beta) * alpha * (1 - alpha))
        assert pearson == pytest.approx(math.sqrt((r - 1) / (r**2 - 1)))
    assert pearson < 0.004
    assert found > 2 * tau - 1e-4


def test_a_family_of_two_parents_and_their_children_reaches_all_but_one():
    """And three of them, who are a trio, more than that: whoever wants the child learns from both parents."""
    parents = (Member("father"), Member("mother"))
    for m in (4, 5, 6):
        children = tuple(Member(str(n), "father", "mother") for n in range(m - 2))
        family = Pedigree(members=(*parents, *children), major_allele_frequency=0.7)
        problem = Problem(model=family, query=Query.parse("count:BB"), epsilon=1.0)
        assert (m - 1) * 0.5 - 1e-9 <= ExactLeakage(problem)(0.5) <= m * 0.5 + 1e-9
