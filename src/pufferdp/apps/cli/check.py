"""``pufferdp check``: what the noise of a model reveals on data."""

from __future__ import annotations

from typing import Annotated

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs


def check(
    model: Annotated[str, typer.Argument(help="Model file (JSON) of a series of states.")],
    data: options.Data,
    column: options.Column,
    order: options.Order = None,
    by: options.By = None,
    missing: options.Missing = "refuse",
    epsilon: Annotated[str, typer.Option("--epsilon", help="Guarantee for which the noise is planned.")] = "1",
    query: Annotated[
        str | None, typer.Option("--query", help="A count, count:STATE; by default the worst count of all states.")
    ] = None,
    calibrate: Annotated[
        str | None, typer.Option("--calibrate", help="data: widen the noise until the estimate is at most epsilon.")
    ] = None,
    out: Annotated[str | None, typer.Option("--out", help="Write the model with its checks to this new file.")] = None,
    figure: options.FigureFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare a model with data: the leakage estimated on held-out data, and the leakage that the data prove.

    The checks are computed from the raw data without noise, and become part of the model file and of certificates.
    """
    from pufferdp.data.files import scanned
    from pufferdp.models.files.json import load_model, model_to_dict
    from pufferdp.publish.fits.check import check as compare
    from pufferdp.report.pages.model_checks import windows_chart

    out = options.out_file(out, "model.json")
    outputs = Outputs({"out": out, "figure": figure}, sources={"the data": data, "the model": model}, overwrite=False)
    with options.progress(scanned) as progress:
        result = compare(
            data,
            load_model(model),
            query,
            column=column,
            order=order,
            by=by,
            missing=missing,
            epsilon=options.promised(epsilon),
            calibrate=calibrate,
            progress=progress,
        )
        content = result.to_dict()
        with outputs.delivery(content) as delivery:
            written = delivery.json("out", model_to_dict(result.model))
            where = f"\nModel with its checks: {out}" if written else ""
            delivery.show(content, lambda: f"{result}{where}", as_json)
            delivery.write("figure", windows_chart(result).save)
