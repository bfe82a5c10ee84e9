"""Estimate a chain from data, or a class of chains that contains the truth with a stated confidence."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.checks import MOST_RECORDS, any_number
from pufferdp.basics.errors import DataError, ParameterError
from pufferdp.basics.frames import frame
from pufferdp.basics.paged import Paged
from pufferdp.basics.progress import Progress, silent
from pufferdp.basics.words import quoted_value
from pufferdp.data.layout import Coding, Counts, Place, check_pair_states, column_pair
from pufferdp.data.ranges import zone_text
from pufferdp.data.series import Series as OpenSeries
from pufferdp.data.series import StatePath, open_series
from pufferdp.models.ar1 import Ar1
from pufferdp.models.bins import Bins, bins_text, parse_bins
from pufferdp.models.chain import MarkovChain, SeriesModel, bin_names
from pufferdp.models.chain_classes import MarkovInterval
from pufferdp.models.clock import MarkovClock, rhythm_of, share_evenly, slot_name
from pufferdp.models.files.json import model_to_dict
from pufferdp.models.hidden_states import HiddenStates
from pufferdp.publish.fits.ar1 import fit_ar1
from pufferdp.publish.fits.assumptions import check_assumptions
from pufferdp.publish.fits.bins import refuse_numbers, refuse_times
from pufferdp.publish.fits.bounds import confidence_box, noisy_box, noisy_counts
from pufferdp.publish.fits.checks import Check, check_model
from pufferdp.publish.fits.effective import Observations, family_costs, measure_leakage, with_checks
from pufferdp.publish.fits.expectation import Estimate
from pufferdp.publish.fits.families import (
    NOT_COMPARED,
    RULES,
    Candidates,
    Comparison,
    FamilyChoice,
    FamilyScore,
    History,
    day_steps,
)
from pufferdp.publish.fits.kind import KIND, FitProblem
from pufferdp.publish.fits.row_order import check_row_order
from pufferdp.publish.kind import Made
from pufferdp.publish.model_checks import KEY
from pufferdp.publish.noise import Sampler, SystemSampler
from pufferdp.publish.pipeline import Account, Charged, Publication
from pufferdp.publish.reading import Reading
from pufferdp.publish.series import Series

if TYPE_CHECKING:
    from pufferdp.ledger.balance import Receipt
    from pufferdp.ledger.ledger import Ledger

M = TypeVar("M", bound=SeriesModel)
MOST_CHECKED: Final = 20_000_000
"""Checks bring the states to Python; beyond so many records they are not made."""


@dataclass(frozen=True, kw_only=True)
class OffStep:
    """Distances between records that are no whole number of the usual step of the data."""

    step: str
    distances: int


@dataclass(frozen=True, kw_only=True)
class Fit(Paged):
    """A fitted model and what was left out of it."""

    model: MarkovChain | MarkovInterval | MarkovClock | HiddenStates | Ar1
    left_out: tuple[str, ...]
    """States that were never left, so they have no row."""
    unvisited: tuple[str, ...]
    """Bins in which no record lies; a private fit does not say."""
    prior: float | None = None
    """What was added to every transition count."""
    lent_rows: tuple[str, ...] = ()
    """Of a chain of second order: pairs that nothing was seen to follow, which have the row of their last state."""
    free_rows: tuple[str, ...] = ()
    """Of a class with a confidence: states that were never left, of which any row may be true."""
    off_step: OffStep | None = None
    """Why the model has no step, where the data nearly has one. Exact, as the checks are."""
    zone: str | None = None
    """Of a clock: the sentence that says which time zone its slots are in."""
    dp_epsilon: float | None = None
    """The DP loss that a private fit has spent on the data."""
    receipt: Receipt | None = None
    """Where a private fit was charged; None without a ledger."""
    checks: tuple[Check, ...] = ()
    """Whether the model describes the data. Exact, so they are for the owner of the data and not in the model file;
    none of a private fit, and none where they were not asked for."""
    checked: bool = False
    """Whether checks were made."""
    comparison: Comparison = NOT_COMPARED
    """How well each family predicted held-out records. Exact, as the checks are."""

    @property
    def families(self) -> tuple[FamilyScore, ...]:
        """The families that were compared, smallest first; none where the family was given or could not be chosen."""
        return self.comparison.scores

    def to_frame(self, *, checks: bool = False, backend: str | None = None) -> Any:
        """A row for each move with its probability, as a pandas or polars frame; with ``checks`` a row for each check.

        A class has the least and the largest probability, a clock its slots and a chain of second order the state
        before, both counted or named as in the model; a series of real numbers has one row with its parameters.
        """
        return _check_frame(self.checks, backend) if checks else self.model.to_frame(backend=backend)

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp fit --json`` prints: the model, and the checks where they were made."""
        checks = {"tests": [check.to_dict() for check in self.checks]} if self.checked else {}
        families = {"families": [score.to_dict() for score in self.families]} if self.families else {}
        return {**model_to_dict(self.model), **checks, **families}


