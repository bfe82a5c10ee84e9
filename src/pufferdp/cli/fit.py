"""``pufferdp fit``: a model from data."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pufferdp.cli import options


def fit(
    data: options.Data,
    column: options.Column,
    confidence: Annotated[
        str | None, typer.Option("--confidence", help="Write a class that contains the truth with this probability.")
    ] = None,
    order: options.Order = None,
    by: options.By = None,
    gap: options.Gap = None,
    missing: options.Missing = "refuse",
    bins: options.Bins = None,
    start: Annotated[str, typer.Option("--start", help="Start of the fitted chain: stationary or any.")] = "stationary",
    out: Annotated[str | None, typer.Option("--out", help="Write the model to this file.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Estimate a chain from data, or with --confidence a class of chains that contains the truth."""
    from pufferdp.data import scanned
    from pufferdp.errors import ParameterError
    from pufferdp.fitting import fit as make_fit
    from pufferdp.models.files import check_file, model_to_dict, save_model

    if start not in ("stationary", "any"):
        raise ParameterError(f"start is {start!r}; it must be stationary or any", value=start)
    if out is not None:
        check_file(out, "out")
    with options.progress(scanned) as progress:
        result = make_fit(
            data,
            column=column,
            order=order,
            by=by,
            gap=options.gap_of(gap),
            missing=missing,
            bins=bins,
            confidence=None if confidence is None else options.number("confidence", confidence),
            start=start,
            progress=progress,
        )
    content = model_to_dict(result.model)
    if out is not None:
        save_model(result.model, out)
    lines = [repr(result.model)]
    if result.left_out:
        lines.append(f"Left out, because the data never leaves them: {', '.join(result.left_out)}.")
    if result.unvisited:
        lines.append(f"Not visited: {', '.join(result.unvisited)}.")
    lines.append("A model fitted on the data that is released weakens the promise; the certificate will say so.")
    lines.append(f"Model: {out}" if out else json.dumps(content, ensure_ascii=False))
    options.show(content, "\n".join(lines), as_json)
