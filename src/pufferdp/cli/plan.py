"""``pufferdp plan``: every mechanism on a problem, before any data is read."""

from __future__ import annotations

from typing import Annotated

import typer

from pufferdp.cli import options
from pufferdp.errors import ParameterError


def plan(
    model: Annotated[str, typer.Argument(help="Model file (JSON).")],
    query: Annotated[str, typer.Option("--query", help="count:STATE, histogram, frequency, sum or mean.")],
    epsilon: options.Epsilon,
    length: Annotated[
        str | None, typer.Option("--length", help="Records in one chain; other models know their size.")
    ] = None,
    lengths: Annotated[
        str | None, typer.Option("--lengths", help="Records in each of several chains: 288,288,…")
    ] = None,
    adversary: options.AdversaryName = "bdp",
    clip: options.Clip = None,
    secrets: options.SecretsFile = None,
    beta: options.Beta = "0.05",
    figure: options.FigureFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Say beforehand how accurate a release will be, by every mechanism, and which is best."""
    from pufferdp.models import load_model
    from pufferdp.models.files import check_file
    from pufferdp.planning import plan as make_plan
    from pufferdp.secrets import load_secrets

    if length is not None and lengths is not None:
        raise ParameterError("give either --length (records in one chain) or --lengths (one number for each chain)")
    parts = None if lengths is None else lengths.split(",")
    if parts is not None and not all(part.strip() for part in parts):
        raise ParameterError(f"lengths is {lengths!r}; it must be numbers of records, as in 288,288", value=lengths)
    several = None if parts is None else [_whole(part) for part in parts]
    if figure is not None:
        check_file(figure, "figure", options.FIGURES)
    with options.progress() as progress:
        progress("reading the model")
        result = make_plan(
            load_model(model),
            query,
            epsilon=options.number("epsilon", epsilon),
            length=None if length is None else _whole(length),
            lengths=several,
            adversary=adversary,
            beta=options.number("beta", beta),
            clip=options.pair(clip),
            secrets=None if secrets is None else load_secrets(secrets),
            progress=progress,
        )
        if figure is not None:
            from pufferdp.report.figures import plan_figure

            plan_figure(result.to_dict(), figure)
    options.show(result.to_dict(), f"{result}\n\n{result.chart()}", as_json)


def _whole(text: str) -> int:
    from pufferdp import checks

    return checks.length(text.strip())
