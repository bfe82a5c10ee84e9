"""The figure of an experiment: the paper's lines and ours, told apart without colour."""

from __future__ import annotations

import itertools
import math
import os
import textwrap
from typing import TYPE_CHECKING, Any, Final

from pufferdp.report.figures import INK, new_figure, save_figure
from pufferdp.report.text import number

if TYPE_CHECKING:
    from pufferdp.reproduce.base import Result

_STYLES: Final[dict[str, dict[str, Any]]] = {
    "ours": {"linestyle": "-", "linewidth": 2.2},
    "paper": {"linestyle": "--", "linewidth": 1.6},
    "quilt": {"linestyle": "-", "linewidth": 0.8},
    "estimate": {"linestyle": "", "marker": "x"},
}
_OTHERS: Final[tuple[dict[str, Any], ...]] = (
    {"linestyle": ":"},
    {"linestyle": "-.", "marker": "o", "markersize": 3},
    {"linestyle": (0, (1, 3)), "marker": "s", "markersize": 3},
    {"linestyle": (0, (6, 1, 1, 1)), "marker": "^", "markersize": 3},
)
_MOST_ACROSS: Final = 3


def experiment_figure(result: Result, title: str, path: str | os.PathLike[str]) -> None:
    """One panel for each value of the drawing's ``by``, one line for each of its columns."""
    drawing, by, only = result.drawing, result.drawing.by, result.drawing.only
    if drawing.heat:
        _heat_maps(result, title, path)
        return
    rows = [row for row in result.rows if only is None or row[only[0]] == only[1]]
    panels = list(dict.fromkeys(row[by] for row in rows)) if by is not None else [None]
    across = 2 if len(panels) == 4 else min(len(panels), _MOST_ACROSS)
    down = math.ceil(len(panels) / across)
    figure = new_figure(max(7.0, 4.0 * across), 0.6 + 3.8 * down)
    grid = figure.subplots(down, across, squeeze=False, sharey=True)
    others = iter(_OTHERS)
    styles = {name: _STYLES.get(name) or {**next(others), "linewidth": 1.2} for name in drawing.lines}
    if any(isinstance(row[drawing.x], str) for row in rows):  # names have nothing between them
        marks = zip(drawing.lines, itertools.cycle("osx^D"), strict=False)
        styles = {name: {"linestyle": "", "marker": mark} for name, mark in marks}
    for panel, axes in zip(panels, grid.flat, strict=False):
        shown = rows if by is None else [row for row in rows if row[by] == panel]
        for name, label in drawing.lines.items():
            points = [(_at(row[drawing.x]), row[name]) for row in shown if row[name] is not None]
            axes.plot([p[0] for p in points], [p[1] for p in points], color=INK, label=label, **styles[name])
        axes.set_xlabel(result.columns[drawing.x])
        if drawing.log_x:
            axes.set_xscale("log")
        if drawing.log_y:
            axes.set_yscale("log")
        if by is not None:
            axes.set_title(_title(result.columns[by], panel), fontsize=10)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel(drawing.y)
    grid.flat[0].legend(frameon=False, fontsize=8)
    figure.suptitle(textwrap.fill(title, 90), fontsize=10)
    save_figure(figure, path)


def _heat_maps(result: Result, title: str, path: str | os.PathLike[str]) -> None:
    from pufferdp.report.flow import heat_maps

    drawing = result.drawing
    labels = [str(label) for label in dict.fromkeys(row[drawing.x] for row in result.rows)]
    tables: dict[str, Any] = {}
    for name, label in drawing.lines.items():
        cells = {(str(row[drawing.y]), str(row[drawing.x])): row[name] for row in result.rows}
        tables[label] = [[cells[a, b] for b in labels] for a in labels]
    heat_maps(tables, labels, path, title)


def _at(x: float | str | None) -> float | str | None:
    """A place along the axis; long names go over several lines."""
    return textwrap.fill(x, 9) if isinstance(x, str) else x


def _title(name: str, value: float | str | None) -> str:
    return value if isinstance(value, str) else f"{name} {number(value)}"
