"""Releases under models that are not chains: the exact answer stays inside."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest

from tests.apps.cli.conftest import Run, write
from tests.apps.cli.records import csv, line
from tests.apps.cli.test_output import EXACT, constant_noise, leaks, without_digests  # noqa: F401

NAMES = [f"home {a}{b}" for a in string.ascii_lowercase for b in string.ascii_lowercase][: sum(EXACT)]
MODELS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "network": (line(NAMES), ["--id", "who"]),
    # The distribution keeps the credible interval, which the constant noise decides alone, away from the exact counts.
    "groups": (
        {"type": "groups", "sizes": [4] * 100, "positives": [[0.3, 0.3, 0.2, 0.1, 0.1]] * 100, "states": ["no", "yes"]},
        ["--adversary", "pufferfish"],
    ),
    "groups of any kind": ({"type": "groups", "largest": 2, "states": ["no", "yes"]}, []),
}


def counted() -> str:
    """So many no and yes, mixed."""
    no, yes = EXACT
    states = ["no", "yes"] * no + ["yes"] * (yes - no)
    return csv("who,state", *(f"{name},{state}" for name, state in zip(NAMES, states, strict=True)))


@pytest.mark.slow
@pytest.mark.usefixtures("constant_noise")
@pytest.mark.parametrize(
    ("name", "query"),
    [("network", "histogram"), ("network", "mean"), ("groups", "count:no"), ("groups of any kind", "sum")],
)
def test_a_release_never_shows_the_exact_answer(name: str, query: str, run: Run, folder: Path) -> None:
    model, reading = MODELS[name]
    write(folder, {"m.json": {**model, "values": {"no": 0, "yes": 1}}, "d.csv": counted()})
    usual = ["release", "d.csv", "--model", "m.json", "--column", "state", "--epsilon", "1", "--query", query]
    for form in (["--json"], ["--overwrite"]):
        result = run(*usual, *reading, "--out", "r.json", *form)
        assert result.code == 0, result.err
        kept = (folder / "r.json").read_text(encoding="utf-8")
        certificate = json.loads(kept)["certificate"]
        assert "424" in result.out or query == "mean"
        for text in (result.out, result.err, kept):
            assert leaks(without_digests(text, certificate)) == []
        assert sorted(p.name for p in folder.iterdir()) == ["d.csv", "m.json", "r.json"]


def test_a_refusal_shows_no_counts(run: Run, folder: Path) -> None:
    write(folder, {"m.json": line(NAMES), "d.csv": counted().removesuffix("yes\n") + "may\n"})
    usual = ["release", "d.csv", "--model", "m.json", "--column", "state", "--epsilon", "1", "--query", "count:no"]
    result = run(*usual, "--id", "who", "--json")
    assert result.code == 2
    assert "'may'" in result.err
    assert leaks(result.err) == []
