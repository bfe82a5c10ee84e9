"""A better number from the released one, at no cost in privacy: it uses nothing but the answer and what is public."""

from __future__ import annotations

import numpy as np

from pufferdp.queries import BoundQuery, QueryKind

Answer = int | float | list[int] | list[float]


def feasible(bound: BoundQuery, records: int, answer: Answer) -> Answer:
    """The nearest answer that could be true: counts between 0 and T, histograms that add up to T, sums in range."""
    kind = bound.query.kind
    if kind is QueryKind.FUNCTION:
        return answer
    values = np.asarray(answer if isinstance(answer, list) else [answer], dtype=float)
    if kind is QueryKind.COUNT:
        values = np.clip(values, 0, records)
    elif kind in (QueryKind.HISTOGRAM, QueryKind.FREQUENCY):
        values = _simplex(values, float(records) if kind is QueryKind.HISTOGRAM else 1.0)
    elif bound.range is not None:
        low, high = bound.range
        many = records if kind is QueryKind.SUM else 1
        values = np.clip(values, low * many, high * many)
    numbers = [float(v) for v in values]
    return numbers if isinstance(answer, list) else numbers[0]


def _simplex(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], total: float
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Euclidean projection onto {v ≥ 0, Σv = total}: lower all by one amount, cut at 0 (Held, Wolfe & Crowder 1974)."""
    ordered = np.sort(values)[::-1]
    excess = np.cumsum(ordered) - total
    rank = np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(ordered - excess / rank > 0)[-1])
    return np.asarray(np.maximum(values - excess[last] / (last + 1), 0.0))
