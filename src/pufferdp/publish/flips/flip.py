"""A sanitised series: read, flipped record by record, written, certified. Exact states never leave this module."""

from __future__ import annotations

import importlib.metadata
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from pufferdp.basics import checks
from pufferdp.basics.errors import BudgetError, DataError, NotApplicableError, ParameterError, PufferdpError
from pufferdp.basics.files import check_file
from pufferdp.basics.paged import Paged
from pufferdp.basics.progress import Progress
from pufferdp.data.csv_stream import change_file, change_lines, check_lines, count_lines, is_plain
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.rewrite import ENDINGS, Codes, FileRows, row_codes
from pufferdp.data.series import open_series
from pufferdp.ledger import charged, opened
from pufferdp.models.base import Model
from pufferdp.models.bins import with_bins
from pufferdp.models.chain import MarkovChain
from pufferdp.models.chain_classes import MarkovClass
from pufferdp.models.files.json import model_digest, model_to_dict
from pufferdp.publish.certificate import SERIES_SCHEMA
from pufferdp.publish.fingerprint import fitted_warning
from pufferdp.publish.flips.certificate import (
    SeriesCertificate,
    series_charge,
    series_guarantee,
    series_once,
    series_public,
)
from pufferdp.publish.flips.design import THEOREMS, FlipDesign, design_flips, flip_chains
from pufferdp.publish.noise import Sampler, SystemSampler
from pufferdp.publish.noise import flip as draw_flips
from pufferdp.publish.reading import check_reading, check_start, coding_of, facts_of, histogram_of

if TYPE_CHECKING:
    from pufferdp.ledger.balance import Receipt
    from pufferdp.ledger.ledger import Ledger


DesignOf = Callable[[float, int | None], FlipDesign]
"""The design for an epsilon and a length."""
_TRIES: Final = 4
"""Designs that are tried to find what would fit; with many states each takes seconds."""


@dataclass(frozen=True)
class Account:
    """Where a series is charged, if anywhere."""

    ledger: Ledger | str | os.PathLike[str] | None
    dataset: str | None
    tell: Callable[[str], None] = field(default=lambda words: None, repr=False)

    @property
    def kept(self) -> bool:
        """Whether there is a ledger."""
        return self.ledger is not None

    def expect(self, model: Model, adversary: str) -> None:
        """Refuse another model or adversary than the data set's before any data is read."""
        with opened(self.ledger, self.dataset) as books:
            if books is not None and self.dataset is not None:
                books.expect(self.dataset, model=model, adversary=adversary)

    def charge(self, design: FlipDesign, design_of: DesignOf) -> tuple[Receipt | None, bool]:
        """Charge a series; over budget, say at which epsilon it would fit."""
        try:
            return charged(
                self.ledger,
                self.dataset,
                lambda: series_charge(
                    design.channel.tolist(),
                    design.length,
                    design.epsilon,
                    model_digest(design.model),
                    str(design.adversary),
                ),
            )
        except BudgetError as error:
            if error.left is None:
                raise
            self.tell("looking for what would fit")
            fits = _fitting(design, design_of, error.left)
            said = "" if fits is None else f", as with --epsilon {fits:.10g}"
            raise BudgetError(f"{error}{said}", value=error.value, left=error.left) from None


def _fitting(design: FlipDesign, design_of: DesignOf, left: float) -> float | None:
    """An epsilon, in three digits, whose flips spend no more than what is left: the loss is nearly a multiple of it."""
    epsilon, loss, best = design.epsilon, design.dp_loss, None
    for _ in range(_TRIES):
        if not 0 < loss < math.inf or 0.98 * left < loss < left:
            break
        epsilon *= left / loss * (1 - 1e-9)
        places = 2 - math.floor(math.log10(epsilon))
        epsilon = math.floor(epsilon * 10.0**places) / 10.0**places
        try:
            loss = design_of(epsilon, design.length).dp_loss * (1 + 1e-9)  # what is charged is rounded up
        except PufferdpError:
            break
        if loss < left:
            best = max(epsilon, best or 0.0)
    return best


