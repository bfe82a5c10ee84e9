"""Song et al. 2017 reproduced: its algorithms by plain loops, its printed numbers, and ours on real data."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pufferdp.models.chain import MarkovChain
from pufferdp_papers.base import ExperimentResult, Setting
from pufferdp_papers.song.histograms import TABLE_1, TABLE_3, expected_error, whole_person_error
from pufferdp_papers.song.published import histogram_of, laplace_error, noise_multiplier
from pufferdp_papers.song.synthetic import RECORDS, class_gap, figure_4, interval, published_approx, share_of_ones
from pufferdp_papers.song.times import TABLE_2
from tests.papers.test_experiments import result as result_of

Array = npt.NDArray[np.float64]


def row_of(result: ExperimentResult, **values: Any) -> dict[str, Any]:
    """The one row with these values."""
    found = [dict(row) for row in result.rows if all(row[key] == value for key, value in values.items())]
    assert len(found) == 1
    return found[0]


# ---- the synthetic figure ----


def markov_quilt_noise(left: Array, right: Array, epsilon: float) -> float:
    """Algorithms 3 and 4 as printed: max over records of the min over all quilts of card(N)/(epsilon - influence).

    ``left[i, a]`` and ``right[i, b]`` are the influences of record i (from 1) on an end a before and b behind it, one
    more axis for pairs of values; the influence of a quilt is the largest sum over pairs.
    """
    worst = 0.0
    for i in range(1, RECORDS + 1):
        sizes, influences = [RECORDS], [0.0]
        before, behind = range(1, i), range(1, RECORDS - i + 1)
        for a in before:
            sizes.append(RECORDS - i + a)
            influences.append(left[i, a].max())
        for b in behind:
            sizes.append(i + b - 1)
            influences.append(right[i, b].max())
        if before and behind:
            both = left[i, 1:i, None] + right[i, None, 1 : RECORDS - i + 1]
            influences += both.max(axis=-1).ravel().tolist()
            sizes += [a + b - 1 for a in before for b in behind]
        room = epsilon - np.array(influences)
        with np.errstate(divide="ignore"):
            worst = max(worst, float(np.where(room > 0, np.array(sizes) / np.where(room > 0, room, 1), np.inf).min()))
    return worst


def exact_influences(p0: float, p1: float) -> tuple[Array, Array]:
    """Equation (5) for any start (Appendix C.4), for both pairs of values of a two-state chain."""
    powers = [np.eye(2)]
    for _ in range(RECORDS):
        powers.append(powers[-1] @ np.array([[p0, 1 - p0], [1 - p1, p1]]))
    pairs = ((0, 1), (1, 0))
    left, right = np.zeros((RECORDS + 1, RECORDS + 1, 2)), np.zeros((RECORDS + 1, RECORDS + 1, 2))
    for n, (x, other) in enumerate(pairs):
        ends = [0.0] + [math.log((powers[b][x] / powers[b][other]).max()) for b in range(1, RECORDS + 1)]
        begins = [0.0] + [math.log((powers[a][:, x] / powers[a][:, other]).max()) for a in range(1, RECORDS + 1)]
        for i in range(1, RECORDS + 1):
            right[i, :, n] = ends
            prior = math.log((powers[i - 1][:, other] / powers[i - 1][:, x]).max()) if i > 1 else 0.0
            left[i, :, n] = np.array(begins) + prior
    return left, right


@pytest.mark.parametrize(("alpha", "epsilon"), [(0.2, 1.0), (0.4, 0.2), (0.1, 5.0)])
def test_the_quilt_mechanism_over_a_class_is_the_papers(alpha: float, epsilon: float) -> None:
    """The paper's algorithm on chains all over the class; the corners are among them."""
    stays = (alpha, 0.5, 1 - alpha)
    noises = [markov_quilt_noise(*exact_influences(p0, p1), epsilon) for p0, p1 in itertools.product(stays, stays)]
    ours = noise_multiplier(share_of_ones(interval(alpha), epsilon), "quilt-exact")
    assert ours == pytest.approx(max(noises), rel=1e-9)


@pytest.mark.parametrize("alpha", [0.1, 0.25, 0.4])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_the_approximation_over_a_class_is_the_papers(alpha: float, epsilon: float) -> None:
    """Lemma C.1 by a loop over all quilts, with its printed formula."""
    with np.errstate(invalid="ignore", divide="ignore"):
        far = np.exp(-4 * alpha * np.arange(RECORDS + 1) / 2)
        odds = np.where(far < alpha, np.log((alpha + far) / (alpha - far)), np.inf)
    right = np.broadcast_to(odds, (RECORDS + 1, RECORDS + 1))[..., None]
    assert published_approx(alpha, epsilon) == pytest.approx(markov_quilt_noise(2 * right, right, epsilon), rel=1e-9)


