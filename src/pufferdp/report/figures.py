"""Figures as files, drawn with matplotlib (extra ``report``). Readable without colour and in print."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pufferdp.errors import ParameterError
from pufferdp.models.files import check_file
from pufferdp.report.text import number, shown_candidates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, PALE = "#1f3a5f", "#b8c4d6"


def plan_figure(plan: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Expected error of each mechanism as bars; hatched where there is no guarantee."""
    shown = [c for c in shown_candidates(plan["candidates"])[0] if c["expected_l1_error"]][::-1]
    figure = new_figure(7.0, 1.2 + 0.45 * len(shown))
    axes = figure.subplots()
    for y, c in enumerate(shown):
        style: dict[str, Any] = (
            {"color": INK} if c["applies"] else {"facecolor": "white", "edgecolor": INK, "hatch": "///"}
        )
        axes.barh(y, c["expected_l1_error"], height=0.6, **style)
        axes.annotate(
            f" {number(c['expected_l1_error'])}" + ("" if c["applies"] else "  no guarantee"),
            (c["expected_l1_error"], y),
            va="center",
            fontsize=9,
        )
    axes.set_yticks(range(len(shown)), [c["mechanism"] for c in shown])
    axes.set_xscale("log")
    axes.set_xlabel("expected error (sum over all numbers of the answer)")
    axes.set_title(
        plan["query"]
        + (f", {plan['records']:,} records" if plan["records"] else "")
        + f", epsilon {plan['epsilon']:g}, adversary {plan['adversary']}",
        fontsize=10,
    )
    axes.margins(x=0.25)
    save_figure(figure, path)


def release_figure(certificate: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """The released numbers with the range in which, all together, the true ones lie."""
    answer = certificate["answer"] if isinstance(certificate["answer"], list) else [certificate["answer"]]
    labels, accuracy = certificate["labels"], certificate["accuracy"]
    figure = new_figure(min(max(5.0, 1.6 + 0.5 * len(answer)), 11.0), 4.2)
    axes = figure.subplots()
    places = range(len(answer))
    axes.bar(places, answer, color=PALE, edgecolor=INK)
    axes.errorbar(places, answer, yerr=accuracy["alpha"], fmt="none", ecolor=INK, capsize=4)
    turned = len(labels) > 8 or max(len(name) for name in labels) > 10
    axes.set_xticks(list(places), labels, rotation=90 if turned else 0)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_ylabel(certificate["query"]["name"])
    guarantee = certificate["guarantee"]
    axes.set_title(
        f"epsilon {guarantee['epsilon']:g}, adversary {guarantee['adversary']}, {certificate['mechanism']['name']}\n"
        f"whiskers: all true values, {1 - accuracy['beta']:.4g} sure",
        fontsize=9,
    )
    save_figure(figure, path)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, its size in inches."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ParameterError("a figure needs matplotlib; install it with: pip install 'pufferdp[report]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure, whole or not at all."""
    check_file(path, "figure", (".png", ".svg", ".pdf"))
    target = Path(path)
    beside = target.with_name(f".{target.stem}.{os.getpid()}.part{target.suffix}")
    try:
        figure.savefig(beside, dpi=150)
        beside.replace(target)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise ParameterError(f"figure {str(path)!r} cannot be written: {error.strerror}", value=path) from None
