"""Estimate a chain from data, or a class of chains that contains the truth with a stated confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pufferdp import checks
from pufferdp.bins import parse_bins
from pufferdp.data import Coding, Layout, open_series
from pufferdp.errors import DataError
from pufferdp.fingerprint import data_digest
from pufferdp.models.classes import MarkovInterval
from pufferdp.models.markov import MarkovChain, bin_names
from pufferdp.planning import Progress


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A fitted model and what was left out of it."""

    model: MarkovChain | MarkovInterval
    left_out: tuple[str, ...]
    """States that were never left, so they have no row."""
    unvisited: tuple[str, ...]
    """Bins in which no record lies."""


def fit(
    data: object,
    *,
    column: str,
    order: str | None = None,
    by: str | None = None,
    gap: str | float | None = None,
    missing: str = "refuse",
    bins: str | None = None,
    confidence: float | None = None,
    start: str = "stationary",
    progress: Progress | None = None,
) -> Fit:
    """Fit a chain; with ``confidence`` a class that contains the true chain with that probability.

    Args:
        data: a file or a frame, as for a release.
        column: the column with states or numbers.
        order: the column to sort by.
        by: the column that tells people apart.
        gap: a longer step in ``order`` starts a new chain.
        missing: ``"refuse"`` or ``"break"``.
        bins: edges that turn numbers into states.
        confidence: probability that the class contains the truth, over all entries together.
        start: start of the fitted chain, ``"stationary"`` or ``"any"``.
        progress: called with a few words before each step.
    """
    if confidence is not None:
        confidence = checks.probability(confidence, "confidence")
    if progress is not None:
        progress("reading")
    series = open_series(data, Layout(column=column, order=order, by=by, gap=gap, missing=missing))
    if bins is not None:
        edges: tuple[float, ...] | None = parse_bins(bins, span=series.number_range())
        assert edges is not None
        coding = Coding(labels=bin_names(edges), bins=edges)
    else:
        edges, coding = None, Coding(labels=series.found_states())
    counts = series.counts(coding, transitions=True)
    assert counts.transitions is not None
    moves = np.array(counts.transitions, dtype=np.int64)
    kept = states_with_rows(moves)
    if not len(kept):
        raise DataError(
            f"no state of {column!r} is ever left for a state that is left again; a chain needs at least one move "
            "from which it can go on"
        )
    moves = moves[np.ix_(kept, kept)]
    labels = tuple(coding.labels[j] for j in kept)
    seen = [n for n, count in zip(coding.labels, counts.histogram, strict=True) if count]
    left_out = tuple(n for n in seen if n not in labels)
    about: dict[str, Any] = {
        "column": column,
        "records": counts.records,
        "chains": sum(n for _, n in counts.lengths),
        "left_out": list(left_out),
        **data_digest(dict(zip(coding.labels, counts.histogram, strict=True))),
    }
    if confidence is None:
        transition = moves / moves.sum(axis=1, keepdims=True)
        model: MarkovChain | MarkovInterval = MarkovChain(
            transition=transition, start=start, states=labels, bins=edges, fitted=about
        )
    else:
        low, high = confidence_box(moves, confidence)
        about["confidence"] = confidence
        model = MarkovInterval(low=low, high=high, states=labels, bins=edges, fitted=about)
    unvisited = tuple(n for n in coding.labels if n not in seen)
    return Fit(model=model, left_out=left_out, unvisited=unvisited)


def states_with_rows(moves: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> list[int]:
    """States that are left at least once, for a state that is kept itself."""
    kept = list(range(len(moves)))
    while True:
        still = [x for x in kept if moves[x, kept].sum() > 0]
        if still == kept:
            return kept
        kept = still


def confidence_box(
    moves: np.ndarray[tuple[int, ...], np.dtype[np.int64]], confidence: float
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    """Bounds on all transition probabilities that hold together with this confidence.

    How often a state is left depends on the path itself, so bounds for a fixed number of trials (Clopper–Pearson) would
    not be honest here. The successors of one state are independent draws in the order of its visits, so for each entry
    the mixture martingale B(s+½, n−s+½)/(B(½,½)·p^s·(1−p)^(n−s)) stays below 1/α at ALL numbers of visits n at once
    with probability 1−α (Ville 1939; Robbins 1970): the bounds hold at whatever n the path stops.
    """
    from scipy.optimize import brentq
    from scipy.special import betaln

    k = len(moves)
    level = math.log(k * k / (1 - confidence))
    low, high = np.zeros((k, k)), np.ones((k, k))
    solved: dict[tuple[int, int], tuple[float, float]] = {}
    for x in range(k):
        n = int(moves[x].sum())
        for y in range(k):
            s = int(moves[x, y])
            if (s, n) not in solved:
                constant = float(betaln(s + 0.5, n - s + 0.5) - betaln(0.5, 0.5)) - level
                solved[s, n] = _roots(s, n, constant, brentq)
            low[x, y], high[x, y] = solved[s, n]
    return low, high


def _roots(s: int, n: int, constant: float, brentq: Any) -> tuple[float, float]:
    """Where s·log p + (n−s)·log(1−p) falls below ``constant``, on both sides of s/n."""

    def above(p: float) -> float:
        return (s * math.log(p) if s else 0.0) + ((n - s) * math.log1p(-p) if n > s else 0.0) - constant

    share, tiny = s / n, 1e-300
    low = float(brentq(above, tiny, share, xtol=1e-15)) if s and above(tiny) < 0 else 0.0
    high = 1.0
    if s < n:
        high = float(brentq(above, share if share > 0 else tiny, 1 - 1e-16, xtol=1e-15))
    # Bounds are rounded outwards by more than the tolerance of the root.
    return max(0.0, low - 1e-12), min(1.0, high + 1e-12)
