"""Plans and releases of flows: tables for a terminal, heat maps for files."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from typing import Any, Final

from pufferdp.report.figures import new_figure, save_figure
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


def release_table(certificate: dict[str, Any], guess: float | None = None) -> str:
    """The released flow, what it says of the chain, and the promise; and whether the model alone would do better."""
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


def flow_figure(certificate: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """The released flow as a heat map."""
    g = certificate["guarantee"]
    about = f"{g['privacy']} privacy, tau {g['tau']:g}, eta {g['eta']:g}"
    title = f"private flow, {certificate['mechanism']['name']}: {about}"
    heat_maps({title: certificate["flow"]}, certificate["labels"], path)


def heat_maps(flows: dict[str, Any], labels: Sequence[str], path: str | os.PathLike[str], title: str = "") -> None:
    """Flows side by side on one grey scale, their shares written in."""
    across = min(len(flows), 3)
    down = -(-len(flows) // across)
    figure = new_figure(1.5 + 3.9 * across, 0.8 + 3.9 * down)
    grid = figure.subplots(down, across, squeeze=False)
    top = max(max(map(max, flow)) for flow in flows.values())
    shown: Any = None
    for (name, flow), axes in zip(flows.items(), grid.flat, strict=False):
        shown = axes.imshow(flow, cmap="Greys", vmin=0, vmax=top)
        turned = 90 if max(map(len, labels)) > 4 and len(labels) > 4 else 0
        axes.set_xticks(range(len(labels)), labels, rotation=turned)
        axes.set_yticks(range(len(labels)), labels)
        axes.set_xlabel("to")
        axes.set_ylabel("from")
        axes.set_title(textwrap.fill(name, 44), fontsize=9)
        if len(labels) ** 2 <= _MOST_CELLS:
            for x, row in enumerate(flow):
                for y, share in enumerate(row):
                    ink = "white" if share > top / 2 else "black"
                    axes.text(y, x, f"{share:.3f}", ha="center", va="center", color=ink, fontsize=8)
    for axes in list(grid.flat)[len(flows) :]:
        axes.set_visible(False)
    figure.colorbar(shown, ax=grid, shrink=0.8, label="share of transitions")
    if title:
        figure.suptitle(textwrap.fill(title, 90), fontsize=10)
    save_figure(figure, path)
