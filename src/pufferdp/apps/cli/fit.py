"""``pufferdp fit``: a model from data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.flags import advised, methods
from pufferdp.apps.outputs import Outputs, plain_json


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """Which family of models is fitted, and how."""

    confidence: Annotated[
        str | None, typer.Option("--confidence", help="Write a class that contains the truth with this probability.")
    ] = None
    start: Annotated[str, typer.Option("--start", help="Start of the fitted chain: stationary or any.")] = "stationary"
    states: Annotated[
        str | None, typer.Option("--states", help="The states by name, a,b,c; those found in the column by default.")
    ] = None
    family: Annotated[
        str,
        typer.Option(
            "--family", help="auto (chosen on held-out records), chain, clock, memory, hidden or ar1 (real numbers)."
        ),
    ] = "auto"
    clock: Annotated[
        str | None,
        typer.Option(
            "--clock", help="Slots of a time-of-day model: hour (of the day), day (of the week), or slots in a day."
        ),
    ] = None
    prior: Annotated[
        str | None,
        typer.Option("--prior", help="Number added to every transition count (private fits: 0.5 by default)."),
    ] = None
    memory: Annotated[
        str | None, typer.Option("--memory", help="Order of the chain: how many records the next one depends on.")
    ] = None
    hidden: Annotated[str | None, typer.Option("--hidden", help="Hidden states for each value.")] = None
    as_states: Annotated[
        bool, typer.Option("--as-states", help="Take the numbers of the column as states, however many there are.")
    ] = False
    checks: Annotated[bool, typer.Option("--checks/--no-checks", help="Ask whether the model describes the data.")] = (
        True
    )
    dp_epsilon: Annotated[
        str | None, typer.Option("--dp-epsilon", help="Fit from noisy counts that lose this much DP.")
    ] = None


def fit(
    data: options.Data,
    column: options.Column,
    rows: options.Rows,
    fitting: Fitting,
    account: options.Account,
    out: Annotated[str | None, typer.Option("--out", help="Write the model to this file.")] = None,
    figure: options.FigureFile = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit the smallest family of models that predicts held-out records as well as any larger one, or --family."""
    from pufferdp.basics.errors import ParameterError
    from pufferdp.data.files import scanned
    from pufferdp.models.files.json import model_to_dict
    from pufferdp.publish.fits.publication import fit as make_fit
    from pufferdp.report.pages.fits import fit_chart

    if fitting.start not in ("stationary", "any"):
        raise ParameterError(f"start is {fitting.start!r}; it must be stationary or any", value=fitting.start)
    states = None if fitting.states is None else fitting.states.split(",")
    named = {name: getattr(fitting, name) for name in ("confidence", "memory", "hidden", "prior", "dp_epsilon")}
    numbers = {name: None if value is None else options.number(name, value) for name, value in named.items()}
    if figure is not None and (fitting.dp_epsilon is not None or not fitting.checks):
        raise ParameterError(
            f"figure is {figure!r}, but a fit without checks has none to draw: leave it out, or --dp-epsilon and "
            "--no-checks",
            value=figure,
        )
    out = options.out_file(out, "model.json")
    outputs = Outputs(
        {"out": out, "figure": figure}, sources={"the data": data}, ledger=account.ledger, overwrite=overwrite
    )
    with options.progress(scanned) as progress:
        result = outputs.make(
            lambda: make_fit(
                data,
                column=column,
                **rows.arguments(),
                **{**vars(fitting), **numbers, "states": states},
                **vars(account),
                progress=progress,
            )
        )
        content = model_to_dict(result.model)
        receipt = None if result.receipt is None else result.receipt.to_dict()
        with outputs.delivery(content, receipt, published=True) as delivery:
            written = delivery.json("out", content)
            where = f"Model: {out}" if written else plain_json(content)
            # The checks are for the owner of the data: they are shown, and stay out of the model file.
            delivery.show(advised(result.to_dict()), lambda: f"{methods(str(result))}\n{where}", as_json)
            delivery.write("figure", fit_chart(result).save)
