"""Estimate a chain from data, or a class of chains that contains the truth with a stated confidence."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.errors import DataError, ParameterError
from pufferdp.basics.paged import Paged
from pufferdp.basics.progress import Progress
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.series import open_series
from pufferdp.ledger import opened
from pufferdp.models.bins import parse_bins
from pufferdp.models.chain import MarkovChain, bin_names
from pufferdp.models.chain_classes import MarkovInterval
from pufferdp.publish.fingerprint import data_digest
from pufferdp.publish.fits.bounds import TRANSITIONS_MOVE, confidence_box, noisy_box, noisy_counts, transition_scale
from pufferdp.publish.noise import Sampler, SystemSampler

if TYPE_CHECKING:
    from pufferdp.ledger.balance import Receipt
    from pufferdp.ledger.charge import Charge
    from pufferdp.ledger.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class Fit(Paged):
    """A fitted model and what was left out of it."""

    model: MarkovChain | MarkovInterval
    left_out: tuple[str, ...]
    """States that were never left, so they have no row."""
    unvisited: tuple[str, ...]
    """Bins in which no record lies; a private fit does not say."""
    dp_epsilon: float | None = None
    """The DP loss that a private fit has spent on the data."""
    receipt: Receipt | None = None
    """Where it was charged."""


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
    states: Sequence[str] | None = None,
    dp_epsilon: float | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    sampler: Sampler | None = None,
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
        states: the states by name; those found in the column by default.
        dp_epsilon: fit from noisy transition counts that lose this much DP.
        ledger: where a private fit is charged before its noise is drawn.
        dataset: which data set of the ledger; one without a model adopts the fitted one.
        sampler: where the noise of a private fit comes from; the operating system by default.
        progress: called with a few words before each step.
    """
    if confidence is not None:
        confidence = checks.probability(confidence, "confidence")
    if states is not None and bins is not None:
        raise ParameterError("states and bins are both given; bins make the states: leave one of them out")
    if dp_epsilon is not None:
        dp_epsilon = checks.epsilon(dp_epsilon, "dp_epsilon")
        if states is None and bins is None:
            raise ParameterError(
                "states is missing; which states occur in the data is not public, so a private fit must be told them: "
                "--states a,b,c, or --bins with a range"
            )
        if bins is not None:
            parse_bins(bins)  # a bare width would take its range from the data
    elif ledger is not None:
        raise ParameterError("ledger is given, but the fit is not private: say what it may spend with --dp-epsilon")
    with opened(ledger, dataset) as books:
        if books is not None and dataset is not None:
            books.dataset(dataset)  # one that is not there is refused before the data is read
    if progress is not None:
        progress("reading")
    series = open_series(data, Layout(column=column, order=order, by=by, gap=gap, missing=missing))
    if bins is not None:
        span = series.number_range() if dp_epsilon is None else None
        edges: tuple[float, ...] | None = parse_bins(bins, span=span)
        assert edges is not None
        coding = Coding(labels=bin_names(edges), bins=edges)
    else:
        edges, coding = None, Coding(labels=series.found_states() if states is None else tuple(states))
    counts = series.counts(coding, transitions=True)
    assert counts.transitions is not None
    about: dict[str, Any] = {
        "column": column,
        "records": counts.records,
        "chains": sum(n for _, n in counts.lengths),
    }
    moves = np.array(counts.transitions, dtype=np.int64)
    receipt: Receipt | None = None
    scale = 0.0
    if dp_epsilon is not None:
        scale = transition_scale(dp_epsilon)
        with opened(ledger, dataset) as books:
            if books is not None and dataset is not None:
                longest = max(length for length, _ in counts.lengths)
                receipt = books.charge(dataset, fit_charge(dp_epsilon, scale, longest, len(moves)))
        moves = noisy_counts(moves, scale, sampler or SystemSampler())
        about["dp_epsilon"] = dp_epsilon
    if dp_epsilon is not None and confidence is not None:
        kept = list(range(len(moves)))  # noise cannot tell which states are left, so the class has all of them
    else:
        moves = np.maximum(moves, 0)
        kept = states_with_rows(moves)
    if not len(kept):
        raise DataError(
            f"no state of {column!r} is ever left for a state that is left again; a chain needs at least one move "
            "from which it can go on"
        )
    moves = moves[np.ix_(kept, kept)]
    labels = tuple(coding.labels[j] for j in kept)
    seen = [n for n, count in zip(coding.labels, counts.histogram, strict=True) if count]
    if dp_epsilon is not None:
        seen = list(coding.labels)  # which of them occur is not public
    else:
        about |= data_digest(dict(zip(coding.labels, counts.histogram, strict=True)))
    left_out = tuple(n for n in seen if n not in labels)
    about["left_out"] = list(left_out)
    if confidence is None:
        transition = moves / moves.sum(axis=1, keepdims=True)
        model: MarkovChain | MarkovInterval = MarkovChain(
            transition=transition, start=start, states=labels, bins=edges, fitted=about
        )
    else:
        low, high = confidence_box(moves, confidence) if dp_epsilon is None else noisy_box(moves, confidence, scale)
        about["confidence"] = confidence
        model = MarkovInterval(low=low, high=high, states=labels, bins=edges, fitted=about)
    unvisited = tuple(n for n in coding.labels if n not in seen)
    with opened(ledger, dataset) as books:
        if books is not None and dataset is not None and books.dataset(dataset).model is None:
            books.adopt(dataset, model)
    return Fit(model=model, left_out=left_out, unvisited=unvisited, dp_epsilon=dp_epsilon, receipt=receipt)


def fit_charge(dp_epsilon: float, scale: float, longest: int, states: int) -> Charge:
    """What a private fit charges."""
    from pufferdp.ledger.charge import Charge

    facts = {"states": states, "lipschitz": TRANSITIONS_MOVE, "scale": scale}
    return Charge(kind="fit", dp_loss=dp_epsilon, longest=longest, facts=facts)


def states_with_rows(moves: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> list[int]:
    """States that are left at least once, for a state that is kept itself."""
    kept = list(range(len(moves)))
    while True:
        still = [x for x in kept if moves[x, kept].sum() > 0]
        if still == kept:
            return kept
        kept = still
