"""``pufferdp leakage``: numbers for machines, a table for people, a figure, and a sentence for every refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pufferdp import MarkovChain, leakage_of
from tests.apps.cli.conftest import CHAIN, Run, listing, write
from tests.apps.cli.test_bad_input import check_sentence

COMMAND = ["leakage", "model.json", "--length", "50"]
GAUSSIAN = {"gaussian", "gaussian-class", "gaussian-exact"}
CHAINS = {"markov", "zhao", "quilt", "odds", "potential", "tight"}
CURVES = {"independent", "general", *CHAINS, "pedigree", "ar1", *GAUSSIAN}


@pytest.fixture(autouse=True)
def models(folder: Path) -> None:
    write(folder, {"model.json": CHAIN, "groups.json": {"type": "groups", "largest": 4}})


def chain() -> MarkovChain:
    return MarkovChain(transition=CHAIN["transition"], states=CHAIN["states"])


def test_the_numbers_are_those_of_the_library(run: Run) -> None:
    result = run(*COMMAND, "--dp-epsilon", ".1", "--query", "count:active", "--json")
    assert (result.code, result.err) == (0, "")
    assert result.json == leakage_of(chain(), dp_epsilon=0.1, length=50, query="count:active").to_dict()
    assert set(result.json["curves"]) == CURVES
    assert result.json["curves"]["independent"] is None
    assert "correlated" in result.json["reasons"]["independent"]
    assert result.json["best"] == "tight"
    assert 0.1 < result.json["exact"] <= result.json["curves"]["tight"] < result.json["curves"]["quilt"]


def test_the_other_way_round(run: Run) -> None:
    result = run(*COMMAND, "--target", "1", "--adversary", "pufferfish", "--json")
    assert (result.code, result.err) == (0, "")
    assert set(result.json["dp_epsilon"]) == CURVES
    assert result.json["exact"] is None
    assert "curves" not in result.json
    spent = result.json["dp_epsilon"]["quilt"]
    back = run(*COMMAND, "--dp-epsilon", repr(spent), "--adversary", "pufferfish", "--json")
    assert back.json["curves"]["quilt"] == pytest.approx(1)


def test_people_get_a_table_that_fits(run: Run) -> None:
    for question in (["--dp-epsilon", ".1"], ["--target", "1"]):
        result = run(*COMMAND, *question, "--query", "count:active")
        assert (result.code, result.err) == (0, "")
        assert "exact, count:active" in result.out
        assert all(len(line) <= 100 for line in result.out.splitlines())


def test_other_models_know_their_size(run: Run) -> None:
    result = run("leakage", "groups.json", "--target", "1", "--json")
    assert result.code == 0
    assert result.json["dp_epsilon"]["general"] == 0.25


def test_a_family_has_its_curve(run: Run, folder: Path) -> None:
    members = [{"id": "Eva"}, {"id": "Max"}, *({"id": c, "father": "Max", "mother": "Eva"} for c in ("Ida", "Leo"))]
    members += [{"id": "Ana"}]
    write(folder, {"family.json": {"type": "pedigree", "major_allele_frequency": 0.7, "members": members}})
    command = ["leakage", "family.json", "--dp-epsilon", ".5", "--query", "count:BB", "--figure", "f.svg", "--json"]
    result = run(*command)
    assert (result.code, result.err) == (0, "")
    assert result.json["curves"]["pedigree"] == result.json["curves"]["general"] == 2.0
    assert 1.5 <= result.json["exact"] <= 2.0
    assert "pedigree" in result.json["lines"]["curves"]


@pytest.mark.slow
@pytest.mark.parametrize("question", [["--dp-epsilon", ".1", "--query", "count:active"], ["--target", "1"]])
def test_a_figure_is_drawn(question: list[str], run: Run, folder: Path) -> None:
    result = run(*COMMAND, *question, "--figure", "f.svg", "--json")
    assert (result.code, result.err) == (0, "")
    assert bool(result.json["lines"]["exact"]) is ("--query" in question)
    assert (folder / "f.svg").stat().st_size > 1000


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([*COMMAND], "--target (the leakage allowed) is missing"),
        ([*COMMAND, "--dp-epsilon", "1", "--target", "1"], "--dp-epsilon and --target cannot be combined"),
        ([*COMMAND, "--dp-epsilon", "much"], "must be a number"),
        (["leakage", "model.json", "--target", "1"], "length is missing"),
        (["leakage", "model.json", "--length", "x", "--target", "1"], "length is"),
        ([*COMMAND, "--target", "1", "--figure", "f.txt"], "f.txt"),
        (["leakage", "none.json", "--target", "1"], "none.json"),
    ],
)
def test_bad_questions_are_refused(args: list[Any], words: str, run: Run, folder: Path) -> None:
    before = listing(folder)
    result = run(*args)
    assert (result.code, result.out) == (2, "")
    check_sentence(result, (words,))
    assert listing(folder) == before
