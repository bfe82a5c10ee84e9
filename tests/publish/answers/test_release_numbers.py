"""Releases about real-valued records: families named and unnamed, plans, certificates, refusals, Galton's families."""

from __future__ import annotations

import pandas as pd
import pytest

from pufferdp import Gaussian, LimitedCorrelation, Query, Secret, Secrets, plan, release, verify
from pufferdp.basics.errors import DataError, NotApplicableError, ParameterError, QueryError
from pufferdp.publish.noise import SeededSampler
from tests.publish.answers.test_release import NoNoise

NAMES = ["father", "mother", "child"]
FAMILY = Gaussian(mean=[69, 64, 67], covariance=[[6.1, 0.4, 2.4], [0.4, 5.3, 1.7], [2.4, 1.7, 12.8]], records=NAMES)
PAIR = Gaussian(mean=[0, 0], covariance=[[1, 0.5], [0.5, 1]])
CLASS = LimitedCorrelation(records=3, rho=0.275)
ROWS = pd.DataFrame(
    {"house": [1, 1, 1, 2, 2, 2], "who": [*NAMES, *NAMES[::-1]], "height": [78.5, 67.0, 73.2, 69.0, 90.0, 50.0]}
)
# Clipped to [60, 80]: 78.5, 67, 73.2, 69, 80, 60.
EXACT = {"sum": 427.7, "mean": 427.7 / 6}
READ = {"column": "height", "by": "house", "clip": (60, 80), "epsilon": 1, "mechanism": "group"}


@pytest.mark.parametrize(("model", "id"), [(FAMILY, "who"), (CLASS, None)])
@pytest.mark.parametrize("query", EXACT)
def test_what_is_asked_is_what_is_answered(model, id, query):
    done = release(ROWS, model=model, id=id, query=query, sampler=NoNoise(), **READ)
    assert done.answer == pytest.approx(EXACT[query], rel=1e-15)
    seeded = release(ROWS, model=model, id=id, query=query, sampler=SeededSampler(2), **READ)
    c = seeded.certificate
    assert verify(c).problems == ()
    assert c.data.lengths == [[3, 2]]
    assert c.noise.scale == pytest.approx(3 * 20 / (6 if query == "mean" else 1))
    assert c.query.lipschitz == pytest.approx(20 / (6 if query == "mean" else 1))


def test_the_certificate_says_for_which_values_it_guarantees():
    one = release(ROWS, model=FAMILY, id="who", query="sum", **READ).certificate
    assert "two values of any single record that differ by at most 20 (the clipping width)" in one.guarantee.statement
    assert "differ by at most 20, the width of the clipping range" in one.guarantee.secrets
    assert one.public[0] == "how many records there are (6), and which of them are a family"
    many = release(ROWS, model=CLASS, query="sum", **READ).certificate
    assert "uses any model of the class" in many.guarantee.statement
    for change in (
        {"query": {**one.to_dict()["query"], "clip": [60.0, 79.0]}},
        {"data": {**one.to_dict()["data"], "lengths": [[2, 3]]}},
        {"data": {**one.to_dict()["data"], "by": None}},
        {"data": {**one.to_dict()["data"], "id": None}},
        {"data": {**one.to_dict()["data"], "order": "house"}},
    ):
        changed = {**one.to_dict(), **change}
        assert len(verify(changed).problems) > 1  # the hash, and what was changed


def test_groups_may_be_smaller_than_the_class_allows_but_not_larger():
    done = release(ROWS[:5], model=CLASS, query="mean", **READ)
    assert done.certificate.data.lengths == [[2, 1], [3, 1]]
    assert verify(done.certificate).valid
    with pytest.raises(DataError, match="a family of 'house' has 3 rows; the model allows at most 2 records"):
        release(ROWS, model=LimitedCorrelation(records=2, rho=0.1), query="mean", **READ)
    with pytest.raises(DataError, match="the data has 6 rows; the model allows at most 3 records: tell families"):
        release(ROWS, model=CLASS, query="mean", **{**READ, "by": None})


