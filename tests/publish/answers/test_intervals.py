"""Ranges from the noise alone: coverage by the distribution, on draws, and on real data the model was not fitted on."""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp import MarkovChain, fit, release, verify
from pufferdp.basics.adversary import Adversary
from pufferdp.publish.answers.estimate import MISFIT, intervals, noise_of
from pufferdp.publish.answers.publication import AnswerPublication
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.noise import NoiseDistribution, NoiseKind, SeededSampler
from pufferdp.publish.pipeline import Account, Charged
from pufferdp.publish.reading import Reading
from tests.strategies import examples

WALK = MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]], states=["rest", "active"])
LAZY = MarkovChain(transition=[[0.99, 0.01], [0.5, 0.5]], states=["rest", "active"])
STATES = ["active", "active", "rest"] * 100


def frame(states=STATES) -> pd.DataFrame:
    return pd.DataFrame({"t": range(len(states)), "state": states})


DISTRIBUTIONS = [
    NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=3.3, coordinates=1),
    NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=0.01, coordinates=4),
    NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=0.03, coordinates=3, unit=0.01),
    NoiseDistribution(kind=NoiseKind.LAPLACE, scale=2.0, coordinates=2),
    NoiseDistribution(kind=NoiseKind.GAUSSIAN, scale=2.0, coordinates=2),
    NoiseDistribution(kind=NoiseKind.DISCRETE_GAUSSIAN, scale=1.7, coordinates=5),
    NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=2.5, coordinates=2, balanced=True),
    NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=2.5, coordinates=5, balanced=True),
]


@pytest.mark.parametrize(
    "distribution",
    DISTRIBUTIONS,
    ids=lambda distribution: f"{distribution.kind}-{distribution.coordinates}{'-balanced' * distribution.balanced}",
)
@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-3])
def test_the_range_of_each_number_is_the_smallest_that_holds(distribution, beta):
    alpha = distribution.accuracy_of_each(beta).alpha
    assert 2 * distribution.at_least(np.array([alpha]))[0] <= beta * (1 + 1e-9)
    whole = distribution.kind in (NoiseKind.DISCRETE_LAPLACE, NoiseKind.DISCRETE_GAUSSIAN)
    less = alpha - distribution.unit if whole else alpha * 0.999
    if not whole or less > distribution.unit / 2:
        assert 2 * distribution.at_least(np.array([less]))[0] > beta
    assert alpha <= distribution.accuracy(beta).alpha * (1 + 1e-12)


def test_of_balanced_noise_it_is_that_of_the_distribution_by_enumeration():
    far = 12
    three = NoiseDistribution(kind=NoiseKind.DISCRETE_LAPLACE, scale=0.9, coordinates=3, balanced=True)
    weights = {}
    for a, b in itertools.product(range(-far, far + 1), repeat=2):
        weights[a, b] = math.exp(-(abs(a) + abs(b) + abs(a + b)) / 0.9)
    total = sum(weights.values())
    alpha = round(three.accuracy_of_each(0.05).alpha)
    outside = [sum(w for (a, _), w in weights.items() if abs(a) >= m) / total for m in (alpha - 1, alpha)]
    assert outside[0] > 0.05 >= outside[1]


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.05, 0.2]))
@settings(max_examples=examples(30))
def test_shares_and_counts_that_lie_inside_are_the_same_doubles(seed, beta):
    """The ends are counts over the number of records, as true shares are: no share is lost to rounding."""
    done = release(
        frame(), model=WALK, column="state", query="frequency", epsilon=0.5, beta=beta, sampler=SeededSampler(seed)
    )
    low, high = np.array(done.intervals.each.low) * 300, np.array(done.intervals.each.high) * 300
    assert np.allclose(low, np.rint(low), atol=1e-9)
    assert [float(n) for n in np.rint(low) / 300] == done.intervals.each.low
    assert [float(n) for n in np.rint(high) / 300] == done.intervals.each.high


DRAWS = 200


