"""A model for each person: everybody's release is the one that person would have got alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pufferdp import Ledger, MarkovChain, MarkovInterval, fit, load_models, release, release_fleet, verify
from pufferdp.basics.errors import DataError, ModelError, ParameterError, RefusedError
from pufferdp.models.groups import AnyGroups
from tests.data.backends import BACKENDS
from tests.tolerance import SEARCHED

STATES = ("rest", "active")
ASKED = {"column": "state", "by": "who", "order": "time", "epsilon": 1.0}


TIES = {"curve-tight", "exact-laplace", "per-record-dp"}
"""Mechanisms that need the same noise for some problems."""


class Silent:
    """No noise: what is compared is the exact answer. For tests alone."""

    warning = "test"

    def discrete_laplace(self, exact: list[int], scale: float) -> list[int]:
        return exact

    def laplace(self, exact: list[float], scale: float) -> list[float]:
        return exact


def chain(stay: float, leave: float, **more: Any) -> MarkovChain:
    return MarkovChain(transition=[[stay, 1 - stay], [leave, 1 - leave]], states=STATES, **more)


MODELS = {
    "ann": chain(0.9, 0.4),
    "bob": chain(0.3, 0.8),
    "cy": chain(0.99, 0.02),
    "7": MarkovChain(transition=[[0.5, 0.4, 0.1], [0.2, 0.3, 0.5], [0.1, 0.1, 0.8]], states=["rest", "active", "run"]),
    "eve": chain(0.6, 0.3, start="any"),
    "fay": MarkovInterval(low=[[0.6, 0.1], [0.1, 0.6]], high=[[0.9, 0.4], [0.4, 0.9]], states=STATES),
}


@pytest.fixture
def rows() -> pl.DataFrame:
    generator = np.random.default_rng(5)
    parts = []
    for n, (person, model) in enumerate(MODELS.items()):
        count = 30 + 40 * n
        times = np.cumsum(generator.choice([1, 1, 1, 1, 50], size=count))
        states = generator.choice(model.labels, size=count)
        parts.append(pl.DataFrame({"who": [person] * count, "time": times, "state": states}))
    return pl.concat(parts).sample(fraction=1.0, shuffle=True, seed=1)


@pytest.mark.parametrize("query", ["histogram", "count:active"])
@pytest.mark.parametrize(
    ("mechanism", "adversary"),
    [
        # Everything is tried for everybody, and the Wasserstein distances of those who know nothing take seconds.
        pytest.param(mechanism, adversary, marks=[pytest.mark.slow] * (mechanism is None and adversary == "pufferfish"))
        for mechanism in (None, "quilt-exact", "curve-tight")
        for adversary in ("bdp", "pufferfish", "dp")
    ],
)
def test_each_person_gets_what_they_would_get_alone(
    rows: pl.DataFrame, query: str, adversary: str, mechanism: str | None
) -> None:
    """By default the best noise that there is for each: what ``release`` chooses for one person."""
    asked = {**ASKED, "query": query, "adversary": adversary, "restart": 10, "sampler": Silent()}
    models = {person: model for person, model in MODELS.items() if mechanism is None or person != "fay"}
    rows = rows.filter(pl.col("who").is_in(list(models)))
    fleet = release_fleet(rows, models=models, mechanism=mechanism, **asked)
    assert list(fleet.releases) == ["7", "ann", "bob", "cy", "eve", "fay"][: len(models)]
    for person, found in fleet.releases.items():
        mine = rows.filter(pl.col("who") == person)
        alone = release(mine, model=MODELS[person], mechanism=mechanism, **asked)
        assert found.answer == alone.answer
        ours, theirs = found.certificate.to_dict(), alone.certificate.to_dict()
        # Where records attract each other the tight curve and exact-laplace are the same number, and a plan may name
        # either. Both searches end within the tolerance of the bound, on the safe side.
        same = ours["mechanism"]["name"] == theirs["mechanism"]["name"]
        assert same or {ours["mechanism"]["name"], theirs["mechanism"]["name"]} <= TIES
        assert ours["noise"]["scale"] == pytest.approx(theirs["noise"]["scale"], rel=1e-9 if same else SEARCHED)
        assert ours["data"] == theirs["data"]
        assert ours["model_sha256"] == theirs["model_sha256"]
        assert verify(found.certificate).problems == ()


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_engine_counts_people_apart(rows: pl.DataFrame, backend: str, tmp_path: Path) -> None:
    source = BACKENDS[backend](rows.to_arrow(), tmp_path)
    fleet = release_fleet(source, models=MODELS, query="histogram", restart=10, sampler=Silent(), **ASKED)
    for person, found in fleet.releases.items():
        mine = rows.filter(pl.col("who") == person)["state"].to_list()
        assert found.answer == [mine.count(state) for state in MODELS[person].labels]


def test_sums_of_numbers(rows: pl.DataFrame) -> None:
    models = {person: MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]], bins=(0.0, 0.5, 1.0)) for person in MODELS}
    generator = np.random.default_rng(6)
    numbered = rows.with_columns(number=pl.Series(generator.random(len(rows))))
    asked = {**ASKED, "column": "number", "query": "sum", "clip": (0.0, 0.75), "sampler": Silent()}
    fleet = release_fleet(numbered, models=models, **asked)
    for person, found in fleet.releases.items():
        mine = numbered.filter(pl.col("who") == person)["number"].clip(0.0, 0.75).sum()
        assert found.answer == pytest.approx(mine, rel=1e-8)


def test_people_may_be_numbers(tmp_path: Path) -> None:
    table = pl.DataFrame({"who": [1, 2, 1], "time": [1, 1, 2], "state": ["rest", "active", "rest"]})
    models = {"1": chain(0.9, 0.4), "2": chain(0.3, 0.8)}
    for source in (table, table.to_pandas().astype({"who": float})):
        fleet = release_fleet(source, models=models, query="histogram", sampler=Silent(), **ASKED, independent=True)
        assert {person: one.answer for person, one in fleet.releases.items()} == {"1": [2, 0], "2": [0, 1]}


@pytest.mark.slow
def test_everything_is_charged_at_once_and_before_any_noise(rows: pl.DataFrame, tmp_path: Path) -> None:
    """One person too many for one budget: nobody is charged, and no noise is drawn for anybody."""
    people = ["7", "ann", "bob", "cy", "eve", "fay"]
    books = Ledger(tmp_path / "books.db", create=True)
    for person in people:
        books.create(f"fleet/{person}", model=MODELS[person], budget=0.5 if person == "fay" else 5.0)

    class Never:
        warning = None

        def __getattr__(self, name: str) -> Any:
            raise AssertionError("noise was drawn")

    charged: dict[str, Any] = {"ledger": books, "dataset": "fleet", "query": "histogram"}
    with pytest.raises(RefusedError, match="fleet/fay"):
        release_fleet(rows, models=MODELS, sampler=Never(), **charged, **ASKED)
    assert [books.dataset(f"fleet/{person}").releases for person in people] == [0] * 6
    fleet = release_fleet(rows, models=MODELS, **charged, **{**ASKED, "epsilon": 0.4})
    for person in people:
        kept = books.dataset(f"fleet/{person}")
        assert (kept.releases, kept.head) == (1, fleet.releases[person].certificate.ledger.head)
        assert verify(fleet.releases[person].certificate, head=kept.head).valid
    assert books.verify().valid


def test_a_mechanism_by_name(rows: pl.DataFrame) -> None:
    fleet = release_fleet(rows, models=MODELS, query="histogram", mechanism="group", **ASKED)
    assert {one.certificate.mechanism.name for one in fleet.releases.values()} == {"group"}


def test_models_without_records_are_named(rows: pl.DataFrame) -> None:
    fleet = release_fleet(rows, models={**MODELS, "zoe": chain(0.9, 0.4)}, query="histogram", **ASKED)
    assert fleet.absent == ("zoe",) and "zoe" not in fleet.releases
    assert "zoe" in str(fleet)


@pytest.mark.parametrize(
    ("models", "more", "error", "expected"),
    [
        ({}, {}, ParameterError, "there is no model"),
        ({"7": MODELS["7"]}, {}, DataError, "5 of 6 people in 'who' have no model, first 'ann'"),
        ({**MODELS, "ann": AnyGroups(largest=3)}, {}, ModelError, "the model of 'ann' is not about a series"),
        ({**MODELS, "7": MODELS["ann"], "x": MODELS["7"]}, {}, DataError, "a record of '7' is 'run', which is not"),
        ({**MODELS, "ann": chain(0.9, 0.4, bins=(0.0, 1.0, 2.0))}, {}, ModelError, "have different bins"),
        (MODELS, {"query": "count:run"}, Exception, "run"),
        (MODELS, {"mechanism": "magic"}, Exception, "mechanism is 'magic'"),
        (
            {**MODELS, "ann": chain(0.9, 0.4, start=[0.5, 0.5])},
            {"restart": 10},
            Exception,
            "start is for the first",
        ),
    ],
)
def test_refusals(rows: pl.DataFrame, models: Any, more: Any, error: type[Exception], expected: str) -> None:
    with pytest.raises(error, match=expected):
        release_fleet(rows, models=models, **{**ASKED, "query": "histogram", **more})


def test_ties_and_missing_values_are_refused_with_their_place() -> None:
    table = pl.DataFrame({"who": ["ann", "ann"], "time": [1, 1], "state": ["rest", "rest"]})
    with pytest.raises(DataError, match="two rows have time 1, who 'ann'"):
        release_fleet(table, models=MODELS, query="histogram", **ASKED)
    table = pl.DataFrame({"who": ["ann", "bob"], "time": [1, 1], "state": ["rest", None]})
    with pytest.raises(DataError, match="every value of 'bob' is missing"):
        release_fleet(table, models=MODELS, query="histogram", missing="keep", **ASKED)


def test_a_fitted_model_knows_its_own_data(rows: pl.DataFrame) -> None:
    mine = rows.filter(pl.col("who") == "ann")
    model = fit(mine, column="state", order="time", missing="keep").model
    fleet = release_fleet(mine, models={"ann": model}, query="histogram", missing="keep", **ASKED)
    assert any("fitted" in warning for warning in fleet.releases["ann"].certificate.warnings)


# files of models

CONTENT = {"type": "markov_chain", "transition": [[0.9, 0.1], [0.4, 0.6]]}


def test_three_ways_to_write_models(tmp_path: Path) -> None:
    (tmp_path / "all.json").write_text(json.dumps({"ann": CONTENT, "bob": CONTENT}))
    (tmp_path / "each").mkdir()
    for person in ("ann", "bob"):
        (tmp_path / "each" / f"{person}.json").write_text(json.dumps(CONTENT))
    lines = [{"person": "ann", "model": CONTENT}, {"people": ["bob"], "model": CONTENT}]
    (tmp_path / "lines.jsonl").write_text("\n\n".join(json.dumps(line) for line in lines))
    for name in ("all.json", "each", "lines.jsonl"):
        models = load_models(tmp_path / name)
        assert list(models) == ["ann", "bob"] and models["bob"].size == 2


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("x.json", json.dumps(CONTENT), "holds one model; it must hold a model for each person"),
        ("x.json", "[]", "it must hold a model for each person"),
        ("x.json", "{}", "holds no model"),
        ("x.json", json.dumps({"ann": {"type": "chain"}}), "the model of 'ann': type is"),
        ("x.jsonl", "{", "line 1 of .* is not JSON"),
        ("x.jsonl", json.dumps({"model": CONTENT}), "line 1 of .* it must be"),
        ("x.jsonl", json.dumps({"people": ["a", "a"], "model": CONTENT}), "two models for 'a'"),
        ("x.jsonl", json.dumps({"person": "a"}), "line 1: a model file holds one JSON object"),
        ("none.jsonl", None, "does not exist"),
        ("none.json", None, "does not exist"),
    ],
)
def test_files_that_hold_no_fleet(tmp_path: Path, name: str, content: str | None, expected: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ModelError, match=expected):
        load_models(tmp_path / name)
