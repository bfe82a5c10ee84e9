"""``pufferdp release``: one private answer from a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs, write_json
from pufferdp.basics.errors import ParameterError

if TYPE_CHECKING:
    from pufferdp.publish.signatures import Signer
    from pufferdp.publish.tables.publication import TableRelease

_OTHER_FORMATS: Final = (".csv", ".tsv", ".parquet", ".feather", ".xlsx", ".xls", ".html", ".pdf", ".png", ".svg")
"""What an answer is not written as: a file that is named so would be opened with the wrong program."""


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
        prior = load_models(models)
        # A person may be called ../x, or have a name that is too long for a file.
        places = {} if folder is None else outputs.check_folder("out", folder, prior)
        result = outputs.make(lambda: release_fleet(data, models=prior, progress=progress, **request))
        content = outputs.content_of(result)
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


@dataclass(frozen=True, kw_only=True)
class Priors:
    """The model of all records, or one for each person."""

    model: Annotated[str | None, typer.Option("--model", help="Model file (JSON).")] = None
    models: Annotated[
        str | None,
        typer.Option("--models", help="A model for each person of --by: a folder of PERSON.json, .json or .jsonl."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What is guaranteed, and the noise for it."""

    epsilon: options.Epsilon
    adversary: options.AdversaryName = "bdp"
    unit: options.UnitName = None
    secrets: options.SecretsFile = None
    delta: options.Delta = None
    mechanism: options.MechanismName = None
    beta: options.Beta = "0.05"


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """The rows of a table, and how its queries share the DP loss."""

    per: options.Per = None
    groups: Annotated[
        str | None, typer.Option("--groups", help="The rows of --per person or COLUMN: a,b,c or a file of names.")
    ] = None
    split: options.Split = None
    sizes: options.Sizes = "exact"


@dataclass(frozen=True, kw_only=True)
class Files:
    """Where the answer goes, and who signs it."""

    out: Annotated[
        str | None,
        typer.Option("--out", help="Write answer and certificate to this JSON file; a table also to .csv or .parquet."),
    ] = None
    sign: Annotated[
        str | None, typer.Option("--sign", help="Private Ed25519 key (PEM) that signs the certificate.")
    ] = None


def release(
    data: options.Data,
    column: options.Column,
    query: options.Queries,
    guarantee: Guarantee,
    priors: Priors,
    rows: options.Rows,
    table: TableShape,
    account: options.CheckedAccount,
    shown: options.Shown,
    files: Files,
    id: Annotated[
        str | None, typer.Option("--id", help="Column that says which record a row is, for models that are not chains.")
    ] = None,
    clip: options.Clip = None,
) -> None:
    """Release an answer with noise that meets the guarantee, and its certificate; with --models, one for each person.

    Several --query, or --per, make a table: one guarantee for all its rows and columns.
    """
    from pufferdp.data.files import scanned
    from pufferdp.models.files.json import load_model
    from pufferdp.publish.answers.queries import asks_table
    from pufferdp.publish.answers.secrets import load_secrets
    from pufferdp.publish.release import release as make_release
    from pufferdp.publish.signatures import Signer

    if (priors.model is None) == (priors.models is None):
        raise ParameterError("give either --model (one for all records) or --models (one for each person of --by)")
    asked_rows = rows.arguments()
    bins = asked_rows.pop("bins")
    request: dict[str, Any] = {
        "column": column,
        "query": query[0],
        "epsilon": options.epsilon_of(guarantee.epsilon, account, rows),
        "adversary": guarantee.adversary,
        **asked_rows,
        "clip": options.pair(clip),
        "mechanism": guarantee.mechanism,
        "beta": options.number("beta", guarantee.beta),
        "sampler": options.sampler_of(shown.seed),
        **vars(account),
    }
    if priors.models is not None:
        single = {"bins": bins, "id": id, "secrets": guarantee.secrets, "delta": guarantee.delta}
        single |= {"unit": guarantee.unit, "figure": shown.figure, "report": shown.report, "per": table.per or None}
        single |= {"groups": table.groups, "split": table.split, "sign": files.sign}
        single["sizes"] = None if table.sizes == "exact" else table.sizes
        _check_one_query_each(single, query)
        return release_each(data, priors.models, request, files.out, shown.overwrite, shown.as_json)
    model = priors.model
    assert model is not None
    out = options.out_file(files.out, "release.json")
    own = None if guarantee.secrets is None else load_secrets(guarantee.secrets)
    asked: dict[str, Any] = {"query": query if len(query) > 1 else query[0], "per": table.per or None}
    asked |= {"groups": table.groups, "sizes": table.sizes}
    asked |= {"split": options.numbers("split", table.split)} if table.split is not None else {}
    # A release that cannot be kept is not made.
    places = {"out": out, "figure": shown.figure, "report": shown.report}
    tabled = asks_table(asked["query"], table.per)
    parted = out is not None and tabled and certificate_file(out) is not None
    places |= {"certificate": certificate_file(out or "")} if parted else {}
    outputs = Outputs(
        places,
        sources={"the data": data, "the model": model, "the secrets": guarantee.secrets, "the key": files.sign},
        ledger=account.ledger,
        overwrite=shown.overwrite,
        whole=("out", "certificate") if parted else ("out",),
        together=parted,
    )
    if out is not None and not tabled and os.path.splitext(out)[1].lower() in _OTHER_FORMATS:
        raise ParameterError(f"out is {out!r}; an answer and its certificate are written to a .json file", value=out)
    signer = None if files.sign is None else Signer(files.sign)
    prior = load_model(model)
    with options.progress(scanned) as progress, outputs.reserved_spaces("out") as reserved_space:
        result = outputs.make(
            lambda: make_release(
                data,
                model=prior,
                bins=bins,
                id=id,
                secrets=own,
                delta=0.0 if guarantee.delta is None else options.number("delta", guarantee.delta),
                unit=guarantee.unit,
                reserved_space=reserved_space,
                **{**request, **asked},
                progress=progress,
            )
        )
        if tabled:
            deliver_table(result, outputs, progress, account, out, shown.as_json, signer)
        else:
            options.deliver(result, outputs, progress, _draw, account, out, shown.as_json, signer)


