"""Models that are not chains, with data for them: small enough to count by hand."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

YES_NO = ["no", "yes"]
NETWORK: dict[str, Any] = {
    "type": "bayesian_network",
    "nodes": [
        {"name": "season", "states": ["dry", "wet"], "table": [0.6, 0.4]},
        {"name": "rain", "states": YES_NO, "parents": ["season"], "table": [[0.9, 0.1], [0.4, 0.6]]},
        {"name": "sprinkler", "states": YES_NO, "parents": ["season"], "table": [[0.5, 0.5], [0.9, 0.1]]},
        {
            "name": "grass",
            "states": YES_NO,
            "parents": ["rain", "sprinkler"],
            "table": [[[0.95, 0.05], [0.2, 0.8]], [[0.1, 0.9], [0.01, 0.99]]],
        },
        {"name": "street", "states": YES_NO, "parents": ["rain"], "table": [[0.9, 0.1], [0.2, 0.8]]},
    ],
}
BIF = """network rain { property software made by hand; }
variable season { type discrete [ 2 ] { dry, wet }; }
variable rain { type discrete [ 2 ] { no, yes }; }
probability ( season ) { table 0.6, 0.4; }
probability ( rain | season ) {
  (dry) 0.9, 0.1;
  (wet) 0.4, 0.6;
}
"""
JOINT: dict[str, Any] = {
    "type": "joint",
    "values": [0, 1],
    "records": ["ann", "bob", "cem"],
    "outcomes": [
        {"records": [0, 0, 0], "probability": 0.5},
        {"records": [0, 1, 1], "probability": 0.2},
        {"records": [1, 1, 1], "probability": 0.3},
    ],
}
GROUPS: dict[str, Any] = {
    "type": "groups",
    "sizes": [4, 2],
    "positives": [[0.1, 0.15, 0.5, 0.15, 0.1], [0.25, 0.5, 0.25]],
    "states": ["well", "ill"],
    "values": {"well": 0, "ill": 1},
}
ANY: dict[str, Any] = {"type": "groups", "largest": 3, "states": ["well", "ill"], "values": {"well": 0, "ill": 1}}
NUMBERS = {"dry": 0, "wet": 0, "no": 0, "yes": 1}


def joint(*rows: tuple[list[Any], float], **more: Any) -> dict[str, Any]:
    """A table of outcomes and their probabilities."""
    outcomes = [{"records": list(records), "probability": p} for records, p in rows]
    return {"type": "joint", "values": [0, 1], "outcomes": outcomes, **more}


def line(names: list[str], stay: float = 0.6) -> dict[str, Any]:
    """A network in which each record depends on the one before it."""
    nodes: list[dict[str, Any]] = [{"name": names[0], "states": YES_NO, "table": [0.5, 0.5]}]
    for before, name in itertools.pairwise(names):
        table = [[stay, 1 - stay], [1 - stay, stay]]
        nodes.append({"name": name, "states": YES_NO, "parents": [before], "table": table})
    return {"type": "bayesian_network", "nodes": nodes}


def csv(*rows: str) -> str:
    """Lines of a file."""
    return "\n".join(rows) + "\n"


WEATHER = csv("who,state", "grass,yes", "rain,yes", "season,wet", "street,no", "sprinkler,no")
ILL = csv("house,state", "a,ill", "a,well", "b,ill", "a,ill", "b,well")


@dataclass(frozen=True)
class Subject:
    """A model file, data, how the data is read, and exact answers counted by hand."""

    model: dict[str, Any]
    data: str
    reading: list[str]
    answers: dict[str, Any]
    """Query: exact answer."""
    files: dict[str, Any] = field(default_factory=dict)
    """Other files the model needs."""
    size: list[str] = field(default_factory=list)
    """What plan is told of the size."""


SUBJECTS = {
    "network": Subject(
        {**NETWORK, "values": NUMBERS},
        WEATHER,
        ["--id", "who"],
        {"count:yes": 2, "histogram": [0, 1, 2, 2], "frequency": [0, 0.2, 0.4, 0.4], "sum": 2, "mean": 0.4},
    ),
    "bif": Subject(
        {"type": "bayesian_network", "bif": "../nets/rain.bif", "values": NUMBERS},
        csv("who,state", "rain,yes", "season,dry"),
        ["--id", "who"],
        {"count:yes": 1, "histogram": [1, 0, 0, 1], "frequency": [0.5, 0, 0, 0.5], "sum": 1, "mean": 0.5},
        {"nets/rain.bif": BIF},
    ),
    "joint": Subject(
        JOINT,
        csv("who,state", "cem,1", "ann,0", "bob,1"),
        ["--id", "who"],
        {"count:0": 1, "histogram": [1, 2], "frequency": [1 / 3, 2 / 3], "sum": 2, "mean": 2 / 3},
    ),
    "groups": Subject(
        GROUPS,
        csv("n,state", "6,ill", "1,ill", "2,well", "3,well", "5,well", "4,ill"),
        ["--id", "n"],
        {"count:ill": 3, "histogram": [3, 3], "frequency": [0.5, 0.5], "sum": 3, "mean": 0.5},
    ),
    "groups of any kind": Subject(
        ANY,
        ILL,
        ["--by", "house"],
        {"count:ill": 3, "histogram": [2, 3], "frequency": [0.4, 0.6], "sum": 3, "mean": 0.6},
        size=["--length", "5"],
    ),
    "class": Subject(
        {
            "type": "class",
            "models": [
                JOINT,
                {**JOINT, "outcomes": [*JOINT["outcomes"][:1], {"records": [0, 1, 0], "probability": 0.5}]},
            ],
        },
        csv("who,state", "bob,1", "ann,1", "cem,1"),
        ["--id", "who"],
        {"count:1": 3, "histogram": [0, 3], "frequency": [0, 1], "sum": 3, "mean": 1},
    ),
}
