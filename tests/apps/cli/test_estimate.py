"""``pufferdp estimate``: from flipped files and certificates to tables, JSON, a figure and the series."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.apps.cli.conftest import CHAIN, Run, listing, series, write

FLIP = ["flip", "d.csv", "--model", "m.json", "--column", "activity", "--order", "time", "--epsilon", "3"]


@pytest.fixture
def devices(run: Run, folder: Path) -> list[str]:
    """Two devices in the working folder, and the words that name them."""
    write(folder, {"m.json": CHAIN, "d.csv": series(["rest", "active", "rest", "rest"] * 25)})
    for name in ("a", "b"):
        made = run(
            *FLIP, "--out", f"{name}.csv", "--certificate", f"{name}.json", "--seed", "1" if name == "a" else "2"
        )
        assert made.code == 0, made.err
    return ["estimate", "a.csv", "b.csv", "--certificate", "a.json", "--certificate", "b.json"]


def test_devices_are_estimated_together(devices: list[str], run: Run, folder: Path) -> None:
    done = run(*devices, "--out", "e.json", "--series", "s.csv")
    assert (done.code, done.err) == (0, "")
    assert "200 records of 2 series" in done.out
    assert "it costs no budget" in " ".join(done.out.split())
    assert all(len(line) <= 100 for line in done.out.splitlines())
    content = json.loads((folder / "e.json").read_text())
    assert (content["records"], content["devices"], content["labels"]) == (200, 2, ["rest", "active"])
    low, value, high = (content["frequencies"][name][0] for name in ("low", "value", "high"))
    assert 0 <= low <= value <= high <= 1
    with (folder / "s.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert list(rows[0]) == ["device", "time", "row", "published", "likeliest", "path", "P(rest)", "P(active)"]
    assert [row["device"] for row in rows] == ["a.csv"] * 100 + ["b.csv"] * 100
    shown = run(*devices, "--json").json
    assert shown == content


@pytest.mark.slow
def test_a_figure_is_drawn(devices: list[str], run: Run, folder: Path) -> None:
    assert run(*devices, "--figure", "f.png").code == 0
    assert (folder / "f.png").read_bytes().startswith(b"\x89PNG")


def test_refusals(devices: list[str], run: Run, folder: Path) -> None:
    forged = json.loads((folder / "a.json").read_text())
    forged["channel"]["matrix"] = [[0.9, 0.1], [0.1, 0.9]]
    write(folder, {"x.json": forged})
    before = listing(folder)
    alone = ["estimate", "a.csv", "--certificate"]
    for words, code, said in (
        (devices[:-2], 2, "2 series and 1 certificates"),
        ([*alone, "x.json"], 2, "certificate 'x.json' does not hold, and nothing is estimated from it"),
        ([*alone, "m.json"], 2, "is not a certificate"),
        ([*alone, "nowhere.json"], 2, "does not exist"),
        ([*alone, "a.json", "--model", "m.json"], 2, "--model is for the series"),
        ([*alone, "a.json", "--series", "s.parquet"], 2, "it must end in .csv"),
        ([*alone, "a.json", "--confidence", "95"], 2, "confidence is 95"),
        ([*alone, "a.json", "--series", "a.csv"], 2, "a.csv"),
        (["estimate", "a.csv", "a.csv", "--certificate", "a.json", "--certificate", "a.json"], 2, "are the same"),
    ):
        result = run(*words)
        assert (result.code, result.out) == (code, ""), words
        assert said in result.err
        assert result.err.count("\n") == 1
    assert listing(folder) == before