@dataclass(frozen=True, kw_only=True)
class Flip(Paged):
    """A sanitised series and its certificate."""

    design: FlipDesign
    """The channel."""
    certificate: SeriesCertificate
    """What was promised."""
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
    model: Model,
    column: str,
    epsilon: float,
    adversary: str = "bdp",
    order: str | None = None,
    by: str | None = None,
    gap: str | float | None = None,
    missing: str = "refuse",
    bins: str | None = None,
    optimise: bool = False,
    out: str | os.PathLike[str] | None = None,
    sampler: Sampler | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    progress: Progress | None = None,
) -> Flip:
    """Sanitise a series once, for any use: every record passes a channel on its own.

    Args:
        data: a CSV or Parquet file, or a pandas, polars, pyarrow or DuckDB frame.
        model: the chain, or the list of chains, the guarantee is for.
        column: the column with states or numbers.
        epsilon: the promise.
        adversary: ``bdp`` (knows any set of records), ``pufferfish`` (none) or ``dp`` (all others).
        order: the column to sort by; it says where chains are cut, and is written beside the states.
        by: the column that tells people apart: one independent chain each; written beside the states.
        gap: a longer step in ``order`` starts a new chain.
        missing: ``"refuse"`` or ``"break"``; a missing value stays missing.
        bins: edges that turn numbers into states, where the model has none.
        optimise: with more than two states, search for a better channel than k-ary randomised response.
        out: write the sanitised series here (.csv, .csv.gz or .parquet); for files only.
        sampler: where randomness comes from; the operating system by default.
        ledger: where the series is charged before a record is flipped: a Ledger, its file or its URL.
        dataset: which data set of the ledger.
        progress: called with a few words before each step.
    """
    tell, sampler = progress or (lambda words: None), sampler or SystemSampler()
    model, coding, layout = _prepare(model, bins, Layout(column=column, order=order, by=by, gap=gap, missing=missing))
    checks.epsilon(epsilon)
    checks.adversary(adversary)

    account = Account(ledger, dataset, tell)
    account.expect(model, adversary)

    def design_of(epsilon: float, length: int | None) -> FlipDesign:
        return design_flips(model, epsilon, length=length, adversary=adversary, optimise=optimise)

    if out is not None:
        check_file(out, "out", ENDINGS)
        if not isinstance(data, (str, os.PathLike)):
            raise ParameterError("out is for files; a frame's flipped values come as .values, in the order of its rows")
    if isinstance(data, (str, os.PathLike)) and out is not None and is_plain(Path(data), Path(out), layout):
        tell("flipping line by line")
        return _by_lines(Path(data), Path(out), epsilon, design_of, coding, layout, sampler, account)
    tell("reading")
    file = FileRows.of(data, layout) if isinstance(data, (str, os.PathLike)) else None
    # A file without an order or people is read once; otherwise the order is needed as times, and as it is written.
    simple = file is not None and order is None and by is None
    counts = (file.series if file is not None and simple else open_series(data, layout)).counts(coding)
    check_start(model, counts)
    exact = histogram_of(model, counts)
    tell("choosing the channel")
    design = design_of(epsilon, max(length for length, _ in counts.lengths))
    receipt, counted = account.charge(design, design_of)
    tell("flipping")

    def change(codes: Codes) -> Codes:
        return _flipped(codes, coding, design, sampler)

    states = None
    if file is not None:
        if out is None:
            states = np.concatenate([change(codes) for codes in file.chunks(coding)])
        else:
            file.write(out, coding, model.labels, change)
    else:
        states = change(row_codes(data, layout, coding))
    warnings = [sampler.warning, fitted_warning(model.fitted, dict(zip(model.labels, exact, strict=True)), counted)]
    facts = facts_of(layout, None, counts.lengths, counts.missing)
    return Flip(design=design, certificate=_certify(design, facts, warnings, receipt), states=states)


def _by_lines(
    path: Path,
    out: Path,
    epsilon: float,
    design_of: DesignOf,
    coding: Coding,
    layout: Layout,
    sampler: Sampler,
    account: Account,
) -> Flip:
    """One chain in a text file: as many records as lines, in constant memory."""
    design = design_of(epsilon, max(1, count_lines(path)))
    if account.kept:
        check_lines(path, layout, coding, design.model.labels)  # a file that cannot be flipped is not charged
    receipt, counted = account.charge(design, design_of)
    tally = np.zeros(len(coding.labels), dtype=np.int64)

    def change(codes: Codes) -> Codes:
        tally[:] += np.bincount(codes, minlength=len(tally))
        return _flipped(codes, coding, design, sampler)

    passed = change_file(path, out, layout, coding, design.model.labels, change)
    exact = {name: int(n) for name, n in zip(coding.labels, tally, strict=True)}
    facts = facts_of(layout, None, ((passed.records, 1),), passed.missing)
    warnings = [sampler.warning, fitted_warning(design.model.fitted, exact, counted)]
    return Flip(design=design, certificate=_certify(design, facts, warnings, receipt))


