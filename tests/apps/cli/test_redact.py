"""``pufferdp redact``: the JSON that others rely on, files written, refusals with the right exit code."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.apps.cli.conftest import CHAIN, Run, listing, series, write

PAPER = {"type": "markov_chain", "transition": [[0.99, 0.01], [0.8, 0.2]], "start": "stationary"}
DESIGN = ["redact", "--model", "m.json", "--length", "10", "--private", "1", "--epsilon", "1"]
DATA = shlex.split("redact d.csv --model m.json --column activity --private 6 --epsilon 1 --order rows")


@pytest.mark.parametrize(
    ("method", "utility", "leakage"),
    [("window", 0.7, 0.444311), ("3r-numerical", 0.789496, 1.0)],
)
def test_the_designs_of_the_paper(method: str, utility: float, leakage: float, run: Run, folder: Path) -> None:
    write(folder, {"m.json": PAPER})
    found = run(*DESIGN, "--method", method, "--adversary", "pufferfish", "--json").json
    assert found["method"] == method
    assert found["utility"] == pytest.approx(utility, abs=5e-7)
    assert found["leakage"] == pytest.approx(leakage, abs=5e-7)
    assert len(found["redaction_probabilities"]) == 10
    assert found["redaction_probabilities"][0] == [1, 1]
    assert found["certificate"] is None


@pytest.mark.slow
def test_the_best_is_the_default(run: Run, folder: Path) -> None:
    write(folder, {"m.json": PAPER})
    found = run(*DESIGN, "--json").json
    assert (found["method"], found["adversary"]) == ("3r-optimal", "bdp")
    assert found["leakage"] == found["leakage_to"]["bdp"] <= 1
    alone = run(*DESIGN, "--adversary", "pufferfish", "--json").json
    assert alone["utility"] > 0.7923 > found["utility"]  # what the paper's adversary allows
    assert alone["leakage"] <= 1 < alone["leakage_to"]["bdp"]
    shown = run(*DESIGN)
    assert (shown.code, shown.err) == (0, "")
    assert all(len(line) <= 100 for line in shown.out.splitlines())
    assert "3r-optimal" in shown.out


@pytest.mark.slow
def test_data_is_redacted_and_certified(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "d.csv": series()})
    files = ["--out", "o.csv", "--certificate", "c.json", "--rule", "r.json", "--tilted", "t.json"]
    done = run(*DATA, *files, "--figure", "f.png", "--seed", "1", "--json")
    assert (done.code, done.err) == (0, "")
    rows = (folder / "o.csv").read_text().splitlines()
    assert rows[6] == "*"
    assert len(rows) == 13
    assert json.loads((folder / "r.json").read_text())["mark"] == "*"
    assert run("verify", "c.json").code == 0
    assert run("plan", "t.json", "--query", "count:active", "--epsilon", "1", "--adversary", "pufferfish").code == 0
    assert done.json["certificate"] == json.loads((folder / "c.json").read_text())
    more = ["--out", "o2.csv", "--after", "c.json", "--published", "o.csv"]
    again = run("redact", "d.csv", *DATA[2:6], "--order", "rows", "--private", "5", "--epsilon", "3", *more, "--json")
    assert again.code == 0, again.err
    assert again.json["private"] == [5, 6]


@pytest.mark.slow
def test_order_people_and_a_ledger_on_the_command_line(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "d.csv": series()})
    head, *lines = (folder / "d.csv").read_text().splitlines()
    (folder / "b.csv").write_text("\n".join([head, *lines[::-1]]) + "\n")
    assert run("ledger", "create", "l.db", "--dataset", "d", "--model", "m.json", "--budget", "2").code == 0
    usual = ["--model", "m.json", "--column", "activity", "--epsilon", "1", "--method", "window"]
    read = ["--order", "time", "--by", "person", "--restart", "10min", "--independent"]
    paid = ["--ledger", "l.db", "--dataset", "d"]
    files = ["--out", "o.csv", "--certificate", "c.json", "--tilted", "t.json", "--figure", "f.png", "--rule", "r.json"]
    done = run("redact", "b.csv", "--private", "7", *usual, *read, *paid, *files)
    assert (done.code, done.err) == (0, "")
    assert "All releases from data set 'd' leak at most" in done.out.splitlines()[-1]
    marked = [line.split(",") for line in (folder / "o.csv").read_text().splitlines()[1:]]
    assert [row[:2] for row in marked] == [line.split(",")[:2] for line in lines[::-1]]
    assert {row[1] for row in marked if row[2] == "*"} == {marked[6][1]}  # nobody else's records are touched
    assert marked[6][2] == "*"
    certificate = json.loads((folder / "c.json").read_text())
    assert (certificate["data"]["by"], certificate["data"]["gap"]) == ("person", "10min")
    head_ = certificate["ledger"]["head"]
    assert run("verify", "c.json", "--head", head_).code == 0
    assert run("ledger", "verify", "l.db", "--head", head_, "--json").json["unchecked"] == []
    assert run("ledger", "show", "l.db", "--json").json["private"] == "row 7"
    # Refused before anything is drawn: nothing is charged, nothing is written.
    before = listing(folder)
    refused = run("redact", "b.csv", "--private", "8", *usual, *read, *paid, "--out", "p.csv")
    assert (refused.code, refused.out) == (3, "")
    assert "--after" in refused.err
    assert run("redact", *usual[:2], *usual[4:], "--length", "9", "--private", "1", *paid).code == 2
    binned = ["--tilted", "u.json", "--bins", "0,50,200", "--out", "p.csv"]
    assert run("redact", "d.csv", "--private", "1", *usual, *binned).code == 3
    assert listing(folder) == before


def test_times_and_kept_columns(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "d.csv": series()})
    usual = ["redact", "d.csv", *DATA[2:6], "--epsilon", "1", "--method", "window", "--order", "time"]
    hour = ["--private", "2024-01-01T00:04..2024-01-01T00:05", "--private", "9"]
    done = run(*usual, *hour, "--keep", "steps", "--out", "o.csv", "--certificate", "c.json", "--json")
    assert (done.code, done.err) == (0, "")
    assert (done.json["private"], done.json["kept"]) == ([5, 6, 9], ["steps"])
    head, *lines = (folder / "o.csv").read_text().splitlines()
    assert head == "time,activity,steps"
    assert [lines[n].split(",")[1] for n in (4, 5, 8)] == ["*", "*", "*"]
    assert "the kept column 'steps' tells nothing about 'activity'" in " ".join(run("verify", "c.json").out.split())
    shown = run(*usual, "--private", "2024-01-01T00:04", "--out", "p.csv")
    assert "Writes the columns 'time' and 'activity'." in shown.out
    assert (folder / "p.csv").read_text().splitlines()[0] == "time,activity"


@pytest.mark.slow
def test_rows_may_be_given_as_a_range(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN})
    usual = ["redact", "--model", "m.json", "--length", "40", "--epsilon", "1", "--json"]
    assert run(*usual, "--private", "10-12", "--private", "20,30").json["private"] == [10, 11, 12, 20, 30]


def test_long_series_list_only_what_is_not_released(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN})
    found = run("redact", "--model", "m.json", "--length", "1000000", "--private", "7", "--epsilon", "1", "--json").json
    assert found["redaction_probabilities"] is None
    assert sum(len(b["redaction_probabilities"]) for b in found["blocks"]) < 20


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["redact", "--model", "m.json", "--private", "1", "--epsilon", "1"], 2, "either a data file or --length"),
        ([*DESIGN, "--out", "o.csv"], 2, "--out needs data"),
        ([*DESIGN, "--private", "x"], 2, "private is 'x'"),
        ([*DESIGN, "--method", "3r-relaxed"], 2, "must be one of window"),
        ([*DESIGN, "--private", "2024-01-01"], 2, "a design reads no data"),
        ([*DESIGN, "--keep", "steps"], 2, "--keep steps needs data"),
        ([*DATA, "--keep", "step", "--out", "o.csv"], 2, "did you mean 'steps'?"),
        ([*DATA, "--private", "2024-01-01", "--out", "o.csv"], 2, "name it with --order"),
        ([*DATA, "--private", "2024-01-02", "--order", "time", "--out", "o.csv"], 2, "no row has 'time' there"),
        (DATA, 2, "name one with --out"),
        ([*DATA, "--out", "d.csv"], 2, "the data itself"),
        ([*DATA[:2], "--model", "m.json", "--private", "1", "--epsilon", "1", "--out", "o.csv"], 2, "--column"),
    ],
)
def test_refusals(args: list[str], code: int, said: str, run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "any.json": {**CHAIN, "start": "any"}, "d.csv": series()})
    before = listing(folder)
    result = run(*args)
    assert (result.code, result.out) == (code, "")
    assert said in result.err
    assert result.err.count("\n") == 1
    assert listing(folder) == before


@pytest.mark.parametrize("verb", ["redact", "flip"])
def test_texts_that_a_spreadsheet_would_run_are_kept_and_warned_of(verb: str, run: Run, folder: Path) -> None:
    """Other columns of a series are those of its data, byte for byte, because others join on them."""
    states = [line.split(",")[2] for line in series().splitlines()[1:]]
    names = ["=1+1", "@x", "-2.5", "plain"] * 3
    rows = "".join(f"{name},{n},{state}\n" for n, (name, state) in enumerate(zip(names, states, strict=True)))
    write(folder, {"m.json": CHAIN, "d.csv": f"who,n,activity\n{rows}"})
    more = ["--keep", "who", "--private", "6"] if verb == "redact" else ["--by", "who", "--order", "n", "--independent"]
    words = [verb, "d.csv", "--model", "m.json", "--column", "activity", "--epsilon", "1", "--out", "o.csv", *more]
    done = run(*words)
    assert done.code == 0
    assert "warning: 'o.csv': a spreadsheet runs texts of who as formulas" in done.err
    assert "import the file with these columns as text" in done.err
    assert [line.split(",")[0] for line in (folder / "o.csv").read_text().splitlines()[1:]] == names
    plain = rows.replace("=1+1", "a").replace("@x", "b")
    write(folder, {"d.csv": f"who,n,activity\n{plain}"})
    assert run(*words, "--overwrite").err == ""
