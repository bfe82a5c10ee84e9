"""The cheapest plan that moves one law onto another, where what counts is the dearest target.

Given laws p of rows and q of columns, and prices w(i, j) > 0, find C ≥ 0 with row sums p that makes
max over j of Σ_i C(i, j) w(i, j) / q(j) small. It is a linear programme. With two rows or two columns a sorted list
solves it; otherwise a solver does, and its plan is put right and priced again, so that rounding cannot make it cheaper.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pufferdp.basics.arrays import Floats

_ROOM: Final = 1e-12
"""Room for the rounding of a price, as a share."""


def cheapest_plan(p: Floats, q: Floats, prices: Floats) -> float:
    """The price of the best plan; entries of p and q are above 0.

    >>> cheapest_plan(np.array([0.5, 0.5]), np.array([1.0]), np.array([[1.0], [3.0]]))
    2.000000000002
    """
    rows, columns = prices.shape
    if columns == 1:
        plan = p[:, None]
    elif rows == 1:
        share = q / prices[0]
        plan = (share / share.sum())[None] * p[0]
    elif columns == 2:
        plan = _two_columns(p, q, prices)
    elif rows == 2:
        plan = _two_rows(p, q, prices)
    else:
        plan = _by_programme(p, q, prices)
    plan = plan * (p / plan.sum(axis=1))[:, None]
    return float(((plan * prices).sum(axis=0) / q).max()) * (1 + _ROOM)


def _two_columns(p: Floats, q: Floats, prices: Floats) -> Floats:
    """Rows that are cheap in the first column go there, in order, until both columns cost the same."""
    order = np.argsort(prices[:, 0] / prices[:, 1])
    first, second = p * prices[:, 0] / q[0], p * prices[:, 1] / q[1]
    paid = np.concatenate([[0.0], np.cumsum(first[order])])
    open_ = second.sum() - np.concatenate([[0.0], np.cumsum(second[order])])
    at = int(np.argmax(paid[1:] >= open_[1:]))
    row = order[at]
    # Of this row a share f goes to the first column: paid + f·first = open − f·second.
    share = float(np.clip((open_[at] - paid[at]) / (first[row] + second[row]), 0.0, 1.0))
    left = np.zeros(len(p))
    left[order[:at]] = 1.0
    left[row] = share
    return np.stack([p * left, p * (1 - left)], axis=1)


def _two_rows(p: Floats, q: Floats, prices: Floats) -> Floats:
    """Columns that are cheap for the first row are filled by it, in order; the rest by the second."""
    order = np.argsort(prices[0] / prices[1])
    # At a common price t a column takes t·q/price of a row, so only the proportion of both rows is open.
    first, second = q / prices[0] / p[0], q / prices[1] / p[1]
    filled = np.concatenate([[0.0], np.cumsum(first[order])])
    rest = second.sum() - np.concatenate([[0.0], np.cumsum(second[order])])
    at = int(np.argmax(filled[1:] >= rest[1:]))
    column = order[at]
    share = float(np.clip((rest[at] - filled[at]) / (first[column] + second[column]), 0.0, 1.0))
    taken = np.zeros(len(q))
    taken[order[:at]] = 1.0
    taken[column] = share
    plan = np.stack([taken * q / prices[0], (1 - taken) * q / prices[1]])
    return np.asarray(plan)


def _by_programme(p: Floats, q: Floats, prices: Floats) -> Floats:
    from scipy.optimize import linprog

    rows, columns = prices.shape
    many = rows * columns
    scale = prices.max()
    above = np.zeros((columns, many + 1))
    for j in range(columns):
        above[j, j:many:columns] = prices[:, j] / scale / q[j]
    above[:, many] = -1.0
    equal = np.zeros((rows, many + 1))
    for i in range(rows):
        equal[i, i * columns : (i + 1) * columns] = 1.0
    objective = np.zeros(many + 1)
    objective[many] = 1.0
    found = linprog(objective, A_ub=above, b_ub=np.zeros(columns), A_eq=equal, b_eq=p, bounds=(0, None))
    plan = np.outer(p, q / q.sum()) if found.x is None else np.maximum(found.x[:many].reshape(rows, columns), 0.0)
    return np.where(plan.sum(axis=1, keepdims=True) > 0, plan, np.outer(p, q / q.sum()))
