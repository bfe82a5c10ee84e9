"""``pufferdp redact``: a series published but for what gives private records away."""

from __future__ import annotations

from typing import Annotated

import typer

from pufferdp.apps.cli import options
from pufferdp.basics.errors import ParameterError


def redact(
    model: Annotated[str, typer.Option("--model", help="Model file (JSON): a Markov chain, stationary.")],
    private: Annotated[
        list[str], typer.Option("--private", help="Row to hide, counted from 1 as in the file; 100-111 for several.")
    ],
    epsilon: options.Epsilon,
    data: Annotated[str | None, typer.Argument(help="CSV or Parquet file; not with --length.")] = None,
    column: Annotated[str | None, typer.Option("--column", help="Column with states or numbers.")] = None,
    out: Annotated[str | None, typer.Option("--out", help="Write the redacted series to this file.")] = None,
    length: Annotated[
        str | None, typer.Option("--length", help="Show the design for so many records, without data.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option("--method", help="window, 3r-relaxed, 3r-numerical or 3r-optimal; the last and best by default."),
    ] = None,
    adversary: options.AdversaryName = "bdp",
    order: options.Order = None,
    by: options.By = None,
    gap: options.Gap = None,
    known: Annotated[
        list[str] | None, typer.Option("--known", help="Row that the adversary knows; with pufferfish.")
    ] = None,
    mark: Annotated[str, typer.Option("--mark", help="Word that stands for a redacted record; no state.")] = "*",
    missing: options.Missing = "refuse",
    first: options.First = None,
    last: options.Last = None,
    bins: options.Bins = None,
    after: Annotated[
        str | None, typer.Option("--after", help="Certificate of an earlier redaction, whose records stay hidden.")
    ] = None,
    published: Annotated[str | None, typer.Option("--published", help="The file that the earlier one wrote.")] = None,
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
    report: options.ReportFile = None,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
) -> None:
    """Publish a series but for what gives private records away; the rest stays as it is."""
    from pufferdp.basics.files import check_file
    from pufferdp.data.layout import Layout
    from pufferdp.models.files.json import load_model, save_model
    from pufferdp.publish.certificate import read_certificate
    from pufferdp.publish.redaction.redact import plan_redaction
    from pufferdp.publish.redaction.redact import redact as make_redaction

    if (data is None) == (length is None):
        raise ParameterError("give either a data file or --length, which shows the design only")
    if data is None and ledger is not None:
        raise ParameterError("--ledger needs data; a design charges nothing, leave it out with --length")
    for name, path in (("out", out), ("certificate", certificate), ("rule", rule), ("tilted", tilted)):
        if path is not None:
            if data is None and name != "rule":
                raise ParameterError(f"--{name} needs data; leave it out with --length")
            check_file(path, name)
    options.check_figure(figure)
    layout = Layout(column=column or "-", order=order, by=by, gap=options.gap_of(gap), missing=missing)
    options.check_report(report)
    promised, hidden, theirs = options.number("epsilon", epsilon), options.rows(private), options.rows(known or [])
    believed = load_model(model)
    if tilted is not None:
        from pufferdp.publish.redaction.tilt import check_tiltable

        check_tiltable(believed, bins)
    with options.progress() as progress:
        progress("designing")
        if data is None:
            from pufferdp.basics import checks

            result = plan_redaction(
                believed,
                length=checks.length(length or ""),
                private=hidden,
                epsilon=promised,
                method=method,
                adversary=adversary,
                known=theirs,
                mark=mark,
            )
        else:
            if column is None:
                raise ParameterError("no column is named; name the column with states or numbers with --column")
            result = make_redaction(
                data,
                model=believed,
                column=column,
                private=hidden,
                epsilon=promised,
                out=out,
                method=method,
                adversary=adversary,
                known=theirs,
                order=order,
                by=by,
                gap=options.gap_of(gap),
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
                progress=progress,
            )
        text = str(result)
        if certificate is not None and result.certificate is not None:
            options.write_json(certificate, result.certificate.to_dict())
            text += f"\n\nCertificate: {certificate}"
        if rule is not None:
            options.write_json(rule, result.rule())
        if tilted is not None and out is not None and column is not None:
            from pufferdp.publish.redaction.tilt import tilted_from_file

            progress("tilting the model")
            save_model(tilted_from_file(result, out, layout), tilted)
        if figure is not None:
            from pufferdp.report.pages.redaction import redaction_map

            redaction_map(result, None if out is None or column is None else (out, layout)).save(figure)
    total = "" if as_json else options.balance_text(ledger, dataset)
    options.show(result.to_dict(), f"{text}\n\n{total}".rstrip(), as_json)
    options.write_report(result, report)
