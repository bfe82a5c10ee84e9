"""Figures that can be drawn: ``save`` writes a file, ``svg`` an element of a page, with matplotlib (extra ``report``).

``to_vega_lite`` gives the same figure as a specification with its data inside. What draws is loaded then: a terminal
shows a chart as bars of letters.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from pufferdp.report.layers import (
    Axis,
    Band,
    BarKind,
    Bars,
    ChartData,
    FigureData,
    HeatMap,
    Layer,
    Line,
    PanelsData,
    Points,
    Range,
    Rule,
    Text,
)
from pufferdp.report.theme import LIGHT, Theme

__all__ = [
    "Axis",
    "Band",
    "BarKind",
    "Bars",
    "Chart",
    "Drawable",
    "HeatMap",
    "Layer",
    "Line",
    "Panels",
    "Points",
    "Range",
    "Rule",
    "Text",
]


class Drawable(FigureData):
    """A figure that can be written to a file, set into a page or handed to one that draws it."""

    def save(self, path: str | os.PathLike[str], theme: Theme = LIGHT) -> None:
        """Write a .png, .svg or .pdf file, whole or not at all."""
        from pufferdp.report.draw import matplotlib

        matplotlib.save(self, path, theme)

    def svg(self, name: str = "chart") -> str:
        """An element for a page: its colours follow the page's, its ids begin with ``name``."""
        from pufferdp.report.draw import matplotlib

        return matplotlib.inline_svg(self, name)

    def to_vega_lite(self, theme: Theme = LIGHT) -> dict[str, Any]:
        """A Vega-Lite specification; nothing in it is fetched from a network."""
        from pufferdp.report.draw import vega

        return vega.specification(self, theme)


@dataclass(frozen=True, kw_only=True)
class Chart(Drawable, ChartData):
    """One figure, with the words that stand for it where it cannot be seen."""


@dataclass(frozen=True, kw_only=True)
class Panels(Drawable, PanelsData):
    """Charts side by side or one below the other, under one title."""
