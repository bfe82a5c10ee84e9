"""The posterior of the true answer: literal Bayes, worth having on simulated data, and verified with the certificate.

Only noisy answers go in. On simulated data the truth is known to the test alone.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from pufferdp import (
    AnyGroups,
    Ar1,
    BinaryInterval,
    Gaussian,
    Groups,
    LimitedCorrelation,
    MarkovChain,
    MarkovClass,
    ModelClass,
    NotApplicableError,
    ParameterError,
    Query,
    answer_distribution,
    posterior_chart,
    release,
    verify,
)
from pufferdp.bounds.additive.posterior import clipped_moments
from pufferdp.models.simulate import sample_chain
from pufferdp.publish.answers.estimate import PROBABILITY, model_estimate_of, normal_estimate
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.noise import SeededSampler
from tests.oracles import records as brute
from tests.publish.answers.mechanisms.record_suite import cases
from tests.strategies import SEEDS, chains, examples


def posterior_of(problem, answer, scale):
    """The posterior where the noise that the problem asks for has this scale."""
    return model_estimate_of(problem, answer, problem.noise(scale))


ONE_IN_TEN_THOUSAND = 1e-4
"""How often each statistical test would fail by chance, if its seed were not fixed."""
ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"], values=[1.0, 3.5])
CLIQUE = [0.1, 0.15, 0.5, 0.15, 0.1]


def problem_of(model, query, lengths=(), clip=None) -> Problem:
    return Problem(model=model, query=Query.parse(query, clip=clip), lengths=lengths, epsilon=1.0)


def balanced_distribution(scale, numbers, reach=400):
    """How likely the noise of one number is to be -reach..reach, if all add up to 0: one convolution for each other."""
    each = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    others = np.array([1.0])
    for _ in range(numbers - 1):
        others = np.convolve(others, each)
    middle = len(others) // 2
    distribution = each * (others[middle - reach : middle + reach + 1] if numbers > 2 else each)
    return distribution / distribution.sum()


def bayes_balanced(joint, answers, noisy, scale, unit):
    """P(outcome | one noisy number) for noise that adds up to 0, and that number's distribution; for each number."""
    distribution = np.asarray(joint, dtype=float).ravel()
    flat = answers.reshape(len(distribution), -1).astype(float)
    noise, posteriors = balanced_distribution(scale / unit, flat.shape[1]), []
    for j in range(flat.shape[1]):
        weights = distribution * noise[np.rint((noisy[j] - flat[:, j]) / unit).astype(int) + 400]
        points, place = np.unique(flat[:, j], return_inverse=True)
        posteriors.append((points, np.bincount(place.ravel(), weights / weights.sum())))
    return posteriors


def bayes(joint, answers, noisy, scale, coordinates=None):
    """P(outcome | noisy answer) over all outcomes, then the distribution of each coordinate of the answer."""
    distribution = np.asarray(joint, dtype=float).ravel()
    flat = answers.reshape(len(distribution), -1).astype(float)
    posteriors = []
    for j in range(flat.shape[1]):
        seen = range(flat.shape[1]) if coordinates == "all" else [j]
        far = sum(np.abs(noisy[i] - flat[:, i]) for i in seen) / scale
        weights = distribution * np.exp(-(far - far.min()))
        points, place = np.unique(flat[:, j], return_inverse=True)
        posteriors.append((points, np.bincount(place.ravel(), weights / weights.sum())))
    return posteriors


def listed(value) -> list:
    return value if isinstance(value, list) else [value]


def assert_is_the_posterior(found, posteriors) -> None:
    for mean, low, high, (points, distribution) in zip(
        *(listed(getattr(found, name)) for name in ("mean", "low", "high")), posteriors, strict=True
    ):
        near = 1e-9 * max(1.0, np.abs(points).max())
        assert mean == pytest.approx(points @ distribution, abs=near)
        # Equal-tailed: at most 2.5 % outside on each side, and more if an end came one answer nearer.
        half = (1 - PROBABILITY) / 2
        assert distribution[(points >= low - near) & (points <= high + near)].sum() >= PROBABILITY - 1e-12
        assert distribution[points < low - near].sum() <= half
        assert distribution[points < low + near].sum() > half - 2e-9
        assert distribution[points > high + near].sum() <= half
        assert distribution[points > high - near].sum() > half - 2e-9


