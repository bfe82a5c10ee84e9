"""A model compared with data: what is stored, what is left out, and what a release makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pufferdp import Ar1, MarkovChain, MarkovClass, check, fit, load_model, plan, release, verify
from pufferdp.basics.errors import DataError, ModelError, ParameterError, QueryError, RefusedError
from pufferdp.publish.fits.ar1 import Ar1Likelihood, _Series
from pufferdp.publish.fits.effective import Observations
from pufferdp.publish.model_checks import ModelChecks
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
    later = np.array([[0.8, 0, 0.2, 0], [0, 0.99, 0.005, 0.005], [0.1, 0.05, 0.85, 0], [0, 0.02, 0, 0.98]])
    data = NAMES[np.concatenate([simulate(STAYS, 4_000, 5), simulate(later, 4_000, 6)])]
    codes = (data[4_000:] == "on").astype(int)
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
    with pytest.raises(ModelError, match="compares models of a series"):
        check(stays, {"type": "groups", "largest": 4}, **READ)


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


@pytest.mark.slow
def test_of_a_list_of_models_the_worst_counts(stays: pd.DataFrame, chain: MarkovChain, tmp_path: Path) -> None:
    """The noise is planned for the list, so one list may keep what one of its models does not."""
    slow = replace(chain, transition=[[0.99, 0.01], [0.01, 0.99]])
    alone = check(stays, chain, "count:off", **READ).effective
    both = check(stays, MarkovClass(models=(slow, chain)), "count:off", **READ)
    assert len(both.members) == 2
    assert both.effective == max(both.members, key=lambda member: member.largest)
    assert alone.scale is not None
    assert both.effective.scale is not None
    assert both.effective.scale > 1.5 * alone.scale
    assert both.effective.largest < alone.largest
    assert "model  estimated leakage  proven at least" in str(both)
    both.save(tmp_path / "checked.json")
    assert ModelChecks.of(load_model(tmp_path / "checked.json")).effective == both.effective


def test_a_list_with_one_bad_model_is_refused(stays: pd.DataFrame, chain: MarkovChain) -> None:
    """Whichever place the model has that the data contradict."""
    bad = check(stays, chain, "count:off", **READ).model
    good = replace(chain, checks={"effective_leakage": {"estimate": 1.0, "proven": 0.5}})
    for models in ((good, bad), (bad, good)):
        with pytest.raises(RefusedError, match="the data contradict the model"):
            release(stays, model=MarkovClass(models=models), query="count:on", epsilon=1.0, **READ)


def ar1_numbers(coefficient: float, seed: int, records: int = 1_000) -> pd.DataFrame:
    """An AR(1) series of mean 50."""
    noise = np.random.default_rng(seed).normal(size=records)
    numbers = [0.0]
    for each in noise[1:]:
        numbers.append(coefficient * numbers[-1] + each)
    return pd.DataFrame({"minute": np.arange(records), "rate": 50 + np.array(numbers)})


NUMBERS: dict[str, Any] = {"column": "rate", "order": "minute"}


@pytest.mark.slow
def test_the_coefficient_of_an_ar1_series_is_tested() -> None:
    """The level is 0.01: of 200 series of the model at most 6 are rejected, with probability 0.996."""
    model = Ar1(coefficient=0.6, step=1)
    rejected = 0
    for seed in range(200):
        numbers = ar1_numbers(0.6, seed, 300)["rate"].to_numpy()
        steps = np.concatenate([[-1.0], np.ones(299)])
        rejected += float(Ar1Likelihood.of([_Series(numbers, steps)]).test(0.6).p_value or 0) < 0.01
    assert rejected <= 6
    found = check(ar1_numbers(0.6, 2), model, **NUMBERS)
    assert [test.name for test in found.tests] == ["coefficient", "second-order", "shape", "drift", "variance"]
    assert all(test.holds for test in found.tests)
    assert not found.rejected
    assert "AR(1) series" in found.sentence
    other = {test.name: test.holds for test in check(ar1_numbers(0.75, 2), model, **NUMBERS).tests}
    assert other["coefficient"] is False
    assert other["shape"]
    among = check(ar1_numbers(0.75, 2), Ar1(coefficient=(0.6, 0.8)), **NUMBERS)
    assert among.tests[0].holds
    release(ar1_numbers(0.6, 1), model=found.model, query="mean", clip=(40, 60), epsilon=1.0, **NUMBERS)


def test_bad_requests_of_ar1_series() -> None:
    with pytest.raises(ParameterError, match="query is 'mean'"):
        check(ar1_numbers(0.6, 1), Ar1(coefficient=0.6), "mean", **NUMBERS)
    with pytest.raises(DataError, match=r"step of 0\.5"):
        check(ar1_numbers(0.6, 1), Ar1(coefficient=0.6, step=0.5), missing="keep", **NUMBERS)
