"""Quantiles, transitions and cross tables through a release itself: what is read, guaranteed, certified and charged."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest

from pufferdp import Ledger, MarkovChain, fit, verify
from pufferdp.basics.errors import DataError, QueryError
from pufferdp.bounds.curves import curve
from pufferdp.publish.noise import SeededSampler
from pufferdp.publish.release import release
from tests.oracles.leakage import channel_leakage, likelihoods, path_distribution
from tests.oracles.selection import choice_distribution, rank_scores

QUIET = 1e6
"""An epsilon at which the noise is nothing: what is released is what was read."""
VALUED = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]], states=["low", "high"], values=[10, 40])
BINNED = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]], states=["0..10", "20..40"], bins=[0, 10, 20, 40])
"""Leaves a bin out: its second state is the third bin."""


class Recorder(SeededSampler):
    """A seeded sampler that remembers what it was asked for: the exact scores and counts, and the scales."""

    def __init__(self) -> None:
        super().__init__(1)
        self.asked: list[tuple[list[int], float]] = []

    def noisy_least(self, scores: list[int], scale: float) -> int:
        self.asked.append((scores, scale))
        return super().noisy_least(scores, scale)

    def discrete_laplace(self, exact: list[int], scale: float) -> list[int]:
        self.asked.append((exact, scale))
        return super().discrete_laplace(exact, scale)


def frame(values: list[Any], name: str = "x", **more: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"t": range(len(values)), name: values, **more})


def released(data: pl.DataFrame, model: MarkovChain, query: Any, epsilon: float = QUIET, **more: Any) -> Any:
    request = {"column": "x", "order": "t", "sampler": SeededSampler(1), **more}
    return release(data, model=model, query=query, epsilon=epsilon, **request)


def numbers(release: Any) -> dict[str, Any]:
    (row,) = release.table.rows
    return dict(zip(release.table.columns, row, strict=True))


def test_every_question_has_one_numbering_where_a_bin_is_left_out():
    data = frame([5.0, 5.0, 30.0, 5.0, 30.0, 30.0, 30.0])
    questions = ["median", "quantile:.1,.9", "transitions", "histogram"]
    found = numbers(released(data, BINNED, questions))
    assert (found["median"], found["quantile:0.1"], found["quantile:0.9"]) == (20.0, 0.0, 20.0)
    assert (found["histogram:0..10"], found["histogram:20..40"]) == (3, 4)
    assert [found[f"transitions:{a}>{b}"] for a in BINNED.labels for b in BINNED.labels] == [1, 2, 1, 2]
    with pytest.raises(DataError, match="leaves out"):
        released(frame([5.0, 15.0, 30.0]), BINNED, "median")


def test_numbers_of_the_data_with_a_clip():
    data = frame([1.0, 2.0, 39.0, 9.0, 22.0, 27.0, 33.0])
    found = numbers(released(data, BINNED, ["median", "quantile:.99"], clip=(0, 40)))
    assert found["median"] == pytest.approx(22.0)
    assert found["quantile:0.99"] == pytest.approx(39.0)
    release = released(data, BINNED, "median", clip=(0, 40))
    assert any("inside its bin" in member for member in release.certificate.to_dict()["data"]["assumptions"])
    # Clipped, so that one number far out is at the end of the range.
    assert numbers(released(data, BINNED, "quantile:.99", clip=(0, 10)))["quantile:0.99"] == 10.0


def test_groups_holes_and_borders():
    model = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]], states=["a", "b"])
    data = frame(["a", "b", None, "a", "a", "b", "b", "a"], g=["u", "u", "u", "u", "v", "v", "v", "v"])
    release = released(data, model, "transitions", per="g", missing="keep", epsilon=QUIET)
    by_group = {row[0]: row[2:] for row in release.table.rows}
    # u: a>b, then an unobserved step, and an a whose neighbour is in v; v: a>b, b>b, b>a. In the order aa, ab, ba, bb.
    assert by_group == {"u": (0, 1, 0, 0), "v": (0, 1, 1, 1)}


def test_guarantee_by_enumeration_through_a_release():
    """The scale that a release draws with, on a chain whose every series is listed: quantile and transitions."""
    epsilon, records = 1.5, 4
    distribution = path_distribution(VALUED.transition, VALUED.stationary, records)
    series = [tuple(path) for path in np.ndindex((2,) * records)]
    data = frame(["low", "high", "high", "low"])
    sampler = Recorder()
    released(data, VALUED, "median", epsilon, sampler=sampler)
    ((scores, scale),) = sampler.asked
    assert scores == [0, 0]  # two of four are low: both values are medians
    channel = np.array(
        [choice_distribution(rank_scores([(10, 40)[s] for s in path], (10, 40), 0.5), scale) for path in series]
    )
    assert channel_leakage(distribution, channel.reshape((2,) * records + (2,)), "bdp") <= epsilon
    release = released(data, VALUED, "transitions", epsilon)
    scale = release.certificate.to_dict()["questions"][0]["noise"]["scale"]
    pairs = np.zeros((len(series), 4))
    for n, path in enumerate(series):
        for a, b in itertools.pairwise(path):
            pairs[n, 2 * a + b] += 1
    shown = likelihoods(pairs.reshape((2,) * records + (4,)), scale)
    assert channel_leakage(distribution, shown, "bdp") <= epsilon
    assert scale == pytest.approx(4 / curve("tight", VALUED, records, "bdp").inverse(epsilon), rel=1e-9)


def test_less_noise_than_a_release_draws_breaks_its_guarantee():
    """Independent records: transitions leak all of their DP loss to somebody who knows the others."""
    model, epsilon = MarkovChain(transition=[[0.5, 0.5], [0.5, 0.5]], states=["a", "b"]), 0.7
    release = released(frame(["a", "b", "a"]), model, "transitions", epsilon, adversary="dp")
    scale = release.certificate.to_dict()["questions"][0]["noise"]["scale"]
    distribution, exact = path_distribution(model.transition, [0.5, 0.5], 3), np.zeros((2, 2, 2, 4))
    for path in np.ndindex(2, 2, 2):
        for a, b in itertools.pairwise(path):
            exact[*path, 2 * a + b] += 1
    assert channel_leakage(distribution, likelihoods(exact, scale), "dp") == pytest.approx(epsilon, rel=1e-6)
    assert channel_leakage(distribution, likelihoods(exact, 0.9 * scale), "dp") > epsilon * 1.1


def test_split_among_questions():
    release = released(frame(["low", "high"] * 20), VALUED, ["median", "transitions", "min"], 1.0, split=(1, 2, 1))
    certificate = release.certificate.to_dict()
    losses = [question["dp_loss"] for question in certificate["questions"]]
    assert losses[1] == pytest.approx(2 * losses[0])
    assert sum(losses) <= certificate["dp_loss"] * (1 + 1e-15)
    assert [question["accuracy"]["about"] for question in certificate["questions"]] == ["ranks", "counts", "ranks"]
    assert verify(certificate).valid


def test_charged_with_other_questions_on_the_same_records(tmp_path):
    ledger = Ledger(tmp_path / "l.db", create=True)
    ledger.create("d", budget=4.0, model=VALUED)
    data = frame(["low", "high"] * 20)
    for query in ("median", "transitions", ["max", "histogram"]):
        certificate = released(data, VALUED, query, 1.0, ledger=ledger, dataset="d").certificate.to_dict()
        assert verify(certificate).valid
    loss = curve("tight", VALUED, 40, "bdp").inverse(1.0)
    assert ledger.dataset("d").spent_dp == pytest.approx(3 * loss, rel=1e-6)
    assert ledger.verify().valid


def test_cross_table_of_two_columns(tmp_path):
    moods, places = ["good", "bad", "good"] * 20, ["home", "home", "work", "work"] * 15
    data = pl.DataFrame({"t": range(60), "mood": moods, "place": places})
    model = fit(data, column=("mood", "place"), order="t", checks=False).model
    release = released(data, model, "cross", column="mood,place", adversary="dp")
    found = numbers(release)
    for mood in ("good", "bad"):
        for place in ("home", "work"):
            true = sum((m, p) == (mood, place) for m, p in zip(moods, places, strict=True))
            assert found[f"cross:{mood}|{place}"] == true
    certificate = release.certificate.to_dict()
    assert certificate["data"]["column"] == "mood,place"
    assert verify(certificate).valid
    single = fit(data, column="mood", order="t", checks=False).model
    with pytest.raises(QueryError, match="nothing of the other"):
        released(data, single, "cross", column="mood")
    with pytest.raises((QueryError, DataError), match=r"about pairs|nothing of the other"):
        released(data, single, "cross", column="mood,place")


def test_models_without_numbers():
    model = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]], states=["a", "b"])
    with pytest.raises(QueryError, match=r"give clip=\(A, B\)"):
        released(frame(["a", "b"]), model, "median")
