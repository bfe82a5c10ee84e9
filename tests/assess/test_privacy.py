"""What other libraries guarantee, read as privacy profiles and carried over: pairs, zCDP, measurements, accountants."""

from __future__ import annotations

import math
from enum import Enum

import numpy as np
import pytest
from scipy.stats import norm

from pufferdp import (
    AnyGroups,
    Gaussian,
    InputError,
    MarkovChain,
    NotApplicableError,
    ParameterError,
    PrivacyProfile,
    ZCdp,
    leakage_of,
    read_profile,
)
from pufferdp.assess.dp import EVERY_APPROXIMATE
from pufferdp.assess.privacy import dp_guarantee
from pufferdp.basics.words import up_to
from pufferdp.bounds.approximate import carried_delta
from tests.tolerance import SEARCHED, Between

P = [[0.882, 0.118], [0.305, 0.695]]
ACTIVITY = MarkovChain(transition=P, states=["rest", "active"])
W = MarkovChain(transition=[[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])


def gaussian_delta(epsilon: float, sigma: float) -> float:
    """The exact profile of Gaussian noise on an answer that moves by 1 (Balle & Wang 2018)."""
    near, far = 1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma
    return float(norm.cdf(near) - math.exp(epsilon) * norm.cdf(far))


class Relation(Enum):
    ADD_OR_REMOVE_ONE = 1
    REPLACE_ONE = 2
    OTHER = 3


class Accountant:
    """As accountants of dp_accounting: Gaussian noise."""

    def __init__(self, sigma: float, relation: Relation) -> None:
        self.sigma, self.neighboring_relation = sigma, relation

    def get_delta(self, target_epsilon: float) -> float:
        return gaussian_delta(target_epsilon, self.sigma)

    def get_epsilon(self, target_delta: float) -> float:
        low, high = 0.0, 1e3
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (low, middle) if self.get_delta(middle) <= target_delta else (middle, high)
        return high


class Pld:
    """As a privacy loss distribution of dp_accounting."""

    def __init__(self, sigma: float) -> None:
        self._accountant = Accountant(sigma, Relation.REPLACE_ONE)

    def get_delta_for_epsilon(self, epsilon: float) -> float:
        return self._accountant.get_delta(epsilon)

    def get_epsilon_for_delta(self, delta: float) -> float:
        return self._accountant.get_epsilon(delta)


def test_a_pair_makes_a_pair():
    found = leakage_of(ACTIVITY, dp_epsilon=0.25, dp_delta=1e-3, length=5)
    assert (found.epsilon, found.delta) == pytest.approx((0.7218098, 0.00372557), rel=1e-6)
    assert found.to_dict()["epsilon"] == found.curves["tight"]
    assert (found.dp_delta, found.to_dict()["dp_delta"]) == (1e-3, 1e-3)
    same = leakage_of(ACTIVITY, privacy=(0.25, 1e-3), length=5)
    assert same.to_dict() == found.to_dict()
    pure = leakage_of(ACTIVITY, dp_epsilon=0.25, length=5)
    assert (pure.epsilon, pure.delta, pure.dp_delta) == (found.epsilon, 0.0, 0.0)
    assert pure.curves == found.curves
    assert (pure.holds_for, found.holds_for) == ("every pure DP algorithm", EVERY_APPROXIMATE)
    assert pure.universal
    assert found.universal


def test_whose_delta_is_which():
    """--dp-delta is the algorithm's, --delta the one towards the adversary; both directions meet."""
    theirs = leakage_of(W, target=1, dp_delta=1e-6, length=500)
    assert (theirs.epsilon, theirs.dp_delta) == (1.0, 1e-6)
    spent = theirs.curves["tight"]
    lowest, highest = (math.expm1(epsilon) / math.expm1(spent) for epsilon in (1 - SEARCHED, 1 + 1e-9))
    assert theirs.delta == Between(1e-6 * lowest, 1e-6 * highest)
    ours = leakage_of(W, target=1, delta=1e-6, length=500)
    assert ours.delta == 1e-6
    assert ours.dp_delta == Between(1e-6 / highest, 1e-6 / lowest)
    back = leakage_of(W, dp_epsilon=ours.curves["tight"], dp_delta=ours.dp_delta, length=500)
    assert back.epsilon <= 1.0
    assert back.delta <= 1e-6 * (1 + 1e-9)  # another search of the same bracket
    assert back.delta == pytest.approx(1e-6, rel=1e-6)
    for report in (theirs, ours):
        assert f"a DP δ of {up_to(report.dp_delta, down=True)}" in str(report).replace("\n", " ")


def test_the_adversary_of_dp_gets_what_dp_guarantees():
    found = leakage_of(ACTIVITY, dp_epsilon=0.4, dp_delta=1e-5, length=50, adversary="dp")
    assert (found.epsilon, found.delta) == pytest.approx((0.4, 1e-5), rel=1e-12)


def test_only_curves_for_every_algorithm_count():
    """Gaussian curves hold for clipped sums with pure DP: with a delta group privacy is left."""
    normal = Gaussian(mean=[0.0, 0.0], covariance=[[1.0, 0.4], [0.4, 1.0]])
    assert leakage_of(normal, dp_epsilon=0.5).best.startswith("gaussian")
    found = leakage_of(normal, dp_epsilon=0.5, dp_delta=1e-5)
    assert (found.best, found.epsilon) == ("general", 1.0)
    assert "nothing is proved" in found.reasons["gaussian-exact"]
    assert found.delta == pytest.approx(carried_delta(0.5, 1e-5, 1.0))
    assert leakage_of(AnyGroups(largest=3), dp_epsilon=0.5, dp_delta=1e-5).epsilon == 1.5


def test_zcdp():
    found = leakage_of(ACTIVITY, privacy=ZCdp(0.002), delta=1e-6, length=500)
    assert found.delta <= 1e-6
    assert found.privacy == "zCDP with rho 0.002"
    # By hand: the loss behind it fails no more often than Canonne, Kamath & Steinke 2020 (Proposition 7) say.
    loss = found.given
    by_hand = min(
        math.exp((a - 1) * (a * 0.002 - loss)) / (a - 1) * (1 - 1 / a) ** a for a in np.linspace(1.01, 400, 40_000)
    )
    assert found.dp_delta == pytest.approx(by_hand, rel=1e-2)
    assert found.dp_delta >= by_hand * (1 - 1e-9)
    with pytest.raises(ParameterError, match="rho is -1"):
        ZCdp(-1)


def test_opendp_measurements():
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    floats = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    laplace = dp.m.make_laplace(floats, dp.l1_distance(T=float), scale=4.0)
    pure = leakage_of(ACTIVITY, privacy=laplace, d_in=2.0, length=100)
    assert (pure.given, pure.delta) == (pytest.approx(0.5), 0.0)
    with pytest.raises(ParameterError, match="say with d_in"):
        leakage_of(ACTIVITY, privacy=laplace, length=100)
    gaussian = dp.m.make_gaussian(floats, dp.l2_distance(T=float), scale=20.0)
    rho = gaussian.map(math.sqrt(2))
    ours = leakage_of(ACTIVITY, privacy=ZCdp(rho), target=1, length=100)
    theirs = leakage_of(ACTIVITY, privacy=gaussian, d_in=math.sqrt(2), target=1, length=100)
    assert (theirs.epsilon, theirs.delta) == (ours.epsilon, ours.delta)
    # Its own conversion to a profile says the same, up to the pairs that are looked at.
    smooth = leakage_of(ACTIVITY, privacy=dp.c.make_zCDP_to_approxDP(gaussian), d_in=math.sqrt(2), target=1, length=100)
    assert smooth.delta == pytest.approx(ours.delta, rel=1e-2)
    fixed = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(gaussian), 1e-7)
    pair = leakage_of(ACTIVITY, privacy=fixed, d_in=math.sqrt(2), length=100)
    assert pair.dp_delta == 1e-7
    assert pair.epsilon == leakage_of(ACTIVITY, dp_epsilon=pair.given, length=100).epsilon


