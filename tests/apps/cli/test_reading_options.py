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
from pufferdp.apps.web.requests import Reading
from pufferdp.data.reading_options import ReadingOptions

DECLARED = {field.name: field.default for field in fields(ReadingOptions)}


@pytest.mark.parametrize(
    "function", [pufferdp.fit, pufferdp.flip, pufferdp.flow, pufferdp.redact, pufferdp.release, pufferdp.Series]
)
def test_python(function: Callable[..., Any]) -> None:
    given = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
    assert {name: given[name] for name in ReadingOptions().arguments()} == ReadingOptions().arguments()


@pytest.mark.parametrize("command", [fit.fit, flip.flip, flow.flow, redact.redact, release.release])
def test_command_line(command: Callable[..., Any]) -> None:
    given = {name: parameter.default for name, parameter in inspect.signature(expanded(command)).parameters.items()}
    assert {name: given[name] for name in DECLARED} == DECLARED


def test_page() -> None:
    given = Reading(column="state").to_dict()
    assert {name: given[name] for name in given if name != "column"}.items() <= DECLARED.items()
    assert Reading(column="state", restart="8").restart == 8.0
    assert Reading(column="state", restart="8h").restart == "8h"
