"""What a report says of private flows and of plans for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pufferdp.report.blocks import Block, Shown, Table
from pufferdp.report.figures import plan_comparison
from pufferdp.report.flow import flow_map
from pufferdp.report.pages import Page, Section, made_by
from pufferdp.report.text import number

if TYPE_CHECKING:
    from pufferdp.flowing import FlowPlan

_MOST_STATES = 12
_MOST_SHARES = 20


def flow_page(certificate: dict[str, Any], brief: bool = False) -> Page:
    """A released flow."""
    g, data, accuracy = certificate["guarantee"], certificate["data"], certificate["accuracy"]
    said = (
        f"With probability {1 - accuracy['beta']:.4g} the errors of all shares together are below "
        f"{number(accuracy['alpha'])}; they are expected to be {number(certificate['expected_l1_error'])}, by "
        "simulation under the model."
    )
    calibration = certificate["calibration"]
    return Page(
        title=f"Private transition flow of {data['column']}",
        lead=f"{data['records']:,} records, {g['privacy']} privacy, tau {number(g['tau'])}, "
        f"{certificate['created'][:10]}",
        sections=(
            Section(title="The promise", blocks=(_promise(g["privacy"], g["tau"], g["eta"]),)),
            Section(
                title="The accuracy",
                blocks=(
                    said,
                    _shares(certificate["labels"], certificate["flow"]),
                    Shown(chart=flow_map(certificate), caption="The released flow."),
                ),
            ),
            *(() if brief else (_otherwise(g["tau"]),)),
        ),
        words=(
            g["statement"],
            f"Not promised: {g['not_promised']}.",
            *(f"Taken to be public: {p}." for p in certificate["public"]),
        ),
        facts=(
            *made_by(certificate),
            ("noise", f"{certificate['noise']['kind']}, scale {number(certificate['noise']['scale'])}"),
            ("Dobrushin coefficient", number(calibration["dobrushin"])),
            ("sigma", number(calibration["sigma"])),
        ),
        warnings=tuple(certificate["warnings"]),
        data=certificate,
        certified=True,
    )


def flow_plan_page(plan: FlowPlan, brief: bool = False) -> Page:
    """A plan for a flow."""
    found = plan.to_dict()
    best = next(c for c in found["candidates"] if c["mechanism"] == found["best"])
    rows = []
    for c in found["candidates"]:
        mark = "best" if c is best else "yes" if c["applies"] else "no"
        errors = (c["expected_l1_error"], c["accuracy"]["alpha"])
        rows.append((c["mechanism"], mark, number(c["scale"]), *(number(e) for e in errors)))
    said = f"The best mechanism is {best['mechanism']}: the errors of all shares together are expected to be "
    said += f"{number(best['expected_l1_error'])}, by simulation under the model."
    sure = f"error below, {1 - best['accuracy']['beta']:.4g} sure"
    head = ("mechanism", "keeps the promise", "noise scale", "expected error", sure)
    return Page(
        title="Plan: a private transition flow",
        lead=f"{found['transitions']:,} transitions, {found['privacy']} privacy, tau {number(found['tau'])}; "
        "no data was read",
        sections=(
            Section(title="The promise", blocks=(_promise(found["privacy"], found["tau"], found["eta"]),)),
            Section(
                title="The accuracy",
                blocks=(
                    said,
                    Table(caption="Every mechanism on this problem", head=head, rows=tuple(rows)),
                    Shown(chart=plan_comparison(found), caption="Striped: a mechanism that does not keep the promise."),
                ),
            ),
            *(() if brief else (_otherwise(found["tau"]),)),
        ),
        words=("The certificate of the release has the exact words; a plan promises nothing yet.",),
        facts=(
            ("Dobrushin coefficient", number(found["dobrushin"])),
            *(("does not apply", f"{c['mechanism']}: {c['reason']}.") for c in found["candidates"] if c["reason"]),
        ),
        data=found,
        certified=False,
    )


def _promise(privacy: str, tau: float, eta: float) -> str:
    chain = f"whether the model itself or another chain within {number(eta)} of it made the data"
    record = "which of two values any one record has, given the record before it"
    what = {"orbit": chain, "record": record, "joint": f"{chain}, and, on its own, about {record}"}[privacy]
    return (
        f"Whoever sees this flow learns little about {what}. Whoever has to guess between two such possibilities, both "
        f"as likely, is right with a probability of at most {number((1 + tau) / 2)}; a coin is right with 0.5."
    )


def _otherwise(tau: float) -> Section:
    said = (
        "Without noise a flow of few transitions can be all that is needed to tell two possibilities apart. The noise "
        "here is chosen so that the laws of two releases overlap; how much is the promise."
    )
    rows = (
        ("a coin", "0.5"),
        ("this flow, at most", number((1 + tau) / 2)),
        ("the exact flow, where it tells the two apart", "1"),
    )
    table = Table(caption="How often a guess between two possibilities is right", head=("from", "right"), rows=rows)
    return Section(title="What leaks otherwise", blocks=(said, table))


def _shares(labels: list[str], flow: list[list[float]]) -> Block:
    if len(labels) <= _MOST_STATES:
        rows = tuple((name, *(f"{share:.4f}" for share in row)) for name, row in zip(labels, flow, strict=True))
        return Table(caption="Share of transitions", head=("from / to", *labels), rows=rows)
    shares = sorted(
        ((share, a, b) for a, row in zip(labels, flow, strict=True) for b, share in zip(labels, row, strict=True)),
        key=lambda one: -one[0],
    )
    top = tuple((f"{a} to {b}", f"{share:.4f}") for share, a, b in shares[:_MOST_SHARES])
    return Table(caption=f"The largest of {len(shares):,} shares", head=("from and to", "share"), rows=top)
