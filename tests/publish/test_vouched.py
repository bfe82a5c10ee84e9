"""``verify`` says which numbers it vouches for, and what nobody can prove."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pufferdp import verify
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.kind import kind_of
from pufferdp.publish.noise import SEEDED
from pufferdp.report.registry import vouched_words

GOLDEN = Path(__file__).parents[1] / "golden"


def golden(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return content


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("answer-histogram-balanced", "Answer: low 219, middle 195, high 86."),
        ("answer-fitted", "Answer: active -10, rest 25; estimate: active 12.5, rest 47.5."),
        ("measurement-zcdp", "Answer: 32, 25."),
        ("flip-two-states", "A series of 60 records"),
        ("redaction-window", "A series of 60 records"),
        ("flow-record", "rest      0.74  0.09373"),
        ("table-hash", "A table of 3,000 rows"),
        ("table-questions", "60                1.0           1.0  4.0                      6"),
    ],
)
def test_the_numbers_are_those_of_the_certificate(name: str, words: str) -> None:
    content = golden(name)
    found = verify(content)
    told = found.to_dict()
    assert words in vouched_words(told["vouched"])
    for key in ("answer", "estimate", "flow", "labels"):
        assert told["vouched"].get(key, content.get(key)) == content.get(key)
    assert "seed" in told["unprovable"]["warnings"]
    assert told["unprovable"] == dict(kind_of(content["schema"]).unprovable)


def test_nothing_is_vouched_for_where_a_certificate_does_not_hold() -> None:
    content = golden("answer-histogram-balanced")
    found = verify({**content, "answer": [0, 0, 500]})
    assert not found.valid
    assert found.to_dict()["vouched"] == {}


def test_a_seed_can_be_left_out_and_that_is_said() -> None:
    """Nobody can tell from a certificate whether its noise came from a seed: it is on the list."""
    content = golden("answer-optimal")
    assert SEEDED in content["warnings"]
    silent = {**content, "warnings": []}
    silent["sha256"] = content_hash(silent)
    found = verify(silent)
    assert found.valid
    assert "nobody can prove that there was no seed" in found.unprovable["warnings"]
