"""Quantiles, transitions and cross tables on the command line: asked, shown, kept, verified and refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apps.cli.conftest import CHAIN, Run, write
from tests.apps.cli.test_bad_input import check_sentence

STATES = ["rest", "rest", "active", "rest"] * 30
PLACES = ["home", "work", "work"] * 40
READ = ["--column", "activity", "--order", "n"]
RELEASE = ["release", "d.csv", "--model", "m.json", *READ, "--epsilon", "1"]


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    lines = [f"{n},{s},{p}" for n, (s, p) in enumerate(zip(STATES, PLACES, strict=True))]
    data = "n,activity,place\n" + "\n".join(lines) + "\n"
    write(folder, {"m.json": CHAIN, "v.json": {**CHAIN, "values": [1, 7]}, "d.csv": data})


def test_several_questions_in_one_call(run: Run) -> None:
    queries = ["--query", "quantile:.9,.5", "--query", "max", "--query", "transitions", "--split", "2,1,1"]
    result = run(*RELEASE[:3], "v.json", *READ, "--epsilon", "1", *queries, "--out", "r.json")
    assert (result.code, result.err) == (0, "")
    assert "quantile 0.5" in result.out
    assert "from \\ to" in result.out
    assert " ranks" in result.out
    assert run("verify", "r.json").code == 0


def test_planned_without_data(run: Run) -> None:
    result = run("plan", "v.json", "--length", "120", "--query", "median", "--query", "transitions", "--epsilon", "1")
    assert result.code == 0
    assert " ranks" in result.out


def test_a_cross_table(run: Run) -> None:
    fitted = run("fit", "d.csv", "--column", "activity,place", "--order", "n", "--out", "p.json", "--no-checks")
    assert (fitted.code, fitted.err) == (0, "")
    read = ["--column", "activity,place", "--order", "n", "--query", "cross", "--epsilon", "1"]
    result = run("release", "d.csv", "--model", "p.json", *read, "--out", "r.json")
    assert result.code == 0
    lines = result.out.partition("\n\n")[2].splitlines()  # below the verdict
    assert lines[0].split() == ["home", "work"]
    assert {line.split()[0] for line in lines[2:4]} == {"rest", "active"}
    assert run("verify", "r.json").code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--query", "median"], "--clip A B"),
        (["--query", "cross"], "--column first,second"),
        (["--query", "quantile:"], "quantile:.5,.9"),
        (["--query", "transitions", "--clip", "0", "1"], "leave it out"),
        (["--query", "transitions", "--mechanism", "group"], "not with a table"),
        (["--query", "transitions", "--column", "activity,place,n"], "no column 'activity,place,n'"),
    ],
)
def test_refused_in_one_sentence(run: Run, options: list[str], words: str) -> None:
    result = run(*RELEASE, *options)
    assert result.code != 0
    check_sentence(result, (words,))
