"""OpenDP measurements on correlated data: what their stated loss leaks, by enumeration and by the check values."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferdp
from pufferdp import Ledger, MarkovChain, verify
from pufferdp.basics.errors import (
    BudgetError,
    DeliveryError,
    MechanismError,
    NotApplicableError,
    ParameterError,
    PufferdpError,
)
from pufferdp.bounds.curves import curve
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.measurements.certificate import AUTHOR, TRUSTED
from pufferdp.publish.measurements.outside import column_values, stated_loss
from pufferdp.publish.noise import SeededSampler
from pufferdp.publish.release import release as release_measurement
from pufferdp.report.html import report_html
from tests.oracles.leakage import channel_leakage, path_distribution
from tests.strategies import chains, examples
from tests.tolerance import both_upper_ends, upper_end

dp = pytest.importorskip("opendp.prelude")
dp.enable_features("contrib", "honest-but-curious")

ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
NAMED = replace(ACTIVITY, states=("rest", "active"))
FRAME = pl.DataFrame({"t": range(60), "state": ["rest", "rest", "active"] * 20, "level": [1.0, 12.5, 30.0] * 20})
TEXTS = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()


def counts(scale: float) -> Any:
    return TEXTS >> dp.t.then_count_by_categories(["rest", "active"], null_category=False) >> dp.m.then_laplace(scale)


def own(metric: Any, measure: Any, privacy_map: Any, function: Any = len, kind: Any = str) -> Any:
    domain = dp.vector_domain(dp.atom_domain(T=kind))
    return dp.m.make_user_measurement(domain, metric, measure, function=function, privacy_map=privacy_map)


def released(measurement: Any, **changes: Any) -> Any:
    return release_measurement(
        FRAME,
        **{"measurement": measurement, "model": NAMED, "column": "state", "order": "t", "epsilon": 3.0, **changes},
    )


@pytest.mark.parametrize(
    ("metric", "moves"),
    [
        (dp.symmetric_distance(), 2),
        (dp.insert_delete_distance(), 2),
        (dp.change_one_distance(), 1),
        (dp.hamming_distance(), 1),
    ],
)
def test_one_record_that_changes_in_every_metric(metric, moves):
    stated = stated_loss(own(metric, dp.max_divergence(), lambda d: 0.1 * d))
    assert (stated.moves, stated.losses) == (moves, ((pytest.approx(0.1 * moves), 0.0),))


def test_guarantee_is_the_check_value_of_the_curve():
    # A histogram of scale 4: a record that changes is a removal and an addition, so a loss of 1/2.
    release = released(counts(4.0), adversary="bdp")
    certificate = release.certificate.to_dict()
    assert certificate["measurement"]["dp_loss"] == pytest.approx(0.5)
    assert certificate["guarantee"]["epsilon"] == upper_end(1.985846983)
    assert certificate["mechanism"]["name"] == "curve-tight"
    assert certificate["warnings"] == [AUTHOR]
    assert sum(release.answer) == pytest.approx(60, abs=200)
    assert verify(certificate).valid
    assert "states a DP loss of 0.5 for one record that changes" in str(release)
    assert "Warning: the DP loss of the measurement is what its own privacy map states; that map is trusted" in str(
        release
    )
    assert TRUSTED in certificate["guarantee"]["statement"]
    assert TRUSTED in " ".join(str(release).split())
    assert TRUSTED in report_html(release)
    boast = copy.deepcopy(certificate)
    boast["guarantee"]["statement"] = boast["guarantee"]["statement"].replace(f" {TRUSTED}", "")
    boast["sha256"] = content_hash(boast)
    assert any("guarantee.statement" in problem for problem in verify(boast).problems)
    json.dumps(release.to_dict())


def test_pairs_are_carried_over_by_theorem_three():
    # Activity, five records, target 3, value 1 against 0: (1, 1e-4) becomes (2.877654, 9.761219e-4).
    five = FRAME.head(5)
    measurement = own(dp.change_one_distance(), dp.approximate(dp.max_divergence()), lambda d: (1.0 * d, 1e-4 * d))
    changes = {"measurement": measurement, "model": NAMED, "column": "state", "order": "t", "adversary": "pufferfish"}
    release = release_measurement(five, epsilon=3.0, delta=1e-3, **changes)
    guarantee = release.certificate.to_dict()["guarantee"]
    assert guarantee["epsilon"] == pytest.approx(2.877654, abs=1e-6)
    assert guarantee["delta"] == pytest.approx(9.761219e-4, abs=1e-9)
    assert verify(release.certificate.to_dict()).valid
    with pytest.raises(NotApplicableError, match=r"leaks 2.87765 with a delta of 0.000976122"):
        release_measurement(five, epsilon=3.0, delta=9e-4, **changes)


def test_zcdp_and_profiles_agree():
    """Gaussian noise by its rho, by OpenDP's profile of the same, and by one pair of that profile."""
    counted = TEXTS >> dp.t.then_count_by_categories(["rest", "active"], null_category=False, MO="L2Distance<f64>")
    gaussian = counted >> dp.m.then_gaussian(20.0)
    smoothed = dp.c.make_zCDP_to_approxDP(gaussian)
    fixed = dp.c.make_fix_delta(smoothed, 1e-7)
    guaranteed = []
    for measurement in (gaussian, smoothed, fixed):
        certificate = released(measurement, epsilon=5.0, delta=1e-6).certificate.to_dict()
        assert certificate["guarantee"]["delta"] <= 1e-6
        assert verify(certificate).valid
        guaranteed.append(certificate["guarantee"]["epsilon"])
    # The two profiles are worked out apart, and the best pair is at least as good as any one of them.
    assert guaranteed[0] == pytest.approx(guaranteed[1], rel=1e-2)
    assert min(guaranteed[:2]) <= guaranteed[2]
    with pytest.raises(NotApplicableError, match="give one, such as 1e-6"):
        released(gaussian)