def test_one_family_needs_no_by_and_numbered_records_no_id():
    rows = pd.DataFrame({"x": [0.25, 3.0]})
    read = {"column": "x", "query": "sum", "clip": (-1, 1), "epsilon": 2, "mechanism": "group", "sampler": NoNoise()}
    assert release(rows, model=PAIR, **read).answer == 1.25
    with pytest.raises(DataError, match="the data has 1 rows; the model has 2 records, one row each"):
        release(rows[:1], model=PAIR, **read)
    with pytest.raises(ParameterError, match=r"id is missing; .*father"):
        release(rows, model=FAMILY, **read)


def test_a_family_must_be_complete():
    with pytest.raises(DataError, match="a family of 'house' has 2 rows; the model has 3 records"):
        release(ROWS[:5], model=FAMILY, id="who", query="sum", **READ)


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"query": "count:tall"}, QueryError, "clip goes with numbers"),
        ({"query": "histogram", "clip": None}, QueryError, "histogram is about states.*sum or mean with clip="),
        ({"query": "count:tall", "clip": None}, QueryError, "count:tall is about states"),
        ({"query": "frequency", "clip": None}, QueryError, "real numbers"),
        ({"clip": None}, QueryError, r"sum needs a range: .*clip=\(A, B\)"),
        ({"query": Query.of_function(lambda chains: 0.0, 1.0)}, QueryError, "function is about states"),
        ({"order": "place"}, ParameterError, "order is 'place'; it is for series"),
        ({"restart": 3.0, "order": "place"}, ParameterError, "it is for series"),
        ({"missing": "keep"}, ParameterError, "missing is 'keep'"),
        ({"bins": "0,1,2"}, ParameterError, "bins are for series"),
        ({"mechanism": "quilt-exact"}, NotApplicableError, "real numbers"),
        ({"mechanism": "quilt-approx"}, NotApplicableError, "not a chain"),
        ({"mechanism": "gk16", "adversary": "pufferfish"}, NotApplicableError, "not a chain"),
        ({"mechanism": "wasserstein", "adversary": "pufferfish"}, NotApplicableError, "real numbers"),
        ({"mechanism": "per-record-dp"}, NotApplicableError, "records are correlated"),
    ],
)
def test_what_does_not_go_with_real_numbers_is_refused(changed, error, words):
    with pytest.raises(error, match=words):
        release(ROWS, **{**READ, "model": FAMILY, "id": "who", "query": "sum", **changed})


def test_a_class_has_no_ids_and_secrets_of_ones_own_are_refused():
    with pytest.raises(ParameterError, match="does not name its records"):
        release(ROWS, model=CLASS, id="who", query="sum", **READ)
    own = Secrets(secrets=(Secret(name="a", when={"1": "0"}), Secret(name="b", when={"1": "1"})), pairs=(("a", "b"),))
    for adversary in ("pufferfish", "bdp"):
        with pytest.raises(ParameterError, match="secrets of your own name states"):
            plan(PAIR, "sum", clip=(0, 1), epsilon=1, secrets=own, adversary=adversary)


def test_plans_know_their_families():
    asked = {"query": "mean", "clip": (60, 80), "epsilon": 1}
    assert plan(FAMILY, **asked).candidate("group").calibration.scale == pytest.approx(20)
    assert plan(FAMILY, lengths=[3, 3, 3], **asked).candidate("group").calibration.scale == pytest.approx(20 / 3)
    assert plan(CLASS, lengths=[3, 2, 1], **asked).candidate("group").calibration.scale == pytest.approx(10)
    with pytest.raises(ParameterError, match=r"length is 2; a family of this model has 3 records.*lengths=\[3, 3\]"):
        plan(FAMILY, lengths=[3, 2], **asked)
    with pytest.raises(ParameterError, match="length is 4; a family of this model allows at most 3 records"):
        plan(CLASS, length=4, **asked)


def test_independent_records_need_no_more_noise_than_dp():
    alone = Gaussian(mean=[0, 0], covariance=[[1, 0], [0, 4]])
    for model in (alone, LimitedCorrelation(records=2, rho=0)):
        found = plan(model, "sum", clip=(0, 2), epsilon=0.5)
        assert found.candidate("per-record-dp").applies
        assert found.candidate("group").calibration.scale == found.candidate("per-record-dp").calibration.scale == 4
    known = plan(PAIR, "sum", clip=(0, 2), epsilon=0.5, adversary="dp")
    assert known.best.mechanism == "per-record-dp"
