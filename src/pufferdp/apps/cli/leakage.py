"""``pufferdp leakage``: what a DP loss leaks under a model, or what loss may be spent."""

from __future__ import annotations

from typing import Annotated

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs
from pufferdp.basics.errors import ParameterError


def leakage(
    model: Annotated[str, typer.Argument(help="Model file (JSON).")],
    dp_epsilon: Annotated[
        str | None, typer.Option("--dp-epsilon", help="DP loss of all that was released, added up.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="Leakage that is allowed: how much DP to spend?")
    ] = None,
    dp_delta: Annotated[
        str | None, typer.Option("--dp-delta", help="The DP algorithm's own delta, beside --dp-epsilon or --target.")
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option("--delta", help="Delta allowed towards the adversary, beside --target or --profile."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", help="Pairs (epsilon, delta) of one DP algorithm, CSV or JSON: the best is taken."),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            "--query", help="Also the exact leakage of this query with Laplace noise: count:STATE, sum or mean."
        ),
    ] = None,
    stream: Annotated[
        str | None,
        typer.Option("--stream", help="DP loss of each step, E1,E2,…; or one number for --length steps, or forever."),
    ] = None,
    stream_target: Annotated[
        str | None, typer.Option("--stream-target", help="Leakage allowed from a stream: how much DP to spend a step?")
    ] = None,
    losses: Annotated[
        str | None,
        typer.Option("--losses", help="File with the DP loss of each record: a CSV column, a JSON list or lines."),
    ] = None,
    length: Annotated[
        str | None, typer.Option("--length", help="Records in the longest chain; other models know their size.")
    ] = None,
    unit: options.UnitName = None,
    every: Annotated[
        str | None,
        typer.Option("--every", help="An aggregate with this DP loss every 1d, 6h or number of records, forever."),
    ] = None,
    window: Annotated[
        str | None, typer.Option("--window", help="With --every: how far back each aggregate reads, such as 7d.")
    ] = None,
    secret: options.SecretText = None,
    adversary: options.AdversaryName = "bdp",
    figure: options.FigureFile = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Say what differential privacy leaks on correlated data, or how much of it to spend."""
    outputs = Outputs(
        {"figure": figure},
        sources={"the model": model, "the profile": profile, "the losses": losses},
        overwrite=overwrite,
    )
    if secret is not None:
        others = {"--query": query, "--dp-delta": dp_delta, "--delta": delta, "--profile": profile, "--unit": unit}
        others |= {"--stream": stream, "--stream-target": stream_target, "--losses": losses, "--figure": figure}
        others |= {"--every": every, "--window": window}
        _secret(model, secret, dp_epsilon, target, length, adversary, as_json, others)
        return
    if losses is not None:
        others = {"--dp-epsilon": dp_epsilon, "--target": target, "--query": query, "--length": length}
        others |= {"--stream": stream, "--stream-target": stream_target}
        others |= {"--unit": unit, "--every": every, "--window": window}
        _losses(model, losses, adversary, outputs, as_json, others)
        return
    if stream is not None or stream_target is not None:
        others = {"--dp-epsilon": dp_epsilon, "--target": target, "--query": query}
        others |= {"--dp-delta": dp_delta, "--delta": delta, "--profile": profile}
        others |= {"--unit": unit, "--every": every, "--window": window}
        _stream(model, stream, stream_target, length, adversary, figure, outputs, as_json, others)
        return
    from pufferdp.assess.dp import leakage_lines, leakage_of
    from pufferdp.assess.privacy import read_profile
    from pufferdp.basics import checks
    from pufferdp.models.files.json import load_model
    from pufferdp.report.pages.leakage import leakage_figure

    if profile is not None and dp_epsilon is not None:
        raise ParameterError("the profile says what is spent: leave --dp-epsilon out", value=dp_epsilon)
    if profile is None and dp_epsilon is None and target is None:
        raise ParameterError("--dp-epsilon (the DP loss that was spent) or --target (the leakage allowed) is missing")
    if dp_epsilon is not None and target is not None:
        raise ParameterError("--dp-epsilon and --target cannot be combined; remove one", value=target)
    with options.progress() as progress:
        progress("reading the model")
        prior = load_model(model)
        progress("computing leakage")
        result = leakage_of(
            prior,
            dp_epsilon=None if dp_epsilon is None else options.number("dp_epsilon", dp_epsilon),
            target=None if target is None else options.number("target", target),
            length=None if length is None else checks.length(length.strip()),
            query=query,
            adversary=adversary,
            dp_delta=None if dp_delta is None else options.number("dp_delta", dp_delta),
            delta=None if delta is None else options.number("delta", delta),
            privacy=None if profile is None else read_profile(profile),
            unit=unit,
            every=every,
            window=window,
        )
        content, text = result.to_dict(), str(result)
        if figure is not None:
            progress("drawing the curves")
            content["lines"] = leakage_lines(prior, result, query)
        outputs.show(content, text, as_json, lambda path: leakage_figure(content, prior.labels).save(path))


def _secret(
    model: str,
    secret: str,
    dp_epsilon: str | None,
    target: str | None,
    length: str | None,
    adversary: str,
    as_json: bool,
    others: dict[str, str | None],
) -> None:
    """What leaks about a segment as a whole, or about an event in it."""
    from pufferdp.assess.secrets import secret_leakage
    from pufferdp.basics import checks
    from pufferdp.models.files.json import load_model

    for name, value in others.items():
        if value is not None:
            raise ParameterError(f"{name} is {value}; it does not go with --secret: leave it out", value=value)
    with options.progress() as progress:
        progress("reading the model")
        prior = load_model(model)
        progress("following the segment")
        report = secret_leakage(
            prior,
            secret,
            dp_epsilon=None if dp_epsilon is None else options.number("dp_epsilon", dp_epsilon),
            target=None if target is None else options.number("target", target),
            length=None if length is None else checks.length(length.strip()),
            adversary=adversary,
        )
        content, text = report.to_dict(), str(report)
    options.show(content, text, as_json)


def _losses(
    model: str, losses: str, adversary: str, outputs: Outputs, as_json: bool, others: dict[str, str | None]
) -> None:
    """What leaks about each record where every record has a DP loss of its own."""
    from pufferdp.assess.losses import leakage_of_losses
    from pufferdp.data.number_files import read_losses
    from pufferdp.models.files.json import load_model
    from pufferdp.report.pages.losses import losses_chart

    for name, value in others.items():
        if value is not None:
            raise ParameterError(f"{name} is {value}; --losses has the loss of every record: leave it out", value=value)
    with options.progress() as progress:
        progress("reading the model")
        prior = load_model(model)
        progress("reading the losses")
        spent = read_losses(losses)
        progress(f"following {len(spent):,} records")
        report = leakage_of_losses(prior, spent, adversary=adversary, progress=progress)
        content, text = report.to_dict(), str(report)
        outputs.show(content, text, as_json, lambda path: losses_chart(content).save(path))


def _stream(
    model: str,
    losses: str | None,
    target: str | None,
    length: str | None,
    adversary: str,
    figure: str | None,
    outputs: Outputs,
    as_json: bool,
    others: dict[str, str | None],
) -> None:
    """What a stream leaks, or what its steps may spend."""
    from pufferdp.assess.streams import stream_budget, stream_leakage
    from pufferdp.basics import checks
    from pufferdp.models.files.json import load_model
    from pufferdp.report.pages.assess import stream_chart

    for name, value in {**others, "--stream-target": target if losses is not None else None}.items():
        if value is not None:
            raise ParameterError(f"{name} is {value}; a stream is asked for with --stream: leave it out", value=value)
    steps = None if length is None else checks.length(length.strip())
    if figure is not None and (losses is None or (steps is None and "," not in losses)):
        raise ParameterError("the figure shows leakage over time: give --stream and --length")
    with options.progress() as progress:
        progress("reading the model")
        prior = load_model(model)
        if losses is None:
            progress("searching for what a step may spend")
            budget = stream_budget(
                prior, options.number("stream_target", str(target)), length=steps, adversary=adversary
            )
            content, text = budget.to_dict(), str(budget)
        else:
            numbers = [options.number("stream", part) for part in losses.split(",")]
            progress("following the stream")
            report = stream_leakage(
                prior,
                numbers if "," in losses else numbers[0],
                length=steps,
                adversary=adversary,
                progress=progress,
            )
            content, text = report.to_dict(), str(report)
        outputs.show(content, text, as_json, lambda path: stream_chart(content).save(path))