def test_approximate_zcdp_adds_its_delta():
    pure = stated_loss(own(dp.change_one_distance(), dp.zero_concentrated_divergence(), lambda d: 0.02 * d))
    both = own(dp.change_one_distance(), dp.approximate(dp.zero_concentrated_divergence()), lambda d: (0.02 * d, 1e-7))
    for (loss, delta), (other, more) in zip(pure.losses, stated_loss(both).losses, strict=True):
        assert (loss, delta + 1e-7) == (other, pytest.approx(more))


@settings(max_examples=examples(20))
@given(
    chains(most_states=3, starts=("stationary", "given")),
    st.integers(1, 4),
    st.floats(0.1, 2.0),
    st.sampled_from(["bdp", "pufferfish"]),
    st.integers(0, 2**32 - 1),
)
def test_no_measurement_leaks_more_than_guaranteed(chain, records, loss, adversary, seed):
    """Random channels with this DP loss: products of one answer a record, mixed, so that they are DP by convexity."""
    generator = np.random.default_rng(seed)
    k = chain.size
    channel = np.ones((k,) * records + (1,))
    for place in range(records):
        told = np.exp(loss * generator.integers(0, 2, (k, 2)))
        told = told / told.max(axis=0) / 2  # each output's likelihood moves by at most e^loss
        told = np.hstack([told, 1 - told.sum(axis=1, keepdims=True)])[:, :2]
        shape = [1] * records + [1, 2]
        shape[place] = k
        channel = (channel[..., None] * told.reshape(shape)).reshape((k,) * records + (-1,))
    start = chain.stationary if chain.given_start is None else chain.given_start
    distribution = path_distribution(chain.transition, start, records)
    stated = stated_loss(own(dp.change_one_distance(), dp.max_divergence(), lambda d: loss * d))
    guaranteed = stated.carried(curve("tight", chain, records, adversary), 0.0).epsilon
    assert channel_leakage(distribution, channel, adversary) <= guaranteed * (1 + 1e-9)


