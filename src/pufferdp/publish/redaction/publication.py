"""Publish a series but for what gives private records away: design, draw, write, certify."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

import narwhals as nw
import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.arrays import Matrix
from pufferdp.basics.errors import DeliveryError, NotApplicableError, ParameterError
from pufferdp.bounds.redaction.design import Block, Design, RedactionProblem, redactable
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.rewrite import (
    FLOW_ENDINGS,
    PlacedRows,
    Placement,
    Span,
    rewrite_file,
    rewrite_frame,
    written_columns,
)
from pufferdp.data.series import open_series
from pufferdp.data.sources import rows as fetched
from pufferdp.models.files.json import ModelLike, model_digest
from pufferdp.publish.certificate import content_of
from pufferdp.publish.noise import Sampler, bernoulli
from pufferdp.publish.pipeline import Charged, OddsPublication, reason_of
from pufferdp.publish.reading import assumptions, check_moves, check_people, check_restarts, facts_of
from pufferdp.publish.redaction.certificate import EarlierPart, RedactionCertificate
from pufferdp.publish.redaction.kind import (
    KIND,
    Designs,
    RedactionRequest,
    check_mark,
    read_designs,
    redacted_blocks,
    redaction_mechanism,
)
from pufferdp.publish.redaction.private import Named, PrivateRecords
from pufferdp.publish.redaction.result import MARK, Redaction
from pufferdp.publish.series import ReleaseOptions, as_asked
from pufferdp.publish.series_file import SeriesFile

if TYPE_CHECKING:
    from pufferdp.ledger.ledger import Ledger


def marked_rows(published: object, column: str, mark: str) -> set[int]:
    """The rows that an earlier redaction marked."""
    frame = open_series(published, Layout(column=column, rows_in_order=True)).table.frame
    return {int(row) for (row,) in fetched(frame.filter(nw.col("value") == mark).select("order"))}


def draw_again(
    blocks: Sequence[Block], earlier: Design, placement: Placement, sampler: Sampler, marked: set[int]
) -> list[Span]:
    """Which rows stay redacted: those marked before, each with the probability that is left of the joint design."""
    out: list[int] = []
    for block in blocks:
        before = np.array([earlier.of(row) for row in range(block.first, block.last + 1)])
        left = np.divide(block.marks, before, out=np.zeros(before.shape), where=before > 0)
        for first, last in draw([Block(block.first, np.minimum(left, 1.0))], placement, sampler):
            out += [row for row in range(first, last + 1) if row in marked]
    return spans_of(out)


def draw(blocks: Sequence[Block], placement: Placement, sampler: Sampler) -> list[Span]:
    """Which rows are redacted, as spans. Values are read only where the decision depends on them."""
    spans: list[Span] = []
    open_: list[Span] = []
    marks: list[Matrix] = []
    for block in blocks:
        sure = (block.marks == 1).all(axis=1)
        edges = np.flatnonzero(np.diff(sure)) + 1
        for part in np.split(np.arange(len(sure)), edges):
            span = block.first + int(part[0]), block.first + int(part[-1])
            if sure[part[0]] and placement.plain:
                spans.append(span)
            else:
                open_.append(span)
                marks.append(block.marks[part])
    rows, codes = placement.states_at(open_)
    there = np.flatnonzero(codes >= 0)  # a missing value stays missing: that is public, and shows nothing more
    if len(there):
        shares = np.concatenate(marks)[there, codes[there]]
        spans += spans_of(rows[there][bernoulli(shares, sampler)].tolist())
    return merge_spans(spans)


def spans_of(numbers: Iterable[int]) -> list[Span]:
    """Rows in any order as spans of neighbours."""
    return merge_spans([(row, row) for row in numbers])


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, those that touch made one."""
    out: list[Span] = []
    for first, last in sorted(spans):
        if out and out[-1][1] >= first - 1:
            out[-1] = out[-1][0], max(last, out[-1][1])
        else:
            out.append((first, last))
    return out


class RedactionOptions(ReleaseOptions, total=False):
    """What a redaction takes besides what every release takes."""

    known: Sequence[int]
    """Rows that the adversary knows; only with ``pufferfish``."""
    whole: bool
    """Hide private records that follow each other as a whole, what they hold together, and not each for itself."""
    after: RedactionCertificate | dict[str, Any] | str | os.PathLike[str] | None
    """The certificate of an earlier redaction of the same data; its private records stay hidden, and the new design is
    for both publications together."""
    published: object
    """The series that the earlier redaction published."""


