"""Models: what they accept, what they refuse, what they compute."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given

from pufferdp.basics.errors import ModelError
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import BinaryInterval, MarkovClass, MarkovInterval
from pufferdp.models.files.json import load_model, model_digest, model_from_dict, model_to_dict, save_model
from tests.oracles.chains import stationary
from tests.strategies import chains

GOOD = {"type": "markov_chain", "transition": [[0.9, 0.1], [0.4, 0.6]]}


@given(chain=chains())
def test_stationary_distribution_is_stationary_and_zero_on_transient_states(chain):
    distribution = chain.stationary
    assert distribution.sum() == pytest.approx(1)
    assert distribution @ chain.transition == pytest.approx(distribution, abs=1e-12)
    recurrent = {x for members in chain.closed_classes for x in members}
    assert {int(x) for x in np.flatnonzero(distribution)} == recurrent
    if len(chain.closed_classes) == 1:
        assert distribution == pytest.approx(stationary(chain.transition), abs=1e-9)


@given(chain=chains())
def test_reversal_reads_the_chain_backwards(chain):
    if (chain.stationary > 0).all():
        flow = chain.stationary[:, None] * chain.transition
        assert chain.stationary[:, None] * chain.reversal == pytest.approx(flow.T, abs=1e-12)
    else:
        with pytest.raises(ModelError, match="stationary probability 0"):
            _ = chain.reversal


@given(chain=chains())
def test_a_file_gives_back_the_model(chain):
    again = model_from_dict(json.loads(json.dumps(model_to_dict(chain))))
    assert model_digest(again) == model_digest(chain)
    assert (again.transition == chain.transition).all()


@pytest.mark.parametrize(
    ("transition", "primitive", "irreducible"),
    [
        ([[0.5, 0.5], [0.5, 0.5]], True, True),
        ([[0, 1], [1, 0]], False, True),
        ([[1, 0], [0, 1]], False, False),
        ([[0.5, 0.5], [0, 1]], False, False),
        ([[0, 1, 0], [0, 0, 1], [0.01, 0.99, 0]], True, True),
        ([[1.0]], True, True),
    ],
)
def test_which_chains_mix(transition, primitive, irreducible):
    chain = MarkovChain(transition=transition)
    assert (chain.primitive, chain.irreducible) == (primitive, irreducible)


def test_every_kind_of_file(tmp_path):
    chain = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], start=[0.8, 0.2], states=["a", "b"], values=[1, 2])
    models = [
        chain,
        MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], start="any", bins=[0, 200, 400], fitted={"records": 3}),
        MarkovClass(models=(chain, MarkovChain(transition=np.eye(2), states=["a", "b"], values=[1, 2]))),
        BinaryInterval(low=0.2, high=0.8, states=("off", "on")),
        MarkovInterval(low=[[0.1, 0.6], [0.2, 0.3]], high=[[0.4, 0.9], [0.7, 0.8]]),
    ]
    for n, model in enumerate(models):
        save_model(model, tmp_path / f"{n}.json")
        again = load_model(tmp_path / f"{n}.json")
        assert type(again) is type(model)
        assert model_digest(again) == model_digest(model)
        assert repr(again) == repr(model)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"{n}.json" for n in range(len(models))]


def test_almost_right_rows_are_scaled_once_and_for_all():
    once = MarkovChain(transition=[[0.9, 0.1 + 5e-10], [0.4, 0.6]])
    assert once.transition[0].sum() == pytest.approx(1, abs=3e-16)
    twice = MarkovChain(transition=once.transition)
    assert (once.transition == twice.transition).all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"transition": [[0.9, 0.2], [0.4, 0.6]]}, "row 1 of transition sums to 1.1"),
        ({"transition": [[1.1, -0.1], [0.4, 0.6]]}, "is -0.1"),
        ({"transition": [[float("nan"), 1], [0.4, 0.6]]}, "is nan"),
        ({"transition": [[0.9, 0.1]]}, "1×2"),
        ({"transition": [[0.9, 0.1], [1.0]]}, "every row of the same length"),
        ({"transition": []}, "square table"),
        ({"start": [0.5, 0.4]}, "start sums to 0.9"),
        ({"start": [1.0]}, "one for each of the 2 states"),
        ({"start": "uniform"}, "uniform"),
        ({"states": ["a"]}, "1 name;"),
        ({"states": ["a", "a"]}, "'a' is named twice"),
        ({"values": [1, float("inf")]}, "2 finite numbers"),
        ({"bins": [0, 200]}, "2 edges"),
        ({"bins": [0, 400, 200]}, "rising"),
        ({"type": "hidden"}, "hidden"),
        ({"colour": 1}, "colour is not a key"),
    ],
)
def test_refusals_name_the_value(change, says):
    with pytest.raises(ModelError, match=says.replace("(", r"\(")):
        model_from_dict({**GOOD, **change})


def test_a_class_whose_models_disagree_is_refused():
    with pytest.raises(ModelError, match="different states"):
        MarkovClass(models=(MarkovChain(transition=np.eye(2)), MarkovChain(transition=np.eye(2), states=["x", "y"])))


def test_boxes_are_tightened_to_what_chains_can_have():
    box = MarkovInterval(low=[[0.0, 0.7], [0.2, 0.3]], high=[[1.0, 0.9], [0.5, 0.9]])
    assert box.high[0, 0] == pytest.approx(0.3)
    assert box.low[0, 0] == pytest.approx(0.1)
    assert box.low[1, 1] == pytest.approx(0.5)
    with pytest.raises(ModelError, match="no chain is in the class"):
        MarkovInterval(low=[[0.6, 0.6], [0.1, 0.1]], high=[[0.9, 0.9], [0.9, 0.9]])


def test_models_cannot_be_changed():
    chain = MarkovChain(**{k: v for k, v in GOOD.items() if k != "type"})
    with pytest.raises(ValueError, match="read-only"):
        chain.transition[0, 0] = 1
    with pytest.raises(AttributeError):
        chain.start = "any"
