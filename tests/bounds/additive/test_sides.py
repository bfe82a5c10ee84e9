"""Exact or a bracket: joined sides, chains that hold on to a state, and any distribution of the first record."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp import MarkovChain, leakage_of, plan
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.additive import windows
from pufferdp.bounds.additive.windows import WindowLeakage
from pufferdp.bounds.tight.series import TOLERANCE
from pufferdp.publish.answers.mechanisms.exact import ExactLaplace
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles.leakage import channel_leakage, laplace_channel, path_distribution
from tests.publish.answers.mechanisms.suite import literal_start
from tests.strategies import chains

SCHOOL = np.array(
    [
        [0.986, 0.002, 0.003, 0.006, 0.0005, 0.0025],
        [0.027, 0.951, 0.009, 0.008, 0.001, 0.004],
        [0.010, 0.0005, 0.988, 0.001, 0.0003, 0.0002],
        [0.045, 0.013, 0.002, 0.918, 0.002, 0.020],
        [0.016, 0.014, 0.016, 0.007, 0.945, 0.002],
        [0.037, 0.004, 0.0005, 0.016, 0.0005, 0.942],
    ]
)
SCHOOL = MarkovChain(transition=SCHOOL / SCHOOL.sum(axis=1, keepdims=True))
"""Six states that are kept for months, as in the transition from school to work."""


@given(
    chain=chains(3, ("stationary", "given")), n=st.integers(1, 5), tau=st.sampled_from([0.1, 0.7, 2.0]), data=st.data()
)
def test_sides_hold_the_truth_between_them(chain, n, tau, data):
    steps = data.draw(st.lists(st.integers(-1, 2), min_size=chain.size, max_size=chain.size))
    distribution = path_distribution(chain.transition, literal_start(chain), n)
    sums = np.array(steps)[np.indices((chain.size,) * n)].sum(axis=0)
    truth = channel_leakage(distribution, laplace_channel(sums, tau), "bdp")
    window = WindowLeakage(chain, n, steps)
    for wide in range(n):
        bracket = window.by_sides(tau, wide)
        assert bracket.lower <= truth + 1e-9
        assert bracket.upper >= truth - 1e-9
    exact = window.at(tau)
    assert exact.lower == pytest.approx(truth, abs=1e-9)
    assert exact.upper == pytest.approx(truth, abs=1e-9)


@pytest.mark.parametrize("state", [0, 1, 5])
def test_six_sticky_states_leak_no_more_from_one_length_to_the_next(state):
    """The leakage of 72 records once jumped to that of all records together, and the noise with it."""
    steps = [int(j == state) for j in range(6)]
    values = [WindowLeakage(SCHOOL, n, steps).at(1 / 30) for n in (66, 70, 72, 80)]
    for leakage in values:
        assert leakage.closed
    lowers = [leakage.lower for leakage in values]
    for (short, a), (long, b) in itertools.pairwise(zip((66, 70, 72, 80), lowers, strict=True)):
        assert a <= b <= a * long / short


@pytest.mark.slow
@pytest.mark.parametrize("stay", [0.99, 0.99999])
def test_two_states_that_hardly_ever_change(stay):
    """A count leaks as much as any algorithm there, at every length: its noise is that of the tight curve."""
    chain = MarkovChain(transition=[[stay, 1 - stay], [1 - stay, stay]])
    found = plan(chain, "count:1", epsilon=1.0, length=10_000)
    exact, tight = (found.candidate(name).calibration.scale for name in ("exact-laplace", "curve-tight"))
    assert tight / (1 + 3 * TOLERANCE) <= exact <= tight * (1 + 2 * TOLERANCE)


def test_what_is_not_exact_says_between_what_it_lies(monkeypatch):
    """Where fewer windows may be looked at than it takes, exact-laplace says so at once."""
    monkeypatch.setattr(windows, "_MOST_NUMBERS", 240)
    chain = MarkovChain(transition=[[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]])
    report = leakage_of(chain, dp_epsilon=0.1, length=30, query="count:1")
    lower, upper = report.between
    assert report.exact is None
    assert 0.1 <= lower < upper <= report.curves[report.best] * (1 + 1e-9)
    assert report.to_dict()["between"] == [lower, upper]
    assert "leaks between" in str(report)
    problem = Problem(model=chain, query=Query.parse("count:1"), lengths=((30, 1),), epsilon=0.4)
    with pytest.raises(NotApplicableError, match="it lies between"):
        ExactLaplace().calibrate(problem)


def test_small_epsilons_have_no_spare_noise():
    """A part in ten thousand was lost at 1e-6."""
    chain = MarkovChain(transition=[[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])
    scales = [
        ExactLaplace()
        .calibrate(
            Problem(model=chain, query=Query.parse("count:0"), lengths=((40, 1),), epsilon=e, adversary=Adversary.BDP)
        )
        .scale
        * e
        for e in (1e-4, 1e-6)
    ]
    assert scales[1] == pytest.approx(scales[0], rel=2e-5)
