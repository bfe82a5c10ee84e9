"""A better number from the released one, at no cost in privacy: it uses nothing but the answer and what is public."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pufferdp.queries import BoundQuery, QueryKind

Answer = int | float | list[int] | list[float]
Values = npt.NDArray[np.float64]


def feasible(bound: BoundQuery, records: int, answer: Answer) -> Answer:
    """The nearest answer that could be true: counts between 0 and T, histograms that add up to T, sums in range."""
    kind = bound.query.kind
    if kind is QueryKind.FUNCTION:
        return answer
    values = np.asarray(answer if isinstance(answer, list) else [answer], dtype=float)
    if kind in (QueryKind.HISTOGRAM, QueryKind.FREQUENCY):
        total = float(records) if kind is QueryKind.HISTOGRAM else 1.0
        values = simplex(values, total) if bound.extent is None else _box(values, total, np.array(bound.extent))
    elif bound.extent is not None:
        values = np.clip(values, *bound.extent[0])
    elif kind is QueryKind.COUNT:
        values = np.clip(values, 0, records)
    elif bound.range is not None:
        low, high = bound.range
        many = records if kind is QueryKind.SUM else 1
        values = np.clip(values, low * many, high * many)
    numbers = [float(v) for v in values]
    return numbers if isinstance(answer, list) else numbers[0]


def _box(values: Values, total: float, extent: Values) -> Values:
    """Euclidean projection onto {low ≤ v ≤ high, Σv = total}: move all by one amount, cut at both ends."""
    low, high = extent.T
    # The sum falls as the amount rises, by straight lines between these bends.
    bends = np.unique(np.concatenate([values - low, values - high]))
    sums = np.array([np.clip(values - bend, low, high).sum() for bend in bends])
    amount = np.interp(-total, -sums, bends)
    return np.asarray(np.clip(values - amount, low, high))


def simplex(values: Values, total: float) -> Values:
    """Euclidean projection onto {v ≥ 0, Σv = total}: lower all by one amount, cut at 0 (Held, Wolfe & Crowder 1974).

    Along the last axis: one vector, or many at once.
    """
    ordered = np.sort(values, axis=-1)[..., ::-1]
    excess = np.cumsum(ordered, axis=-1) - total
    rank = np.arange(1, values.shape[-1] + 1)
    last = len(rank) - 1 - np.argmax((ordered - excess / rank > 0)[..., ::-1], axis=-1, keepdims=True)
    amount = np.take_along_axis(excess, last, axis=-1) / (last + 1)
    return np.asarray(np.maximum(values - amount, 0.0))