def noisy_near(generator, answers, scale) -> list[float]:
    """Something noise could make of one of the answers."""
    rows = answers.reshape(-1, answers.shape[-1]).astype(float)
    return [float(v) for v in rows[generator.integers(len(rows))] + generator.laplace(0, scale, rows.shape[1])]


def balanced_near(generator, answers, scale, unit) -> list[float]:
    """Something that noise which adds up to 0 could make of one of the answers."""
    rows = answers.reshape(-1, answers.shape[-1]).astype(float)
    noise = np.rint(generator.laplace(0, scale / unit, rows.shape[1] - 1))
    return [float(v) for v in rows[generator.integers(len(rows))] + np.append(noise, -noise.sum()) * unit]


@given(case=cases(), seed=SEEDS, scale=st.sampled_from([0.3, 1.0, 7.0]))
def test_records_literal_bayes(case, seed, scale):
    """Networks, tables and groups: every query, against all outcomes; histograms with noise of their own on each."""
    generator = np.random.default_rng(seed)
    noisy = noisy_near(generator, case.answers, scale)
    problem = replace(case.problem(1.0), independent_noise=True)
    found = posterior_of(problem, noisy if case.answers.shape[-1] > 1 else noisy[0], scale)
    assert_is_the_posterior(
        found, bayes(case.joint, case.answers, noisy, scale, "all" if case.answers.shape[-1] == 2 else None)
    )


@given(case=cases(), seed=SEEDS, scale=st.sampled_from([0.3, 1.0, 7.0]))
def test_records_literal_bayes_of_balanced_noise(case, seed, scale):
    problem = case.problem(1.0)
    if not problem.balanced:
        return
    unit = problem.bound.unit
    noisy = balanced_near(np.random.default_rng(seed), case.answers, scale * unit, unit)
    found = posterior_of(problem, noisy, scale * unit)
    assert_is_the_posterior(found, bayes_balanced(case.joint, case.answers, noisy, scale * unit, unit))


@given(
    chain=chains(most_states=3, starts=("stationary", "given")),
    length=st.integers(1, 6),
    seed=SEEDS,
    scale=st.sampled_from([0.3, 1.0, 7.0]),
    query=st.sampled_from(["count:0", "sum", "mean", "histogram", "frequency"]),
    balanced=st.booleans(),
)
def test_chains_literal_bayes(chain, length, seed, scale, query, balanced):
    generator = np.random.default_rng(seed)
    values = [0.0, 0.3, -1.2][: chain.size]
    if chain.size == 1 and query in ("sum", "mean"):
        return  # refused: the answer tells nothing
    model = MarkovChain(transition=chain.transition, start=chain.start, values=values)
    start = brute.exact_stationary(chain.transition) if chain.given_start is None else chain.given_start
    joint = brute.chain_joint(chain.transition, start, length)
    answers = brute.answers([model.labels] * length, list(model.labels), query, values)
    noisy = noisy_near(generator, answers, scale)
    lists = query in ("histogram", "frequency")
    problem = problem_of(model, query, ((length, 1),))
    if problem.balanced and balanced:
        unit = problem.bound.unit
        noisy = balanced_near(generator, answers, scale * unit, unit)
        found = posterior_of(problem, noisy, scale * unit)
        wanted = bayes_balanced(joint, answers, noisy, scale * unit, unit)
    else:
        problem = replace(problem, independent_noise=True)
        found = posterior_of(problem, noisy if lists else noisy[0], scale)
        wanted = bayes(joint, answers, noisy, scale, "all" if chain.size == 2 else None)
    for at, (mean, (points, distribution)) in enumerate(zip(listed(found.mean), wanted, strict=True)):
        if mean is None:  # an impossible answer, as good as: the transform knows nothing of masses so small
            assert listed(found.surprise)[at] < 1e-3
        else:
            # Rounding may move one part in a million of the posterior, and no more.
            assert mean == pytest.approx(points @ distribution, abs=2e-6 * (np.ptp(points) + 1e-9))


