"""The cheapest coupling of two distributions, where the most expensive target decides.

Given a distribution p of rows, a distribution q of columns and log prices W, minimise

    max over j of Σ_i C(i, j)·e^W(i, j) / q(j)    over all C ≥ 0 with row sums p.

This is a linear programme. Every such C gives an upper bound on log E_p[g]/E_q[g] for all functions g > 0 with
g(i) ≤ e^W(i, j)·g(j). The plan that the solver returns is therefore corrected until its rows sum to p and priced again:
an inaccurate solution makes the bound larger, never smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pufferdp.basics.arrays import Floats

_ROUNDING: Final = 1e-12
"""Relative allowance for the rounding of a price, more than its sums of positive terms can lose."""


@dataclass(frozen=True, eq=False)
class CouplingProblem:
    """Two distributions with positive entries, and the log price of each pair of their points."""

    rows: Floats
    columns: Floats
    log_prices: Floats

    @classmethod
    def on_support(cls, rows: Floats, columns: Floats, log_prices: Floats) -> CouplingProblem:
        """The problem restricted to points of positive probability."""
        return cls(rows[rows > 0], columns[columns > 0], log_prices[np.ix_(rows > 0, columns > 0)])


def least_log_prices(problems: Sequence[CouplingProblem]) -> list[float]:
    """The log price of the cheapest coupling of each problem, rounded up.

    >>> problem = CouplingProblem(np.array([0.5, 0.5]), np.array([1.0]), np.log([[1.0], [3.0]]))
    >>> [round(float(np.exp(price)), 9) for price in least_log_prices([problem])]
    [2.0]
    """
    plans = _solve_programme(problems) if problems else []
    return [_log_price(problem, plan) for problem, plan in zip(problems, plans, strict=True)]


def _solve_programme(problems: Sequence[CouplingProblem]) -> list[Floats]:
    """The plans of all problems from one block-diagonal linear programme; zeros where the solver fails."""
    from scipy.optimize import linprog
    from scipy.sparse import block_diag

    equal, above = list[Floats](), list[Floats]()
    for problem in problems:
        rows, columns = problem.log_prices.shape
        # The solver drops coefficients below 1e-9: small probabilities of columns make coefficients larger.
        prices = np.exp(problem.log_prices - problem.log_prices.max()) / problem.columns
        # The unknowns are the plan, row by row, and the price.
        equal.append(np.hstack([np.kron(np.eye(rows), np.ones(columns)), np.zeros((rows, 1))]))
        above.append(np.hstack([np.tile(np.eye(columns), rows) * prices.ravel(), -np.ones((columns, 1))]))
    limits: list[Any] = [block_diag(tables, format="csr") for tables in (above, equal)]
    result = linprog(
        np.concatenate([np.append(np.zeros(problem.log_prices.size), 1.0) for problem in problems]),
        A_ub=limits[0],
        b_ub=np.zeros(sum(len(problem.columns) for problem in problems)),
        A_eq=limits[1],
        b_eq=np.concatenate([problem.rows for problem in problems]),
        bounds=(0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    ends = np.cumsum([problem.log_prices.size + 1 for problem in problems])
    parts = np.split(np.zeros(ends[-1]) if result.x is None else result.x, ends[:-1])
    return [part[:-1].reshape(problem.log_prices.shape) for part, problem in zip(parts, problems, strict=True)]


def _log_price(problem: CouplingProblem, plan: Floats) -> float:
    """The log price of a plan after its rows are corrected to sum to the distribution of the rows."""
    plan = np.maximum(plan, 0.0)
    sums = plan.sum(axis=1)
    empty = sums <= 0
    plan[empty, np.argmin(problem.log_prices[empty], axis=1)] = 1.0
    plan *= (problem.rows / np.where(empty, 1.0, sums))[:, None]
    with np.errstate(divide="ignore"):
        columns = np.logaddexp.reduce(np.log(plan) + problem.log_prices, axis=0) - np.log(problem.columns)
    price = float(columns.max())
    return price + _ROUNDING * (1 + abs(price))
