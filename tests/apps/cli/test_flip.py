"""``pufferdp flip``: files, the design alone, streams, and what is refused."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.apps.cli.conftest import CHAIN, Run, series, write

FLIP = ["flip", "d.csv", "--model", "m.json", "--column", "activity", "--order", "rows", "--epsilon", "2"]


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "d.csv": series()})


def test_a_file_is_flipped_and_certified(run: Run, folder: Path) -> None:
    done = run(*FLIP, "--order", "time", "--out", "o.csv", "--certificate", "c.json", "--json")
    assert done.code == 0, done.err
    assert set(done.json) >= {"rho", "loss", "expected_noise", "certificate", "out"}
    assert len(done.json["rho"]) == 2
    assert done.json["loss"] <= 2
    lines = (folder / "o.csv").read_text().splitlines()
    assert lines[0] == "time,activity"
    assert len(lines) == 13
    checked = run("verify", "c.json")
    assert checked.code == 0
    assert "The guarantee is for one release" in checked.out
    assert all(len(line) <= 100 for line in checked.out.splitlines())


def test_the_design_needs_no_data(run: Run) -> None:
    done = run("flip", "--model", "m.json", "--epsilon", "2", "--length", "12", "--json")
    assert done.code == 0, done.err
    assert done.json["length"] == 12
    assert "flips with probability" in run("flip", "--model", "m.json", "--epsilon", "2", "--length", "12").out


def test_a_stream_comes_out_of_stdout(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(series().encode())))
    done = run("flip", "-", *FLIP[2:], "--certificate", "c.json", "--seed", "1")
    assert done.code == 0
    assert len(done.out.splitlines()) == 13
    assert "Warning: unsafe: seeded." in done.err
    assert run("verify", "c.json").code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["flip", "--model", "m.json", "--epsilon", "1"], "give either DATA"),
        ([*FLIP, "--length", "3", "--out", "o.csv"], "give either DATA"),
        (["flip", "d.csv", "--model", "m.json", "--epsilon", "1", "--out", "o.csv"], "column is missing"),
        (FLIP, "out is missing"),
        ([*FLIP, "--out", "o.doc"], "must end in .csv, .csv.gz or .parquet"),
        (["flip", "-", *FLIP[2:], "--out", "o.csv"], "stream"),
        (["flip", "-", *FLIP[2:], "--json"], "stream"),
        ([*FLIP, "--out", "o.csv", "--column", "steps"], "not a state"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(words: list[str], sentence: str, run: Run, folder: Path) -> None:
    done = run(*words)
    assert done.code == 2
    assert sentence in done.err
    assert sorted(p.name for p in folder.iterdir()) == ["d.csv", "m.json"]


def test_a_second_copy_is_charged_and_a_third_refused(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("ledger", "create", "l.db", "--dataset", "d", "--model", "m.json", "--budget", "2.5").code == 0
    charged = [*FLIP, "--ledger", "l.db", "--dataset", "d"]
    done = run(*charged, "--out", "o.csv", "--certificate", "c.json")
    assert done.code == 0, done.err
    assert "All releases from data set 'd' leak at most 2 of 2.5" in done.out
    assert "the ledger adds" in " ".join(done.out.split())
    head = json.loads((folder / "c.json").read_text())["ledger"]["head"]
    assert run("verify", "c.json", "--head", head).code == 0
    assert run("verify", "c.json", "--head", "0" * 64).code == 3
    small = [*FLIP[:-1], ".1", "--ledger", "l.db", "--dataset", "d"]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(series().encode())))
    done = run("flip", "-", *small[2:])
    assert (done.code, len(done.out.splitlines())) == (0, 13)
    assert "All releases from data set 'd'" in done.err
    before = sorted(p.name for p in folder.iterdir())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(series().encode())))
    for words in ([*charged, "--out", "more.csv", "--certificate", "more.json"], ["flip", "-", *charged[2:]]):
        done = run(*words)
        assert (done.code, done.out) == (3, "")
        assert "would fit, as with --epsilon" in done.err
    assert sorted(p.name for p in folder.iterdir()) == before
    assert run("ledger", "show", "l.db", "--json").json["releases"] == 2
    assert run("ledger", "verify", "l.db", "--head", head).code == 0
    design = run("flip", "--model", "m.json", "--epsilon", "2", "--length", "12", "--ledger", "l.db", "--dataset", "d")
    assert design.code == 2
