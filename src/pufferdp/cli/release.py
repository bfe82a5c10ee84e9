"""``pufferdp release``: one private answer from a file."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pufferdp.cli import options


def release(
    data: Annotated[str, typer.Argument(help="CSV or Parquet file, or a folder of Parquet files.")],
    model: Annotated[str, typer.Option("--model", help="Model file (JSON).")],
    column: options.Column,
    query: Annotated[str, typer.Option("--query", help="count:STATE, histogram, frequency, sum or mean.")],
    epsilon: options.Epsilon,
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
    mechanism: Annotated[
        str | None, typer.Option("--mechanism", help="A mechanism by name; the best by default.")
    ] = None,
    beta: options.Beta = "0.05",
    ledger: options.LedgerPlace = None,
    dataset: options.DatasetName = None,
    out: Annotated[str | None, typer.Option("--out", help="Write answer and certificate to this JSON file.")] = None,
    figure: options.FigureFile = None,
    seed: Annotated[
        str | None, typer.Option("--seed", help="For experiments only: noise anyone can repeat. Unsafe.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Release one answer with the noise that keeps the promise, and its certificate."""
    from pufferdp.models import load_model
    from pufferdp.models.files import check_file, write_whole
    from pufferdp.releasing import release as make_release
    from pufferdp.secrets import load_secrets

    sampler = None
    if seed is not None:
        from pufferdp import checks
        from pufferdp.noise import SeededSampler

        sampler = SeededSampler(checks.length(seed, "seed", least=0))
    # A release that cannot be kept is not made.
    if out is not None:
        check_file(out, "out")
    if figure is not None:
        check_file(figure, "figure", options.FIGURES)
    with options.progress() as progress:
        result = make_release(
            data,
            model=load_model(model),
            column=column,
            query=query,
            epsilon=options.number("epsilon", epsilon),
            adversary=adversary,
            order=order,
            by=by,
            gap=options.gap_of(gap),
            missing=missing,
            bins=bins,
            id=id,
            secrets=None if secrets is None else load_secrets(secrets),
            clip=options.pair(clip),
            mechanism=mechanism,
            beta=options.number("beta", beta),
            sampler=sampler,
            ledger=ledger,
            dataset=dataset,
            progress=progress,
        )
        if out is not None:
            write_whole(out, json.dumps(result.to_dict(), indent=1, ensure_ascii=False) + "\n")
        if figure is not None:
            from pufferdp.report.figures import release_figure

            release_figure(result.certificate.to_dict(), figure)
    total = ""
    if ledger is not None and dataset is not None and not as_json:
        from pufferdp.ledger.accounts import Ledger
        from pufferdp.report.ledger import standing

        with Ledger(ledger) as books:
            total = "\n" + standing(books.dataset(dataset).to_dict())
    where = f"\nCertificate: {out}" if out else "\nKeep the certificate with --out FILE."
    options.show(result.to_dict(), f"{result}{total}{where}", as_json)