def _check_one_query_each(single: Mapping[str, object], query: Sequence[str]) -> None:
    """Reject options of one release where each person gets a release, and several queries, which make a table."""
    for name, value in single.items():
        if value is not None:
            raise ParameterError(f"--{name} goes with --model, not with --models", value=value)
    if len(query) > 1:
        raise ParameterError(
            "several queries make a table, which has one model for all its people: use --model, or ask one query"
        )


def _draw(certificate: dict[str, Any], path: Path) -> None:
    from pufferdp.report.pages.answers import release_chart

    release_chart(certificate).save(path)


def certificate_file(out: str) -> str | None:
    """Where the certificate of a table goes that is written as CSV or Parquet; None: JSON has both."""
    ending = os.path.splitext(out)[1].lower()
    if ending in ("", ".json"):
        return None
    if ending not in (".csv", ".parquet"):
        raise ParameterError(f"out is {out!r}; a table is written to a .csv, .parquet or .json file", value=out)
    return f"{os.path.splitext(out)[0]}.certificate.json"


def deliver_table(
    result: TableRelease,
    outputs: Outputs,
    progress: options.Progress,
    account: options.Account,
    out: str | None,
    as_json: bool,
    signer: Signer | None = None,
) -> None:
    """Bring a table to its owner: the files first, then what is shown, then the figure and the report."""
    from pufferdp.report.pages.tables import left_out

    progress("writing the table")
    certificate = None if out is None else certificate_file(out)
    content = outputs.content_of(result)
    signature = outputs.signature(signer, content["certificate"])
    content |= signature
    with outputs.delivery(content, content["certificate"].get("ledger"), published=True) as delivery:
        if out is not None and certificate is not None:
            ending = os.path.splitext(out)[1].lower()
            delivery.write("out", lambda path: result.table.write(path, ending))
            alone = content["certificate"]
            delivery.json("certificate", {"certificate": alone, **signature} if signature else alone)
        else:
            delivery.json("out", content)

        def text() -> str:
            where = "Keep the table and its certificate with --out FILE."
            if out is not None:
                shown = {"out": f"Table: {out}", "certificate": f"Certificate: {certificate}"}
                where = "\n".join(line for name, line in shown.items() if delivery.has(name))
            return f"{result}\n{options.balance_text(account)}{where}".rstrip()

        delivery.show(content, text, as_json)
        if as_json:  # the text has them
            for warning in content["certificate"]["warnings"]:
                options.warn(warning)
        progress("drawing")
        delivery.write("figure", lambda path: _draw_table(content, path))
        left = left_out(len(result.table.rows))
        if left and delivery.has("figure"):
            options.warn(f"the figure shows {left}; the table has them all")
        progress("writing the report")
        delivery.report(result)


def _draw_table(content: dict[str, Any], path: Path) -> None:
    from pufferdp.report.pages.tables import table_chart

    table_chart(content["certificate"], content["table"]["rows"]).save(path)
