"""Gaussian noise with an (epsilon, delta) guarantee: calibration, where it wins, certificates, refusals."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp import (
    AnyGroups,
    BinaryInterval,
    Gaussian,
    MarkovChain,
    NotApplicableError,
    ParameterError,
    Query,
    QueryError,
    RefusedError,
    plan,
    release,
    verify,
)
from pufferdp.bounds.approximate import PrivacyProfile, carried_delta
from pufferdp.bounds.curves import curve
from pufferdp.publish.answers.plan import plan_problem
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.noise import SeededSampler, gaussian_delta
from pufferdp.report.pages.answers import page_from_certificate, plan_page
from tests.oracles import algorithms
from tests.strategies import chains, examples
from tests.tolerance import SEARCHED, Between, safe_loss, safe_scale

W = MarkovChain(transition=[[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]], states=["a", "b", "c"])
ACTIVITY = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], values=[0, 1])
NAME = "gaussian-tight"


def ranked(model, query, *names, length=300, **asked):
    """A plan of a few mechanisms."""
    asked = {"epsilon": 1.0, "delta": 1e-6, **asked}
    lengths = () if length is None else ((length, 1),)
    query = Query.parse(query) if isinstance(query, str) else query
    return plan_problem(Problem(model=model, query=query, lengths=lengths, **asked), only=names or [NAME])


def gaussian(model, query, **asked):
    return ranked(model, query, **asked).candidate(NAME).calibration


def test_the_check_values():
    """By zCDP sigma is 20.69 where the exact profile of Gaussian noise would allow 19.3; Laplace noise has 6.44."""
    found = gaussian(W, "histogram")
    assert found.scale == safe_scale(20.68696)
    assert found.approximation.dp_loss == safe_loss(0.310331)
    assert found.approximation.dp_delta == Between(2.11767e-7 * (1 - 2 * SEARCHED), 2.11767e-7 * (1 + SEARCHED))
    assert found.approximation.rho == pytest.approx(1 / found.scale**2, rel=1e-9)
    laplace = ranked(W, "histogram", "curve-tight").best.calibration
    assert laplace.scale == safe_scale(6.4447, digits=2e-5)


@given(
    chain=chains(3, ("stationary", "given", "any")),
    n=st.integers(1, 6),
    epsilon=st.sampled_from([0.3, 1.0, 4.0]),
    delta=st.sampled_from([1e-9, 1e-5, 1e-2]),
    query=st.sampled_from(["histogram", "frequency", "count:0", "sum"]),
    adversary=st.sampled_from(["bdp", "pufferfish", "dp"]),
)
@settings(max_examples=examples(40))
def test_the_guarantee_is_kept_and_hardly_more(chain, n, epsilon, delta, query, adversary):
    """By OpenDP's map and the curve: the pair behind the noise is carried over to no more than is guaranteed."""
    if chain.size < 2 and query == "sum":
        return
    found = gaussian(chain, query, epsilon=epsilon, delta=delta, length=n, adversary=adversary)
    a = found.approximation
    whole, unit = query != "sum", found.distribution.unit
    move = a.move / unit
    assert move >= {"histogram": math.sqrt(2), "frequency": math.sqrt(2)}.get(query, 1.0) * (1 - 1e-12)
    assert gaussian_delta(found.distribution.scale / unit, move, whole, a.dp_loss) <= a.dp_delta
    tight = curve("tight", chain, n, adversary)
    q = tight(a.dp_loss)
    assert q <= epsilon
    assert carried_delta(a.dp_loss, a.dp_delta, q) <= delta * (1 + 1e-12)
    # Noise that is 1 % smaller does not keep it, by no pair of its profile.
    profile = PrivacyProfile.of_zcdp(a.rho / 0.99**2)
    losses = np.linspace(0.3, 1.0, 12) * tight.inverse(epsilon)
    carried = [carried_delta(loss, profile.delta(loss), tight(loss)) for loss in losses]
    assert min(carried) > delta or q == 0


