"""Releases that are charged: before their noise is drawn, with the row in the certificate."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from pufferdp import (
    AnyGroups,
    BudgetError,
    DataError,
    Groups,
    Ledger,
    LedgerError,
    LimitedCorrelation,
    MarkovChain,
    ParameterError,
    RefusedError,
    release,
    verify,
)
from pufferdp.publish.noise import SeededSampler
from tests.ledger.rows import assert_other_rows_are_found_out
from tests.tolerance import safe_loss

CHAIN = MarkovChain(transition=[[0.7, 0.3], [0.4, 0.6]], states=["rest", "active"])
FRAME = pd.DataFrame({"state": ["rest", "active", "active", "rest", "rest", "active", "rest", "rest"] * 10})
ASKED = {"model": CHAIN, "column": "state", "query": "histogram"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "books.db"
    with Ledger(made, create=True) as ledger:
        ledger.create("week", model=CHAIN, adversary="bdp", budget=2.0)
    return made


def total(path: Path, name: str = "week") -> float:
    with Ledger(path) as ledger:
        found = ledger.dataset(name).leakage
    assert found is not None
    return found


def test_the_certificate_names_the_row(path: Path) -> None:
    first = release(FRAME, **ASKED, epsilon=0.5, ledger=path, dataset="week").certificate
    second = release(FRAME, **ASKED, epsilon=0.4, ledger=str(path), dataset="week").certificate
    assert first.ledger is not None and second.ledger is not None
    assert (first.ledger.position, second.ledger.position) == (1, 2)
    assert second.ledger.previous == first.ledger.head
    for certificate in (first, second):
        assert verify(certificate).valid
        assert verify(certificate, head=certificate.ledger.head).valid
        assert not verify(certificate, head="0" * 64).valid
        with Ledger(path) as ledger:
            assert ledger.verify(certificate.ledger.head).valid
    plain = release(FRAME, **ASKED, epsilon=0.5).certificate
    assert plain.ledger is None
    assert not verify(plain, head=first.ledger.head).valid


def test_a_row_of_another_release_is_found_out(path: Path) -> None:
    raw = release(FRAME, **ASKED, epsilon=0.5, ledger=path, dataset="week").certificate.to_dict()
    other = release(FRAME, **ASKED, epsilon=0.3, ledger=path, dataset="week").certificate.to_dict()
    assert_other_rows_are_found_out(raw, other)


def test_releases_add_up_to_less_than_their_guarantees(path: Path) -> None:
    for _ in range(3):
        release(FRAME, **ASKED, epsilon=0.5, ledger=path, dataset="week")
    assert 0.5 < total(path) <= 1.5


def test_over_budget_says_what_would_fit_and_it_does(path: Path) -> None:
    release(FRAME, **ASKED, epsilon=1.5, ledger=path, dataset="week")
    with pytest.raises(BudgetError) as caught:
        release(FRAME, **ASKED, epsilon=1.5, ledger=path, dataset="week")
    said = str(caught.value)
    found = re.search(r"noise of scale (\S+) would fit, as with epsilon=(\S+), mechanism='([^']+)'", said)
    assert found, said
    scale, epsilon, mechanism = float(found[1]), float(found[2]), found[3]
    done = release(FRAME, **ASKED, epsilon=epsilon, mechanism=mechanism, ledger=path, dataset="week")
    assert done.certificate.noise.scale == pytest.approx(scale, rel=2e-3)
    assert total(path) <= 2.0


def test_nothing_is_charged_when_a_release_is_refused_or_wrong(path: Path) -> None:
    with pytest.raises(DataError, match="is missing in"):
        release(pd.DataFrame({"state": ["rest", None]}), **ASKED, epsilon=0.5, ledger=path, dataset="week")
    with pytest.raises(RefusedError, match="does not apply"):
        release(FRAME, **ASKED, epsilon=0.5, mechanism="per-record-dp", ledger=path, dataset="week")
    with pytest.raises(RefusedError, match="adversary='bdp'"):
        release("no such file.csv", **ASKED, epsilon=0.5, adversary="dp", ledger=path, dataset="week")
    other = MarkovChain(transition=[[0.6, 0.4], [0.4, 0.6]], states=["rest", "active"])
    with pytest.raises(RefusedError, match="a total is for one model"):
        release("no such file.csv", **{**ASKED, "model": other}, epsilon=0.5, ledger=path, dataset="week")
    with pytest.raises(LedgerError, match="no data set 'month'"):
        release("no such file.csv", **ASKED, epsilon=0.5, ledger=path, dataset="month")
    with pytest.raises(ParameterError, match="dataset is missing"):
        release(FRAME, **ASKED, epsilon=0.5, ledger=path)
    with pytest.raises(ParameterError, match="there is no ledger"):
        release(FRAME, **ASKED, epsilon=0.5, dataset="week")
    assert total(path) == 0.0


def test_the_charge_is_there_before_the_noise(path: Path) -> None:
    """A sampler that fails stands for a crash: the answer is lost, the charge is not."""

    class Crash(SeededSampler):
        def discrete_laplace(self, exact, scale):
            with Ledger(path) as ledger:
                assert ledger.dataset("week").releases == 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        release(FRAME, **ASKED, epsilon=0.5, sampler=Crash(1), ledger=path, dataset="week")
    assert total(path) == safe_loss(0.5)


def test_an_exact_answer_uses_up_its_data_set(tmp_path: Path) -> None:
    model = Groups(sizes=[2], positives=[[0.0, 1.0, 0.0]])
    frame = pd.DataFrame({"ill": [0, 1]})
    asked = {"model": model, "column": "ill", "query": "count:1", "epsilon": 0.5, "adversary": "pufferfish"}
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("pair", model=model, adversary="pufferfish", budget=2.0)
        done = release(frame, **asked, ledger=ledger, dataset="pair")
        assert done.answer == 1 and verify(done.certificate).valid
        assert ledger.dataset("pair").leakage == 0.5
        with pytest.raises(BudgetError, match="used up"):
            release(frame, **asked, ledger=ledger, dataset="pair")
        assert ledger.verify().valid


@pytest.mark.parametrize(
    ("model", "frame", "asked"),
    [
        (AnyGroups(largest=2), pd.DataFrame({"x": [0, 1, 1, 0], "g": [1, 1, 2, 2]}), {"query": "count:1", "by": "g"}),
        (
            LimitedCorrelation(records=2, rho=0.2),
            pd.DataFrame({"x": [60.5, 70.0, 66.0], "g": [1, 1, 2]}),
            {"query": "mean", "clip": (60, 80), "by": "g"},
        ),
        (
            CHAIN,
            pd.DataFrame({"x": ["rest"] * 6 + ["active"] * 3, "g": [1] * 5 + [2] * 4}),
            {"query": "frequency", "by": "g", "independent": True},
        ),
    ],
)
def test_every_kind_of_model_is_recomputed(tmp_path: Path, model, frame, asked) -> None:
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("set", model=model, budget=3.0)
        for epsilon in (0.5, 0.25, 0.25):
            done = release(frame, model=model, column="x", **asked, epsilon=epsilon, ledger=ledger, dataset="set")
            assert verify(done.certificate).valid
        found = ledger.verify()
        assert found.valid, found.problems
        assert (found.releases, found.recomputed, found.unchecked) == (3, 2, ())
        assert ledger.dataset("set").leakage <= 1.0 + 1e-12


def test_exact_numbers_never_reach_the_ledger(tmp_path: Path) -> None:
    """The numbers of the data do not occur in the file, in the export or in a refusal."""
    model = AnyGroups(largest=1)
    frame = pd.DataFrame({"x": [1] * 7919 + [0] * 81})
    with Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("set", model=model, budget=0.001)
        release(frame, model=model, column="x", query="count:1", epsilon=0.001, ledger=ledger, dataset="set")
        with pytest.raises(BudgetError) as caught:
            release(frame, model=model, column="x", query="count:1", epsilon=0.001, ledger=ledger, dataset="set")
    assert "7919" not in str(caught.value)
    for path in tmp_path.iterdir():
        assert b"7919" not in path.read_bytes()


@pytest.mark.races
def test_processes_of_the_command_line_share_a_budget(path: Path, tmp_path: Path) -> None:
    """Four commands at once, and room for two: two succeed, two are refused with exit 3."""
    from pufferdp import save_model

    save_model(CHAIN, tmp_path / "m.json")
    FRAME.to_csv(tmp_path / "f.csv", index=False)
    words = ["release", "f.csv", "--model", "m.json", "--column", "state", "--query", "histogram", "--epsilon", "0.9"]
    words += ["--mechanism", "curve-tight", "--ledger", str(path), "--dataset", "week"]
    call = [sys.executable, "-c", "from pufferdp.apps.cli import main; main()", *words]
    running = [
        subprocess.Popen(call, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(os.environ))
        for _ in range(4)
    ]
    ended = [(process.communicate()[1], process.returncode) for process in running]
    assert sorted(code for _, code in ended) == [0, 0, 3, 3], ended
    assert 0.9 < total(path) <= 2.0
    assert math.isfinite(total(path))
