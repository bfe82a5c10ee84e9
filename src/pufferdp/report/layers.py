"""What a figure shows, apart from how it is drawn: frozen data, one visual language for files, reports and the page.

Places on an axis of names are whole numbers from 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
class FigureData:
    """The title and the description of a figure."""

    title: str
    alt: str
    """What the figure shows, in words and numbers, where it cannot be seen."""


@dataclass(frozen=True, kw_only=True)
class ChartData(FigureData):
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
class PanelsData(FigureData):
    """Charts side by side or one below the other, under one title."""

    parts: tuple[ChartData, ...]
    across: int = 1
    same_y: bool = False
    """Whether all share one vertical scale."""
