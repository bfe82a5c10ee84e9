"""``pufferdp release``: one private answer from a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs, write_json
from pufferdp.basics.errors import ParameterError


def release_each(
    data: str, models: str, request: Mapping[str, Any], out: str | None, overwrite: bool, as_json: bool
) -> None:
    """Release what is requested for each person; ``out`` is a file for all, or a folder with a file for each."""
    from pufferdp.data.files import scanned
    from pufferdp.models.files.fleet import load_models
    from pufferdp.publish.answers.fleet import release_fleet

    if request["by"] is None:
        raise ParameterError("--models needs --by: name the column that says whose record a row is")
    folder = out if out is not None and os.path.isdir(out) else None
    outputs = Outputs(
        {"out": None if folder is not None else out},
        sources={"the data": data, "the models": models},
        ledger=request["ledger"],
        overwrite=overwrite,
    )
    with options.progress(scanned) as progress:
        believed = load_models(models)
        # A person may be called ../x, or have a name that is too long for a file.
        places = {} if folder is None else outputs.check_folder("out", folder, believed)
        result = outputs.make(lambda: release_fleet(data, models=believed, progress=progress, **request))
        content = result.to_dict()
        with outputs.delivery(content, published=True) as delivery:
            written = delivery.json("out", content)
            if folder is not None:
                each = [
                    delivery.fill(places[part["person"]], partial(write_json, content=part))
                    for part in content["releases"]
                ]
                written = all(each)
            where = "\nKeep the certificates with --out FILE or --out FOLDER."
            if out is not None:
                where = f"\nCertificates: {out}" if written else ""
            delivery.show(content, lambda: f"{result}{where}", as_json)


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
    restart: options.Restart = None,
    independent: options.Independent = False,
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
    overwrite: options.Overwrite = False,
    sign: Annotated[
        str | None, typer.Option("--sign", help="Private Ed25519 key (PEM) that signs the certificate.")
    ] = None,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
) -> None:
    """Release one answer with the noise that keeps the promise, and its certificate; with --models one a person."""
    from pufferdp.data.files import scanned
    from pufferdp.models.files.json import load_model
    from pufferdp.publish.answers.release import release as make_release
    from pufferdp.publish.answers.secrets import load_secrets
    from pufferdp.publish.signatures import Signer

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
            "--sign": sign,
        }.items():
            if value is not None:
                raise ParameterError(f"{name} goes with --model, not with --models", value=value)
    request = {
        "column": column,
        "query": query,
        "epsilon": options.epsilon_of(epsilon, ledger, dataset, first, last),
        "adversary": adversary,
        "order": order,
        "by": by,
        "restart": options.distance_of(restart),
        "independent": independent,
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
        return release_each(data, models, request, out, overwrite, as_json)
    assert model is not None
    # A release that cannot be kept is not made.
    outputs = Outputs(
        {"out": out, "figure": figure, "report": report},
        sources={"the data": data, "the model": model, "the secrets": secrets, "the key": sign},
        ledger=ledger,
        overwrite=overwrite,
    )
    signer = None if sign is None else Signer(sign)
    believed, own = load_model(model), None if secrets is None else load_secrets(secrets)
    with options.progress(scanned) as progress:
        result = outputs.make(
            lambda: make_release(
                data,
                model=believed,
                bins=bins,
                id=id,
                secrets=own,
                delta=0.0 if delta is None else options.number("delta", delta),
                **request,
                progress=progress,
            )
        )
        options.deliver(result, outputs, progress, _draw, (ledger, dataset), out, as_json, signer)


def _draw(certificate: dict[str, Any], path: Path) -> None:
    from pufferdp.report.pages.answers import release_chart

    release_chart(certificate).save(path)
