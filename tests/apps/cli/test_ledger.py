"""``pufferdp ledger`` and ``release --ledger``: what is printed, the exit codes, what is refused."""

from __future__ import annotations

import json
import shlex
import sqlite3
from pathlib import Path

import pytest

from tests.apps.cli.conftest import CHAIN, Run, series, write

CREATE = shlex.split("ledger create books.db --dataset week --model m.json --adversary bdp --budget 2")
RELEASE = shlex.split(
    "release f.csv --model m.json --column activity --order rows --query count:active --mechanism curve-tight"
)
CHARGED = [*RELEASE, "--ledger", "books.db", "--dataset", "week"]
KEYS = {"spent_dp", "leakage", "budget", "head", "releases"}


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    """A model, another one and a series."""
    write(folder, {"m.json": CHAIN, "o.json": {**CHAIN, "transition": [[0.8, 0.2], [0.4, 0.6]]}, "f.csv": series()})


def test_from_create_to_verify(run: Run) -> None:
    made = run(*CREATE, "--json")
    assert made.code == 0, made.err
    assert set(made.json) >= KEYS
    assert (made.json["leakage"], made.json["releases"], made.json["spent_dp"]) == (0, 0, 0)
    done = run(*CHARGED, "--epsilon", "0.5", "--out", "c.json", "--json")
    assert done.code == 0, done.err
    head = done.json["certificate"]["ledger"]["head"]
    shown = run("ledger", "show", "books.db", "--dataset", "week", "--json").json
    assert (shown["releases"], shown["head"]) == (1, head)
    assert 0.49 < shown["leakage"] <= 0.5
    assert run("ledger", "verify", "books.db", "--head", head, "--json").json["valid"]
    assert run("verify", "c.json", "--head", head, "--json").json["valid"]
    assert run("verify", "c.json", "--head", "0" * 64).code == 3
    text = run("ledger", "show", "books.db").out
    assert "1 release, for an adversary who knows any set of other records" in text
    assert head in text
    said = run(*CHARGED, "--epsilon", "0.5").out
    assert "Charged to data set 'week' as row 2" in said
    assert "All releases from data set 'week' leak at most" in said


def test_over_budget(run: Run) -> None:
    run(*CREATE)
    assert run(*CHARGED, "--epsilon", "1.5").code == 0
    before = run("ledger", "show", "books.db", "--json").json
    refused = run(*CHARGED, "--epsilon", "1.5")
    assert refused.code == 3
    assert refused.out == ""
    assert "is left, in DP loss" in refused.err and "would fit, as with --epsilon" in refused.err
    assert run("ledger", "show", "books.db", "--json").json == before


def test_a_release_that_leaves_nothing_says_so(run: Run, folder: Path) -> None:
    """A count over three states by exact-laplace at the whole budget: its guarantee holds alone."""
    states, table = ["rest", "light", "active"], [[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]]
    write(folder, {"m.json": {"type": "markov_chain", "states": states, "transition": table}})
    run(*CREATE)
    done = run(*CHARGED[:-6], "--mechanism", "exact-laplace", *CHARGED[-4:], "--epsilon", "2")
    assert done.code == 0, done.err
    assert "Nothing more can be released from it." in " ".join(done.out.split())
    refused = run(*CHARGED, "--epsilon", "0.001")
    assert refused.code == 3
    assert "a guarantee of its own counts for a single release only" in refused.err


def test_several_data_sets(run: Run) -> None:
    run(*CREATE)
    run(
        "ledger",
        "create",
        "books.db",
        "--dataset",
        "later",
        "--budget",
        "1",
        "--adversary",
        "pufferfish",
        "--model",
        "m.json",
    )
    shown = run("ledger", "show", "books.db", "--json").json["datasets"]
    assert [one["dataset"] for one in shown] == ["later", "week"]
    assert shown[0]["leakage"] == 0
    assert "pufferfish" in run("ledger", "show", "books.db").out
    missing = run("ledger", "create", "books.db", "--dataset", "third", "--budget", "1")
    assert (missing.code, "--model is missing" in missing.err) == (2, True)


def test_a_changed_ledger(run: Run, folder: Path) -> None:
    run(*CREATE)
    run(*CHARGED, "--epsilon", "0.5")
    with sqlite3.connect(folder / "books.db") as connection:
        connection.execute("UPDATE ledger_entries SET created = 'yesterday'")
    connection.close()
    found = run("ledger", "verify", "books.db", "--json")
    assert found.code == 3
    assert not found.json["valid"]
    assert "row 1 was changed" in found.json["problems"][0]
    assert "NOT valid" in run("ledger", "verify", "books.db").out


def test_export_and_import(run: Run, folder: Path) -> None:
    run(*CREATE)
    run(*CHARGED, "--epsilon", "0.5")
    assert run("ledger", "export", "books.db", "--out", "e.json", "--json").json == {"datasets": ["week"], "rows": 1}
    assert json.loads((folder / "e.json").read_text())["schema"] == "pufferdp-ledger-export/2"
    assert run("ledger", "import", "copy.db", "--from", "e.json").code == 0
    shown = [run("ledger", "show", name, "--json").json for name in ("books.db", "copy.db")]
    assert shown[0] == shown[1]
    assert run("ledger", "import", "copy.db", "--from", "e.json").code == 2


