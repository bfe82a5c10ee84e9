"""Columns that hold no states: numbers get bins proposed that work as they are, times are refused."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferdp import DataError, fit
from pufferdp.models.bins import parse_bins
from pufferdp.publish.fits.bins import MOST_NUMBERS, PROPOSED, propose_bins, roundest
from tests.strategies import examples

SPREAD = st.dictionaries(
    st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: float(f"{x:.6g}")),
    st.integers(1, 500),
    min_size=31,
    max_size=60,
)


@given(SPREAD)
@settings(max_examples=examples(200))
def test_a_proposal_has_rising_edges_around_all_numbers(counts):
    edges = propose_bins(counts)
    assert all(a < b for a, b in itertools.pairwise(edges))
    assert edges[0] <= min(counts)
    assert edges[-1] >= max(counts)
    assert 2 <= len(edges) <= PROPOSED + 1
    assert parse_bins(",".join(f"{edge:.12g}" for edge in edges)) == edges


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
@settings(max_examples=examples(200))
def test_the_roundest_number_lies_in_its_range(low, width):
    high = low + width
    if low < high:
        assert low < roundest(low, high) <= high


@pytest.mark.parametrize(
    ("low", "high", "number"), [(0, 12.3, 10), (61.2, 62.9, 62), (0.341, 0.359, 0.35), (-7, -4, -5)]
)
def test_round_numbers_are_those_that_people_would_write(low, high, number):
    assert roundest(low, high) == number


def proposal(error) -> str:
    return re.search(r"bins='([^']+)'", str(error.value))[1]


@pytest.mark.parametrize("kind", ["floats", "whole numbers", "mostly zero", "many"])
@pytest.mark.parametrize("source", ["frame", "csv"])
def test_numbers_are_refused_with_a_command_that_works(kind, source, tmp_path):
    generator = np.random.default_rng(5)
    numbers = {
        "floats": generator.normal(70, 10, 2000).round(2),
        "whole numbers": generator.integers(40, 200, 2000),
        "mostly zero": np.where(generator.random(2000) < 0.9, 0, generator.integers(1, 800, 2000)),
        "many": generator.normal(0, 1, 12_000),
    }[kind]
    data = pd.DataFrame({"x": numbers})
    if source == "csv":
        data.to_csv(tmp_path / "d.csv", index=False)
    read = data if source == "frame" else tmp_path / "d.csv"
    with pytest.raises(DataError, match=f"more than {MOST_NUMBERS} different numbers") as error:
        fit(read, column="x")
    model = fit(read, column="x", bins=proposal(error)).model
    assert 2 <= len(model.labels) <= PROPOSED
    shares = pd.cut(data["x"], list(model.bins), right=False).value_counts(normalize=True)
    assert shares.min() > 0.01


def test_a_few_numbers_and_numbers_among_words_are_states():
    few = pd.DataFrame({"x": [str(n % MOST_NUMBERS) for n in range(200)]})
    assert len(fit(few, column="x").model.labels) == MOST_NUMBERS
    named = pd.DataFrame({"x": [f"s{n % 40}" for n in range(200)]})
    assert len(fit(named, column="x").model.labels) == 40


def test_whoever_says_so_gets_numbers_as_states(tmp_path):
    data = pd.DataFrame({"x": [n % 40 for n in range(200)]})
    with pytest.raises(DataError, match="as_states=True"):
        fit(data, column="x")
    assert len(fit(data, column="x", as_states=True).model.labels) == 40
    assert len(fit(data, column="x", states=[str(n) for n in range(40)]).model.labels) == 40


@pytest.mark.parametrize(
    "times",
    [
        [f"2024-01-{1 + n // 24:02d} {n % 24:02d}:00:00" for n in range(300)],
        [f"2024-01-{1 + n // 24:02d}T{n % 24:02d}:00Z" for n in range(300)],
        [f"2024-01-{1 + n % 28:02d}" for n in range(300)],
        [f"{n % 24:02d}:00" for n in range(300)],
    ],
)
def test_times_are_refused_at_once(times, tmp_path):
    pd.DataFrame({"when": times, "x": ["a", "b"] * 150}).to_csv(tmp_path / "d.csv", index=False)
    with pytest.raises(DataError, match=r"holds times, such as .*column='NAME', order='when'"):
        fit(tmp_path / "d.csv", column="when")
    with pytest.raises(DataError, match="when"):
        fit(pd.DataFrame({"when": pd.to_datetime(["2024-01-01", "2024-01-02"] * 20)}), column="when")
