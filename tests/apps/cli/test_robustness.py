"""``pufferdp robustness``: numbers for machines, sentences for people, a figure, and a sentence for every refusal."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from pufferdp import MarkovChain, robustness
from pufferdp.basics.words import up_to
from tests.apps.cli.conftest import CHAIN, Run, listing, write
from tests.apps.cli.test_bad_input import check_sentence

OTHER = {**CHAIN, "transition": [[0.88, 0.12], [0.4, 0.6]]}
TABLE: dict[str, Any] = {
    "type": "joint",
    "values": [0, 1],
    "outcomes": [{"records": [0, 0], "probability": 0.6}, {"records": [1, 1], "probability": 0.4}],
}
OTHER_TABLE = {
    **TABLE,
    "outcomes": [{"records": [0, 0], "probability": 0.5}, {"records": [1, 1], "probability": 0.5}],
}
COMMAND = ["robustness", "model.json", "--alternative", "other.json", "--epsilon", "1"]


def chain(content: dict[str, Any]) -> MarkovChain:
    return MarkovChain(transition=content["transition"], states=content["states"])


@pytest.fixture(autouse=True)
def models(folder: Path) -> None:
    write(folder, {"model.json": CHAIN, "other.json": OTHER})


def test_the_numbers_are_those_of_the_library(run: Run) -> None:
    result = run(*COMMAND, "--length", "12", "--json")
    assert (result.code, result.err) == (0, "")
    expected = robustness(chain(CHAIN), chain(OTHER), epsilon=1, length=12)
    assert result.json == expected.to_dict()
    assert result.json["epsilon"] == pytest.approx(1 + 2 * result.json["delta"])


def test_people_get_sentences_that_fit(run: Run) -> None:
    result = run(*COMMAND, "--length", "12")
    assert (result.code, result.err) == (0, "")
    assert "Guarantee under the model: ε = 1." in result.out
    # The longest path goes from rest to active every other record: 6·log(.12/.10) = 1.094.
    words = " ".join(result.out.split())
    assert "the guarantee weakens from ε = 1 to ε = 3.188 (1 + 2 × 1.094)." in words
    expected = robustness(chain(CHAIN), chain(OTHER), epsilon=1, length=12)
    assert f"leaks at most {up_to(expected.leakage_under_other)} under the alternative model." in words
    assert f"Guarantee of that noise against this adversary: ε = {up_to(expected.guarantee)}" in words
    assert "Adversary: knows no record." in words
    assert all(len(line) <= 100 for line in result.out.splitlines())


def test_the_dp_epsilon_of_the_noise_can_be_given(run: Run) -> None:
    result = run(*COMMAND, "--length", "12", "--dp-epsilon", "0.05", "--json")
    assert result.json == robustness(chain(CHAIN), chain(OTHER), epsilon=1, length=12, dp_epsilon=0.05).to_dict()
    assert result.json["dp_epsilon"] == 0.05


def test_nothing_left_is_null_with_a_reason(run: Run, folder: Path) -> None:
    write(folder, {"other.json": {**CHAIN, "transition": [[1.0, 0.0], [0.4, 0.6]], "start": [0.5, 0.5]}})
    result = run(*COMMAND, "--length", "12", "--json")
    assert result.code == 0
    assert result.json["delta"] is None
    assert result.json["epsilon"] is None
    assert result.json["reason"]
    assert result.json["guarantee"] == result.json["leakage_under_other"] > 0
    assert "no guarantee follows" in run(*COMMAND, "--length", "12").out


@pytest.mark.parametrize("ending", [".svg"])
def test_a_figure_of_the_drift(ending: str, run: Run, folder: Path) -> None:
    result = run(*COMMAND, "--length", "12", "--figure", f"drift{ending}", "--json")
    assert (result.code, result.err) == (0, "")
    assert (folder / f"drift{ending}").stat().st_size > 1000
    line = result.json["drift"]
    assert (line["from"], line["to"]) == ("rest", "rest")
    assert line["alternative"]["epsilon"] == result.json["epsilon"]
    assert min(p["epsilon"] for p in line["points"]) == 1


def test_the_drift_can_be_chosen(run: Run, folder: Path) -> None:
    result = run(*COMMAND, "--length", "12", "--figure", "drift.png", "--drift", "active:rest")
    assert result.code == 0
    assert "drift.png, as the probability of active:rest drifts" in result.out
    chosen = run(
        *COMMAND, "--length", "12", "--figure", "drift.png", "--drift", "active:rest", "--overwrite", "--json"
    ).json
    assert chosen["drift"]["alternative"] is None  # the alternative differs in another row


def test_tables_need_no_length(run: Run, folder: Path) -> None:
    write(folder, {"model.json": TABLE, "other.json": OTHER_TABLE})
    result = run(*COMMAND, "--json")
    assert (result.code, result.err) == (0, "")
    assert result.json["delta"] == 0  # given one twin the other is known, whatever the odds
    write(
        folder,
        {
            "model.json": {**TABLE, "outcomes": [*TABLE["outcomes"][:1], {"records": [0, 1], "probability": 0.4}]},
            "other.json": {
                **TABLE,
                "outcomes": [*OTHER_TABLE["outcomes"][:1], {"records": [0, 1], "probability": 0.5}],
            },
        },
    )
    assert run(*COMMAND, "--json").json["delta"] == pytest.approx(math.log(0.5 / 0.4))


@pytest.mark.parametrize(
    ("options", "files", "words"),
    [
        (["--length", "ten"], {}, ("length", "ten")),
        (["--length", "5", "--drift", "rest:active"], {}, ("--drift", "--figure")),
        (["--length", "5", "--figure", "f.jpg"], {}, ("f.jpg", ".png")),
        (["--length", "5", "--figure", "f.png", "--drift", "rest:run"], {}, ("rest:run", "FROM:TO")),
        (["--length", "5"], {"model.json": TABLE, "other.json": OTHER_TABLE}, ("length is 5", "leave it out")),
        (["--figure", "f.png"], {"model.json": TABLE, "other.json": OTHER_TABLE}, ("--figure", "not a chain")),
    ],
)
def test_a_refusal_is_one_sentence_and_leaves_nothing(
    options: list[str], files: dict[str, Any], words: tuple[str, ...], run: Run, folder: Path
) -> None:
    write(folder, files)
    before = listing(folder)
    result = run(*COMMAND, *options, "--json")
    assert result.code == 2
    assert result.out == ""
    check_sentence(result, words)
    assert listing(folder) == before