def test_several_chains_are_one_answer():
    """Two chains of three records and one of one: the posterior of their sum, by enumeration."""
    P, lengths = ACTIVITY.transition, ((3, 2), (1, 1))
    start = brute.exact_stationary(P)
    joint = np.multiply.outer(
        np.multiply.outer(brute.chain_joint(P, start, 3), brute.chain_joint(P, start, 3)), brute.exact(start)
    )
    answers = brute.answers([ACTIVITY.labels] * 7, list(ACTIVITY.labels), "sum", ACTIVITY.values)
    found = posterior_of(problem_of(ACTIVITY, "sum", lengths), 15.2, 2.5)
    assert_is_the_posterior(found, bayes(joint, answers, [15.2], 2.5))


@given(case=cases(), noisy=st.floats(-1e3, 1e3), scale=st.floats(0.01, 1e3))
def test_the_mean_is_an_answer_that_could_be(case, noisy, scale):
    count = case.answers.shape[-1]
    found = posterior_of(case.problem(1.0), [noisy] * count if count > 1 else noisy, scale)
    for j, mean in enumerate(listed(found.mean)):
        column = case.answers[..., j].astype(float)
        assert column.min() - 1e-9 <= mean <= column.max() + 1e-9


def test_the_distribution_of_zeros_is_not_that_of_ones():
    """A group counts its second state; the first is counted by turning the distribution around."""
    group = Groups(sizes=[2], positives=[[0.7, 0.2, 0.1]])
    assert answer_distribution(group, "count:0").probabilities == pytest.approx([0.1, 0.2, 0.7])
    assert answer_distribution(group, "count:1").probabilities == pytest.approx([0.7, 0.2, 0.1])


@pytest.mark.parametrize("scale", [0.4, 3.0])
@pytest.mark.parametrize("noisy", [-4, 0, 2, 5, 9])
def test_surprise_is_the_tail_of_what_the_model_expects(noisy, scale):
    """Every count with every noise, written out."""
    found = posterior_of(problem_of(Groups(sizes=[4], positives=[CLIQUE]), "count:1"), noisy, scale)
    q = math.exp(-1 / scale)
    distribution = {}
    for count, p in enumerate(CLIQUE):
        for k in range(-400, 401):
            distribution[count + k] = distribution.get(count + k, 0) + p * (1 - q) / (1 + q) * q ** abs(k)
    above, below = (
        sum(p for y, p in distribution.items() if y >= noisy),
        sum(p for y, p in distribution.items() if y <= noisy),
    )
    assert found.surprise == pytest.approx(max(1e-12, min(1, 2 * min(above, below))), rel=1e-9)


def test_surprise_of_a_sum_has_laplace_tails():
    problem = problem_of(ACTIVITY, "sum", ((1, 1),))
    p = ACTIVITY.stationary
    expected = 2 * sum(w * 0.5 * math.exp(-(9 - v) / 2) for w, v in zip(p, (1.0, 3.5), strict=True))
    assert posterior_of(problem, 9.0, 2.0).surprise == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("model", "query", "lengths", "clip"),
    [
        (MarkovChain(transition=ACTIVITY.transition, start="any"), "count:1", ((10, 1),), None),
        (MarkovClass(models=(ACTIVITY, ACTIVITY)), "count:active", ((10, 1),), None),
        (BinaryInterval(low=0.2, high=0.8), "count:1", ((10, 1),), None),
        (AnyGroups(largest=3), "count:1", ((10, 1),), None),
        (ModelClass(models=(Groups(sizes=[4], positives=[CLIQUE]),) * 2), "count:1", (), None),
        (MarkovChain(transition=ACTIVITY.transition, bins=[0, 200, 400]), "sum", ((10, 1),), (0, 400)),
        (ACTIVITY, "count:active", ((10**8, 1),), None),
        (MarkovChain(transition=np.full((60, 60), 1 / 60)), "histogram", ((10**4, 1),), None),
    ],
)
def test_no_one_distribution_no_posterior(model, query, lengths, clip):
    problem = problem_of(model, query, lengths, clip)
    answer = [1.0] * 60 if query == "histogram" else 1.0
    assert posterior_of(problem, answer, 1.0) is None


