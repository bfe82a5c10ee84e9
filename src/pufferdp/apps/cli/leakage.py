"""``pufferdp leakage``: what a DP loss leaks under a model, or what loss may be spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs
from pufferdp.basics.errors import ParameterError

if TYPE_CHECKING:
    from pufferdp.basics.progress import Progress
    from pufferdp.models.base import Model


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What was spent, or what may leak."""

    dp_epsilon: Annotated[
        str | None, typer.Option("--dp-epsilon", help="DP loss of all that was released, added up.")
    ] = None
    target: Annotated[str | None, typer.Option("--target", help="Leakage that is allowed: how much DP to spend?")] = (
        None
    )
    dp_delta: Annotated[
        str | None, typer.Option("--dp-delta", help="The DP algorithm's own delta, beside --dp-epsilon or --target.")
    ] = None
    delta: Annotated[
        str | None,
        typer.Option("--delta", help="Delta allowed towards the adversary, beside --target or --profile."),
    ] = None
    profile: Annotated[
        str | None,
        typer.Option("--profile", help="Pairs (epsilon, delta) of one DP algorithm, CSV or JSON: the best is taken."),
    ] = None
    query: Annotated[
        str | None,
        typer.Option(
            "--query", help="Also the exact leakage of this query with Laplace noise: count:STATE, sum or mean."
        ),
    ] = None

    def numbers(self, *names: str) -> dict[str, Any]:
        """Some of the options as numbers; None where one is not given."""
        given = {name: getattr(self, name) for name in names}
        return {name: None if text is None else options.number(name, text) for name, text in given.items()}


