"""``verify`` says which numbers it vouches for, and what nobody can prove."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pufferdp import verify
from pufferdp.publish.certificate import content_hash
from pufferdp.publish.kind import kind_of
from pufferdp.publish.noise import SEEDED
from pufferdp.report.pages.verification import verified_values
from pufferdp.report.text import blocks_text
from tests.publish.test_leaves import golden


def listed(content: dict[str, Any], key: str) -> str:
    return ", ".join(f"{label} {number}" for label, number in zip(content["labels"], content[key], strict=True))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("answer-histogram-balanced", lambda c: f"Answer: {listed(c, 'answer')}."),
        ("answer-fitted", lambda c: f"Answer: {listed(c, 'answer')}; estimate: {listed(c, 'estimate')}."),
        ("measurement-zcdp", lambda c: f"Answer: {', '.join(map(str, c['answer']))}."),
        ("flip-two-states", lambda c: "A series of 60 records"),
        ("redaction-window", lambda c: "A series of 60 records"),
        ("flow-record", lambda c: "  ".join(f"{share:.4g}" for share in c["flow"][0])),
        ("table-hash", lambda c: "A table of 3,000 rows"),
        ("table-questions", lambda c: f"{c['table']['rows'][0][-1]}"),
    ],
)
def test_the_numbers_are_those_of_the_certificate(name: str, words: Callable[[dict[str, Any]], str]) -> None:
    content = golden(name)
    found = verify(content)
    told = found.to_dict()
    assert words(content) in " ".join(blocks_text(verified_values(told["vouched"])).split("\n"))
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
    content = golden("answer-rows")
    assert SEEDED in content["warnings"]
    silent = {**content, "warnings": []}
    silent["sha256"] = content_hash(silent)
    found = verify(silent)
    assert found.valid
    assert "nobody can prove that there was no seed" in found.unprovable["warnings"]