def test_values_without_a_common_step_have_no_grid():
    one_step = MarkovChain(transition=ACTIVITY.transition, values=[0, math.pi])
    assert posterior_of(problem_of(one_step, "sum", ((10, 1),)), 12.0, 1.0) is not None
    model = MarkovChain(transition=np.full((3, 3), 1 / 3), values=[0, math.pi, math.e])
    assert posterior_of(problem_of(model, "sum", ((10, 1),)), 12.0, 1.0) is None


def test_a_function_of_ones_own_has_no_posterior():
    problem = Problem(model=ACTIVITY, query=Query.of_function(lambda c: 0.0, 1.0), lengths=((5, 1),), epsilon=1)
    assert posterior_of(problem, 1.0, 1.0) is None


def test_an_exact_answer_is_itself():
    found = posterior_of(problem_of(ACTIVITY, "sum", ((3, 1),)), 5.5, 0.0)
    assert (found.mean, found.low, found.high) == (5.5, 5.5, 5.5)
    none_active = ACTIVITY.stationary[0] * 0.882**2
    assert found.surprise == pytest.approx(2 * (1 - none_active))  # 5.5 is one active record; so are more above it
    both = posterior_of(problem_of(ACTIVITY, "histogram", ((3, 1),)), [3, 0], 0.0)
    assert (both.mean, both.low, both.high) == ([3, 0],) * 3
    assert both.surprise == [pytest.approx(min(1, 2 * none_active))] * 2


def test_an_absurd_answer_gets_a_surprise_and_no_estimate():
    """Nobody ever active in 288 records has probability 1e-16: what rounding says of it is worth nothing."""
    found = posterior_of(problem_of(ACTIVITY, "count:active", ((288, 1),)), -40, 0.3)
    assert (found.mean, found.low, found.high) == (None, None, None)
    assert found.surprise == 1e-12
    both = posterior_of(problem_of(ACTIVITY, "histogram", ((288, 1),)), [330, -40], 0.3)
    assert (both.mean, both.surprise) == ([None, None], [1e-12, 1e-12])
    far = posterior_of(problem_of(ACTIVITY, "count:active", ((288, 1),)), 10**300, 1e-9)
    assert far.mean is None


# On simulated data: is it worth having, and do its intervals hold?


def better(worse: np.ndarray, ours: np.ndarray) -> bool:
    """Whether squared errors are smaller on average: paired differences, one-sided, wrong once in 10^4."""
    gain = worse**2 - ours**2
    return bool(gain.mean() / (gain.std() / math.sqrt(len(gain))) > norm.isf(ONE_IN_TEN_THOUSAND))


def covers(inside: np.ndarray) -> bool:
    """Whether 95 % is not rejected: the number inside is not in the lowest 1 in 10^4 of its binomial distribution."""
    return bool(binom.cdf(int(inside.sum()), len(inside), PROBABILITY) > ONE_IN_TEN_THOUSAND)


def assert_worth_having(problem, truths, noisy, scale, low, high) -> None:
    found = [posterior_of(problem, y, scale) for y in noisy]
    ours = np.array([d.mean for d in found]) - truths
    assert better(noisy - truths, ours)
    assert better(np.clip(noisy, low, high) - truths, ours)
    assert covers(np.array([d.low <= t <= d.high for d, t in zip(found, truths, strict=True)]))
    # A surprise below 5 % comes about at most once in twenty answers (discrete ones less often).
    odd = sum(d.surprise < 0.05 for d in found)
    assert binom.sf(odd - 1, len(found), 0.05) > ONE_IN_TEN_THOUSAND


