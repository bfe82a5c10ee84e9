"""``pufferdp attack``: drawn series, a file with and without the truth, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.apps.cli.conftest import CHAIN, Run, listing, write
from tests.apps.cli.test_bad_input import check_sentence

DRAWN = ["attack", "--model", "m.json", "--length", "30", "--epsilon", "0.5"]
FILE = ["attack", "d.csv", "--model", "m.json", "--column", "seen", "--rho", "0.1,0.2"]
SERIES = "seen,true\n" + "rest,rest\nactive,rest\nactive,active\n" * 40
KEYS = {"attacks", "lower", "exact", "upper", "losses", "bounds", "prior_odds"} | {"rho", "length", "runs", "record"}


def test_drawn_series(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN})
    result = run(*DRAWN, "--channel", "dp", "--runs", "50", "--record", "15", "--seed", "3", "--json")
    assert (result.code, result.err) == (0, "")
    assert set(result.json) == KEYS | {"confidence"}
    assert [a["attacker"] for a in result.json["attacks"]] == ["single-bit", "correlation-aware", "viterbi"]
    assert all(a["low"] <= a["success"] <= a["high"] and a["records"] == 50 for a in result.json["attacks"])
    assert result.json["losses"]["dp"] == pytest.approx(0.5)
    assert result.json["exact"] == result.json["upper"] == result.json["losses"]["pufferfish"]
    said = run(*DRAWN, "--runs", "50", "--figure", "f.png")
    assert said.code == 0
    assert all(len(line) <= 96 for line in said.out.splitlines())
    assert (folder / "f.png").stat().st_size > 1000
    assert run(*DRAWN, "--runs", "50", "--json").json == run(*DRAWN, "--runs", "50", "--seed", "0", "--json").json


def test_a_file_with_and_without_the_truth(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "d.csv": SERIES})
    known = run(*FILE, "--truth", "true", "--json").json
    assert known["length"] == 120
    assert known["runs"] == 1
    assert known["rho"] == [0.1, 0.2]
    assert known["attacks"][0]["success"] == pytest.approx(2 / 3)
    unknown = run(*FILE, "--json").json
    assert unknown["lower"] is None
    assert all(a["low"] is None for a in unknown["attacks"])
    assert "The true series was not given" in run(*FILE).out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["attack", "--model", "m.json"], "--length"),
        ([*DRAWN, "--rho", "0.1"], "rho"),
        ([*FILE, "--runs", "3"], "runs"),
        (DRAWN[:-2], "epsilon"),
        (FILE[:-2], "rho is missing"),
        ([*FILE[:-1], "0.1,x"], "'x'"),
        ([*FILE, "--truth", "nowhere"], "nowhere"),
        ([*FILE, "--learned"], "--truth"),
        ([*DRAWN, "--figure", "f.txt"], "f.txt"),
    ],
)
def test_bad_questions_are_refused(args: list[Any], words: str, run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "d.csv": SERIES})
    before = listing(folder)
    result = run(*args)
    assert (result.code, result.out) == (2, "")
    check_sentence(result, (words,))
    assert listing(folder) == before


def test_the_learned_attacker(run: Run, folder: Path) -> None:
    """Few records, so nothing is said of how often it is right; it stands beside the others."""
    write(folder, {"m.json": CHAIN, "d.csv": SERIES})
    drawn = ["attack", "--model", "m.json", "--length", "40", "--epsilon", "2", "--runs", "3", "--learned"]
    result = run(*drawn, "--json", "--figure", "f.svg")
    assert result.code == 0, result.err
    names = ["single-bit", "correlation-aware", "viterbi", "learned"]
    assert [a["attacker"] for a in result.json["attacks"]] == names
    learned = result.json["attacks"][-1]
    assert learned["records"] == 120
    assert 0 <= learned["low"] <= learned["success"] <= learned["high"] <= 1
    assert "learned" in (folder / "f.svg").read_text()
    known = run(*FILE, "--truth", "true", "--learned")
    assert known.code == 0, known.err
    (line,) = [line for line in known.out.splitlines() if line.startswith("learned")]
    assert len(line.split()) == 4