@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.4])
def test_no_chain_of_a_class_mixes_more_slowly_than_its_gap(alpha: float) -> None:
    least, slowest = [], []
    for p0, p1 in itertools.product(np.linspace(alpha, 1 - alpha, 21), repeat=2):
        chain = MarkovChain(transition=np.array([[p0, 1 - p0], [1 - p1, p1]]))
        least.append(chain.stationary.min())
        slowest.append(2 * (1 - abs(p0 + p1 - 1)))
    gap = class_gap(alpha)
    assert (gap.least, gap.gap) == (pytest.approx(min(least)), pytest.approx(min(slowest)))


def test_the_synthetic_figure_has_the_numbers_of_the_notes() -> None:
    result = figure_4(Setting(), epsilons=(1.0, 5.0), alphas=(0.2,))
    for epsilon, around in ((1.0, 1), (5.0, 0.2)):
        assert row_of(result, epsilon=epsilon)["group"] == pytest.approx(around)  # the text of the paper
    at_one = row_of(result, epsilon=1.0)
    assert at_one["paper"] == pytest.approx(0.14215224, abs=5e-9)
    assert at_one["odds"] == pytest.approx(0.03961264, abs=5e-9)
    for row in result.rows:
        assert row["least"] <= row["ours"] <= row["odds"]
        assert row["paper"] <= row["approx"] <= row["group"]


def test_noise_below_the_least_leaks_more_than_is_guaranteed() -> None:
    """The column says that one chain of the class needs so much: a tenth less breaks the guarantee on it."""
    from pufferdp.assess.dp import leakage_of

    row = row_of(figure_4(Setting(), epsilons=(1.0,), alphas=(0.3,)))
    chain = MarkovChain(transition=np.array([[0.7, 0.3], [0.3, 0.7]]))
    for share, keeps in ((1.0, True), (0.9, False)):
        loss = 1 / (row["least"] * RECORDS * share)
        leaked = leakage_of(chain, dp_epsilon=loss, length=RECORDS, query="count:1", adversary="pufferfish").exact
        assert leaked is not None
        assert (leaked <= 1) is keeps


# ---- the tables ----


def test_errors_are_expectations_of_the_noise() -> None:
    """Three bins, each with Laplace noise of scale 2·sigma/T, drawn often: a standard error of 1/sqrt(3·20000)."""
    chain = MarkovChain(transition=np.array([[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]))
    problem = histogram_of(chain, ((300, 1), (200, 2)), 1.0)
    sigma = noise_multiplier(problem, "curve-tight")
    assert sigma is not None
    error = laplace_error(problem, sigma)
    assert error == pytest.approx(3 * 2 * sigma / 700)
    drawn = np.abs(np.random.default_rng(17).laplace(scale=2 * sigma / 700, size=(20_000, 3))).sum(axis=1).mean()
    assert abs(drawn / error - 1) < 4 / math.sqrt(60_000)
    assert laplace_error(problem, None) is None
    assert expected_error(chain, [((300, 1), (200, 2))], 1.0, "curve-tight") == error
    assert expected_error(chain, [((300, 1),)], 1.0, "gk16") is None
    assert whole_person_error(chain, [((10, 2),), ((5, 1), (15, 1)), ((10, 1),)], 2.0) == pytest.approx(3 * 20 / 50)


def test_group_privacy_of_the_papers_table_counts_every_move_twice() -> None:
    """51 bins with noise 2/epsilon each, 20 trials: four standard deviations. Half the noise would be far away."""
    for epsilon in (0.2, 1.0, 5.0):
        spread = 2 / epsilon * math.sqrt(51 / 20)
        assert abs(TABLE_3[epsilon, "GroupDP"] - 51 * 2 / epsilon) < 4 * spread < 51 / epsilon


def test_what_the_text_says_of_the_tables() -> None:
    for task, groups in itertools.product(("aggregate", "individual"), range(3)):
        printed = [TABLE_1[task, name][groups] for name in ("MQMExact", "MQMApprox", "GroupDP")]
        assert printed == sorted(printed)
    assert TABLE_3[0.2, "MQMExact"] / 51 == pytest.approx(0.0025, abs=5e-5)  # 0.25 percent a bin
    assert TABLE_3[1.0, "MQMExact"] / 51 == pytest.approx(0.0004, abs=5e-5)
    assert TABLE_2["electricity", "MQMExact"] < 5 * 60
    assert TABLE_2["synthetic", "MQMApprox"] < TABLE_2["synthetic", "GK16"] < TABLE_2["synthetic", "MQMExact"]


@pytest.mark.slow
def test_times_are_measured() -> None:
    result = result_of("song-table-2")
    assert len(result.rows) == 12
    for row in result.rows:
        assert row["ours"] > 0
        unit = row_of(result, data=row["data"], mechanism="MQMApprox")["ours"]
        assert row["ratio"] == pytest.approx(row["ours"] / unit)
    assert row_of(result, data="synthetic", mechanism="GK16")["applies"] == "1 of 4"
    assert row_of(result, data="electricity", mechanism="ours: tight")["applies"] == "1 of 1"
    assert row_of(result, data="electricity", mechanism="MQMExact")["paper_ratio"] == pytest.approx(4977.6, abs=0.1)
