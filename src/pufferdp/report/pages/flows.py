"""What there is to say of private flows and of plans for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.words import number, rounded, shorten
from pufferdp.publish.flows.certificate import guarantee
from pufferdp.publish.flows.kind import KIND
from pufferdp.publish.verdict import flow_verdict
from pufferdp.report.charts import Chart, Panels, heat_map
from pufferdp.report.page import Block, Figure, Medium, Page, Section, Table, Words
from pufferdp.report.pages.answers import candidates_table, plan_comparison, reasons, striped
from pufferdp.report.pages.common import OTHERWISE, certificate_page, noise_sentence, parts, planned_page

if TYPE_CHECKING:
    from pufferdp.publish.flows.plan import FlowPlan

_MOST_STATES: Final = 8
"""More states make a table that does not fit a terminal; the largest shares are listed instead."""
_MOST_SHARES: Final = 10


def flow_plan_page(plan: FlowPlan) -> Page:
    """Every mechanism for a flow, which is best, and what the model alone would do."""
    content = plan.to_dict()
    best = next(c for c in content["candidates"] if c["mechanism"] == content["best"])
    errors = (
        f"The best mechanism is {best['mechanism']}: the errors of all shares together are expected to be "
        f"{number(best['expected_l1_error'])}, by simulation under the model."
    )
    columns = {"sigma": "sigma", "kappa": "kappa", "scale": "noise scale", "expected_l1_error": "expected error"}
    accuracy: tuple[Block, ...] = (
        Words((errors,), Medium.PAGES),
        candidates_table("Every mechanism on this problem", content, content["candidates"], columns),
        Figure(make=lambda: plan_comparison(content), caption=striped(content)),
        Words(_plan_notes(content)),
    )
    about = f"{content['transitions']:,} transitions, {content['privacy']} privacy, tau {number(content['tau'])}"
    dobrushin = number(content["dobrushin"])
    return planned_page(
        "a private transition flow",
        about,
        parts((guarantee(plan.problem)["statement"],), accuracy, _otherwise(content["tau"])),
        content,
        verdict=(content["verdict"]["sentence"],),
        opening=(f"flow of {about}, eta {number(content['eta'])}, Dobrushin coefficient {dobrushin}",),
        facts=(("Dobrushin coefficient", dobrushin), *(("does not apply", reason) for reason in reasons(content))),
    )


def _plan_notes(plan: dict[str, Any]) -> tuple[str, ...]:
    ours, poster = plan["constants"]["ours"], plan["constants"]["poster"]
    notes = [
        f"On average the flow moves by at most {number(ours['orbit'])} with the chain and {number(ours['record'])} "
        f"with one record; the poster takes {number(poster['orbit'])} and {number(poster['record'])}.",
        *reasons(plan),
        "Expected errors are added up over all shares, error bounds are for each; simulated under the model.",
    ]
    if plan["guess"] is not None:
        notes.append(f"Publishing the model's own flow, without looking at the data, errs by {number(plan['guess'])}.")
    return tuple(notes)


def page_from_certificate(certificate: dict[str, Any], comparison: None = None) -> Page:
    """A released flow, from its certificate alone."""
    g, accuracy = certificate["guarantee"], certificate["accuracy"]
    errors = (
        f"With probability {1 - accuracy['beta']:.4g} every share errs by less than {number(accuracy['alpha'])}; the "
        f"errors of all shares together are expected to be {number(certificate['expected_l1_error'])}, by simulation "
        "under the model."
    )
    verdict = flow_verdict(**accuracy, expected=certificate["expected_l1_error"], guess=KIND.guess(certificate))
    limits = f"Not guaranteed: {g['not_guaranteed']}."
    return certificate_page(
        certificate,
        title=f"Private transition flow of {certificate['data']['column']}",
        lead=f", {g['privacy']} privacy, tau {number(g['tau'])}",
        verdict=(verdict.sentence, *_not_estimable(certificate)),
        accuracy=(
            Words((errors,), Medium.PAGES),
            *_shares(certificate["labels"], certificate["flow"], accuracy["alpha"]),
            Figure(make=lambda: flow_map(certificate), caption="The released flow."),
            *_estimates(certificate),
        ),
        own=(noise_sentence(certificate), limits),
        otherwise=(_otherwise(g["tau"]),),
        words=(limits,),
    )


def _not_estimable(certificate: dict[str, Any]) -> tuple[str, ...]:
    """Which numbers of the chain the flow says nothing of."""
    names = [name for name, cell in _cells(certificate) if cell["value"] is None]
    return (f"Not estimable from this flow: {shorten(names, _MOST_STATES)}.",) if names else ()


def _cells(certificate: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """What the flow says of the chain, by name."""
    estimates = certificate["estimates"]
    distribution = estimates["stationary"]
    cells = [
        (f"long-run share of {name}", {key: distribution[key][n] for key in distribution})
        for n, name in enumerate(certificate["labels"])
    ]
    return [
        *cells,
        ("Dobrushin coefficient", estimates["dobrushin"]),
        ("relaxation time", estimates["relaxation_time"]),
    ]


def _shares(labels: list[str], flow: list[list[float]], error: float) -> tuple[Block, ...]:
    if len(labels) <= _MOST_STATES:
        rows = tuple((name, *(rounded(share, error) for share in row)) for name, row in zip(labels, flow, strict=True))
        return (Table(caption="Share of transitions", head=("from / to", *labels), rows=rows),)
    shares = _shares_by_size(labels, flow)
    caption = f"The largest of {len(shares):,} shares"
    top = tuple((a, b, rounded(share, error)) for share, a, b in shares[:_MOST_SHARES])
    table = Table(caption=caption, head=("from", "to", "share"), rows=top, left=2)
    return Words((f"{caption}:",), Medium.TERMINAL), table


def _estimates(certificate: dict[str, Any]) -> tuple[Block, ...]:
    """What the flow says of the chain."""
    estimates, cells = certificate["estimates"], _cells(certificate)
    shown = cells if len(cells) <= _MOST_STATES + 2 else [*cells[:_MOST_STATES], *cells[-2:]]
    rows = [(name, *_found(cell, share=n < len(shown) - 1)) for n, (name, cell) in enumerate(shown)]
    blur = (
        f"low and high: the middle {estimates['coverage']:.0%} of {estimates['draws']} simulated releases of the flow "
        "found. They tell what the noise blurs, and not how another data set would differ."
    )
    head = ("of the chain", "found", "low", "high")
    return Table(caption="What the flow says of the chain", head=head, rows=tuple(rows)), Words((blur,))


def _found(cell: dict[str, Any], *, share: bool) -> tuple[str, str, str]:
    """A number with its range; a share with the decimals that its error supports."""
    value, low, high = cell["value"], cell["low"], cell["high"]
    found = "not estimable" if value is None else number(value)
    if not share or low is None:
        return found, number(low), number(high)
    error = (high - low) / 2
    return found if value is None else rounded(value, error), rounded(low, error), rounded(high, error)


def _otherwise(tau: float) -> Section:
    words = (
        "Without noise a flow of few transitions can be all that is needed to tell two possibilities apart. The noise "
        "here is chosen so that the distributions of two releases overlap; how much is the guarantee."
    )
    rows = (
        ("a coin", "0.5"),
        ("this flow, at most", number((1 + tau) / 2)),
        ("the exact flow, where it tells the two apart", "1"),
    )
    table = Table(
        caption="How often a guess between two possibilities is right",
        head=("from", "right"),
        rows=rows,
        media=Medium.REPORT,
    )
    return Section(title=OTHERWISE, blocks=(Words((words,), Medium.REPORT), table))


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
    shares = _shares_by_size(labels, flow)
    largest = "; ".join(f"{a} to {b} {share:.3f}" for share, a, b in shares[:4])
    alt = f"{title}: shares of transitions between {len(labels)} states, the largest {largest}."
    return heat_map(labels, flow, ("to", "from"), "share of transitions", alt=alt, title=title, top=top, size=size)


def _shares_by_size(labels: Sequence[str], flow: Sequence[Sequence[float]]) -> list[tuple[float, str, str]]:
    """Shares with their states, the largest first."""
    cells = ((share, a, b) for a, row in zip(labels, flow, strict=True) for b, share in zip(labels, row, strict=True))
    return sorted(cells, key=lambda cell: -cell[0])
