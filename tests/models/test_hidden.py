"""Hidden chains as models: what a file says, what is refused, and every verb that works or says why not."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp import (
    HiddenMarkov,
    Ledger,
    ModelError,
    NotApplicableError,
    PufferdpError,
    audit_mechanism,
    design_flips,
    from_hmmlearn,
    leakage_of,
    load_model,
    plan,
    plan_flow,
    plan_redaction,
    release,
    save_model,
    verify,
)
from pufferdp.bounds.curves import best_curve
from pufferdp.models.files.json import model_from_dict, model_to_dict
from pufferdp.models.simulate import hidden_log_probability, sample_hidden, seeded
from pufferdp.publish.answers.estimate import answer_prior
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.noise import SeededSampler
from tests.oracles import algorithms
from tests.strategies import examples

SENSOR = HiddenMarkov(
    transition=[[0.9, 0.1], [0.2, 0.8]],
    emission=[[0.8, 0.15, 0.05], [0.3, 0.6, 0.1]],
    states=["off", "on", "lost"],
    values=[0, 1, 5],
    step=1,
)
GENERATOR = np.random.default_rng(5)
FRAME = pd.DataFrame({"t": range(60), "state": [SENSOR.labels[x] for x in GENERATOR.integers(3, size=60)]})


def test_a_file_says_everything(tmp_path):
    save_model(SENSOR, tmp_path / "m.json")
    back = load_model(tmp_path / "m.json")
    assert model_to_dict(back) == model_to_dict(SENSOR)
    assert model_to_dict(back)["step"] == 1
    assert repr(back) == "HiddenMarkov(2 hidden states; records off, on, lost; start stationary)"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"emission": [[0.5, 0.5]]}, "one row for each of the 2 hidden states"),
        ({"emission": [[0.5, 0.4], [0.5, 0.5]]}, "row 1 of emission sums to 0.9"),
        ({"emission": [[1.5, -0.5], [0.5, 0.5]]}, "a probability lies between 0 and 1"),
        ({"emission": [0.5, 0.5]}, "emission"),
        ({"transition": [[0.5, 0.5]]}, "transition is 1×2"),
        ({"start": [0.5, 0.2, 0.3]}, "start has 3 probabilities"),
        ({"start": "never"}, "start is 'never'"),
        (
            {"states": ["a", "b", "c"]},
            "they name the values of records, and emission has 2 columns",
        ),
        ({"states": ["a", "a"]}, "named twice"),
        ({"step": -1.0}, "step is -1"),
        ({"step": ""}, "step is ''"),
        ({"emision": [[1.0]]}, "emision is not a key"),
    ],
)
def test_what_is_wrong_is_named(change, words):
    content = {"type": "hidden_markov", "transition": [[0.9, 0.1], [0.2, 0.8]], "emission": [[0.8, 0.2], [0.3, 0.7]]}
    with pytest.raises(ModelError, match=words.replace("(", r"\(")):
        model_from_dict(content | change)


@given(data=st.data())
@settings(max_examples=examples(30), deadline=None)
def test_probabilities_and_distributions_of_counts_are_those_of_enumeration(data):
    """Of all records, of some, and of the count that is model-based estimate."""
    seed = data.draw(st.integers(0, 10**6))
    generator = np.random.default_rng(seed)
    hidden, values, n = (int(generator.integers(low, high)) for low, high in ((1, 4), (2, 4), (1, 5)))
    tables = generator.dirichlet(np.ones(hidden), size=hidden), generator.dirichlet(np.ones(values), size=hidden)
    model = HiddenMarkov(transition=tables[0], emission=tables[1], start=generator.dirichlet(np.ones(hidden)))
    joint = algorithms.hidden_table(*tables, model.start_distribution, n)
    path = generator.integers(values, size=n)
    known = {t: int(x) for t, x in enumerate(path)}
    assert math.exp(hidden_log_probability(model, n, known)) == pytest.approx(joint[tuple(path)], rel=1e-9)
    problem = Problem(model=model, query=Query.parse("count:1"), lengths=((n, 1),), epsilon=1.0)
    prior = answer_prior(problem)
    expected = np.zeros(n + 1)
    for series in itertools.product(range(values), repeat=n):
        expected[series.count(1)] += joint[series]
    assert prior is not None
    assert prior.distribution.masses == pytest.approx(expected, abs=1e-12)


def test_simulation_has_the_right_distribution():
    """Twenty thousand draws of three records, all of them and given the middle one: no cell off by 5 deviations."""
    joint = algorithms.hidden_table(SENSOR.transition, SENSOR.emission, SENSOR.start_distribution, 3)
    drawn = sample_hidden(SENSOR, 3, 20_000, seeded(1))
    counts = np.zeros((3, 3, 3))
    np.add.at(counts, tuple(drawn.T), 1)
    assert (np.abs(counts - 20_000 * joint) <= 5 * np.sqrt(20_000 * joint) + 1).all()
    drawn = sample_hidden(SENSOR, 3, 20_000, seeded(2), {1: 2})
    distribution = joint[:, 2] / joint[:, 2].sum()
    counts = np.zeros((3, 3))
    np.add.at(counts, (drawn[:, 0], drawn[:, 2]), 1)
    assert (drawn[:, 1] == 2).all()
    assert (np.abs(counts - 20_000 * distribution) <= 5 * np.sqrt(20_000 * distribution) + 1).all()
    with pytest.raises(ModelError, match="has 3 records"):
        sample_hidden(SENSOR, 3, 1, seeded(1), {3: 0})


def test_which_series_are_possible():
    one_way = HiddenMarkov(transition=[[0.5, 0.5], [0.0, 1.0]], emission=[[1.0, 0.0], [0.0, 1.0]], start=[1.0, 0.0])
    assert one_way.possible([np.array([0, 0, 1, 1])])
    assert not one_way.possible([np.array([0, 1, 0])])
    assert not one_way.possible([np.array([1, 1])])


@pytest.mark.slow
@pytest.mark.parametrize(("query", "adversary"), [("histogram", "bdp"), ("count:on", "pufferfish")])
def test_released_and_verified(query, adversary):
    done = release(
        FRAME,
        model=SENSOR,
        column="state",
        order="t",
        query=query,
        epsilon=1.0,
        adversary=adversary,
        sampler=SeededSampler(3),
    )
    certificate = done.certificate.to_dict()
    best = "laplace-hidden" if query in ("sum", "mean") else "curve-odds" if adversary == "bdp" else "curve-tight"
    assert certificate["mechanism"]["name"] == best
    assert certificate["model_estimate"] is not None
    assert verify(certificate).valid
    certificate["noise"]["scale"] *= 0.9  # ten per cent less noise
    certificate["sha256"] = content_hash(certificate)
    assert not verify(certificate).valid


def test_a_segment_of_a_series_counts_as_part_of_an_endless_one():
    """What lies outside shows through the hidden state: nobody shields it, whoever looks."""
    for adversary in ("bdp", "pufferfish"):
        problem = Problem(
            model=SENSOR,
            query=Query.parse("count:on"),
            lengths=((3, 1),),
            epsilon=1.0,
            adversary=adversary,
            part=True,
        )
        assert problem.endless


@pytest.mark.slow
def test_a_ledger_counts_it(tmp_path):
    with Ledger(tmp_path / "l.db", create=True) as ledger:
        ledger.create("sensor", model=SENSOR, budget=2.0)
        for _ in range(2):
            release(
                FRAME,
                model=SENSOR,
                column="state",
                order="t",
                query="count:on",
                epsilon=0.5,
                ledger=ledger,
                dataset="sensor",
                sampler=SeededSampler(4),
            )
        curve = best_curve(SENSOR, 60)
        spent = ledger.dataset("sensor")
        assert spent.leakage == pytest.approx(curve(2 * curve.inverse(0.5)), rel=1e-6)
        assert ledger.verify(spent.head).problems == ()


def test_leakage_says_why_curves_do_not_apply():
    report = leakage_of(SENSOR, dp_epsilon=0.3, length=60, query="count:on")
    assert report.best == "odds"
    assert report.exact is None
    for name in ("markov", "zhao", "quilt", "exact"):
        assert "hidden states" in report.reasons[name]


def test_an_audit_draws_hidden_states():
    found = audit_mechanism(SENSOR, "laplace:count:on", dp_epsilon=0.5, length=6, calls=20_000, seed=1)
    assert 0 < found.lower <= best_curve(SENSOR, 6)(0.5)


@pytest.mark.parametrize(
    "verb",
    [
        lambda: design_flips(SENSOR, epsilon=1.0, length=20),
        lambda: plan_redaction(SENSOR, private=[3], epsilon=1.0, length=20),
        lambda: plan_flow(SENSOR, length=60, eta=0.1, tau=1.0),
    ],
    ids=["flip", "redact", "flow"],
)
def test_other_verbs_say_why_not(verb):
    with pytest.raises(PufferdpError) as error:
        verb()
    assert isinstance(error.value, ModelError | NotApplicableError)
    assert "HiddenMarkov" in str(error.value)


class Fitted:
    """What a fitted CategoricalHMM of hmmlearn has."""

    def __init__(self, **tables):
        vars(self).update(tables)


CATEGORICAL = {
    "transmat_": np.array([[0.9, 0.1 + 1e-8], [0.2, 0.8]]),
    "emissionprob_": np.array([[0.8, 0.2], [0.3, 0.7]]),
    "startprob_": np.array([0.25, 0.75]),
}


def test_a_model_of_hmmlearn_is_taken_over():
    model = from_hmmlearn(Fitted(**CATEGORICAL), states=["off", "on"], values=[0, 1], step="5min")
    assert model.labels == ("off", "on")
    assert model.transition == pytest.approx(CATEGORICAL["transmat_"], abs=1e-7)
    assert model.transition.sum(axis=1) == pytest.approx([1, 1], abs=1e-15)
    assert model.start_distribution.tolist() == [0.25, 0.75]
    assert model.step == "5min"
    assert plan(model, query="count:on", length=100, epsilon=1.0).best.mechanism == "curve-odds"


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Fitted(**CATEGORICAL, means_=np.zeros((2, 1))), "whose records are numbers; .* fit a CategoricalHMM"),
        (Fitted(**CATEGORICAL, lambdas_=np.zeros((2, 1))), "whose records are numbers"),
        (Fitted(transmat_=np.eye(2)), "without emissionprob_; .* call its fit first"),
        (Fitted(**CATEGORICAL, n_trials=5), "with 5 trials"),
        (Fitted(**{**CATEGORICAL, "emissionprob_": np.full((2, 2), np.nan)}), "entry 1 of row 1 of emission is nan"),
        (Fitted(**{**CATEGORICAL, "startprob_": np.array([0.5, 0.4])}), "start sums to 0.9"),
        (object(), "without transmat_"),
    ],
)
def test_other_models_are_refused(model, words):
    with pytest.raises(ModelError, match=words):
        from_hmmlearn(model)