def test_opendp_counts_a_change_as_one_out_and_one_in():
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    count = (
        dp.t.make_count(dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance())
        >> dp.m.then_laplace(scale=4.0)
    )  # fmt: skip
    assert leakage_of(W, privacy=count, length=100).given == pytest.approx(0.5)


def test_accountants():
    near = leakage_of(W, privacy=Accountant(20.0, Relation.REPLACE_ONE), target=1, length=100)
    by_hand = carried_delta(near.given, gaussian_delta(near.given, 20.0), near.epsilon)
    assert by_hand <= near.delta <= 1.15 * by_hand  # between two pairs of the profile a chord is taken
    assert leakage_of(W, privacy=Pld(20.0), target=1, length=100).delta == near.delta


def test_records_added_and_removed_count_twice():
    doubled = dp_guarantee(Accountant(20.0, Relation.ADD_OR_REMOVE_ONE)).profile
    for loss in (0.2, 0.3, 0.4):
        exact = (1 + math.exp(loss / 2)) * gaussian_delta(loss / 2, 20.0)
        assert doubled.delta(loss) == pytest.approx(exact, rel=2e-2)
        assert doubled.delta(loss) >= exact * (1 - 1e-9)
        # A change is a change of the answer by at most 2: its own profile lies below.
        assert gaussian_delta(loss, 10.0) <= doubled.delta(loss)
    with pytest.raises(ParameterError, match="neighbours are OTHER"):
        dp_guarantee(Accountant(20.0, Relation.OTHER))


