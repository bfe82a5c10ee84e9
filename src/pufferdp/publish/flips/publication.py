"""A privatised series: read, flipped record by record, written, certified. Exact states never leave this module."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Final, Unpack

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.errors import (
    BudgetError,
    DataError,
    DeliveryError,
    NotApplicableError,
    ParameterError,
    PufferdpError,
)
from pufferdp.basics.interrupts import Interrupted, held, interruptible
from pufferdp.basics.paged import Paged
from pufferdp.basics.progress import silent
from pufferdp.basics.unexpected import system_reason
from pufferdp.data.csv_stream import Passed, change_lines
from pufferdp.data.layout import ROWS, Coding, Counts, hides_values
from pufferdp.data.ranges import EVERYTHING, Ranges
from pufferdp.data.rewrite import ENDINGS, Codes, FileRows, row_codes
from pufferdp.data.series import open_series
from pufferdp.models.bins import with_bins
from pufferdp.models.chain import Move, SeriesModel
from pufferdp.models.files.json import ModelLike, as_model
from pufferdp.publish.flips.certificate import SeriesCertificate
from pufferdp.publish.flips.kind import KIND, FlipProblem
from pufferdp.publish.flips.plan import FlipDesign, flippable
from pufferdp.publish.noise import pass_channel as draw_flips
from pufferdp.publish.pipeline import Charged, E, OddsPublication, reason_of
from pufferdp.publish.reading import (
    Reading,
    check_moves,
    check_people,
    check_restarts,
    check_start,
    coding_of,
    facts_of,
    histogram_of,
    refuse_moves,
)
from pufferdp.publish.series import ReleaseOptions, as_asked, run_of
from pufferdp.publish.series_file import SeriesFile

_TRIES: Final = 4
"""Designs that are tried to find what would fit; with many states each takes seconds."""


@dataclass(frozen=True, kw_only=True)
class Flip(Paged):
    """A privatised series and its certificate."""

    design: FlipDesign
    """The channel that every record passed, and what it leaks."""
    certificate: SeriesCertificate
    """What was guaranteed and how, for anyone to verify without the data."""
    states: npt.NDArray[np.int16] | None = field(default=None, repr=False)
    """The flipped state of each row, negative where it is missing; None where they were written to a file."""

    @property
    def values(self) -> list[str | None]:
        """The flipped series as names of states, None where a value is missing."""
        if self.states is None:
            raise ParameterError("the series was written to a file; read it there")
        labels: list[str | None] = [*self.certificate.labels, None, None]
        return [labels[code] for code in self.states.tolist()]

    def to_dict(self) -> dict[str, Any]:
        """What ``pufferdp flip --json`` prints."""
        return {**self.design.to_dict(), "certificate": self.certificate.to_dict()}


def flip(
    data: object,
    *,
    model: ModelLike,
    epsilon: float,
    adversary: str = "bdp",
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    **options: Unpack[ReleaseOptions],
) -> Flip:
    """Sanitise a series once, for any use: every record passes a channel on its own.

    Args:
        data: a CSV or Parquet file, or a pandas, polars, pyarrow or DuckDB frame.
        model: the chain, or the list of chains, the guarantee is for.
        epsilon: the guarantee.
        adversary: ``bdp`` (knows any set of records), ``pufferfish`` (none) or ``dp`` (all others).
        out: write the privatised series here (.csv, .csv.gz or .parquet); for files only.
        overwrite: whether a file that is there already may be replaced.
        options: how the data are read, as for ``Series``; ``sampler``, ``ledger``, ``dataset``, ``accept_misfit`` and
            ``progress``, as for ``release``.
    """
    series, run = as_asked(data, options)
    prior = series.model(model)
    asked: dict[str, Any] = {
        "data": series.data,
        "model": flippable(prior),
        "reading": series.reading(prior),
        "epsilon": epsilon,
        "adversary": checks.adversary(adversary),
        **run,
    }
    if out is None:
        return FlipRows(**asked).publish()
    if not isinstance(series.data, (str, os.PathLike)):
        raise ParameterError("out is for files; a frame's flipped values come as .values, in the order of its rows")
    asked["reading"].check(asked["model"])
    file = SeriesFile(out, ENDINGS, data=series.data, account=run["account"], overwrite=overwrite)
    return FlipRows(**asked, out=file).publish()


def flip_stream(
    source: BinaryIO,
    sink: BinaryIO,
    *,
    model: ModelLike,
    epsilon: float,
    adversary: str = "bdp",
    **options: Unpack[ReleaseOptions],
) -> Flip:
    """Sanitise a stream of CSV lines as they come, in constant memory; the guarantee is for series of any length.

    With a ledger it is charged for any length as well, once its first lines have been read and before any is written.
    What is wrong with a later line ends the stream, and the charge stays. With ``first`` or ``last`` lines outside are
    left out, and the charge is on the segment that is asked for: nobody knows yet which of it will come.
    """
    for name in ("restart", "independent", "id", "progress"):
        if options.get(name):
            raise ParameterError(f"{name} does not go with a stream, whose lines are one series: leave it out")
    column, order = options.get("column"), options.get("order")
    if not isinstance(column, str):
        raise ParameterError("column is missing; name the column with states or numbers: column=", value=column)
    return FlipStream(
        data=None,
        source=source,
        sink=sink,
        model=flippable(with_bins(as_model(model), options.get("bins"))),
        reading=Reading(
            column=column,
            order=None if order == ROWS else order,
            rows_in_order=order == ROWS,
            by=options.get("by"),
            missing=options.get("missing", "refuse"),
            step=as_model(model).step,
            first=options.get("first"),
            last=options.get("last"),
        ),
        epsilon=epsilon,
        adversary=checks.adversary(adversary),
        **run_of(options),
    ).publish()


@dataclass(frozen=True, kw_only=True)
class FlipPublication(OddsPublication[FlipProblem, FlipDesign, E, Flip]):
    """A series that is about to be privatised."""

    model: SeriesModel

    kind = KIND
    draws_numbers = False

    @property
    def coding(self) -> Coding:
        """How cells of the column become states."""
        return coding_of(self.model)

    def check(self) -> None:
        """Refuse a guarantee or a way of reading that does not go with the model."""
        self.reading.check(self.model)
        checks.epsilon(self.epsilon)

    def problem_for(self, length: int | None, ranges: Ranges = EVERYTHING) -> FlipProblem:
        """The guarantee for chains of a length; for any length where the series is a part or has unobserved steps."""
        return FlipProblem(
            model=self.model,
            epsilon=self.epsilon,
            adversary=self.adversary,
            length=None if self.reading.is_part else length,
            part=self.reading.is_part,
            ranges=ranges,
        )

    def charge(self, problem: FlipProblem, solution: FlipDesign) -> Charged:
        """Charge a series; over budget, say at which epsilon it would fit."""
        try:
            return super().charge(problem, solution)
        except BudgetError as error:
            if error.left is None:
                raise
            self.progress("looking for what would fit")
            fits = _fitting(problem, solution, error.left)
            hint = "" if fits is None else f", as with epsilon={fits:.10g}"
            raise BudgetError(f"{error}{hint}", value=error.value, left=error.left) from None

    @property
    def refusal(self) -> Callable[[set[Move]], None] | None:
        """Refuses moves that the model calls impossible, as they come; None where it allows all."""
        if not self.model.rules_out or hides_values():
            return None
        inside = self.reading.is_part and any(chain.given_start is not None for chain in self.model.chains)
        seen = set[Move]()

        def refuse(moves: set[Move]) -> None:
            # The start is for the first record of the whole series. A class must have one chain for all moves so far.
            new = {move for move in moves if move[0] >= 0 or not inside} - seen
            if new:
                seen.update(new)
                refuse_moves(self.model, seen)

        return refuse

    def flipper(self, design: FlipDesign) -> Callable[[Codes], Codes]:
        """Flips states of the model, a piece of the series after the other; missing ones stay as they are."""
        labels, names = self.model.labels, self.coding.labels

        def flipped(codes: Codes) -> Codes:
            if names != labels:  # bins that the model leaves out; none has a record, or it was refused
                places = np.array([*(labels.index(n) if n in labels else -2 for n in names), -2, -1], dtype=np.int16)
                codes = places[codes]
                if (codes == -2).any():
                    raise DataError("a record lies in a bin that the model leaves out; fit it on data that leaves it")
            there, out = codes >= 0, codes.copy()
            out[there] = draw_flips(codes[there], design.thresholds, self.sampler)
            return out

        return flipped


@dataclass(frozen=True, kw_only=True)
class FlipRows(FlipPublication[tuple[Counts, FileRows | None]]):
    """The rows of a file or a frame, counted before they are flipped."""

    out: SeriesFile | None = None

    def read(self) -> tuple[Counts, FileRows | None]:
        """The counts of the states, and the rows of a file as they are written."""
        self.progress("reading")
        layout = self.reading
        file = FileRows.of(self.data, layout) if isinstance(self.data, (str, os.PathLike)) else None
        # A file without an order or people is read once; otherwise the order is needed as times, and as it is written.
        once = file is not None and layout.order is None and layout.by is None
        series = file.series if file is not None and once else open_series(self.data, layout)
        counts = series.counts(self.coding, ranges=True)
        check_start(self.model, counts)
        check_restarts(layout, counts)
        histogram_of(self.model, counts)
        check_people(self.model, series, counts.records)
        check_moves(self.model, series)
        return counts, file

    def reserved_space(self, exact: tuple[Counts, FileRows | None]) -> AbstractContextManager[object]:
        """For a file as large as the one that was read, or one where every record has the longest name."""
        rows = exact[0].records + exact[0].missing
        return nullcontext() if self.out is None else self.out.reserved_space(_text_size(rows, self.model))

    def problem(self, exact: tuple[Counts, FileRows | None]) -> FlipProblem:
        """For the longest chain that was read; for any where records of it are missing.

        Flips of some records are those of all with the rest left out, so that they leak no more.
        """
        counts = exact[0]
        longest = None if counts.missing or counts.unobserved else max(length for length, _ in counts.lengths)
        return self.problem_for(longest, counts.ranges)

    def draw(
        self, problem: FlipProblem, solution: FlipDesign, exact: tuple[Counts, FileRows | None], charged: Charged
    ) -> Flip:
        """Every row flipped, and written where a file is named."""
        self.announce("flipping")
        counts, file = exact
        states = None
        if file is None:
            states = self.flipper(solution)(row_codes(self.data, self.reading, self.coding))
        elif self.out is None:
            flipped = self.flipper(solution)
            states = np.concatenate([flipped(codes) for codes in file.chunks(self.coding)])
        else:
            coding, labels, rows = self.coding, self.model.labels, file
            self.out.write(lambda path: rows.write(path, coding, labels, self.flipper(solution)), charged)
        with charged.certifying(states, lambda: _where(self.out)):
            missing, unobserved = counts.missing, counts.unobserved
            facts = facts_of(self.reading, self.model, counts.lengths, missing, counts.ranges, unobserved)
            made = self.made(facts, charged)
            flip = Flip(design=solution, certificate=self.kind.certify(problem, solution, made), states=states)
        return flip if self.out is None else self.out.delivered(flip)


def _where(out: SeriesFile | None) -> str:
    """Where a flipped series is that has no certificate."""
    return "the flipped series is the error's value" if out is None else f"the flipped series is in {out.path!r}"


def _text_size(records: int, model: SeriesModel) -> int:
    """Bytes of a text file where every record has the longest name, without other columns."""
    return (records + 1) * (max(len(label.encode()) for label in model.labels) + 3)


@dataclass(frozen=True, kw_only=True)
class FlipStream(FlipPublication[None]):
    """A series from a stream: a line is flipped and written as soon as it is there."""

    source: BinaryIO
    sink: BinaryIO

    def check(self) -> None:
        """Refuse a start that the stream may have more than once."""
        super().check()
        again = self.reading.by is not None
        if again and any(chain.given_start is not None for chain in self.model.chains):
            raise NotApplicableError(
                "the model's start is for the first record of a stream only, and this one may start again; "
                'use start "stationary" or "any"'
            )

    def read(self) -> None:
        """Nothing: lines are read as they come."""

    def problem(self, exact: None) -> FlipProblem:
        """For any number of records."""
        return self.problem_for(None)

    def charge(self, problem: FlipProblem, solution: FlipDesign) -> Charged:
        """Not yet: a stream is charged once its first lines have been read, and before any is written."""
        return Charged()

    def draw(self, problem: FlipProblem, solution: FlipDesign, exact: None, charged: Charged) -> Flip:
        """Charged when the first lines are there, then line by line; what ends it later leaves its certificate."""
        passed, account, made_for = Passed(), [charged], [problem]

        def begin(ranges: Ranges) -> None:
            made_for.append(replace(problem, ranges=ranges))
            with held():
                account.append(super(FlipStream, self).charge(made_for[-1], solution))

        broken: Exception | Interrupted | None = None
        try:
            # A stream may never end by itself, so Ctrl-C ends it.
            with interruptible():
                change_lines(
                    self.source,
                    self.sink,
                    self.reading,
                    self.coding,
                    self.model.labels,
                    self.flipper(solution),
                    begin,
                    passed,
                    self.refusal,
                )
        except (Exception, Interrupted) as error:
            if not account[-1].words:
                raise
            broken = error
        if broken is not None and not passed.records:
            raise DeliveryError(f"{account[-1].words}; the stream ended before a record: {_why(broken)}") from _shown(
                broken
            )
        with account[-1].certifying(None, lambda: f"{passed.records:,} flipped records went out"):
            flip = self._certified(made_for[-1], solution, passed, account[-1])
        if broken is None:
            return flip
        raise DeliveryError(
            f"{account[-1].words}; the stream ended after {passed.records:,} records: {_why(broken)}", result=flip
        ) from _shown(broken)

    def _certified(self, problem: FlipProblem, solution: FlipDesign, passed: Passed, receipt: Charged) -> Flip:
        lengths, missing = ((passed.records, 1),), passed.missing
        facts = facts_of(self.reading, self.model, lengths, missing, problem.ranges, passed.unobserved)
        made = self.made(facts, receipt)
        return Flip(design=solution, certificate=self.kind.certify(problem, solution, made))


def _why(error: Exception | Interrupted) -> str:
    if isinstance(error, Interrupted):
        return "it was stopped"
    return system_reason(error) if isinstance(error, OSError) else reason_of(error)


def _shown(error: Exception | Interrupted) -> Exception | Interrupted | None:
    """What may stand in the chain of errors that Python prints: words that are not ours may repeat data."""
    return error if isinstance(error, (PufferdpError, Interrupted)) else None


def _fitting(problem: FlipProblem, design: FlipDesign, left: float) -> float | None:
    """An epsilon, in three digits, whose flips spend no more than what is left: the loss is nearly a multiple of it."""
    epsilon, loss, best = design.epsilon, design.dp_loss, None
    for _ in range(_TRIES):
        if not 0 < loss < math.inf or 0.98 * left < loss < left:
            break
        epsilon *= left / loss * (1 - 1e-9)
        places = 2 - math.floor(math.log10(epsilon))
        epsilon = math.floor(epsilon * 10.0**places) / 10.0**places
        try:
            loss = KIND.solve(replace(problem, epsilon=epsilon), silent).dp_loss * (
                1 + 1e-9
            )  # what is charged is rounded up
        except PufferdpError:
            break
        if loss < left:
            best = max(epsilon, best or 0.0)
    return best
