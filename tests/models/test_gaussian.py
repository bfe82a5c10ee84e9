"""Models of real-valued records: what is accepted, what is refused and why, files in and out, who depends on whom."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.basics.errors import ModelError
from pufferdp.models.files.json import load_model, model_digest, model_from_dict, model_to_dict
from pufferdp.models.files.json import save_model as save
from pufferdp.models.gaussian import Gaussian, LimitedCorrelation

FAMILY = {"mean": [69, 64, 67], "covariance": [[6.1, 0.4, 2.4], [0.4, 5.3, 1.7], [2.4, 1.7, 12.8]]}


def gaussian(**changed):
    return {"type": "gaussian", **FAMILY, **changed}


def limited(**changed):
    return {"type": "limited_correlation", "records": 3, "rho": 0.275, **changed}


def test_what_a_model_says_of_itself():
    model = Gaussian(**FAMILY, records=["father", "mother", "child"])
    assert repr(model) == "Gaussian(3 records, largest correlation 0.272)"
    assert (model.family, model.labels, model.size, model.values, model.bins) == (3, (), 0, None, None)
    assert Gaussian(**FAMILY).records == ("1", "2", "3")
    assert repr(Gaussian(mean=[1], covariance=[[2]])) == "Gaussian(1 record, largest correlation 0)"
    assert repr(LimitedCorrelation(records=1, rho=0)) == "LimitedCorrelation(1 record, correlations up to 0)"
    with pytest.raises(ValueError, match="read-only"):
        model.covariance[0, 0] = 5


@pytest.mark.parametrize("content", [gaussian(), gaussian(records=["a", "b", "c"], fitted={"by": "hand"}), limited()])
def test_files_in_and_out(tmp_path, content):
    model = model_from_dict(content)
    save(model, tmp_path / "m.json")
    again = load_model(tmp_path / "m.json")
    assert model_digest(again) == model_digest(model)
    assert {**model_to_dict(again), **content} == model_to_dict(again)


def test_records_hang_together_where_a_covariance_leads():
    chain = Gaussian(mean=[0] * 4, covariance=[[1, 0.1, 0, 0], [0.1, 1, 0.1, 0], [0, 0.1, 1, 0], [0, 0, 0, 1]])
    assert chain.components == ((0, 1, 2), (3,))
    assert chain.dependent(0) == 3
    assert Gaussian(mean=[0, 0], covariance=np.eye(2)).dependent(0) == 1
    assert LimitedCorrelation(records=5, rho=0.1).dependent(0) == 5
    assert LimitedCorrelation(records=5, rho=0).dependent(0) == 1


def test_correlations_and_deviations_are_rounded_up():
    model = Gaussian(mean=[0, 0, 0], covariance=np.outer([1, 3, 3], [1, 3, 3]) * np.where(np.eye(3), 1, -0.2))
    assert 0.2 <= model.pearson((0, 1, 2)) <= 0.2 * (1 + 1e-14)
    assert 3 <= model.spread((0, 1, 2)) <= 3 * (1 + 1e-14)
    assert model.spread((1, 2)) == 1
    assert model.pearson((1,)) == 0


def test_entries_that_agree_within_rounding_are_made_equal():
    model = Gaussian(mean=[0, 0], covariance=[[1, 0.3], [0.3 + 1e-12, 1]])
    assert model.covariance[0, 1] == model.covariance[1, 0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (gaussian(mean=[]), "mean must be a list of finite numbers"),
        (gaussian(mean=[69, 64]), r"covariance is 3×3; mean has 2 numbers, so it must be 2×2"),
        (gaussian(mean=[69, 64, float("inf")]), "finite"),
        (gaussian(mean="tall"), "mean"),
        (gaussian(covariance=[[1, 0], [0, 1]]), r"2×2; mean has 3"),
        (gaussian(covariance=[[1, 0, 0], [0, 1]]), "same length"),
        (
            gaussian(covariance=[[1, 0.5, 0], [0.4, 1, 0], [0, 0, 1]]),
            r"\[0\]\[1\] is 0.5 and .*\[1\]\[0\] is 0.4",
        ),
        (gaussian(covariance=[[1, 0, 0], [0, 0, 0], [0, 0, 1]]), "variance of record 2 is 0; it must be above 0"),
        (gaussian(covariance=[[1, 0, 0], [0, -1, 0], [0, 0, 1]]), "variance of record 2 is -1"),
        (gaussian(covariance=[[1, 1, 0], [1, 1, 0], [0, 0, 1]]), "not positive definite: the least eigenvalue .* is "),
        (gaussian(covariance=[[1, 0.9, 0.9], [0.9, 1, -0.9], [0.9, -0.9, 1]]), r"eigenvalue .* is -0.8"),
        (gaussian(covariance=[[float("nan"), 0, 0], [0, 1, 0], [0, 0, 1]]), "entry nan"),
        (gaussian(records=["a", "b"]), "2 names; there are 3"),
        (gaussian(records=["a", "b", "a"]), "'a' is named twice"),
        (gaussian(states=["x"]), "states is not a key"),
        (limited(records=0), "records is 0; it must be a whole number of records, 1 or more"),
        (limited(records=2.5), "records is 2.5"),
        (limited(rho=1), "rho is 1.*from 0 to below 1"),
        (limited(rho=-0.1), "rho is -0.1"),
        (limited(rho=float("nan")), "rho is nan"),
        (limited(rho="weak"), 'rho is "weak"'),
        (limited(mean=[0]), "mean is not a key"),
    ],
)
def test_what_is_wrong_is_named(content, words):
    with pytest.raises(ModelError, match=words):
        model_from_dict(content)
