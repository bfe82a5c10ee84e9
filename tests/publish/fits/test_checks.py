"""Whether a fit finds out that its model is false and lets true ones pass: on paper, and on simulated data."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter
from scipy.special import chdtrc

from pufferdp import MarkovChain, fit, load_model
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.series import StatePath, open_series
from pufferdp.models.simulate import sample_chain
from pufferdp.publish.fits import checks
from pufferdp.publish.fits.checks import LEAST, check_model, independence, moments, pearson, pool
from pufferdp.report.pages.fits import checks_chart
from tests.strategies import examples

RECORDS = 5000
RUNS = 200


@given(st.lists(st.integers(0, 2), min_size=5, max_size=7), st.lists(st.integers(0, 2), min_size=7, max_size=7))
@settings(max_examples=examples(20))
def test_the_moments_are_those_over_all_ways_to_deal_the_rows(rows, columns):
    columns = columns[: len(rows)]
    tables = []
    for dealt in itertools.permutations(columns):
        table = np.zeros((3, 3), dtype=np.int64)
        np.add.at(table, (rows, list(dealt)), 1)
        tables.append(table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0])
    if min(tables[0].shape) < 2:
        return
    values = [pearson(table) for table in tables]
    mean, variance = moments(tables[0].sum(axis=1), tables[0].sum(axis=0))
    assert mean == pytest.approx(np.mean(values), rel=1e-9)
    assert variance == pytest.approx(np.var(values), rel=1e-9, abs=1e-9)


@given(
    st.integers(2, 9).flatmap(
        lambda wide: st.lists(st.lists(st.integers(0, 60), min_size=wide, max_size=wide), min_size=2, max_size=9)
    ),
    st.booleans(),
)
@settings(max_examples=examples(200))
def test_pooling_keeps_every_record_and_leaves_no_rare_cell(counts, ordered):
    table = np.array(counts, dtype=np.int64)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    pooled = pool(table, ordered)
    if pooled is not None:
        assert pooled.sum() == table.sum()
        assert min(pooled.shape) >= 2
        expected = np.outer(pooled.sum(axis=1), pooled.sum(axis=0)) / pooled.sum()
        assert expected.min() >= LEAST * (1 - 1e-12)


def test_a_table_of_large_counts_is_not_pooled_and_has_the_chi_square_distribution():
    table = np.array([[300, 200, 250], [310, 190, 260]])
    assert pool(table, ordered=True).tolist() == table[:, [0, 2, 1]].tolist()
    strata, rows, columns = (np.repeat(a, table.ravel()) for a in ([0] * 6, [0, 0, 0, 1, 1, 1], [0, 1, 2] * 2))
    result = independence(strata, rows, columns)
    assert result.statistic == pytest.approx(pearson(table))
    assert result.degrees_of_freedom == 2
    assert result.p_value == pytest.approx(chdtrc(2, result.statistic), rel=0.01)


def frame(n=60, seed=0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "t": pd.date_range("2024-03-01 22:30", periods=n, freq="20min"),
            "x": generator.choice(["a", "b"], n),
            "who": np.arange(n) // 20,
        }
    )


@pytest.mark.parametrize("engine", [lambda data: data, pl.from_pandas])
def test_the_path_has_every_record_and_joins_neighbours_alone(engine):
    data = frame()
    data.loc[[7, 30], "x"] = None
    data = data.drop(index=[12, 13, 45])
    layout = Layout(column="x", order="t", by="who", step="20min", missing="keep")
    series, coding = open_series(engine(data), layout), Coding(labels=("a", "b"))
    path = series.path(coding)
    there = data.dropna()
    assert path.codes.tolist() == [{"a": 0, "b": 1}[x] for x in there["x"]]
    assert path.persons.tolist() == there["who"].tolist()
    assert path.hours.tolist() == [int(t.timestamp()) // 3600 for t in there["t"]]
    previous = dict(zip(there["t"].iloc[1:], there["t"], strict=False))
    whose = dict(zip(there["t"], there["who"], strict=True))
    step = pd.Timedelta("20min")
    joined = [t in previous and t - previous[t] == step and whose[t] == whose[previous[t]] for t in there["t"]]
    assert path.joined.tolist() == joined
    # The counts that a model is fitted from are those of the joined pairs.
    pairs = Counter((path.codes[n - 1], path.codes[n]) for n in np.flatnonzero(path.joined))
    counts = series.counts(coding, transitions=True)
    assert {(a, b): counts.transitions[a][b] for a in (0, 1) for b in (0, 1)} == {
        (a, b): pairs[a, b] for a in (0, 1) for b in (0, 1)
    }


def test_halves_are_each_persons_own():
    path = StatePath(
        codes=np.zeros(7, dtype=np.int64), joined=np.ones(7, dtype=bool), persons=np.array([0, 0, 0, 1, 1, 1, 1]),
        by_person=True, hours=None, numbers=None,
    )  # fmt: skip
    assert path.halves.tolist() == [0, 0, 1, 0, 0, 1, 1]


def test_numbers_are_ranked_within_bins_and_among_all():
    inside, overall = checks._ranks(np.array([1, 0, 0, 1, 0]), np.array([900, 5, 5, 800, 7]))
    assert inside.tolist() == pytest.approx([0.25, -1 / 6, -1 / 6, -0.25, 1 / 3])
    assert overall.tolist() == pytest.approx([0.4, -0.3, -0.3, 0.2, 0.0])


def test_a_clock_needs_times_and_three_days():
    names = {c.name: c for c in fit(frame(), column="x", order="t").checks}
    assert names["clock"].holds is None
    assert "2 day(s)" in names["clock"].reason
    assert "people" not in names
    assert "clock" not in {c.name for c in fit(frame()[["x"]], column="x").checks}
    assert "people" in {c.name for c in fit(frame(), column="x", order="t", by="who").checks}
    assert fit(frame(400), column="x", order="t").checks[1].p_value is not None


def test_a_private_fit_says_nothing_of_the_exact_data():
    private = fit(frame(400), column="x", order="t", states=["a", "b"], dp_epsilon=5.0)
    assert private.checks == ()
    assert "tests" not in private.to_dict()
    assert "was not checked" in str(private)
    assert "p-value" not in str(private)
    assert fit(frame(400), column="x", order="t", checks=False).checks == ()


def test_the_checks_are_beside_the_model_and_not_in_it(tmp_path):
    made = fit(frame(400), column="x", order="t")
    content = made.to_dict()
    assert [set(check) for check in content["tests"]] == [
        {
            "name",
            "question",
            "statistic",
            "degrees_of_freedom",
            "p_value",
            "effect",
            "level",
            "reason",
            "advice",
            "holds",
        }
    ] * 3
    assert "tests" not in made.model.to_dict()
    (tmp_path / "m.json").write_text(json.dumps(content))
    assert load_model(tmp_path / "m.json").to_dict() == made.model.to_dict()


def second_order(generator) -> np.ndarray:
    """Three states; a fifth of each step follows the state before the last."""
    table = np.array([[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]])
    out = np.zeros((RECORDS, RUNS), dtype=np.int64)
    for t in range(2, RECORDS):
        distribution = 0.8 * table[out[t - 1]] + 0.2 * table[out[t - 2]]
        out[t] = (generator.random(RUNS)[:, None] > distribution.cumsum(axis=1)[:, :2]).sum(axis=1)
    return out.T


def two_states(generator, move) -> np.ndarray:
    """P(1) after 0 and after 1, both raised by ``move(t)``."""
    out = np.zeros((RECORDS, RUNS), dtype=np.int64)
    for t in range(1, RECORDS):
        out[t] = generator.random(RUNS) < np.where(out[t - 1] == 1, 0.7, 0.15) + move(t)
    return out.T


def path_of(codes, **more) -> StatePath:
    """A series of records every five minutes."""
    joined = np.arange(len(codes)) > 0
    usual = {"persons": np.zeros_like(codes), "by_person": False, "numbers": None}
    return StatePath(codes=codes, joined=joined, hours=np.arange(len(codes)) // 12, **{**usual, **more})


FALSE = {
    "second-order": second_order,
    # Between 0.05 and 0.25 by night and day.
    "clock": lambda generator: two_states(generator, lambda t: 0.1 * math.sin(2 * math.pi * t / 288)),
    # From 0.08 to 0.22 over the whole series.
    "drift": lambda generator: two_states(generator, lambda t: 0.14 * (t / RECORDS - 0.5)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FALSE)
def test_false_models_are_found(name):
    """In at least 95 % of 200 runs; the seed is fixed. By simulation each is found in more than 99 %."""
    runs = FALSE[name](np.random.default_rng(20))
    found = [next(c for c in check_model(path_of(codes)) if c.name == name).holds is False for codes in runs]
    assert np.mean(found) >= 0.95


@pytest.mark.slow
def test_people_who_differ_and_numbers_that_follow_each_other_are_found():
    generator = np.random.default_rng(21)
    people, inside = [], []
    for _ in range(RUNS):
        two = [sample_chain(MarkovChain(transition=[[1 - p, p], [0.3, 0.7]]), 500, 5, generator) for p in (0.1, 0.2)]
        path = path_of(np.concatenate(two).ravel(), persons=np.arange(5000) // 500, by_person=True)
        path.joined[::500] = False
        people.append(next(c for c in check_model(path) if c.name == "people").holds is False)
        # A slow autoregressive series in four bins.
        numbers = lfilter([1], [1, -0.9], generator.normal(0, math.sqrt(1 - 0.9**2), RECORDS))
        steps = ((numbers.clip(-5, 5) + 5) / 10 * 2**30).astype(np.int64)
        binned = path_of(np.digitize(numbers, [-1, 0, 1]), numbers=steps)
        inside.append(next(c for c in check_model(binned) if c.name == "inside-bins").holds is False)
    assert np.mean(people) >= 0.95
    assert np.mean(inside) >= 0.95


TRUE = [
    ("two states", 5000, 500, lambda g: np.array([[0.85, 0.15], [0.3, 0.7]])),
    ("sticky", 5000, 500, lambda g: np.array([[0.995, 0.005], [0.01, 0.99]])),
    ("short", 200, 20, lambda g: np.array([[0.9, 0.1], [0.3, 0.7]])),
    ("six states", 5000, 500, lambda g: g.dirichlet([0.3] * 6, 6)),
    ("thirty states", 5000, 500, lambda g: g.dirichlet([0.1] * 30, 30)),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("records", "each", "distribution"), [case[1:] for case in TRUE], ids=[case[0] for case in TRUE]
)
def test_true_chains_pass(records, each, distribution):
    """All five checks together accuse a true chain in at most 3 % of 200 runs.

    They are made to accuse 2 %: then 3 % would be passed with probability 11 % for each case, but the seed is fixed.
    """
    generator = np.random.default_rng(22)
    accused = 0
    for _ in range(RUNS):
        chain = distribution(generator)
        cumulative, codes = chain.cumsum(axis=1), np.zeros(records, dtype=np.int64)
        draws = generator.random(records)
        for t in range(records):
            row = cumulative[codes[t - 1] if t % each else 0]
            codes[t] = min(np.searchsorted(row, draws[t]), len(chain) - 1)
        numbers = (codes + generator.random(records)) / len(chain) * 2**30
        path = path_of(codes, persons=np.arange(records) // each, by_person=True, numbers=numbers.astype(np.int64))
        path.joined[::each] = False
        accused += any(check.holds is False for check in check_model(path))
    assert accused / RUNS <= 0.03


def test_the_page_says_what_fails_and_what_to_do(tmp_path):
    codes = two_states(np.random.default_rng(3), lambda t: 0.14 * math.sin(2 * math.pi * t / 288))[0]
    data = pd.DataFrame({"t": pd.date_range("2024-01-01", periods=RECORDS, freq="5min"), "x": codes})
    made = fit(data, column="x", order="t", family="chain")
    words = str(made)
    assert 'fit a time-of-day model, fit(clock="hour"), or hidden states by hour' in " ".join(words.split())
    assert "rejected" in words
    assert "not written to the model file" in " ".join(words.split())
    assert max(map(len, words.splitlines())) <= 96
    chart = checks_chart(made.checks)
    assert "clock p below 1e-20, rejected" in chart.alt
    assert next(c for c in made.to_dict()["tests"] if c["name"] == "clock")["holds"] is False
