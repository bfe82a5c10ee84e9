"""What a figure shows, apart from how it is drawn: frozen data, one visual language for files, reports and the page.

Places on an axis of names are whole numbers from 0. What draws (matplotlib, extra ``report``) is found by its name when
it is needed: a terminal shows a chart as bars of letters.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal

from pufferdp.basics.words import number
from pufferdp.report.theme import LIGHT, MANY, Theme

Numbers = tuple[float, ...]
Side = Literal["x", "y"]
BarKind = Literal["full", "pale", "hatched"]
Legend = Literal["best", "upper left", "upper right", "lower right", "center right", "outside"]


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
    """Points, joined by a line or not. ``series`` picks colour, dashes and marker."""

    x: Numbers
    y: Numbers
    label: str = ""
    series: int = 0
    bold: bool = False
    step: bool = False
    """Flat between places, changing halfway."""
    marked: bool = False
    """With a marker at every point."""
    joined: bool = True
    """Without a line, markers are larger."""
    hollow: bool = False
    """Of markers that nothing joins: what lies below can be seen."""


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


Layer = Line | Bars | Range | Band | Rule | HeatMap | Text
LAYERS: Final = (Line, Bars, Range, Band, Rule, HeatMap, Text)
"""Every layer, in the order in which a renderer lists how each is drawn."""


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
    legend: Legend = "best"
    """Where matplotlib puts it; outside is below."""


@dataclass(frozen=True, kw_only=True)
class Panels(Drawable):
    """Charts side by side or one below the other, under one title."""

    parts: tuple[Chart, ...]
    across: int = 1
    same_y: bool = False
    """Whether all share one vertical scale."""


def points(places: Iterable[tuple[float, float]], *, label: str = "", series: int = 0, hollow: bool = False) -> Line:
    """A marker at each place, joined by nothing."""
    x, y = zip(*places, strict=True)
    return Line(x=x, y=y, label=label, series=series, hollow=hollow, joined=False)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A lying bar with its name before it and a few words behind it."""

    name: str
    value: float
    kind: BarKind = "pale"
    words: str = ""
    """Behind the bar; by default the value."""
    place: float | None = None
    """Where the words begin; by default at the end of the bar."""


def bar_chart(
    bars: Sequence[Bar],
    x: Axis,
    *more: Layer,
    alt: str,
    title: str = "",
    legend: Legend = "best",
) -> Chart:
    """Lying bars, the first at the bottom; on a logarithmic axis they begin where it begins."""
    start = (x.low or 0.0) if x.scale == "log" else 0.0
    layers: list[Layer] = []
    for y, bar in enumerate(bars):
        words, end = bar.words or number(bar.value), bar.value if bar.place is None else bar.place
        layers.append(Bars(at=(y,), values=(bar.value,), kind=bar.kind, start=start))
        layers.append(Text(x=end, y=y, words=words, align="left", right=5))
    spoken = "; ".join(f"{bar.name} {bar.words or number(bar.value)}" for bar in reversed(bars))
    return Chart(
        title=title,
        x=x,
        y=Axis(scale="names", names=tuple(bar.name for bar in bars)),
        layers=(*layers, *more),
        alt=f"{alt}: {spoken}.",
        height=1.3 + 0.42 * len(bars),
        legend=legend,
    )


def interval_chart(
    names: Sequence[str],
    values: Sequence[float],
    intervals: tuple[Sequence[float], Sequence[float]] | None,
    y: Axis,
    *more: Layer,
    alt: str,
    title: str = "",
    widest: float = 11.0,
    legend: Legend = "best",
) -> Chart:
    """Standing bars with their intervals; many are drawn as one line, whose intervals are seen better."""
    at, heights, many = tuple(map(float, range(len(names)))), tuple(map(float, values)), len(names) > MANY
    shown: Layer = Line(x=at, y=heights, step=True) if many else Bars(at=at, values=heights, kind="pale")
    ranges: tuple[Layer, ...] = ()
    if intervals is not None:
        low, high = (tuple(map(float, ends)) for ends in intervals)
        ranges = (Range(at=at, low=low, high=high, series=int(many)),)
    return Chart(
        title=title,
        x=Axis(scale="names", names=tuple(names)),
        y=y,
        layers=(*((shown,) if names else ()), *(ranges if names else ()), *more),
        alt=alt,
        width=min(max(5.0, 1.6 + 0.5 * len(names)), widest),
        height=4.0,
        legend=legend,
    )


_MOST_CELLS: Final = 100
"""More numbers than this are not written into a heat map."""


def heat_map(
    names: Sequence[str],
    values: Sequence[Sequence[float]],
    axes: tuple[str, str],
    label: str,
    *,
    alt: str,
    title: str = "",
    top: float = 1.0,
    size: float = 5.0,
) -> Chart:
    """A square table of shares or probabilities as shades, its rows from the top."""
    cells = tuple(tuple(map(float, row)) for row in values)
    return Chart(
        title=title,
        x=Axis(name=axes[0], scale="names", names=tuple(names)),
        y=Axis(name=axes[1], scale="names", names=tuple(names)),
        layers=(HeatMap(values=cells, top=top, label=label, written=len(names) ** 2 <= _MOST_CELLS),),
        alt=alt,
        width=size,
        height=0.82 * size,
    )
