"""What the page says before anything is released follows from how long a series is, and from nothing in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pufferdp.apps.web.inputs import Inputs
from pufferdp.apps.web.jobs import JOBS
from pufferdp.data.memory import MemoryFile
from pufferdp.publish.answers import plan as planning
from tests.fuzz.targets import MODELS

ASKED: dict[str, dict[str, Any]] = {
    "plan": {"query": "count:a", "clip": None, "epsilon": 1.0, "adversary": "bdp", "id": None},
    "table_plan": {
        "queries": ["histogram", "count:a"], "per": [], "split": None, "clip": None, "epsilon": 1.0, "adversary": "bdp",
    },
    "flip_plan": {"epsilon": 1.0, "adversary": "bdp"},
    "flow_plan": {"eta": 0.1, "tau": 0.5, "privacy": "record"},
}  # fmt: skip
READING = {"column": "s", "order": "t", "by": None, "restart": None, "missing": "refuse", "independent": False}


class Said:
    """Whoever listens to a job, and keeps what it says."""

    def __init__(self) -> None:
        self.words: list[object] = []

    def __call__(self, words: str) -> None:
        self.words.append(words)

    def part(self, content: dict[str, Any]) -> None:
        self.words.append(content)


def said(job: str, states: str) -> str:
    """Everything that a job says of a series, its progress included."""
    planning.CALIBRATED.clear()  # an equal model is calibrated once, and the second time without progress
    inputs, listener = Inputs(), Said()
    rows = "".join(f"{n},{state}\n" for n, state in enumerate(states))
    inputs.keep({"x": MemoryFile("x.csv", f"t,s\n{rows}".encode()), "m": MODELS[0]}, "xm")
    arguments = {"data": "x", "model": "m", "reading": READING, "length": None, "theme": "light", **ASKED[job]}
    result = JOBS[job](inputs, listener, **arguments)
    return json.dumps([listener.words, result], sort_keys=True)


@pytest.mark.parametrize("job", ASKED)
def test_a_plan_says_nothing_of_what_is_in_a_series(job: str) -> None:
    assert said(job, "a" * 24) == said(job, "abbabbbbabab" * 2)
    assert said(job, "a" * 24) != said(job, "a" * 12)
