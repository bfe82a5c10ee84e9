"""Fitting: chains from counts, and classes that contain the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pufferdp import DataError, MarkovInterval, ParameterError, fit
from pufferdp.publish.fits.bounds import confidence_box
from pufferdp.publish.noise import SeededSampler


def walk(generator, P, T, start=0):
    path = [start]
    for _ in range(T - 1):
        path.append(int(generator.choice(len(P), p=P[path[-1]])))
    return path


def moves_of(path, k):
    counts = np.zeros((k, k), dtype=np.int64)
    np.add.at(counts, (path[:-1], path[1:]), 1)
    return counts


def test_a_chain_is_its_relative_transition_counts():
    path = walk(np.random.default_rng(2), np.array([[0.8, 0.2], [0.5, 0.5]]), 500)
    fitted = fit(pd.DataFrame({"s": path}), column="s")
    counts = moves_of(path, 2)
    assert fitted.model.transition == pytest.approx(counts / counts.sum(axis=1, keepdims=True))
    assert fitted.model.labels == ("0", "1")
    assert set(fitted.model.fitted) == {"column", "records", "chains", "left_out"}  # and nothing of the data itself


def test_a_state_that_is_never_left_is_left_out_and_said():
    fitted = fit(pd.DataFrame({"s": ["a", "b", "a", "a", "b", "a", "end"]}), column="s")
    assert fitted.left_out == ("end",)
    assert fitted.model.labels == ("a", "b")
    with pytest.raises(DataError, match="at least one move"):
        fit(pd.DataFrame({"s": ["a"]}), column="s")


def test_bins_by_width():
    fitted = fit(pd.DataFrame({"x": [10, 250, 30, 260, 40, 950, 20, 10]}), column="x", bins="width:200")
    assert fitted.model.labels == ("0..200", "200..400", "800..1000")
    assert fitted.unvisited == ("400..600", "600..800")
    with pytest.raises(ParameterError, match="computed from the data"):
        fit(pd.DataFrame({"x": [1, 2, 1]}), column="x", bins="quantile:4")


def test_people_are_not_joined():
    frame = pd.DataFrame({"who": ["a", "a", "b", "b"], "t": [0, 1, 0, 1], "s": ["x", "y", "x", "y"]})
    with pytest.raises(DataError, match="at least one move"):
        fit(frame.assign(s=["x", "y", "z", "w"]), column="s", order="t", by="who")


@pytest.mark.parametrize("T", [15, 60, pytest.param(400, marks=pytest.mark.slow)])
def test_the_box_contains_the_truth_with_its_confidence(T):
    """400 simulated paths a length. At 90 % coverage fewer than 340 hits have probability below 1e-3; Ville's bound

    makes the true coverage higher still. Stopping when the path reaches a state that suits it must not help.
    """
    generator = np.random.default_rng(T)
    P = np.array([[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.3, 0.3, 0.4]])
    hits, trials = 0, 400
    for _ in range(trials):
        moves = moves_of(walk(generator, P, T), 3)
        rows = moves.sum(axis=1) > 0
        if not rows.all():
            moves = moves + np.diag((~rows).astype(np.int64))  # a row without data says nothing; give it one move
        low, high = confidence_box(moves, 0.9)
        inside = (low <= P) & (high >= P)
        hits += bool(inside[rows].all())
    assert hits >= 340


def test_the_box_is_not_vacuous():
    path = walk(np.random.default_rng(5), np.array([[0.8, 0.2], [0.5, 0.5]]), 5000)
    model = fit(pd.DataFrame({"s": path}), column="s", confidence=0.95).model
    assert isinstance(model, MarkovInterval)
    assert (model.high - model.low).max() < 0.12
    assert model.fitted["confidence"] == 0.95
    wider = fit(pd.DataFrame({"s": path}), column="s", confidence=0.999).model
    assert ((wider.low <= model.low) & (wider.high >= model.high)).all()


def test_a_prior_gives_every_state_a_row_and_is_said():
    seen = pd.DataFrame({"s": ["a", "b", "a", "b", "c"]})
    fitted = fit(seen, column="s", states=["a", "b", "c", "d"], prior=0.5)
    counts = moves_of([0, 1, 0, 1, 2], 4) + 0.5
    assert fitted.model.transition == pytest.approx(counts / counts.sum(axis=1, keepdims=True))
    assert fitted.model.labels == ("a", "b", "c", "d")
    assert fitted.left_out == ()
    assert fitted.model.fitted["prior"] == 0.5
    assert "Added to every transition count: 0.5." in str(fitted)
    alone = fit(pd.DataFrame({"s": ["a"]}), column="s", prior=1.0)
    assert alone.model.transition.tolist() == [[1.0]]
    assert "prior" not in fit(seen, column="s").model.fitted


@pytest.mark.parametrize("prior", [0.0, -0.5, np.nan, np.inf, "much"])
def test_a_prior_is_a_number_above_zero(prior):
    with pytest.raises(ParameterError, match="prior is"):
        fit(pd.DataFrame({"s": ["a", "b", "a"]}), column="s", prior=prior)


def test_a_prior_and_a_confidence_do_not_go_together():
    with pytest.raises(ParameterError, match="leave out the prior or the confidence"):
        fit(pd.DataFrame({"s": ["a", "b", "a"]}), column="s", prior=0.5, confidence=0.95)


def test_a_prior_is_added_to_noisy_counts():
    """It is public, so it costs nothing and hides nothing: rows are those of counts above 0, and the prior."""
    seen = pd.DataFrame({"s": ["a", "b"] * 200})
    drawn = [
        fit(seen, column="s", states=["a", "b", "c"], dp_epsilon=1.0, prior=prior, sampler=SeededSampler(7)).model
        for prior in (1e-9, 2.0)
    ]
    assert drawn[0].fitted["dp_epsilon"] == drawn[1].fitted["dp_epsilon"] == 1.0
    assert (drawn[1].transition > 0.001).all()
    assert drawn[1].labels == ("a", "b", "c")
