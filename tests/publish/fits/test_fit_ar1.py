"""Fits of series of numbers: the likelihood against matrices, the coverage of the interval, steps, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

from pufferdp import Ar1, DataError, ParameterError, fit, release
from pufferdp.publish.fits.ar1 import Ar1Likelihood, _Series
from pufferdp.publish.model_checks import FITTED


def drawn(phi, n, rng, mean=70.0, sd=8.0):
    noise = rng.normal(size=n)
    noise[1:] *= np.sqrt(1 - phi**2)
    return mean + sd * lfilter([1], [1, -phi], noise)


def frame(numbers, freq="min"):
    return pd.DataFrame({"time": pd.date_range("2024-05-01", periods=len(numbers), freq=freq), "bpm": numbers})


DAY = frame(drawn(0.9, 1440, np.random.default_rng(1)))
READ = {"column": "bpm", "order": "time", "family": "ar1"}


def by_matrices(phi, numbers, places):
    """log L with the correlation matrix written out."""
    gaps = np.abs(np.subtract.outer(places, places))
    inverse, ones = np.linalg.inv(phi**gaps), np.ones(len(places))
    weight = ones @ inverse @ ones
    mean = ones @ inverse @ numbers / weight
    square = (numbers - mean) @ inverse @ (numbers - mean)
    return -(np.linalg.slogdet(phi**gaps)[1] + np.log(weight) + (len(places) - 1) * np.log(square)) / 2


@pytest.mark.parametrize("places", [range(8), [0, 1, 2, 5, 6, 9, 10, 30], [0, 2, 4, 7, 8, 9, 11, 12]])
def test_the_likelihood_is_that_of_the_matrix(places):
    rng, places = np.random.default_rng(3), np.array(places)
    first, second = rng.normal(size=8), 50 + 3 * rng.normal(size=5)
    steps = np.diff(places, prepend=-1).astype(float)
    both = Ar1Likelihood.of([_Series(first, steps), _Series(second, np.ones(5)), _Series(np.ones(1), np.ones(1))])
    phis = np.array([-0.95, -0.3, 0.0, 0.2, 0.9, 0.999])
    literal = np.array([by_matrices(p, first, places) + by_matrices(p, second, np.arange(5)) for p in phis])
    shifts = both.log(phis) - literal  # numbers are scaled, which adds a constant
    assert shifts == pytest.approx(shifts[0], abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("phi", "n", "unobserved"), [(0.97, 150, 0.2), (-0.7, 60, 0.3)])
def test_intervals_contain_the_truth_as_often_as_they_say(phi, n, unobserved):
    """Of 400 fits that fail one time in ten, 63 or more do with a probability of 3e-4, 18 or fewer with one of 5e-5."""
    rng, failed = np.random.default_rng(17), 0
    for _ in range(400):
        kept = np.flatnonzero(rng.random(n) >= unobserved)
        steps = np.diff(kept, prepend=-1).astype(float)
        low, high = Ar1Likelihood.of([_Series(drawn(phi, n, rng)[kept], steps)]).interval(0.9)
        failed += not low <= phi <= high
    assert 18 < failed < 63


def test_a_day_of_minutes():
    model = fit(DAY, **READ).model
    assert isinstance(model, Ar1)
    assert model.single
    assert model.coefficient == pytest.approx(0.9, abs=0.03)
    assert model.sd == pytest.approx(8, abs=1.5)
    assert model.mean == pytest.approx(70, abs=4)
    assert model.step == "1min"
    wide = fit(DAY, confidence=0.95, **READ).model
    low, high = wide.coefficients
    assert low < model.coefficient < high
    assert high - low < 5 * np.sqrt((1 - model.coefficient**2) / 1440)
    assert wide.fitted["confidence"] == 0.95
    more = fit(DAY, confidence=0.999, **READ).model.coefficients
    assert more[0] < low < high < more[1]


def test_the_unit_does_not_matter():
    other = DAY.assign(bpm=1e6 + DAY["bpm"] / 60)
    assert fit(other, **READ).model.coefficient == pytest.approx(fit(DAY, **READ).model.coefficient, abs=1e-6)


def test_a_step_across_a_hole_is_no_single_step():
    """Every second record of a chain of steps of its own: two steps between most, and the coefficient is the same."""
    rng = np.random.default_rng(4)
    numbers = frame(drawn(0.9, 4000, rng))
    pieces = pd.concat([numbers[n : n + 40] for n in range(0, 4000, 100)])
    found = fit(pieces, missing="keep", **READ).model.coefficient
    assert found == pytest.approx(0.9, abs=0.03)
    absent = numbers.assign(bpm=numbers["bpm"].where(np.arange(4000) % 10 < 4))
    assert fit(absent, missing="keep", **READ).model.coefficient == pytest.approx(0.9, abs=0.03)


def test_people_have_means_of_their_own():
    rng = np.random.default_rng(6)
    people = pd.concat([frame(drawn(0.5, 400, rng, mean=100 * n)).assign(who=f"p{n}") for n in range(4)])
    assert fit(people, by="who", **READ).model.coefficient == pytest.approx(0.5, abs=0.1)
    assert fit(people, by="who", **READ).model.fitted["chains"] == 4


def test_steps_of_other_units_and_of_rows():
    assert fit(frame(DAY["bpm"], "5s"), **READ).model.step == "5s"
    numbered = DAY.assign(time=np.arange(1440) * 0.5)
    assert fit(numbered, **READ).model.step == 0.5
    assert fit(DAY, column="bpm", order="rows", family="ar1").model.step is None


def test_a_certificate_says_the_same_of_the_fit_whatever_the_data():
    model = fit(DAY, **READ).model
    asked = {"column": "bpm", "order": "time", "query": "mean", "clip": (40, 180), "epsilon": 1}
    own, other = (release(data, model=model, **asked).certificate for data in (DAY, DAY[:700]))
    assert own.warnings == other.warnings == [FITTED]


@pytest.mark.parametrize(
    ("data", "more", "error", "words"),
    [
        (frame([70.0] * 50), {}, DataError, "are the same"),
        (DAY[:15], {}, DataError, "14 pairs"),
        (DAY[:1], {}, DataError, "no two numbers"),
        (DAY, {"column": "time", "order": None}, DataError, "time"),
        (frame(np.cumsum(np.random.default_rng(2).normal(size=500))), {"confidence": 0.95}, DataError, "wanders off"),
        (frame(np.arange(50.0)), {}, DataError, "wanders off"),
        (DAY, {"bins": "0,50,100"}, ParameterError, "bins is given"),
        (DAY, {"dp_epsilon": 1.0}, ParameterError, "a private fit is for chains"),
        (DAY, {"start": "any"}, ParameterError, "start is given"),
        (DAY, {"restart": "8h"}, ParameterError, "restart is '8h'"),
        (DAY, {"confidence": 1.5}, ParameterError, "confidence"),
    ],
)
def test_refusals(data, more, error, words):
    with pytest.raises(error, match=words):
        fit(data, **{**READ, **more})


def test_times_off_the_step_are_refused():
    jitter = DAY.assign(time=DAY["time"] + pd.to_timedelta((np.arange(1440) % 7 == 3) * 13, unit="s"))
    with pytest.raises(DataError, match="usual step is 1min"):
        fit(jitter, **READ)
