"""Estimate a chain from data, or a class of chains that contains the truth with a stated confidence."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.checks import MOST_RECORDS
from pufferdp.basics.errors import DataError, DeliveryError, ParameterError, PufferdpError
from pufferdp.basics.paged import Paged
from pufferdp.basics.progress import Progress, silent
from pufferdp.data.layout import Coding, Counts, Place
from pufferdp.data.series import Series, open_series
from pufferdp.models.bins import parse_bins
from pufferdp.models.chain import MarkovChain, bin_names
from pufferdp.models.chain_classes import MarkovInterval
from pufferdp.models.files.json import model_to_dict
from pufferdp.publish.fingerprint import data_digest
from pufferdp.publish.fits.bins import refuse_numbers, refuse_times
from pufferdp.publish.fits.bounds import confidence_box, noisy_box, noisy_counts
from pufferdp.publish.fits.checks import Check, check_model
from pufferdp.publish.fits.kind import KIND, FitProblem
from pufferdp.publish.kind import Made
from pufferdp.publish.noise import Sampler, SystemSampler
from pufferdp.publish.pipeline import Account, Charged, Publication, Reading

if TYPE_CHECKING:
    from pufferdp.ledger.balance import Receipt
    from pufferdp.ledger.ledger import Ledger

MOST_CHECKED: Final = 20_000_000
"""Checks bring the states to Python; beyond so many records they are not made."""


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
    """Where a private fit was charged; None without a ledger."""
    checks: tuple[Check, ...] = ()
    """Whether the model describes the data. Exact, so they are for the owner of the data and not in the model file;
    none of a private fit, and none where they were not asked for."""
    checked: bool = False
    """Whether checks were made."""

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp fit --json`` prints: the model, and the checks where they were made."""
        checks = {"checks": [check.to_dict() for check in self.checks]} if self.checked else {}
        return {**model_to_dict(self.model), **checks}


