"""``pufferdp flow``: a private transition flow from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs


def flow(
    data: Annotated[str, typer.Argument(help="CSV or Parquet file, or a folder of Parquet files.")],
    model: Annotated[str, typer.Option("--model", help="Model file (JSON): the chain in the centre of the orbit.")],
    column: options.Column,
    eta: options.Eta,
    tau: options.Tau,
    privacy: options.PrivacyName = "joint",
    order: options.Order = None,
    rows_in_order: options.RowsInOrder = False,
    by: options.By = None,
    restart: options.Restart = None,
    independent: options.Independent = False,
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
    overwrite: options.Overwrite = False,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
) -> None:
    """Release how a process moves between states, without its fine structure or any one step."""
    from pufferdp.models.files.json import load_model
    from pufferdp.publish.flows.publication import flow as make_flow

    out = options.out_file(out, "flow.json")
    # A release that cannot be kept is not made.
    outputs = Outputs(
        {"out": out, "figure": figure, "report": report},
        sources={"the data": data, "the model": model},
        ledger=ledger,
        overwrite=overwrite,
    )
    prior = load_model(model)
    with options.progress() as progress:
        result = outputs.make(
            lambda: make_flow(
                data,
                model=prior,
                column=column,
                eta=options.number("eta", eta),
                tau=options.number("tau", tau),
                privacy=privacy,
                order=options.order_of(order, rows_in_order),
                by=by,
                restart=options.distance_of(restart),
                independent=independent,
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
        )
        options.deliver(result, outputs, progress, _draw, (ledger, dataset), out, as_json)


def _draw(certificate: dict[str, Any], path: Path) -> None:
    from pufferdp.report.pages.flows import flow_map

    flow_map(certificate).save(path)
