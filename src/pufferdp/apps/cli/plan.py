"""``pufferdp plan``: every mechanism on a problem, before any data is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.flags import methods
from pufferdp.apps.outputs import Outputs
from pufferdp.basics.errors import ParameterError

if TYPE_CHECKING:
    from pufferdp.models.base import Model
    from pufferdp.publish.answers.plan import Plan
    from pufferdp.publish.flows.plan import FlowPlan


@dataclass(frozen=True, kw_only=True)
class Size:
    """How many records there will be."""

    length: Annotated[
        str | None, typer.Option("--length", help="Records in one chain; other models know their size.")
    ] = None
    lengths: Annotated[str | None, typer.Option("--lengths", help="Records in each of several chains: 288,288,…")] = (
        None
    )
    part: Annotated[
        bool,
        typer.Option("--part", help="The chains are parts of series that go on, as with --from and --to of release."),
    ] = False
    unobserved: Annotated[
        bool, typer.Option("--unobserved", help="Records will be missing between those read, as with --missing keep.")
    ] = False

    def numbers(self) -> dict[str, Any]:
        """The length of one chain, or those of several."""
        from pufferdp.basics import checks

        if self.length is not None and self.lengths is not None:
            raise ParameterError("give either --length (records in one chain) or --lengths (one number for each chain)")
        parts = None if self.lengths is None else self.lengths.split(",")
        if parts is not None and not all(part.strip() for part in parts):
            raise ParameterError(
                f"lengths is {self.lengths!r}; it must be numbers of records, as in 288,288", value=self.lengths
            )
        length = None if self.length is None else checks.length(self.length.strip())
        return {"length": length, "lengths": None if parts is None else [checks.length(p.strip()) for p in parts]}


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What is guaranteed of an answer or a table."""

    epsilon: Annotated[
        str | None, typer.Option("--epsilon", help="The guarantee: odds shift by at most e^epsilon. Not for a flow.")
    ] = None
    adversary: options.AdversaryName = "bdp"
    unit: options.UnitName = None
    secret: options.SecretText = None
    secrets: options.SecretsFile = None
    delta: options.Delta = None


@dataclass(frozen=True, kw_only=True)
class FlowGuarantee:
    """What is guaranteed of a flow."""

    eta: Annotated[str | None, typer.Option("--eta", help="For a flow: radius of the orbit of chains.")] = None
    tau: Annotated[str | None, typer.Option("--tau", help="For a flow: the guarantee, a total variation.")] = None
    privacy: options.PrivacyName = "joint"
    add: options.Sum = False
    centre_only: options.CentreOnly = False


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """The rows of a table, and how its queries share the DP loss."""

    per: options.Per = None
    split: options.Split = None
    sizes: options.Sizes = "exact"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The budget that a release will be charged to."""

    ledger: Annotated[
        str | None, typer.Option("--ledger", help="Plan against what is left in this ledger; nothing is charged.")
    ] = None
    dataset: options.DatasetName = None
    first: Annotated[str | None, typer.Option("--from", help="With --ledger: a release from this place on.")] = None
    last: Annotated[str | None, typer.Option("--to", help="With --ledger: a release up to this place.")] = None


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What is drawn, written and printed of a plan."""

    figure: options.FigureFile = None
    report: options.ReportFile = None
    overwrite: options.Overwrite = False
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Also show what does not apply and why, and what sets the noise."),
    ] = False
    as_json: options.AsJson = False


def plan(
    model: Annotated[str, typer.Argument(help="Model file (JSON).")],
    queries: Annotated[
        list[str],
        typer.Option(
            "--query", help="count:STATE, histogram, frequency, sum, mean, variance or flow; several make a table."
        ),
    ],
    guarantee: Guarantee,
    size: Size,
    table: TableShape,
    flow: FlowGuarantee,
    budget: Budget,
    shown: Shown,
    clip: options.Clip = None,
    beta: options.Beta = "0.05",
) -> None:
    """Say how accurate a release will be with each mechanism, and which is best, before any data is read."""
    from pufferdp.models.files.json import load_model
    from pufferdp.publish.answers.queries import asks_table

    asked: str | list[str] = queries if len(queries) > 1 else queries[0]
    _check_options(queries[0], guarantee, flow, budget)
    request: dict[str, Any] = {**size.numbers(), "beta": options.number("beta", beta)}
    outputs = Outputs(
        {"figure": shown.figure, "report": shown.report},
        sources={"the model": model, "the secrets": guarantee.secrets},
        overwrite=shown.overwrite,
    )
    tabled = queries[0] != "flow" and asks_table(asked, table.per)
    if tabled:
        others = {"secrets": guarantee.secrets, "delta": guarantee.delta, "ledger": budget.ledger}
        for name, value in {**others, "figure": shown.figure}.items():
            if value is not None:
                raise ParameterError(
                    f"--{name} goes with the plan of one query, not with that of a table: leave it out"
                )
    elif table.sizes != "exact":
        raise ParameterError("--sizes goes with a table: say what its groups are with --per, or ask several queries")
    elif table.split is not None and len(queries) == 1:
        raise ParameterError("--split shares the DP loss among several queries, and there is one: leave it out")
    elif len(queries) > 1 or table.per:
        raise ParameterError("--per and several --query make a table, and a flow is none: plan it alone")
    with options.progress() as progress:
        progress("reading the model")
        prior = load_model(model)
        if tabled:
            from pufferdp.publish.tables.plan import plan_table

            planned = plan_table(
                prior,
                asked,
                epsilon=options.guaranteed(guarantee.epsilon or ""),
                per=table.per,
                split=None if table.split is None else options.numbers("split", table.split),
                sizes=table.sizes,
                adversary=guarantee.adversary,
                clip=options.pair(clip),
                part=size.part,
                unobserved=size.unobserved,
                progress=progress,
                **request,
            )
            content = planned.to_dict()
            with outputs.delivery(content) as delivery:
                delivery.show(content, lambda: str(planned), shown.as_json)
                delivery.report(planned)
        elif queries[0] == "flow":
            from pufferdp.publish.flows.plan import plan_flow

            numbers = {name: options.number(name, getattr(flow, name) or "") for name in ("eta", "tau")}
            of_flow = plan_flow(prior, **{**vars(flow), **numbers}, **request, progress=progress)
            _deliver(outputs, of_flow, lambda: methods(of_flow.text(verbose=shown.verbose)), shown, progress)
        else:
            _plan_answer(prior, queries[0], guarantee, size, budget, shown, clip, request, outputs, progress)


