"""Tables on the command line: no query is dropped, files by their names, and nothing is replaced unasked."""

from __future__ import annotations

import csv
import errno
import json
import re
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from pufferdp import ReleasedTable
from tests.apps.cli.conftest import Run
from tests.publish.test_signatures import keys

CHAIN = {
    "type": "markov_chain",
    "transition": [[0.8, 0.2], [0.3, 0.7]],
    "states": ["rest", "active"],
    "values": [0, 1],
    "step": "1h",
}
TABLE = [
    "release", "d.csv", "--model", "m.json", "--column", "x", "--order", "t", "--by", "who", "--epsilon", "1",
    "--per", "day", "--query", "histogram", "--query", "mean",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _files(folder: Path) -> None:
    start = datetime(2024, 1, 1)
    rows = [
        f"{start + timedelta(hours=h)},{('rest', 'active')[(h * h + p) % 3 == 0]},{who},{'uv'[h % 2]}"
        for p, who in enumerate(("ann", "bob"))
        for h in range(72)
    ]
    (folder / "d.csv").write_text("t,x,who,ward\n" + "\n".join(rows) + "\n")
    (folder / "m.json").write_text(json.dumps(CHAIN))


def test_a_second_query_is_not_dropped(run: Run) -> None:
    result = run(*TABLE, "--json")
    assert (result.code, result.err) == (0, "")
    content = json.loads(result.out)
    assert content["table"]["columns"] == ["day", "records", "histogram:rest", "histogram:active", "mean"]
    assert len(content["table"]["rows"]) == 3
    assert [question["name"] for question in content["certificate"]["questions"]] == ["histogram", "mean"]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_certificate_goes_beside_the_table(ending: str, run: Run) -> None:
    made = run(*TABLE, "--out", f"days.{ending}", "--figure", "days.png", "--report", "days.html")
    assert made.code == 0
    assert f"Table: days.{ending}\nCertificate: days.certificate.json" in made.out
    if ending == "csv":
        with open("days.csv", encoding="utf-8") as file:
            lines = list(csv.reader(file))
        assert lines[0] == ["day", "records", "histogram:rest", "histogram:active", "mean"]
    else:
        assert pl.read_parquet("days.parquet")["records"].to_list() == [48, 48, 48]
    assert run("verify", "days.certificate.json", "--table", f"days.{ending}").out.startswith("valid")
    assert run("verify", "days.html").out.startswith("valid")
    assert Path("days.png").stat().st_size > 1000


def test_json_holds_both(run: Run) -> None:
    assert run(*TABLE, "--out", "days.json").code == 0
    assert run("verify", "days.json", "--table", "days.json").out.startswith("valid")
    assert not Path("days.certificate.json").exists()
    content = json.loads(Path("days.json").read_text())
    content["table"]["rows"][0][4] += 1
    Path("other.json").write_text(json.dumps(content))
    changed = run("verify", "other.json")
    assert changed.code == 2
    assert "its hash differs" in changed.err
    content = json.loads(Path("days.json").read_text())
    content["estimate"]["rows"][0][2] += 1
    Path("other.json").write_text(json.dumps(content))
    assert "what stands beside the certificate does not follow from it" in run("verify", "other.json").err


@pytest.mark.parametrize("there", ["days.csv", "days.certificate.json"])
def test_nothing_is_replaced_unasked(there: str, run: Run) -> None:
    Path(there).write_text("precious")
    refused = run(*TABLE, "--out", "days.csv")
    assert refused.code == 2
    assert there in refused.err
    assert Path(there).read_text() == "precious"
    assert run(*TABLE, "--out", "days.csv", "--overwrite").code == 0
    assert Path(there).read_text() != "precious"


def test_a_table_that_was_changed_is_found(run: Run) -> None:
    run(*TABLE, "--out", "days.csv")
    text = Path("days.csv").read_text()
    Path("days.csv").write_text(text.replace("2024-01-02", "2024-01-12"))
    checked = run("verify", "days.certificate.json", "--table", "days.csv")
    assert checked.code == 3
    assert "its hash differs" in checked.out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--out", "days.xlsx"], "a table is written to a .csv, .parquet or .json file"),
        (["--split", "1"], "split has 1 number for 2 queries"),
        (["--split", "1,x"], "split is 'x'; it must be a number"),
        (["--per", "hour"], "per is 'day, hour'"),
        (["--groups", "a,b"], "neither per person nor per column"),
    ],
)
def test_what_is_refused(more: list[str], words: str, run: Run) -> None:
    result = run(*TABLE, *more)
    assert result.code in (2, 3)
    assert words in result.err
    assert result.out == ""


def test_a_fleet_is_no_table(run: Run) -> None:
    Path("models.json").write_text(json.dumps({"ann": CHAIN, "bob": CHAIN}))
    fleet = ["--models" if part == "--model" else part for part in TABLE]
    fleet[fleet.index("m.json")] = "models.json"
    assert "--per goes with --model" in run(*fleet).err
    without = [part for part in fleet if part not in ("--per", "day")]
    assert "several queries make a table, which has one model" in run(*without).err


