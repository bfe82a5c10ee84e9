"""Publish a series but for what gives private records away: design, draw, write, certify."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pufferdp import checks
from pufferdp.bins import with_bins
from pufferdp.certificate import REDACTION_SCHEMA
from pufferdp.data import Coding, Layout, open_series
from pufferdp.data.rewriting import Rows, Span, rewrite_file, rewrite_frame, spans_around
from pufferdp.errors import ParameterError
from pufferdp.leakage.redaction import Design, Hiding, redactable
from pufferdp.leakage.redaction_again import again
from pufferdp.mechanisms.redaction import redaction_mechanism
from pufferdp.models.classes import Model
from pufferdp.models.files import model_digest, model_to_dict
from pufferdp.models.markov import MarkovChain
from pufferdp.noise import Sampler, SystemSampler
from pufferdp.redaction_certificate import (
    RedactionCertificate,
    knows_text,
    public_facts,
    read_designs,
    seal_redaction,
    statement,
)
from pufferdp.redaction_drawing import draw, draw_again, marked_rows
from pufferdp.redaction_result import MARK, Redaction


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
    missing: str = "refuse",
    bins: str | None = None,
    mark: str = MARK,
    after: RedactionCertificate | dict[str, Any] | None = None,
    published: object = None,
    sampler: Sampler | None = None,
) -> Redaction:
    """Publish a series but for what gives private records away.

    Args:
        data: a CSV or Parquet file, or a pandas, polars or pyarrow frame; rows are taken in their order.
        model: a Markov chain with a stationary start.
        column: the column with states or numbers.
        private: the rows to hide, counted from 1; the value of each is always redacted.
        epsilon: the promise for each of them.
        out: the file to write, with the mark for redacted records; a frame is returned in ``data`` without it.
        method: ``window``, ``3r-relaxed``, ``3r-numerical`` or ``3r-optimal``, the default and the best.
        adversary: ``bdp`` (knows any set of other records), ``pufferfish`` (none) or ``dp`` (all others).
        known: rows that the adversary knows; only with ``pufferfish``.
        missing: ``"refuse"`` or ``"break"`` (a missing value ends a chain).
        bins: edges that turn numbers into states, where the model has none.
        mark: what stands for a redacted record; it must be no state.
        after: the certificate of an earlier redaction of the same data; its private records stay hidden, and the new
            design is for both publications together.
        published: the series that the earlier redaction published.
        sampler: where randomness comes from; the operating system by default.
    """
    sampler = sampler or SystemSampler()
    earlier = _earlier(after, published, model)
    model = with_bins(model, bins)
    asked = [checks.length(p, "private row") for p in private]
    others = [checks.length(p, "known row") for p in known]
    # Whatever can be refused without the data is refused before it is read.
    most = max([1, *asked, *others])
    hiding = Hiding(
        chain=redactable(model),
        length=most,
        private=tuple(asked),
        epsilon=epsilon,
        adversary=checks.adversary(adversary),
    )
    solve = redaction_mechanism(method).design
    _check_mark(mark, hiding.chain)
    if out is None and isinstance(data, (str, os.PathLike)):
        raise ParameterError("no file is named for the redacted series; name one with --out")
    series = open_series(data, Layout(column=column, missing=missing))
    coding = Coding(labels=hiding.chain.labels, bins=hiding.chain.bins)
    found = spans_around(series, coding, asked)
    if earlier is None:
        designs = tuple((a, solve(_within(hiding, (a, b), asked, others))) for a, b in found.chains)
        result = Redaction(designs=designs, rows=found.count, missing=found.missing, mark=mark)
        spans = draw(result.blocks, series, coding, sampler)
    else:
        if found.missing or earlier.hiding.length != found.count:
            raise ParameterError(
                f"the earlier redaction is of {earlier.hiding.length} records in one chain; the data has {found.count} "
                f"rows, {found.missing} of them without a value: it must be the same series"
            )
        designs = ((1, again(earlier, asked, hiding.epsilon)),)
        marked = marked_rows(published, column, _content(after)["mark"])
        result = Redaction(designs=designs, rows=found.count, mark=mark)
        spans = draw_again(result.blocks, earlier, series, coding, sampler, marked)
    frame = None
    if isinstance(data, (str, os.PathLike)):
        rewrite_file(data, column, spans, mark, os.fspath(out or ""))
    else:
        frame = rewrite_frame(data, column, spans, mark)
    certificate = _certify(result, found, column, missing, sampler.warning)
    return Redaction(
        designs=designs, rows=found.count, missing=found.missing, mark=mark, certificate=certificate, data=frame
    )


def _within(hiding: Hiding, span: Span, private: list[int], known: list[int]) -> Hiding:
    """The same promise for one chain, its records counted from 1."""
    first, last = span
    return Hiding(
        chain=hiding.chain,
        length=last - first + 1,
        private=tuple(p - first + 1 for p in private if first <= p <= last),
        epsilon=hiding.epsilon,
        adversary=hiding.adversary,
        known=tuple(p - first + 1 for p in known if first <= p <= last),
    )


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


def _content(certificate: Any) -> dict[str, Any]:
    """The plain content of a certificate."""
    content: dict[str, Any] = certificate if isinstance(certificate, dict) else certificate.to_dict()
    return content


def _earlier(after: Any, published: object, model: Model) -> Design | None:
    """The design of an earlier redaction, from its certificate."""
    if after is None:
        return None
    if published is None:
        raise ParameterError("after names an earlier redaction; published must be the series it published")
    designs = read_designs(_content(after))
    if len(designs) != 1 or model_digest(designs[0].hiding.chain) != model_digest(model):
        raise ParameterError("the earlier redaction must be of one chain, under the same model")
    return designs[0]


def _certify(result: Redaction, found: Rows, column: str, missing: str, warning: str | None) -> RedactionCertificate:
    who = result.hiding
    return seal_redaction(
        {
            "schema": REDACTION_SCHEMA,
            "pufferdp": importlib.metadata.version("pufferdp"),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "guarantee": {
                "adversary": str(who.adversary),
                "knows": knows_text(who.adversary, result.known),
                "epsilon": who.epsilon,
                "private": list(result.private),
                "known": list(result.known),
                "statement": statement(who.adversary, result.known, who.epsilon, len(result.private)),
            },
            "model": model_to_dict(who.chain),
            "model_sha256": model_digest(who.chain),
            "mechanism": {"name": result.method, "theorem": redaction_mechanism(result.method).theorem},
            "leakage": result.leakage,
            "utility": result.utility,
            "blocks": [{"first": b.first, "redaction_probabilities": b.marks.tolist()} for b in result.blocks],
            "data": {
                "column": column,
                "missing": missing,
                "rows": found.count,
                "records": found.count - found.missing,
                "chains": [list(span) for span in found.chains],
            },
            "mark": result.mark,
            "public": public_facts(who.chain, found.count),
            "warnings": [] if warning is None else [warning],
        }
    )
