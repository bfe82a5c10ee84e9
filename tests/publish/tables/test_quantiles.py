"""Quantiles by a noisy choice: what they leak by enumeration, and how many ranks they err by, exactly."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp import MarkovChain
from pufferdp.basics.errors import QueryError
from pufferdp.bounds.curves import curve
from pufferdp.publish.noise import SeededSampler
from pufferdp.publish.tables.quantiles import QuantileQuestion, rank_distances
from pufferdp.publish.tables.questions import GroupRecords
from tests.oracles.leakage import channel_leakage, path_distribution
from tests.oracles.selection import choice_distribution, rank_scores
from tests.strategies import chains, examples

NUMBERS = MarkovChain(transition=[[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6]], values=[10, 20, 40])


def question(text: str, clip: tuple[float, float] | None = None) -> QuantileQuestion:
    return QuantileQuestion.parse(text, clip)


def distribution_of(asked: QuantileQuestion, model, data, scale: float, alpha: float) -> np.ndarray:
    """The distribution of the answer, one axis per quantile, from the definition; ``data`` are candidates already."""
    candidates = asked.candidates(model)
    if asked.kind in ("min", "max"):
        inside = min(math.ceil(alpha), len(data) / 2) / max(len(data), 1)
        shares = [inside if asked.kind == "min" else 1 - inside]
    else:
        shares = [float(share) for share in asked.shares or (Fraction(1, 2),)]
    distribution = np.ones(1)
    for share in shares:
        distribution = np.multiply.outer(distribution, choice_distribution(rank_scores(data, candidates, share), scale))
    return distribution.ravel()


def channel_of(asked, model, numbers, records: int, scale: float, alpha: float) -> np.ndarray:
    """What is released given every series; its distribution depends on how many records have each number alone."""
    distributions: dict[tuple[float, ...], np.ndarray] = {}
    rows = []
    for series in itertools.product(numbers, repeat=records):
        key = tuple(sorted(series))
        if key not in distributions:
            distributions[key] = distribution_of(asked, model, key, scale, alpha)
        rows.append(distributions[key])
    return np.array(rows).reshape((len(numbers),) * records + (-1,))


def group(codes=(), numbers=None, states=3) -> GroupRecords:
    codes = np.asarray(codes if numbers is None else np.zeros(len(numbers)), dtype=np.int64)
    return GroupRecords(states=states, codes=codes, numbers=None if numbers is None else np.asarray(numbers, float))


@settings(max_examples=examples(80))
@given(st.lists(st.integers(0, 6), max_size=12), st.integers(1, 999_999))
def test_distances_in_ranks(data, millionths):
    share = Fraction(millionths, 10**6)
    found = rank_distances(np.bincount(data, minlength=7) if data else np.zeros(7, int), share * len(data))
    unit = (share * len(data)).denominator
    assert np.array(found) / unit == pytest.approx(rank_scores(data, range(7), float(share)), abs=1e-9)
    assert min(found) == 0


def test_distances_are_those_of_opendp_between_records():
    # Where no record has a candidate's value, both count how far its rank is from the wanted one.
    from opendp import domains, metrics, transformations
    from opendp.mod import enable_features

    enable_features("contrib")
    data, candidates = [0.5, 0.5, 1.5, 3.5, 3.5, 3.5, 7.5], [0.0, 1.0, 2.0, 3.0, 4.0, 8.0]
    space = domains.vector_domain(domains.atom_domain(T=float, nan=False)), metrics.symmetric_distance()
    scores = transformations.make_quantile_score_candidates(*space, candidates, alpha=0.25)(data)
    counts = [sum(low <= x < high for x in data) for low, high in itertools.pairwise([*candidates, 99])]
    # Records are moved up to the next candidate but for a hair: none has its value, and as many are below it.
    apart = np.zeros(2 * len(candidates), int)
    apart[1::2] = counts
    found = rank_distances(apart, Fraction(1, 4) * len(data))[::2]
    assert np.array(found) / 4 == pytest.approx(np.array(scores) / scores[0] * rank_scores(data, [0.0], 0.25)[0])


def test_median_of_tied_records_is_their_value():
    # 51 of 100 records are 10, and OpenDP's scores prefer 20, which is no median.
    codes = [0] * 51 + [1] * 15 + [2] * 34
    asked = question("median")
    noise = asked.noise(NUMBERS, dp_loss=1e6, beta=0.05)
    assert asked.measure_each(NUMBERS, [group(codes)], noise, SeededSampler(1))[0] == (10.0,)


@pytest.mark.parametrize("loss", [0.2, 1.0, 3.0])
def test_loss_is_nearly_reached_and_less_noise_is_not_enough(loss):
    """Independent records, all others known: what is leaked is the DP loss."""
    asked, model = question("median", (0, 200)), MarkovChain(transition=[[1 / 3] * 3] * 3, bins=[0, 1, 100, 200])
    noise = asked.noise(model, loss, beta=0.05)
    distribution = path_distribution([[1 / 3] * 3] * 3, [1 / 3] * 3, 5)

    def leaks(scale: float) -> float:
        return channel_leakage(distribution, channel_of(asked, model, (0, 2, 200), 5, scale, noise.alpha), "dp")

    assert 0.91 * loss < leaks(noise.scale) <= loss
    assert leaks(0.9 * noise.scale) > loss


@settings(max_examples=examples(25))
@given(
    chains(most_states=3, starts=("stationary", "given")),
    st.integers(1, 4),
    st.floats(0.2, 3.0),
    st.sampled_from(["median", "min", "max", "quantile:.3", "quantile:.25,.8"]),
    st.sampled_from(["bdp", "pufferfish"]),
)
def test_no_chain_leaks_more_than_guaranteed(chain, records, epsilon, text, adversary):
    model = replace(chain, values=tuple(range(chain.size)))
    asked = question(text)
    dp_loss = curve("tight", model, records, adversary).inverse(epsilon)
    if model.size < 2 or dp_loss <= 0:
        return
    noise = asked.noise(model, dp_loss, beta=0.05)
    channel = channel_of(asked, model, tuple(range(model.size)), records, noise.scale, noise.alpha)
    start = chain.stationary if chain.given_start is None else chain.given_start
    distribution = path_distribution(chain.transition, start, records)
    assert channel_leakage(distribution, channel, adversary) <= epsilon * (1 + 1e-9)


@settings(max_examples=examples(60))
@given(
    st.lists(st.integers(0, 2), max_size=40),
    st.floats(0.05, 4.0),
    st.floats(0.01, 0.5),
    st.sampled_from(["median", "quantile:.1", "quantile:.3,.9"]),
)
def test_ranks_are_as_exact_as_stated(codes, dp_loss, beta, text):
    asked = question(text)
    noise = asked.noise(NUMBERS, dp_loss, beta)
    data = [(10, 20, 40)[code] for code in codes]
    failing = 0.0
    for share in asked.shares or (0.5,):
        distances = rank_scores(data, (10, 20, 40), float(share))
        failing += choice_distribution(distances, noise.scale)[distances >= noise.alpha].sum()
    assert failing <= beta * (1 + 1e-9)


def test_rank_accuracy_is_reached_with_two_candidates():
    model = MarkovChain(transition=[[0.5, 0.5], [0.5, 0.5]], values=[0, 1])
    beta, records = 0.05, 20
    # All records are 0, so 1 is off by half of them: choose the loss at which that is alpha.
    loss = 2 * math.log(1 / (2 * beta)) / (records / 2)
    noise = question("median").noise(model, loss, beta)
    assert noise.alpha == pytest.approx(records / 2, rel=1e-12)
    distribution = choice_distribution(rank_scores([0] * records, (0, 1), 0.5), noise.scale)
    assert distribution[1] == pytest.approx(beta, rel=1e-9)


@settings(max_examples=examples(40))
@given(st.lists(st.integers(0, 200), min_size=1, max_size=90), st.floats(0.3, 5.0), st.sampled_from(["min", "max"]))
def test_least_and_largest_but_for_a_few(data, dp_loss, kind):
    asked, model = question(kind, (0, 200)), MarkovChain(transition=[[0.5, 0.5], [0.5, 0.5]], bins=[0, 100, 200])
    noise = asked.noise(model, dp_loss, beta=0.05)
    distribution = distribution_of(asked, model, data, noise.scale, noise.alpha)
    beyond = np.array([sum(x < c if kind == "min" else x > c for x in data) for c in range(201)])
    outside = np.array([all(x > c if kind == "min" else x < c for x in data) for c in range(201)])
    if len(data) >= 2 * math.ceil(noise.alpha):  # in smaller groups nothing is said of the ends
        assert distribution[outside | (beyond >= 2 * math.ceil(noise.alpha))].sum() <= 0.05 * (1 + 1e-9)


@pytest.mark.parametrize("text", ["median", "min", "max", "quantile:.2,.7"])
@pytest.mark.parametrize("from_data", [False, True])
def test_draws_have_the_distribution(text, from_data):
    """A statistical test that fails with probability below 1e-6 by Hoeffding's bound over all candidates."""
    model = MarkovChain(transition=NUMBERS.transition, bins=[0, 10, 30, 50]) if from_data else NUMBERS
    asked = question(text, (0, 200) if from_data else None)
    codes, draws = [0, 0, 1, 2, 2, 1, 0], 4000
    numbers = [7.0, 7.2, 13.0, 200.4, 40.0, 13.0, -3.0]
    rounded = [7, 7, 13, 200, 40, 13, 0]
    noise = asked.noise(model, 2.0, 0.05)
    records = group(numbers=numbers) if from_data else group(codes)
    sampler = SeededSampler(11)
    answers = [asked.measure_each(model, [records], noise, sampler)[0] for _ in range(draws)]
    data = rounded if from_data else [(10, 20, 40)[code] for code in codes]
    distribution = distribution_of(asked, model, data, noise.scale, noise.alpha)
    points = list(itertools.product(asked.candidates(model), repeat=len(asked.labels(model))))
    if from_data and len(asked.labels(model)) > 1:
        distribution, points = (
            distribution.reshape(201, 201).sum(axis=1),
            [(point,) for point in asked.candidates(model)],
        )
        answers = [answer[:1] for answer in answers]
    shares = np.array([sum(answer == point for answer in answers) for point in points]) / draws
    assert np.abs(shares - distribution).max() < math.sqrt(math.log(2 * len(points) / 1e-6) / (2 * draws))


