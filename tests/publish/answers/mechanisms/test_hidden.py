"""Noise on counts over hidden states: what it is planned from, and which certificates are rejected."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import pufferdp
from pufferdp.basics.errors import NotApplicableError
from pufferdp.bounds.hidden.counts import CountBound
from pufferdp.models.hidden import HiddenMarkov
from pufferdp.models.hidden_states import HiddenStates
from pufferdp.publish.answers.mechanisms import MECHANISMS
from pufferdp.publish.answers.mechanisms.baselines import CurveNoise
from pufferdp.publish.answers.mechanisms.exact import LaplaceHidden
from pufferdp.publish.answers.plan import plan_problem
from pufferdp.publish.answers.problem import Calibrated, Problem
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.certificate import content_hash
from tests.bounds.hidden.cases import ROOM, hidden_case, joints, timed_case
from tests.oracles.leakage import answers, channel_leakage, likelihoods
from tests.publish.test_every_mechanism import ROWS
from tests.strategies import examples

TABLE = [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]]
REGIMES = HiddenStates(transition=TABLE, of=[0, 0, 1], states=["rest", "active"], values=[0, 3])
SENSOR = HiddenMarkov(transition=[[0.9, 0.1], [0.2, 0.8]], emission=[[0.8, 0.2], [0.3, 0.7]], states=["rest", "active"])
CHAIN = HiddenStates(transition=[[0.9, 0.1], [0.2, 0.8]], of=[0, 1], states=["rest", "active"])


def scales(model, query="count:active", **more):
    planned = pufferdp.plan(model, query, **{"epsilon": 1.0, "length": 100, **more})
    return {c.mechanism: c.calibration.scale for c in planned.candidates if c.applies}, {
        c.mechanism: c.reason for c in planned.candidates if not c.applies
    }


@pytest.mark.parametrize("model", [REGIMES, SENSOR], ids=["regimes", "sensor"])
def test_it_needs_less_noise_than_any_algorithm(model):
    noise, _ = scales(model)
    assert noise["laplace-hidden"] < 0.8 * noise["curve-potential"]


def test_the_noise_is_that_of_the_bound():
    noise, _ = scales(REGIMES)
    bound = CountBound(TABLE, [0, 0, 1], [0, 1], length=100)
    assert 0.99 <= bound(1 / noise["laplace-hidden"]) <= 1


@pytest.mark.parametrize(("query", "times"), [("histogram", 2), ("sum", 3), ("mean", 0.03)])
def test_other_answers_of_one_number_have_the_noise_of_a_count(query, times):
    count, other = (scales(REGIMES, asked)[0]["laplace-hidden"] for asked in ("count:active", query))
    assert other == pytest.approx(times * count, rel=5e-3)


@pytest.mark.parametrize(
    ("model", "more", "reason"),
    [
        (CHAIN, {}, "the model has none"),
        (REGIMES, {"adversary": "dp"}, "the model plays no role"),
        (HiddenStates(transition=TABLE, of=[0, 1, 2]), {"query": "histogram"}, "the model has none"),
        (HiddenStates.of_order([[[0.2, 0.3, 0.5]] * 3] * 3), {"query": "histogram"}, "is worked out for one number"),
    ],
)
def test_reasons(model, more, reason):
    assert reason in scales(model, **more)[1]["laplace-hidden"]


def random_model(seed):
    """A model of hidden states with numbers for its values, the distributions of all its records, and epsilon."""
    if seed % 4 == 3:
        kernels, shown, n, epsilon = timed_case(seed)
        start, names = "stationary", {"period": f"{len(kernels)}h", "step": "1h"}
    else:
        kernels, shown, start, n, epsilon = hidden_case(seed)
        names = {"start": start}
    shown, n = np.unique(shown, return_inverse=True)[1], min(n, 4)
    values = np.random.default_rng([seed, 14]).permutation(7)[: shown.max() + 1] - 2.0
    model = HiddenStates(transition=kernels, of=tuple(shown.tolist()), values=values.tolist(), **names)
    return model, {m: list(joints(kernels, shown, start, m)) for m in range(1, n + 1)}, epsilon


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("adversary", ["pufferfish", "bdp"])
def test_no_planned_noise_leaks_more_than_epsilon(part, adversary):
    """Every mechanism that applies, by enumeration: zeros, given starts, time of day, two people, all queries."""
    for seed in range(part, examples(60), 4):
        model, joint, epsilon = random_model(seed)
        n, k, values = max(joint), model.size, model.values
        query = ("count:0", "sum", "mean", "histogram", "frequency")[seed % 5]
        lengths = (n, 1 + seed % n)
        planned = pufferdp.plan(model, query, epsilon=epsilon, lengths=lengths, adversary=adversary)
        records = sum(lengths) if query in ("mean", "frequency") else 1
        asked = {"mean": "sum", "frequency": "histogram"}.get(query, query)
        for noise in {c.calibration.distribution for c in planned.candidates if c.applies}:
            scale = max(records * noise.scale, 0.05)  # no noise at all reveals about as much
            for m in set(lengths):
                channel = likelihoods(answers(k, m, asked, values), scale, noise.balanced)
                leaked = max(channel_leakage(distribution, channel, adversary) for distribution in joint[m])
                assert leaked <= epsilon * (1 + ROOM), (seed, query, noise)


def release():
    return pufferdp.release(
        ROWS, model=REGIMES, column="s", order="t", query="count:active", epsilon=1.0, mechanism="laplace-hidden"
    )


def test_a_release_verifies():
    made = release()
    assert made.certificate.to_dict()["mechanism"]["name"] == "laplace-hidden"
    assert pufferdp.verify(made.certificate).valid


@pytest.mark.parametrize("share", [0.95, 1.05])
def test_other_noise_than_planned_is_rejected(share):
    content = release().certificate.to_dict()
    planned = content["noise"]["scale"]
    content = _scaled(content, planned, share)
    content["sha256"] = content_hash(content)
    assert not pufferdp.verify(content).valid


def _scaled(content, planned, share):
    """The content with every number that is the planned scale, or its inverse, multiplied."""
    if isinstance(content, dict):
        return {key: _scaled(value, planned, share) for key, value in content.items()}
    if isinstance(content, list):
        return [_scaled(value, planned, share) for value in content]
    if isinstance(content, float) and content == pytest.approx(planned, rel=1e-9):
        return content * share
    if isinstance(content, float) and content == pytest.approx(1 / planned, rel=1e-9):
        return content / share
    return content


def test_a_part_of_a_series_is_left_to_other_mechanisms():
    frame = pl.DataFrame({"t": range(24), "s": ["rest", "active", "active"] * 8})
    with pytest.raises(pufferdp.PufferdpError, match="goes on before and after"):
        pufferdp.release(
            frame, model=REGIMES, column="s", order="t", query="count:active", epsilon=1.0, first=5,
            mechanism="laplace-hidden",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("kinds", "query", "spared"), [(4, "count:0", False), (6, "count:0", True), (6, "histogram", False)]
)
def test_counts_over_many_hidden_states_spare_the_bound_for_any_algorithm(kinds, query, spared):
    """It takes minutes for them, and hardly ever needs less noise."""
    states = 2 * kinds
    model = HiddenStates(transition=np.full((states, states), 1 / states), of=(0,) * kinds + (1,) * kinds)
    problem = Problem(model=model, query=Query.parse(query), lengths=((20, 1),), epsilon=1.0)
    by_name = {mechanism.name: mechanism for mechanism in MECHANISMS}
    assert by_name["curve-potential"].spared_by(problem) == ("laplace-hidden" if spared else None)
    assert by_name["laplace-hidden"].spared_by(problem) is None


@pytest.mark.parametrize("found", [True, False])
def test_a_mechanism_is_left_out_only_where_the_other_one_gives_noise(found, monkeypatch):
    def find(self, problem):
        if found:
            return Calibrated(sigma=9.0)
        raise NotApplicableError("is above 1 however little privacy loss is spent")

    monkeypatch.setattr(LaplaceHidden, "find", find)
    monkeypatch.setattr(CurveNoise, "spared_by", lambda self, problem: "laplace-hidden")
    problem = Problem(model=REGIMES, query=Query.parse("count:active"), lengths=((11 + found, 1),), epsilon=1.0)
    names = {candidate.mechanism for candidate in plan_problem(problem).candidates}
    assert ("curve-potential" in names) is not found
    by_name = plan_problem(problem, only=["curve-potential"]).candidates
    assert [candidate.applies for candidate in by_name] == [True]
