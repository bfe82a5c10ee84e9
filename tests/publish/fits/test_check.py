"""A model compared with data: what is stored, what is left out, and what a release makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pufferdp import MarkovChain, MarkovClass, check, fit, load_model, plan, release, verify
from pufferdp.basics.errors import ModelError, ParameterError, QueryError, RefusedError
from pufferdp.publish.fits.effective import Observations
from tests.publish.fits.test_effective_leakage import TWO, simulate

STAYS = np.array([[0.6, 0.0, 0.4, 0.0], [0.0, 0.98, 0.01, 0.01], [0.3, 0.1, 0.6, 0.0], [0.0, 0.05, 0.0, 0.95]])
"""Short stays and long stays in each of two states, which a chain of first order takes for one kind."""
NAMES = np.array(["off", "off", "on", "on"])


def frame(states: Any) -> pd.DataFrame:
    return pd.DataFrame({"minute": np.arange(len(states)), "state": states})


READ: dict[str, Any] = {"column": "state", "order": "minute"}


@pytest.fixture(scope="module")
def stays() -> pd.DataFrame:
    return frame(NAMES[simulate(STAYS, 20_000, 2)])


@pytest.fixture(scope="module")
def chain(stays: pd.DataFrame) -> MarkovChain:
    codes = (stays["state"] == "on").to_numpy().astype(int)
    moves = np.zeros((2, 2))
    np.add.at(moves, (codes[:-1], codes[1:]), 1)
    return MarkovChain(transition=moves / moves.sum(axis=1, keepdims=True), states=("off", "on"), step=1)


def test_a_wrong_model_is_found_and_stops_a_release(stays: pd.DataFrame, chain: MarkovChain, tmp_path: Path) -> None:
    found = check(stays, chain, "count:off", **READ)
    effective = found.effective
    assert effective.proven is not None
    assert effective.estimate is not None
    assert effective.estimate > effective.proven > 1.25
    assert effective.z is not None
    assert effective.z > 2
    assert effective.blocks == 48
    assert found.rejected
    assert "Rejected" in str(found)
    assert len(found.to_frame()) == 3
    found.save(tmp_path / "checked.json")
    stored = load_model(tmp_path / "checked.json")
    assert stored.checks == found.model.checks
    with pytest.raises(RefusedError, match=r"hidden, [23] a value"):
        release(stays, model=stored, query="count:on", epsilon=1.0, **READ)


def test_calibration_widens_the_noise_until_the_estimate_fits(stays: pd.DataFrame, chain: MarkovChain) -> None:
    found = check(stays, chain, "count:off", calibrate="data", **READ)
    assert found.factor > 1.25
    assert found.widened is not None
    assert found.widened.estimate is not None
    assert found.widened.estimate <= 1
    assert not found.rejected
    made = release(stays, model=found.model, query="count:off", epsilon=1.0, **READ)
    narrow = plan(chain, "count:off", epsilon=1, length=len(stays)).best.calibration
    assert narrow is not None
    assert made.certificate.noise.scale > 1.25 * narrow.scale
    assert verify(made, model=found.model).valid


def test_a_model_that_predicts_as_well_as_a_richer_one_from_older_data() -> None:
    """The data change: hidden states of the first half predict the second no better than a chain fitted on it."""
    later = np.array([[0.4, 0.0, 0.6, 0.0], [0.0, 0.96, 0.02, 0.02], [0.5, 0.1, 0.4, 0.0], [0.0, 0.1, 0.0, 0.9]])
    data = NAMES[np.concatenate([simulate(STAYS, 6_000, 5), simulate(later, 6_000, 6)])]
    codes = (data[6_000:] == "on").astype(int)
    moves = np.zeros((2, 2))
    np.add.at(moves, (codes[:-1], codes[1:]), 1)
    model = MarkovChain(transition=moves / moves.sum(axis=1, keepdims=True), states=("off", "on"), step=1)
    found = check(frame(data), model, "count:off", **READ).effective
    assert found.estimate is not None
    assert found.estimate > 1.25


def test_an_adversary_who_knows_the_hour() -> None:
    """Long stays by night and short ones by day: time of day is compared where there are days enough."""
    random, day = np.random.default_rng(7), 96
    stay = np.where(np.arange(day) < day // 2, 0.99, 0.5)
    codes = np.cumsum(random.random(30 * day) > np.tile(stay, 30)) % 2
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(15 * np.arange(len(codes)), unit="min")
    data = pd.DataFrame({"minute": when, "state": np.array(["off", "on"])[codes]})
    share = float((np.diff(codes) == 0).mean())
    model = MarkovChain(transition=[[share, 1 - share], [1 - share, share]], states=("off", "on"), step="15min")
    found = check(data, model, "count:off", **READ).effective
    assert found.family.endswith("by time of day")
    assert found.estimate is not None
    assert found.estimate > 1.5


def test_a_correct_model_is_not_rejected() -> None:
    data = frame([str(state) for state in simulate(np.asarray(TWO.transition), 8_000, 4)])
    found = check(data, TWO, **READ)
    assert not found.rejected
    assert found.effective.proven is not None
    assert found.effective.proven < 1
    assert found.effective.estimate is None or found.effective.estimate < 1.3
    release(data, model=found.model, query="count:1", epsilon=1.0, **READ)


def test_what_is_not_known_is_said() -> None:
    data = frame([str(state) for state in simulate(np.asarray(TWO.transition), 1_000, 4)])
    assert "1,000 records are too few to say" in check(data, TWO, **READ).sentence
    private = fit(data, **READ, states=["0", "1"], dp_epsilon=3.0)
    found = check(data, private, **READ)
    assert "left out, because the model was fitted privately" in found.sentence
    assert found.effective.proven is None


def test_bad_requests(stays: pd.DataFrame, chain: MarkovChain) -> None:
    with pytest.raises(QueryError, match="such as count:off"):
        check(stays, chain, "histogram", **READ)
    with pytest.raises(QueryError, match="such as count:off"):
        check(stays, chain, "count:unknown", **READ)
    with pytest.raises(ParameterError, match="calibrate is 'model'"):
        check(stays, chain, calibrate="model", **READ)
    with pytest.raises(ModelError, match="series of states"):
        check(stays, {"type": "groups", "largest": 4}, **READ)
    with pytest.raises(ModelError, match="list of models"):
        check(stays, MarkovClass(models=(chain, chain)), **READ)


def test_halves_and_blocks() -> None:
    """Half of the people are held out where there are many, otherwise half of the records of each person."""
    persons = np.repeat(np.arange(30), 10)
    joined = np.tile(np.arange(10) > 0, 30)
    data = Observations(codes=persons % 2, joined=joined, persons=persons, times=None)
    assert set(persons[data.held_out]) == set(range(15, 30))
    assert data.records.block_count == 30
    assert [len(run) for run in data.series] == [10] * 30
    few = replace(data, persons=persons // 15)
    assert few.held_out.tolist() == ([False] * 75 + [True] * 75) * 2
    held = few.take(few.held_out)
    assert not held.joined[0]
    days = replace(data, persons=persons * 0, times=np.arange(300) * 3 * 3_600_000_000)
    assert days.records.block_count == 38