def test_noise_on_a_chain_keeps_the_guarantee_by_enumeration():
    """Discrete Gaussian noise on a count over three records, every event: the worst is a set of outputs, by their sign.

    delta(epsilon) = Σ max(0, P(y|x) − e^epsilon·P(y|x')) over outputs y.
    """
    chain, n, epsilon, delta = ACTIVITY, 3, 1.0, 1e-3
    found = gaussian(chain, "count:1", epsilon=epsilon, delta=delta, length=n)
    joint = algorithms.table([chain.transition.tolist()], chain.stationary, n)
    outputs = np.arange(-400, 404, dtype=float)
    noise = np.exp(-((outputs[:, None] - np.arange(n + 1)) ** 2) / (2 * found.scale**2))
    noise /= noise.sum(axis=0)
    counts = np.indices(joint.shape).sum(axis=0)
    worst = 0.0
    for target in range(n):
        for known in algorithms.adversaries(n, target, "every"):
            for values in np.ndindex(*(2,) * len(known)):
                place = [slice(None)] * n
                for t, value in zip(known, values, strict=True):
                    place[t] = value
                distributions = []
                for x in range(2):
                    place[target] = x
                    part = np.bincount(
                        np.ravel(counts[tuple(place)]), weights=np.ravel(joint[tuple(place)]), minlength=n + 1
                    )
                    distributions.append(noise @ (part / part.sum()))
                for top, bottom in (distributions, distributions[::-1]):
                    worst = max(worst, float(np.maximum(0.0, top - math.exp(epsilon) * bottom).sum()))
    assert 0 < worst <= delta


def test_it_wins_where_one_record_moves_many_numbers():
    """k histograms of the same records: L1 grows with k, L2 with its root. Laplace wins up to 6, Gaussian from 7."""
    best = {}
    for k in (6, 7, 100):
        several = Query.of_function(lambda records: 0.0, 2 * k, 3 * k, euclidean=math.sqrt(2 * k))
        found = ranked(W, several, NAME, "curve-tight")
        best[k] = found.best.mechanism
        assert found.candidate(NAME).calibration.scale == safe_scale(20.68696 * math.sqrt(k))
    assert [k for k, name in best.items() if name == NAME] == [7, 100]
    per_bin = [found.candidate(name).calibration.distribution.expected_l1_error / 300 for name in (NAME, "curve-tight")]
    assert np.array(per_bin) == safe_scale([165.06, 644.47], digits=1e-4)


def test_classes_and_other_models():
    box = BinaryInterval(low=0.3, high=0.8)
    assert gaussian(box, "count:1").scale > 1
    groups = AnyGroups(largest=3)
    three = gaussian(groups, "count:1", length=None)
    assert three.approximation.dp_loss == pytest.approx(1 / 3)
    normal = Gaussian(mean=[0.0, 0.0], covariance=[[1.0, 0.4], [0.4, 1.0]])
    found = plan(normal, "sum", epsilon=1, delta=1e-6, clip=(-1, 1)).candidate(NAME)
    assert "real numbers" in found.reason


def test_without_a_delta_it_is_left_out():
    names = [c.mechanism for c in plan(ACTIVITY, "histogram", epsilon=1, length=300).candidates]
    assert names
    assert NAME not in names
    assert NAME in [c.mechanism for c in plan(ACTIVITY, "histogram", epsilon=1, length=300, delta=1e-6).candidates]
    with pytest.raises(NotApplicableError, match="give one with delta="):
        release_one(delta=0.0)


def test_a_delta_that_is_none():
    for delta, words in ((1.0, "delta is 1;"), (-1e-9, "delta is -1e-09"), (math.nan, "delta is nan")):
        with pytest.raises(ParameterError, match=words):
            plan(W, "histogram", epsilon=1, length=30, delta=delta)
    with pytest.raises(QueryError, match="in L2 is 3"):
        Query.of_function(lambda records: 0.0, 2.0, 1, euclidean=3.0)


def release_one(query="histogram", model=W, mechanism=NAME, delta=1e-6, **more):
    import pandas as pd

    states = [model.labels[n % model.size] for n in range(300)]
    return release(
        pd.DataFrame({"x": states}),
        model=model,
        column="x",
        query=query,
        epsilon=1,
        mechanism=mechanism,
        delta=delta,
        sampler=SeededSampler(3),
        **more,
    )