def _plan_answer(
    prior: Model,
    query: str,
    guarantee: Guarantee,
    size: Size,
    budget: Budget,
    shown: Shown,
    clip: tuple[str, str] | None,
    request: dict[str, Any],
    outputs: Outputs,
    progress: options.Progress,
) -> None:
    """One query, against what is left of a budget where there is one."""
    from pufferdp.publish.answers.plan import plan as make_plan
    from pufferdp.publish.answers.secrets import load_secrets
    from pufferdp.report.page import Words
    from pufferdp.report.pages.answers import plan_page
    from pufferdp.report.text import blocks_text, terminal

    account, part, given = None, size.part, guarantee.epsilon
    if budget.ledger is not None and budget.dataset is not None:
        from pufferdp.publish.answers.remaining_budget import RemainingBudget  # loads the ledger

        part = part or budget.first is not None or budget.last is not None
        longest = None if part else max([*(request["lengths"] or ()), request["length"] or 1])
        place = budget.ledger, budget.dataset
        account = RemainingBudget.of(*place, prior, guarantee.adversary, longest, budget.first, budget.last)
    epsilon = account.epsilon if account and given is None else options.guaranteed(given or "")
    result = make_plan(
        prior,
        query,
        epsilon=epsilon,
        adversary=guarantee.adversary,
        clip=options.pair(clip),
        secrets=None if guarantee.secrets is None else load_secrets(guarantee.secrets),
        delta=0.0 if guarantee.delta is None else options.number("delta", guarantee.delta),
        part=part,
        unobserved=size.unobserved,
        unit=guarantee.unit,
        secret=guarantee.secret,
        progress=progress,
        **request,
    )
    more = None if account is None else account.verdict(result)
    words = "" if more is None else "\n\n" + blocks_text([Words((more["words"],))])

    def text() -> str:
        page = plan_page(result, refused=() if more is None else more["refused"])
        chart = result.chart()
        return "\n\n".join([methods(terminal(page, shown.verbose)), *([chart] if chart else [])]) + words

    _deliver(outputs, result, text, shown, progress, more)


def _deliver(
    outputs: Outputs,
    result: Plan | FlowPlan,
    text: Callable[[], str],
    shown: Shown,
    progress: options.Progress,
    ledger: dict[str, Any] | None = None,
) -> None:
    from pufferdp.report.pages.answers import plan_comparison

    content = result.to_dict() | ({} if ledger is None else {"ledger": ledger})

    def draw(path: Path) -> None:
        plan_comparison(content).save(path)

    with outputs.delivery(content) as delivery:
        delivery.show(content, text, shown.as_json)
        progress("drawing")
        delivery.write("figure", draw)
        progress("writing the report")
        delivery.report(result)


def _check_options(query: str, guarantee: Guarantee, flow: FlowGuarantee, budget: Budget) -> None:
    """A flow is guaranteed in total variation, everything else for an epsilon; a ledger says what is left of it."""
    if (budget.ledger is None) != (budget.dataset is None) or (
        budget.ledger is None and (budget.first is not None or budget.last is not None)
    ):
        raise ParameterError("--ledger and --dataset go together, and --from and --to with them")
    if query == "flow":
        if budget.ledger is not None:
            raise ParameterError("ledger show says what is left for flows: leave --ledger out", value=budget.ledger)
        if guarantee.epsilon is not None:
            raise ParameterError("a flow is guaranteed in total variation: give --tau and --eta instead of --epsilon")
        if flow.eta is None or flow.tau is None:
            raise ParameterError("a flow needs --eta (radius of the orbit) and --tau (the guarantee, below 1)")
        for name in ("unit", "secret", "delta"):
            if (value := getattr(guarantee, name)) is not None:
                raise ParameterError(f"a flow is guaranteed in total variation: leave --{name} out", value=value)
    elif guarantee.epsilon is None and budget.ledger is None:
        raise ParameterError("epsilon is missing; give the guarantee with --epsilon, for example 1")
    elif flow != FlowGuarantee():
        raise ParameterError("--eta, --tau, --privacy, --sum and --centre-only are for --query flow: leave them out")
    elif budget.ledger is not None and guarantee.secret is not None:
        raise ParameterError(
            "a ledger is about every record, not about one secret: leave --ledger out", value=budget.ledger
        )