def test_several_queries_are_planned_together(run: Run) -> None:
    planned = json.loads(
        run("plan", "m.json", "--query", "histogram", "--query", "mean", "--split", "3,1", "--per", "day",
            "--lengths", "72,72", "--per", "person", "--epsilon", "1", "--json").out
    )  # fmt: skip
    assert planned["group_records"] == 24
    assert [query["share"] for query in planned["queries"]] == [0.75, 0.25]
    text = run("plan", "m.json", "--query", "histogram", "--query", "mean", "--length", "72", "--epsilon", "1").out
    assert "All queries together spend a DP loss" in text
    flow = run("plan", "m.json", "--query", "flow", "--query", "mean", "--length", "72", "--eta", ".1", "--tau", ".1")
    assert "a flow is none" in flow.err
    alone = run("plan", "m.json", "--query", "mean", "--split", "1", "--length", "72", "--epsilon", "1")
    assert "there is one: leave it out" in alone.err


def test_a_table_is_charged_once(run: Run) -> None:
    run("ledger", "create", "books.db", "--dataset", "week", "--model", "m.json", "--budget", "3")
    made = run(*TABLE, "--per", "person", "--ledger", "books.db", "--dataset", "week", "--out", "days.csv")
    assert made.code == 0
    assert re.search(r"All releases from data set 'week' leak at most (1|0\.99\d+) of 3", made.out)
    certificate = json.loads(Path("days.certificate.json").read_text())
    shown = json.loads(run("ledger", "show", "books.db", "--json").out)
    assert shown["spent_dp"] == pytest.approx(certificate["dp_loss"])
    assert run("ledger", "verify", "books.db", "--head", certificate["ledger"]["head"]).code == 0


def test_a_table_that_cannot_be_written_is_not_lost(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: object, path: object, ending: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run("ledger", "create", "books.db", "--dataset", "week", "--model", "m.json", "--budget", "3")
    monkeypatch.setattr(ReleasedTable, "write", full)
    failed = run(*TABLE, "--ledger", "books.db", "--dataset", "week", "--out", "days.csv")
    assert failed.code != 0
    assert "'days.csv' cannot be written: No space left on device" in failed.err
    line = next(line for line in failed.err.splitlines() if line.startswith("{"))
    assert len(json.loads(line)["table"]["rows"]) == 3
    assert not Path("days.csv").exists()


@pytest.mark.parametrize("out", ["days.csv", "days.json"])
def test_a_signed_table(out: str, run: Run) -> None:
    keys(Path(), "hospital")
    assert run(*TABLE, "--out", out, "--sign", "hospital.pem").code == 0
    certificate = "days.certificate.json" if out == "days.csv" else out
    checked = run("verify", certificate, "--table", out, "--signer", "hospital.pub")
    assert checked.code == 0
    assert "Signed with the key" in checked.out


def test_sizes_are_hidden_and_irregular_times_warn(run: Run, folder: Path) -> None:
    start = datetime(2024, 1, 1)
    rows = [f"{start + timedelta(seconds=37 * n + (n * n) % 29)},{('rest', 'active')[n % 3 == 0]}" for n in range(600)]
    (folder / "beats.csv").write_text("t,x\n" + "\n".join(rows) + "\n")
    model = {key: value for key, value in CHAIN.items() if key != "step"}
    (folder / "plain.json").write_text(json.dumps(model))
    asked = ["release", "beats.csv", "--model", "plain.json", "--column", "x", "--order", "t", "--per", "hour"]
    asked += ["--query", "histogram", "--epsilon", "1", "--json"]
    exact, hidden = run(*asked), run(*asked, "--sizes", "hidden")
    assert sum(row[1] for row in exact.json["table"]["rows"]) == 600
    assert "pufferdp: warning: records do not come at a regular time step" in exact.err
    assert {row[1] for row in hidden.json["table"]["rows"]} == {None}
    assert (hidden.code, hidden.err) == (0, "")
    wrong = run(*asked, "--sizes", "hidden", "--query", "frequency")
    assert wrong.code == 2
    assert "ask for histogram" in wrong.err
    planned = ["plan", "plain.json", "--length", "600", "--per", "hour", "--query", "histogram", "--epsilon", "1"]
    assert run(*planned, "--sizes", "hidden", "--json").json["sizes"] == "hidden"
    alone = run("plan", "plain.json", "--length", "600", "--query", "histogram", "--epsilon", "1", "--sizes", "hidden")
    assert alone.code == 2
    assert "--sizes goes with a table" in alone.err


@pytest.mark.slow
def test_a_figure_has_all_groups_or_says_what_it_leaves_out(run: Run, folder: Path) -> None:
    start = datetime(2020, 1, 1)
    for days, name in ((366, "year.csv"), (1100, "years.csv")):
        rows = [f"{start + timedelta(days=n, hours=h)},rest" for n in range(days) for h in (0, 1)]
        (folder / name).write_text("t,x\n" + "\n".join(rows) + "\n")
    asked = ["--model", "m.json", "--column", "x", "--order", "t", "--per", "day", "--query", "count:rest"]
    asked += ["--epsilon", "1", "--missing", "keep", "--figure", "f.svg", "--overwrite"]
    whole = run("release", "year.csv", *asked)
    assert (whole.code, whole.err) == (0, ""), whole.err
    part = run("release", "years.csv", *asked)
    assert part.code == 0
    assert "warning: the figure shows the first 1,000 of 1,100 groups; the table has them all" in part.err
    assert "the first 1,000 of 1,100 groups" in (folder / "f.svg").read_text()
