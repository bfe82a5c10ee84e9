"""``pufferdp redact``: a series published but for what gives private records away."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs, write_json
from pufferdp.basics.errors import ParameterError

if TYPE_CHECKING:
    from pufferdp.data.layout import Layout
    from pufferdp.publish.redaction.result import Redaction


@dataclass(frozen=True, kw_only=True)
class Hiding:
    """What is hidden, from whom and how."""

    private: Annotated[
        list[str],
        typer.Option(
            "--private", help="Row to hide, counted from 1, or 100-111; with --order a time, a date, or a range A..B."
        ),
    ]
    epsilon: options.Epsilon
    method: Annotated[
        str | None,
        typer.Option("--method", help="window, 3r-numerical or 3r-optimal; the last and best by default."),
    ] = None
    adversary: options.AdversaryName = "bdp"
    known: Annotated[
        list[str] | None, typer.Option("--known", help="Row that the adversary knows; with --adversary pufferfish.")
    ] = None
    whole: Annotated[
        bool, typer.Option("--whole", help="Hide private records that follow each other as a whole, not one by one.")
    ] = False
    mark: Annotated[str, typer.Option("--mark", help="Word that replaces a redacted record; not a state.")] = "*"


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """An earlier redaction of the same series."""

    after: Annotated[
        str | None, typer.Option("--after", help="Certificate of an earlier redaction, whose records stay hidden.")
    ] = None
    published: Annotated[str | None, typer.Option("--published", help="The file that the earlier redaction wrote.")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class Files:
    """What is written of a redaction besides what is shown."""

    out: Annotated[str | None, typer.Option("--out", help="Write the redacted series to this file.")] = None
    certificate: Annotated[
        str | None, typer.Option("--certificate", help="Write the certificate to this JSON file.")
    ] = None
    rule: Annotated[
        str | None, typer.Option("--rule", help="Write the rule for owners of single records to this JSON file.")
    ] = None
    tilted: Annotated[
        str | None, typer.Option("--tilted", help="Write the model that later releases must use to this JSON file.")
    ] = None


def redact(
    model: Annotated[str, typer.Option("--model", help="Model file (JSON): a Markov chain, stationary.")],
    hiding: Hiding,
    rows: options.Rows,
    earlier: Earlier,
    files: Files,
    account: options.CheckedAccount,
    shown: options.Shown,
    data: Annotated[str | None, typer.Argument(help="CSV or Parquet file; not with --length.")] = None,
    column: Annotated[str | None, typer.Option("--column", help="Column with states or numbers.")] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep", help="Another column to write, which the guarantee does not cover; the rest is left out."
        ),
    ] = None,
    length: Annotated[
        str | None, typer.Option("--length", help="Show the design for this many records, without data.")
    ] = None,
) -> None:
    """Publish a series without what gives private records away; the rest stays as it is."""
    from pufferdp.data.layout import Layout
    from pufferdp.models.files.json import load_model
    from pufferdp.publish.certificate import read_certificate
    from pufferdp.publish.redaction.plan import plan_redaction
    from pufferdp.publish.redaction.publication import redact as make_redaction

    if (data is None) == (length is None):
        raise ParameterError("give either a data file or --length, which shows the design only")
    if data is None and account.ledger is not None:
        raise ParameterError("--ledger needs data; a design charges nothing, leave it out with --length")
    for name, path in vars(files).items():
        if path is not None and data is None and name != "rule":
            raise ParameterError(f"--{name} needs data; leave it out with --length")
    if keep and data is None:
        raise ParameterError(f"--keep {keep[0]} needs data; leave it out with --length", value=keep[0])
    out = options.out_file(files.out, f"{options.stem(data)}.redacted.csv")
    outputs = Outputs(
        {**vars(files), "out": out, "figure": shown.figure, "report": shown.report},
        sources={
            "the data": data,
            "the model": model,
            "the certificate of the earlier redaction": earlier.after,
            "what the earlier redaction published": earlier.published,
        },
        ledger=account.ledger,
        overwrite=shown.overwrite,
        whole=("certificate",),
    )
    layout = Layout(
        column=column or "-",
        **rows.layout(),
    )
    design: dict[str, Any] = {
        **vars(hiding),
        "epsilon": options.guaranteed(hiding.epsilon),
        "known": options.rows(hiding.known or []),
    }
    prior = load_model(model)
    if files.tilted is not None:
        from pufferdp.publish.redaction.tilt import check_tiltable

        check_tiltable(prior, rows.bins)
    with options.progress() as progress:
        progress("designing")
        if data is None:
            from pufferdp.basics import checks

            result = plan_redaction(prior, length=checks.length(length or ""), **design)
        else:
            if column is None:
                raise ParameterError("no column is named; name the column with states or numbers with --column")
            result = outputs.make(
                lambda: make_redaction(
                    data,
                    model=prior,
                    column=column,
                    **design,
                    keep=keep or (),
                    out=out,
                    overwrite=shown.overwrite,
                    **rows.arguments(),
                    after=None if earlier.after is None else read_certificate(earlier.after),
                    published=earlier.published,
                    sampler=options.sampler_of(shown.seed),
                    **vars(account),
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
            where = f"\n\nCertificate: {files.certificate}" if delivery.has("certificate") else ""
            delivery.show(
                content, lambda: f"{result}{where}\n\n{options.balance_text(account)}".rstrip(), shown.as_json
            )
            delivery.write("rule", lambda path: write_json(path, result.rule()))
            if series is not None:
                progress("tilting the model")
                delivery.write("tilted", lambda path: write_json(path, _tilted(result, series, layout)))
            progress("drawing")
            drawn = None if series is None or column is None else (series, layout)
            delivery.write("figure", lambda path: _draw(result, drawn, path))
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
