"""The figure of a redaction: the series, the private record, the three regions, probabilities, influence and budget."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pufferdp.data import Layout, open_series
from pufferdp.data.sources import rows
from pufferdp.leakage.redaction import Block
from pufferdp.leakage.redaction_influence import pointwise
from pufferdp.report.figures import INK, PALE, new_figure, save_figure
from pufferdp.report.text import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pufferdp.redaction_result import Redaction

MARGIN: Final = 4
"""Released rows shown on either side of a block."""
MOST_LINES: Final = 6
STYLES: Final = ("-", "--", ":", "-.", (0, (1, 3)), (0, (5, 1)))


def redaction_figure(
    redaction: Redaction, path: str | os.PathLike[str], output: tuple[str | os.PathLike[str], Layout] | None = None
) -> None:
    """Draw the block around the first private record; ``output`` is the redacted file and its layout, if any."""
    private = redaction.positions[0]
    block = next(b for b in redaction.stretches if b.first <= private <= b.last)
    low, high = max(1, block.first - MARGIN), min(redaction.rows, block.last + MARGIN)
    figure = new_figure(8.0, 6.4 if output else 4.8)
    parts = figure.subplots(3 if output else 2, 1, sharex=True, height_ratios=[2, 3, 3] if output else [1, 1])
    for axes in parts:
        _regions(axes, redaction, block, low, high)
    if output:
        _series(parts[0], redaction, output, low, high)
    _chances(parts[-2], redaction, low, high)
    _influence(parts[-1], redaction, private, low, high)
    hiding = redaction.hiding
    figure.suptitle(
        f"epsilon {hiding.epsilon:g}, adversary {hiding.adversary}, {redaction.method}: leaks "
        f"{number(redaction.leakage)}, releases {100 * redaction.utility:.4g} % of {redaction.records:,} records",
        fontsize=10,
    )
    save_figure(figure, path)


def _regions(axes: Axes, redaction: Redaction, block: Block, low: int, high: int) -> None:
    """L dark, M pale, S white; private rows hatched."""
    for row in range(max(low, block.first), min(high, block.last) + 1):
        sure = bool((block.marks[row - block.first] == 1).all())
        axes.axvspan(row - 0.5, row + 0.5, color="#8d9bb0" if sure else PALE, alpha=0.55, linewidth=0, zorder=0)
        if row in redaction.positions:
            axes.axvspan(row - 0.5, row + 0.5, facecolor="none", edgecolor=INK, hatch="///", linewidth=0, zorder=1)
    axes.set_xlim(low - 0.5, high + 0.5)


def _series(
    axes: Axes, redaction: Redaction, output: tuple[str | os.PathLike[str], Layout], low: int, high: int
) -> None:
    """What was published: points for values, crosses for marks."""
    path, layout = output
    keys = ["order"] if layout.by is None else ["person", "order"]
    found = rows(open_series(os.fspath(path), layout).table.frame.sort(*keys).select("value").head(high))
    labels, bins = redaction.hiding.chain.labels, redaction.hiding.chain.bins
    names = [str(value) for (value,) in found][low - 1 :]
    for row, name in enumerate(names, start=low):
        if name == redaction.mark:
            axes.plot([row], [-1], "x", color="black", markersize=6)  # apart: it stands for any value
        elif bins is not None:
            at = int(np.clip(np.searchsorted(bins, float(name), side="right") - 1, 0, len(labels) - 1))
            axes.plot([row], [at], "o", color=INK, markersize=4)
        elif name in labels:
            axes.plot([row], [labels.index(name)], "o", color=INK, markersize=4)
    axes.set_yticks(range(-1, len(labels)), ["redacted", *labels])
    axes.set_ylim(-1.5, len(labels) - 0.5)
    axes.set_ylabel("published")


def _chances(axes: Axes, redaction: Redaction, low: int, high: int) -> None:
    places = range(low, high + 1)
    marks = np.array([_of(redaction, row) for row in places])
    for v, label in enumerate(redaction.hiding.chain.labels[:MOST_LINES]):
        axes.step(places, marks[:, v], where="mid", color=INK, linestyle=STYLES[v], label=label)
    axes.set_ylim(-0.05, 1.08)
    axes.set_ylabel("redaction probability")
    axes.legend(frameon=False, fontsize=8, title="value", title_fontsize=8, loc="center right")


def _of(redaction: Redaction, row: int) -> Any:
    for block in redaction.stretches:
        if block.first <= row <= block.last:
            return block.marks[row - block.first]
    return np.zeros(redaction.hiding.chain.size)


def _influence(axes: Axes, redaction: Redaction, private: int, low: int, high: int) -> None:
    first, design = next((a, d) for a, d in redaction.designs if private - a + 1 in d.hiding.private)
    left, right = design.hiding.sides(private - first + 1)
    before, after = (pointwise(side, reach) for side, reach in ((left, private - low), (right, high - private)))
    top = 2.5 * redaction.hiding.epsilon
    for v, label in enumerate(redaction.hiding.chain.labels[:MOST_LINES]):
        style: dict[str, Any] = {"color": INK, "linestyle": STYLES[v], "marker": ".", "markersize": 4}
        axes.plot(range(private - 1, low - 1, -1), np.minimum(before[:, v], 2 * top), label=label, **style)
        axes.plot(range(private + 1, high + 1), np.minimum(after[:, v], 2 * top), **style)
    axes.axhline(redaction.hiding.epsilon, color="black", linewidth=1)
    axes.annotate("budget", (low, redaction.hiding.epsilon), textcoords="offset points", xytext=(2, 3), fontsize=8)
    axes.set_ylim(0, top)
    axes.set_ylabel("influence on a value")
    what = "row" if redaction.row_at is None else "place in the order of the series"
    axes.set_xlabel(f"{what} (dark: always redacted, pale: some values, white: never, hatched: private)")
    axes.locator_params(axis="x", integer=True)
