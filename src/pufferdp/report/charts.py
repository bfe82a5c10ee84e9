"""What a figure shows, apart from how it is drawn: frozen data, one visual language for files, reports and the page.

Places on an axis of names are whole numbers from 0. What draws (matplotlib, extra ``report``) is found by its name when
it is needed: a terminal shows a chart as bars of letters.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from pufferdp.report.theme import LIGHT, Theme

Numbers = tuple[float, ...]
Side = Literal["x", "y"]
BarKind = Literal["full", "pale", "hatched"]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """What an axis measures, how it is scaled and where it ends; ends that are None follow from the data."""

    name: str = ""
    scale: Literal["linear", "log", "names"] = "linear"
    names: tuple[str, ...] = ()
    """For a scale of names: one for each place."""
    low: float | None = None
    high: float | None = None
    whole: bool = False
    """Only whole numbers are marked."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """Points joined by a line. ``series`` picks colour, dashes and marker."""

    x: Numbers
    y: Numbers
    label: str = ""
    series: int = 0
    bold: bool = False
    step: bool = False
    """Flat between places, changing halfway."""
    marked: bool = False
    """With a marker at every point."""


@dataclass(frozen=True, kw_only=True)
class Points:
    """A marker at each place, joined by nothing; hollow ones leave what lies below to be seen."""

    x: Numbers
    y: Numbers
    label: str = ""
    series: int = 0
    hollow: bool = False


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Bars from ``start``; they lie where the other axis holds names downwards."""

    at: Numbers
    values: Numbers
    series: int = 0
    kind: BarKind = "full"
    """Without colour: filled, filled lightly or striped."""
    width: float = 0.62
    start: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Range:
    """An interval at each place, with ends: along ``y`` by default."""

    at: Numbers
    low: Numbers
    high: Numbers
    label: str = ""
    series: int = 0
    along: Side = "y"


@dataclass(frozen=True, kw_only=True)
class Band:
    """A region from ``low`` to ``high`` of an axis, across the whole chart."""

    low: float
    high: float
    along: Side = "x"
    label: str = ""
    kind: Literal["pale", "shade", "hatched"] = "pale"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A straight line at one place of an axis, across the whole chart."""

    at: float
    along: Side = "y"
    """The axis whose value it marks."""
    label: str = ""
    series: int = 0
    pale: bool = False


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """A table as shades, row by row from the top; both axes hold names."""

    values: tuple[Numbers, ...]
    top: float
    """What the strongest shade stands for."""
    label: str = ""
    written: bool = True
    """Whether the numbers stand in their cells."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """A few words at a place of a chart."""

    x: float
    y: float
    words: str
    align: Literal["left", "center", "right"] = "center"
    up: float = 0.0
    """Points above the place; below where negative."""
    right: float = 0.0


Layer = Line | Points | Bars | Range | Band | Rule | HeatMap | Text


@dataclass(frozen=True, kw_only=True)
class Drawable:
    """A figure that can be written to a file, set into a page or handed to a program that draws it."""

    title: str
    alt: str
    """What the figure shows, in words and numbers, where it cannot be seen."""

    def save(self, path: str | os.PathLike[str], theme: Theme = LIGHT) -> None:
        """Write a .png, .svg or .pdf file, whole or not at all."""
        import_module("pufferdp.report.draw.matplotlib").save(self, path, theme)

    def svg(self, name: str = "chart") -> str:
        """An element for a page: its colours follow the page's, its ids begin with ``name``."""
        return str(import_module("pufferdp.report.draw.matplotlib").inline_svg(self, name))

    def to_vega_lite(self, theme: Theme = LIGHT) -> dict[str, Any]:
        """A Vega-Lite specification; nothing in it is fetched from a network."""
        made: dict[str, Any] = import_module("pufferdp.report.draw.vega").specification(self, theme)
        return made


@dataclass(frozen=True, kw_only=True)
class Chart(Drawable):
    """Layers over one pair of axes; later layers are drawn over earlier ones."""

    x: Axis
    y: Axis
    layers: tuple[Layer, ...]
    width: float = 7.0
    """In inches, as is the height."""
    height: float = 4.4
    legend: Literal["best", "upper left", "upper right", "lower right", "center right", "outside"] = "best"
    """Where matplotlib puts it; outside is below."""


@dataclass(frozen=True, kw_only=True)
class Panels(Drawable):
    """Charts side by side or one below the other, under one title."""

    parts: tuple[Chart, ...]
    across: int = 1
    same_y: bool = False
    """Whether all share one vertical scale."""
