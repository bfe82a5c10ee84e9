"""Sums and convolutions of masses kept as logarithms: right to many digits however small the masses are."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Logs = npt.NDArray[np.float64]

_VALID: Final = 1e-280
"""Products below 1e-300 are lost in doubles; a sum of them above this has lost nothing that shows."""
_MOST_TILTS: Final = 8


def log_sum(logs: Logs, axis: int = -1) -> Logs:
    """Log of the sum of exponentials along an axis."""
    top = np.max(logs, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(logs - shift).sum(axis=axis, keepdims=True)) + shift
    return np.asarray(np.squeeze(total, axis=axis))


def log_step(logs: Logs, transition: npt.NDArray[np.float64]) -> Logs:
    """Log of transition' · exp(logs): rows are states, columns are kept apart."""
    top = logs.max(axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        out = np.log(transition.T @ np.exp(logs - shift)) + shift
        # A state far below its column's largest is lost in doubles, and it may be the only way to another state.
        deep = np.flatnonzero(((logs > -np.inf) & (logs < top - 600)).any(axis=0))
        if len(deep):
            out[:, deep] = log_sum(np.log(transition)[:, :, None] + logs[:, None, deep], axis=0)
    return np.asarray(out)


def log_convolve(a: Logs, b: Logs) -> Logs:
    """Log of the convolution of two laws.

    Multiplying both by exp(t·place) multiplies the result by the same, so a few tilts bring every place in turn into
    the range of doubles. What no tilt reaches is summed in logarithms.
    """
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    possible = np.convolve(np.isfinite(a).astype(float), np.isfinite(b).astype(float)) > 0.5
    out = np.full(len(possible), -np.inf)
    missing, tilt = possible.copy(), 0.0
    for _ in range(_MOST_TILTS):
        if not missing.any():
            return out
        found = _tilted(a, b, tilt)
        take = missing & (found > np.log(_VALID))
        out[take] = found[take] - tilt * np.flatnonzero(take) + _offset(a, b, tilt)
        missing &= ~take
        if missing.any():
            tilt = _tilt_for(a, b, int(np.flatnonzero(missing)[np.count_nonzero(missing) // 2]))
    for place in np.flatnonzero(missing).tolist():
        u = np.arange(max(0, place - len(b) + 1), min(len(a), place + 1))
        out[place] = log_sum(a[u] + b[place - u])
    return out


def _tilted(a: Logs, b: Logs, tilt: float) -> Logs:
    """Log of the convolution of both tilted laws, each scaled to a largest mass of 1."""
    x, y = a + tilt * np.arange(len(a)), b + tilt * np.arange(len(b))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.convolve(np.exp(x - x.max()), np.exp(y - y.max()))))


def _offset(a: Logs, b: Logs, tilt: float) -> float:
    return float((a + tilt * np.arange(len(a))).max() + (b + tilt * np.arange(len(b))).max())


def _tilt_for(a: Logs, b: Logs, place: int) -> float:
    """A tilt under which the masses that meet at ``place`` are among the largest."""
    u = np.arange(max(0, place - len(b) + 1), min(len(a), place + 1))
    best = int(u[np.argmax(a[u] + b[place - u])])
    slopes = [_slope(a, best), _slope(b, place - best)]
    known = [s for s in slopes if np.isfinite(s)]
    return -float(np.mean(known)) if known else 0.0


def _slope(logs: Logs, at: int) -> float:
    """The slope of a law at a possible place, from its nearest possible neighbours."""
    places = np.flatnonzero(np.isfinite(logs))
    n = int(np.searchsorted(places, at))
    low, high = places[max(0, n - 1)], places[min(len(places) - 1, n + 1)]
    return float((logs[high] - logs[low]) / (high - low)) if high > low else np.nan
