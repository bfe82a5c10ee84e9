"""Estimate a chain from data, or a class of chains that contains the truth with a stated confidence."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

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
from pufferdp.models.memory import MemoryChain
from pufferdp.publish.fingerprint import data_digest
from pufferdp.publish.fits.bounds import confidence_box, noisy_box, noisy_counts
from pufferdp.publish.fits.kind import KIND, FitProblem
from pufferdp.publish.kind import Made
from pufferdp.publish.noise import Sampler, SystemSampler
from pufferdp.publish.pipeline import Account, Charged, Publication, Reading

if TYPE_CHECKING:
    from pufferdp.ledger.balance import Receipt
    from pufferdp.ledger.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class Fit(Paged):
    """A fitted model and what was left out of it."""

    model: MarkovChain | MarkovInterval | MemoryChain
    left_out: tuple[str, ...]
    """States that were never left, so they have no row."""
    unvisited: tuple[str, ...]
    """Bins in which no record lies; a private fit does not say."""
    prior: float | None = None
    """What was added to every transition count."""
    lent_rows: tuple[str, ...] = ()
    """Of a chain of second order: pairs that nothing was seen to follow, which have the row of their last state."""
    dp_epsilon: float | None = None
    """The DP loss that a private fit has spent on the data."""
    receipt: Receipt | None = None
    """Where a private fit was charged; None without a ledger."""


def fit(
    data: object,
    *,
    column: str,
    order: str | None = None,
    by: str | None = None,
    restart: str | float | None = None,
    missing: str = "refuse",
    independent: bool = False,
    first: Place | None = None,
    last: Place | None = None,
    bins: str | None = None,
    confidence: float | None = None,
    start: str = "stationary",
    states: Sequence[str] | None = None,
    prior: float | None = None,
    memory: int = 1,
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
        restart: what follows a longer gap in ``order`` is believed to be independent of what went before: ``"8h"`` or a
            number in its unit. Without it the chain goes on behind every gap.
        missing: ``"refuse"``, or ``"hole"``: a missing value is a record of the chain that is not read.
        independent: that the values of ``by`` are independent, although they do not look like people.
        first: read only the records from this place of ``order`` on, itself included: a number, a date or a time.
        last: read only those up to this place, itself included; a date is the whole day.
        bins: edges that turn numbers into states.
        confidence: probability that the class contains the truth, over all entries together.
        start: start of the fitted chain, ``"stationary"`` or ``"any"``.
        states: the states by name; those found in the column by default.
        prior: added to every transition count, so that states without a move of their own have a row as well.
        memory: how many records the next one depends on: 1, or 2 for a chain of second order.
        dp_epsilon: fit from noisy transition counts that lose this much DP.
        ledger: where a private fit is charged before its noise is drawn.
        dataset: which data set of the ledger; one without a model adopts the fitted one.
        sampler: where the noise of a private fit comes from; the operating system by default.
        progress: called with a few words before each step.
    """
    return FitPublication(
        data=data,
        reading=Reading(
            column=column,
            order=order,
            by=by,
            restart=restart,
            missing=missing,
            independent=independent,
            first=first,
            last=last,
        ),
        bins=bins,
        confidence=confidence,
        start=start,
        states=states,
        prior=prior,
        memory=memory,
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
    triples: npt.NDArray[np.int64] | None = None
    """How often three records followed each other, for a chain of second order."""
    step: str | float | None = None
    """The time from one record to the next, where the data has one."""


@dataclass(frozen=True, kw_only=True)
class FitPublication(Publication[FitProblem, float, Counted, Fit]):
    """A model on its way out."""

    reading: Reading
    bins: str | None
    confidence: float | None
    start: str
    states: Sequence[str] | None
    prior: float | None
    memory: int
    dp_epsilon: float | None

    kind = KIND

    def check(self) -> None:
        """Refuse what a private fit would tell besides its noisy counts."""
        if self.confidence is not None:
            checks.probability(self.confidence, "confidence")
        if self.prior is not None:
            check_prior(self.prior)
            if self.confidence is not None:
                raise ParameterError(
                    f"prior is {self.prior:g}; a class with a confidence rests on what was counted alone: "
                    "leave out the prior or the confidence",
                    value=self.prior,
                )
        if self.memory not in (1, 2):
            raise ParameterError(
                f"memory is {self.memory}; the next record depends on the last one (1) or on the last two (2)",
                value=self.memory,
            )
        for name, value in (("confidence", self.confidence), ("dp_epsilon", self.dp_epsilon)):
            if self.memory == 2 and value is not None:
                raise ParameterError(
                    f"memory is 2 and {name} is {value:g}; bounds and noise are worked out for moves from one record "
                    "to the next: leave out one of both",
                    value=value,
                )
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
        layout = self.reading.layout
        series = open_series(self.data, layout)
        step = self.usual_step(series)
        if step is not None:
            layout = replace(layout, step=step)
            series = open_series(self.data, layout)
        if self.bins is not None:
            edges = parse_bins(self.bins, span=series.number_range() if self.dp_epsilon is None else None)
            assert edges is not None
            coding = Coding(labels=bin_names(edges), bins=edges)
        else:
            coding = Coding(labels=series.found_states() if self.states is None else tuple(self.states))
        counts = series.counts(coding, transitions=True, ranges=self.account.has_ledger)
        return Counted(
            counts=counts,
            coding=coding,
            moves=np.array(counts.transitions, dtype=np.int64),
            triples=_triples(series.states(coding, pieces=True), len(coding.labels)) if self.memory == 2 else None,
            step=layout.step,
        )

    def usual_step(self, series: Series) -> str | float | None:
        """The step of the data, where its places lie on one: rows that are not there are holes then.

        Places that lie on no grid have no step, and rows count as neighbours. So they do where a fit is private: which
        step is the usual one is not public.
        """
        if self.dp_epsilon is not None:
            return None
        step = series.usual_step()
        return step if step is None or series.on_step(step) else None

    def problem(self, exact: Counted) -> FitProblem:
        """What may be spent, on chains of this length; of any where records are missing, or the series goes on."""
        endless = self.reading.is_part or exact.counts.missing + exact.counts.holes > 0
        return FitProblem(
            dp_epsilon=None if self.dp_epsilon is None else checks.epsilon(self.dp_epsilon, "dp_epsilon"),
            confidence=None if self.confidence is None else checks.probability(self.confidence, "confidence"),
            longest=MOST_RECORDS if endless else max(length for length, _ in exact.counts.lengths),
            prior=None if self.prior is None else check_prior(self.prior),
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
        elif problem.prior is not None:
            indices = list(range(len(moves)))  # every state has a row
        else:
            indices = states_with_rows(np.maximum(moves, 0))
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
        model: MarkovChain | MarkovInterval | MemoryChain
        lent: tuple[str, ...] = ()
        if exact.triples is not None:
            table, rows = _second_order(exact.triples[np.ix_(indices, indices, indices)], moves, problem.prior or 0.0)
            lent = tuple(f"{states[x]} then {states[y]}" for x, y in rows)
            model = MemoryChain(
                transition=table, start=self.start, states=states, bins=bins, step=exact.step, fitted=fitted
            )
        elif confidence is None:
            weights = np.maximum(moves, 0) + (problem.prior or 0.0)
            transition = weights / weights.sum(axis=1, keepdims=True)
            model = MarkovChain(
                transition=transition, start=self.start, states=states, bins=bins, step=exact.step, fitted=fitted
            )
        else:
            low, high = noisy_box(moves, confidence, solution) if private else confidence_box(moves, confidence)
            model = MarkovInterval(low=low, high=high, states=states, bins=bins, step=exact.step, fitted=fitted)

        def adopt(ledger: Ledger, dataset: str) -> None:
            if ledger.dataset(dataset).model is None:
                ledger.adopt(dataset, model)

        unvisited = tuple(name for name in labels if name not in seen)
        receipt, spent = charged.receipt, problem.dp_epsilon
        fit = Fit(
            model=model,
            left_out=left_out,
            unvisited=unvisited,
            prior=problem.prior,
            lent_rows=lent,
            dp_epsilon=spent,
            receipt=receipt,
        )
        try:
            self.account.ask(adopt)
        except PufferdpError as error:
            raise DeliveryError(
                f"{charged.words}, but the ledger did not take its model: {error}", result=fit
            ) from error
        return fit


def _triples(paths: Sequence[npt.NDArray[np.int64]], k: int) -> npt.NDArray[np.int64]:
    """How often three states followed each other without a hole between them."""
    counts = np.zeros((k, k, k), dtype=np.int64)
    for path in paths:
        np.add.at(counts, (path[:-2], path[1:-1], path[2:]), 1)
    return counts


def _second_order(
    triples: npt.NDArray[np.int64], moves: npt.NDArray[np.int64], prior: float
) -> tuple[npt.NDArray[np.float64], list[tuple[int, int]]]:
    """The laws of the next state after each pair, and the pairs without one: they have that of their last state."""
    weights = triples + prior
    total = weights.sum(axis=2, keepdims=True)
    table = np.ones(weights.shape) / len(weights)  # with a prior no row of it is left
    if prior == 0:
        table[:] = moves / moves.sum(axis=1, keepdims=True)
    np.divide(weights, total, out=table, where=total > 0)
    return table, [(int(x), int(y)) for x, y in np.argwhere(total[..., 0] == 0)]


def check_prior(value: float) -> float:
    """What may be added to every transition count: a finite number above 0."""
    number = checks.any_number("prior", value)
    if not 0 < number < math.inf:
        raise ParameterError(
            f"prior is {number:g}; what is added to every transition count must be a finite number above 0, for "
            "example .5",
            value=value,
        )
    return number


def states_with_rows(moves: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> list[int]:
    """States that are left at least once, for a state that is kept itself."""
    states = list(range(len(moves)))
    while True:
        still = [x for x in states if moves[x, states].sum() > 0]
        if still == states:
            return states
        states = still