def flip_stream(
    source: BinaryIO,
    sink: BinaryIO,
    *,
    model: Model,
    column: str,
    epsilon: float,
    adversary: str = "bdp",
    order: str | None = None,
    by: str | None = None,
    missing: str = "refuse",
    bins: str | None = None,
    optimise: bool = False,
    sampler: Sampler | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
) -> Flip:
    """Sanitise a stream of CSV lines as they come, in constant memory; the promise is for series of any length.

    With a ledger it is charged for any length as well, once its first lines have been read and before any is written.
    What is wrong with a later line ends the stream, and the charge stays.
    """
    sampler = sampler or SystemSampler()
    model, coding, layout = _prepare(model, bins, Layout(column=column, order=order, by=by, missing=missing))
    if (missing == "break" or by is not None) and any(c.given_start is not None for c in model.chains):
        raise NotApplicableError(
            "the start law of the model is for the first record of a stream only, and this one may start again; "
            'use start "stationary" or "any"'
        )
    account = Account(ledger, dataset)
    account.expect(model, adversary)

    def design_of(epsilon: float, length: int | None) -> FlipDesign:
        return design_flips(model, epsilon, length=length, adversary=adversary, optimise=optimise)

    design = design_of(epsilon, None)
    receipt: Receipt | None = None
    counted = False

    def begin() -> None:
        nonlocal receipt, counted
        receipt, counted = account.charge(design, design_of)

    passed = change_lines(
        source, sink, layout, coding, model.labels, lambda codes: _flipped(codes, coding, design, sampler), begin
    )
    fitted = bool(model.fitted) and not counted
    warnings = [
        sampler.warning,
        "the model was fitted on data; if on this stream, the promise is weaker" if fitted else None,
    ]
    facts = facts_of(layout, None, ((passed.records, 1),), passed.missing)
    return Flip(design=design, certificate=_certify(design, facts, warnings, receipt))


def _prepare(model: Model, bins: str | None, layout: Layout) -> tuple[MarkovChain | MarkovClass, Coding, Layout]:
    """Whatever can be refused without the data is refused before it is read."""
    model = with_bins(model, bins)
    flip_chains(model)
    assert isinstance(model, (MarkovChain, MarkovClass))
    check_reading(model, {"order": layout.order, "by": layout.by, "gap": layout.gap}, layout.missing, None)
    return model, coding_of(model), layout


def _flipped(codes: Codes, coding: Coding, design: FlipDesign, sampler: Sampler) -> Codes:
    """States of the model, flipped; missing ones stay as they are."""
    labels = design.model.labels
    if coding.labels != labels:  # bins that the model leaves out; none has a record, or it was refused
        places = np.array([*(labels.index(n) if n in labels else -2 for n in coding.labels), -2, -1], dtype=np.int16)
        codes = places[codes]
        if (codes == -2).any():
            raise DataError("a record lies in a bin that the model leaves out; fit it on data that leaves it")
    there = codes >= 0
    if there.all():
        return draw_flips(codes, design.thresholds, sampler)
    out = codes.copy()
    out[there] = draw_flips(codes[there], design.thresholds, sampler)
    return out


def _certify(
    design: FlipDesign, facts: dict[str, Any], warnings: list[str | None], receipt: Receipt | None
) -> SeriesCertificate:
    return SeriesCertificate.seal(
        {
            "schema": SERIES_SCHEMA,
            "pufferdp": importlib.metadata.version("pufferdp"),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "guarantee": series_guarantee(design.model, design.epsilon, design.adversary),
            "model": model_to_dict(design.model),
            "model_sha256": model_digest(design.model),
            "mechanism": {"name": design.mechanism, "theorem": THEOREMS[design.mechanism]},
            "channel": {
                "matrix": design.channel.tolist(),
                "thresholds": [[str(share) for share in row] for row in design.thresholds],
                "loss": design.loss,
                "dp_loss": design.dp_loss,
                "expected_noise": design.expected_noise,
                "length": design.length,
            },
            "data": facts,
            "public": series_public(facts["records"]),
            "labels": list(design.model.labels),
            "once": series_once(receipt),
            "warnings": [w for w in warnings if w],
            "ledger": None if receipt is None else receipt.to_dict(),
        }
    )
