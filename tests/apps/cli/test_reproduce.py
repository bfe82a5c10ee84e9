"""``pufferdp reproduce``: the list, one experiment for people and for machines, a figure, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pufferdp.basics import plugins
from pufferdp_papers import EXPERIMENTS, Setting, experiment, to_dict
from tests.apps.cli.conftest import Run, listing
from tests.apps.cli.test_bad_input import check_sentence


@pytest.mark.parametrize("args", [[], ["--list"]])
def test_the_list(args: list[str], run: Run) -> None:
    result = run("reproduce", *args)
    assert (result.code, result.err) == (0, "")
    assert all(one.name in result.out and one.about in result.out for one in EXPERIMENTS)
    said = run("reproduce", *args, "--json").json["experiments"]
    assert [one["name"] for one in said] == [one.name for one in EXPERIMENTS]
    assert {one["also"] for one in said} >= {"thesis-height", "thesis-activity", "thesis-genome"}
    assert all(set(one) == {"name", "also", "paper", "about", "needs"} for one in said)


def test_one_experiment(run: Run) -> None:
    result = run("reproduce", "thesis-figure-8", "--json")
    assert (result.code, result.err) == (0, "")
    one = experiment("thesis-figure-8")
    assert result.json == to_dict(one, one.run(Setting()))
    assert set(result.json) == {"name", "paper", "about", "rows", "notes"}
    said = run("reproduce", "thesis-figure-8").out
    assert one.paper in said
    assert one.about in said
    assert all(len(line) <= 96 for line in said.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["thesis-figure-3"])
def test_a_figure_is_drawn(name: str, run: Run, folder: Path) -> None:
    result = run("reproduce", name, "--figure", "f.svg")
    assert (result.code, result.err) == (0, "")
    assert "Figure: f.svg" in result.out
    assert (folder / "f.svg").stat().st_size > 1000


def test_data_comes_from_the_option_or_the_environment(
    run: Run, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_environment = run("reproduce", "thesis-height", "--json")
    assert (from_environment.code, from_environment.err) == (0, "")
    monkeypatch.delenv("PUFFERDP_DATA")
    assert run("reproduce", "thesis-height", "--data", shared_data, "--json").json == from_environment.json
    check_sentence(run("reproduce", "thesis-height"), ("galton/galton.csv", "--data"))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["thesis-figure-4"], "no experiment 'thesis-figure-4'"),
        (["thesis-figure-3", "--list"], "--list"),
        (["--figure", "f.svg"], "--figure"),
        (["thesis-figure-3", "--figure", "f.txt"], "f.txt"),
        (["thesis-height", "--data", "nowhere"], "nowhere/galton/galton.csv"),
    ],
)
def test_bad_questions_are_refused(args: list[Any], words: str, run: Run, folder: Path) -> None:
    before = listing(folder)
    result = run("reproduce", *args)
    assert (result.code, result.out) == (2, "")
    check_sentence(result, (words,))
    assert listing(folder) == before


def test_without_the_papers_one_sentence_says_how_to_install_them(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_registered", lambda group: {})
    result = run("reproduce", "--list")
    assert (result.code, result.out) == (2, "")
    check_sentence(result, ("pufferdp-papers", "pip install"))
