"""``pufferdp leakage``: what a DP loss leaks under a model, or what loss may be spent."""

from __future__ import annotations

from typing import Annotated

import typer

from pufferdp.cli import options
from pufferdp.errors import ParameterError


def leakage(
    model: Annotated[str, typer.Argument(help="Model file (JSON).")],
    dp_epsilon: Annotated[
        str | None, typer.Option("--dp-epsilon", help="DP loss of all that was released, added up.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="Leakage that is allowed: how much DP to spend?")
    ] = None,
    query: Annotated[
        str | None, typer.Option("--query", help="count:STATE, sum or mean with Laplace noise: exactly, as well.")
    ] = None,
    length: Annotated[
        str | None, typer.Option("--length", help="Records in the longest chain; other models know their size.")
    ] = None,
    adversary: options.AdversaryName = "bdp",
    figure: options.FigureFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Say what differential privacy leaks on correlated data, or how much of it to spend."""
    from pufferdp import checks
    from pufferdp.leaking import leakage_lines, leakage_of
    from pufferdp.models import load_model
    from pufferdp.models.files import check_file

    if (dp_epsilon is None) == (target is None):
        raise ParameterError("give either --dp-epsilon (what was spent) or --target (what may leak)")
    if figure is not None:
        check_file(figure, "figure", options.FIGURES)
    with options.progress() as progress:
        progress("reading the model")
        believed = load_model(model)
        progress("computing leakage")
        result = leakage_of(
            believed,
            dp_epsilon=None if dp_epsilon is None else options.number("dp_epsilon", dp_epsilon),
            target=None if target is None else options.number("target", target),
            length=None if length is None else checks.length(length.strip()),
            query=query,
            adversary=adversary,
        )
        content, said = result.to_dict(), str(result)
        if figure is not None:
            from pufferdp.report.leakage import leakage_curves

            progress("drawing the curves")
            content["lines"] = leakage_lines(believed, result, query)
            leakage_curves(content).save(figure)
            said += f"\n\nFigure: {figure}"
    options.show(content, said, as_json)
