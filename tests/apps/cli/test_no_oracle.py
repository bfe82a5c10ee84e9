"""Requests that a ledger refuses tell nothing of the values: same exit, same words, whatever the data hold."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pufferdp import BudgetError, DataError, DeliveryError, Ledger, flip_stream, release
from pufferdp.models.files.json import model_from_dict
from pufferdp.publish.release import release as release_measurement
from tests.apps.cli.conftest import CHAIN, Run, series, write
from tests.apps.cli.test_delivery import VERBS, Verb, charges

RULED = {"type": "markov_chain", "transition": [[0.6, 0.4], [1.0, 0.0]], "states": ["rest", "active"]}
"""Nobody is active twice in a row."""
KEPT = ["rest", "active", "rest", "rest", "active", "rest", "rest", "rest", "active", "rest"]
STRANGE = [*KEPT[:4], "asleep", *KEPT[5:]]
MOVED = [*KEPT[:2], "active", *KEPT[3:]]


def rows(states: list[str]) -> str:
    return "person,activity\n" + "".join(f"{'ann' if n < 5 else 'bob'},{state}\n" for n, state in enumerate(states))


def small(verb: Verb) -> list[list[str]]:
    """The data sets of a verb with a budget that nothing fits."""
    budgets = {"--budget": "1e-6", "--tau": "1e-6"}
    return [[budgets.get(before, word) for before, word in zip(["", *w], w, strict=False)] for w in verb.create]


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    write(folder, {"m.json": CHAIN, "people.json": {"ann": CHAIN, "bob": CHAIN}, "d.csv": series()})


@pytest.mark.parametrize("name", VERBS)
def test_over_budget_whatever_the_values(name: str, run: Run) -> None:
    verb = VERBS[name]
    for words in small(verb):
        assert run(*words).code == 0
    said = []
    for states in (KEPT, STRANGE, ["asleep"] * len(KEPT)):
        Path("d.csv").write_text(rows(states))
        result = run(*verb.asked())
        said.append((result.code, result.out, result.err))
    assert said[0][0] == 3
    assert said[1:] == [said[0]] * 2
    assert charges() == []


@pytest.mark.parametrize("name", ["release", "table", "fleet", "flip"])
def test_over_budget_whatever_the_moves(name: str, folder: Path, run: Run) -> None:
    """It was exit 2 where the model rules out a move of the data, and exit 3 otherwise."""
    write(folder, {"m.json": RULED, "people.json": {"ann": RULED, "bob": RULED}})
    verb = VERBS[name]
    for words in small(verb):
        assert run(*words).code == 0
    said = []
    for states in (KEPT, MOVED):
        Path("d.csv").write_text(rows(states))
        result = run(*verb.asked())
        said.append((result.code, result.out, result.err))
    assert said[0][0] == 3
    assert said[1] == said[0]
    assert charges() == []


@pytest.mark.parametrize("name", VERBS)
def test_values_that_are_rejected_are_charged(name: str, run: Run) -> None:
    verb = VERBS[name]
    for words in verb.create:
        assert run(*words).code == 0
    Path("d.csv").write_text(rows(STRANGE))
    result = run(*verb.asked())
    assert result.code == 1
    assert "charged" in result.err and "asleep" in result.err
    assert len(charges()) == len(verb.create)
    assert not Path("series.csv").exists()
    plain = [word for word in verb.words if word not in ("--ledger", "--dataset")]
    without = run(*plain, *(["--out", "series.csv"] if verb.series else []))
    assert without.code == 2  # without a ledger there is nothing to charge
    assert len(charges()) == len(verb.create)


def test_public_facts_are_rejected_before_the_charge(run: Run) -> None:
    """Missing values, columns and how rows are read are public."""
    verb = VERBS["release"]
    assert run(*verb.create[0]).code == 0
    Path("d.csv").write_text(rows([*KEPT[:4], "", *KEPT[5:]]))
    assert run(*verb.asked()).code == 2
    Path("d.csv").write_text("person,state\nann,rest\n")
    assert run(*verb.asked()).code == 2
    assert charges() == []


MODEL = model_from_dict(CHAIN)
RULING = model_from_dict(RULED)
AR1 = model_from_dict({"type": "ar1", "coefficient": 0.5, "sd": 1.0, "mean": 0.0})
NETWORK = model_from_dict(
    {
        "type": "joint",
        "values": [0, 1],
        "outcomes": [{"records": [0, 0], "probability": 0.6}, {"records": [1, 1], "probability": 0.4}],
    }
)
HEIGHTS = model_from_dict({"type": "gaussian", "mean": [0.0, 0.0], "covariance": [[1.0, 0.5], [0.5, 1.0]]})


@pytest.mark.parametrize(
    ("model", "values", "strange", "query"),
    [
        (MODEL, KEPT, STRANGE, {"query": "histogram"}),
        (RULING, KEPT, MOVED, {"query": "count:active"}),
        (AR1, [0.5, 1.5, 2.5], [0.5, float("inf"), 2.5], {"query": "sum", "clip": (0, 1)}),
        (NETWORK, [0, 1], [0, 7], {"query": "count:1"}),
        (HEIGHTS, [0.5, 1.5], [0.5, float("-inf")], {"query": "sum", "clip": (0, 1)}),
    ],
)
def test_every_kind_of_model(model: Any, values: list[Any], strange: list[Any], query: dict[str, Any]) -> None:
    said = []
    with Ledger("books.db", create=True) as ledger:
        ledger.create("week", model=model, budget=1e-6)
        ledger.create("more", model=model, budget=100.0)
        for column in (values, strange):
            frame = pd.DataFrame({"x": column})
            with pytest.raises(BudgetError) as refused:
                release(frame, model=model, column="x", epsilon=1.0, **query, ledger=ledger, dataset="week")
            said.append(str(refused.value))
        with pytest.raises(DataError):
            release(pd.DataFrame({"x": strange}), model=model, column="x", epsilon=1.0, **query)
        with pytest.raises(DeliveryError, match=r"'more' was charged \(row 1\), and then nothing was released"):
            release(
                pd.DataFrame({"x": strange}),
                model=model,
                column="x",
                epsilon=1.0,
                **query,
                ledger=ledger,
                dataset="more",
            )
        assert ledger.dataset("week").releases == 0
        assert ledger.verify().valid
    assert said[0] == said[1]


def test_a_measurement() -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    measurement = space >> dp.t.then_count() >> dp.m.then_laplace(scale=50.0)
    said = []
    with Ledger("books.db", create=True) as ledger:
        ledger.create("week", model=MODEL, budget=1e-6)
        ledger.create("more", model=MODEL, budget=100.0)
        for states in (KEPT, STRANGE):
            asked: dict[str, Any] = {"model": MODEL, "column": "x", "epsilon": 5.0, "measurement": measurement}
            with pytest.raises(BudgetError) as refused:
                release_measurement(pd.DataFrame({"x": states}), **asked, ledger=ledger, dataset="week")
            said.append(str(refused.value))
        with pytest.raises(DeliveryError, match="asleep"):
            release_measurement(pd.DataFrame({"x": STRANGE}), **asked, ledger=ledger, dataset="more")
        assert [ledger.dataset(name).releases for name in ("week", "more")] == [0, 1]
    assert said[0] == said[1]


@pytest.mark.slow
def test_a_stream_is_charged_before_its_values_are_looked_at() -> None:
    """By the first lines, whatever they hold."""
    said = []
    with Ledger("books.db", create=True) as ledger:
        ledger.create("week", model=RULING, budget=1e-6)
        ledger.create("more", model=RULING, budget=100.0)
        for states in (KEPT, STRANGE, MOVED):
            source = io.BytesIO(("x\n" + "\n".join(states) + "\n").encode())
            with pytest.raises(BudgetError) as refused:
                flip_stream(source, io.BytesIO(), model=RULING, column="x", epsilon=1.0, ledger=ledger, dataset="week")
            said.append(str(refused.value))
        sink = io.BytesIO()
        source.seek(0)
        with pytest.raises(DeliveryError, match=r"'more' was charged \(row 1\)"):
            flip_stream(source, sink, model=RULING, column="x", epsilon=1.0, ledger=ledger, dataset="more")
        assert sink.getvalue() == b""
    assert said == [said[0]] * 3
