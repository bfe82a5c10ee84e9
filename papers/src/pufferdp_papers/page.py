"""An experiment as a page: its rows and, distinguished without colour, the paper's lines beside ours."""

from __future__ import annotations

import textwrap
from typing import Any, Final

from pufferdp.basics.words import number
from pufferdp.report.charts import Axis, Chart, Layer, Line, Panels
from pufferdp.report.page import Figure, Page, Section, Table, Words
from pufferdp.report.pages.flows import flow_maps
from pufferdp_papers.base import ExperimentResult

_SERIES: Final = {"ours": 0, "paper": 1, "quilt": 3, "tight": 4, "estimate": 2}
_OTHERS: Final = (2, 4, 5, 3)
_MOST_ACROSS: Final = 3


def result_page(result: ExperimentResult) -> Page:
    """The rows of an experiment, ours beside the paper's."""
    rows = tuple(tuple(_cell(row[name]) for name in result.columns) for row in result.rows)
    table = Table(caption="Ours beside the paper's", head=tuple(result.columns.values()), rows=rows)
    figure = Figure(make=lambda: experiment_panels(result, result.drawing.y))
    return Page(
        title="An experiment",
        sections=(Section(title="What was found", blocks=(table, figure, Words(result.notes))),),
        data={"rows": [dict(row) for row in result.rows], "notes": list(result.notes)},
        kind="experiment",
    )


def _cell(value: float | str | None) -> str:
    return value if isinstance(value, str) else number(value)


def experiment_panels(result: ExperimentResult, title: str) -> Panels:
    """One panel for each value of the drawing's ``by``, one line for each of its columns."""
    drawing, by, only = result.drawing, result.drawing.by, result.drawing.only
    if drawing.heat:
        return _heat_maps(result, title)
    rows = [row for row in result.rows if only is None or row[only[0]] == only[1]]
    panels = list(dict.fromkeys(row[by] for row in rows)) if by is not None else [None]
    across = 2 if len(panels) == 4 else min(len(panels), _MOST_ACROSS)
    labels = {name: label for name, label in drawing.lines.items() if any(row[name] is not None for row in rows)}
    named = {_SERIES[name] for name in labels if name in _SERIES}
    others = iter([n for n in _OTHERS if n not in named])
    series = {name: _SERIES[name] if name in _SERIES else next(others) for name in labels}
    names = tuple(dict.fromkeys(row[drawing.x] for row in rows if isinstance(row[drawing.x], str)))
    if names:  # nothing lies between names
        series = {name: k for k, name in enumerate(labels)}
    parts = []
    for n, panel in enumerate(panels):
        shown = rows if by is None else [row for row in rows if row[by] == panel]
        layers: list[Layer] = []
        for name, label in labels.items():
            places: Any = [(_at(row[drawing.x], names), row[name]) for row in shown if row[name] is not None]
            x, y = (tuple(float(p[end]) for p in places) for end in (0, 1))
            legend, hollow, joined = label if n == 0 else "", name == "estimate", name != "estimate" and not names
            layers.append(
                Line(x=x, y=y, label=legend, series=series[name], bold=name == "ours", joined=joined, hollow=hollow)
            )
        head = "" if by is None else _title(result.columns[by], panel)
        parts.append(
            Chart(
                title=head,
                x=Axis(
                    name=result.columns[drawing.x],
                    scale="names" if names else "log" if drawing.log_x else "linear",
                    names=tuple(textwrap.fill(str(name), 9) for name in names),
                ),
                y=Axis(name=drawing.y if n % across == 0 else "", scale="log" if drawing.log_y else "linear"),
                layers=tuple(layers),
                alt=f"{drawing.y} by {result.columns[drawing.x]}{', ' * bool(head)}{head}.",
                width=max(7.0 / across, 4.0),
                height=3.8,
            )
        )
    lines = "; ".join(labels.values())
    return Panels(title=title, parts=tuple(parts), across=across, alt=f"{title}: {lines}.", same_y=True)


def _heat_maps(result: ExperimentResult, title: str) -> Panels:
    drawing = result.drawing
    labels = [str(label) for label in dict.fromkeys(row[drawing.x] for row in result.rows)]
    tables: dict[str, Any] = {}
    for name, label in drawing.lines.items():
        cells = {(str(row[drawing.y]), str(row[drawing.x])): row[name] for row in result.rows}
        tables[label] = [[cells[a, b] for b in labels] for a in labels]
    return flow_maps(tables, labels, title)


def _at(x: float | str | None, names: tuple[object, ...]) -> object:
    """The position of a value on an axis: the index of a name, or the number itself."""
    return names.index(x) if names else x


def _title(name: str, value: float | str | None) -> str:
    return value if isinstance(value, str) else f"{name} {number(value)}"
