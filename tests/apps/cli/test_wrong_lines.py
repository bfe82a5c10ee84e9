"""Natural but wrong command lines: one sentence each, exit 2 or 3, no traceback, and nothing is written."""

import json
import os
import shlex
import sys

import pytest

from pufferdp.apps.cli import _run

MODEL = {"type": "markov_chain", "transition": [[0.9, 0.1], [0.3, 0.7]], "states": ["rest", "active"]}
STATES = ["rest", "rest", "active"] * 30
RELEASE = "release week.csv --model m.json --column state --query histogram --epsilon 1"
PLAN = "plan m.json --query histogram --length 90 --epsilon 1"
LINES = [
    "relese week.csv",
    "plan m.json --query flow --length 9 --epsilon 1",
    "plan m.json --query flow --query histogram --length 9 --eta 0.1 --tau 0.1",
    "plan m.json --query histogram --length 9 --tau 0.1 --epsilon 1",
    f"{PLAN} --unit day",
    f"{PLAN} --ledger budget.db",
    f"{PLAN} --report here",
    f"{PLAN} --colour red",
    f"{PLAN} extra",
    "release m.json --model m.json --column state --query histogram --epsilon 1",
    "release week.csv --model week.csv --column state --query histogram --epsilon 1",
    "release week.csv --model m.json --column time --query histogram --epsilon 1",
    f"{RELEASE} --restart 8h",
    f"{RELEASE} --from 3",
    f"{RELEASE} --clip 1",
    f"{RELEASE} --dataset week",
    f"{RELEASE} --out week.csv",
    f"{RELEASE} --split 1",
    f"{RELEASE} --per person",
    f"{RELEASE} --models m.json",
    f"{RELEASE} --sign nothing.pem",
    "fit week.csv --column state --start somewhere",
    "redact week.csv --model m.json --column state --private 999 --epsilon 1 --out x.csv",
    "leakage m.json --length 9 --dp-epsilon 1 --query histogram --query sum",
    "fit week.csv --column state --memory two",
    "audit m.json --mechanism python:nope.py:f --length 9",
    "--completion tcsh",
    "--verson",
    "help",
    "ledger delete budget.db",
    "plan . --query histogram --length 9 --epsilon 1",
    "plan m.json --query histogram,count:rest --length 9 --epsilon 1",
    "plan m.json --query histogram --length 99999999999999999999 --epsilon 1",
    f"{PLAN} --secret sometimes",
    f"{PLAN} --secret all:9..3",
    f"{PLAN} --unit fortnight",
    f"{PLAN} --from 2024-01-01",
    "release https://example.com/w.csv --model m.json --column state --query histogram --epsilon 1",
    f"{RELEASE} --id time",
    f"{RELEASE} --out m.json --overwrite",
    f"{RELEASE} --per month",
    f"{RELEASE} --ledger . --dataset week",
    "verify .",
    "fit week.csv --column state --family ar1",
    "fit week.csv --column state --clock hour",
    "fit week.csv --column state --dp-epsilon 0",
    "flip week.csv --length 9 --model m.json --epsilon 1",
    "flip week.csv --model m.json --column state --epsilon 8 --out x.xlsx",
    "redact week.csv --model m.json --column state --private noon --epsilon 1 --out x.csv",
    "estimate week.csv --certificate m.json",
    "leakage m.json --losses empty.csv",
    "leakage m.json --length 9 --dp-epsilon 1 --window 7d",
    "flow week.csv --model m.json --column state --eta 0.1 --tau 0.1 --privacy all",
    "attack week.csv --model m.json --column state --rho 2",
    "attack --model m.json --length 9 --epsilon 8 --channel none",
    "audit m.json --mechanism gauss --length 9",
    "audit m.json --mechanism laplace:histogram --length 9 --dp-epsilon 1 --record 10",
    "ledger create week.csv --dataset new --model m.json --budget 1",
    "serve --port 99999",
    "demo --out week.csv",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "m.json").write_text(json.dumps(MODEL))
    rows = "\n".join(f"{n},{state}" for n, state in enumerate(STATES))
    (tmp_path / "week.csv").write_text(f"time,state\n{rows}\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "header.csv").write_text("time,state\n")
    (tmp_path / "soon.csv").write_text("time,state\n2024-01-01,rest\nsoon,active\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("line", LINES)
def test_a_wrong_line_is_answered_in_a_sentence(folder, line, monkeypatch, capsys):
    before = {name: (folder / name).read_bytes() for name in ("m.json", "week.csv")}
    monkeypatch.setattr(sys, "argv", ["pufferdp", *shlex.split(line)])
    code = _run()
    out, err = capsys.readouterr()
    assert code in (2, 3), err
    said = [text for text in err.splitlines() if not text.endswith(" …")]
    assert out == "" and len(said) == 1 and said[0].startswith("pufferdp: "), (out, err)
    assert "Traceback" not in err and "object has no attribute" not in err
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert not {"x.csv", "x.json"} & set(os.listdir(folder))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"{PLAN} --eps 2", "there is no option --eps; did you mean --epsilon?"),
        ("plan --model m.json", "there is no option --model; MODEL goes without one, see pufferdp plan --help"),
        ("fit", "DATA is missing; see pufferdp fit --help"),
        (f"{PLAN} more", "more was not expected; see pufferdp plan --help"),
        ("leakage m.json --length 9 --dp-epsilon -1", "dp-epsilon is -1; it must be a finite number above 0"),
        ("relese week.csv", "there is no command 'relese'; did you mean 'release'?"),
        ("help", "there is no command 'help'; see pufferdp --help"),
        ("ledger sow b.db", "there is no command 'sow'; did you mean 'show'?"),
        ("plan m.json --epsilon", "--epsilon needs a value after it"),
        (
            f"{RELEASE} --ledger week.csv --dataset week",
            "ledger 'week.csv' cannot be used: it is not a ledger; name one",
        ),
        ("demo --out week.csv", "folder 'week.csv' cannot be made: it is a file; name another with --out"),
        (
            "plan empty.json --query histogram --length 9 --epsilon 1",
            "model file 'empty.json' is empty; it must be JSON",
        ),
        (
            "plan week.csv --query sum --length 9 --epsilon 1",
            "model file 'week.csv' is not JSON; the first mistake is at line 1, column 1",
        ),
        ("fit header.csv --column state", "the data has no rows; at least one record is needed"),
        ("attack week.csv --model m.json --column state --rho 2", "rho is 2; probabilities lie between 0 and 1"),
        ("attack --model m.json --length 9 --epsilon 8 --channel no", "channel is 'no'; it must be one of bdp"),
        (
            "release soon.csv --model m.json --column state --order time --query histogram --epsilon 1",
            "the order column 'time' holds text, 'soon' for instance; it must hold numbers, dates or time stamps",
        ),
        (f"{RELEASE} --mechanism quilt", "mechanism is 'quilt'; it must be one of"),
    ],
)
def test_a_line_that_cannot_be_read_is_answered_in_our_words(folder, line, words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pufferdp", *shlex.split(line)])
    assert _run() == 2
    assert f"pufferdp: {words}" in capsys.readouterr().err


def test_a_folder_is_enough_for_out(folder, monkeypatch, capsys):
    (folder / "made").mkdir()
    lines = {
        f"{RELEASE} --out made": "release.json",
        "fit week.csv --column state --out made": "model.json",
        "flip week.csv --model m.json --column state --epsilon 8 --out made": "week.flipped.csv",
        "redact week.csv --model m.json --column state --private 3 --epsilon 2 --out made": "week.redacted.csv",
    }
    for line, name in lines.items():
        monkeypatch.setattr(sys, "argv", ["pufferdp", *shlex.split(line)])
        assert _run() == 0, capsys.readouterr().err
        assert (folder / "made" / name).stat().st_size
        assert _run() == 2  # never replaced in silence


def test_a_large_epsilon_is_warned_of(folder, monkeypatch, capsys):
    for line, warned in ((f"{PLAN} --json", False), (f"{PLAN.replace('--epsilon 1', '--epsilon 21')} --json", True)):
        monkeypatch.setattr(sys, "argv", ["pufferdp", *shlex.split(line)])
        assert _run() == 0
        assert ("warning: epsilon is 21;" in capsys.readouterr().err) == warned
