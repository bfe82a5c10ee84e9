"""``pufferdp robustness`` and ``pufferdp check``: the guarantee against another model, and on data."""

from __future__ import annotations

from typing import Annotated

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs
from pufferdp.basics.errors import ParameterError


def robustness(
    model: Annotated[str, typer.Argument(help="Model file (JSON) the guarantee was made for.")],
    alternative: Annotated[str, typer.Option("--alternative", help="Model file (JSON) that the adversary uses.")],
    epsilon: options.Epsilon,
    length: Annotated[str | None, typer.Option("--length", help="Records in the series, for chains.")] = None,
    drift: Annotated[
        str | None,
        typer.Option("--drift", help="FROM:TO, the transition probability that drifts in the figure."),
    ] = None,
    dp_epsilon: Annotated[
        str | None,
        typer.Option("--dp-epsilon", help="DP epsilon of the noise; by default the largest that gives the guarantee."),
    ] = None,
    figure: options.FigureFile = None,
    overwrite: options.Overwrite = False,
    secrets: options.SecretsFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Say what a guarantee is worth against an adversary who uses another model."""
    from pufferdp.assess.robustness import drift_towards
    from pufferdp.assess.robustness import robustness as left_of
    from pufferdp.basics import checks
    from pufferdp.models.chain import series_of
    from pufferdp.models.files.json import load_model
    from pufferdp.publish.answers.secrets import load_secrets
    from pufferdp.report.pages.assess import drift_chart

    outputs = Outputs(
        {"figure": figure},
        sources={"the model": model, "the alternative": alternative, "the secrets": secrets},
        overwrite=overwrite,
    )
    if figure is None and drift is not None:
        raise ParameterError("--drift says what the figure shows; give --figure as well")
    with options.progress() as progress:
        progress("reading the models")
        ours, theirs = load_model(model), load_model(alternative)
        series = series_of(ours)
        if figure is not None and series is None:
            raise ParameterError("--figure shows how a chain drifts, and this model is not a chain; leave it out")
        progress("comparing the models")
        records = None if length is None else checks.length(length.strip())
        guaranteed = options.guaranteed(epsilon)
        own = None if secrets is None else load_secrets(secrets)
        spent = None if dp_epsilon is None else options.number("dp_epsilon", dp_epsilon)
        result = left_of(ours, theirs, epsilon=guaranteed, length=records, secrets=own, dp_epsilon=spent)
        content, words = result.to_dict(), ""
        if figure is not None and series is not None:
            line = drift_towards(series, theirs, epsilon=guaranteed, length=records, entry=drift, progress=progress)
            content["drift"] = line.to_dict()
            words = f", as the probability of {line.state_from}:{line.state_to} drifts."
        outputs.show(
            content,
            str(result),
            as_json,
            lambda path: drift_chart(content["drift"]).save(path),
            words=lambda path: f"\nFigure: {path}{words}",
        )


def check(
    model: Annotated[str, typer.Argument(help="Model file (JSON) of a series: one model, a list of chains, or AR(1).")],
    data: options.Data,
    column: options.Column,
    rows: options.Rows,
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
    from pufferdp.report.pages.model_checks import check_chart

    out = options.out_file(out, "model.json")
    outputs = Outputs({"out": out, "figure": figure}, sources={"the data": data, "the model": model}, overwrite=False)
    with options.progress(scanned) as progress:
        result = compare(
            data,
            load_model(model),
            query,
            column=column,
            **rows.arguments(),
            epsilon=options.guaranteed(epsilon),
            calibrate=calibrate,
            progress=progress,
        )
        content = result.to_dict()
        with outputs.delivery(content) as delivery:
            written = delivery.json("out", model_to_dict(result.model))
            where = f"\nModel with its checks: {out}" if written else ""
            delivery.show(content, lambda: f"{result}{where}", as_json)
            delivery.write("figure", check_chart(result).save)
