"""Real-valued records on the command line: both model files, from leakage to verify, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.apps.cli.conftest import Run, write

GAUSSIAN: dict[str, Any] = {
    "type": "gaussian",
    "mean": [69, 64, 67],
    "covariance": [[9, 0.666, 2.475], [0.666, 9, 1.818], [2.475, 1.818, 9]],
    "records": ["father", "mother", "child"],
}
LIMITED: dict[str, Any] = {"type": "limited_correlation", "records": 3, "rho": 0.275}
ROWS = "house,who,height\n1,father,78.5\n1,mother,67\n1,child,73.2\n2,child,65.5\n2,father,75.5\n2,mother,66.5\n"
FILES = {"g.json": GAUSSIAN, "l.json": LIMITED, "rows.csv": ROWS, "part.csv": ROWS.rsplit("\n", 2)[0] + "\n"}
SUM = "--column height --query sum --clip 60 80 --epsilon 1 --mechanism group --json"


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    """Both models and a table of two families, whole and with the last row cut off."""
    write(folder, FILES)


def test_leakage_of_both_models(run: Run) -> None:
    found = run("leakage", "g.json", "--dp-epsilon", "2", "--json").json
    values = {name: value for name, value in found["curves"].items() if value is not None}
    known = {"general": 6, "gaussian": 2 * 1.8534483, "gaussian-class": 3.1, "gaussian-exact": 2.954}
    assert values == pytest.approx(known)
    assert found["best"] == "gaussian-exact"
    assert found["holds_for"].startswith("sums and means clipped to [a, b]")
    spend = run("leakage", "l.json", "--target", "1", "--json").json
    assert spend["dp_epsilon"]["gaussian-class"] == pytest.approx(1 / 1.55)
    assert spend["best"] == "gaussian-class"


def test_every_curve_has_a_line_in_the_figure(run: Run, folder: Path) -> None:
    found = run("leakage", "g.json", "--dp-epsilon", "1", "--figure", "curves.svg", "--json")
    assert found.code == 0, found.err
    assert set(found.json["lines"]["curves"]) == {"general", "gaussian", "gaussian-class", "gaussian-exact"}
    assert (folder / "curves.svg").stat().st_size > 1000


def test_from_release_to_verify(run: Run) -> None:
    for options in ("--model g.json --by house --id who", "--model l.json --by house"):
        done = run("release", "rows.csv", *options.split(), *SUM.split(), "--out", "out.json", "--overwrite")
        assert done.code == 0, done.err
        assert done.json["certificate"]["noise"]["scale"] == pytest.approx(60)
        assert "differ by at most 20" in done.json["certificate"]["guarantee"]["statement"]
        assert run("verify", "out.json", "--json").json["valid"]


def test_plans_over_families(run: Run) -> None:
    asked = ["--query", "mean", "--clip", "60", "80", "--epsilon", "1", "--json", "--lengths", "3,3"]
    for model in ("g.json", "l.json"):
        found = run("plan", model, *asked).json
        assert found["records"] == 6
        candidates = {c["mechanism"]: c for c in found["candidates"]}
        assert candidates["group"]["scale"] == pytest.approx(10)
        assert not candidates["per-record-dp"]["applies"]
        for name in ("gk16", "wasserstein", "quilt-approx", "quilt-exact"):
            assert candidates[name]["reason"]


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (f"release rows.csv --model g.json --by house {SUM}", 2, "id is missing"),
        ("release rows.csv --model l.json --column height --by house --query mean --epsilon 1", 2, "--clip A B"),
        ("leakage g.json --dp-epsilon 1 --length 3", 2, "leave the length out"),
        ("leakage g.json --dp-epsilon 1 --query sum", 2, "leave --query out"),
        (f"release rows.csv --model l.json --by house {SUM.replace('group', 'wasserstein')}", 3, "does not apply"),
    ],
)
def test_what_is_refused(run: Run, line: str, code: int, words: str) -> None:
    found = run(*line.split())
    assert found.code == code
    assert found.out == ""
    assert words in found.err
    assert found.err.count("\n") == 1
