"""Curves of real-valued records: which apply, their numbers, their order, and what they hold for."""

from __future__ import annotations

import numpy as np
import pytest

from pufferdp.assess.dp import leakage_of
from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import ParameterError
from pufferdp.bounds.curve_forms import EVERY_ALGORITHM
from pufferdp.bounds.curves import CLIPPED, best_curve, curves
from pufferdp.models.chain import MarkovChain
from pufferdp.models.gaussian import Gaussian, LimitedCorrelation
from tests.bounds.additive.test_gaussian import GALTON, limited, scaled
from tests.oracles import gaussian as oracle

BDP, PUFFERFISH, DP = Adversary.BDP, Adversary.PUFFERFISH, Adversary.DP


def heights(sds=(1, 1, 1)):
    return Gaussian(mean=[0, 0, 0], covariance=scaled(GALTON, sds))


def found(model, adversary=BDP):
    return {name: curve for name, curve in curves(model, None, adversary).items() if curve.applies}


def at_one(model, adversary=BDP):
    return {name: curve(1.0) for name, curve in found(model, adversary).items()}


def test_heights_of_equal_variance():
    known = pytest.approx({"general": 3, "gaussian": 1.8534483, "gaussian-class": 1.55, "gaussian-exact": 1.477})
    assert at_one(heights()) == known
    limits = pytest.approx({"general": 3, "gaussian": 1.8534483, "gaussian-class": 1.55})
    assert at_one(LimitedCorrelation(records=3, rho=0.275)) == limits


def test_other_adversaries():
    wide = LimitedCorrelation(records=4, rho=0.7)
    assert at_one(wide) == {"general": 4}  # both need rho below 1/2
    assert at_one(wide, PUFFERFISH) == pytest.approx({"general": 4, "gaussian-class": 3.1})
    assert at_one(heights(), DP)["gaussian-exact"] == at_one(heights(), DP)["independent"] == 1


def test_independent_records_need_no_more_than_dp():
    for model in (LimitedCorrelation(records=9, rho=0), Gaussian(mean=[0, 0], covariance=[[2, 0], [0, 5]])):
        values = at_one(model)
        assert values["independent"] == values["general"] == 1
        assert max(values.values()) == pytest.approx(1, abs=1e-13)


def test_families_side_by_side_count_one_by_one():
    """Two pairs: each alone decides, with its own correlation and its own deviations."""
    model = Gaussian(mean=[0] * 4, covariance=[[1, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 100, 20], [0, 0, 20, 100]])
    values = at_one(model)
    assert values == pytest.approx({"general": 2, "gaussian": 1.9, "gaussian-class": 1.9, "gaussian-exact": 1.9})


def test_no_curve_is_below_the_worst_adversary():
    rng = np.random.default_rng(23)
    for _ in range(60):
        n = int(rng.integers(2, 6))
        rho = rng.uniform(0.05, 0.6)
        sds = np.ones(n) if rng.random() < 0.5 else 10.0 ** rng.uniform(-1, 1, n)
        model = Gaussian(mean=np.zeros(n), covariance=scaled(limited(rng, n, rho), sds))
        for adversary, most in ((BDP, n), (PUFFERFISH, 0)):
            exact = oracle.factor(model.covariance, most)
            for name, curve in found(model, adversary).items():
                if curve.holds_for == CLIPPED:
                    assert curve(0.7) >= exact * 0.7 * (1 - 1e-13), name


def test_a_curve_says_what_it_holds_for():
    values = found(heights())
    assert {name for name, curve in values.items() if curve.holds_for == EVERY_ALGORITHM} == {"general"}
    assert best_curve(heights()).holds_for == CLIPPED
    chain = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]])
    assert best_curve(chain, 5).holds_for == EVERY_ALGORITHM


def test_a_bracket_is_said_to_be_one():
    root = np.random.default_rng(7).normal(size=(30, 200))
    model = Gaussian(mean=np.zeros(30), covariance=root @ root.T)
    assert "bounded" in found(model)["gaussian-exact"].theorem
    assert "every adversary" in found(heights())["gaussian-exact"].theorem
    report = leakage_of(model, dp_epsilon=1)
    assert "the factor is a proved bound, and one has" in report.to_dict()["notes"]["gaussian-exact"]
    assert "gaussian-exact: too many records for every adversary" in str(report)
    assert leakage_of(heights(), dp_epsilon=1).notes == {}


def test_reports_do_not_guarantee_too_much():
    report = leakage_of(heights(), dp_epsilon=0.5)
    assert report.best == "gaussian-exact"
    assert report.to_dict()["holds_for"] == CLIPPED
    assert "any DP algorithm" not in " ".join(str(report).split())
    assert "This holds for sums and means clipped" in " ".join(str(report).split())
    spend = leakage_of(heights(), target=1.0)
    assert spend.curves["gaussian-exact"] == pytest.approx(1 / 1.477)
    assert "This holds for sums and means clipped" in " ".join(str(spend).split())
    strong = leakage_of(LimitedCorrelation(records=4, rho=0.7), dp_epsilon=0.5)
    assert (strong.best, strong.holds_for) == ("general", EVERY_ALGORITHM)
    assert "any DP algorithm" in " ".join(str(strong).split())


def test_what_has_no_meaning_is_refused():
    with pytest.raises(ParameterError, match="leave query= out"):
        leakage_of(heights(), dp_epsilon=1, query="sum")
    with pytest.raises(ParameterError, match="leave the length out"):
        leakage_of(heights(), dp_epsilon=1, length=3)