def _check_frame(checks: Sequence[Check], backend: str | None) -> Any:
    columns = ("check", "statistic", "degrees_of_freedom", "p_value", "effect", "level", "holds")
    rows = tuple((c.name, c.statistic, c.degrees_of_freedom, c.p_value, c.effect, c.level, c.holds) for c in checks)
    return frame(columns, rows, backend)


def fit(
    data: object,
    *,
    column: str | Sequence[str] | None = None,
    order: str | None = None,
    by: str | None = None,
    restart: str | float | timedelta | None = None,
    missing: str = "refuse",
    independent: bool = False,
    first: Place | None = None,
    last: Place | None = None,
    bins: Bins | None = None,
    confidence: float | None = None,
    start: str = "stationary",
    states: Sequence[str] | None = None,
    family: str = "auto",
    clock: str | int | None = None,
    memory: float | None = None,
    hidden: float | None = None,
    prior: float | None = None,
    as_states: bool = False,
    checks: bool = True,
    dp_epsilon: float | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    sampler: Sampler | None = None,
    progress: Progress | None = None,
) -> Fit:
    """Fit the smallest family that predicts held-out records as well as any larger one, or the family given.

    With ``confidence`` the result is a class of chains that contains the true one with that probability.

    Args:
        data: a file or a frame, as for a release.
        column: the column with states or numbers; ``"a,b"`` or two names read the states of both as pairs.
        order: the column to sort by, or ``"rows"``, as in ``Series``.
        by: the column that tells people apart.
        restart: what follows a longer gap in ``order`` is assumed to be independent of what went before: ``"8h"`` or a
            number in its unit. Without it the chain goes on past every gap.
        missing: ``"refuse"``, or ``"keep"``: a missing value is an unobserved time step.
        independent: that the values of ``by`` are independent, although they do not look like people.
        first: read only the records from this place of ``order`` on, itself included: a number, a date or a time.
        last: read only those up to this place, itself included; a date is the whole day.
        bins: edges that turn numbers into states.
        confidence: probability that the class contains the truth, over all entries together.
        start: start of the fitted chain, ``"stationary"`` or ``"any"``.
        states: the states by name; those found in the column by default.
        family: ``"auto"`` compares chains with one to four hidden states for each value, with and without time of day,
            on held-out records; or ``"chain"``, ``"clock"`` (a chain by time of day), ``"memory"`` (a chain of higher
            order), ``"hidden"`` (hidden states) or ``"ar1"`` (a series of real numbers).
        clock: slots of a time-of-day model: ``"hour"`` of the day, ``"day"`` of the week, or a number of equal slots in
            a day.
        memory: the order of a chain: how many records the next one depends on.
        hidden: hidden states for each value; with ``clock`` also by time of day.
        prior: added to every transition count, so that states without a move of their own have a row as well; by
            default 0.5 for a private fit, hidden states and (spread as after fewer records) higher order; else nothing.
        as_states: take the numbers of the column as states, however many there are.
        checks: ask whether the model describes the data. A private fit leaves this out.
        dp_epsilon: fit from noisy transition counts that lose this much DP.
        ledger: where a private fit is charged before its noise is drawn.
        dataset: which data set of the ledger; the fit is charged what it leaks under the model of that data set.
        sampler: where the noise of a private fit comes from; the operating system by default.
        progress: called with a few words before each step.
    """
    series = Series.of(
        data,
        column=column,
        order=order,
        by=by,
        restart=restart,
        missing=missing,
        independent=independent,
        first=first,
        last=last,
        bins=bins,
    )
    reading, bins = series.reading(), bins_text(series.bins)
    choice = Family.of(family, clock=clock, memory=memory, hidden=hidden)
    if choice.name == "ar1":
        given: dict[str, object] = {"bins": bins, "states": states, "dp_epsilon": dp_epsilon, "ledger": ledger}
        return _fit_numbers(
            series.data, reading, confidence, checks, {**given, "start": None if start == "stationary" else start}
        )
    return FitPublication(
        data=series.data,
        reading=reading,
        bins=bins,
        confidence=confidence,
        start=start,
        states=states,
        family=choice,
        prior=prior,
        as_states=as_states,
        checks=checks,
        dp_epsilon=dp_epsilon,
        account=Account(ledger, dataset),
        sampler=sampler or SystemSampler(),
        progress=progress or silent,
    ).publish()


