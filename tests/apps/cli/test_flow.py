"""``pufferdp flow`` and ``plan --query flow``: the keys others rely on, refusals, and never the exact flow."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pufferdp.publish import noise
from tests.apps.cli.conftest import CHAIN, Run, listing, write
from tests.apps.cli.test_bad_input import check_sentence

ACTIVITY = "activity\n" + "rest\nrest\nactive\n" * 40
FLOW = ["flow", "d.csv", "--model", "m.json", "--column", "activity", "--eta", ".01", "--tau", ".1"]
PLAN = ["plan", "m.json", "--query", "flow", "--length", "120"]
POSTER = {
    "type": "markov_chain",
    "transition": [[0.475 if x == y else 0.175 for y in range(4)] for x in range(4)],
}


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "d.csv": ACTIVITY, "poster.json": POSTER})


@pytest.mark.slow
@pytest.mark.parametrize("privacy", ["joint"])
def test_a_flow_is_released_kept_and_verified(privacy: str, run: Run, folder: Path) -> None:
    result = run(*FLOW, "--privacy", privacy, "--json", "--out", "f.json", "--figure", "f.svg")
    assert (result.code, result.err) == (0, "")
    assert {"sigma", "dobrushin", "flow", "certificate"} <= set(result.json)
    found = np.array(result.json["flow"])
    assert found.shape == (2, 2)
    assert (found >= 0).all()
    assert abs(found.sum() - 1) < 1e-15 * 4
    assert json.loads((folder / "f.json").read_text()) == result.json
    assert (folder / "f.svg").stat().st_size > 1000
    checked = run("verify", "f.json")
    assert (checked.code, checked.err) == (0, "")
    assert "total variation of at most 0.1" in " ".join(checked.out.split())
    said = run(*FLOW, "--privacy", privacy)
    assert all(len(line) <= 100 for line in said.out.splitlines())
    assert "Not guaranteed" in said.out


def test_the_numbers_of_the_notes(run: Run) -> None:
    usual = ["plan", "poster.json", "--query", "flow", "--length", "5001", "--eta", ".01", "--tau", ".1", "--json"]
    sigmas = {c["mechanism"]: c["sigma"] for c in run(*usual).json["candidates"]}
    assert sigmas["flow-simplex"] == sigmas["flow-log"] == pytest.approx(0.137017, abs=5e-7)
    assert sigmas["poster-simplex"] == sigmas["poster-log"] == pytest.approx(0.465053, abs=5e-7)
    added = {c["mechanism"]: c for c in run(*usual, "--sum", "--centre-only").json["candidates"]}
    assert added["flow-log"]["sigma"] == pytest.approx(0.139758, abs=5e-7)
    assert all(c["noise"] == "gaussian" for c in added.values())


def test_several_chains_are_planned(run: Run) -> None:
    result = run(*PLAN[:-2], "--lengths", "60,60,1", "--eta", ".01", "--tau", ".1", "--json").json
    assert (result["records"], result["transitions"]) == (121, 118)


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ([*PLAN], 2, ("--eta", "--tau")),
        ([*PLAN, "--eta", ".1"], 2, ("--tau",)),
        ([*PLAN, "--eta", ".1", "--tau", ".1", "--epsilon", "1"], 2, ("--tau", "--epsilon")),
        ([*PLAN, "--eta", "x", "--tau", ".1"], 2, ("eta is 'x'",)),
        ([*PLAN, "--eta", ".1", "--tau", ".1", "--figure", "p.gif"], 2, (".png",)),
        (["plan", "m.json", "--query", "histogram", "--length", "9"], 2, ("--epsilon",)),
        (["plan", "m.json", "--query", "sum", "--length", "9", "--epsilon", "1", "--tau", ".1"], 2, ("--query flow",)),
        ([*FLOW, "--out", "no/f.json"], 2, ("no",)),
        (["release", "d.csv", "--model", "m.json", "--column", "activity", "--query", "flow", "--epsilon", "1"], 2,
         ("pufferdp flow",)),
    ],
)  # fmt: skip
def test_refusals(args: list[str], code: int, words: tuple[str, ...], run: Run, folder: Path) -> None:
    before = listing(folder)
    result = run(*args)
    assert result.code == code
    check_sentence(result, words)
    assert listing(folder) == before


def test_a_chain_that_never_forgets_is_refused(run: Run, folder: Path) -> None:
    write(folder, {"m.json": {**CHAIN, "transition": [[1, 0], [0, 1]]}})
    result = run(*FLOW)
    assert result.code == 3
    check_sentence(result, ("Dobrushin coefficient of 1", "rows overlap"))


def test_a_failing_sampler_shows_nothing(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pufferdp

    def fail(self: object, exact: list[float], scale: float) -> list[float]:
        raise pufferdp.ParameterError("the sampler failed")

    monkeypatch.setattr(noise.SystemSampler, "gaussian", fail)
    result = run(*FLOW, "--out", "f.json", "--json")
    assert (result.code, result.out, result.err) == (2, "", "pufferdp: the sampler failed\n")
    assert not (folder / "f.json").exists()


def test_a_flow_is_charged_to_a_budget_of_its_own_kind(run: Run, folder: Path) -> None:
    create = ["ledger", "create", "l.db", "--dataset"]
    made = run(*create, "f", "--model", "m.json", "--tau", ".15", "--eta", ".01", "--json")
    assert made.code == 0, made.err
    guarantee = {"kind": "total-variation", "tau": 0.15, "eta": 0.01, "privacy": "joint", "kernels": "orbit"}
    assert made.json["budget"] == guarantee
    assert run(*create, "e", "--model", "m.json", "--budget", "2").code == 0
    charged = [*FLOW, "--ledger", "l.db", "--dataset", "f"]
    done = run(*charged, "--out", "f.json")
    assert done.code == 0, done.err
    assert "All flows from data set 'f' together keep a total variation of 0.1 of 0.15; 0.05 is left." in done.out
    head = json.loads((folder / "f.json").read_text())["certificate"]["ledger"]["head"]
    assert run("verify", "f.json", "--head", head).code == 0
    assert run("verify", "f.json", "--head", "0" * 64).code == 3
    before = listing(folder)
    again = run(*charged, "--out", "g.json", "--figure", "g.svg")
    assert (again.code, again.out) == (3, "")
    assert "0.05 is left; this flow needs 0.1: release it with --tau 0.05" in again.err
    other = run(*FLOW, "--ledger", "l.db", "--dataset", "e")
    assert other.code == 3 and "made with --tau" in other.err
    release = ["release", *FLOW[1:6], "--query", "histogram", "--epsilon", "1", "--ledger", "l.db", "--dataset", "f"]
    other = run(*release)
    assert other.code == 3 and "made with --budget" in other.err
    assert listing(folder) == before
    shown = run("ledger", "show", "l.db", "--dataset", "f")
    assert "budget             0.15" in shown.out
    found = run("ledger", "show", "l.db", "--dataset", "f", "--json").json
    assert (found["spent_tau"], found["left_tau"], found["releases"]) == (0.1, 0.05, 1)
    both = run("ledger", "show", "l.db")
    assert "tau 0.1" in both.out and all(len(line) <= 100 for line in both.out.splitlines())
    assert run("ledger", "verify", "l.db", "--head", head).code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "give either --budget"),
        (["--budget", "1", "--tau", ".1"], "give either --budget"),
        (["--tau", ".1"], "eta is missing"),
        (["--budget", "1", "--eta", ".1"], "go with --tau"),
        (["--tau", ".1", "--eta", ".1", "--adversary", "dp"], "flows have none"),
    ],
)
def test_budgets_that_make_no_sense_make_no_ledger(words: list[str], sentence: str, run: Run, folder: Path) -> None:
    before = listing(folder)
    done = run("ledger", "create", "l.db", "--dataset", "f", "--model", "m.json", *words)
    assert done.code == 2
    assert sentence in done.err
    assert listing(folder) == before


def test_a_plan_has_a_figure(run: Run, folder: Path) -> None:
    write(folder, {"m.json": CHAIN})
    assert run(*PLAN, "--eta", ".1", "--tau", ".1", "--figure", "p.svg").code == 0
    assert "poster-simplex" in (folder / "p.svg").read_text(encoding="utf-8")
