"""A fit of rows that are stated to be in time order: whether a column of times says otherwise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pufferdp import fit
from pufferdp.publish.fits.checks import Check

RECORDS = 400
TIMES = pd.date_range("2024-01-01", periods=RECORDS, freq="h")


def chain(generator: np.random.Generator, stay: float) -> list[str]:
    moves = np.concatenate([[0], generator.random(RECORDS - 1) >= stay]).cumsum() % 2
    return ["ab"[n] for n in moves]


def row_order(frame: pd.DataFrame, **more: object) -> Check:
    made = fit(frame, column="x", order="rows", **more)
    (check,) = (check for check in made.checks if check.name == "row-order")
    return check


def test_shuffled_rows_are_rejected_and_the_column_is_named():
    generator = np.random.default_rng(1)
    frame = pd.DataFrame({"time": TIMES, "x": chain(generator, 0.8)})
    assert row_order(frame).holds
    assert row_order(frame[::-1]).holds  # a chain depends as much on what follows
    rejected = row_order(frame.sample(frac=1, random_state=2))
    assert rejected.holds is False
    assert "name 'time' as the order" in rejected.advice
    assert "sorted by 'time'" in rejected.question
    for more in ({"memory": 2}, {"states": ["a", "b", "c"], "prior": 0.5}):
        assert row_order(frame.sample(frac=1, random_state=2), **more).holds is False


@pytest.mark.parametrize("stay", [0.8, 0.5])
def test_rows_in_order_beside_random_times_are_rarely_rejected(stay: float):
    # A normal deviate whose variance is bounded from above: the level of a check is an upper bound of its error rate.
    generator = np.random.default_rng(3)
    rejected = sum(
        row_order(pd.DataFrame({"time": generator.permutation(TIMES), "x": chain(generator, stay)})).holds is False
        for _ in range(10)
    )
    assert rejected == 0


def test_numbers_have_the_check_as_well():
    generator = np.random.default_rng(4)
    numbers = [0.0]
    for noise in generator.normal(size=RECORDS - 1):
        numbers.append(0.8 * numbers[-1] + noise)
    frame = pd.DataFrame({"time": TIMES, "x": numbers})
    assert row_order(frame, family="ar1").holds
    assert row_order(frame.sample(frac=1, random_state=2), family="ar1").holds is False


def test_a_column_that_orders_nothing_is_not_checked():
    frame = pd.DataFrame({"day": TIMES.normalize(), "x": chain(np.random.default_rng(5), 0.8)})
    assert row_order(frame).p_value is None
    assert "'day' does not put every row in its place" in row_order(frame).reason
    assert not [c for c in fit(frame[["x"]], column="x").checks if c.name == "row-order"]