def _fit_numbers(
    data: object, reading: Reading, confidence: float | None, checks: bool, others: Mapping[str, object]
) -> Fit:
    """An AR(1) series; refuses what goes with chains alone."""
    for name, value in others.items():
        if value is not None:
            private = "a private fit is for chains of states alone, and " * (name in ("dp_epsilon", "ledger"))
            raise ParameterError(f"{name} is given; {private}an ar1 fit has no use for it: leave it out")
    model, made = fit_ar1(data, reading, confidence)
    return Fit(model=model, left_out=(), unvisited=(), checks=made if checks else (), checked=checks)


@dataclass(frozen=True, kw_only=True)
class Family:
    """The family of models that a fit is of, and its size where that was given."""

    name: str
    """``auto``, ``chain``, ``clock``, ``memory``, ``hidden`` or ``ar1``."""
    clock: str | int | None = None
    """Slots of a time-of-day model."""
    memory: int = 1
    """Records that the next one depends on."""
    kinds: int | None = None
    """Hidden states for each value; None where held-out records decide."""

    @classmethod
    def of(
        cls, name: object, *, clock: str | int | None = None, memory: float | None = None, hidden: float | None = None
    ) -> Family:
        """The family that the options name; rejects options that contradict each other."""
        names = ("auto", "chain", "clock", "memory", "hidden", "ar1")
        if name not in names:
            raise ParameterError(f"family is {quoted_value(name)}; it must be one of {', '.join(names)}", value=name)
        if clock is not None:
            rhythm_of(clock)
        order, kinds = _small(memory, "memory"), _small(hidden, "hidden")
        sizes = {"clock": clock, "memory": memory, "hidden": hidden}
        given = [option for option, value in sizes.items() if value is not None]
        allowed = {"auto": {"clock", "memory", "hidden"}, "hidden": {"clock", "hidden"}}
        wrong = [option for option in given if option not in allowed.get(str(name), {str(name)})]
        if wrong:
            raise ParameterError(
                f"family is {name} and {wrong[0]} is {sizes[wrong[0]]}; {wrong[0]}= belongs to another family: leave "
                "out one of them",
                value=sizes[wrong[0]],
            )
        if memory is not None and len(given) > 1:
            other = next(option for option in given if option != "memory")
            raise ParameterError(
                f"{other} is {sizes[other]} and memory is {memory}; a chain of higher order has no other memory: leave "
                "memory= out, and use hidden= with clock= for both",
                value=memory,
            )
        if name == "auto" and given:
            name = "memory" if order is not None else "hidden" if kinds is not None else "clock"
        if name == "hidden" and kinds == 1:
            name = "chain" if clock is None else "clock"
        if name == "memory" and order == 1:
            name = "chain"
        slots = "hour" if name == "clock" and clock is None else clock
        return cls(
            name=str(name), clock=slots, memory=2 if name == "memory" and order is None else order or 1, kinds=kinds
        )


def _small(value: float | None, name: str) -> int | None:
    """A size of a family: a whole number from 1 on."""
    if value is None:
        return None
    number = any_number(name, value)
    if number != int(number) or not 1 <= number <= 8:
        raise ParameterError(f"{name} is {number:g}; it must be a whole number from 1 to 8", value=value)
    return int(number)


