"""``pufferdp release``: one private answer from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from pufferdp.apps.cli import options
from pufferdp.basics.errors import ParameterError


def release_each(data: str, models: str, request: Mapping[str, Any], out: str | None, as_json: bool) -> None:
    """Release what is requested for each person; ``out`` is a file for all, or a folder with a file for each."""
    from pufferdp.basics.files import check_file
    from pufferdp.data.files import scanned
    from pufferdp.models.files.fleet import load_models
    from pufferdp.publish.answers.fleet import release_fleet

    if request["by"] is None:
        raise ParameterError("--models needs --by: name the column that says whose record a row is")
    folder = Path(out) if out is not None and Path(out).is_dir() else None
    if out is not None and folder is None:
        check_file(out, "out")
    with options.progress(scanned) as progress:
        result = release_fleet(data, models=load_models(models), progress=progress, **request)
        content = result.to_dict()
        if folder is not None:
            for person_release in content["releases"]:
                # A person may be called ../x.
                name = quote(person_release["person"], safe=" ").replace(".", "%2E") + ".json"
                options.write_json(folder / name, person_release)
        elif out is not None:
            options.write_json(out, content)
    where = f"\nCertificates: {out}" if out else "\nKeep the certificates with --out FILE or --out FOLDER."
    options.show(content, f"{result}{where}", as_json)


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
    first: options.First = None,
    last: options.Last = None,
    bins: options.Bins = None,
    id: Annotated[
        str | None, typer.Option("--id", help="Column that says which record a row is, for models that are not chains.")
    ] = None,
    secrets: options.SecretsFile = None,
    clip: options.Clip = None,
    mechanism: options.MechanismName = None,
    beta: options.Beta = "0.05",
    delta: options.Delta = None,
    ledger: options.LedgerPlace = None,
    dataset: options.DatasetName = None,
    out: Annotated[str | None, typer.Option("--out", help="Write answer and certificate to this JSON file.")] = None,
    figure: options.FigureFile = None,
    report: options.ReportFile = None,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
) -> None:
    """Release one answer with the noise that keeps the promise, and its certificate; with --models one a person."""
    from pufferdp.basics.errors import ParameterError
    from pufferdp.basics.files import check_file
    from pufferdp.data.files import scanned
    from pufferdp.models.files.json import load_model
    from pufferdp.publish.answers.release import release as make_release
    from pufferdp.publish.answers.secrets import load_secrets

    if (model is None) == (models is None):
        raise ParameterError("give either --model (one for all records) or --models (one for each person of --by)")
    if models is not None:
        for name, value in {
            "--bins": bins,
            "--id": id,
            "--secrets": secrets,
            "--delta": delta,
            "--figure": figure,
            "--report": report,
        }.items():
            if value is not None:
                raise ParameterError(f"{name} goes with --model, not with --models", value=value)
    request = {
        "column": column,
        "query": query,
        "epsilon": options.number("epsilon", epsilon),
        "adversary": adversary,
        "order": order,
        "by": by,
        "gap": options.gap_of(gap),
        "missing": missing,
        "first": first,
        "last": last,
        "clip": options.pair(clip),
        "mechanism": mechanism,
        "beta": options.number("beta", beta),
        "sampler": options.sampler_of(seed),
        "ledger": ledger,
        "dataset": dataset,
    }
    if models is not None:
        return release_each(data, models, request, out, as_json)
    assert model is not None
    # A release that cannot be kept is not made.
    if out is not None:
        check_file(out, "out")
    options.check_figure(figure)
    options.check_report(report)
    with options.progress(scanned) as progress:
        result = make_release(
            data,
            model=load_model(model),
            bins=bins,
            id=id,
            secrets=None if secrets is None else load_secrets(secrets),
            delta=0.0 if delta is None else options.number("delta", delta),
            **request,
            progress=progress,
        )
        if out is not None:
            options.write_json(out, result.to_dict())
        if figure is not None:
            from pufferdp.report.pages.answers import release_chart

            release_chart(result.certificate.to_dict()).save(figure)
    total = "" if as_json else options.balance_text(ledger, dataset)
    where = f"Certificate: {out}" if out else "Keep the certificate with --out FILE."
    options.show(result.to_dict(), f"{result}\n{total}{where}", as_json)
    options.write_report(result, report)
