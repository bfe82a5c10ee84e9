"""``--from`` and ``--to``: one day of a longer file, by every verb that reads a series."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tests.apps.cli.conftest import CHAIN, Run, write
from tests.apps.cli.test_bad_input import check_sentence
from tests.tolerance import SEARCHED

LINES = [
    f"2024-05-0{day} {hour:02}:00:00,{state if day == 2 else 'broken'}"
    for day in (1, 2, 3)
    for hour, state in enumerate(["rest", "rest", "active"] * 8)
]
READ = ["--column", "activity", "--order", "time"]
DAY = ["--from", "2024-05-02", "--to", "2024-05-02"]
RELEASE = ["release", "d.csv", "--model", "m.json", *READ, "--query", "histogram", "--epsilon", "1"]


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "d.csv": "time,activity\n" + "\n".join(LINES) + "\n"})


def test_a_day_is_released_and_verified(run: Run) -> None:
    result = run(*RELEASE, *DAY, "--json", "--out", "r.json")
    assert (result.code, result.err) == (0, "")
    data = result.json["certificate"]["data"]
    assert (data["records"], data["part"]) == (24, True)
    assert data["ranges"]["parts"] == [{"from": "2024-05-02T00:00:00", "to": "2024-05-02T23:00:00", "by": None}]
    assert run("verify", "r.json").code == 0


def test_a_day_is_charged(run: Run) -> None:
    assert run("ledger", "create", "books.db", "--dataset", "d", "--model", "m.json", "--budget", "2").code == 0
    result = run(*RELEASE, *DAY, "--ledger", "books.db", "--dataset", "d", "--json", "--out", "r.json")
    assert result.code == 0
    head = result.json["certificate"]["ledger"]["head"]
    assert run("verify", "r.json", "--head", head).code == 0
    assert run("ledger", "verify", "books.db", "--head", head).code == 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], "'broken' at time 2024-05-01 00:00:00 is not a state"),
        (["--from", "2025-01-01"], "there is no record with 'time' from 2025-01-01"),
        (["--from", "yesterday"], "'yesterday' is not a date or a time"),
        (["--from", "2024-05-03", "--to", "2024-05-02"], "its first place must come first"),
    ],
)
def test_refusals(more: list[str], words: str, run: Run) -> None:
    result = run(*RELEASE, *more)
    assert result.code == 2
    assert words in result.err
    check_sentence(result, (words,))


def test_no_segment_without_an_order(run: Run) -> None:
    result = run(
        "release", "d.csv", "--model", "m.json", "--column", "activity", "--query", "histogram", "--epsilon", "1", *DAY
    )
    assert result.code == 2
    assert "name the column that says when, with --order" in result.err


def test_a_flipped_day_and_a_stream(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flip = ["--model", "m.json", *READ, "--epsilon", "2", *DAY]
    assert run("flip", "d.csv", *flip, "--out", "o.csv", "--certificate", "c.json").code == 0
    written = (folder / "o.csv").read_text().splitlines()
    assert [line[:10] for line in written[1:]] == ["2024-05-02"] * 24
    assert run("verify", "c.json").code == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((folder / "d.csv").read_bytes())))
    result = run("flip", "-", *flip, "--certificate", "s.json")
    assert result.code == 0
    assert run("verify", "s.json").code == 0
    assert json.loads((folder / "s.json").read_text())["data"]["records"] == 24


def test_a_flow_and_a_fit_of_a_day(run: Run) -> None:
    flow = run("flow", "d.csv", "--model", "m.json", *READ, "--eta", ".01", "--tau", ".2", *DAY, "--json")
    assert flow.json["certificate"]["data"]["part"] is True
    fit = run("fit", "d.csv", *READ, *DAY, "--json")
    assert fit.json["states"] == ["active", "rest"]


def test_a_redaction_of_a_day_is_refused_with_the_way_out(run: Run) -> None:
    result = run(
        "redact", "d.csv", "--model", "m.json", *READ, "--private", "30", "--epsilon", "1", "--out", "o.csv", *DAY
    )
    assert result.code == 3
    assert "redact the whole series, and keep the rows of the segment" in result.err


def test_a_plan_of_a_part(run: Run) -> None:
    options = ["plan", "m.json", "--query", "count:rest", "--length", "24", "--epsilon", "1", "--json"]
    part, alone = run(*options, "--part").json, run(*options).json
    assert part["part"] is True
    assert "part" not in alone
    assert part["best"] == "curve-tight"
    scale = {c["mechanism"]: c["scale"] for c in part["candidates"]}
    assert scale["exact-laplace"] is None
    shorter = {c["mechanism"]: c["scale"] for c in alone["candidates"]}["curve-tight"]
    assert scale["curve-tight"] >= shorter * (1 - SEARCHED)


WITH_TIMES = {
    "fit": ("fit", "x.csv", "--column", "x"),
    "release": ("release", "x.csv", "--model", "m.json", "--column", "x", "--query", "histogram", "--epsilon", "1"),
    "flip": ("flip", "x.csv", "--model", "m.json", "--column", "x", "--epsilon", "1", "--out", "out.csv"),
    "flow": ("flow", "x.csv", "--model", "m.json", "--column", "x", "--eta", ".01", "--tau", ".5"),
    "redact": (
        *("redact", "x.csv", "--model", "m.json", "--column", "x", "--private", "2", "--epsilon", "2"),
        *("--out", "out.csv"),
    ),
    "attack": ("attack", "x.csv", "--model", "m.json", "--column", "x", "--rho", ".1"),
}


@pytest.mark.parametrize("verb", WITH_TIMES)
def test_a_file_with_times_needs_an_order(run: Run, folder: Path, verb: str) -> None:
    rows = "".join(f"2024-01-01 {n:02d}:00,{'ab'[n * n % 7 % 2]}\n" for n in range(24))
    write(folder, {"x.csv": f"time,x\n{rows}"})
    write(folder, {"m.json": {"type": "markov_chain", "states": ["a", "b"], "transition": [[0.6, 0.4], [0.4, 0.6]]}})
    refused = run(*WITH_TIMES[verb])
    assert refused.code == 2
    for words in ("the column 'time' holds times", "--order time", "--rows-in-order"):
        assert words in refused.err
    both = run(*WITH_TIMES[verb], "--order", "time", "--rows-in-order")
    assert (both.code, "--order time and --rows-in-order are both given" in both.err) == (2, True)
    assert not (folder / "out.csv").exists()
    for order in (("--order", "time"), ("--rows-in-order",)):
        assert run(*WITH_TIMES[verb], *order, *(["--overwrite"] if "--out" in WITH_TIMES[verb] else [])).code == 0
