"""Series of numbers on the command line: from fit to verify, and the heart rates of two people who meditate."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.apps.cli.conftest import Run, write

MODEL = {"type": "ar1", "coefficient": 0.9, "step": "1min"}
_noise = np.random.default_rng(8).normal(size=300)
_numbers = [sum(0.8 ** (n - m) * _noise[m] for m in range(max(0, n - 60), n + 1)) for n in range(300)]
ROWS = "time,bpm\n" + "".join(
    f"2024-05-01 {n // 60:02}:{n % 60:02},{'' if n % 50 == 7 else round(70 + 4 * x, 1)}\n"
    for n, x in enumerate(_numbers)
)
READ = ["--column", "bpm", "--order", "time", "--missing", "keep"]
ASK = ["--query", "mean", "--clip", "50", "90", "--epsilon", "1"]


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    write(folder, {"m.json": MODEL, "rows.csv": ROWS})


def test_from_fit_to_verify(run: Run) -> None:
    done = run("fit", "rows.csv", *READ, "--family", "ar1", "--confidence", ".95", "--out", "fitted.json", "--json")
    assert done.code == 0, done.err
    low, high = done.json["coefficient"]
    assert low < 0.8 < high < 0.9
    assert done.json["step"] == "1min"
    planned = run("plan", "fitted.json", *ASK, "--length", "294", "--json").json
    assert planned["best"] == "curve-ar1"
    made = run("release", "rows.csv", *READ, *ASK, "--model", "fitted.json", "--out", "out.json", "--json")
    assert made.code == 0, made.err
    certificate = made.json["certificate"]
    assert certificate["data"]["records"] == 294
    assert certificate["noise"]["scale"] == pytest.approx(planned["candidates"][0]["scale"])
    assert certificate["noise"]["scale"] == pytest.approx(40 / 294 * (1 + high) / (1 - high), rel=1e-3)
    assert run("verify", "out.json", "--json").json["valid"]


def test_leakage_and_its_figure(run: Run, folder: Path) -> None:
    found = run("leakage", "m.json", "--length", "1440", "--dp-epsilon", ".1", "--figure", "f.svg", "--json")
    assert found.code == 0, found.err
    assert found.json["best"] == "ar1"
    assert found.json["curves"]["ar1"] == pytest.approx(1.9)
    assert set(found.json["lines"]["curves"]) == {"general", "ar1"}
    spend = run("leakage", "m.json", "--length", "1440", "--target", "1", "--json").json
    assert spend["dp_epsilon"]["ar1"] == pytest.approx(1 / 19)


def test_a_plan_knows_what_a_ledger_has_left_for_clipped_sums(run: Run) -> None:
    run("ledger", "create", "l.db", "--dataset", "d", "--model", "m.json", "--budget", "2")
    charged = ["--ledger", "l.db", "--dataset", "d"]
    before = run("plan", "m.json", *ASK, "--length", "294", *charged, "--json").json["ledger"]
    assert before["left_dp"] == pytest.approx(2 / 19)
    assert run("release", "rows.csv", *READ, *ASK, "--model", "m.json", *charged).code == 0
    after = run("plan", "m.json", *ASK[:-2], "--length", "294", *charged, "--json").json["ledger"]
    assert after["left_dp"] == pytest.approx(1 / 19)
    assert after["left_epsilon"] == pytest.approx(1, rel=1e-3)
    assert "curve-ar1" in after["fits"]


@pytest.mark.slow
def test_an_audit_comes_close(run: Run) -> None:
    asked = ["--dp-epsilon", "1", "--length", "5", "--clip", "40", "180", "--seed", "1", "--json"]
    done = run("audit", "m.json", "--mechanism", "laplace:sum", *asked)
    assert done.code == 0, done.err
    assert 3.9 < done.json["lower"] <= done.json["upper"]
    assert done.json["upper"] == pytest.approx(1 + 2 * (0.9 + 0.81))


@pytest.mark.skipif("PUFFERDP_DATA" not in os.environ, reason="needs the heart rates of PhysioNet's meditation study")
@pytest.mark.parametrize(("person", "low", "high"), [("N10", 0.93, 0.96)])
def test_beats_of_people_who_meditate(person: str, low: float, high: float, run: Run, folder: Path) -> None:
    """One line a beat: the step is a beat, and the column of seconds says nothing of it."""
    lines = (Path(os.environ["PUFFERDP_DATA"]) / "heart" / f"{person}.txt").read_text().split("\n")
    beats = [line.split()[1] for line in lines if line.strip()]
    (folder / "beats.csv").write_text("bpm\n" + "\n".join(beats) + "\n")
    found = run(
        "fit", "beats.csv", "--column", "bpm", "--family", "ar1", "--confidence", ".99", "--out", "b.json", "--json"
    )
    assert found.code == 0, found.err
    assert low < found.json["coefficient"][0] < found.json["coefficient"][1] < high
    asked = ["--column", "bpm", "--query", "mean", "--clip", "30", "130", "--epsilon", "1", "--json"]
    made = run("release", "beats.csv", "--model", "b.json", *asked)
    assert made.code == 0, made.err
    assert made.json["certificate"]["accuracy"]["alpha"] < 1.0
