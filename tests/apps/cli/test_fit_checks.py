"""``fit`` at a terminal: its checks are shown and stay out of the model file; numbers and times are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.apps.cli.conftest import Run
from tests.apps.cli.test_output import write


@pytest.fixture
def data(folder: Path) -> Path:
    rows = [f"2024-01-{1 + n // 24:02d} {n % 24:02d}:00:00,{'ab'[n * n % 7 % 2]},{n * n % 97}" for n in range(480)]
    write(folder, {"d.csv": "time,x,n\n" + "\n".join(rows) + "\n"})
    return folder


def test_checks_are_shown_drawn_and_not_in_the_model(run: Run, data: Path) -> None:
    result = run("fit", "d.csv", "--column", "x", "--order", "time", "--out", "m.json", "--figure", "c.svg")
    assert result.code == 0
    assert "goodness of fit" in result.out
    assert "p-value" in result.out
    assert "tests" not in json.loads((data / "m.json").read_text())
    assert "<svg" in (data / "c.svg").read_text()
    private = run("fit", "d.csv", "--column", "x", "--states", "a,b", "--dp-epsilon", "1", "--figure", "p.svg")
    assert (private.code, (data / "p.svg").exists()) == (2, False)
    assert "--no-checks" in private.err


def test_json_has_them_beside_the_model(run: Run, data: Path) -> None:
    result = run("fit", "d.csv", "--column", "x", "--order", "time", "--json")
    assert [check["name"] for check in result.json["tests"]] == ["second-order", "clock", "drift"]
    assert "tests" not in run("fit", "d.csv", "--column", "x", "--order", "time", "--json", "--no-checks").json


@pytest.mark.slow
def test_numbers_and_times_are_refused_with_the_way_out(run: Run, data: Path) -> None:
    numbers = run("fit", "d.csv", "--column", "n", "--order", "time")
    assert numbers.code == 2
    bins = numbers.err.partition("--bins ")[2].split()[0]
    assert run("fit", "d.csv", "--column", "n", "--order", "time", "--bins", bins).code == 0
    assert run("fit", "d.csv", "--column", "n", "--order", "time", "--as-states").code == 0
    times = run("fit", "d.csv", "--column", "time")
    assert (times.code, "holds times" in times.err) == (2, True)


def test_one_row_off_the_step_is_told(run: Run, data: Path) -> None:
    """The model had no step then, and nothing said so."""
    rows = (data / "d.csv").read_text()
    assert "no step" not in run("fit", "d.csv", "--column", "x", "--order", "time").out
    (data / "off.csv").write_text(rows.replace("2024-01-03 05:00:00", "2024-01-03 05:01:00"))
    told = " ".join(run("fit", "off.csv", "--column", "x", "--order", "time").out.split())
    assert "The model has no step: 2 distances between records are no whole number of the usual one, 1h." in told


@pytest.mark.slow
def test_advice_names_options(run: Run, data: Path) -> None:
    hours = [f"2024-01-{1 + n // 24:02d} {n % 24:02d}:00:00,{'ab'[n % 24 > 12]}" for n in range(480)]
    (data / "hours.csv").write_text("time,x\n" + "\n".join(hours) + "\n")
    shown = " ".join(run("fit", "hours.csv", "--column", "x", "--order", "time").out.split())
    assert "fit --clock hour, or hidden states by hour, fit --family hidden --clock hour." in shown
    checks = run("fit", "hours.csv", "--column", "x", "--order", "time", "--json").json["tests"]
    advice = [check["advice"] for check in checks if check["holds"] is False]
    assert any(words.endswith("fit --family hidden --clock hour") for words in advice)
    assert not any("fit(" in words for words in advice)
