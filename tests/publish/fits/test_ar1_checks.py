"""Whether the last number alone says all that the next one depends on: what ``fit --family ar1`` asks of its data."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import pufferdp
from pufferdp.publish.fits.ar1_checks import check_second_order


def simulated(generator: np.random.Generator, records: int, first: float, second: float = 0.0) -> np.ndarray:
    noise, out = generator.standard_normal(records + 200), [0.0, 0.0]
    for shock in noise:
        out.append(first * out[-1] + second * out[-2] + shock)
    return np.array(out[-records:])


def accused(generator: np.random.Generator, runs: int, records: int, first: float, second: float = 0.0) -> int:
    steps = np.ones(records)
    made = [check_second_order([(simulated(generator, records, first, second), steps)]) for _ in range(runs)]
    return sum(check.holds is False for check in made)


@pytest.mark.slow
def test_second_order_is_found_and_first_order_is_not_accused() -> None:
    generator = np.random.default_rng(7)
    assert accused(generator, 200, 5000, 0.7, 0.1) >= 190
    for first in (0.0, 0.9, -0.7, 0.99):
        assert accused(generator, 200, 1000, first) <= 6


def test_what_fit_says_of_numbers() -> None:
    generator = np.random.default_rng(8)
    for second, holds in ((0.0, True), (0.3, False)):
        frame = pl.DataFrame({"when": range(2000), "rate": simulated(generator, 2000, 0.5, second)})
        made = pufferdp.fit(frame, column="rate", order="when", family="ar1")
        check, *others = made.checks
        assert (check.name, check.holds, made.checked) == ("second-order", holds, True)
        assert [other.name for other in others] == ["shape", "drift", "variance"]  # places are no times of a day
        assert made.to_dict()["tests"][0]["advice"] == ("" if holds else check.advice)
    assert not pufferdp.fit(frame, column="rate", order="when", family="ar1", checks=False).checked


def test_only_single_steps_are_compared() -> None:
    # Every second number is missing: nothing follows two others at single steps.
    generator = np.random.default_rng(9)
    numbers, steps = simulated(generator, 400, 0.5, 0.4)[::2], np.full(200, 2.0)
    assert check_second_order([(numbers, steps)]).p_value is None