@pytest.mark.parametrize("query", ["histogram", "frequency", "count:a"])
def test_certificates_say_both_numbers(query):
    made = release_one(query)
    content = json.loads(json.dumps(made.certificate.to_dict()))
    assert content["guarantee"]["delta"] == 1e-6
    assert "e^1 = 2.718 times as likely" in content["guarantee"]["statement"]
    assert "plus a delta of 1e-06" in content["guarantee"]["statement"]
    assert content["noise"]["kind"] == "discrete-gaussian"
    assert content["model_estimate"] is not None
    assert verify(content).valid, verify(content).problems
    assert "delta of 1e-06" in str(made)
    for change in ({"delta": 1e-7}, {"delta": None}):
        forged = copy.deepcopy(content)
        forged["guarantee"] |= change
        forged["sha256"] = content_hash(forged)
        assert not verify(forged).valid, change


def test_sums_means_and_functions_are_certified():
    several = Query.of_function(lambda chains: [float(np.sum(c == 1)) for c in chains] * 4, 4.0, 4, euclidean=2.0)
    for query in ("sum", "mean", several):
        content = release_one(query, ACTIVITY).certificate.to_dict()
        assert content["noise"]["kind"] == "gaussian"
        own = several if query is several else None
        assert verify(content, query=own).valid, verify(content, query=own).problems
        assert verify(content).valid


@pytest.mark.slow
def test_a_pure_mechanism_guarantees_no_delta():
    """Where noise without a delta is better, the certificate is one without a delta."""
    content = release_one(mechanism=None).certificate.to_dict()
    assert content["mechanism"]["name"] != NAME
    assert "delta" not in content["guarantee"]
    assert "approximate" not in content["calibration"]
    forged = copy.deepcopy(content)
    forged["guarantee"]["delta"] = 1e-6
    forged["sha256"] = content_hash(forged)
    assert not verify(forged).valid


def test_the_posterior_is_that_of_bayes():
    """Against the distribution of a count over few records and Gaussian weights, by hand."""
    from pufferdp import answer_distribution
    from pufferdp.publish.answers.estimate import model_estimate_of

    found = ranked(ACTIVITY, "count:1", length=12)
    noise = found.candidate(NAME).calibration.distribution
    distribution = answer_distribution(ACTIVITY, "count:1", length=12)
    points, prior = np.array(distribution.answers, dtype=float), np.array(distribution.probabilities)
    weights = prior * np.exp(-((9 - points) ** 2) / (2 * noise.scale**2))
    assert model_estimate_of(found.problem, 9, noise).mean == pytest.approx(
        float(points @ weights / weights.sum()), rel=1e-9
    )


@pytest.mark.slow
def test_a_ledger_is_charged_for_the_pair_behind_the_noise(tmp_path):
    from pufferdp import Ledger

    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("pure", model=W, budget=5)
        with pytest.raises(RefusedError, match="has a delta of 1e-06, and data set 'pure' keeps a pure budget"):
            release_one(ledger=ledger, dataset="pure")
        assert ledger.dataset("pure").releases == 0
        ledger.create("both", model=W, budget=5, delta=1e-5)
        made = release_one(ledger=ledger, dataset="both")
        shown, behind = ledger.dataset("both"), made.certificate.calibration.approximate
        assert (shown.spent_dp, shown.spent_delta) == (behind.dp_epsilon, behind.dp_delta)
        assert verify(made.certificate.to_dict()).valid
        assert ledger.verify().valid


def test_pages_say_what_is_bounded():
    """With a delta probabilities are bounded and odds are not: no page says they were."""
    several = Query.of_function(lambda chains: [0.0] * 100, 200.0, 100, euclidean=10.0)
    pages = [
        page_from_certificate(release_one().certificate.to_dict()),
        plan_page(ranked(W, several, NAME, "curve-tight")),
    ]
    for page in pages:
        (words,) = next(section for section in page.sections if section.title == "The guarantee").blocks
        text = " ".join(words.sentences)
        assert "plus a delta of 1e-06" in text
        assert "odds" not in text
