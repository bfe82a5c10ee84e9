"""Plans and releases of flows: tables for a terminal, heat maps for files."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, Final

from pufferdp.report.charts import Axis, Chart, HeatMap, Panels
from pufferdp.report.text import number, promise, table

_WIDTH: Final = 96
_MOST_STATES: Final = 8
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


def release_table(certificate: dict[str, Any]) -> str:
    """The released flow, what it says of the chain, and the promise."""
    labels, flow, found = certificate["labels"], certificate["flow"], certificate["estimates"]
    parts = []
    if len(labels) <= _MOST_STATES:
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
        for n, name in enumerate(labels[:_MOST_STATES])
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
    return "\n".join(parts)


def _ranged(found: dict[str, float | None]) -> list[str]:
    return [number(found[key]) for key in ("value", "low", "high")]


def _not_promised(certificate: dict[str, Any]) -> str:
    words = certificate["guarantee"]["not_promised"]
    return f"Not promised: {words}."


def flow_map(certificate: dict[str, Any]) -> Chart:
    """The released flow as a heat map."""
    g = certificate["guarantee"]
    title = (
        f"private flow: {g['privacy']} privacy, tau {g['tau']:g}, eta {g['eta']:g}, {certificate['mechanism']['name']}"
    )
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