def test_loss_that_is_stated_too_small_guarantees_too_little():
    """A histogram on two correlated records leaks its guarantee exactly; a tenth less would not hold."""
    chain, scale = ACTIVITY, 4.0
    histogram = np.array([[[2, 0], [1, 1]], [[1, 1], [0, 2]]])
    outputs = np.array([[a, b] for a in range(-1, 4) for b in range(-1, 4)])
    channel = np.exp(-np.abs(histogram[:, :, None, :] - outputs).sum(axis=-1) / scale)
    leaks = channel_leakage(path_distribution(chain.transition, chain.stationary, 2), channel, "bdp")
    best = curve("tight", chain, 2, "bdp")
    assert leaks == pytest.approx(stated_loss(counts(scale)).carried(best, 0.0).epsilon, rel=1e-9)
    assert leaks > stated_loss(counts(scale / 0.9)).carried(best, 0.0).epsilon


def test_refused_above_the_most_that_may_be_guaranteed():
    with pytest.raises(
        NotApplicableError, match=r"loss of 0.5, which leaks 1.98\d+ here.*a loss of 0.2(49|50)\d* would fit"
    ):
        released(counts(4.0), epsilon=1.0)


def test_values_that_a_measurement_gets():
    seen: list[list[Any]] = []

    def keep(values: list[Any]) -> int:
        seen.append(list(values))
        return 0

    def measure(kind: Any, **changes: Any) -> list[Any]:
        released(own(dp.change_one_distance(), dp.max_divergence(), lambda d: 0.1 * d, keep, kind), **changes)
        return seen[-1]

    assert measure(str) == FRAME["state"].to_list()
    valued = replace(NAMED, values=(2.0, 7.0))
    assert measure(float, model=valued)[:3] == [2.0, 2.0, 7.0]
    assert measure(float, model=valued, clip=(3, 5))[:3] == [3.0, 3.0, 5.0]
    assert measure("i64", model=valued)[:3] == [2, 2, 7]
    binned = replace(ACTIVITY, bins=(0.0, 20.0, 40.0))
    assert measure(float, model=binned, column="level", clip=(5, 25))[:3] == [5.0, 12.5, 25.0]
    # A model that leaves a bin out: its states are named by their bins, and these are what a measurement gets.
    fewer = replace(ACTIVITY, states=("0..10", "20..40"), bins=(0.0, 10.0, 20.0, 40.0))
    frame = FRAME.with_columns(level=pl.when(pl.col("level") == 12.5).then(1.0).otherwise(pl.col("level")))
    release_measurement(
        frame,
        measurement=own(dp.change_one_distance(), dp.max_divergence(), lambda d: 0.1 * d, keep),
        model=fewer,
        column="level",
        order="t",
        epsilon=3,
    )
    assert seen[-1][:3] == ["0..10", "0..10", "20..40"]
    # Before it is charged a measurement is tried, on values that are not the data's.
    assert seen[-2] == ["0..10"] * 60


@pytest.mark.parametrize(
    ("measurement", "changes", "words"),
    [
        (len, {}, "must be an OpenDP measurement"),
        (len, {"model": pufferdp.Gaussian(mean=[0, 0], covariance=[[1, 0.5], [0.5, 1]])}, "needs a series of states"),
        (own(dp.change_one_distance(), dp.renyi_divergence(), lambda d: lambda a: 1.0), {}, "measure is"),
        (own(dp.change_one_distance(), dp.max_divergence(), lambda d: math.inf), {}, "larger noise scale"),
        (own(dp.change_one_distance(), dp.max_divergence(), lambda d: 1 / 0), {}, "does not say"),
        (own(dp.change_one_distance(), dp.max_divergence(), lambda d: d, kind=float), {}, "no such values"),
        (own(dp.change_one_distance(), dp.max_divergence(), lambda d: d), {"clip": (0, 1)}, "no such values"),
        (own(dp.change_one_distance(), dp.max_divergence(), lambda d: d / 9), {"column": "mood"}, "no column 'mood'"),
    ],
)
def test_refused(measurement, changes, words):
    with pytest.raises(PufferdpError, match=words):
        released(measurement, **changes)


