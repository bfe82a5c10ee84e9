"""Deltas on the command line: ``leakage``, ``plan``, ``release`` and ``audit``, and a sentence for every refusal."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from pufferdp import MarkovChain, PrivacyProfile, leakage_of
from tests.apps.cli.conftest import CHAIN, Run, listing, series, write
from tests.apps.cli.test_bad_input import check_sentence

LEAKAGE = ["leakage", "model.json", "--length", "50"]
PLAN = ["plan", "model.json", "--length", "50", "--query", "histogram", "--epsilon", "1"]
RELEASE = shlex.split("release data.csv --model model.json --column activity --order rows --query histogram")
AUDIT = ["audit", "model.json", "--length", "6", "--mechanism", "laplace:count:active", "--calls", "4000"]
PAIRS = [(0.1, 1e-2), (0.2, 1e-4), (0.3, 1e-7)]


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    write(folder, {"model.json": CHAIN})
    (folder / "data.csv").write_text(series(), encoding="utf-8")
    (folder / "profile.csv").write_text("".join(f"{e},{d}\n" for e, d in PAIRS), encoding="utf-8")
    (folder / "rises.csv").write_text("epsilon,delta\n0.1,1e-5\n0.2,1e-3\n", encoding="utf-8")


def chain() -> MarkovChain:
    return MarkovChain(transition=CHAIN["transition"], states=CHAIN["states"])


@pytest.mark.slow
def test_leakage_gives_the_numbers_of_the_library(run: Run) -> None:
    profile = PrivacyProfile.of(PAIRS)
    asked = {
        ("--dp-epsilon", ".1", "--dp-delta", "1e-3"): {"dp_epsilon": 0.1, "dp_delta": 1e-3},
        ("--target", "1", "--dp-delta", "1e-3"): {"target": 1, "dp_delta": 1e-3},
        ("--target", "1", "--delta", "1e-3"): {"target": 1, "delta": 1e-3},
        ("--profile", "profile.csv", "--target", "1"): {"privacy": profile, "target": 1},
        ("--profile", "profile.csv", "--delta", "1e-3"): {"privacy": profile, "delta": 1e-3},
    }
    for words, arguments in asked.items():
        result = run(*LEAKAGE, *words, "--json")
        assert (result.code, result.err) == (0, ""), words
        assert result.json == leakage_of(chain(), length=50, **arguments).to_dict()
        assert {"epsilon", "delta", "dp_delta"} <= set(result.json)
        said = run(*LEAKAGE, *words)
        assert all(len(line) <= 100 for line in said.out.splitlines())
        assert "against this adversary" in " ".join(said.out.split())


def test_plan_and_release(run: Run, folder: Path) -> None:
    planned = run(*PLAN, "--delta", "1e-6", "--json").json
    assert planned["delta"] == 1e-6
    (gaussian,) = [c for c in planned["candidates"] if c["mechanism"] == "gaussian-tight"]
    assert (gaussian["delta"], gaussian["noise"]) == (1e-6, "discrete-gaussian")
    assert "delta" not in run(*PLAN, "--json").json
    made = run(*RELEASE, "--epsilon", "1", "--delta", "1e-6", "--mechanism", "gaussian-tight", "--out", "answer.json")
    assert (made.code, made.err) == (0, "")
    assert "delta of 1e-06" in " ".join(made.out.split())
    certificate = json.loads((folder / "answer.json").read_text(encoding="utf-8"))["certificate"]
    assert certificate["guarantee"]["delta"] == 1e-6
    assert run("verify", "answer.json").code == 0


def test_audits_take_a_delta(run: Run) -> None:
    found = run(*AUDIT, "--dp-epsilon", "1", "--dp-delta", ".01", "--json").json
    assert found["claim"]["dp_delta"] == 0.01
    assert found["upper_delta"] > 0.01
    assert {attack["delta"] for attack in found["attacks"]} <= {0.01, found["upper_delta"]}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([*LEAKAGE, "--dp-epsilon", "1", "--dp-delta", "much"], ("dp-delta is 'much'",)),
        ([*LEAKAGE, "--target", "1", "--delta", ".1", "--dp-delta", ".1"], ("--dp-delta", "--delta")),
        ([*LEAKAGE, "--profile", "none.csv", "--target", "1"], ("'none.csv'", "does not exist")),
        ([*LEAKAGE, "--profile", "profile.csv"], ("--target", "--delta")),
        ([*LEAKAGE, "--profile", "profile.csv", "--dp-epsilon", "1"], ("leave --dp-epsilon out",)),
        ([*LEAKAGE, "--stream", "1", "--dp-delta", "1e-6"], ("--dp-delta is 1e-6", "leave it out")),
        (["plan", "model.json", "--query", "flow", "--eta", ".1", "--tau", ".1", "--delta", ".1"], ("--delta",)),
    ],
    ids=lambda value: " ".join(value[-4:]) if isinstance(value, list) else "",
)
def test_refusals(run: Run, folder: Path, args: list[str], words: tuple[str, ...]) -> None:
    before = listing(folder)
    result = run(*args)
    assert result.code == 2, result.out
    check_sentence(result, words)
    assert result.out == ""
    assert listing(folder) == before
