"""Chains of second order as models: what a file says, what is refused, and every verb."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pufferdp import (
    MemoryChain,
    ModelError,
    ParameterError,
    PufferdpError,
    design_flips,
    fit,
    load_model,
    plan_redaction,
    release,
    save_model,
    verify,
)
from pufferdp.models.files.json import model_from_dict, model_to_dict
from pufferdp.models.simulate import sample_hidden, seeded
from pufferdp.publish.answers.estimate import answer_prior
from pufferdp.publish.answers.problem import Problem
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.noise import SeededSampler
from tests.bounds.hidden.test_memory import second_order_table

TABLE = np.array([[[0.9, 0.1], [0.4, 0.6]], [[0.6, 0.4], [0.2, 0.8]]])
MODEL = MemoryChain(transition=TABLE, states=["rest", "active"], values=[0, 1])
PATH = sample_hidden(MODEL.hidden, 3000, 1, seeded(4))[0]
FRAME = pd.DataFrame({"state": [MODEL.labels[x] for x in PATH]})


def test_a_file_says_everything(tmp_path):
    save_model(MODEL, tmp_path / "m.json")
    assert model_to_dict(load_model(tmp_path / "m.json")) == model_to_dict(MODEL)
    assert repr(MODEL) == "MemoryChain(second order, 2 states: rest, active; start stationary)"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"transition": [[[0.5, 0.5]]]}, "it must be a cube"),
        ({"transition": [[[0.5, 0.4], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]]}, "row 1 of part 1 of transition sums"),
        ({"start": "never"}, "start is 'never'"),
        ({"states": ["a"]}, "states has 1 name"),
    ],
)
def test_what_is_wrong_is_named(change, words):
    with pytest.raises(ModelError, match=words):
        model_from_dict({"type": "markov_memory", "transition": TABLE.tolist()} | change)


def test_the_law_of_a_count_is_that_of_enumeration():
    joint = second_order_table(TABLE, MODEL.hidden.start_law.reshape(2, 2), 5)
    expected = np.bincount(np.indices(joint.shape).sum(axis=0).ravel(), joint.ravel(), 6)
    prior = answer_prior(Problem(model=MODEL, query=Query.parse("count:active"), lengths=((5, 1),), epsilon=1.0))
    assert prior is not None
    assert prior.law.masses == pytest.approx(expected, abs=1e-12)


def test_a_fit_counts_what_follows_pairs():
    fitted = fit(FRAME, column="state", states=["rest", "active"], memory=2)
    counts = np.zeros((2, 2, 2))
    np.add.at(counts, (PATH[:-2], PATH[1:-1], PATH[2:]), 1)
    assert fitted.model.transition == pytest.approx(counts / counts.sum(axis=2, keepdims=True))
    assert fitted.lent_rows == ()
    smooth = fit(FRAME, column="state", states=["rest", "active"], memory=2, prior=2.0).model
    assert smooth.transition == pytest.approx((counts + 2) / (counts + 2).sum(axis=2, keepdims=True))


def test_pairs_that_nothing_follows_have_the_row_of_their_last_state():
    fitted = fit(pd.DataFrame({"s": list("abab")}), column="s", memory=2)
    assert fitted.lent_rows == ("a then a", "b then b")
    assert fitted.model.transition[1, 1].tolist() == [1.0, 0.0]
    assert "Nothing was seen to follow a then a, b then b" in str(fitted)


def test_people_are_not_joined():
    rows = pd.DataFrame({"who": ["x"] * 3 + ["y"] * 3, "t": [1, 2, 3] * 2, "s": list("abaaba")})
    alone = fit(rows, column="s", by="who", order="t", memory=2, prior=1.0, independent=True).model
    assert alone.transition[0, 1] == pytest.approx([3 / 4, 1 / 4])
    assert alone.transition[1, 0] == pytest.approx([1 / 2, 1 / 2])


@pytest.mark.parametrize("asked", [{"memory": 3}, {"memory": 2, "confidence": 0.9}, {"memory": 2, "dp_epsilon": 1.0}])
def test_what_is_not_worked_out_is_refused(asked):
    with pytest.raises(ParameterError, match="memory is"):
        fit(FRAME, column="state", states=["rest", "active"], **asked)


@pytest.mark.slow
@pytest.mark.parametrize("adversary", ["bdp", "pufferfish"])
def test_released_and_verified(adversary):
    done = release(
        FRAME[:100],
        model=MODEL,
        column="state",
        query="histogram",
        epsilon=1.0,
        adversary=adversary,
        sampler=SeededSampler(3),
    )
    certificate = done.certificate.to_dict()
    assert certificate["mechanism"]["name"] == ("curve-odds" if adversary == "bdp" else "curve-tight")
    assert verify(certificate).valid
    certificate["noise"]["scale"] *= 0.9
    certificate["sha256"] = content_hash(certificate)
    assert not verify(certificate).valid


@pytest.mark.parametrize(
    "verb",
    [
        lambda: design_flips(MODEL, epsilon=1.0, length=20),
        lambda: plan_redaction(MODEL, private=[3], epsilon=1.0, length=20),
    ],
    ids=["flip", "redact"],
)
def test_other_verbs_say_why_not(verb):
    with pytest.raises(PufferdpError, match="MemoryChain"):
        verb()