@dataclass(frozen=True, kw_only=True)
class Losses:
    """Losses that differ from record to record, or from step to step."""

    stream: Annotated[
        str | None,
        typer.Option("--stream", help="DP loss of each step, E1,E2,…; or one number for --length steps, or forever."),
    ] = None
    stream_target: Annotated[
        str | None, typer.Option("--stream-target", help="Leakage allowed from a stream: how much DP to spend a step?")
    ] = None
    losses: Annotated[
        str | None,
        typer.Option("--losses", help="File with the DP loss of each record: a CSV column, a JSON list or lines."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Period:
    """Which records change together, and how often they are read."""

    unit: options.UnitName = None
    every: Annotated[
        str | None,
        typer.Option("--every", help="An aggregate with this DP loss every 1d, 6h or number of records, forever."),
    ] = None
    window: Annotated[
        str | None, typer.Option("--window", help="With --every: how far back each aggregate reads, such as 7d.")
    ] = None


def leakage(
    model: Annotated[str, typer.Argument(help="Model file (JSON).")],
    spent: Spent,
    losses: Losses,
    period: Period,
    length: Annotated[
        str | None, typer.Option("--length", help="Records in the longest chain; other models know their size.")
    ] = None,
    secret: options.SecretText = None,
    adversary: options.AdversaryName = "bdp",
    figure: options.FigureFile = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Say what differential privacy leaks on correlated data, or how much of it to spend."""
    from pufferdp.basics import checks
    from pufferdp.models.files.json import load_model

    outputs = Outputs(
        {"figure": figure},
        sources={"the model": model, "the profile": spent.profile, "the losses": losses.losses},
        overwrite=overwrite,
    )
    one_loss = {"dp_epsilon": spent.dp_epsilon, "target": spent.target}
    others = {**asdict(spent), **asdict(period)}
    streams = {"stream": losses.stream, "stream_target": losses.stream_target}
    records = None if length is None else checks.length(length.strip())
    if secret is not None:
        others = {name: value for name, value in others.items() if name not in one_loss}
        _refuse_others("it does not go with --secret", {**others, **asdict(losses), "figure": figure})
    elif losses.losses is not None:
        _refuse_others("--losses has the loss of every record", {**others, "length": length, **streams})
    elif losses.stream is not None or losses.stream_target is not None:
        both = {} if losses.stream is None else {"stream_target": losses.stream_target}
        _refuse_others("a stream is asked for with --stream", {**others, **both})
        if figure is not None and (losses.stream is None or (records is None and "," not in losses.stream)):
            raise ParameterError("the figure shows leakage over time: give --stream and --length")
    else:
        _check_spent(spent)
    with options.progress() as progress:
        progress("reading the model")
        prior = load_model(model)
        if secret is not None:
            from pufferdp.assess.secrets import secret_leakage

            progress("following the segment")
            asked = spent.numbers("dp_epsilon", "target")
            found = secret_leakage(prior, secret, length=records, adversary=adversary, **asked)
            outputs.show(found.to_dict(), str(found), as_json, lambda path: None)
        elif losses.losses is not None:
            _show_losses(prior, losses.losses, adversary, outputs, as_json, progress)
        elif losses.stream is not None or losses.stream_target is not None:
            _show_stream(prior, losses, records, adversary, outputs, as_json, progress)
        else:
            from pufferdp.assess.dp import leakage_lines, leakage_of
            from pufferdp.assess.privacy import read_profile
            from pufferdp.report.pages.leakage import leakage_figure

            progress("computing leakage")
            result = leakage_of(
                prior,
                length=records,
                query=spent.query,
                adversary=adversary,
                privacy=None if spent.profile is None else read_profile(spent.profile),
                **spent.numbers("dp_epsilon", "target", "dp_delta", "delta"),
                **vars(period),
            )
            content = result.to_dict()
            if figure is not None:
                progress("drawing the curves")
                content["lines"] = leakage_lines(prior, result, spent.query)
            outputs.show(content, str(result), as_json, lambda path: leakage_figure(content, prior.labels).save(path))


def _check_spent(spent: Spent) -> None:
    """Refuse a DP loss that is given twice, or not at all."""
    if spent.profile is not None and spent.dp_epsilon is not None:
        raise ParameterError("the profile says what is spent: leave --dp-epsilon out", value=spent.dp_epsilon)
    if spent.profile is None and spent.dp_epsilon is None and spent.target is None:
        raise ParameterError("--dp-epsilon (the DP loss that was spent) or --target (the leakage allowed) is missing")
    if spent.dp_epsilon is not None and spent.target is not None:
        raise ParameterError("--dp-epsilon and --target cannot be combined; remove one", value=spent.target)


def _refuse_others(reason: str, others: Mapping[str, Any]) -> None:
    """Refuse options that do not go with what is asked."""
    for name, value in others.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            raise ParameterError(f"{option} is {value}; {reason}: leave it out", value=value)


def _show_losses(
    prior: Model, losses: str, adversary: str, outputs: Outputs, as_json: bool, progress: Progress
) -> None:
    """What leaks about each record where every record has a DP loss of its own."""
    from pufferdp.assess.losses import leakage_of_losses
    from pufferdp.data.number_files import read_losses
    from pufferdp.report.pages.losses import losses_chart

    progress("reading the losses")
    given = read_losses(losses)
    progress(f"following {len(given):,} records")
    report = leakage_of_losses(prior, given, adversary=adversary, progress=progress)
    content = report.to_dict()
    outputs.show(content, str(report), as_json, lambda path: losses_chart(content).save(path))


def _show_stream(
    prior: Model,
    losses: Losses,
    steps: int | None,
    adversary: str,
    outputs: Outputs,
    as_json: bool,
    progress: Progress,
) -> None:
    """What a stream leaks, or what its steps may spend."""
    from pufferdp.assess.streams import StreamBudget, StreamReport, stream_budget, stream_leakage
    from pufferdp.report.pages.assess import stream_chart

    result: StreamBudget | StreamReport
    if losses.stream is None:
        progress("searching for what a step may spend")
        target = options.number("stream_target", str(losses.stream_target))
        result = stream_budget(prior, target, length=steps, adversary=adversary)
    else:
        given = options.numbers("stream", losses.stream)
        progress("following the stream")
        each = given if "," in losses.stream else given[0]
        result = stream_leakage(prior, each, length=steps, adversary=adversary, progress=progress)
    content = result.to_dict()
    outputs.show(content, str(result), as_json, lambda path: stream_chart(content).save(path))
