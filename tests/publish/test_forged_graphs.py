"""Certificates of networks and families that a stranger has made up: a sentence in time, and no file is opened."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pufferdp
from pufferdp.models.network import BayesianNetwork, Node
from pufferdp.publish.certificate import content_hash

GOLDEN = Path(__file__).parents[1] / "golden"
SENTENCE = 2001
"""Letters of a problem, with the three dots of one that was cut."""


def node(name: str, *parents: str, table: Any = None) -> dict[str, Any]:
    given = np.full((2,) * (len(parents) + 1), 0.5).tolist() if table is None else table
    return {"name": name, "states": ["no", "yes"], "parents": list(parents), "table": given}


def network(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "bayesian_network", "nodes": list(nodes), **more}


def pedigree(*members: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "pedigree", "members": list(members), "major_allele_frequency": 0.7, **more}


def forged(model: dict[str, Any]) -> dict[str, Any]:
    kind = "network" if model["type"] == "bayesian_network" else "pedigree"
    content = copy.deepcopy(json.loads((GOLDEN / f"answer-{kind}.json").read_text()))
    content["model"] = model
    return {**content, "sha256": content_hash(content)}


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (network(*(node(f"n{i}", f"n{(i + 1) % 2000}") for i in range(2000))), "the parents go round in a circle"),
        (
            pedigree(*({"id": f"m{i}", "father": f"m{i + 1}"} for i in range(999)), {"id": "m999", "father": "m0"}),
            "circle",
        ),
        (network(node("a" * 10**5, "b" * 10**5), node("b" * 10**5, "a" * 10**5)), "the parents go round in a circle"),
        (network(node("a" * 10**5), node("b", "c" * 10**5)), "which is not a node"),
        (pedigree({"id": "a" * 10**5, "father": "b" * 10**5}), "not a member"),
        (network(node("a" * 10**5), node("a" * 10**5)), "named twice"),
        (network(node("a" * 10**5, table=[2, -1])), "probability"),
    ],
    ids=["circle", "ancestors", "long circle", "long parent", "long father", "long twice", "long table"],
)
def test_a_sentence_quotes_no_more_than_can_be_read(model: dict[str, Any], words: str) -> None:
    """Sentences of two million letters once quoted names as long as the certificate, and circles of all its nodes."""
    found = pufferdp.verify(forged(model))
    assert not found.valid
    assert words in " ".join(found.problems) or all(len(problem) == SENTENCE for problem in found.problems)
    assert all(len(problem) <= SENTENCE for problem in found.problems)


def test_a_circle_of_thousands_is_named_by_its_ends() -> None:
    found = pufferdp.verify(forged(network(*(node(f"n{i}", f"n{(i + 1) % 2000}") for i in range(2000)))))
    assert "n0 -> n1999 -> " in found.problems[0]
    assert "(1981 more)" in found.problems[0]
    assert "n1 -> n0; take one of these links out" in found.problems[0]


def test_a_table_is_listed_in_many_steps() -> None:
    """In one step, which nothing ends, a certificate with a table of millions took 12 s of the 7 s that it has."""
    parents = tuple(f"n{i}" for i in range(11))
    nodes = [Node(name=name, states=("no", "yes"), table=np.array([0.5, 0.5])) for name in parents]
    last = Node(name="last", states=("no", "yes"), parents=parents, table=np.full((2,) * 12, 0.5))
    large, steps, before = BayesianNetwork(nodes=(*nodes, last)), 0, sys.gettrace()

    def count(frame: object, event: str, argument: object) -> Any:
        nonlocal steps
        steps += event == "line"
        return count

    sys.settrace(count)
    try:
        large.to_dict()
    finally:
        sys.settrace(before)
    assert steps > 2**11  # as many lists as the last level has