def test_bins_that_a_model_leaves_out():
    model = MarkovChain(transition=[[0.5, 0.5], [0.5, 0.5]], bins=[0, 100, 200, 300], states=["0..100", "200..300"])
    asked = question("median")
    assert asked.candidates(model) == (0.0, 200.0)
    noise = asked.noise(model, 1e6, 0.05)
    assert asked.measure_each(model, [group([1, 1, 0], states=2)], noise, SeededSampler(1))[0] == (200.0,)


def test_states_in_any_order_of_their_values():
    model = replace(NUMBERS, values=(40.0, 10.0, 20.0))
    asked = question("quantile:.01,.99")
    noise = asked.noise(model, 1e6, 0.05)
    assert asked.measure_each(model, [group([0, 1, 2])], noise, SeededSampler(1))[0] == (10.0, 40.0)


def test_names_and_labels():
    assert question("quantile:.9, 0.50").name == "quantile:0.5,0.9"
    assert question("quantile:0.000001").labels(NUMBERS) == ("0.000001",)
    assert question("median").labels(NUMBERS) == ("median",)
    assert question("quantile:.5,.9").estimate_each(NUMBERS, [5], [(40.0, 10.0)]) == [(10.0, 40.0)]
    # A range clips the values of states, and those that fall together are one candidate.
    assert question("median", (15, 25)).candidates(NUMBERS) == (15.0, 20.0, 25.0)
    assert question("median", (15, 18)).candidates(NUMBERS) == (15.0, 18.0)


