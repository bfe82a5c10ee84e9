"""How a series is read is declared once: Python, the command line and the page have the same names and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

import pufferdp
from pufferdp.apps.cli import fit, flip, flow, redact, release
from pufferdp.apps.cli.options import expanded
from pufferdp.apps.web.requests import REQUESTS
from pufferdp.data.reading_options import ReadingOptions
from pufferdp.publish.series import SeriesOptions

CHAIN = pufferdp.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
REQUIRED: dict[str, dict[str, Any]] = {
    "flip": {"model": CHAIN, "epsilon": 1},
    "flow": {"model": CHAIN, "eta": 0.1, "tau": 0.1},
    "redact": {"model": CHAIN, "epsilon": 1, "private": 1},
    "release": {"model": CHAIN, "epsilon": 1, "query": "histogram"},
    "release_fleet": {"models": {"a": CHAIN}, "epsilon": 1, "query": "histogram"},
}
DECLARED = {field.name: field.default for field in fields(ReadingOptions)}


@pytest.mark.parametrize("function", [pufferdp.fit, pufferdp.Series])
def test_python(function: Callable[..., Any]) -> None:
    given = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
    assert {name: given[name] for name in ReadingOptions().arguments()} == ReadingOptions().arguments()


@pytest.mark.parametrize(
    "function", [pufferdp.flip, pufferdp.flow, pufferdp.redact, pufferdp.release, pufferdp.release_fleet]
)
def test_verbs_take_them_as_a_series_does(function: Callable[..., Any]) -> None:
    assert SeriesOptions.__annotations__.keys() >= ReadingOptions().arguments().keys()
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    assert inspect.Parameter.VAR_KEYWORD in kinds
    with pytest.raises(TypeError, match="sorted_by is an unexpected keyword argument"):
        function([0, 1], **REQUIRED[function.__name__], sorted_by="time")


@pytest.mark.parametrize("command", [fit.fit, flip.flip, flow.flow, redact.redact, release.release])
def test_command_line(command: Callable[..., Any]) -> None:
    given = {name: parameter.default for name, parameter in inspect.signature(expanded(command)).parameters.items()}
    assert {name: given[name] for name in DECLARED} == DECLARED


def test_page() -> None:
    reading = REQUESTS["fit"].model_fields["reading"].annotation
    assert reading is not None
    given = reading(column="state").to_dict()
    assert {name: given[name] for name in given if name != "column"}.items() <= DECLARED.items()
    assert reading(column="state", restart="8").restart == 8.0
    assert reading(column="state", restart="8h").restart == "8h"
