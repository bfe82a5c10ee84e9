"""``pufferdp leakage --stream``: the numbers of the library, a figure, and a sentence for every refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from pufferdp import MarkovChain, leakage_of_losses, stream_budget, stream_leakage
from tests.apps.cli.conftest import CHAIN, Run, write
from tests.apps.cli.test_bad_input import check_sentence


@pytest.fixture(autouse=True)
def models(folder: Path) -> None:
    write(folder, {"model.json": CHAIN, "groups.json": {"type": "groups", "largest": 4}})


def chain() -> MarkovChain:
    return MarkovChain(transition=CHAIN["transition"], states=CHAIN["states"])


@pytest.mark.slow
def test_the_numbers_are_those_of_the_library(run: Run) -> None:
    result = run("leakage", "model.json", "--stream", ".1", "--length", "20", "--json")
    assert (result.code, result.err) == (0, "")
    assert result.json == stream_leakage(chain(), 0.1, length=20).to_dict()
    result = run("leakage", "model.json", "--stream", ".1, .5,.2", "--adversary", "pufferfish", "--json")
    assert result.json == stream_leakage(chain(), [0.1, 0.5, 0.2], adversary="pufferfish").to_dict()
    assert run("leakage", "model.json", "--stream", ".1", "--json").json == stream_leakage(chain(), 0.1).to_dict()
    result = run("leakage", "model.json", "--stream-target", "1", "--json")
    assert result.json == stream_budget(chain(), 1.0).to_dict()


def test_people_get_tables_and_figures(run: Run, folder: Path) -> None:
    result = run("leakage", "model.json", "--stream", ".1,.2,.3", "--figure", "over-time.png")
    assert (result.code, result.err) == (0, "")
    assert "3 worst" in result.out
    assert (folder / "over-time.png").stat().st_size > 5000
    assert "Under this model, a DP ε of" in run("leakage", "model.json", "--stream-target", "1", "--length", "10").out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--stream", "x"], ("stream is 'x'",)),
        (["--stream", ".1,"], ("stream is ''", "number")),
        (["--stream", ".1", "--dp-epsilon", "1"], ("--dp-epsilon is 1", "leave it out")),
        (["--stream", ".1", "--query", "count:active"], ("--query is count:active", "leave it out")),
        (["--stream", ".1", "--stream-target", "1"], ("--stream-target is 1", "leave it out")),
        (["--stream-target", "1", "--figure", "x.png"], ("over time", "--length")),
        (["--stream", ".1", "--figure", "x.png"], ("over time", "--length")),
        (["--stream", ".1", "--length", "5", "--figure", "x.txt"], ("x.txt", ".png")),
    ],
)
def test_refusals_are_one_sentence(options: list[str], words: tuple[str, ...], run: Run) -> None:
    result = run("leakage", "model.json", *options)
    assert (result.code, result.out) == (2, "")
    check_sentence(result, words)


def test_other_models_have_no_streams(run: Run) -> None:
    result = run("leakage", "groups.json", "--stream", ".1")
    assert result.code == 3
    check_sentence(result, ("AnyGroups", "markov_chain"))


def test_losses_of_records_are_read_from_a_file(run: Run, folder: Path) -> None:
    spent = [0.1, 0.5, 0.0, 0.2]
    (folder / "losses.csv").write_text("loss\n" + "\n".join(map(str, spent)) + "\n")
    result = run("leakage", "model.json", "--losses", "losses.csv", "--json")
    assert (result.code, result.err) == (0, "")
    assert result.json == leakage_of_losses(chain(), spent).to_dict()
    result = run("leakage", "model.json", "--losses", "losses.csv", "--adversary", "dp", "--figure", "losses.svg")
    assert (result.code, result.err) == (0, "")
    assert "2 worst" in result.out
    assert (folder / "losses.svg").stat().st_size > 5000


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("0.1\nx\n", [], ("row 2", "'x'")),
        ("0.1\n", ["--length", "3"], ("--length is 3", "leave it out")),
        ("0.1\n", ["--stream", ".1"], ("--stream is .1", "leave it out")),
        ("0.1\n", ["--figure", "x.txt"], ("x.txt", ".png")),
    ],
)
def test_losses_that_cannot_be_used(
    text: str, options: list[str], words: tuple[str, ...], run: Run, folder: Path
) -> None:
    (folder / "losses.csv").write_text(text)
    result = run("leakage", "model.json", "--losses", "losses.csv", *options)
    assert (result.code, result.out) == (2, "")
    check_sentence(result, words)