def test_domains_that_the_column_does_not_fit():
    narrow = dp.vector_domain(dp.atom_domain(T=float, bounds=(0.0, 5.0))), dp.symmetric_distance()
    measurement = narrow >> dp.t.then_sum() >> dp.m.then_laplace(1000.0)
    valued = replace(NAMED, values=(2.0, 7.0))
    with pytest.raises(ParameterError, match=r"a record can be 7\.0"):
        released(measurement, model=valued)
    assert column_values(measurement, valued, (0, 5)).of_state == (2.0, 5.0)
    sized = dp.vector_domain(dp.atom_domain(T=str), size=61), dp.symmetric_distance()
    with pytest.raises(ParameterError, match="for 61 records, and 60 were read"):
        released(dp.m.make_user_measurement(*sized, dp.max_divergence(), function=len, privacy_map=lambda d: 0.1 * d))


def test_what_a_certificate_cannot_hold_is_found_before_anything_is_charged(tmp_path):
    ledger = Ledger(tmp_path / "l.db", create=True)
    ledger.create("d", budget=5.0, model=NAMED)
    queryable = TEXTS >> dp.c.then_adaptive_composition(output_measure=dp.max_divergence(), d_in=2, d_mids=[0.1])
    for measurement, words in (
        (queryable, "ask a queryable yourself"),
        (own(dp.change_one_distance(), dp.max_divergence(), lambda d: 0.1, lambda x: math.nan), "finite numbers"),
        (own(dp.change_one_distance(), dp.max_divergence(), lambda d: 0.1, lambda x: x[10**6]), "fails on records"),
    ):
        with pytest.raises(MechanismError, match=words):
            released(measurement, ledger=ledger, dataset="d")
    assert not ledger.dataset("d").releases
    # An error on the data alone comes after the charge, and its words, which may repeat data, stay inside.
    shy = own(dp.change_one_distance(), dp.max_divergence(), lambda d: 0.1, lambda x: {"rest": 1}[x[-1]])
    with pytest.raises(DeliveryError, match="fails on the data: ") as error:
        released(shy, ledger=ledger, dataset="d")
    assert "active" not in str(error.value)


def test_charged_by_record(tmp_path):
    ledger = Ledger(tmp_path / "l.db", create=True)
    ledger.create("d", budget=3.0, model=NAMED)
    for _ in range(2):
        release = released(counts(8.0), ledger=ledger, dataset="d")
        assert verify(release.certificate.to_dict()).valid
    best = curve("tight", NAMED, 60, "bdp")
    assert ledger.dataset("d").leakage == both_upper_ends(best(0.5))
    # Two segments that share no record cost what one of them costs.
    ledger.create("halves", budget=3.0, model=NAMED)
    for first, last in ((0, 29), (30, 59)):
        released(counts(4.0), ledger=ledger, dataset="halves", first=first, last=last)
    assert ledger.dataset("halves").spent_dp == pytest.approx(0.5)
    assert ledger.verify().valid
    with pytest.raises(BudgetError):
        released(counts(2.0), ledger=ledger, dataset="d", epsilon=5.0)


def test_one_verb_for_queries_and_measurements(tmp_path):
    request = {"model": NAMED, "column": "state", "order": "t", "epsilon": 3.0}
    release = pufferdp.release(FRAME, measurement=counts(4.0), **request)
    assert isinstance(release, pufferdp.MeasurementRelease)
    with pytest.raises(ParameterError, match="either a query or a measurement"):
        pufferdp.release(FRAME, **request)
    with pytest.raises(ParameterError, match="either a query or a measurement"):
        pufferdp.release(FRAME, query="histogram", measurement=counts(4.0), **request)
    for name, value in {"sampler": SeededSampler(1), "per": "day", "mechanism": "group", "split": (1,)}.items():
        with pytest.raises(ParameterError, match=f"{name} does not go with a measurement"):
            pufferdp.release(FRAME, measurement=counts(4.0), **request, **{name: value})
    pufferdp.write_report(release, tmp_path / "report.html")
    assert verify(pufferdp.read_certificate(tmp_path / "report.html")).valid
