"""Values that no model can hold: a sentence says what is wrong. ``tests.fuzz`` puts them everywhere in every file."""

from __future__ import annotations

from typing import Any

import pytest

import pufferdp
from pufferdp.models.files.json import model_from_dict

CHAIN = {"type": "markov_chain", "transition": [[0.9, 0.1], [0.2, 0.8]], "states": ["a", "b"]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"states": ["a\ud800", "b"]}, "not Unicode"),
        ({"fitted": {"rows": 2**70}}, "beyond 2\\^63"),
        ({"fitted": {"digest": float("nan")}}, "fitted holds nan"),
    ],
)
def test_values_that_no_file_can_hold(content: dict[str, Any], words: str) -> None:
    with pytest.raises(pufferdp.ModelError, match=words):
        model_from_dict({**CHAIN, **content})


@pytest.mark.parametrize("value", [10**400, -(10**400), "1" + "0" * 400, float("inf"), 2**53 + 1])
def test_lengths_that_are_no_length(value: Any) -> None:
    with pytest.raises(pufferdp.ParameterError, match="must be a whole number"):
        pufferdp.plan(model_from_dict(CHAIN), "histogram", epsilon=1.0, length=value)


def test_a_covariance_out_of_bounds() -> None:
    for matrix in ([[1e308, 1e308], [1e308, 1e308]], [[1e-320, 0.0], [0.0, 1e-320]], [[1.0, 1e200], [1e200, 1.0]]):
        with pytest.raises(pufferdp.ModelError, match="another unit"):
            pufferdp.Gaussian(mean=[0, 0], covariance=matrix)