@dataclass(frozen=True, kw_only=True, repr=False)
class Counted:
    """The counts of a series. Never printed."""

    counts: Counts
    coding: Coding
    moves: npt.NDArray[np.int64]
    runs: npt.NDArray[np.int64] | None = None
    """Of a chain of higher order: how often each sequence of that many records and the next one occurred."""
    estimate: Estimate | None = None
    """Of hidden states: the matrices fitted."""
    kept: tuple[int, ...] = ()
    """Of hidden states: the states of the model, by number."""
    family: Family = Family(name="chain")
    """The family given, or the one that held-out records chose."""
    comparison: Comparison = NOT_COMPARED
    step: str | float | None = None
    """The time from one record to the next, where the data has one."""
    off_step: OffStep | None = None
    by_slot: npt.NDArray[np.int64] | None = None
    """Of a clock: moves from each slot on, (slots, k, k)."""
    zone: str | None = None
    checks: tuple[Check, ...] | None = None
    path: StatePath | None = None
    """The records, where they are compared with the noise that the model asks for."""


@dataclass(frozen=True, kw_only=True)
class FitPublication(Publication[FitProblem, float, Counted, Fit]):
    """The steps of publishing a fitted model: read, count, add noise, certify."""

    reading: Reading
    bins: str | None
    confidence: float | None
    start: str
    states: Sequence[str] | None
    family: Family
    prior: float | None
    dp_epsilon: float | None
    as_states: bool = False
    checks: bool = True

    kind = KIND

    def check(self) -> None:
        """Refuse what a private fit would tell besides its noisy counts."""
        if self.confidence is not None:
            checks.probability(self.confidence, "confidence")
        if self.family.clock is not None:
            self._check_clock()
        if self.prior is not None:
            check_prior(self.prior)
            if self.confidence is not None:
                raise ParameterError(
                    f"prior is {self.prior:g}; a class with a confidence rests on what was counted alone: "
                    "leave out the prior or the confidence",
                    value=self.prior,
                )
        for name, value in (("confidence", self.confidence), ("dp_epsilon", self.dp_epsilon)):
            if self.family.name in ("memory", "hidden") and value is not None:
                raise ParameterError(
                    f"family is {self.family.name} and {name} is {value:g}; bounds and noise are worked out for "
                    "transitions from one record to the next: leave one of them out",
                    value=value,
                )
        if self.states is not None and not _names_in(self.states):
            raise ParameterError(
                f"states is {quoted_value(self.states)}; it must be a list of names, such as ['rest', 'active']",
                value=self.states,
            )
        if self.states is not None and self.bins is not None:
            raise ParameterError("states and bins are both given; bins make the states: leave one of them out")
        if self.dp_epsilon is not None:
            checks.epsilon(self.dp_epsilon, "dp_epsilon")
            if self.states is None and self.bins is None:
                raise ParameterError(
                    "states is missing; which states occur in the data is not public, so a private fit must be told "
                    "them: states=['a', 'b', 'c'], or bins= with a range"
                )
            if self.bins is not None:
                parse_bins(self.bins)  # a bare width would take its range from the data
        elif self.account.has_ledger:
            raise ParameterError("ledger is given, but the fit is not private: say what it may spend with dp_epsilon=")
        layout = self.reading
        if column_pair(layout.column) is not None and self.bins is not None:
            raise ParameterError(
                f"column is {layout.column!r} and bins are given; pairs are of states: leave one of them out",
                value=self.bins,
            )

    def _check_clock(self) -> None:
        """Refuse a clock that cannot be fitted."""
        if self.reading.order is None:
            raise ParameterError("order is missing; a clock takes slots from the column that says when: use order=")
        for name, given in (("confidence", self.confidence), ("dp_epsilon", self.dp_epsilon)):
            if given is not None:
                raise ParameterError(
                    f"clock is {self.family.clock} and {name} is {given}; a clock is fitted as one model from exact "
                    "counts: leave one of them out",
                    value=given,
                )
        if self.start != "stationary":
            raise ParameterError(
                f"clock is {self.family.clock} and start is {self.start}; a clock starts in the distribution that "
                "repeats with it: leave start= out",
                value=self.start,
            )

    def expect(self, ledger: Ledger, dataset: str) -> None:
        """The data set must be there."""
        ledger.dataset(dataset)

    def read(self) -> Counted:
        """The exact counts of states and transitions."""
        self.progress("reading")
        layout = self.reading
        series = open_series(self.data, layout)
        step, off_step = self.usual_step(series)
        if step is not None:
            layout = replace(layout, step=step)
            series = open_series(self.data, layout)
        if self.bins is not None:
            edges = parse_bins(self.bins, span=series.number_range() if self.dp_epsilon is None else None)
            assert edges is not None
            coding = Coding(labels=bin_names(edges), bins=edges)
        else:
            coding = Coding(labels=self._found_states(series) if self.states is None else tuple(map(str, self.states)))
            check_pair_states(layout.column, coding.labels)
        counts = series.counts(coding, transitions=True, ranges=self.account.has_ledger)
        moves = np.array(counts.transitions, dtype=np.int64)
        kept = tuple(range(len(moves)) if self.prior is not None else states_with_rows(moves))
        family, comparison, estimate = self._family(series, coding, counts, kept, layout.step)
        by_slot = self._by_slot(series, coding, layout.step, family.clock) if family.name == "clock" else None
        runs = self._runs(series, coding, family.memory) if family.name == "memory" else None
        return Counted(
            counts=counts,
            coding=coding,
            moves=moves,
            step=layout.step,
            # Where most do there is no usual step, and nobody expects one.
            off_step=off_step if off_step is not None and 2 * off_step.distances < counts.records else None,
            by_slot=by_slot,
            zone=None if family.clock is None else zone_text("hour", series.table.unit, layout.order),
            runs=runs,
            estimate=estimate,
            kept=kept,
            family=family,
            comparison=comparison,
            checks=self._checks(series, coding, counts, family),
            path=self._path(series, coding, counts),
        )

    def _path(self, series: OpenSeries, coding: Coding, counts: Counts) -> StatePath | None:
        """The records that say what the noise of the model reveals; None where a fit must not or need not say it."""
        left_out = self.dp_epsilon is not None or self.confidence is not None or not self.checks
        # The noise of a count is planned in seconds for up to 8 states; ``check`` takes its time for more.
        left_out = left_out or len(coding.labels) > 8
        return None if left_out or not RULES.records <= counts.records <= MOST_CHECKED else series.path(coding)

    def _measured(self, model: M, exact: Counted, indices: Sequence[int]) -> tuple[M, Comparison]:
        """The model with the effective leakage of counts of its two most frequent states, and what families cost."""
        assert exact.path is not None
        observations = Observations.of(exact.path, indices)
        frequent = np.argsort(-np.bincount(observations.codes, minlength=model.size), kind="stable")[:2]
        longest = max(length for length, _ in exact.counts.lengths)
        effective, _ = measure_leakage(
            observations,
            model,
            ((longest, 1),),
            states=frequent.tolist(),
            compare=exact.comparison.chosen is None,
            rival=exact.comparison.rival,
            progress=self.progress,
        )
        costs = family_costs(observations, model, exact.comparison, ((longest, 1),), int(frequent[0]))
        return with_checks(model, {KEY: effective.to_dict()}), exact.comparison.with_costs(costs)

    def _family(
        self, series: OpenSeries, coding: Coding, counts: Counts, kept: tuple[int, ...], step: str | float | None
    ) -> tuple[Family, Comparison, Estimate | None]:
        """The family of the model, the comparison that chose it, and the fit of hidden states."""
        family = self.family
        note = self._why_chain(counts) if family.name == "auto" else ""
        if note or family.name not in ("auto", "hidden") or not kept:
            return replace(family, name="chain") if family.name == "auto" else family, Comparison(note=note), None
        self.progress("comparing families")
        timed_order = series.table.ticks in ("us", "ns")
        microseconds, period = day_steps(step) if timed_order else (None, None)
        if family.clock is not None and step is None:
            raise self._no_step()
        slots = 24 if family.clock is None else rhythm_of(family.clock)[0]
        if family.clock is not None and rhythm_of(family.clock)[1] != "24h":
            raise ParameterError(
                f"clock is {family.clock} and family is hidden; hidden states by time of day share one day: use "
                "clock='hour' or a number of slots",
                value=family.clock,
            )
        history = History.of(series.path(coding), kept, microseconds, period)
        timed = period is not None and period % slots == 0 and history.day_count >= RULES.days
        if family.clock is not None and (period is None or period % slots):
            share_evenly(slots, "24h", step)
        kinds = (1, 2, 3, 4) if family.name == "auto" else (2, 3, 4)
        every = (1, slots) if timed and self.start == "stationary" else (1,)
        wanted = (slots,) if family.clock is not None else every if family.name == "auto" else (1,)
        choice = FamilyChoice(
            history=history,
            candidates=Candidates(kinds=kinds, slots=wanted),
            # One half, the usual prior of counts: bounds rest on ratios of entries, and entries near 0 cost much noise.
            prior=0.5 if self.prior is None else self.prior,
            progress=self.progress,
        )
        if family.kinds is not None:
            return family, Comparison(), choice.fit(family.kinds, wanted[0])
        comparison = choice.compare()
        if family.name == "auto" and microseconds is not None and history.day_count < RULES.days:
            few = f"Time of day was not compared: it needs {RULES.days} days, and the data have {history.day_count}."
            comparison = replace(comparison, note=few)
        best = comparison.chosen
        if best is None:
            raise DataError(
                f"hidden states need {RULES.records_a_row * 2 * len(kept):,} records for these {len(kept)} states, and "
                f"the data have {counts.records:,}: use more data, or hidden=2",
                value=counts.records,
            )
        clock = None if best.slots == 1 else family.clock or "hour"
        name = ("chain" if clock is None else "clock") if best.kinds == 1 else "hidden"
        found = Family(name=name, clock=clock, kinds=best.kinds)
        return found, comparison, choice.fit(best.kinds, best.slots) if name == "hidden" else None

    def _why_chain(self, counts: Counts) -> str:
        """Why no families are compared, in a sentence; empty where they are."""
        if self.dp_epsilon is not None:
            return "Family: chain. A private fit compares no families: held-out records are not covered by its loss."
        if self.confidence is not None:
            return "Family: chain. A class with a confidence is worked out for chains alone."
        if counts.records < RULES.records:
            return (
                f"Family: chain. Memory of more than one record cannot be detected with {counts.records:,} records: "
                f"the comparison needs {RULES.records:,}."
            )
        if counts.records > RULES.most_records:
            return (
                f"Family: chain. Families are compared on at most {RULES.most_records:,} records: choose a family on "
                "an interval of the data with first= and last=."
            )
        return ""

    def _runs(self, series: OpenSeries, coding: Coding, order: int) -> npt.NDArray[np.int64]:
        """How often each sequence of that many records and the next one occurred; rejects too many sequences."""
        many = len(coding.labels) ** order
        if many > RULES.sequences:
            raise ParameterError(
                f"memory is {order}; with {len(coding.labels)} states that is {many:,} sequences of records, and at "
                f"most {RULES.sequences:,} are fitted: use fewer states, or hidden=",
                value=order,
            )
        return count_runs(series.states(coding, pieces=True), len(coding.labels), order)

    def _no_step(self) -> DataError:
        return DataError(
            f"the places of {self.reading.order!r} lie on no common step, and a clock needs one; bring the times "
            "to one step, such as 5min",
            value=self.reading.order,
        )

    def _by_slot(
        self, series: OpenSeries, coding: Coding, step: str | float | None, clock: str | int | None
    ) -> npt.NDArray[np.int64]:
        """Moves from each slot on; refuses slots from which there is none."""
        assert clock is not None
        slots, period = rhythm_of(clock)
        if step is None:
            raise self._no_step()
        share_evenly(slots, period, step)
        out = np.zeros((slots, len(coding.labels), len(coding.labels)), dtype=np.int64)
        for (slot, before, state, steps), count in series.slot_moves(coding, period, slots).items():
            if steps == 1:
                out[slot, before, state] += count
        empty = [n for n, table in enumerate(out) if not table.sum()]
        if empty:
            named = ", ".join(slot_name(n, slots, period) for n in empty[:4])
            named += f" and {len(empty) - 4} more" if len(empty) > 4 else ""
            raise DataError(
                f"the data has no move from one record to the next that begins {named}, and a clock needs some in each "
                "of its slots; fit it from more data, or with fewer slots, for example clock=4",
                value=empty,
            )
        return out

    def usual_step(self, series: OpenSeries) -> tuple[str | float | None, OffStep | None]:
        """The step of the data, where its places lie on a grid (absent rows are unobserved steps); or what is off it.

        Places that lie on no grid have no step, and rows count as neighbours. So they do where the fit is private:
        which step is the usual one is not public.
        """
        if self.dp_epsilon is not None:
            return None, None
        step = series.usual_step()
        off = 0 if step is None else series.off_step(step)
        return (None, OffStep(step=str(step), distances=off)) if off else (step, None)

    def _found_states(self, series: OpenSeries) -> tuple[str, ...]:
        """The states in the column; refused where they look like numbers or times, which are no states."""
        if not self.as_states:
            refuse_times(series)
            refuse_numbers(series)
        return series.found_states()

    def _checks(self, series: OpenSeries, coding: Coding, counts: Counts, family: Family) -> tuple[Check, ...] | None:
        """What the exact data say of the model; a private fit must not tell."""
        if self.dp_epsilon is not None or not self.checks or counts.records > MOST_CHECKED:
            return None
        self.progress("checking the model")
        row_order = check_row_order(self.data, series.layout, coding)
        if family.name != "chain":  # most of the others are about one table of first order
            hidden = family.name in ("hidden", "memory")
            apart = check_assumptions(series.path(coding), hidden=hidden, clock=family.clock)
            return check_model(None, [*apart, *row_order]) or None
        path = series.path(coding, numbers=coding.bins is not None)
        return check_model(path, [*check_assumptions(path), *row_order])

    def problem(self, exact: Counted) -> FitProblem:
        """What may be spent, on chains of this length; of any where records are missing, or the series goes on."""
        endless = self.reading.is_part or exact.counts.missing + exact.counts.unobserved > 0
        # A noisy count of 0 or less does not show that a move is impossible: half a move keeps every move possible.
        prior = 0.5 if self.prior is None and self.dp_epsilon is not None and self.confidence is None else self.prior
        return FitProblem(
            dp_epsilon=None if self.dp_epsilon is None else checks.epsilon(self.dp_epsilon, "dp_epsilon"),
            confidence=None if self.confidence is None else checks.probability(self.confidence, "confidence"),
            longest=MOST_RECORDS if endless else max(length for length, _ in exact.counts.lengths),
            prior=None if prior is None else check_prior(prior),
            states=len(exact.moves),
            ranges=exact.counts.ranges,
        )

    def charge(self, problem: FitProblem, solution: float) -> Charged:
        """A private fit is charged; there is no ledger for any other."""
        return Charged() if problem.dp_epsilon is None else super().charge(problem, solution)

    def draw(self, problem: FitProblem, solution: float, exact: Counted, charged: Charged) -> Fit:
        """The model, from noisy counts where it is private."""
        private = problem.dp_epsilon is not None
        moves = noisy_counts(exact.moves, solution, self.sampler) if private else exact.moves
        with charged.certifying(
            moves, lambda: f"the noisy counts of moves, in the order of states, are {moves.tolist()}"
        ):
            return self._fit_of(problem, solution, exact, charged, moves)

    def _fit_of(
        self, problem: FitProblem, solution: float, exact: Counted, charged: Charged, moves: npt.NDArray[Any]
    ) -> Fit:
        private, confidence, labels = problem.dp_epsilon is not None, problem.confidence, exact.coding.labels
        counted = dict(zip(labels, exact.counts.histogram, strict=True))
        if private and confidence is not None:
            indices = list(range(len(moves)))  # noise cannot tell which states are left, so the class has all of them
        elif confidence is not None:
            # The truth is about every state that is named or seen, also one that was never left: its row is free.
            indices = [j for j, name in enumerate(labels) if self.states is not None or counted[name]]
        elif problem.prior is not None:
            indices = list(range(len(moves)))  # every state has a row
        else:
            indices = states_with_rows(np.maximum(moves, 0))
        if not len(indices) or (confidence is not None and not private and not moves.any()):
            raise DataError(
                f"no state of {self.reading.column!r} leads to a state that is left again; a chain needs at "
                "least one move from which it can go on"
            )
        moves = moves[np.ix_(indices, indices)]
        states = tuple(labels[j] for j in indices)
        seen = [name for name in labels if private or counted[name]]  # which of them occur is not public
        left_out = tuple(name for name in seen if name not in states)
        data = {
            "column": self.reading.column,
            "records": exact.counts.records,
            "chains": sum(n for _, n in exact.counts.lengths),
            "left_out": list(left_out),
        }
        fitted = self.kind.certify(problem, solution, Made(data=data)).to_dict()
        bins = exact.coding.bins
        model: MarkovChain | MarkovInterval | MarkovClock | HiddenStates
        lent: tuple[str, ...] = ()
        prior = problem.prior or 0.0
        names: dict[str, Any] = {"states": states, "bins": bins, "step": exact.step, "fitted": fitted}
        if exact.runs is not None:
            chosen = np.ix_(*[indices] * exact.runs.ndim)
            table, rows = _higher_order(exact.runs[chosen], problem.prior)
            lent = tuple(" then ".join(states[x] for x in row) for row in rows)
            model = HiddenStates.of_order(table, start=self.start, **names)
        elif exact.estimate is not None:
            kernels, by_time = exact.estimate.kernels, exact.family.clock is not None
            model = HiddenStates(
                transition=kernels if by_time else kernels[0],
                of=exact.estimate.of,
                start=self.start,
                period="24h" if by_time else None,
                **names,
            )
        elif exact.by_slot is not None:
            assert exact.family.clock is not None
            weights = moves + prior
            by_slot = exact.by_slot[np.ix_(range(len(exact.by_slot)), indices, indices)] + prior
            left = by_slot.sum(axis=2, keepdims=True)
            # A state that is never left in a slot has the row of all slots together there.
            rows_of_all = weights / weights.sum(axis=1, keepdims=True)
            tables = np.divide(by_slot, left, out=np.broadcast_to(rows_of_all, by_slot.shape).copy(), where=left > 0)
            period = rhythm_of(exact.family.clock)[1]
            model = MarkovClock(
                transitions=tables, step=exact.step, period=period, states=states, bins=bins, fitted=fitted
            )
        elif confidence is None:
            weights = np.maximum(moves, 0) + prior
            transition = weights / weights.sum(axis=1, keepdims=True)
            model = MarkovChain(
                transition=transition, start=self.start, states=states, bins=bins, step=exact.step, fitted=fitted
            )
        else:
            low, high = noisy_box(moves, confidence, solution) if private else confidence_box(moves, confidence)
            model = MarkovInterval(low=low, high=high, states=states, bins=bins, step=exact.step, fitted=fitted)

        comparison = exact.comparison
        if exact.path is not None:
            model, comparison = self._measured(model, exact, indices)
        unvisited = tuple(name for name in labels if name not in seen and name not in states)
        free = [] if private or confidence is None else np.flatnonzero(moves.sum(axis=1) == 0).tolist()
        receipt, spent = charged.receipt, problem.dp_epsilon
        return Fit(
            model=model,
            left_out=left_out,
            unvisited=unvisited,
            prior=problem.prior,
            lent_rows=lent,
            free_rows=tuple(states[x] for x in free),
            dp_epsilon=spent,
            receipt=receipt,
            off_step=exact.off_step,
            zone=exact.zone,
            checks=exact.checks or (),
            checked=exact.checks is not None,
            comparison=comparison,
        )


