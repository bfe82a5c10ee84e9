"""``pufferdp audit``: the JSON contract, text that fits, the figure, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.apps.cli.conftest import CHAIN, Run, listing, write
from tests.apps.cli.test_bad_input import check_sentence

COUNT = ["audit", "m.json", "--length", "6", "--mechanism", "laplace:count:active", "--dp-epsilon", "1"]
SMALL = ["--calls", "4000", "--seconds", "600"]
"""So long that the number of runs decides."""
KEYS = {"lower", "exact", "upper", "attacks", "claim", "mechanism", "adversary", "length", "records", "curve"}
KEYS |= {"upper_delta", "refuted", "responds", "counted", "complete"}


@pytest.mark.slow
def test_a_noisy_count(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN})
    result = run(*COUNT, *SMALL, "--json")
    assert (result.code, result.err) == (0, "")
    found = result.json
    assert KEYS | {"holds_for", "confidence", "tests", "tried", "calls"} == set(found)
    assert 0 < found["lower"] <= found["exact"] <= found["upper"]
    claim = {"dp_epsilon": 1.0, "dp_delta": 0.0, "lower": found["claim"]["lower"], "refuted": False}
    assert found["claim"] == claim
    assert found["calls"] <= 4000
    for attack in found["attacks"]:
        assert {attack["concludes"], attack["instead"]} == {"rest", "active"}
        assert attack["low"] <= attack["shares"][0]
        assert attack["shares"][1] <= attack["high"]
    assert run(*COUNT, *SMALL, "--json", "--seed", "0").json == found
    assert run(*COUNT, *SMALL, "--json", "--seed", "1").json != found
    said = run(*COUNT, *SMALL, "--figure", "f.png")
    assert said.code == 0
    assert all(len(line) <= 96 for line in said.out.splitlines())
    assert "lower bound" in said.out
    assert "fresh runs" in said.out
    assert (folder / "f.png").stat().st_size > 1000


def test_a_claim_that_is_wrong_ends_with_exit_3(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "mine.py": 'def count(row):\n    return float((row == "active").sum())\n'})
    args = ["audit", "m.json", "--length", "6", "--mechanism", "python:mine.py:count", "--dp-epsilon", "1", *SMALL]
    result = run(*args, "--json")
    assert (result.code, result.err) == (3, "")
    assert result.json["refuted"] is True
    said = run(*args)
    assert said.code == 3
    assert "The claim is wrong" in said.out


@pytest.mark.parametrize(
    ("spec", "more"),
    [("flip:0.3,0.2", ["--adversary", "dp"]), ("redact:3:1", ["--adversary", "pufferfish"])],
)
def test_series(spec: str, more: list[str], run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN})
    found = run("audit", "m.json", "--length", "6", "--mechanism", spec, *SMALL, *more, "--json").json
    assert found["lower"] <= found["exact"] <= found["upper"] * (1 + 1e-12)
    assert found["mechanism"] == spec.partition(":")[0]


def test_real_numbers_and_one_record(run: Run, folder: Path) -> None:
    write(folder, {"g.json": {"type": "gaussian", "mean": [5, 5], "covariance": [[4, 2], [2, 4]]}})
    args = ["audit", "g.json", "--mechanism", "laplace:sum", "--dp-epsilon", "1", "--clip", "0", "10", *SMALL]
    found = run(*args, "--record", "2", "--json").json
    assert found["exact"] is None
    assert 0 < found["lower"] <= found["upper"]
    assert {attack["record"] for attack in found["attacks"]} == {"record 2"}
    empty = run(*args, "--figure", "f.svg")
    assert empty.code == 0
    assert (folder / "f.svg").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["audit", "m.json", "--mechanism", "laplace:count:active", "--dp-epsilon", "1"], "length is missing"),
        (COUNT[:-2], "dp-epsilon is missing"),
        ([*COUNT, "--calls", "x"], "calls is"),
        ([*COUNT, "--seconds", "soon"], "'soon'"),
        ([*COUNT[:5], "laplace:count:none", "--dp-epsilon", "1"], "'none'"),
        ([*COUNT, "--figure", "f.txt"], "f.txt"),
    ],
)
def test_refusals(args: list[str], words: str, run: Run, folder: Path) -> None:
    files: dict[str, Any] = {"m.json": CHAIN}
    write(folder, files)
    before = listing(folder)
    result = run(*args)
    assert (result.code, result.out) == (2, "")
    check_sentence(result, (words,))
    assert listing(folder) == before
