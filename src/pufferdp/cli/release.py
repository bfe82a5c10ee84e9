"""``pufferdp release``: one private answer from a file."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pufferdp.cli import options
from pufferdp.cli.fleet import release_each


def release(
    data: options.Data,
    column: options.Column,
    query: Annotated[str, typer.Option("--query", help="count:STATE, histogram, frequency, sum or mean.")],
    epsilon: options.Epsilon,
    model: Annotated[str | None, typer.Option("--model", help="Model file (JSON).")] = None,
    models: Annotated[
        str | None,
        typer.Option("--models", help="A model for each person of --by: a folder of PERSON.json, .json or .jsonl."),
    ] = None,
    adversary: options.AdversaryName = "bdp",
    order: options.Order = None,
    by: options.By = None,
    gap: options.Gap = None,
    missing: options.Missing = "refuse",
    bins: options.Bins = None,
    id: Annotated[
        str | None, typer.Option("--id", help="Column that says which record a row is, for models that are not chains.")
    ] = None,
    secrets: options.SecretsFile = None,
    clip: options.Clip = None,
    mechanism: options.MechanismName = None,
    beta: options.Beta = "0.05",
    ledger: options.LedgerPlace = None,
    dataset: options.DatasetName = None,
    out: Annotated[str | None, typer.Option("--out", help="Write answer and certificate to this JSON file.")] = None,
    figure: options.FigureFile = None,
    report: options.ReportFile = None,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
) -> None:
    """Release one answer with the noise that keeps the promise, and its certificate; with --models one a person."""
    from pufferdp.data import scanned
    from pufferdp.errors import ParameterError
    from pufferdp.models import load_model
    from pufferdp.models.files import check_file, write_whole
    from pufferdp.releasing import release as make_release
    from pufferdp.secrets import load_secrets

    if (model is None) == (models is None):
        raise ParameterError("give either --model (one for all records) or --models (one for each person of --by)")
    if models is not None:
        for name, value in {
            "--bins": bins,
            "--id": id,
            "--secrets": secrets,
            "--figure": figure,
            "--report": report,
        }.items():
            if value is not None:
                raise ParameterError(f"{name} goes with --model, not with --models", value=value)
    asked = {
        "column": column,
        "query": query,
        "epsilon": options.number("epsilon", epsilon),
        "adversary": adversary,
        "order": order,
        "by": by,
        "gap": options.gap_of(gap),
        "missing": missing,
        "clip": options.pair(clip),
        "mechanism": mechanism,
        "beta": options.number("beta", beta),
        "sampler": options.sampler_of(seed),
        "ledger": ledger,
        "dataset": dataset,
    }
    if models is not None:
        return release_each(data, models, asked, out, as_json)
    assert model is not None
    # A release that cannot be kept is not made.
    if out is not None:
        check_file(out, "out")
    if figure is not None:
        check_file(figure, "figure", options.FIGURES)
    options.check_report(report)
    with options.progress(scanned) as progress:
        result = make_release(
            data,
            model=load_model(model),
            bins=bins,
            id=id,
            secrets=None if secrets is None else load_secrets(secrets),
            **asked,
            progress=progress,
        )
        if out is not None:
            write_whole(out, json.dumps(result.to_dict(), indent=1, ensure_ascii=False) + "\n")
        if figure is not None:
            from pufferdp.report.figures import release_chart

            release_chart(result.certificate.to_dict()).save(figure)
    total = "" if as_json else options.standing(ledger, dataset)
    where = f"Certificate: {out}" if out else "Keep the certificate with --out FILE."
    options.show(result.to_dict(), f"{result}\n{total}{where}", as_json)
    options.write_report(result, report)
