"""A class holds for every chain in it: random search, dense, never passes what the corners or the metric guarantee."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.chains.mixing import box_contraction, contraction
from pufferdp.bounds.chains.powers import ratios_of
from pufferdp.bounds.quilts.chains import worst_record
from pufferdp.bounds.quilts.search import Score
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import BinaryInterval, MarkovInterval
from pufferdp.publish.answers.mechanisms.quilt import QuiltApprox, QuiltExact
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles.leakage import leakage
from tests.strategies import SEEDS, examples

BOTH = (Adversary.PUFFERFISH, Adversary.BDP)


def sigma(model, T, epsilon, adversary, mechanism=None):
    problem = Problem(
        model=model, query=Query.parse("count:1"), lengths=((T, 1),), epsilon=epsilon, adversary=adversary
    )
    return (mechanism or QuiltExact()).calibrate(problem).sigma


def pair_influence(p0, p1, a, b, n, everyone):
    """Influence of a quilt for many two-state chains at once, from the closed form of their powers."""
    u, v = 1 - p0, 1 - p1
    lam = 1 - u - v

    def table(t):
        r = lam**t
        return np.stack([np.stack([v + u * r, u * (1 - r)]), np.stack([v * (1 - r), u + v * r])]) / (u + v)

    def ahead(t, x, y):
        P = table(t)
        return np.log(P[x] / P[y]).max(axis=0)

    def back(t, x, y):
        P = table(t)
        return np.log(P[:, x] / P[:, y]).max(axis=0)

    sides = []
    for x, y in ((0, 1), (1, 0)):
        if everyone:
            left = np.maximum(0, back(a, x, y) + back(a + 1, y, x))
            right = np.maximum(0, ahead(b, x, y) + ahead(b + 1, y, x))
        else:
            left, right = back(a, x, y) + back(n, y, x), ahead(b, x, y)
        sides.append(left + right)
    return np.maximum(*sides)


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize(("low", "high"), [(0.2, 0.8), (0.05, 0.6), (0.55, 0.97), (0.1, 0.4), (0.5, 0.9)])
def test_every_influence_is_largest_at_a_corner(low, high, everyone):
    """The theorem of docs/theory/intervals.md, on 20,000 random chains for each of many quilts."""
    generator = np.random.default_rng(7)
    p0, p1 = generator.uniform(low, high, (2, 20_000))
    for a, b, n in [(1, 1, 1), (2, 3, 5), (5, 1, 9), (4, 4, 40), (7, 6, 8), (1, 9, 2)]:
        inside = pair_influence(p0, p1, a, b, n, everyone)
        for sign, corner, decides in ((1, high, high >= 0.5), (-1, low, low <= 0.5)):
            mine = sign * (p0 + p1 - 1) >= 0
            if decides and mine.any():
                at_corner = pair_influence(np.array([corner]), np.array([corner]), a, b, n, everyone)[0]
                assert inside[mine].max() <= at_corner + 1e-12
            else:
                assert not mine.any()


@settings(max_examples=examples(25))
@given(seed=SEEDS, T=st.integers(1, 60), epsilon=st.sampled_from([0.3, 1.0, 4.0]), adversary=st.sampled_from(BOTH))
def test_random_chains_never_pass_the_corners(seed, T, epsilon, adversary):
    generator = np.random.default_rng(seed)
    low, high = np.sort(generator.uniform(0.02, 0.98, 2))
    guaranteed = sigma(BinaryInterval(low=low, high=high), T, epsilon, adversary)
    for p0, p1 in generator.uniform(low, high, (12, 2)):
        start = generator.choice(["any", "stationary"])
        chain = MarkovChain(transition=[[p0, 1 - p0], [1 - p1, p1]], start=start)
        assert worst_record(chain, T, Score(epsilon), adversary).value <= guaranteed * (1 + 1e-9)


def random_box(generator, k, zeros):
    centre = generator.dirichlet(np.full(k, 2.0), size=k)
    low = centre * generator.uniform(0.4, 1.0, (k, k))
    if zeros:
        low = np.where(generator.random((k, k)) < 0.3, 0.0, low)
    return MarkovInterval(low=low, high=np.minimum(1, centre * generator.uniform(1.0, 1.6, (k, k)) + 0.01)), centre


def random_member(generator, box):
    """A chain of the box: start from the lower bounds and hand out the rest in random order."""
    P = np.array(box.low)
    for x in range(box.size):
        for y in generator.permutation(box.size):
            room = max(0.0, min(box.high[x, y] - box.low[x, y], 1 - P[x].sum()))
            P[x, y] += room * generator.choice([1.0, 1.0, generator.random()])
        for y in generator.permutation(box.size):
            P[x, y] += max(0.0, min(box.high[x, y] - P[x, y], 1 - P[x].sum()))
    return P


@given(seed=SEEDS, k=st.integers(2, 4), zeros=st.booleans())
def test_no_chain_of_a_box_has_more_influence_than_its_contraction_allows(seed, k, zeros):
    generator = np.random.default_rng(seed)
    box, _ = random_box(generator, k, zeros)
    try:
        bound = box_contraction(box)
    except NotApplicableError:
        assert (box.low == 0).any()
        return
    everything = np.ones(k, dtype=bool)
    for _ in range(4):
        chain = MarkovChain(transition=random_member(generator, box), start="any")
        assert ((box.low - 1e-9 <= chain.transition) & (chain.transition <= box.high + 1e-9)).all()
        ratios = ratios_of(chain)
        for n in range(bound.block, bound.block + 6):
            ahead = ratios.forward(n).reshape(k, k)
            back = ratios.backward(n, everything).reshape(k, k)
            allowed = float(bound.side(np.array([n]))[0, 0]) + 1e-9
            # what is known beyond an end can at most turn a ratio round, which the metric already counts
            assert (ahead + ahead.T).max() <= allowed
            assert (back + back.T).max() <= allowed


@settings(max_examples=examples(25))
@given(seed=SEEDS, T=st.integers(1, 5), epsilon=st.sampled_from([0.5, 2.0]), adversary=st.sampled_from(BOTH))
def test_a_box_keeps_its_guarantee_by_enumeration(seed, T, epsilon, adversary):
    generator = np.random.default_rng(seed)
    box, centre = random_box(generator, 2, False)
    scale = sigma(box, T, epsilon, adversary, QuiltApprox())
    for P in (centre, random_member(generator, box)):
        for start in (*np.eye(2), generator.dirichlet([1, 1])):
            found = leakage(P, start, T, "count:1", scale, everyone=adversary is Adversary.BDP)
            assert found <= epsilon + 1e-9


def test_a_box_of_one_chain_contracts_like_the_chain():
    P = np.array([[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])
    box, chain = box_contraction(MarkovInterval(low=P, high=P)), contraction(MarkovChain(transition=P))
    assert box.diameter == pytest.approx(chain.diameter, rel=1e-9)


def test_binary_interval_and_the_same_box_agree():
    interval = BinaryInterval(low=0.3, high=0.75)
    for adversary in BOTH:
        by_interval = sigma(interval, 200, 1.0, adversary, QuiltApprox())
        assert by_interval == pytest.approx(sigma(interval.box, 200, 1.0, adversary, QuiltApprox()), rel=1e-12)
        assert sigma(interval, 200, 1.0, adversary) <= by_interval * (1 + 1e-9)


def test_quilt_exact_declines_a_box_and_names_the_way_out():
    with pytest.raises(NotApplicableError, match="quilt-approx"):
        sigma(BinaryInterval(low=0.3, high=0.75).box, 20, 1.0, Adversary.BDP)


@pytest.mark.parametrize(
    ("low", "high", "stays"), [(0.2, 0.8, {0.2, 0.8}), (0.6, 0.8, {0.8}), (0.1, 0.3, {0.1}), (0.5, 0.5, {0.5})]
)
def test_corners(low, high, stays):
    assert {c.transition[0, 0] for c in BinaryInterval(low=low, high=high).corners} == stays
