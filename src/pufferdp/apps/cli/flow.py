"""``pufferdp flow``: a private transition flow from a file."""

from __future__ import annotations

from typing import Annotated

import typer

from pufferdp.apps.cli import options


def flow(
    data: Annotated[str, typer.Argument(help="CSV or Parquet file, or a folder of Parquet files.")],
    model: Annotated[str, typer.Option("--model", help="Model file (JSON): the chain in the centre of the orbit.")],
    column: options.Column,
    eta: options.Eta,
    tau: options.Tau,
    privacy: options.PrivacyName = "joint",
    order: options.Order = None,
    by: options.By = None,
    gap: options.Gap = None,
    missing: options.Missing = "refuse",
    first: options.First = None,
    last: options.Last = None,
    bins: options.Bins = None,
    add: options.Sum = False,
    centre_only: options.CentreOnly = False,
    mechanism: options.MechanismName = None,
    beta: options.Beta = "0.05",
    ledger: options.LedgerPlace = None,
    dataset: options.DatasetName = None,
    out: Annotated[str | None, typer.Option("--out", help="Write flow and certificate to this JSON file.")] = None,
    figure: options.FigureFile = None,
    report: options.ReportFile = None,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
) -> None:
    """Release how a process moves between states, without its fine structure or any one step."""
    from pufferdp.basics.files import check_file
    from pufferdp.models.files.json import load_model
    from pufferdp.publish.flows.flow import flow as make_flow

    # A release that cannot be kept is not made.
    if out is not None:
        check_file(out, "out")
    options.check_figure(figure)
    options.check_report(report)
    with options.progress() as progress:
        result = make_flow(
            data,
            model=load_model(model),
            column=column,
            eta=options.number("eta", eta),
            tau=options.number("tau", tau),
            privacy=privacy,
            order=order,
            by=by,
            gap=options.gap_of(gap),
            missing=missing,
            first=first,
            last=last,
            bins=bins,
            add=add,
            centre_only=centre_only,
            mechanism=mechanism,
            beta=options.number("beta", beta),
            sampler=options.sampler_of(seed),
            ledger=ledger,
            dataset=dataset,
            progress=progress,
        )
        if out is not None:
            options.write_json(out, result.to_dict())
        if figure is not None:
            from pufferdp.report.pages.flows import flow_map

            flow_map(result.certificate.to_dict()).save(figure)
    total = "" if as_json else options.balance_text(ledger, dataset)
    where = f"Certificate: {out}" if out else "Keep the certificate with --out FILE."
    options.show(result.to_dict(), f"{result}\n{total}{where}", as_json)
    options.write_report(result, report)