@pytest.mark.parametrize("query", ["count:active", "histogram", "frequency"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_they_hold_the_truth_as_often_as_they_say(query, delta):
    """At least 91 % of 200 draws; a true 95 % would fail with probability 1.4 %, if the seeds were not fixed."""
    check = _coverage(frame(), WALK, query, delta=delta)
    assert min(check.values()) >= 0.91


def test_they_do_not_look_at_the_model():
    """The same released number and noise, two models: the same ranges."""
    calm = frame(["rest"] * 300)
    made = [
        release(calm, model=model, column="state", query="count:active", epsilon=2.0, adversary="dp", sampler=s)
        for model, s in ((WALK, SeededSampler(1)), (LAZY, SeededSampler(1)))
    ]
    assert made[0].answer == made[1].answer
    assert made[0].intervals == made[1].intervals
    assert made[0].model_estimate != made[1].model_estimate


def test_an_exact_answer_has_a_range_of_one_number():
    certificate = release(frame(), model=WALK, column="state", query="histogram", epsilon=1.0).certificate.to_dict()
    certificate["noise"]["scale"] = 0.0
    certificate["accuracy"]["alpha"] = noise_of(certificate).accuracy(0.05).alpha
    ranges = intervals(certificate)
    assert ranges.each.low == ranges.each.high == ranges.all.low == ranges.all.high


def test_ranges_end_at_what_is_possible():
    certificate = release(frame(), model=WALK, column="state", query="histogram", epsilon=1.0).certificate.to_dict()
    certificate["answer"] = [-500, 800]
    ranges = intervals(certificate)
    assert (ranges.all.low, ranges.all.high) == ([0.0, 300.0], [0.0, 300.0])
    query = {**certificate["query"], "name": "sum", "clip": [1.0, 2.0]}
    certificate |= {"query": query, "answer": 450.0, "labels": ["sum"], "noise": {"kind": "laplace", "scale": 100.0}}
    certificate["accuracy"]["alpha"] = noise_of(certificate).accuracy(0.05).alpha
    assert (intervals(certificate).each.low, intervals(certificate).each.high) == (300.0, 600.0)


def test_both_tables_are_shown_the_model_last():
    checked = replace(WALK, checks={"effective_leakage": {"coverage": 0.95}})
    words = str(
        release(
            frame(["active", "rest", "rest", "rest"] * 75),
            model=checked,
            column="state",
            query="histogram",
            epsilon=1.0,
        )
    )
    heads = ["95 % interval", "95 % simultaneous interval", "95 % credible interval"]
    assert sorted(heads, key=words.index) == heads
    assert max(map(len, words.splitlines())) <= 96


@pytest.fixture(scope="module")
def misfit():
    return release(
        frame(), model=LAZY, column="state", query="count:active", epsilon=5.0, order="t", sampler=SeededSampler(1)
    )


def test_a_model_that_fails_its_test_leaves_its_posterior_out(misfit):
    assert misfit.model_estimate.mean is misfit.model_estimate.low is misfit.model_estimate.high is None
    assert misfit.model_estimate.surprise < 1e-3
    assert MISFIT in misfit.certificate.warnings
    assert "credible interval" not in str(misfit)
    checked = verify(misfit.certificate)
    assert checked.valid
    assert MISFIT in checked.warnings


def forged(certificate, **change):
    content = copy.deepcopy(certificate.to_dict())
    content |= change
    content["sha256"] = content_hash(content)
    return content


def test_its_warning_cannot_be_taken_away_or_made_up(misfit):
    without = [w for w in misfit.certificate.warnings if w != MISFIT]
    # Here not even the posterior could be had; one that could be had must be there, or the warning.
    nearer = release(
        frame(["active", "rest", "rest"] * 30),
        model=LAZY,
        column="state",
        query="count:active",
        epsilon=1.0,
        adversary="dp",
        sampler=SeededSampler(3),
    )
    assert MISFIT in nearer.certificate.warnings
    (problem,) = verify(forged(nearer.certificate, warnings=without)).problems
    assert "poor fit" in problem
    fine = release(
        frame(["rest"] * 90), model=LAZY, column="state", query="count:active", epsilon=1.0, sampler=SeededSampler(3)
    )
    (problem,) = verify(forged(fine.certificate, warnings=[*fine.certificate.warnings, MISFIT])).problems
    assert "poor fit" in problem


def _coverage(data, model, query, *, delta=0.0, epsilon=1.0) -> dict[str, float]:
    """How often the ranges hold the truth, over draws of the noise: each number's own, and all together."""
    publication = AnswerPublication(
        data=data,
        model=model,
        reading=Reading(column="state"),
        query=Query.parse(query),
        epsilon=epsilon,
        adversary=Adversary.BDP,
        delta=delta,
        account=Account(),
    )
    exact = publication.read()
    problem = publication.problem(exact)
    solution = publication.solve(problem, exact)
    histogram = np.array(exact.histogram, dtype=float)
    state = model.labels.index(query.partition(":")[2]) if ":" in query else 0
    truth = {
        "count": histogram[[state]],
        "histogram": histogram,
        "frequency": histogram / histogram.sum(),
    }[query.partition(":")[0]]
    inside = {"each": [], "all": []}
    for seed in range(DRAWS):
        made = replace(publication, sampler=SeededSampler(seed)).draw(problem, solution, exact, Charged())
        for name, hits in inside.items():
            ends = getattr(made.intervals, name)
            hit = (np.atleast_1d(ends.low) <= truth) & (truth <= np.atleast_1d(ends.high))
            hits.append(hit.mean() if name == "each" else hit.all())
    return {name: float(np.mean(hits)) for name, hits in inside.items()}


@pytest.mark.slow
def test_on_data_the_model_was_not_fitted_on_the_ranges_hold(shared_data):
    """At least 93 % of 200 draws hold the truth, number by number and all together; the seeds are fixed.

    A true 95 % for all numbers together would fail with probability 8 % otherwise. Intervals for the noise alone hold
    under every model, so the one that is quickest to fit serves.
    """
    steps = pd.read_csv(shared_data / "activity" / "activity.csv")["steps"].dropna()
    states = pd.cut(steps, [0, 1, 50, 2000], right=False, labels=["s0", "s1", "s2"]).astype(str).to_numpy()
    first, second = (pd.DataFrame({"state": half}) for half in np.array_split(states, 2))
    model = fit(first, column="state", family="chain", checks=False).model
    assert min(_coverage(second, model, "histogram").values()) >= 0.93