def test_a_private_fit(run: Run, folder: Path) -> None:
    """It was accepted, and ``ledger show`` then said that 19.45 of 1 was spent."""
    run("ledger", "create", "books.db", "--dataset", "small", "--model", "m.json", "--budget", "1")
    run("ledger", "create", "books.db", "--dataset", "week", "--model", "m.json", "--budget", "200")
    words = shlex.split(
        "fit f.csv --column activity --order rows --states rest,active --dp-epsilon 5 --out fitted.json"
    )
    refused = run(*words, "--ledger", "books.db", "--dataset", "small")
    assert (refused.code, refused.out) == (3, "")
    assert "leaked at most 0 of its budget 1" in refused.err and "needs a DP loss of 5" in refused.err
    assert not (folder / "fitted.json").exists()
    done = run(*words, "--ledger", "books.db", "--dataset", "week")
    assert done.code == 0, done.err
    assert "spent a DP loss of 5 on the data: charged to data set 'week'" in done.out
    small, week = run("ledger", "show", "books.db", "--json").json["datasets"]
    assert (small["spent_dp"], small["releases"]) == (0, 0)
    assert (week["spent_dp"], week["releases"]) == (5, 1)
    assert 5 < week["leakage"] < 200
    assert run("ledger", "verify", "books.db").code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["ledger", "show", "none.db"], 2, "does not exist"),
        (["ledger", "verify", "f.csv"], 2, "cannot be used"),
        (["ledger", "verify", "books.db", "--head", "xyz"], 2, "64 hexadecimal digits"),
        (["ledger", "show", "books.db", "--dataset", "month"], 2, "no data set 'month'"),
        (CREATE, 2, "already"),
        ([*CREATE, "--model", "none.json"], 2, "does not exist"),
        (["ledger", "import", "books.db", "--from", "m.json"], 2, "not a ledger export"),
        (["ledger", "export", "books.db", "--out", "no/e.json"], 2, "no folder"),
        ([*RELEASE, "--epsilon", "1", "--ledger", "books.db"], 2, "dataset is missing"),
        ([*RELEASE, "--epsilon", "1", "--dataset", "week"], 2, "there is no ledger"),
        ([*CHARGED, "--epsilon", "1", "--adversary", "pufferfish"], 3, "--adversary bdp"),
        ([*CHARGED, "--epsilon", "1", "--model", "o.json"], 3, "a total is for one model"),
        (["fit", "f.csv", "--column", "activity", "--dp-epsilon", "1"], 2, "states is missing"),
        (["fit", "f.csv", "--column", "activity", "--ledger", "books.db", "--dataset", "week"], 2, "not private"),
        (["fit", "f.csv", "--column", "activity", "--states", "rest", "--dp-epsilon", "x"], 2, "dp-epsilon is 'x'"),
    ],
)
def test_what_is_wrong_or_refused(run: Run, folder: Path, words: list[str], code: int, said: str) -> None:
    run(*CREATE)
    before = run("ledger", "show", "books.db", "--json").out
    found = run(*words)
    assert found.code == code, found.err
    assert said in found.err
    assert found.err.startswith("pufferdp: ") and found.err.count("\n") == 1
    assert run("ledger", "show", "books.db", "--json").out == before


def test_whether_a_charge_was_made(run: Run) -> None:
    assert run(*CREATE).code == 0
    done = run(*CHARGED, "--epsilon", "0.5", "--json")
    row = done.json["certificate"]["ledger"]
    shown = run("ledger", "show", "books.db", "--charge", row["identity"], "--json")
    assert (shown.code, shown.json) == (0, {"charge": row["identity"], "made": True, "rows": [row]})
    told = run("ledger", "show", "books.db", "--charge", row["identity"]).out
    assert told == f"Charge {row['identity']} was made:\nrow 1 of data set 'week', {row['charged']}, {row['head']}\n"
    missing = run("ledger", "show", "books.db", "--charge", "nobody", "--json")
    assert (missing.code, missing.json) == (0, {"charge": "nobody", "made": False, "rows": []})
    mixed = run("ledger", "show", "books.db", "--charge", "nobody", "--dataset", "week")
    assert (mixed.code, "leave out --dataset" in mixed.err) == (2, True)


def test_a_charge_whose_fate_is_unknown_does_not_exit_as_if_nothing_was_charged(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pufferdp.ledger.store.sqlite import SqliteStore

    assert run(*CREATE).code == 0
    commit = SqliteStore._commit

    def moved(self: SqliteStore, connection: sqlite3.Connection, identity: str | None) -> None:
        commit(self, connection, identity)
        Path("books.db").rename("moved.db")

    monkeypatch.setattr(SqliteStore, "_commit", moved)
    done = run(*CHARGED, "--epsilon", "0.5")
    assert (done.code, done.out) == (1, "")
    identity = done.err.rpartition("--charge ")[2].strip()
    monkeypatch.setattr(SqliteStore, "_commit", commit)
    Path("moved.db").rename("books.db")
    assert run("ledger", "show", "books.db", "--charge", identity, "--json").json["made"]
