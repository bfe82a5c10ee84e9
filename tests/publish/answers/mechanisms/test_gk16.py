"""GK16 for classes given by bounds: no chain of the class has a larger influence matrix, and no other noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.models.chain import MarkovChain, SeriesModel
from pufferdp.models.chain_classes import BinaryInterval, MarkovInterval
from pufferdp.publish.answers.mechanisms.gk16 import Gk16
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles.leakage import gk16_sigma
from tests.strategies import examples


def sigma(model: SeriesModel, length: int, epsilon: float = 1.0, adversary: Adversary = Adversary.PUFFERFISH) -> float:
    """The noise multiplier; infinite where the mechanism does not apply."""
    problem = Problem(
        model=model, query=Query.parse("count:0"), lengths=((length, 1),), epsilon=epsilon, adversary=adversary
    )
    try:
        return Gk16().calibrate(problem).sigma
    except NotApplicableError:
        return math.inf


def random_box(generator: np.random.Generator, k: int, width: float) -> MarkovInterval:
    """Bounds around a chain that mixes fast, so that the mechanism often applies."""
    centre = generator.dirichlet(np.full(k, 20.0), size=k)
    room = generator.uniform(0, width, size=(k, k))
    return MarkovInterval(low=np.clip(centre - room, 1e-3, 1), high=np.clip(centre + room, 0, 1))


def chain_of_box(generator: np.random.Generator, box: MarkovInterval) -> np.ndarray:
    """A kernel of the box: entries between the bounds, or at them as often as rows allow."""
    corner = generator.random() < 0.7
    ends = np.where(generator.random(box.low.shape) < 0.5, box.low, box.high)
    wanted = ends if corner else generator.uniform(box.low, box.high)
    rows = box.nearest(MarkovChain(transition=wanted / wanted.sum(axis=1, keepdims=True))).transition
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("alpha", [0.3, 0.4, 0.45])
def test_two_states_that_stay_between_alpha_and_one_minus_alpha(alpha):
    # Song et al. 2017, Section 5: the class of the synthetic figure. Closed form: a record in the middle of four equal
    # neighbours moves by g = log (1/2)/(α²/(α²+(1−α)²)) for both neighbours together.
    away = 1 - alpha
    g = math.log(0.5 * (alpha**2 + away**2) / alpha**2)
    found = sigma(BinaryInterval(low=alpha, high=away), 100, epsilon=0.2)
    if g >= 1:
        assert found == math.inf
    else:
        assert found == pytest.approx(2 / (1 - g) / 0.2, rel=1e-6)


@given(seed=st.integers(0, 10**6), length=st.integers(1, 4))
@settings(max_examples=examples(60))
def test_no_chain_of_a_box_needs_more_noise(seed, length):
    generator = np.random.default_rng(seed)
    box = random_box(generator, 2, 0.1)
    bound = sigma(box, length)
    for _ in range(10):
        start = generator.dirichlet(np.full(2, 0.3))
        assert gk16_sigma(chain_of_box(generator, box), np.maximum(start, 1e-12), length, 1.0) <= bound * (1 + 1e-9)


@given(
    ends=st.tuples(*[st.floats(0.2, 0.8)] * 4),
    length=st.integers(2, 30),
    share=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
@settings(max_examples=examples(100))
def test_two_states_are_decided_by_two_chains_of_the_class(ends, length, share):
    a, b, c, d = ends
    low, high = np.array([min(a, b), min(c, d)]), np.array([max(a, b), max(c, d)])
    box = MarkovInterval(
        low=[[low[0], 1 - high[0]], [1 - high[1], low[1]]], high=[[high[0], 1 - low[0]], [1 - low[1], high[1]]]
    )

    def of_stays(p: float, q: float) -> float:
        return sigma(MarkovChain(transition=[[p, 1 - p], [1 - q, q]], start="any"), length)

    bound = sigma(box, length)
    inside = low + np.array(share) * (high - low)
    assert of_stays(*inside) <= bound * (1 + 1e-9)
    # Nothing is given away: the bound is the noise of a chain of the class. 1e-9 is for bounds rounded outwards.
    assert bound == pytest.approx(max(of_stays(*low), of_stays(*high)), rel=1e-9)


def test_a_box_without_width_is_its_chain():
    centre = np.random.default_rng(3).dirichlet(np.full(2, 40.0), size=2)
    chain = MarkovChain(transition=centre, start="any")
    assert sigma(MarkovInterval(low=centre, high=centre), 50) == pytest.approx(sigma(chain, 50), rel=1e-9)


def test_a_box_is_refused_where_the_theorem_has_nothing_to_say():
    def reason(model: SeriesModel, adversary: Adversary = Adversary.PUFFERFISH) -> str:
        query = Query.parse("count:0")
        problem = Problem(model=model, query=query, lengths=((50, 1),), epsilon=1.0, adversary=adversary)
        with pytest.raises(NotApplicableError) as refusal:
            Gk16().calibrate(problem)
        return str(refusal.value)

    assert "rule out" in reason(BinaryInterval(low=0.0, high=0.6))
    assert "rule out" in reason(BinaryInterval(low=0.4, high=1.0))
    assert "spectral norm" in reason(BinaryInterval(low=0.1, high=0.9))
    assert "knows no record" in reason(BinaryInterval(low=0.4, high=0.6), Adversary.BDP)
    many = np.full((3, 3), 1 / 3)
    assert "3 states" in reason(MarkovInterval(low=many * 0.99, high=many * 1.01))
