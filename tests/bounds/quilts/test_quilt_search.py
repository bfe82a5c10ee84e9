"""The fast search against the literal loop on longer chains, and at the edges of what doubles can hold."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.chains import powers as powers_module
from pufferdp.bounds.chains.powers import Powers, ratios_of
from pufferdp.bounds.chains.starts import NodeRange, Start
from pufferdp.bounds.quilts.chains import worst_record
from pufferdp.bounds.quilts.search import TOLERANCE, Score
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.answers.mechanisms.quilt import QuiltApprox
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles.chains import Literal, quilt_sigma, score
from tests.publish.answers.mechanisms.suite import literal_start
from tests.strategies import SEEDS, chains, epsilons, examples

BOTH = (Adversary.PUFFERFISH, Adversary.BDP)
CLOSE = 3 * TOLERANCE
"""Quilts and records are searched up to the tolerance each."""


@settings(max_examples=examples(25))
@given(chain=chains(most_states=3), T=st.integers(12, 22), epsilon=epsilons, adversary=st.sampled_from(BOTH))
def test_longer_chains_equal_the_literal_loop(chain, T, epsilon, adversary):
    found = worst_record(chain, T, Score(epsilon), adversary)
    everyone = adversary is Adversary.BDP
    literal = Literal(chain.transition, literal_start(chain), T).worst(score(epsilon), everyone)
    assert literal[0] * (1 - 1e-12) <= found.value <= literal[0] * (1 + CLOSE)


@pytest.mark.parametrize("adversary", BOTH)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
def test_alternating_chains_equal_the_literal_loop(epsilon, adversary):
    """Where two pairs of values decide in turn and the ends of the best quilt are not equally far."""
    generator = np.random.default_rng(7)
    for a, b in 1 - 0.5 * generator.random((examples(4), 2)):
        chain = MarkovChain(transition=[[1 - a, a], [b, 1 - b]])
        found = worst_record(chain, 24, Score(epsilon), adversary).value
        literal = quilt_sigma(chain.transition, [b / (a + b), a / (a + b)], 24, epsilon, adversary is Adversary.BDP)
        assert literal * (1 - 1e-12) <= found <= literal * (1 + CLOSE)


@given(chain=chains(), epsilon=epsilons, adversary=st.sampled_from(BOTH), T=st.integers(1, 40), more=st.integers(1, 40))
def test_noise_never_falls_as_the_chain_grows(chain, epsilon, adversary, T, more):
    short = worst_record(chain, T, Score(epsilon), adversary).value
    long = worst_record(chain, T + more, Score(epsilon), adversary).value
    assert short <= long * (1 + CLOSE)


@pytest.mark.slow
@given(seed=SEEDS, epsilon=epsilons, adversary=st.sampled_from(BOTH))
def test_long_chains_settle(seed, epsilon, adversary):
    """Beyond the longest useful quilt the length no longer matters, whatever the start."""
    generator = np.random.default_rng(seed)
    P = 0.7 * generator.dirichlet(np.ones(3), size=3) + 0.1
    for start in ("stationary", "any", generator.dirichlet(np.ones(3))):
        chain = MarkovChain(transition=P / P.sum(axis=1, keepdims=True), start=start)
        values = [worst_record(chain, T, Score(epsilon), adversary).value for T in (3000, 10**6, 10**9)]
        assert values == pytest.approx([values[0]] * 3, rel=CLOSE)


@pytest.mark.parametrize("adversary", BOTH)
def test_a_periodic_chain_with_a_start_that_tells_the_phase(adversary):
    """Two pairs of states alternate. Given the phase, quilts are finite and long chains settle on the literal value."""
    P = np.zeros((4, 4))
    P[:2, 2:], P[2:, :2] = [[0.3, 0.7], [0.6, 0.4]], [[0.5, 0.5], [0.2, 0.8]]
    chain = MarkovChain(transition=P, start=[0.9, 0.1, 0, 0])
    literal = Literal(P, [0.9, 0.1, 0, 0], 26).worst(score(1.0), adversary is Adversary.BDP)[0]
    assert literal < 26
    for T in (26, 5000, 5001, 10**6):
        assert worst_record(chain, T, Score(1.0), adversary).value == pytest.approx(literal, rel=CLOSE)


@pytest.mark.parametrize("stay", [0.3, 0.999])
def test_late_marginals_are_bounded_by_their_limit(stay):
    """The bound for a range beyond the table is above that of each record in it, and near where the chain mixes."""
    P = stay * np.eye(3) + (1 - stay) * np.array([[0.1, 0.6, 0.3], [0.05, 0.9, 0.05], [0.3, 0.5, 0.2]])
    chain = MarkovChain(transition=P, start=[0.9, 0.05, 0.05])
    start = Start(chain, ratios_of(chain), 10**6)
    bound = start.tilt(NodeRange(3000, 10**6, 1))
    each = [start.tilt(NodeRange(n, n, 1)) for n in (3000, 3001, 10_000, 10**6)]
    assert (bound >= np.max(each, axis=0) - 1e-6).all()
    assert stay > 0.9 or np.allclose(bound, each[-1], atol=1e-6)


def test_powers_do_not_lose_what_a_double_cannot_hold():
    """A chain whose entries underflow when multiplied: reachable states stay reachable, in logarithms."""
    tiny = 1e-200
    P = np.array([[1 - tiny, tiny, 0], [0, 1 - tiny, tiny], [0.5, 0, 0.5]])
    powers = Powers(P)
    assert np.isfinite(powers.log(2)).all()
    assert powers.log(2)[0, 2] == pytest.approx(2 * np.log(tiny), rel=1e-12)
    exact = [[Fraction(float(p)) for p in row] for row in P]
    power = exact
    for _ in range(7):
        power = [[sum(power[x][w] * exact[w][y] for w in range(3)) for y in range(3)] for x in range(3)]
    for x in range(3):
        for y in range(3):
            log = math.log(power[x][y].numerator) - math.log(power[x][y].denominator)
            assert abs(powers.log(8)[x, y] - log) <= powers.slack(8)


def test_powers_by_any_route_agree():
    generator = np.random.default_rng(1)
    P = generator.dirichlet(np.ones(4), size=4)
    powers = Powers(P)
    for n in (7, 1, 64, 63, 5, 100, 99, 12):
        expected = np.log(np.linalg.matrix_power(P, n))
        assert np.abs(powers.log(n) - expected).max() <= powers.slack(n) + 1e-14 * n


@pytest.mark.parametrize("tiny", [0.1, 1e-200], ids=["plain", "in logarithms"])
def test_powers_make_room_without_losing_what_they_need(tiny, monkeypatch):
    P = np.array([[1 - tiny, tiny, 0], [0, 1 - tiny, tiny], [0.5, 0, 0.5]])
    roomy = Powers(P)
    for keep in range(3, 60, 4):  # so that room runs out at every stage of making a power
        tight = Powers(P)
        monkeypatch.setattr(powers_module, "_MEMORY", keep * 72)
        # 1027 = 3 + 1024: making 1024 takes room, and 3 must still be there afterwards
        for n in [3, 1027, *np.random.default_rng(keep).integers(1, 5000, size=40).tolist()]:
            with np.errstate(invalid="ignore"):
                assert np.abs(np.nan_to_num(tight.log(n) - roomy.log(n))).max() <= 2 * roomy.slack(n)
            assert (np.isfinite(tight.log(n)) == np.isfinite(roomy.log(n))).all()


def test_sticky_chain_with_tiny_probabilities_is_answered():
    for leave in (1e-9, 1e-200):
        chain = MarkovChain(transition=[[1 - leave, leave], [leave, 1 - leave]])
        for adversary in BOTH:
            assert worst_record(chain, 1000, Score(1.0), adversary).value == pytest.approx(1000.0)


@pytest.mark.parametrize("T", [1000, 10**5, 10**9])
@pytest.mark.parametrize("adversary", BOTH)
@pytest.mark.parametrize(
    "transition",
    [
        np.eye(2),
        [[0, 1], [1, 0]],
        [[0.9, 0.1, 0], [0, 0.5, 0.5], [0, 0, 1]],
        [[0.2, 0.4, 0.4], [0, 0.5, 0.5], [0, 0.3, 0.7]],
    ],
    ids=["identity", "cycle", "absorbing", "transient"],
)
def test_chains_that_never_mix_are_answered_at_any_length(transition, adversary, T):
    """Some record tells all others of its kind, so only the trivial quilt is left when every start is allowed."""
    chain = MarkovChain(transition=transition, start="any")
    assert worst_record(chain, T, Score(1.0), adversary).value == T
    assert worst_record(MarkovChain(transition=transition), T, Score(1.0), adversary).value <= T


def test_ends_billions_of_records_away_take_no_more_memory():
    """A move of probability 10^-18 is all but impossible: the bound of quilt-approx falls below 1 only far away."""
    transition = [[0.0003, 0.6687, 0.331], [0.0095, 0.9876, 0.0029], [0.01, 0.99 - 8e-19, 8e-19]]
    problem = Problem(
        model=MarkovChain(transition=transition), query=Query.parse("histogram"), lengths=((2**53, 1),), epsilon=4.0
    )
    found = QuiltApprox().calibrate(problem)
    assert found.quilt is not None
    assert 10**9 < found.quilt.nearby < 2**52
    assert found.sigma < 2**50
