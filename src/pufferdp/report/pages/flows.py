"""What there is to say of private flows and of plans for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.words import number, rounded, shorten
from pufferdp.publish.flows.kind import KIND
from pufferdp.publish.verdict import flow_verdict
from pufferdp.report.charts import Axis, Chart, HeatMap, Panels
from pufferdp.report.page import Block, Figure, Medium, Page, Section, Table, Words
from pufferdp.report.pages.answers import plan_comparison, striped
from pufferdp.report.pages.common import OTHERWISE, certificate_page, guarantee_sentences

if TYPE_CHECKING:
    from pufferdp.publish.flows.plan import FlowPlan

_MOST_STATES: Final = 8
"""More states make a table that does not fit a terminal; the largest shares are listed instead."""
_MOST_SHARES: Final = 10
_MOST_CELLS: Final = 100
"""More numbers than this are not written into a heat map."""


def flow_plan_page(plan: FlowPlan) -> Page:
    """Every mechanism for a flow, which is best, and what the model alone would do."""
    content = plan.to_dict()
    best = next(c for c in content["candidates"] if c["mechanism"] == content["best"])
    rows = []
    for c in content["candidates"]:
        mark = "best" if c is best else "yes" if c["applies"] else "no"
        numbers = (c["sigma"], c["kappa"], c["scale"], c["expected_l1_error"], c["accuracy"]["alpha"])
        rows.append((c["mechanism"], mark, *(number(n) for n in numbers)))
    sure = f"{100 * (1 - best['accuracy']['beta']):.4g} % error bound"
    errors = (
        f"The best mechanism is {best['mechanism']}: the errors of all shares together are expected to be "
        f"{number(best['expected_l1_error'])}, by simulation under the model."
    )
    table = Table(
        caption="Every mechanism on this problem",
        head=("mechanism", "applies", "sigma", "kappa", "noise scale", "expected error", sure),
        rows=tuple(rows),
        left=2,
    )
    return Page(
        title="Plan: a private transition flow",
        lead=f"{content['transitions']:,} transitions, {content['privacy']} privacy, tau {number(content['tau'])}; "
        "no data was read",
        verdict=(content["verdict"]["sentence"],),
        opening=(
            f"flow of {content['transitions']:,} transitions, {content['privacy']} privacy, tau "
            f"{number(content['tau'])}, eta {number(content['eta'])}, Dobrushin coefficient "
            f"{number(content['dobrushin'])}",
        ),
        sections=(
            Section(title="The guarantee", blocks=(_guarantee(content["privacy"], content["tau"], content["eta"]),)),
            Section(
                title="The accuracy",
                blocks=(
                    Words((errors,), Medium.PAGES),
                    table,
                    Figure(
                        make=lambda: plan_comparison(content),
                        caption=striped(content),
                    ),
                    Words(_plan_notes(content)),
                ),
            ),
            _otherwise(content["tau"]),
        ),
        words=("The certificate of the release has the exact words; a plan guarantees nothing yet.",),
        facts=(
            ("Dobrushin coefficient", number(content["dobrushin"])),
            *(("does not apply", f"{c['mechanism']}: {c['reason']}.") for c in content["candidates"] if c["reason"]),
        ),
        data=content,
    )


def _plan_notes(plan: dict[str, Any]) -> tuple[str, ...]:
    ours, poster = plan["constants"]["ours"], plan["constants"]["poster"]
    notes = [
        f"On average the flow moves by at most {number(ours['orbit'])} with the chain and {number(ours['record'])} "
        f"with one record; the poster takes {number(poster['orbit'])} and {number(poster['record'])}.",
        *(f"{c['mechanism']}: {c['reason']}." for c in plan["candidates"] if c["reason"]),
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
    calibration = certificate["calibration"]
    words = (*guarantee_sentences(certificate), _not_guaranteed(certificate))
    verdict = flow_verdict(**accuracy, expected=certificate["expected_l1_error"], guess=KIND.guess(certificate))
    return certificate_page(
        certificate,
        title=f"Private transition flow of {certificate['data']['column']}",
        lead=f", {g['privacy']} privacy, tau {number(g['tau'])}",
        verdict=(verdict.sentence, *_not_estimable(certificate)),
        sections=(
            Section(title="The guarantee", blocks=(_guarantee(g["privacy"], g["tau"], g["eta"]),)),
            Section(
                title="The accuracy",
                blocks=(
                    Words((errors,), Medium.PAGES),
                    *_shares(certificate["labels"], certificate["flow"], accuracy["alpha"]),
                    Figure(make=lambda: flow_map(certificate), caption="The released flow."),
                    *_estimates(certificate),
                    Words(words, Medium.TERMINAL),
                ),
            ),
            _otherwise(g["tau"]),
        ),
        words=(_not_guaranteed(certificate),),
        facts=(
            ("noise", f"{certificate['noise']['kind']}, scale {number(certificate['noise']['scale'])}"),
            ("Dobrushin coefficient", number(calibration["dobrushin"])),
            ("sigma", number(calibration["sigma"])),
        ),
    )


def guarantee_blocks(certificate: dict[str, Any]) -> tuple[Block, ...]:
    """What the certificate of a flow guarantees."""
    return (Words(guarantee_sentences(certificate)),)


def _not_guaranteed(certificate: dict[str, Any]) -> str:
    return f"Not guaranteed: {certificate['guarantee']['not_guaranteed']}."


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


def _guarantee(privacy: str, tau: float, eta: float) -> Words:
    chain = f"whether the model itself or another chain within {number(eta)} of it made the data"
    record = "which of two values any one record has, given the record before it"
    what = {"orbit": chain, "record": record, "joint": f"{chain}, and, on its own, about {record}"}[privacy]
    sentence = (
        f"Seeing this flow reveals little about {what}. An adversary who guesses between two such possibilities, "
        f"equally likely, is right with a probability of at most {number((1 + tau) / 2)}; a coin toss is right "
        f"with 0.5."
    )
    return Words((sentence,), Medium.PAGES)


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
        alt=f"{title}: shares of transitions between {len(labels)} states, the largest {largest}.",
        width=size,
        height=0.82 * size,
    )


def _shares_by_size(labels: Sequence[str], flow: Sequence[Sequence[float]]) -> list[tuple[float, str, str]]:
    """Shares with their states, the largest first."""
    cells = ((share, a, b) for a, row in zip(labels, flow, strict=True) for b, share in zip(labels, row, strict=True))
    return sorted(cells, key=lambda cell: -cell[0])
