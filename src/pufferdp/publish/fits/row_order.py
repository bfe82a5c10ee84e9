"""Whether rows that were taken as they come depend on each other as much as rows sorted by a column of times.

Rows in another order than that of time look nearly independent, and a model of them asks for too little noise. The
statistic is the difference of the mean log-likelihood of a move, in the order of the rows and in that of the column,
each under the transition matrix of its own order (Vuong 1989). Both matrices have as many parameters, so that what is
fitted to chance cancels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pufferdp.basics.errors import DataError
from pufferdp.data.layout import Coding, Layout, columns_of
from pufferdp.data.series import open_series
from pufferdp.data.sources import time_columns
from pufferdp.publish.fits.checks import LEAST_P, LEVEL, Check

NAME = "row-order"


def check_row_order(data: object, layout: Layout, coding: Coding) -> Iterator[Check]:
    """A check for every column of times, where the rows are stated to be in time order; none otherwise."""
    if not layout.rows_in_order:
        return
    moves = _moves(data, layout, coding)
    for column in time_columns(data):
        if column in columns_of(layout).roles.values():
            continue
        check = Check(
            name=NAME,
            question=f"rows as they come against rows sorted by {column!r}",
            advice=f"sorted by {column!r} the rows depend on each other more: they are not in time order, and the "
            f"noise for this model is too small; name {column!r} as the order",
        )
        try:
            ordered = _moves(data, replace(layout, order=column, rows_in_order=False), coding)
        except DataError:  # two rows have the same time, or one has none
            yield replace(check, reason=f"{column!r} does not put every row in its place")
            continue
        deviate = _deviate(moves, ordered)
        p_value = max(LEAST_P, math.erfc(deviate / math.sqrt(2)) / 2)
        yield replace(check, statistic=max(0.0, deviate) ** 2, degrees_of_freedom=1, p_value=p_value, level=LEVEL)


def _moves(data: object, layout: Layout, coding: Coding) -> npt.NDArray[np.int64]:
    return np.array(open_series(data, layout).counts(coding, transitions=True).transitions, dtype=np.int64)


def _deviate(rows: npt.NDArray[np.int64], ordered: npt.NDArray[np.int64]) -> float:
    """By how many standard errors moves are likelier in the second order than in the first."""
    (first, spread), (second, other_spread) = _log_likelihood(rows), _log_likelihood(ordered)
    # The moves of both orders are of the same records: twice the sum bounds the variance however they are correlated.
    error = math.sqrt(2 * (spread + other_spread) / max(1, min(rows.sum(), ordered.sum())))
    return (second - first) / error if error > 0 else 0.0


def _log_likelihood(moves: npt.NDArray[np.int64]) -> tuple[float, float]:
    """Mean and variance of the log-likelihood of a move."""
    made = moves > 0
    logs = np.log((moves / np.maximum(moves.sum(axis=1, keepdims=True), 1))[made])
    weights = moves[made] / max(1, int(moves.sum()))
    mean = float(weights @ logs)
    return mean, float(weights @ (logs - mean) ** 2)