def test_the_accountants_of_dp_accounting():
    accounting = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip("dp_accounting.pld")
    relation = accounting.NeighboringRelation.REPLACE_ONE
    accountant = pld.PLDAccountant(relation)
    accountant.compose(accounting.GaussianDpEvent(20.0))
    found = leakage_of(W, privacy=accountant, target=1, length=100)
    assert found.delta >= carried_delta(found.given, gaussian_delta(found.given, 10.0), found.epsilon) * (1 - 1e-6)


def test_files(tmp_path):
    pairs = [(0.1, 1e-2), (0.2, 1e-4), (0.3, 1e-7)]
    texts = {
        "head.csv": "epsilon,delta\n0.1,1e-2\n0.2,1e-4\n0.3,1e-7\n",
        "turned.csv": "note,delta,epsilon\na,1e-7,.3\nb,1e-2,.1\nc,1e-4,.2\n",
        "bare.csv": "\ufeff0.1,0.01\n\n0.2, 1e-4\n0.3,1e-7\n",
        "pairs.json": "[[0.1, 1e-2], [0.2, 1e-4], [0.3, 1e-7]]",
        "objects.json": '[{"epsilon": 0.3, "delta": 1e-7}, {"delta": 0.01, "epsilon": 0.1},'
        '{"epsilon": 0.2, "delta": 1e-4}]',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        profile = read_profile(tmp_path / name)
        assert list(zip(profile.losses.tolist(), profile.deltas.tolist(), strict=True)) == pairs, name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epsilon,delta\n.1,x\n", "delta in row 2 of profile .* is 'x'"),
        (".1,.2,.3\n", "row 1 of profile .* has 3 columns"),
        ("loss,fails\n.1,.2\n", "has the columns loss, fails"),
        ("epsilon,delta\n.1\n", "row 2 of profile .* has 1 columns"),
        ("epsilon,delta\n.1,1e-5\n.2,1e-3\n", "rises from delta 1e-05 at loss 0.1 to 0.001"),
        ("epsilon,delta\n.1,nan\n", "is nan"),
        ("epsilon,delta\n.1,1\n", "is 1; it must be 0 or more and below 1"),
        ("epsilon,delta\n", "has no epsilon"),
        ("", "has no epsilon"),
        ("[[1, 2, 3]]", "entry 1 of profile .* must be epsilon and delta"),
        ('[{"epsilon": 1}]', "entry 1"),
        ("[[1, true]]", "delta in entry 1 of profile .* is true"),
        ("[1", "not JSON"),
        ("{}", "must be a JSON list"),
    ],
)
def test_files_that_are_no_profile(tmp_path, text, words):
    (tmp_path / "profile").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        read_profile(tmp_path / "profile")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"dp_epsilon": 1, "dp_delta": 1.0}, "dp_delta is 1; it must be 0 or more and below 1"),
        ({"dp_epsilon": 1, "dp_delta": -1e-9}, "dp_delta is -1e-09"),
        ({"dp_epsilon": 1, "dp_delta": float("nan")}, "dp_delta is nan"),
        ({"target": 1, "delta": 2}, "delta is 2"),
        ({"target": 1, "delta": 1e-6, "dp_delta": 1e-6}, "either dp_delta="),
        ({"dp_epsilon": 1, "delta": 1e-6}, "delta is 1e-06; the delta towards the adversary follows"),
        ({"dp_epsilon": 1, "dp_delta": 1e-6, "query": "count:active"}, "Laplace noise, which has no delta"),
        ({"privacy": ZCdp(0.1)}, "say with target="),
        ({"privacy": ZCdp(0.1), "target": 1, "delta": 1e-6}, "either target= or delta="),
        ({"privacy": (1, 1e-6), "dp_epsilon": 1}, "leave dp_epsilon"),
        ({"privacy": (1, 1.5)}, "delta is 1.5"),
        ({"privacy": (float("nan"), 0.1)}, "epsilon is nan"),
        ({"privacy": "much"}, "privacy is a str"),
        ({"privacy": (1, 1e-6), "d_in": 1}, "goes with an OpenDP measurement"),
        ({"dp_epsilon": 1, "d_in": 1}, "goes with privacy"),
    ],
)
def test_bad_questions_are_refused(asked, words):
    with pytest.raises(ParameterError, match=words):
        leakage_of(ACTIVITY, length=9, **asked)


def test_a_profile_without_a_fitting_pair():
    profile = PrivacyProfile.of([(1.0, 1e-3), (2.0, 1e-5)])
    for asked in ({"target": 0.5}, {"delta": 1e-9}):
        with pytest.raises(NotApplicableError, match="no pair of a privacy profile of 2 pairs"):
            leakage_of(ACTIVITY, privacy=profile, length=50, **asked)
