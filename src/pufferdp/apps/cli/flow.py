"""``pufferdp flow``: a private transition flow from a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class FlowSecret:
    """What a released flow hides."""

    privacy: options.PrivacyName = "joint"
    add: options.Sum = False
    centre_only: options.CentreOnly = False


def flow(
    data: Annotated[str, typer.Argument(help="CSV or Parquet file, or a folder of Parquet files.")],
    model: Annotated[str, typer.Option("--model", help="Model file (JSON): the chain in the centre of the orbit.")],
    column: options.Column,
    eta: options.Eta,
    tau: options.Tau,
    rows: options.Rows,
    secret: FlowSecret,
    account: options.Account,
    shown: options.Shown,
    mechanism: options.MechanismName = None,
    beta: options.Beta = "0.05",
    out: Annotated[str | None, typer.Option("--out", help="Write flow and certificate to this JSON file.")] = None,
) -> None:
    """Release how a process moves between states, without its fine structure or any one step."""
    from pufferdp.models.files.json import load_model
    from pufferdp.publish.flows.publication import flow as make_flow

    out = options.out_file(out, "flow.json")
    # A release that cannot be kept is not made.
    outputs = Outputs(
        {"out": out, "figure": shown.figure, "report": shown.report},
        sources={"the data": data, "the model": model},
        ledger=account.ledger,
        overwrite=shown.overwrite,
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
                **rows.arguments(),
                **vars(secret),
                mechanism=mechanism,
                beta=options.number("beta", beta),
                sampler=options.sampler_of(shown.seed),
                **vars(account),
                progress=progress,
            )
        )
        options.deliver(result, outputs, progress, _draw, account, out, shown.as_json)


def _draw(certificate: dict[str, Any], path: Path) -> None:
    from pufferdp.report.pages.flows import flow_map

    flow_map(certificate).save(path)
