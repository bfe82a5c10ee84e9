"""What a report says of private flows and of plans for them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.words import number, table
from pufferdp.report.charts import Axis, Chart, HeatMap, Panels
from pufferdp.report.page import Block, Page, Section, Shown, Table
from pufferdp.report.pages.answers import plan_comparison
from pufferdp.report.pages.common import made_by
from pufferdp.report.text import promise

if TYPE_CHECKING:
    from pufferdp.publish.flows.flow import FlowPlan


_WIDTH: Final = 96
_MOST_CHART_STATES: Final = 8
"""More states make a table that does not fit a terminal; the largest shares are listed instead."""
_MOST_CELLS: Final = 100
"""More numbers than this are not written into a heat map."""


def plan_table(plan: dict[str, Any]) -> str:
    """The candidates of a plan."""
    beta = plan["candidates"][0]["accuracy"]["beta"]
    head = [
        "mechanism",
        "keeps it",
        "sigma",
        "kappa",
        "noise scale",
        "expected error",
        f"error below, {1 - beta:.4g} sure",
    ]
    rows = []
    for c in plan["candidates"]:
        mark = "best" if c["mechanism"] == plan["best"] else "yes" if c["applies"] else "no"
        numbers = (c["sigma"], c["kappa"], c["scale"], c["expected_l1_error"], c["accuracy"]["alpha"])
        rows.append([c["mechanism"], mark, *(number(n) for n in numbers)])
    ours, poster = plan["constants"]["ours"], plan["constants"]["poster"]
    title = (
        f"flow of {plan['transitions']:,} transitions, {plan['privacy']} privacy, tau {number(plan['tau'])}, eta "
        f"{number(plan['eta'])}, Dobrushin coefficient {number(plan['dobrushin'])}"
    )
    moves = (
        f"On average the flow moves by at most {number(ours['orbit'])} with the chain and {number(ours['record'])} "
        f"with one record; the poster takes {number(poster['orbit'])} and {number(poster['record'])}."
    )
    parts = [textwrap.fill(title, _WIDTH), "", table(head, rows, left=2), "", textwrap.fill(moves, _WIDTH)]
    parts += [textwrap.fill(f"{c['mechanism']}: {c['reason']}.", _WIDTH) for c in plan["candidates"] if c["reason"]]
    parts.append("Errors are sums over all shares of the released flow, simulated under the model.")
    if plan["guess"] is not None:
        guess = f"Publishing the model's own flow, without looking at the data, errs by {number(plan['guess'])}."
        parts.append(textwrap.fill(guess, _WIDTH))
    return "\n".join(parts)


def release_table(certificate: dict[str, Any], guess: float | None = None) -> str:
    """The released flow, what it says of the chain, and the promise; and whether the model alone would do better."""
    labels, flow, found = certificate["labels"], certificate["flow"], certificate["estimates"]
    parts = []
    if len(labels) <= _MOST_CHART_STATES:
        rows = [[name, *(f"{share:.4f}" for share in row)] for name, row in zip(labels, flow, strict=True)]
        parts.append(table(["from / to", *labels], rows))
    else:
        shares = sorted(
            ((share, a, b) for a, row in zip(labels, flow, strict=True) for b, share in zip(labels, row, strict=True)),
            key=lambda one: -one[0],
        )
        parts.append(f"The largest of {len(shares):,} shares:\n")
        parts.append(table(["from", "to", "share"], [[a, b, f"{s:.4f}"] for s, a, b in shares[:10]], left=2))
    law = found["stationary"]
    rows = [
        [f"long-run share of {name}", *(number(law[key][n]) for key in ("value", "low", "high"))]
        for n, name in enumerate(labels[:_MOST_CHART_STATES])
    ]
    rows.append(["Dobrushin coefficient", *_ranged(found["dobrushin"])])
    rows.append(["relaxation time", *_ranged(found["relaxation_time"])])
    share = f"{found['coverage']:.0%}"
    parts += ["", table(["of the chain", "found", "low", "high"], rows), ""]
    said = (
        f"low and high: the middle {share} of {found['draws']} simulated releases of the flow found. They tell what "
        "the noise blurs, and not how another data set would differ."
    )
    parts.append(textwrap.fill(said, _WIDTH))
    parts += ["", promise(certificate), textwrap.fill(_not_promised(certificate), _WIDTH)]
    error = certificate["expected_l1_error"]
    if guess is not None and guess < error:
        more = "" if certificate["guarantee"]["privacy"] == "record" else ", or --privacy record,"
        said = (
            f"If the model is right, its own flow, published without looking at the data, errs less: by "
            f"{number(guess)} in all shares together, where this release errs by {number(error)}. A wider tau or a "
            f"narrower eta{more} helps."
        )
        parts.append(textwrap.fill(said, _WIDTH))
    return "\n".join(parts)


def _ranged(found: dict[str, float | None]) -> list[str]:
    return [number(found[key]) for key in ("value", "low", "high")]


def _not_promised(certificate: dict[str, Any]) -> str:
    words = certificate["guarantee"]["not_promised"]
    return f"Not promised: {words}."


def flow_map(certificate: dict[str, Any]) -> Chart:
    """The released flow as a heat map."""
    g = certificate["guarantee"]
    about = f"{g['privacy']} privacy, tau {g['tau']:g}, eta {g['eta']:g}"
    title = f"private flow, {certificate['mechanism']['name']}: {about}"
    return _map(title, certificate["flow"], certificate["labels"], max(map(max, certificate["flow"])), 5.6)


def flow_maps(flows: dict[str, Any], labels: Sequence[str], title: str = "") -> Panels:
    """Flows side by side on one scale, their shares written in."""
    top = float(max(max(map(max, flow)) for flow in flows.values()))
    parts = tuple(_map(name, flow, labels, top, 4.1) for name, flow in flows.items())
    alt = f"{title or 'Flows side by side'}, {len(flows)} heat maps on one scale. {' '.join(p.alt for p in parts)}"
    return Panels(title=title, parts=parts, across=2 if len(flows) == 4 else min(len(flows), 3), alt=alt)


def _map(title: str, flow: Sequence[Sequence[float]], labels: Sequence[str], top: float, size: float) -> Chart:
    shares = sorted(
        ((share, a, b) for a, row in zip(labels, flow, strict=True) for b, share in zip(labels, row, strict=True)),
        key=lambda one: -one[0],
    )
    said = "; ".join(f"{a} to {b} {share:.3f}" for share, a, b in shares[:4])
    return Chart(
        title=title,
        x=Axis(name="to", scale="names", names=tuple(labels)),
        y=Axis(name="from", scale="names", names=tuple(labels)),
        layers=(
            HeatMap(
                values=tuple(tuple(map(float, row)) for row in flow),
                top=top,
                label="share of transitions",
                written=len(labels) ** 2 <= _MOST_CELLS,
            ),
        ),
        alt=f"{title}: shares of transitions between {len(labels)} states, the largest {said}.",
        width=size,
        height=0.82 * size,
    )


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
