"""``pufferdp flip``: a privatised series, from a file or as a stream."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs, silence
from pufferdp.basics.errors import ParameterError


@dataclass(frozen=True, kw_only=True)
class Files:
    """What is written of a privatised series."""

    out: Annotated[str | None, typer.Option("--out", help="Write the series here: .csv, .csv.gz, .parquet.")] = None
    certificate: Annotated[
        str | None, typer.Option("--certificate", help="Write the certificate to this JSON file.")
    ] = None
    report: options.ReportFile = None
    overwrite: options.Overwrite = False


def flip(
    model: Annotated[str, typer.Option("--model", help="Model file (JSON): a chain or a list of chains.")],
    epsilon: options.Epsilon,
    rows: options.Rows,
    account: options.CheckedAccount,
    files: Files,
    data: Annotated[
        str | None, typer.Argument(help="CSV or Parquet file, or - for a stream of CSV lines; none with --length.")
    ] = None,
    column: Annotated[str | None, typer.Option("--column", help="Column with states or numbers.")] = None,
    adversary: options.AdversaryName = "bdp",
    length: Annotated[
        str | None, typer.Option("--length", help="Instead of DATA: show the design for this many records.")
    ] = None,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
) -> None:
    """Sanitise a series record by record, so that it can be published once and used for anything."""
    from pufferdp.basics import checks
    from pufferdp.models.files.json import load_model
    from pufferdp.publish.flips.plan import design_flips

    if (data is None) == (length is None):
        raise ParameterError("give either DATA (a file, or - for a stream) or --length (the design only)")
    out = options.out_file(files.out, f"{options.stem(data)}.flipped.csv")
    outputs = Outputs(
        {"out": out, "certificate": files.certificate, "report": files.report},
        sources={"the data": data, "the model": model},
        ledger=account.ledger,
        overwrite=files.overwrite,
        whole=("certificate",),
    )
    prior, number = load_model(model), options.guaranteed(epsilon)
    if data is None or length is not None:
        if account.ledger is not None or account.dataset is not None:
            raise ParameterError("a design reads no data and charges nothing: leave --ledger and --dataset out")
        records = checks.length((length or "").strip())
        with options.progress() as progress:
            progress("choosing the channel")
            design = design_flips(prior, number, length=records, adversary=adversary)
            content = design.to_dict()
            with outputs.delivery(content) as delivery:
                delivery.show(content, lambda: str(design), as_json)
                delivery.report(design)
        return
    if column is None:
        raise ParameterError("column is missing; name the column with the states with --column")
    request: dict[str, Any] = {
        "model": prior,
        "column": column,
        "epsilon": number,
        "adversary": adversary,
        **rows.arguments(),
        "sampler": options.sampler_of(seed),
        **vars(account),
    }
    if data == "-":
        from pufferdp.publish.flips.publication import flip_stream

        for name, value in (("out", out), ("restart", request.pop("restart"))):
            if value is not None:
                raise ParameterError(f"{name} is {value!r}; a stream goes to stdout as it comes: leave it out")
        del request["independent"]
        if as_json:
            raise ParameterError("a stream goes to stdout, which cannot also carry --json; use --certificate FILE")
        if sys.stdin is None or sys.stdout is None:
            raise ParameterError("stdin or stdout is closed; a stream comes from one and goes to the other")
        result = outputs.make(lambda: flip_stream(sys.stdin.buffer, sys.stdout.buffer, **request))
        if outputs.accident:
            silence(sys.stdout)  # it may be what failed
        if outputs.stopped is not None:
            outputs.accident = ""  # it is how a stream ends that has no end
        content = outputs.content_of(result)
        with outputs.delivery(content, content["certificate"].get("ledger"), published=True) as delivery:
            delivery.json("certificate", content["certificate"])
            delivery.show(
                content,
                lambda: f"{result}\n{options.balance_text(account)}".rstrip(),
                as_json=False,
                stream=sys.stderr,
            )
            delivery.report(result)
        if outputs.stopped is not None:
            raise typer.Exit(128 + outputs.stopped)
        return
    if out is None:
        raise ParameterError("out is missing; name the file for the privatised series with --out")
    from pufferdp.publish.flips.publication import flip as make_flip

    with options.progress() as progress:
        result = outputs.make(
            lambda: make_flip(
                data,
                out=out,
                overwrite=files.overwrite,
                progress=progress,
                **request,
            )
        )
        content = {**outputs.content_of(result), "out": outputs.elsewhere or out}
        with outputs.delivery(content, content["certificate"].get("ledger"), published=True) as delivery:
            delivery.json("certificate", content["certificate"])
            delivery.show(
                content,
                lambda: "\n".join(
                    (
                        f"{result}",
                        f"{options.balance_text(account)}Series: {content['out']}",
                        options.kept_text(files.certificate, delivery, "certificate"),
                    )
                ).rstrip(),
                as_json,
            )
            progress("writing the report")
            delivery.report(result)
    options.warn_of_formulas(str(content["out"]))
