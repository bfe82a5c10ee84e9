"""Publish a series but for what gives private records away: design, draw, write, certify."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from pufferdp.basics import checks
from pufferdp.basics.arrays import Matrix
from pufferdp.basics.errors import ParameterError
from pufferdp.basics.files import check_file
from pufferdp.basics.progress import Progress
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.rewrite import FLOW_ENDINGS, Placement, Span, rewrite_file, rewrite_frame
from pufferdp.data.series import open_series
from pufferdp.data.sources import rows as fetched
from pufferdp.leakage.redaction.design import Block, Design, Hiding, redactable, within
from pufferdp.ledger import opened
from pufferdp.models.base import Model
from pufferdp.models.bins import with_bins
from pufferdp.models.chain import MarkovChain
from pufferdp.publish.noise import Sampler, SystemSampler, happens
from pufferdp.publish.redaction.certificate import RedactionCertificate
from pufferdp.publish.redaction.kind import Earlier, certify, charge_of
from pufferdp.publish.redaction.methods import redaction_mechanism
from pufferdp.publish.redaction.result import MARK, Redaction

if TYPE_CHECKING:
    from pufferdp.ledger.ledger import Ledger


def marked_rows(published: object, column: str, mark: str) -> set[int]:
    """The rows that an earlier redaction marked."""
    frame = open_series(published, Layout(column=column)).table.frame
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
    rows, codes = placement.look(open_)
    if len(rows):
        spans += spans_of(rows[happens(np.concatenate(marks)[np.arange(len(codes)), codes], sampler)].tolist())
    return merged(spans)


def spans_of(numbers: Iterable[int]) -> list[Span]:
    """Rows as spans."""
    return merged([(row, row) for row in numbers])


def merged(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, those that touch made one."""
    out: list[Span] = []
    for first, last in sorted(spans):
        if out and out[-1][1] >= first - 1:
            out[-1] = out[-1][0], max(last, out[-1][1])
        else:
            out.append((first, last))
    return out


def plan_redaction(
    model: Model,
    *,
    length: int,
    private: Sequence[int],
    epsilon: float,
    method: str | None = None,
    adversary: str = "bdp",
    known: Sequence[int] = (),
    mark: str = MARK,
) -> Redaction:
    """Design a redaction before any data is read.

    Args:
        model: a Markov chain with a stationary start.
        length: records in the series.
        private: the rows to hide, counted from 1.
        epsilon: the promise for each of them.
        method: ``window``, ``3r-relaxed``, ``3r-numerical`` or ``3r-optimal``, the default and the best.
        adversary: ``bdp`` (knows any set of other records), ``pufferfish`` (none) or ``dp`` (all others).
        known: rows that the adversary knows; only with ``pufferfish``.
        mark: what stands for a redacted record.
    """
    hiding = Hiding(
        chain=redactable(model),
        length=length,
        private=tuple(private),
        epsilon=epsilon,
        adversary=checks.adversary(adversary),
        known=tuple(known),
    )
    _check_mark(mark, hiding.chain)
    return Redaction(designs=((1, redaction_mechanism(method).design(hiding)),), rows=hiding.length, mark=mark)


