"""The cheapest coupling: against its dual, and whatever the solver returns, a bound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from pufferdp.bounds import coupling
from pufferdp.bounds.coupling import CouplingProblem, least_log_prices
from tests.strategies import SEEDS, examples


def dual(problem):
    """The largest Σ p·g with g(i) ≤ e^W(i,j)·h(j) and Σ q·h = 1: what the cheapest coupling costs, by duality."""
    rows, columns = problem.log_prices.shape
    above = np.zeros((rows * columns, rows + columns))
    for n, (i, j) in enumerate(itertools.product(range(rows), range(columns))):
        above[n, i], above[n, rows + j] = 1.0, -np.exp(problem.log_prices[i, j])
    equal = np.concatenate([np.zeros(rows), problem.columns])[None]
    result = linprog([*-problem.rows, *np.zeros(columns)], above, np.zeros(len(above)), equal, [1.0], bounds=(0, None))
    return np.log(-result.fun)


@settings(max_examples=examples(60), deadline=None)
@given(SEEDS, st.integers(1, 5), st.integers(1, 5))
def test_couplings_are_the_cheapest_and_never_too_cheap(seed, rows, columns):
    generator = np.random.default_rng(seed)
    prices = generator.normal(size=(2, rows, columns)) * generator.choice([0.1, 1.0, 3.0])
    problems = [CouplingProblem(*(generator.dirichlet(np.ones(n)) for n in (rows, columns)), w) for w in prices]
    for price, problem in zip(least_log_prices(problems), problems, strict=True):
        assert dual(problem) - 1e-9 <= price <= dual(problem) + 1e-6


def test_every_plan_of_the_solver_is_a_bound(monkeypatch):
    """Plans that are not the best, or none at all, only cost more."""
    problem = CouplingProblem(np.array([0.7, 0.3]), np.array([0.4, 0.6]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    (best,) = least_log_prices([problem])
    for plan in (np.zeros((2, 2)), np.eye(2), np.full((2, 2), -1.0), np.array([[1e-9, 0.0], [3.0, 5.0]])):
        monkeypatch.setattr(coupling, "_solve_programme", lambda problems, plan=plan: [plan])
        assert least_log_prices([problem])[0] >= best - 1e-9


def test_prices_of_very_different_size():
    """The price of a plan is computed in logs, so prices far below another one keep their digits."""
    for size in (2, 3):
        prices, even = np.where(np.eye(size, dtype=bool), 1.0, 2000.0), np.full(size, 1 / size)
        assert least_log_prices([CouplingProblem(even, even, prices)]) == pytest.approx([1.0])
