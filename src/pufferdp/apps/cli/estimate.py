"""``pufferdp estimate``: shares, transitions and the series itself, from flipped series and their certificates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs, write_json
from pufferdp.basics.errors import ParameterError

if TYPE_CHECKING:
    from pufferdp.publish.flips.estimate import FlipEstimate


def estimate(
    data: Annotated[list[str], typer.Argument(help="What pufferdp flip published; one file for each device.")],
    certificate: Annotated[
        list[str], typer.Option("--certificate", help="Certificate of each file, in the same order; verified first.")
    ],
    confidence: Annotated[str, typer.Option("--confidence", help="Confidence of each range by itself.")] = "0.95",
    series: Annotated[
        str | None,
        typer.Option("--series", help="Write what the model makes of every record to this .csv file."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="With --series: the assumed chain; by default each certificate's."),
    ] = None,
    out: Annotated[str | None, typer.Option("--out", help="Write the estimates to this JSON file.")] = None,
    figure: options.FigureFile = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Estimate shares, transitions and the series from flipped files. It costs no budget."""
    from pufferdp.models.files.json import load_model
    from pufferdp.publish.flips.estimate import estimate as make_estimate

    if model is not None and series is None:
        raise ParameterError("--model is for the series; name a file for it with --series, or leave the model out")
    if series is not None and not series.lower().endswith(".csv"):
        raise ParameterError(f"series is {series!r}; it must end in .csv", value=series)
    sources = {f"series {n}": path for n, path in enumerate(data, start=1)}
    sources |= {f"certificate {n}": path for n, path in enumerate(certificate, start=1)}
    outputs = Outputs(
        {"out": out, "series": series, "figure": figure}, sources={**sources, "the model": model}, overwrite=overwrite
    )
    with options.progress() as progress:
        result = make_estimate(
            data,
            certificate,
            confidence=options.number("confidence", confidence),
            series=series is not None,
            model=None if model is None else load_model(model),
            progress=progress,
        )
        content = result.to_dict()
        with outputs.delivery(content) as delivery:
            delivery.show(content, lambda: _shown(result, series), as_json)
            delivery.write("out", lambda path: write_json(path, content))
            delivery.write("series", result.write_series)
            progress("drawing")
            delivery.write("figure", lambda path: _draw(result, path))


def _shown(result: FlipEstimate, series: str | None) -> str:
    return f"{result}" + ("" if series is None else f"\n\nSeries: {series}")


def _draw(result: FlipEstimate, path: Path) -> None:
    from pufferdp.report.pages.flips import estimate_chart

    estimate_chart(result).save(path)
