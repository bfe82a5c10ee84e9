"""``pufferdp ledger``: budgets of data sets, kept in a file or in PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from pufferdp.apps.cli import options
from pufferdp.apps.outputs import Outputs, reason_of
from pufferdp.basics.errors import DeliveryError, ParameterError

_NOTE = 200
"""Characters of a note, at most."""
Place = Annotated[str, typer.Argument(help="Ledger: a file, or postgresql://…")]
ledger = typer.Typer(
    help="Keep the budget of a data set: create, show, charge, verify, export, import.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@ledger.command(short_help="Add a data set with its budget; makes the ledger.")
def create(
    place: Place,
    dataset: Annotated[str, typer.Option("--dataset", help="Name of the data set.")],
    model: Annotated[str, typer.Option("--model", help="Model file (JSON) that the budget is for.")],
    budget: Annotated[
        str | None, typer.Option("--budget", help="The most that all releases together may leak, in epsilon.")
    ] = None,
    adversary: options.AdversaryName = "bdp",
    delta: Annotated[
        str | None, typer.Option("--delta", help="With --budget: the delta beside it, for releases that have one.")
    ] = None,
    unit: options.UnitName = None,
    tau: Annotated[
        str | None,
        typer.Option("--tau", help="For flows, instead of --budget: the total variation that all may spend."),
    ] = None,
    eta: Annotated[str | None, typer.Option("--eta", help="With --tau: radius of the orbit.")] = None,
    privacy: options.PrivacyName = "joint",
    centre_only: options.CentreOnly = False,
    as_json: options.AsJson = False,
) -> None:
    """Add a data set with its model, adversary and budget; the file is made where there is none."""
    from pufferdp.basics import checks
    from pufferdp.basics.errors import ParameterError
    from pufferdp.ledger.flow_budget import FlowBudget, refuse_no_flow
    from pufferdp.ledger.ledger import Ledger
    from pufferdp.models.files.json import load_model

    if (budget is None) == (tau is None):
        raise ParameterError("give either --budget (in epsilon) or --tau (total variation, for flows)")
    prior, checked_adversary = load_model(model), checks.adversary(adversary)
    most: float | FlowBudget
    most_delta = None if delta is None else checks.delta(delta)
    if tau is None:
        if eta is not None or privacy != "joint" or centre_only:
            raise ParameterError("--eta, --privacy and --centre-only go with --tau, the budget of flows")
        most = checks.epsilon(budget or "", "budget")
    else:
        if eta is None:
            raise ParameterError("eta is missing; say how wide the orbit of the flows is with --eta")
        if delta is not None:
            raise ParameterError(f"delta is {delta!r}; flows have none: leave it out", value=delta)
        if adversary != "bdp":
            raise ParameterError(f"adversary is {adversary!r}; flows have none: leave it out", value=adversary)
        numbers = {"tau": options.number("tau", tau), "eta": options.number("eta", eta)}
        most = FlowBudget(**numbers, privacy=privacy, centre_only=centre_only)
        refuse_no_flow(prior, most)  # before a file is made
    with Ledger(place, create=True) as budget_ledger:
        made = budget_ledger.create(
            dataset, model=prior, adversary=checked_adversary, budget=most, delta=most_delta, unit=unit
        )
    options.show(made.to_dict(), str(made), as_json)


@dataclass(frozen=True, kw_only=True)
class Records:
    """Some of the records of a data set."""

    first: Annotated[
        str | None, typer.Option("--from", help="From this place of the order on: a number, a date or a time.")
    ] = None
    last: Annotated[
        str | None, typer.Option("--to", help="Up to this place, itself included; a date is a whole day.")
    ] = None
    people: Annotated[str | None, typer.Option("--by-people", help="Whose records: names with commas.")] = None

    def arguments(self) -> dict[str, Any]:
        """The arguments of ``Ledger.ranges``."""
        names = None if self.people is None else [name.strip() for name in self.people.split(",")]
        if names is not None and not all(names):
            raise ParameterError(f"by-people is {self.people!r}; it must be names, as in ann,bob", value=self.people)
        return {"first": self.first, "last": self.last, "people": names}


@ledger.command(short_help="Say what was spent and what is left.")
def show(
    place: Place,
    records: Records,
    dataset: options.DatasetName = None,
    figure: options.FigureFile = None,
    charge: Annotated[
        str | None, typer.Option("--charge", help="Only say whether the charge of this identity was made.")
    ] = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """What was spent and what is left; --figure draws it as a calendar, or release by release."""
    from pufferdp.ledger.history import history
    from pufferdp.ledger.ledger import Ledger
    from pufferdp.report.pages.ledger import budget_calendar, budget_over_time, datasets_page
    from pufferdp.report.text import terminal

    asks = records != Records()
    if charge is not None:
        if dataset is not None or figure is not None or asks:
            raise ParameterError("--charge asks the whole ledger about one charge: leave out --dataset and --figure")
        _show_charge(place, charge, as_json)
        return
    outputs = Outputs({"figure": figure}, ledger=place, overwrite=overwrite)
    with Ledger(place) as budget_ledger, options.progress() as progress:
        progress("reading the curve")
        names = budget_ledger.names() if dataset is None else (dataset,)
        if len(names) != 1 and (figure is not None or asks):
            raise ParameterError("--figure, --from, --to and --by-people need one data set: name it with --dataset")
        asked = None
        if asks:
            asked = budget_ledger.ranges(names[0], **records.arguments())
        datasets = [budget_ledger.dataset(name, asked) for name in names]
        chart = None
        if figure is not None and datasets[0].calendar is not None and datasets[0].calendar.pieces:
            chart = budget_calendar(datasets[0])
        elif figure is not None:
            chart = budget_over_time(datasets[0].to_dict(), history(budget_ledger, names[0]))
    if len(datasets) == 1:
        content, text = datasets[0].to_dict(), str(datasets[0])
    else:
        page = datasets_page(datasets)
        content, text = page.data, terminal(page)
    with outputs.delivery(content) as delivery:
        delivery.show(content, lambda: text, as_json)
        if chart is not None:
            delivery.write("figure", chart.save)


@ledger.command("charge")
def charge_(
    place: Place,
    dataset: Annotated[str, typer.Option("--dataset", help="Name of the data set.")],
    dp_epsilon: Annotated[str, typer.Option("--dp-epsilon", help="The DP loss of what was or will be released.")],
    note: Annotated[str, typer.Option("--note", help="What it is and who makes it; public like the ledger.")],
    records: Records,
    dp_delta: Annotated[str, typer.Option("--dp-delta", help="The delta of DP beside it, if any.")] = "0",
    order: Annotated[str | None, typer.Option("--order", help="The column that --from and --to are places in.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="The column that says whose a record is.")] = None,
    length: Annotated[
        str | None, typer.Option("--length", help="Records in the longest chain; without it, the series has no end.")
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option("--identity", help="A name of your own for this charge: repeat it, and nothing is charged twice."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Charge a release that is made elsewhere, by its DP loss. Charge it before its noise is drawn."""
    from pufferdp.basics import checks
    from pufferdp.ledger.charge import Charge
    from pufferdp.ledger.ledger import Ledger

    loss, delta = checks.epsilon(dp_epsilon, "dp_epsilon"), checks.delta(dp_delta, "dp_delta")
    longest = checks.MOST_RECORDS if length is None else checks.length(length)
    if not note.strip() or not note.isprintable() or len(note) > _NOTE:
        raise ParameterError(f"note is {note[:40]!r}; it must be one line of at most {_NOTE} characters", value=note)
    outputs = Outputs({}, ledger=place, whole=())
    with Ledger(place) as budget_ledger:
        ranges = budget_ledger.ranges(dataset, **records.arguments(), order=order, by=by)
        receipt = budget_ledger.charge(
            dataset,
            Charge(kind="dp", dp_loss=loss, dp_delta=delta, longest=longest, ranges=ranges, facts={"note": note}),
            identity=identity,
        )
        total = options.balance_text(options.Account(ledger=place, dataset=dataset))
    words = f"Charged as row {receipt.position} of data set {dataset!r}."
    charged = receipt.to_dict()
    with outputs.delivery({"charged": charged}, charged) as delivery:
        delivery.show({"charged": charged}, lambda: f"{words}\n{total}Head: {receipt.head}", as_json)