def redact(
    data: object,
    *,
    model: Model,
    column: str,
    private: Sequence[int],
    epsilon: float,
    out: str | os.PathLike[str] | None = None,
    method: str | None = None,
    adversary: str = "bdp",
    known: Sequence[int] = (),
    order: str | None = None,
    by: str | None = None,
    gap: str | float | None = None,
    missing: str = "refuse",
    bins: str | None = None,
    mark: str = MARK,
    after: RedactionCertificate | dict[str, Any] | None = None,
    published: object = None,
    sampler: Sampler | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    progress: Progress | None = None,
) -> Redaction:
    """Publish a series but for what gives private records away.

    Args:
        data: a CSV or Parquet file, or a pandas, polars or pyarrow frame; its rows are written in their order.
        model: a Markov chain with a stationary start.
        column: the column with states or numbers.
        private: the rows to hide, counted from 1 as the data has them; the value of each is always redacted.
        epsilon: the promise for each of them.
        out: the file to write, with the mark for redacted records; a frame is returned in ``data`` without it.
        method: ``window``, ``3r-relaxed``, ``3r-numerical`` or ``3r-optimal``, the default and the best.
        adversary: ``bdp`` (knows any set of other records), ``pufferfish`` (none) or ``dp`` (all others).
        known: rows that the adversary knows; only with ``pufferfish``.
        order: the column that says what follows what; without it the rows follow each other.
        by: the column that tells people apart: one independent chain each.
        gap: a longer step in ``order`` starts a new chain: ``"10min"`` or a number in its unit.
        missing: ``"refuse"`` or ``"break"`` (a missing value ends a chain).
        bins: edges that turn numbers into states, where the model has none.
        mark: what stands for a redacted record; it must be no state.
        after: the certificate of an earlier redaction of the same data; its private records stay hidden, and the new
            design is for both publications together.
        published: the series that the earlier redaction published.
        sampler: where randomness comes from; the operating system by default.
        ledger: where the redaction is charged before anything is drawn or written: a Ledger, its file or its URL.
        dataset: which data set of the ledger.
        progress: called with a few words before each step.
    """
    tell, sampler = progress or (lambda words: None), sampler or SystemSampler()
    model = with_bins(model, bins)
    asked = [checks.length(p, "private row") for p in private]
    others = [checks.length(p, "known row") for p in known]
    # Whatever can be refused without the data is refused before it is read.
    hiding = Hiding(
        chain=redactable(model),
        length=max([1, *asked, *others]),
        private=tuple(asked),
        epsilon=epsilon,
        adversary=checks.adversary(adversary),
        known=tuple(others),
    )
    solve = redaction_mechanism(method).design
    _check_mark(mark, hiding.chain)
    _check_target(data, out)
    earlier = None if after is None else Earlier.of(after, published, hiding)
    layout = Layout(column=column, order=order, by=by, gap=gap, missing=missing)
    with opened(ledger, dataset) as books:
        if books is not None and dataset is not None:
            if others:
                raise ParameterError(
                    "a data set of a ledger keeps its budget for one adversary, who is not known to know certain rows: "
                    "leave --known out, or the ledger",
                    value=others,
                )
            books.expect(dataset, model=model, adversary=hiding.adversary)
    tell("reading")
    placement = Placement(
        series=open_series(data, layout, rows=order is not None or by is not None),
        coding=Coding(labels=hiding.chain.labels, bins=hiding.chain.bins),
    )
    found = placement.find([*asked, *others])
    where = found.positions[: len(asked)]
    whole = Hiding(
        chain=hiding.chain,
        length=found.count,
        private=where,
        epsilon=hiding.epsilon,
        adversary=hiding.adversary,
        known=found.positions[len(asked) :],
    )
    tell("designing")
    if earlier is None:
        own = [span for span in found.chains if any(span[0] <= p <= span[1] for p in where)]
        designs = tuple((first, solve(within(whole, first, last))) for first, last in own)
    else:
        designs = ((1, earlier.design_with(whole, found, window=method == "window")),)
    rows = dict(zip(found.positions, [*asked, *others], strict=True))
    row_at = None if placement.plain else _rows_at(designs, placement, rows)
    result = Redaction(designs=designs, rows=found.count, missing=found.missing, mark=mark, row_at=row_at)
    # The charge is on disk before anything is drawn: a crash from here on loses the series, never the charge.
    receipt = None
    with opened(ledger, dataset) as books:
        if books is not None and dataset is not None:
            receipt = books.charge(dataset, charge_of(result, earlier, dataset))
    tell("redacting")
    if earlier is None:
        spans = draw(result.stretches, placement, sampler)
    else:
        marked = marked_rows(published, column, earlier.certificate.mark)
        spans = draw_again(result.stretches, earlier.design, placement, sampler, marked)
    frame = None
    if isinstance(data, (str, os.PathLike)):
        rewrite_file(data, column, spans, mark, os.fspath(out or ""))
    else:
        frame = rewrite_frame(data, column, spans, mark)
    certificate = certify(result, layout, earlier, receipt, sampler.warning)
    return replace(result, certificate=certificate, data=frame)


def _rows_at(
    designs: tuple[tuple[int, Design], ...], placement: Placement, asked: dict[int, int]
) -> dict[int, int] | None:
    """The row of each position inside a block, and of those that were asked about; None where all are the same."""
    spans = [(first - 1 + b.first, first - 1 + b.last) for first, design in designs for b in design.blocks]
    rows, _ = placement.look(spans)
    found = asked | dict(zip((n for a, b in spans for n in range(a, b + 1)), rows.tolist(), strict=True))
    return None if all(position == row for position, row in found.items()) else found


def _check_target(data: object, out: str | os.PathLike[str] | None) -> None:
    """Refuse a file that could not be written, before anything is charged or drawn."""
    if not isinstance(data, (str, os.PathLike)):
        return
    if out is None:
        raise ParameterError("no file is named for the redacted series; name one with --out")
    check_file(out, "out", FLOW_ENDINGS)
    if Path(out).resolve() == Path(data).resolve():
        raise ParameterError(f"out is {str(out)!r}, the data itself; name another file", value=out)


def _check_mark(mark: str, chain: MarkovChain) -> None:
    if not isinstance(mark, str) or not mark.strip() or mark.strip() != mark:
        raise ParameterError(f"mark is {mark!r}; it must be a word without spaces around it", value=mark)
    if mark in chain.labels:
        raise ParameterError(f"mark is {mark!r}, which is a state; take a word that is none", value=mark)
    try:
        float(mark)
    except ValueError:
        return
    raise ParameterError(f"mark is {mark!r}, a number that could be a value; take a word", value=mark)
