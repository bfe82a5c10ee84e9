"""Outputs beyond all sums, which mostly tell most: single sides, and who knows no record."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pufferdp import MarkovChain, plan
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.additive.sides import one_side
from pufferdp.bounds.additive.uninformed import SeriesLeakage, UninformedLeakage
from pufferdp.bounds.additive.windows import WindowLeakage
from pufferdp.bounds.chains.sums import ChainSums
from pufferdp.publish.answers.mechanisms.exact import ExactLaplace, ExactLeakage
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles.leakage import channel_leakage, laplace_channel, path_distribution
from tests.publish.answers.mechanisms.suite import literal_start
from tests.strategies import chains

DEFINITE = ("stationary", "given")
TAUS = st.sampled_from([0.1, 0.7, 2.0])


def sticky(stay: float) -> MarkovChain:
    """Three states that are kept with one probability, and left unevenly."""
    shares = np.array([[0.0, 0.5, 0.5], [0.75, 0.0, 0.25], [0.1, 0.9, 0.0]])
    return MarkovChain(transition=stay * np.eye(3) + (1 - stay) * shares)


def log_ratio_by_enumeration(moves, end, steps, tau, unknown, x, y) -> float:
    """Over every path away from the target and every output: what the sum over one side says for x against y."""
    outputs = range(unknown * max(steps) + 1)
    density = np.zeros((2, len(outputs)))
    for row, first in enumerate((x, y)):
        mass = 0.0
        for path in itertools.product(range(len(moves)), repeat=unknown):
            chance = np.prod([moves[a][b] for a, b in itertools.pairwise((first, *path))]) * end[(first, *path)[-1]]
            total = sum(steps[a] for a in path)
            density[row] += [chance * np.exp(-tau * abs(s - total)) for s in outputs]
            mass += chance
        if mass == 0:
            return -np.inf
        density[row] /= mass
    return float(np.log(density[0] / density[1]).max())


@given(chain=chains(3, DEFINITE), tau=TAUS, unknown=st.integers(0, 3), data=st.data())
def test_a_side_leaks_what_enumeration_says(chain, tau, unknown, data):
    k = chain.size
    steps = np.array(data.draw(st.lists(st.integers(0, 2), min_size=k, max_size=k)))
    end = data.draw(st.integers(0, k - 1))
    moves = np.asarray(chain.transition)
    side = one_side(moves, moves[:, [end]], steps, tau, unknown)
    for x, y in itertools.permutations(range(k), 2):
        truth = log_ratio_by_enumeration(moves, moves[:, end], steps, tau, unknown, x, y)
        assert side.largest[x, y, unknown, 0] == pytest.approx(truth, abs=1e-9)


@given(chain=chains(3, DEFINITE), n=st.integers(1, 6), tau=TAUS, data=st.data())
def test_who_knows_no_record(chain, n, tau, data):
    k = chain.size
    steps = data.draw(st.lists(st.integers(0, 2), min_size=k, max_size=k).map(lambda found: [0, *found[1:]]))
    series = SeriesLeakage(ChainSums(chain, n, steps))
    distribution = path_distribution(chain.transition, literal_start(chain), n)
    sums = np.array(steps)[np.indices((k,) * n)].sum(axis=0)
    truth = channel_leakage(distribution, laplace_channel(sums, tau), "pufferfish")
    assert series.worst(tau)[0] == pytest.approx(truth, abs=1e-9)


def test_an_output_among_the_sums_can_tell_more():
    """Both ends do not meet then, and the distributions decide: sides alone would say 5.66."""
    chain = MarkovChain(transition=[[0.01, 0.98, 0.01], [0.83, 0.04, 0.13], [0.01, 0.28, 0.71]])
    distribution = path_distribution(chain.transition, chain.stationary, 2)
    sums = np.array([0, 3, 1])[np.indices((3, 3))].sum(axis=0)
    truth = channel_leakage(distribution, laplace_channel(sums, 1.0), "pufferfish")
    series = SeriesLeakage(ChainSums(chain, 2, [0, 3, 1]))
    assert series.worst(1.0)[0] == pytest.approx(truth, abs=1e-12)


def test_the_bound_of_both_sides_is_that_of_the_side_and_the_target():
    """Of two records the first has nothing to its left: the bound is what its right side and it itself say at most."""
    moves, steps = [[0.01, 0.98, 0.01], [0.83, 0.04, 0.13], [0.01, 0.28, 0.71]], [0, 3, 1]
    bracket = WindowLeakage(MarkovChain(transition=moves), 2, steps).by_sides(1.0, 1)
    both = [
        log_ratio_by_enumeration(moves, np.ones(3), steps, 1.0, 1, x, y) + abs(steps[x] - steps[y])
        for x, y in itertools.permutations(range(3), 2)
    ]
    assert bracket.upper >= max(both) - 1e-12 > 1.12 * bracket.lower


@pytest.mark.parametrize("stay", [0.9, 0.99, 0.99999])
@pytest.mark.parametrize("alone", [True, False])
def test_long_series_leak_what_the_distributions_say(stay, alone):
    """Another chain changes nothing beyond all sums."""
    chain = sticky(stay)
    rest = None if alone else ChainSums(chain, 30, [1, 0, 0]).total()
    distributions = ChainSums(chain, 60, [1, 0, 0], rest)
    series, by_distributions = SeriesLeakage(distributions), UninformedLeakage(distributions)
    for tau in (0.01, 0.2, 3.0):
        assert series.worst(tau)[0] == pytest.approx(by_distributions.worst(tau)[0], rel=1e-9)
    assert "_by_distribution" not in vars(series)  # both ends met, and no distribution was needed


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
def test_the_noise_of_a_long_series_is_the_least(adversary):
    """It keeps the guarantee, and noise that is narrower by 2e-7 does not."""
    problem = Problem(
        model=sticky(0.99), query=Query.parse("count:0"), lengths=((300, 1),), epsilon=1.0, adversary=adversary
    )
    loss = 1 / ExactLaplace().calibrate(problem).sigma
    leak = ExactLeakage(problem)
    assert leak(loss) <= 1.0 < leak(loss * (1 + 2e-7))


@pytest.mark.slow
@pytest.mark.parametrize("stay", [0.999, 0.99999])
def test_a_chain_that_hardly_moves_is_rejected(stay):
    problem = Problem(model=sticky(stay), query=Query.parse("count:0"), lengths=((10**6, 1),), epsilon=1.0)
    with pytest.raises(NotApplicableError, match="farther away than any window"):
        ExactLaplace().calibrate(problem)


def test_a_plan_leaves_out_what_takes_seconds_and_gains_nothing():
    """Of long series a plan does without the Wasserstein mechanism; of short ones exact-laplace is no wider."""
    short, long = (plan(sticky(0.9), "count:0", epsilon=1.0, length=n, adversary="pufferfish") for n in (20, 600))
    names = [{candidate.mechanism for candidate in found.candidates} for found in (short, long)]
    assert names[0] - names[1] == {"wasserstein"}
    scales = [short.candidate(name).calibration.scale for name in ("exact-laplace", "wasserstein")]
    assert scales[0] <= scales[1]
    assert long.best.mechanism == "exact-laplace"
