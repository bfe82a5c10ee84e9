"""Mechanisms from outside get states by name, and one that does not look at them is not called innocent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pufferdp import MarkovChain, ParameterError, audit_mechanism
from pufferdp.assess.audit.priors import opposite_records, priors_of, states_handed_over
from pufferdp.models.files.json import model_from_dict

NAMED = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]], states=["rest", "active"])
NUMBERED = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]])
LEVELS = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]], states=["10", "20.5"])


def exact_count(row: Any) -> float:
    """A count without any noise: every claim is wrong, if only it sees the names."""
    return float((row == "active").sum())


def test_states_are_handed_over_by_name() -> None:
    found = audit_mechanism(NAMED, exact_count, length=6, dp_epsilon=1.0, calls=4000, seconds=600)
    assert found.refuted
    assert found.responds
    assert found.to_dict()["refuted"] is True


@pytest.mark.parametrize(
    ("model", "states"),
    [(NAMED, ("rest", "active")), (NUMBERED, (0, 1)), (LEVELS, (10.0, 20.5))],
)
def test_what_stands_for_a_state(model: MarkovChain, states: tuple[object, ...]) -> None:
    (prior,) = priors_of(model, 3)
    handed = states_handed_over(prior)
    assert handed == states
    assert handed is not None and [type(x) for x in handed] == [type(x) for x in states]
    assert [row.tolist() for row in opposite_records(prior)] == [[[0, 0, 0]], [[1, 1, 1]]]


def test_names_of_other_models() -> None:
    outcomes = [{"records": ["no", "no"], "probability": 0.5}, {"records": ["yes", "yes"], "probability": 0.5}]
    (prior,) = priors_of(model_from_dict({"type": "joint", "values": ["no", "yes"], "outcomes": outcomes}))
    assert states_handed_over(prior) == ("no", "yes")


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_an_output_that_never_depends_on_the_data_is_reported_as_such(noise: float) -> None:
    generator = np.random.default_rng(1)

    def deaf(row: Any) -> float:
        return float((row == 1).sum() + noise * generator.laplace())  # names are never 1

    found = audit_mechanism(NAMED, deaf, length=6, dp_epsilon=1.0, calls=4000, seconds=600)
    assert not found.refuted
    assert not found.responds
    assert found.to_dict()["responds"] is False
    assert "never depended on the data" in str(found)
    assert "Nothing was found against" not in str(found)


def test_an_output_that_depends_a_little_is_not_accused() -> None:
    """Six records, a loss of .05 for each: too little to prove about one record, and seen between all and none."""
    generator = np.random.default_rng(2)

    def quiet(row: Any) -> float:
        return float((row == "active").sum() + generator.laplace(scale=5.0))

    found = audit_mechanism(NAMED, quiet, length=6, dp_epsilon=0.2, calls=20_000, seconds=600)
    assert found.responds
    assert not found.refuted


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        ("laplace", "laplace:QUERY, such as laplace:histogram"),
        ("laplace:", "laplace:QUERY, such as laplace:histogram"),
        ("flip", "flip:R0,R1"),
        ("redact", "redact:ROW:EPSILON"),
        ("redact:3", "redact:ROW:EPSILON"),
    ],
)
def test_a_mechanism_that_lacks_its_second_half_is_told_how_it_is_written(mechanism: str, words: str) -> None:
    with pytest.raises(ParameterError, match=f"^mechanism is '{mechanism}'; write it as {words}"):
        audit_mechanism(NAMED, mechanism, length=6, dp_epsilon=1.0)
