"""``pufferdp plan``: every mechanism on a problem, before any data is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.flags import methods
from pufferdp.apps.outputs import Outputs
from pufferdp.basics.errors import ParameterError

if TYPE_CHECKING:
    from pufferdp.publish.answers.plan import Plan
    from pufferdp.publish.flows.plan import FlowPlan


def plan(
    model: Annotated[str, typer.Argument(help="Model file (JSON).")],
    queries: Annotated[
        list[str],
        typer.Option(
            "--query", help="count:STATE, histogram, frequency, sum, mean, variance or flow; several make a table."
        ),
    ],
    epsilon: Annotated[
        str | None, typer.Option("--epsilon", help="The guarantee: odds shift by at most e^epsilon. Not for a flow.")
    ] = None,
    length: Annotated[
        str | None, typer.Option("--length", help="Records in one chain; other models know their size.")
    ] = None,
    lengths: Annotated[
        str | None, typer.Option("--lengths", help="Records in each of several chains: 288,288,…")
    ] = None,
    part: Annotated[
        bool,
        typer.Option("--part", help="The chains are parts of series that go on, as with --from and --to of release."),
    ] = False,
    unobserved: Annotated[
        bool, typer.Option("--unobserved", help="Records will be missing between those read, as with --missing keep.")
    ] = False,
    unit: options.UnitName = None,
    secret: options.SecretText = None,
    adversary: options.AdversaryName = "bdp",
    per: options.Per = None,
    split: options.Split = None,
    sizes: options.Sizes = "exact",
    clip: options.Clip = None,
    secrets: options.SecretsFile = None,
    delta: options.Delta = None,
    eta: Annotated[str | None, typer.Option("--eta", help="For a flow: radius of the orbit of chains.")] = None,
    tau: Annotated[str | None, typer.Option("--tau", help="For a flow: the guarantee, a total variation.")] = None,
    privacy: options.PrivacyName = "joint",
    add: options.Sum = False,
    centre_only: options.CentreOnly = False,
    beta: options.Beta = "0.05",
    ledger: Annotated[
        str | None, typer.Option("--ledger", help="Plan against what is left in this ledger; nothing is charged.")
    ] = None,
    dataset: options.DatasetName = None,
    first: Annotated[str | None, typer.Option("--from", help="With --ledger: a release from this place on.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="With --ledger: a release up to this place.")] = None,
    figure: options.FigureFile = None,
    report: options.ReportFile = None,
    overwrite: options.Overwrite = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Also show what does not apply and why, and what sets the noise."),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Say how accurate a release will be with each mechanism, and which is best, before any data is read."""
    from pufferdp.models.files.json import load_model
    from pufferdp.publish.answers.plan import plan as make_plan
    from pufferdp.publish.answers.queries import asks_table
    from pufferdp.publish.answers.secrets import load_secrets
    from pufferdp.report.page import Words
    from pufferdp.report.pages.answers import plan_page
    from pufferdp.report.text import blocks_text, terminal

    query, asked = queries[0], queries if len(queries) > 1 else queries[0]
    if (ledger is None) != (dataset is None) or (ledger is None and (first is not None or last is not None)):
        raise ParameterError("--ledger and --dataset go together, and --from and --to with them")
    if ledger is not None and query == "flow":
        raise ParameterError("ledger show says what is left for flows: leave --ledger out", value=ledger)
    _check_guarantee(query, epsilon, eta, tau, add or centre_only or privacy != "joint", ledger is not None)
    if query == "flow" and (unit is not None or secret is not None):
        raise ParameterError("a flow is guaranteed in total variation: leave --unit and --secret out")
    if ledger is not None and secret is not None:
        raise ParameterError("a ledger is about every record, not about one secret: leave --ledger out", value=ledger)
    if query == "flow" and delta is not None:
        raise ParameterError("a flow is guaranteed in total variation: leave --delta out", value=delta)
    if length is not None and lengths is not None:
        raise ParameterError("give either --length (records in one chain) or --lengths (one number for each chain)")
    parts = None if lengths is None else lengths.split(",")
    if parts is not None and not all(part.strip() for part in parts):
        raise ParameterError(f"lengths is {lengths!r}; it must be numbers of records, as in 288,288", value=lengths)
    several = None if parts is None else [_whole(part) for part in parts]
    outputs = Outputs(
        {"figure": figure, "report": report},
        sources={"the model": model, "the secrets": secrets},
        overwrite=overwrite,
    )
    if query != "flow" and asks_table(asked, per):
        from pufferdp.publish.tables.plan import plan_table

        others = {"secrets": secrets, "delta": delta, "ledger": ledger, "figure": figure}
        for name, value in others.items():
            if value is not None:
                raise ParameterError(
                    f"--{name} goes with the plan of one query, not with that of a table: leave it out"
                )
        with options.progress() as progress:
            progress("reading the model")
            table = plan_table(
                load_model(model),
                asked,
                epsilon=options.guaranteed(epsilon or ""),
                length=None if length is None else _whole(length),
                lengths=several,
                per=per,
                split=None if split is None else options.numbers("split", split),
                adversary=adversary,
                beta=options.number("beta", beta),
                clip=options.pair(clip),
                part=part,
                unobserved=unobserved,
                sizes=sizes,
                progress=progress,
            )
            content = table.to_dict()
            with outputs.delivery(content) as delivery:
                delivery.show(content, lambda: str(table), as_json)
                delivery.report(table)
        return
    if sizes != "exact":
        raise ParameterError("--sizes goes with a table: say what its groups are with --per, or ask several queries")
    if split is not None and len(queries) == 1:
        raise ParameterError("--split shares the DP loss among several queries, and there is one: leave it out")
    if len(queries) > 1 or per:
        raise ParameterError("--per and several --query make a table, and a flow is none: plan it alone")
    if query == "flow":
        from pufferdp.publish.flows.plan import plan_flow

        with options.progress() as progress:
            progress("reading the model")
            planned = plan_flow(
                load_model(model),
                eta=options.number("eta", eta or ""),
                tau=options.number("tau", tau or ""),
                privacy=privacy,
                length=None if length is None else _whole(length),
                lengths=several,
                add=add,
                centre_only=centre_only,
                beta=options.number("beta", beta),
                progress=progress,
            )
            _deliver(outputs, planned, lambda: methods(planned.text(verbose=verbose)), as_json, progress)
        return
    with options.progress() as progress:
        progress("reading the model")
        prior = load_model(model)
        account = None
        if ledger is not None and dataset is not None:
            from pufferdp.publish.answers.remaining_budget import RemainingBudget

            part = part or first is not None or last is not None
            longest = (
                None if part else max([*(several or []), *([] if length is None else [_whole(length)])], default=1)
            )
            account = RemainingBudget.of(ledger, dataset, prior, adversary, longest, first, last)
        result = make_plan(
            prior,
            query,
            epsilon=account.epsilon if account and epsilon is None else options.guaranteed(epsilon or ""),
            length=None if length is None else _whole(length),
            lengths=several,
            adversary=adversary,
            beta=options.number("beta", beta),
            clip=options.pair(clip),
            secrets=None if secrets is None else load_secrets(secrets),
            delta=0.0 if delta is None else options.number("delta", delta),
            part=part,
            unobserved=unobserved,
            unit=unit,
            secret=secret,
            progress=progress,
        )
        more = None if account is None else account.verdict(result)
        words = "" if more is None else "\n\n" + blocks_text([Words((more["words"],))])

        def text() -> str:
            page = plan_page(result, refused=() if more is None else more["refused"])
            chart = result.chart()
            return "\n\n".join([methods(terminal(page, verbose)), *([chart] if chart else [])]) + words

        _deliver(outputs, result, text, as_json, progress, more)


