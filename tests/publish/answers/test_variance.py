"""The variance of clipped numbers: a query that is one class in one file, in plans, releases, tables and ledgers."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

import pufferdp
from pufferdp import MarkovChain, QueryError
from pufferdp.models.files.json import model_from_dict
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.answers.variance import VarianceQuery
from pufferdp.publish.kind import kind_of
from tests.publish.test_every_mechanism import accepted
from tests.publish.test_leaves import solve_once

CHAIN = MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]], states=["rest", "active"], values=[1, 4])
BINNED = MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]], bins=[0, 20, 60])
STATES = np.random.default_rng(1).choice(["rest", "active"], 300).tolist()
NUMBERS = np.random.default_rng(2).normal(20, 9, 300).clip(0.5, 59.5)
FRAME = pl.DataFrame({"t": range(300), "s": STATES, "n": NUMBERS, "part": [str(t // 100) for t in range(300)]})


def exactly(numbers: Any) -> Fraction:
    """By the definition, in fractions."""
    values = [Fraction(float(number)) for number in numbers]
    mean = sum(values, Fraction(0)) / len(values)
    return sum(((value - mean) ** 2 for value in values), Fraction(0))


@pytest.mark.parametrize("records", [1, 2, 3, 5])
@pytest.mark.parametrize("points", [(0.0, 1.0), (-2.0, 0.0, 1.0, 5.0), (3.0, 3.5, 4.0)])
def test_no_record_moves_it_farther_than_its_constant(records: int, points: tuple[float, ...]) -> None:
    query, width = VarianceQuery(), Fraction(points[-1] - points[0])
    for others in itertools.product(points, repeat=records - 1):
        for u, v in itertools.combinations(points, 2):
            apart = abs(exactly([*others, u]) - exactly([*others, v]))
            assert apart <= Fraction(query.move(v - u, float(width)))
    # Half of the records at either end: nearly as far as the constant says, where there are many.
    many = [points[0]] * 500 + [points[-1]] * 1
    assert abs(exactly([*many[:-1], points[0]]) - exactly(many)) > 0.99 * width**2


def test_its_total_is_exact() -> None:
    for numbers in (NUMBERS, np.array([1e15, 1e15 + 1, 1e-9]), np.zeros(3), np.array([0.1] * 7)):
        assert VarianceQuery().total(numbers) == exactly(numbers)
    assert VarianceQuery().total(np.array([1.0, 4.0]), [3, 2]) == exactly([1, 1, 1, 4, 4])
    assert VarianceQuery().total(np.zeros(0)) == 0


@pytest.mark.parametrize(
    ("model", "column", "clip", "true"),
    [
        (CHAIN, "s", None, [1.0 if state == "rest" else 4.0 for state in STATES]),
        (CHAIN, "s", (0, 3), [1.0 if state == "rest" else 3.0 for state in STATES]),
        (BINNED, "n", (0, 40), np.clip(NUMBERS, 0, 40)),
    ],
    ids=["values", "clipped", "numbers"],
)
def test_a_release_is_the_variance_with_the_noise_of_its_certificate(
    model: MarkovChain, column: str, clip: Any, true: Any
) -> None:
    asked: dict[str, Any] = {"model": model, "column": column, "order": "t", "query": "variance", "clip": clip}
    made = [pufferdp.release(FRAME, **asked, epsilon=2.0) for _ in range(40)]
    certificate, width = made[0].certificate, (max(true) - min(true) if clip is None or column == "s" else 40.0)
    assert certificate.query.lipschitz == pytest.approx(width**2 / 300)
    assert certificate.noise.scale == pytest.approx(certificate.calibration.sigma * width**2 / 300)
    errors = np.array([release.answer for release in made], dtype=float) - np.var(true)
    # Laplace noise: the mean absolute error over its scale is 1 ± 1/√40, and six standard errors are never left.
    assert abs(np.abs(errors).mean() / certificate.noise.scale - 1) < 6 / math.sqrt(40)
    assert all(0 <= float(release.estimate) <= width**2 / 4 * (1 + 1e-12) for release in made)  # type: ignore[arg-type]
    assert pufferdp.verify(made[0]).valid


def test_a_plan_ranks_mechanisms_and_says_why_others_do_not_apply() -> None:
    plan = pufferdp.plan(CHAIN, "variance", epsilon=1, length=300)
    assert plan.best.mechanism == "curve-tight"
    reasons = {candidate.mechanism: candidate.reason for candidate in plan.candidates if not candidate.applies}
    assert "is worked out for one number" in str(reasons["exact-laplace"])
    pufferfish = pufferdp.plan(CHAIN, "variance", epsilon=1, length=300, adversary="pufferfish")
    assert "the distribution of a variance is not computed" in str(pufferfish.candidate("wasserstein").reason)


def test_a_table_has_the_variance_of_each_group() -> None:
    asked: dict[str, Any] = {"model": BINNED, "column": "n", "order": "t", "clip": (0, 40), "epsilon": 1e4}
    made = pufferdp.release(FRAME, query=["variance", "mean"], per="part", **asked)
    true = [float(np.var(np.clip(NUMBERS[at : at + 100], 0, 40))) for at in (0, 100, 200)]
    assert made.table.column("variance") == pytest.approx(true, abs=5)
    assert pufferdp.verify(made).valid
    hidden = pufferdp.release(FRAME, query=["variance"], per="part", sizes="hidden", **asked)
    assert pufferdp.verify(hidden).valid


def test_every_leaf_of_its_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    made = pufferdp.release(FRAME, model=CHAIN, column="s", order="t", query="variance", epsilon=1)
    content = json.loads(json.dumps(made.certificate.to_dict()))
    solve_once(kind_of(content["schema"]), monkeypatch)
    assert list(accepted(content)) == []


def test_a_ledger_charges_and_rechecks_it(tmp_path: Any) -> None:
    with pufferdp.Ledger(tmp_path / "books.db", create=True) as ledger:
        ledger.create("week", model=CHAIN, budget=5)
        asked: dict[str, Any] = {"model": CHAIN, "column": "s", "order": "t", "query": "variance"}
        made = pufferdp.release(FRAME, **asked, epsilon=1, ledger=ledger, dataset="week")
        found = ledger.verify()
        assert (found.valid, found.recomputed) == (True, 1)
    assert pufferdp.verify(made).valid


def test_named_records_move_it_by_what_their_own_numbers_allow() -> None:
    model = model_from_dict(
        {
            "type": "bayesian_network",
            "nodes": [
                {"name": "a", "states": ["0", "1", "5"], "table": [0.5, 0.3, 0.2]},
                {"name": "b", "states": ["0", "1"], "parents": ["a"], "table": [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]},
            ],
        }
    )
    model = type(model)(nodes=model.nodes, values=tuple(float(label) for label in model.labels))  # type: ignore[attr-defined,call-arg]
    bound = Query.parse("variance").on(model, 2)
    assert bound.lipschitz == pytest.approx(25 / 2)
    assert bound.moves == pytest.approx((1.0, 1 * (2 * 5 - 1) / 25))


def test_real_numbers_without_states_are_refused() -> None:
    with pytest.raises(QueryError, match="variance is about states"):
        pufferdp.plan(pufferdp.Ar1(coefficient=0.5), "variance", epsilon=1, length=10, clip=(0, 1))
    words = MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]], states=["a", "b"])
    with pytest.raises(QueryError, match="variance needs numbers"):
        pufferdp.plan(words, "variance", epsilon=1, length=9)