def _names_in(states: object) -> bool:
    """Whether these are names of states, or numbers that stand for them."""
    if isinstance(states, (str, Mapping)) or not isinstance(states, Iterable):
        return False
    return all(isinstance(name, (str, int, float, np.generic)) for name in states)


def count_runs(paths: Sequence[npt.NDArray[np.int64]], k: int, order: int) -> npt.NDArray[np.int64]:
    """How often each sequence of ``order`` + 1 states occurred without a missing observation in it."""
    counts = np.zeros((k,) * (order + 1), dtype=np.int64)
    for path in paths:
        n = len(path) - order
        if n > 0:
            np.add.at(counts, tuple(path[i : i + n] for i in range(order + 1)), 1)
    return counts


def _higher_order(
    runs: npt.NDArray[np.int64], prior: float | None
) -> tuple[npt.NDArray[np.float64], list[tuple[int, ...]]]:
    """The distribution of the next state after each sequence, and the sequences that nothing was seen to follow.

    Without a prior each gets half a record for each state, distributed as after its last states: no ratio is infinite.
    """
    if runs.ndim == 1:
        return np.full(len(runs), 1 / len(runs)), []
    shorter, _ = _higher_order(runs.sum(axis=0), prior)
    weights = runs + (0.5 * len(runs) * shorter if prior is None else prior)
    unseen = np.argwhere((runs.sum(axis=-1) == 0) & (prior is None))
    return weights / weights.sum(axis=-1, keepdims=True), [tuple(map(int, row)) for row in unseen]


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