def _deliver(
    outputs: Outputs,
    result: Plan | FlowPlan,
    text: Callable[[], str],
    as_json: bool,
    progress: options.Progress,
    ledger: dict[str, Any] | None = None,
) -> None:
    content = result.to_dict() | ({} if ledger is None else {"ledger": ledger})
    with outputs.delivery(content) as delivery:
        delivery.show(content, text, as_json)
        progress("drawing")
        delivery.write("figure", lambda path: _draw(content, path))
        progress("writing the report")
        delivery.report(result)


def _draw(content: dict[str, Any], path: Path) -> None:
    from pufferdp.report.pages.answers import plan_comparison

    plan_comparison(content).save(path)


def _check_guarantee(
    query: str, epsilon: str | None, eta: str | None, tau: str | None, more: bool, ledger: bool
) -> None:
    """A flow is guaranteed in total variation, everything else for an epsilon; a ledger says what is left of it."""
    if query == "flow":
        if epsilon is not None:
            raise ParameterError("a flow is guaranteed in total variation: give --tau and --eta instead of --epsilon")
        if eta is None or tau is None:
            raise ParameterError("a flow needs --eta (radius of the orbit) and --tau (the guarantee, below 1)")
    elif epsilon is None and not ledger:
        raise ParameterError("epsilon is missing; give the guarantee with --epsilon, for example 1")
    elif eta is not None or tau is not None or more:
        raise ParameterError("--eta, --tau, --privacy, --sum and --centre-only are for --query flow: leave them out")


def _whole(text: str) -> int:
    from pufferdp.basics import checks

    return checks.length(text.strip())