def redact(
    data: object,
    *,
    model: ModelLike,
    private: Named | Sequence[Named],
    epsilon: float,
    keep: Sequence[str] = (),
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    method: str | None = None,
    adversary: str = "bdp",
    mark: str = MARK,
    **options: Unpack[RedactionOptions],
) -> Redaction:
    """Publish a series but for what gives private records away.

    Args:
        data: a CSV or Parquet file, or a pandas, polars or pyarrow frame; its rows are written in their order.
        model: a Markov chain with a stationary start.
        private: the records to hide; the value of each is always redacted. Rows, counted from 1 as the data has them
            (``1000``, ``"100-111"``), or where ``order`` holds times, times and ranges of them, both ends included:
            ``"2024-05-03T08:00..2024-05-03T09:00"``, ``"2024-05-03"`` for the whole day, of everybody.
        epsilon: the guarantee for each of them, or for each segment of them with ``whole``.
        keep: other columns to write, as they are; the guarantee assumes that they tell nothing about ``column``.
            Without it only ``column``, ``order`` and ``by`` are written.
        out: the file to write, with the mark for redacted records; a frame is returned in ``data`` without it.
        overwrite: whether a file that is there already may be replaced.
        method: ``window``, ``3r-numerical`` or ``3r-optimal``, the default and the best.
        adversary: ``bdp`` (knows any set of other records), ``pufferfish`` (none) or ``dp`` (all others).
        mark: what stands for a redacted record; it must be no state.
        options: ``known``, ``whole``, ``after`` and ``published``, as in ``RedactionOptions``; how the data are read,
            as for ``Series``; ``sampler``, ``ledger``, ``dataset``, ``accept_misfit`` and ``progress``, as for
            ``release``.
    """
    checks.refuse_unknown(options, RedactionOptions)
    given: dict[str, Any] = {**options}
    series, run = as_asked(data, {name: given[name] for name in given.keys() & ReleaseOptions.__annotations__})
    prior, known, after = series.model(model), options.get("known", ()), options.get("after")
    return RedactionPublication(
        data=series.data,
        model=prior,
        reading=series.reading(prior),
        private=PrivateRecords.parse(private),
        keep=(keep,) if isinstance(keep, str) else tuple(checks.several(keep, "keep", "the names of columns")),
        known=tuple(checks.length(p, "known row") for p in checks.several(known, "known", "a list of rows")),
        whole=checks.flag(options.get("whole", False), "whole"),
        epsilon=epsilon,
        adversary=checks.adversary(adversary),
        out=out,
        overwrite=overwrite,
        method=method,
        mark=mark,
        after=None if after is None else content_of(after, "after"),
        published=options.get("published"),
        **run,
    ).publish()


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Where the rows that matter stand. Values are read when it is decided what is redacted."""

    placement: Placement
    rows: PlacedRows
    private: tuple[int, ...]
    """The private rows, those of times as well."""
    columns: tuple[str, ...]
    """The columns that are written."""
    marked: set[int] | None = None
    """The rows that an earlier redaction marked."""


@dataclass(frozen=True, kw_only=True)
class RedactionPublication(OddsPublication[RedactionRequest, Designs, Placed, Redaction]):
    """A redacted series on its way out."""

    private: PrivateRecords
    keep: tuple[str, ...]
    known: tuple[int, ...]
    whole: bool
    out: str | os.PathLike[str] | None
    overwrite: bool
    method: str | None
    mark: str
    after: dict[str, Any] | None
    published: object

    kind = KIND
    draws_numbers = False

    @cached_property
    def hiding(self) -> RedactionProblem:
        """The guarantee, for as many records as must be there; where only times are named, for some row."""
        rows = self.private.rows
        if self.private.times and not rows:
            rows = (max(self.known, default=0) + 1,)
        return RedactionProblem(
            chain=redactable(self.model),
            length=max([1, *rows, *self.known]),
            private=rows,
            epsilon=self.epsilon,
            adversary=self.adversary,
            known=self.known,
            whole=self.whole,
        )

    @cached_property
    def earlier(self) -> Earlier | None:
        """The earlier redaction that this one is designed together with."""
        return None if self.after is None else Earlier.of(self.after, self.published, self.hiding)

    @cached_property
    def file(self) -> SeriesFile | None:
        """Where the series goes; a file that could not be written is refused before anything is charged or drawn."""
        if not isinstance(self.data, (str, os.PathLike)):
            return None
        if self.out is None:
            raise ParameterError("no file is named for the redacted series; name one with out=")
        return SeriesFile(
            self.out,
            FLOW_ENDINGS,
            data=self.data,
            account=self.account,
            overwrite=self.overwrite,
            published=self.published,
        )

    def reserved_space(self, exact: Placed) -> AbstractContextManager[object]:
        """For a file as large as the one that was read."""
        return nullcontext() if self.file is None else self.file.reserved_space()

    def check(self) -> None:
        """Refuse a guarantee, a mark, a file or an earlier redaction that does not go with the model."""
        chain = self.hiding.chain
        redaction_mechanism(self.method)
        check_mark(self.mark, chain)
        _ = self.file
        _ = self.earlier
        self.reading.check(chain)
        self.private.check(self.reading)
        if self.reading.is_part:
            raise NotApplicableError(
                f"a redaction is of a whole series, and not of a segment {self.reading.segment}: what comes "
                "before and after may be known or published, and would give the private records away; redact the whole "
                "series, and keep the rows of the segment from what it writes"
            )

    def expect(self, ledger: Ledger, dataset: str) -> None:
        """The data set must be for this model and this adversary."""
        if self.known:
            raise ParameterError(
                "a data set of a ledger keeps its budget for one adversary, who is not known to know certain rows: "
                "leave known= out, or the ledger",
                value=list(self.known),
            )
        super().expect(ledger, dataset)

    def read(self) -> Placed:
        """Where the private and the known rows stand."""
        self.progress("reading")
        layout, chain = self.reading, self.hiding.chain
        ordered = layout.order is not None or layout.by is not None
        placement = Placement(
            series=open_series(self.data, layout, rows=ordered), coding=Coding(labels=chain.labels, bins=chain.bins)
        )
        columns = written_columns(self.data, layout, self.keep)
        check_people(chain, placement.series, placement.counts.records)
        check_restarts(layout, placement.counts)
        check_moves(chain, placement.series)
        marked = None
        if self.earlier is not None:
            marked = marked_rows(self.published, self.reading.column, self.earlier.certificate.mark)
        private = self.private.rows_in(placement)
        rows = placement.find([*private, *self.known])
        return Placed(placement=placement, rows=rows, private=private, columns=columns, marked=marked)

    def problem(self, exact: Placed) -> RedactionRequest:
        """For the whole series; chains without private records are released as they are."""
        placed, count = exact.rows, len(exact.private)
        rows = dict(zip(placed.positions, [*exact.private, *self.known], strict=True))
        private = placed.positions[:count]
        if self.earlier is not None:
            before = self.earlier.rows(placed)
            rows, private = {**before, **rows}, (*before, *private)
        whole = replace(self.hiding, length=placed.count, private=private, known=placed.positions[count:])
        own = tuple(span for span in placed.chains if any(span[0] <= p <= span[1] for p in whole.private))
        return RedactionRequest(
            hiding=whole,
            private=tuple(rows[p] for p in whole.private),
            known=tuple(rows[p] for p in whole.known),
            chains=own,
            records=placed.count - placed.missing,
            mark=self.mark,
            method=self.method,
            earlier=None if self.earlier is None else self.earlier.design,
            after=None if self.earlier is None else self.earlier.part,
            dataset=self.account.dataset,
        )

    def draw(self, problem: RedactionRequest, solution: Designs, exact: Placed, charged: Charged) -> Redaction:
        """Mark records, write the series and certify it."""
        self.announce("redacting")
        placement, blocks = exact.placement, redacted_blocks(problem.chains, solution)
        if self.earlier is None:
            spans = draw(blocks, placement, self.sampler)
        else:
            assert exact.marked is not None
            spans = draw_again(blocks, self.earlier.design, placement, self.sampler, exact.marked)
        rows = dict(zip(exact.rows.positions, [*exact.private, *self.known], strict=True))
        row_at = None if placement.plain else _rows_at(blocks, placement, rows)
        frame, lost = None, ""
        if isinstance(self.data, (str, os.PathLike)):
            data, column, mark, columns = self.data, self.reading.column, self.mark, exact.columns
            assert self.file is not None
            try:
                self.file.write(lambda path: rewrite_file(data, column, spans, mark, path, columns), charged)
            except Exception as error:
                if not charged.words:
                    raise
                why = error if isinstance(error, DeliveryError) else f"{charged.words}; {reason_of(error)}"
                rows_by_hand = ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in spans)
                lost = f"{why}; put the mark into these rows yourself, and no others: {rows_by_hand or 'none'}"
        else:
            frame = rewrite_frame(self.data, self.reading.column, spans, self.mark, exact.columns)
        where = "the error's value" if self.file is None else f"in {self.file.path!r}"
        with charged.certifying(frame, lambda: lost or f"the redacted series is {where}"):
            counts = placement.counts
            model, missing = problem.hiding.chain, counts.missing
            facts = facts_of(self.reading, model, counts.lengths, missing, counts.ranges, counts.unobserved)
            named = (facts["column"], facts["order"], facts["by"])
            facts["kept"] = [name for name in exact.columns if name not in named]
            facts["assumptions"] = assumptions(facts, model)
            made = self.made(facts, charged)
            redaction = Redaction(
                designs=tuple((first, design) for (first, _), design in zip(problem.chains, solution, strict=True)),
                rows=exact.rows.count,
                missing=exact.rows.missing,
                mark=self.mark,
                row_at=row_at,
                certificate=self.kind.certify(problem, solution, made),
                data=frame,
            )
        if lost:
            raise DeliveryError(lost, result=redaction)
        return redaction if self.file is None else self.file.delivered(redaction)


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """An earlier redaction of the same data."""

    certificate: RedactionCertificate
    design: Design

    @classmethod
    def of(cls, content: dict[str, Any], published: object, hiding: RedactionProblem) -> Earlier:
        """From its certificate, which must hold and be of one chain, for the same model and adversary."""
        if published is None:
            raise ParameterError("after names an earlier redaction; published must be the series it published")
        designs = read_designs(content)
        if len(designs) != 1 or model_digest(designs[0].hiding.chain) != model_digest(hiding.chain):
            raise ParameterError("the earlier redaction must be of one chain, under the same model")
        before = designs[0].hiding
        if before.adversary is not hiding.adversary or hiding.known:
            raise ParameterError(
                f"the earlier redaction is for the adversary {before.adversary}, and so is one designed together with "
                f"it: name that one with adversary='{before.adversary}', and no known rows",
                value=hiding.adversary,
            )
        if before.whole is not hiding.whole:
            raise ParameterError(
                "the earlier redaction hides "
                + ("segments as a whole" if before.whole else "each private record for itself")
                + f", and so does one designed together with it: whole={before.whole}",
                value=hiding.whole,
            )
        return cls(certificate=RedactionCertificate.model_validate(content), design=designs[0])

    @property
    def part(self) -> EarlierPart:
        """What the new certificate says of it."""
        c = self.certificate
        dataset = None if c.ledger is None else c.ledger.dataset
        return EarlierPart(sha256=c.sha256, private=c.guarantee.private, leakage=c.leakage, dataset=dataset)

    def rows(self, placed: PlacedRows) -> dict[int, int]:
        """Its private rows by their positions; refuses another series than the one it was of."""
        if placed.missing or len(placed.chains) != 1 or self.design.hiding.length != placed.count:
            raise ParameterError(
                f"the earlier redaction is of {self.design.hiding.length} records in one chain; the data has "
                f"{placed.count} rows, {placed.missing} of them without a value: it must be the same series"
            )
        return dict(zip(self.certificate.data.private, self.certificate.guarantee.private, strict=True))


def _rows_at(blocks: Sequence[Block], placement: Placement, named_rows: dict[int, int]) -> dict[int, int] | None:
    """The row of each position inside a block, and of those that were asked about; None where all are the same.

    A row that is not there has none.
    """
    spans = [(block.first, block.last) for block in blocks]
    rows, _ = placement.states_at(spans)
    row_at = named_rows | dict(zip((n for a, b in spans for n in range(a, b + 1)), rows.tolist(), strict=True))
    if all(position == row for position, row in row_at.items()):
        return None
    return {position: row for position, row in row_at.items() if row > 0}
