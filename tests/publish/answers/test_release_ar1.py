"""Releases about series of numbers: one person or several, missing records, segments, certificates, ledgers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from pufferdp import (
    Ar1,
    DataError,
    Ledger,
    ModelError,
    ParameterError,
    QueryError,
    RefusedError,
    design_flips,
    leakage_of,
    load_model,
    plan,
    plan_redaction,
    release,
    save_model,
    stream_leakage,
    verify,
)
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.additive.gaussian import ar1_factor
from tests.publish.answers.test_release import NoNoise

MINUTES = pd.date_range("2024-05-01", periods=60, freq="min")
NUMBERS = [60.0 + (n * 7919) % 50 + 0.1 for n in range(60)]
ROWS = pd.DataFrame({"time": MINUTES, "bpm": NUMBERS})
MODEL = Ar1(coefficient=0.9, mean=70, sd=8, step="1min")
READ = {"column": "bpm", "order": "time", "clip": (65, 100), "epsilon": 1}
CLIPPED = np.clip(NUMBERS, 65, 100)


@pytest.mark.parametrize(("query", "exact"), [("sum", CLIPPED.sum()), ("mean", CLIPPED.mean())])
def test_what_is_asked_is_what_is_answered(query, exact):
    done = release(ROWS.sample(frac=1, random_state=3), model=MODEL, query=query, sampler=NoNoise(), **READ)
    assert done.answer == pytest.approx(exact, rel=1e-14)
    certificate = release(ROWS, model=MODEL, query=query, **READ).certificate
    assert verify(certificate).problems == ()
    assert certificate.mechanism.name == "curve-ar1"
    assert certificate.data.lengths == [[60, 1]]
    lipschitz = 35 / (60 if query == "mean" else 1)
    assert certificate.noise.scale == pytest.approx(lipschitz * ar1_factor(0.9, 60))
    assert "differ by at most 35 (the clipping width)" in certificate.guarantee.statement


def test_numbers_are_not_rounded_one_by_one():
    """A thousand numbers that move by less than a grid of any kind move their sum by no more than they do."""
    low = pd.DataFrame({"bpm": [0.3] * 1000})
    high = pd.DataFrame({"bpm": [0.3 + 1e-13] * 1000})
    asked = {"model": Ar1(coefficient=0.5), "column": "bpm", "query": "sum", "clip": (0, 1), "epsilon": 1}
    answers = [release(rows, sampler=NoNoise(), **asked).answer for rows in (low, high)]
    assert 0 < answers[1] - answers[0] < 1.1e-10


def test_holes_are_read_as_one_series():
    """Missing numbers and rows that are not there: the records that are left are one series, and no less."""
    unobserved = ROWS.assign(bpm=ROWS["bpm"].where(ROWS.index % 2 == 0))
    certificate = release(unobserved, model=MODEL, query="sum", missing="keep", **READ).certificate
    assert certificate.data.lengths == [[30, 1]]
    assert certificate.data.dropped == 30
    assert certificate.noise.scale == pytest.approx(35 * ar1_factor(0.9, 30))
    assert verify(certificate).problems == ()
    absent = release(ROWS[::3], model=MODEL, query="sum", missing="keep", **READ).certificate
    assert absent.data.lengths == [[20, 1]]
    assert absent.noise.scale == pytest.approx(35 * ar1_factor(0.9, 20))
    with pytest.raises(DataError, match="missing in 30 rows"):
        release(unobserved, model=MODEL, query="sum", **READ)


def test_people_are_independent_and_the_longest_series_decides():
    several = pd.concat([ROWS.assign(who="a"), ROWS[:20].assign(who="b")])
    certificate = release(several, model=MODEL, query="mean", by="who", **READ).certificate
    assert certificate.data.lengths == [[20, 1], [60, 1]]
    assert certificate.noise.scale == pytest.approx(35 / 80 * ar1_factor(0.9, 60))
    assert verify(certificate).problems == ()


def test_a_segment_says_that_the_series_goes_on():
    certificate = release(ROWS, model=MODEL, query="mean", first="2024-05-01 00:10", **READ).certificate
    assert certificate.data.records == 50
    assert "The records used are part of a longer series" in certificate.guarantee.statement
    assert certificate.noise.scale == pytest.approx(35 / 50 * ar1_factor(0.9, 50))
    assert verify(certificate).problems == ()


def test_every_kind_of_frame_and_a_file_have_the_same_sum(tmp_path):
    several = pd.concat([ROWS.assign(who="b"), ROWS[:30].assign(who="a")])
    several.to_csv(tmp_path / "rows.csv", index=False)
    several.to_parquet(tmp_path / "rows.parquet", index=False)
    table = pl.from_pandas(several)
    sources = [several, table, table.lazy(), table.to_arrow(), tmp_path / "rows.csv", tmp_path / "rows.parquet"]
    asked = {**READ, "model": MODEL, "query": "sum", "by": "who", "sampler": NoNoise()}
    done = [release(data, **asked) for data in sources]
    assert {one.answer for one in done} == {float(np.round(CLIPPED.sum() + CLIPPED[:30].sum(), 9))}
    assert all(one.certificate.data.lengths == [[30, 1], [60, 1]] for one in done)


def test_one_record_needs_no_more_than_dp():
    one = release(ROWS[:1], model=MODEL, query="sum", **READ).certificate
    assert one.noise.scale == pytest.approx(35)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"query": "histogram", "clip": None}, QueryError, "are real numbers: ask for sum or mean"),
        ({"query": "count:1", "clip": None}, QueryError, "are real numbers"),
        ({"query": "mean", "clip": None}, QueryError, "clip it with clip="),
        ({"query": "mean", "id": "time"}, ParameterError, "positions only"),
        ({"query": "mean", "column": "time", "order": None}, DataError, "time"),
        ({"query": "mean", "missing": "break"}, (ParameterError, DataError), "keep"),
        ({"query": "mean", "delta": 1e-6, "mechanism": "gaussian-tight"}, NotApplicableError, "gaussian-tight"),
    ],
)
def test_refusals(change, error, words):
    with pytest.raises(error, match=words):
        release(ROWS, **{"model": MODEL, **READ, **change})


def test_rows_closer_than_a_step_are_refused_with_their_place():
    quick = pd.DataFrame({"time": pd.date_range("2024-05-01", periods=60, freq="20s"), "bpm": NUMBERS})
    with pytest.raises(DataError, match=r"2024-05-01 00:00:20.*1min"):
        release(quick, model=MODEL, query="mean", **READ)
    numbered = pd.DataFrame({"time": range(60), "bpm": NUMBERS})
    with pytest.raises(DataError, match="step is 1min"):
        release(numbered, model=MODEL, query="mean", **READ)
    fine = release(numbered, model=Ar1(coefficient=0.9, step=1), query="mean", **READ)
    assert fine.certificate.data.records == 60


def test_numbers_must_be_numbers():
    for wrong in ("fast", "inf"):
        rows = pd.DataFrame({"bpm": ["61", wrong, "70"]})
        with pytest.raises(DataError, match=r"numbers"):
            release(rows, model=Ar1(coefficient=0.5), column="bpm", query="sum", clip=(0, 100), epsilon=1)


def test_other_verbs_say_why_not():
    with pytest.raises(NotApplicableError, match="only series of states are flipped"):
        design_flips(MODEL, 1.0, length=10)
    with pytest.raises((NotApplicableError, ModelError), match="redaction needs one Markov chain"):
        plan_redaction(MODEL, length=10, private=[5], epsilon=1.0)
    with pytest.raises(NotApplicableError, match="worked out for chains"):
        stream_leakage(MODEL, 0.1, length=10)
    with pytest.raises(ParameterError, match="leave query= out"):
        leakage_of(MODEL, dp_epsilon=1, length=10, query="mean")
    with pytest.raises(ParameterError, match="length is missing"):
        leakage_of(MODEL, dp_epsilon=1)


def test_a_ledger_counts_record_by_record(tmp_path):
    """Hours of one day touch each record once: together they leak what one of them does, for a series without end."""
    path, factor = tmp_path / "ledger.db", ar1_factor(0.9, 10**9)
    with Ledger(path, create=True) as ledger:
        ledger.create("heart", model=MODEL, budget=1.0)
    asked = {**READ, "model": MODEL, "query": "mean", "ledger": path, "dataset": "heart", "epsilon": 0.6}
    for n in range(0, 60, 20):
        first, last = f"2024-05-01 00:{n:02}", f"2024-05-01 00:{n + 19:02}"
        certificate = release(ROWS, first=first, last=last, **asked).certificate
        assert verify(certificate).problems == ()
    with Ledger(path) as ledger:
        stands = ledger.dataset("heart")
        assert stands.leakage == pytest.approx(0.6 * factor / ar1_factor(0.9, 20), rel=1e-9)
        assert ledger.verify().valid
    with pytest.raises(RefusedError):
        release(ROWS, first="2024-05-01 00:00", last="2024-05-01 00:19", **asked)
    with pytest.raises(RefusedError, match="clipping width"):
        release(ROWS, **{**asked, "clip": (60, 100), "epsilon": 0.01})


def test_the_file_of_a_model(tmp_path):
    for model in (MODEL, Ar1(coefficient=(-0.2, 0.5), step=2.5), Ar1(coefficient=0)):
        save_model(model, tmp_path / "m.json")
        again = load_model(tmp_path / "m.json")
        assert again.to_dict() == model.to_dict()
        assert repr(again) == repr(model)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"coefficient": 1}, "wanders off"),
        ({"coefficient": -1.0}, "between -1 and 1"),
        ({"coefficient": float("nan")}, "between -1 and 1"),
        ({"coefficient": (0.5, 0.2)}, "the least comes first"),
        ({"coefficient": (0.1, 0.2, 0.3)}, "has 3 numbers"),
        ({"coefficient": "much"}, "coefficient is 'much'; it must be made of numbers"),
        ({"coefficient": 0.5, "sd": 0}, "sd is 0"),
        ({"coefficient": 0.5, "mean": float("inf")}, "mean is inf"),
        ({"coefficient": 0.5, "step": "soon"}, "step is 'soon'"),
        ({"coefficient": 0.5, "step": 0}, "step is 0"),
    ],
)
def test_models_that_cannot_be(content, words):
    with pytest.raises(ModelError, match=words):
        Ar1(**content)


def test_plans_know_nothing_of_covariances():
    """A year of minutes and a hundred years cost the same: nothing."""
    for length in (1440, 525_600, 10**8):
        best = plan(MODEL, "mean", length=length, clip=(40, 180), epsilon=1).best
        assert best.calibration.scale == pytest.approx(140 / length * 19, rel=1e-6)
