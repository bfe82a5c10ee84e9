"""A release from a part of a series: the guarantee holds for every record, and for adversaries who know those outside.

Every path of a short series is enumerated, every set of known records, every output of an answer over a part of it.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pufferdp import MarkovChain, MarkovClass, plan
from pufferdp.basics.checks import MOST_RECORDS
from pufferdp.bounds.curves import curve, curves
from pufferdp.models.chain_classes import BinaryInterval
from pufferdp.publish.answers.mechanisms import MECHANISMS
from pufferdp.publish.answers.plan import plan_problem
from pufferdp.publish.answers.problem import PART, Problem
from pufferdp.publish.answers.queries import Query
from tests.oracles import algorithms
from tests.oracles.leakage import answers, channel_leakage, likelihoods, path_distribution
from tests.strategies import SEEDS, chains, examples, random_distribution, random_transition
from tests.tolerance import TOLERANCE

ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
STICKY = MarkovChain(transition=[[0.9, 0.1], [0.1, 0.9]])
REPELLING = MarkovChain(transition=[[0.2, 0.8], [0.7, 0.3]])
W = MarkovChain(transition=[[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])
ROUNDING = 1e-9
KNOWS = st.sampled_from(["bdp", "pufferfish"])


def distributions_of(chain: MarkovChain, seed: int = 0) -> list[np.ndarray]:
    """Distributions of the first record of the whole series that the model allows: with any start, some of them."""
    if not chain.any_start:
        return [chain.stationary if chain.given_start is None else chain.given_start]
    return [*np.eye(chain.size), random_distribution(np.random.default_rng(seed), chain.size)]


def part_leakage(
    chain: MarkovChain,
    distribution: np.ndarray,
    n: int,
    first: int,
    length: int,
    query: str,
    scale: float,
    adversary: str,
) -> float:
    """What an answer over ``length`` of n records, from position ``first`` on (from 0), leaks about any of the n."""
    k = chain.size
    shown = likelihoods(answers(k, length, query), scale, balanced=query == "histogram")
    around = (1,) * first + (k,) * length + (1,) * (n - first - length) + shown.shape[-1:]
    channel = np.broadcast_to(shown.reshape(around), (k,) * n + shown.shape[-1:])
    return channel_leakage(path_distribution(chain.transition, distribution, n), channel, adversary)


def best_scale(chain: MarkovChain, query: str, epsilon: float, length: int, adversary: str, *, part: bool) -> float:
    """The least Laplace noise among all mechanisms that apply: what keeps the guarantee with it does with more."""
    planned = plan(chain, query, epsilon=epsilon, length=length, adversary=adversary, part=part)
    found = [c.calibration for c in planned.candidates if c.applies and c.calibration is not None]
    return min(calibration.scale for calibration in found)


@settings(max_examples=examples(60), deadline=None)
@example(
    chain=MarkovChain(transition=[[1.0]], start="any"),
    length=1,
    query="count:0",
    epsilon=0.1,
    adversary="pufferfish",
    seed=0,
)
@example(chain=STICKY, length=2, query="count:1", epsilon=3.0, adversary="bdp", seed=0)
@example(chain=REPELLING, length=3, query="count:1", epsilon=1.0, adversary="bdp", seed=0)
@example(chain=ACTIVITY, length=1, query="histogram", epsilon=1.0, adversary="bdp", seed=0)
@given(
    chain=chains(most_states=3),
    length=st.integers(1, 3),
    query=st.sampled_from(["histogram", "count:0"]),
    epsilon=st.sampled_from([0.1, 1.0, 4.0]),
    adversary=st.sampled_from(["bdp", "pufferfish", "dp"]),
    seed=SEEDS,
)
def test_no_part_leaks_more_than_guaranteed(chain, length, query, epsilon, adversary, seed) -> None:
    n = 6 if chain.size < 3 else 5
    scale = best_scale(chain, query, epsilon, length, adversary, part=True)
    if scale == 0:
        return
    for distribution, first in itertools.product(distributions_of(chain, seed), range(n - length + 1)):
        leaked = part_leakage(chain, distribution, n, first, length, query, scale, adversary)
        assert leaked <= epsilon * (1 + ROUNDING), (first, leaked)


@pytest.mark.parametrize(
    ("chain", "length", "query", "epsilon", "adversary"),
    [
        (STICKY, 2, "count:1", 3.0, "bdp"),
        (STICKY, 3, "count:1", 3.0, "bdp"),
        (MarkovChain(transition=[[0.5, 0.5], [0.01, 0.99]]), 2, "histogram", 1.0, "bdp"),
        # The start is for the first record of all; the part begins somewhere else.
        (MarkovChain(transition=STICKY.transition, start=[1.0, 0.0]), 2, "count:1", 1.0, "pufferfish"),
    ],
)
def test_noise_for_the_records_read_alone_is_not_enough(chain, length, query, epsilon, adversary) -> None:
    (distribution,) = distributions_of(chain)
    alone, part = (best_scale(chain, query, epsilon, length, adversary, part=part) for part in (False, True))
    assert part_leakage(chain, distribution, length, 0, length, query, alone, adversary) <= epsilon * (1 + ROUNDING)
    assert part_leakage(chain, distribution, 7, 3, length, query, alone, adversary) > epsilon * (1 + ROUNDING)
    assert part_leakage(chain, distribution, 7, 3, length, query, part, adversary) <= epsilon * (1 + ROUNDING)


@pytest.mark.slow
@settings(max_examples=examples(10), deadline=None)
@given(seed=SEEDS, k=st.integers(2, 3), epsilon=st.sampled_from([0.2, 1.0, 3.0]), start=st.booleans())
def test_no_algorithm_of_a_part_leaks_more_than_the_curves_allow(seed, k, epsilon, start) -> None:
    """By linear programmes over all algorithms that spend their loss on the part alone."""
    generator = np.random.default_rng(seed)
    P = random_transition(generator, k)
    chain = MarkovChain(transition=P, start=random_distribution(generator, k) if start else "stationary")
    (distribution,) = distributions_of(chain)
    n, first, length = (6, 2, 2) if k == 2 else (4, 1, 2)
    planned = plan(chain, "histogram", epsilon=epsilon, length=length, part=True)
    by_curve = [c for c in planned.candidates if c.applies and c.mechanism.startswith("curve-")]
    loss = max(1 / c.calibration.sigma for c in by_curve if c.calibration is not None)
    losses = [loss if first <= t < first + length else 0.0 for t in range(n)]
    leaked = max(algorithms.chain_leakage([P], distribution, losses, t, "bdp") for t in range(n))
    assert leaked <= epsilon * (1 + 1e-7)  # what the solver of the programmes stops at


@settings(max_examples=examples(40), deadline=None)
@given(
    chain=chains(most_states=3),
    loss=st.sampled_from([0.01, 0.3, 2.0]),
    adversary=st.sampled_from(["bdp", "pufferfish"]),
)
def test_no_curve_falls_as_a_series_grows(chain, loss, adversary) -> None:
    """An algorithm may ignore records: so the curve of the longest series there may be bounds all shorter ones."""
    for name, endless in curves(chain, MOST_RECORDS, adversary).items():
        if name == "independent":
            continue  # a series of one record has no correlation
        values = [q(loss) for n in range(1, 9) if (q := curve(name, chain, n, adversary)).applies]
        values += [endless(loss)] if endless.applies else []
        for shorter, longer in itertools.pairwise(values):
            assert shorter <= longer * (1 + (TOLERANCE if name == "tight" else ROUNDING)), name


@pytest.mark.parametrize("adversary", ["bdp", "pufferfish", "dp"])
def test_mechanisms_that_hold_for_the_records_read_alone_say_so(adversary: str) -> None:
    planned = plan(ACTIVITY, "count:1", epsilon=1, length=50, adversary=adversary, part=True)
    reasons = {c.mechanism: c.reason for c in planned.candidates}
    outside = {m for m, reason in reasons.items() if reason == PART}
    # For an adversary who knows no record, a part of a stationary chain is a chain like any other.
    alone = {"gk16", "wasserstein", "exact-laplace", "laplace-hidden"}
    assert outside == (set() if adversary == "pufferfish" else alone)
    given_start = MarkovChain(transition=ACTIVITY.transition, start=[1.0, 0.0])
    planned = plan(given_start, "count:1", epsilon=1, length=50, adversary=adversary, part=True)
    outside = {c.mechanism for c in planned.candidates if c.reason == PART}
    assert outside == alone


def test_a_mechanism_from_outside_does_not_apply_to_parts_unless_it_says_so() -> None:
    from pufferdp.publish.answers.problem import Calibrated, Mechanism

    class Mine(Mechanism):
        name, theorem = "mine", "none"

        def find(self, problem: Problem) -> Calibrated:
            return Calibrated(sigma=1.0)

    problem = Problem(model=W, query=Query.parse("histogram"), lengths=((9, 1),), epsilon=1, part=True)
    assert problem.endless
    assert not Mine().hides("parts", problem)
    assert sum(m.hides("parts", problem) for m in MECHANISMS) >= 15


def test_a_part_of_one_record_needs_no_more_than_dp() -> None:
    planned = plan(W, "histogram", epsilon=1, length=1, part=True)
    assert planned.best.calibration is not None
    assert planned.best.calibration.sigma == pytest.approx(1.0)


def test_records_that_repel_each_other_need_no_more_in_a_part() -> None:
    planned = plan(REPELLING, "count:1", epsilon=1, length=50, part=True)
    assert planned.best.mechanism == "exact-laplace"
    assert planned.best.calibration is not None
    assert planned.best.calibration.sigma == pytest.approx(1.0)


@pytest.mark.parametrize("model", [MarkovClass(models=(ACTIVITY, STICKY)), BinaryInterval(low=0.2, high=0.8)])
def test_classes_in_parts(model) -> None:
    planned = plan(model, "histogram", epsilon=1, length=5, part=True)
    alone = plan(model, "histogram", epsilon=1, length=5)
    long = plan(model, "histogram", epsilon=1, length=10**6)
    sigma = {kind: p.best.calibration.sigma for kind, p in (("part", planned), ("alone", alone), ("long", long))}
    assert sigma["alone"] <= sigma["part"] <= sigma["long"] * (1 + ROUNDING)


def test_the_delta_of_a_part() -> None:
    problem = Problem(model=W, query=Query.parse("histogram"), lengths=((500, 1),), epsilon=1, delta=1e-6, part=True)
    whole = Problem(model=W, query=Query.parse("histogram"), lengths=((10**9, 1),), epsilon=1, delta=1e-6)
    sigmas = [plan_problem(p, only=["gaussian-tight"]).candidates[0].calibration.sigma for p in (problem, whole)]
    assert math.isclose(*sigmas, rel_tol=1e-6)
