"""``pufferdp check``: one line for people, the model with its checks, and a release that stops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.apps.cli.conftest import CHAIN, Run, write
from tests.apps.cli.test_bad_input import check_sentence
from tests.publish.fits.test_check import NAMES, STAYS
from tests.publish.fits.test_effective_leakage import simulate

READ = ["--column", "state", "--order", "minute"]
COMMAND = ["check", "model.json", "stays.csv", *READ]


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    codes = simulate(STAYS, 20_000, 2)
    lines = [f"{n},{NAMES[code]}" for n, code in enumerate(codes)]
    (folder / "stays.csv").write_text("\n".join(["minute,state", *lines]), encoding="utf-8")
    shown = (codes >= 2).astype(int)
    moves = np.zeros((2, 2))
    np.add.at(moves, (shown[:-1], shown[1:]), 1)
    table = (moves / moves.sum(axis=1, keepdims=True)).tolist()
    write(folder, {"model.json": {**CHAIN, "transition": table, "states": ["off", "on"]}})


def test_a_model_that_the_data_contradict(run: Run, folder: Path) -> None:
    result = run(*COMMAND, "--query", "count:off", "--out", "checked.json", "--figure", "windows.svg")
    assert result.code == 0
    assert "Guarantee e^1 under this model. On held-out data" in " ".join(result.out.split())
    assert "Rejected" in result.out
    assert "raw data without noise" in " ".join(result.out.split())
    assert (folder / "windows.svg").exists()
    ask = ["release", "stays.csv", "--model", "checked.json", *READ, "--query", "count:off", "--epsilon", "1"]
    refused = run(*ask)
    assert refused.code == 3
    assert refused.out == ""
    for way in ("--family auto", "check --calibrate data", "--unit day", "--accept-misfit"):
        assert way in refused.err
    made = run(*ask, "--accept-misfit", "--out", "made.json")
    assert made.code == 0
    assert "contradict the model, which was accepted" in " ".join(made.out.split())
    assert run("verify", "made.json", "--model", "checked.json").code == 0
    assert run("verify", "made.json", "--model", "model.json").code == 3
    planned = run("plan", "checked.json", "--query", "count:off", "--length", "500", "--epsilon", "1")
    assert planned.code == 0
    assert "proven at least" in " ".join(planned.out.split())


def test_json_has_the_checks_and_the_model(run: Run) -> None:
    result = run(*COMMAND, "--query", "count:off", "--json")
    assert result.code == 0
    assert result.json["rejected"] is True
    assert result.json["model"]["checks"] == result.json["checks"]
    assert set(result.json["checks"]) == {"effective_leakage"}


def test_bad_options(run: Run) -> None:
    check_sentence(run(*COMMAND, "--query", "sum"), ("count:off",))
    check_sentence(run(*COMMAND, "--calibrate", "model"), ("calibrate is 'model'",))