def discrete_laplace(generator, scale, size):
    p = -math.expm1(-1 / scale)
    return generator.geometric(p, size) - generator.geometric(p, size)


@pytest.mark.parametrize("scale", [16.0, 150.0])
def test_chains_gain(scale):
    """With little noise there is little to gain, and only many draws show it."""
    generator = np.random.default_rng(7)
    # Little noise leaves little to gain, and fewer draws could not tell.
    draws = 1500 if scale == 4.0 else examples(1500)
    truths = sample_chain(ACTIVITY, 288, draws, generator).sum(axis=1)
    noisy = truths + discrete_laplace(generator, scale, len(truths))
    assert_worth_having(problem_of(ACTIVITY, "count:active", ((288, 1),)), truths, noisy, scale, 0, 288)


def test_a_histogram_of_two_is_one_count():
    """Noise that adds up to 0 is that of one count with half the scale, and tells as much as the count."""
    histogram, count = (problem_of(ACTIVITY, query, ((100, 1),)) for query in ("histogram", "count:active"))
    for noisy in (-3, 0, 20, 28, 41, 60):
        both, single = posterior_of(histogram, [100 - noisy, noisy], 6.0), posterior_of(count, noisy, 3.0)
        for name in ("mean", "low", "high", "surprise"):
            assert getattr(both, name)[1] == pytest.approx(getattr(single, name), rel=1e-9), name
        assert sum(both.mean) == pytest.approx(100)


def test_normal_records_gain():
    """Nothing clipped: the distribution is exactly normal, and the interval holds 95 %, no less and no more."""
    generator = np.random.default_rng(11)
    covariance = np.array([[4.0, 1.2], [1.2, 1.0]])
    mean, variance = clipped_moments(np.array([1.0, -0.5]), covariance, -60, 60)
    truths = generator.multivariate_normal([1.0, -0.5], covariance, 20_000).sum(axis=1)
    noisy = truths + generator.laplace(0, 3.0, len(truths))
    found = [normal_estimate(mean, variance, float(y), 3.0) for y in noisy]
    assert better(noisy - truths, np.array([d.mean for d in found]) - truths)
    inside = sum(d.low <= t <= d.high for d, t in zip(found, truths, strict=True))
    assert min(binom.cdf(inside, 20_000, 0.95), binom.sf(inside - 1, 20_000, 0.95)) > ONE_IN_TEN_THOUSAND


@pytest.mark.parametrize("query", ["sum", "mean"])
def test_families_of_numbers_gain(query):
    """Forty copies of a family of three heights, clipped far out and near: by the verb's own path."""
    generator = np.random.default_rng(13)
    means, covariance = [69.0, 64.0, 67.0], [[6.1, 0.4, 2.4], [0.4, 5.3, 1.7], [2.4, 1.7, 12.8]]
    drawn = generator.multivariate_normal(means, covariance, (examples(1500), 40))
    share = 1 / 120 if query == "mean" else 1.0
    for low, high in ((40.0, 100.0), (66.0, 70.0)):
        problem = problem_of(Gaussian(mean=means, covariance=covariance), query, ((3, 40),), (low, high))
        truths = np.clip(drawn, low, high).sum(axis=(1, 2)) * share
        noisy = truths + generator.laplace(0, 30 * share, len(truths))
        ends = (120 * low * share, 120 * high * share)
        assert_worth_having(problem, truths, noisy, 30 * share, *ends)
        far = posterior_of(problem, 1e9, 30 * share)
        assert far.surprise == 1e-12
        assert ends[0] <= far.low <= far.mean <= far.high <= ends[1]
        exact = posterior_of(problem, float(truths[0]), 0.0)
        assert (exact.mean, exact.low, exact.high) == (truths[0],) * 3