def test_nobody_has_any_quantile():
    asked = question("quantile:.5")
    noise = asked.noise(NUMBERS, 1.0, 0.05)
    drawn = {asked.measure_each(NUMBERS, [group()], noise, SeededSampler(seed))[0][0] for seed in range(60)}
    assert drawn == {10.0, 20.0, 40.0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("quantile", "shares are numbers"),
        ("quantile:a", "shares are numbers"),
        ("quantile:1/0", "shares are numbers"),
        ("quantile:nan", "shares are numbers"),
        ("quantile:0,.5", "min and max"),
        ("quantile:1", "min and max"),
        ("quantile:-.5", "between 0 and 1"),
        ("quantile:.5,.50", "twice"),
        ("quantile:1/3", "six decimals"),
        ("median:.5", "nothing after it"),
    ],
)
def test_refused_spellings(text, words):
    with pytest.raises(QueryError, match=words):
        question(text)


def test_refused_models():
    with pytest.raises(QueryError, match="needs numbers"):
        question("median").check(MarkovChain(transition=[[0.5, 0.5], [0.5, 0.5]], states=["rest", "active"]))
    with pytest.raises(QueryError, match="same value"):
        question("median", (50, 60)).check(NUMBERS)


def test_answers_that_no_draw_makes():
    asked = question("quantile:.5,.9")
    asked.check_answer(NUMBERS, 5, (10.0, 40.0))
    for strange in [(10.0,), (10.0, 11.0), (10.0, None), (math.nan, 10.0)]:
        with pytest.raises(QueryError):
            asked.check_answer(NUMBERS, 5, strange)
