"""``--report``: a page beside what is released, verified like a certificate; refused before anything is released."""

from __future__ import annotations

from pathlib import Path

import pytest

from pufferdp.basics.errors import ParameterError
from pufferdp.report import html
from tests.apps.cli.conftest import CHAIN, Run, listing, series, write

MADE = {
    "release": ["release", "d.csv", "--query", "count:active", "--epsilon", "1"],
    "flip": ["flip", "d.csv", "--epsilon", "3", "--out", "f.csv"],
    "redact": ["redact", "d.csv", "--private", "6", "--epsilon", "1", "--out", "o.csv"],
    "flow": ["flow", "d.csv", "--eta", "0.05", "--tau", "0.3"],
}
PLANNED = {
    "plan": ["plan", "m.json", "--query", "histogram", "--length", "20", "--epsilon", "1"],
    "flow": ["plan", "m.json", "--query", "flow", "--length", "20", "--eta", "0.05", "--tau", "0.3"],
    "flip": ["flip", "--model", "m.json", "--length", "20", "--epsilon", "3"],
    "redact": ["redact", "--model", "m.json", "--length", "20", "--private", "6", "--epsilon", "1"],
}
READ = ["--model", "m.json", "--column", "activity", "--order", "rows"]


@pytest.mark.parametrize("verb", ["release", "flip", pytest.param("redact", marks=pytest.mark.slow), "flow"])
def test_a_report_beside_a_release_is_verified(verb: str, run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "d.csv": series()})
    plain = run(*MADE[verb], *READ, "--seed", "1", "--json")
    found = run(*MADE[verb], *READ, "--seed", "1", "--json", "--report", "r.html", "--overwrite")
    assert (found.code, found.err) == (0, "")
    assert found.json.keys() == plain.json.keys()
    checked = run("verify", "r.html", "--json")
    assert (checked.code, checked.json["valid"]) == (0, True)
    assert "unsafe" in (folder / "r.html").read_text(encoding="utf-8")  # it has a seed, and the report says so


@pytest.mark.slow
@pytest.mark.parametrize("verb", PLANNED)
def test_a_report_of_a_plan(verb: str, run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN})
    found = run(*PLANNED[verb], "--report", "r.html")
    assert (found.code, found.err) == (0, "")
    assert "no data was read" in (folder / "r.html").read_text(encoding="utf-8")
    refused = run("verify", "r.html")
    assert refused.code == 2
    assert "no certificate" in refused.err


@pytest.mark.parametrize("place", ["r.txt", "no/r.html"])
@pytest.mark.parametrize("verb", MADE)
def test_nothing_is_released_where_the_report_cannot_be_kept(verb: str, place: str, run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "d.csv": series()})
    before = listing(folder)
    assert run(*MADE[verb], *READ, "--report", place).code == 2
    assert listing(folder) == before


def test_what_was_released_is_out_before_the_report(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release is charged and made once; a fault of the report must not lose it."""

    def fail(subject: object) -> str:
        raise ParameterError("the report failed")

    monkeypatch.setattr(html, "report_html", fail)
    write(folder, {"m.json": CHAIN, "d.csv": series()})
    found = run(*MADE["release"], *READ, "--json", "--report", "r.html")
    assert found.code != 0
    assert "answer" in found.json


def test_an_audit_has_a_report(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN})
    asked = ["audit", "m.json", "--mechanism", "laplace:count:active", "--length", "4", "--dp-epsilon", "1"]
    found = run(*asked, "--calls", "4000", "--report", "r.html")
    assert (found.code, found.err) == (0, "")
    assert "Audit: laplace:count:active" in (folder / "r.html").read_text(encoding="utf-8")
    assert run(*asked, "--report", "r.txt").code == 2


def test_a_fleet_has_no_report(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "d.csv": series()})
    found = run(*MADE["release"], "--column", "activity", "--models", "m", "--by", "person", "--report", "r.html")
    assert found.code == 2
    assert "--report goes with --model" in found.err