def test_a_class_of_normal_distributions_has_no_posterior():
    model = LimitedCorrelation(records=3, rho=0.2)
    assert posterior_of(problem_of(model, "sum", ((3, 40),), (60, 80)), 8000.0, 30.0) is None


# In a release


def frame(states) -> pd.DataFrame:
    return pd.DataFrame({"t": range(len(states)), "state": states})


WALK = [ACTIVITY.labels[x] for x in sample_chain(ACTIVITY, 300, 1, np.random.default_rng(3))[0]]


@pytest.mark.parametrize("query", ["count:active", "histogram", "frequency", "sum", "mean"])
def test_a_release_says_it_and_its_certificate_too(query):
    checked = replace(ACTIVITY, checks={"effective_leakage": {"coverage": 0.9}})
    done = release(
        frame(WALK), model=checked, column="state", order="t", query=query, epsilon=1.0, sampler=SeededSampler(1)
    )
    problem = problem_of(ACTIVITY, query, ((300, 1),))
    assert done.model_estimate == posterior_of(problem, done.answer, done.certificate.noise.scale)
    assert (
        done.to_dict()["model_estimate"]
        == done.certificate.to_dict()["model_estimate"]
        == done.model_estimate.to_dict()
    )
    assert verify(done.certificate).problems == ()
    assert "posterior mean" in str(done)
    assert "95 % credible interval" in str(done)
    assert max(map(len, str(done).splitlines())) <= 96


@pytest.mark.parametrize(
    ("checks", "reason"),
    [(None, "not checked against data .pufferdp fit or check"), ({"effective_leakage": {}}, "do not say how often")],
)
def test_a_model_of_which_no_check_says_how_often_it_is_right_shows_no_posterior(checks, reason):
    """Its numbers are there for programs."""
    model = replace(ACTIVITY, checks=checks)
    done = release(frame(WALK), model=model, column="state", order="t", query="histogram", epsilon=1.0)
    assert done.model_estimate is not None
    words = " ".join(str(done).split())
    assert re.search(f"No model-based estimate shown: [^.]*{reason}", words)
    assert "credible" not in words
    assert "credible" not in str(verify(done.certificate))


REASONS = {
    "rests on the coefficient alone": (Ar1(coefficient=0.5), {"query": "mean", "column": "x", "clip": (0, 3)}),
    "where they are missing is not part": (
        ACTIVITY,
        {"query": "count:active", "missing": "keep", "column": "unobserved"},
    ),
    "is for many models": (
        MarkovClass([ACTIVITY, replace(ACTIVITY, transition=[[0.8, 0.2], [0.2, 0.8]])]),
        {"query": "count:active"},
    ),
    "how far it is from the start": (replace(ACTIVITY, start=[0.5, 0.5]), {"query": "count:active", "first": 2}),
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_release_says_why_it_has_no_posterior(reason):
    model, options = REASONS[reason]
    data = frame(WALK).assign(x=1.5, unobserved=["rest", None, "active", *WALK[3:]])
    done = release(data, model=model, epsilon=1.0, order="t", **{"column": "state", **options})
    assert done.model_estimate is None
    assert re.search(f"No model-based estimate: [^.]*{reason}", " ".join(str(done).split()))


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_figure_is_written(ending, tmp_path):
    posterior_chart(problem_of(ACTIVITY, "count:active", ((288, 1),)), 119, 15.94).save(tmp_path / f"f.{ending}")
    assert [p.stat().st_size > 1000 for p in tmp_path.iterdir()] == [True]


@pytest.mark.parametrize(
    ("query", "noisy", "scale", "error"),
    [("histogram", 100, 4.0, ParameterError), ("count:active", -40, 0.3, NotApplicableError)],
)
def test_what_has_no_figure_is_refused(query, noisy, scale, error, tmp_path):
    with pytest.raises(error):
        posterior_chart(problem_of(ACTIVITY, query, ((288, 1),)), noisy, scale)
