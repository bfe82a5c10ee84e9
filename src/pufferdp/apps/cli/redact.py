"""``pufferdp redact``: a series published but for what gives private records away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs, write_json
from pufferdp.basics.errors import ParameterError

if TYPE_CHECKING:
    from pufferdp.data.layout import Layout
    from pufferdp.publish.redaction.result import Redaction


def redact(
    model: Annotated[str, typer.Option("--model", help="Model file (JSON): a Markov chain, stationary.")],
    private: Annotated[
        list[str],
        typer.Option(
            "--private", help="Row to hide, counted from 1, or 100-111; with --order a time, a date, or a range A..B."
        ),
    ],
    epsilon: options.Epsilon,
    data: Annotated[str | None, typer.Argument(help="CSV or Parquet file; not with --length.")] = None,
    column: Annotated[str | None, typer.Option("--column", help="Column with states or numbers.")] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep", help="Another column to write, which the guarantee does not cover; the rest is left out."
        ),
    ] = None,
    out: Annotated[str | None, typer.Option("--out", help="Write the redacted series to this file.")] = None,
    length: Annotated[
        str | None, typer.Option("--length", help="Show the design for this many records, without data.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option("--method", help="window, 3r-relaxed, 3r-numerical or 3r-optimal; the last and best by default."),
    ] = None,
    adversary: options.AdversaryName = "bdp",
    order: options.Order = None,
    rows_in_order: options.RowsInOrder = False,
    by: options.By = None,
    restart: options.Restart = None,
    independent: options.Independent = False,
    known: Annotated[
        list[str] | None, typer.Option("--known", help="Row that the adversary knows; with --adversary pufferfish.")
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Hide private records that follow each other as a whole, not one by one.")
    ] = False,
    mark: Annotated[str, typer.Option("--mark", help="Word that replaces a redacted record; not a state.")] = "*",
    missing: options.Missing = "refuse",
    first: options.First = None,
    last: options.Last = None,
    bins: options.Bins = None,
    after: Annotated[
        str | None, typer.Option("--after", help="Certificate of an earlier redaction, whose records stay hidden.")
    ] = None,
    published: Annotated[
        str | None, typer.Option("--published", help="The file that the earlier redaction wrote.")
    ] = None,
    certificate: Annotated[
        str | None, typer.Option("--certificate", help="Write the certificate to this JSON file.")
    ] = None,
    rule: Annotated[
        str | None, typer.Option("--rule", help="Write the rule for owners of single records to this JSON file.")
    ] = None,
    tilted: Annotated[
        str | None, typer.Option("--tilted", help="Write the model that later releases must use to this JSON file.")
    ] = None,
    figure: options.FigureFile = None,
    ledger: options.LedgerPlace = None,
    dataset: options.DatasetName = None,
    accept_misfit: options.AcceptMisfit = False,
    report: options.ReportFile = None,
    overwrite: options.Overwrite = False,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
) -> None:
    """Publish a series without what gives private records away; the rest stays as it is."""
    from pufferdp.data.layout import Layout
    from pufferdp.models.files.json import load_model
    from pufferdp.publish.certificate import read_certificate
    from pufferdp.publish.redaction.plan import plan_redaction
    from pufferdp.publish.redaction.publication import redact as make_redaction

    if (data is None) == (length is None):
        raise ParameterError("give either a data file or --length, which shows the design only")
    if data is None and ledger is not None:
        raise ParameterError("--ledger needs data; a design charges nothing, leave it out with --length")
    for name, path in (("out", out), ("certificate", certificate), ("rule", rule), ("tilted", tilted)):
        if path is not None and data is None and name != "rule":
            raise ParameterError(f"--{name} needs data; leave it out with --length")
    if keep and data is None:
        raise ParameterError(f"--keep {keep[0]} needs data; leave it out with --length", value=keep[0])
    out = options.out_file(out, f"{options.stem(data)}.redacted.csv")
    outputs = Outputs(
        {
            "out": out,
            "certificate": certificate,
            "rule": rule,
            "tilted": tilted,
            "figure": figure,
            "report": report,
        },
        sources={
            "the data": data,
            "the model": model,
            "the certificate of the earlier redaction": after,
            "what the earlier redaction published": published,
        },
        ledger=ledger,
        overwrite=overwrite,
        whole=("certificate",),
    )
    layout = Layout(
        column=column or "-",
        order=options.order_of(order, rows_in_order),
        by=by,
        restart=options.distance_of(restart),
        independent=independent,
        missing=missing,
    )
    guaranteed, theirs = options.guaranteed(epsilon), options.rows(known or [])
    prior = load_model(model)
    if tilted is not None:
        from pufferdp.publish.redaction.tilt import check_tiltable

        check_tiltable(prior, bins)
    with options.progress() as progress:
        progress("designing")
        if data is None:
            from pufferdp.basics import checks

            result = plan_redaction(
                prior,
                length=checks.length(length or ""),
                private=private,
                epsilon=guaranteed,
                method=method,
                adversary=adversary,
                known=theirs,
                whole=whole,
                mark=mark,
            )
        else:
            if column is None:
                raise ParameterError("no column is named; name the column with states or numbers with --column")
            result = outputs.make(
                lambda: make_redaction(
                    data,
                    model=prior,
                    column=column,
                    private=private,
                    epsilon=guaranteed,
                    keep=keep or (),
                    out=out,
                    overwrite=overwrite,
                    method=method,
                    adversary=adversary,
                    known=theirs,
                    whole=whole,
                    order=options.order_of(order, rows_in_order),
                    by=by,
                    restart=options.distance_of(restart),
                    independent=independent,
                    missing=missing,
                    first=first,
                    last=last,
                    bins=bins,
                    mark=mark,
                    after=None if after is None else read_certificate(after),
                    published=published,
                    sampler=options.sampler_of(seed),
                    ledger=ledger,
                    dataset=dataset,
                    accept_misfit=accept_misfit,
                    progress=progress,
                )
            )
        series = outputs.elsewhere or out
        content = outputs.content_of(result)
        row = None if result.certificate is None else result.certificate.ledger
        receipt = None if row is None else {"dataset": row.dataset, "position": row.position}
        with outputs.delivery(content, receipt, published=data is not None) as delivery:
            if result.certificate is not None:
                delivery.json("certificate", result.certificate.to_dict())
            where = f"\n\nCertificate: {certificate}" if delivery.has("certificate") else ""
            delivery.show(
                content, lambda: f"{result}{where}\n\n{options.balance_text(ledger, dataset)}".rstrip(), as_json
            )
            delivery.write("rule", lambda path: write_json(path, result.rule()))
            if series is not None:
                progress("tilting the model")
                delivery.write("tilted", lambda path: write_json(path, _tilted(result, series, layout)))
            progress("drawing")
            shown = None if series is None or column is None else (series, layout)
            delivery.write("figure", lambda path: _draw(result, shown, path))
            progress("writing the report")
            delivery.report(result)
    if series is not None:
        options.warn_of_formulas(series)


def _tilted(result: Redaction, series: str, layout: Layout) -> dict[str, Any]:
    from pufferdp.models.files.json import model_to_dict
    from pufferdp.publish.redaction.tilt import tilted_from_file

    return model_to_dict(tilted_from_file(result, series, layout))


def _draw(result: Redaction, series: tuple[str, Layout] | None, path: Path) -> None:
    from pufferdp.report.pages.redaction import redaction_map

    redaction_map(result, series).save(path)