def fit(
    data: object,
    *,
    column: str,
    order: str | None = None,
    by: str | None = None,
    gap: str | float | None = None,
    missing: str = "refuse",
    first: Place | None = None,
    last: Place | None = None,
    bins: str | None = None,
    confidence: float | None = None,
    start: str = "stationary",
    states: Sequence[str] | None = None,
    as_states: bool = False,
    checks: bool = True,
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
        first: read only the records from this place of ``order`` on, itself included: a number, a date or a time.
        last: read only those up to this place, itself included; a date is the whole day.
        bins: edges that turn numbers into states.
        confidence: probability that the class contains the truth, over all entries together.
        start: start of the fitted chain, ``"stationary"`` or ``"any"``.
        states: the states by name; those found in the column by default.
        as_states: take the numbers of the column as states, however many there are.
        checks: ask whether the model describes the data. A private fit leaves this out.
        dp_epsilon: fit from noisy transition counts that lose this much DP.
        ledger: where a private fit is charged before its noise is drawn.
        dataset: which data set of the ledger; one without a model adopts the fitted one.
        sampler: where the noise of a private fit comes from; the operating system by default.
        progress: called with a few words before each step.
    """
    return FitPublication(
        data=data,
        reading=Reading(column=column, order=order, by=by, gap=gap, missing=missing, first=first, last=last),
        bins=bins,
        confidence=confidence,
        start=start,
        states=states,
        as_states=as_states,
        checks=checks,
        dp_epsilon=dp_epsilon,
        account=Account(ledger, dataset),
        sampler=sampler or SystemSampler(),
        progress=progress or silent,
    ).publish()


@dataclass(frozen=True, kw_only=True, repr=False)
class Counted:
    """The counts of a series. Never printed."""

    counts: Counts
    coding: Coding
    moves: npt.NDArray[np.int64]
    checks: tuple[Check, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class FitPublication(Publication[FitProblem, float, Counted, Fit]):
    """A model on its way out."""

    reading: Reading
    bins: str | None
    confidence: float | None
    start: str
    states: Sequence[str] | None
    dp_epsilon: float | None
    as_states: bool = False
    checks: bool = True

    kind = KIND

    def check(self) -> None:
        """Refuse what a private fit would tell besides its noisy counts."""
        if self.confidence is not None:
            checks.probability(self.confidence, "confidence")
        if self.states is not None and self.bins is not None:
            raise ParameterError("states and bins are both given; bins make the states: leave one of them out")
        if self.dp_epsilon is not None:
            checks.epsilon(self.dp_epsilon, "dp_epsilon")
            if self.states is None and self.bins is None:
                raise ParameterError(
                    "states is missing; which states occur in the data is not public, so a private fit must be told "
                    "them: --states a,b,c, or --bins with a range"
                )
            if self.bins is not None:
                parse_bins(self.bins)  # a bare width would take its range from the data
        elif self.account.has_ledger:
            raise ParameterError("ledger is given, but the fit is not private: say what it may spend with --dp-epsilon")
        _ = self.reading.layout

    def expect(self, ledger: Ledger, dataset: str) -> None:
        """The data set must be there."""
        ledger.dataset(dataset)

    def read(self) -> Counted:
        """The exact counts of states and transitions."""
        self.progress("reading")
        series = open_series(self.data, self.reading.layout)
        if self.bins is not None:
            edges = parse_bins(self.bins, span=series.number_range() if self.dp_epsilon is None else None)
            assert edges is not None
            coding = Coding(labels=bin_names(edges), bins=edges)
        else:
            coding = Coding(labels=self._found_states(series) if self.states is None else tuple(self.states))
        counts = series.counts(coding, transitions=True, ranges=self.account.has_ledger)
        moves = np.array(counts.transitions, dtype=np.int64)
        return Counted(counts=counts, coding=coding, moves=moves, checks=self._checks(series, coding, counts))

    def _found_states(self, series: Series) -> tuple[str, ...]:
        """The states in the column; refused where they look like numbers or times, which are no states."""
        if not self.as_states:
            refuse_times(series)
            refuse_numbers(series)
        return series.found_states()

    def _checks(self, series: Series, coding: Coding, counts: Counts) -> tuple[Check, ...] | None:
        """What the exact data say of the model; a private fit must not tell."""
        if self.dp_epsilon is not None or not self.checks or counts.records > MOST_CHECKED:
            return None
        self.progress("checking the model")
        return check_model(series.path(coding, numbers=coding.bins is not None))

    def problem(self, exact: Counted) -> FitProblem:
        """What may be spent, on chains of this length."""
        return FitProblem(
            dp_epsilon=None if self.dp_epsilon is None else checks.epsilon(self.dp_epsilon, "dp_epsilon"),
            confidence=None if self.confidence is None else checks.probability(self.confidence, "confidence"),
            longest=MOST_RECORDS if self.reading.is_part else max(length for length, _ in exact.counts.lengths),
            states=len(exact.moves),
            ranges=exact.counts.ranges,
        )

    def charge(self, problem: FitProblem, solution: float) -> Charged:
        """A private fit is charged; there is no ledger for any other."""
        return Charged() if problem.dp_epsilon is None else super().charge(problem, solution)

    def draw(self, problem: FitProblem, solution: float, exact: Counted, charged: Charged) -> Fit:
        """The model, from noisy counts where it is private."""
        private, confidence, labels = problem.dp_epsilon is not None, problem.confidence, exact.coding.labels
        moves = noisy_counts(exact.moves, solution, self.sampler) if private else exact.moves
        if private and confidence is not None:
            indices = list(range(len(moves)))  # noise cannot tell which states are left, so the class has all of them
        else:
            moves = np.maximum(moves, 0)
            indices = states_with_rows(moves)
        if not len(indices):
            raise DataError(
                f"no state of {self.reading.column!r} is ever left for a state that is left again; a chain needs at "
                "least one move from which it can go on"
            )
        moves = moves[np.ix_(indices, indices)]
        states = tuple(labels[j] for j in indices)
        counted = dict(zip(labels, exact.counts.histogram, strict=True))
        seen = [name for name in labels if private or counted[name]]  # which of them occur is not public
        left_out = tuple(name for name in seen if name not in states)
        data = {
            "column": self.reading.column,
            "records": exact.counts.records,
            "chains": sum(n for _, n in exact.counts.lengths),
            **({} if private else data_digest(counted)),
            "left_out": list(left_out),
        }
        fitted = self.kind.certify(problem, solution, Made(data=data)).to_dict()
        bins = exact.coding.bins
        model: MarkovChain | MarkovInterval
        if confidence is None:
            transition = moves / moves.sum(axis=1, keepdims=True)
            model = MarkovChain(transition=transition, start=self.start, states=states, bins=bins, fitted=fitted)
        else:
            low, high = noisy_box(moves, confidence, solution) if private else confidence_box(moves, confidence)
            model = MarkovInterval(low=low, high=high, states=states, bins=bins, fitted=fitted)

        def adopt(ledger: Ledger, dataset: str) -> None:
            if ledger.dataset(dataset).model is None:
                ledger.adopt(dataset, model)

        unvisited = tuple(name for name in labels if name not in seen)
        receipt, spent = charged.receipt, problem.dp_epsilon
        fit = Fit(
            model=model,
            left_out=left_out,
            unvisited=unvisited,
            dp_epsilon=spent,
            receipt=receipt,
            checks=exact.checks or (),
            checked=exact.checks is not None,
        )
        try:
            self.account.ask(adopt)
        except PufferdpError as error:
            raise DeliveryError(
                f"{charged.words}, but the ledger did not take its model: {error}", result=fit
            ) from error
        return fit


def states_with_rows(moves: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> list[int]:
    """States that are left at least once, for a state that is kept itself."""
    states = list(range(len(moves)))
    while True:
        still = [x for x in states if moves[x, states].sum() > 0]
        if still == states:
            return states
        states = still