def _show_charge(place: str, identity: str, as_json: bool) -> None:
    from pufferdp.ledger.ledger import Ledger

    with Ledger(place) as budget_ledger:
        receipts = budget_ledger.find(identity)
    rows = [receipt.to_dict() for receipt in receipts]
    lines = [f"row {r.position} of data set {r.dataset!r}, {r.charged}, {r.head}" for r in receipts]
    text = "\n".join([f"Charge {identity} was made:", *lines] if lines else [f"Charge {identity} was not made."])
    options.show({"charge": identity, "made": bool(rows), "rows": rows}, text, as_json)


@ledger.command()
def verify(
    place: Place,
    head: Annotated[
        str | None, typer.Option("--head", help="Hash of a row that must be there: ledger.head of a certificate.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Recompute every hash and every charge. Exit 3 when something was changed."""
    from pufferdp.basics.errors import RefusedError
    from pufferdp.ledger.ledger import Ledger

    with Ledger(place) as budget_ledger, options.progress() as progress:
        progress("recomputing hashes and charges")
        verification = budget_ledger.verify(head)
    options.show(verification.to_dict(), str(verification), as_json)
    if not verification.valid:
        count = len(verification.problems)
        raise RefusedError(f"the ledger does not hold; it has {count} problem{'s' * (count != 1)}")


@ledger.command()
def export(
    place: Place,
    out: Annotated[str, typer.Option("--out", help="Write the ledger to this JSON file.")],
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the whole ledger as JSON."""
    from pufferdp.ledger.history import export_ledger
    from pufferdp.ledger.ledger import Ledger

    target = Outputs({}, ledger=place, overwrite=overwrite).check("out", out)
    with Ledger(place) as budget_ledger, options.progress() as progress:
        progress("writing")
        try:
            summary = target.fill(lambda path: export_ledger(budget_ledger, path))
        except OSError as error:
            raise DeliveryError(f"out {out!r} cannot be written: {reason_of(error)}", value=out) from None
    options.show(summary, f"{summary['rows']} rows of {len(summary['datasets'])} data sets: {out}", as_json)


@ledger.command("import", short_help="Add the data sets of an export.")
def import_(
    place: Place,
    source: Annotated[str, typer.Option("--from", help="JSON file that ledger export wrote.")],
    as_json: options.AsJson = False,
) -> None:
    """Add the data sets of an export, once every hash and charge in it was recomputed."""
    from pufferdp.ledger.history import import_ledger, read_export
    from pufferdp.ledger.ledger import Ledger

    content = read_export(source)  # before a file is made
    with options.progress() as progress:
        progress("recomputing hashes and charges")
        with Ledger(place, create=True) as budget_ledger:
            summary = import_ledger(budget_ledger, content)
    options.show(summary, f"{summary['rows']} rows of {len(summary['datasets'])} data sets", as_json)
