"""What the experiments are made of, checked apart: chains, matrices, limits and the estimate by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import laplace as exact_laplace

from pufferdp.report.charts import Line
from pufferdp_papers.base import Drawing, ExperimentResult, Setting
from pufferdp_papers.page import experiment_panels
from pufferdp_papers.thesis.chains import even_chain, every_chain, largest, uneven_chain
from pufferdp_papers.thesis.gaussian import correlations, random_matrix
from pufferdp_papers.thesis.limits import figure_3, figure_5

PROBABILITIES = st.floats(0.01, 0.99)


@given(a=PROBABILITIES, b=PROBABILITIES)
def test_every_two_state_chain_lies_in_its_class(a: float, b: float) -> None:
    moves = np.array([[1 - a, a], [b, 1 - b]])
    box = every_chain(float(moves.max() / moves.min()))
    rounding = 1e-14  # of a few operations on numbers below 1
    assert box.low <= min(1 - a, 1 - b) + rounding
    assert max(1 - a, 1 - b) <= box.high + rounding


@pytest.mark.parametrize("omega", [1.5, 10.0, 100.0])
def test_chains_have_the_ratios_asked_for(omega: float) -> None:
    moves = uneven_chain(omega**1.5, omega).transition
    assert moves.max() / moves.min() == pytest.approx(omega**1.5)
    assert (moves.max(axis=0) / moves.min(axis=0)).max() == pytest.approx(omega)
    even = even_chain(omega).transition
    assert even.max() / even.min() == pytest.approx(omega)
    assert np.allclose(even.sum(axis=1), 1)


def test_the_largest_is_rounded_down() -> None:
    for limit in (1.0004, 3.0, 77.7):
        found = largest(lambda g, most=limit: g <= most, 2.0)
        assert limit / 1.001 <= found <= limit


@pytest.mark.parametrize("n", [3, 5, 7])
def test_matrices_are_limited(n: int) -> None:
    generator = np.random.default_rng(1)
    for rho in correlations(n):
        assert 0 < rho < 1 / (n - 2)
        matrix = random_matrix(n, rho, generator)
        assert np.array_equal(matrix, matrix.T)
        assert np.all(np.diag(matrix) == 1)
        assert np.abs(matrix - np.eye(n)).max() <= rho
        assert np.linalg.eigvalsh(matrix).min() > 0


def test_answers_moved_into_the_range_err_as_said() -> None:
    """The worst true count, by the distribution of the noise: an answer beyond 0 or n is put there."""
    n = 10
    for row in figure_3(Setting()).rows:
        tail = exact_laplace(scale=n / float(row["epsilon"])).sf
        # An error above n/2 is one up (to n at most, so only below n/2) or one down (only above n/2).
        worst = max(tail(n / 2) * (true < n / 2) + tail(n / 2) * (true > n / 2) for true in range(n + 1))
        assert row["ours"] == pytest.approx(worst)
        assert row["paper"] == pytest.approx(2 * tail(n / 2))


def test_randomised_response_reaches_the_limit() -> None:
    """Two answers, the true one told with probability 1-beta: the odds of either say epsilon, and no more."""
    for row in figure_5(Setting()).rows:
        beta = float(row["ours"])
        assert math.log((1 - beta) / beta) == pytest.approx(float(row["epsilon"]), rel=1e-9)
        assert beta == pytest.approx(float(row["paper"]), rel=1e-9)


def test_lines_are_told_apart_and_empty_ones_left_out() -> None:
    """Six lines with a style each; a column without a number in any row has no place in the legend."""
    names = ("general", "zhao", "paper", "quilt", "ours", "tight")
    rows = tuple({"x": float(x), "gk16": None, **{name: x + n for n, name in enumerate(names)}} for x in (1, 2))
    drawing = Drawing(x="x", y="error", lines={name: name for name in (*names, "gk16")})
    columns = {name: name for name in ("x", *names, "gk16")}
    panels = experiment_panels(ExperimentResult(rows=rows, columns=columns, notes=(), drawing=drawing), "title")
    (chart,) = panels.parts
    lines = [layer for layer in chart.layers if isinstance(layer, Line)]
    assert [line.label for line in lines] == list(names)
    assert len({line.series for line in lines}) == len(names)
    assert "gk16" not in panels.alt
