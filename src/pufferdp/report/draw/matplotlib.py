"""Charts drawn with matplotlib (extra ``report``)."""

from __future__ import annotations

import io
import math
import os
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pufferdp.basics.errors import ParameterError
from pufferdp.basics.extras import install_advice
from pufferdp.basics.places import check_place
from pufferdp.basics.words import number
from pufferdp.report import charts
from pufferdp.report.theme import DASHES, HATCHES, LIGHT, MANY, MARKERS, STRONG, TURNED, Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_ALONE: Final = threading.Lock()
"""matplotlib keeps its settings in one place for all threads."""
_SMALL: Final = 8.5


def short(words: str, most: int = 24) -> str:
    """Names come from data, and a very long one would leave no space for the figure."""
    return words if len(words) <= most else words[: most - 1] + "…"


@contextmanager
def drawing(theme: Theme = LIGHT) -> Iterator[type[Figure]]:
    """The class of figures, while matplotlib wears a theme; one figure at a time."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ParameterError(f"a figure needs matplotlib; install it with: {install_advice('report')}") from None
    inks = ("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "text.color", "xtick.color", "ytick.color")
    settings: dict[Any, Any] = {
        **{f"{part}.facecolor": theme.ground for part in ("figure", "savefig", "axes")},
        **dict.fromkeys(inks, theme.text),
        **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
        "axes.titlesize": 10.5,
        "axes.titlelocation": "left",
        "axes.axisbelow": True,
        "grid.color": theme.grid,
        "grid.linewidth": 0.7,
        "legend.fontsize": _SMALL,
        "hatch.linewidth": 0.8,
        "font.size": 10,
        "text.parse_math": False,  # names may hold a dollar sign
        "svg.fonttype": "none",
        "svg.hashsalt": "pufferdp",
    }
    with _ALONE, matplotlib.rc_context(settings):
        yield Figure


ENDINGS: Final = (".png", ".svg", ".pdf")


def save(shown: charts.Drawable, path: str | os.PathLike[str], theme: Theme) -> None:
    """Write a figure, whole or not at all."""
    with drawing(theme) as figures:
        write(figure_of(shown, theme, figures), path)


def write(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write what was drawn, whole or not at all."""
    place = check_place(path, "figure", ENDINGS, overwrite=True)
    try:
        place.fill(lambda beside: figure.savefig(beside, dpi=150))
    except OSError as error:
        raise ParameterError(f"figure {str(path)!r} cannot be written: {error.strerror}", value=path) from None


def inches(shown: charts.Drawable) -> tuple[float, float]:
    """Width and height of a figure."""
    if isinstance(shown, charts.Chart):
        return shown.width, shown.height
    assert isinstance(shown, charts.Panels)
    rows = [shown.parts[n : n + shown.across] for n in range(0, len(shown.parts), shown.across)]
    return max(sum(c.width for c in row) for row in rows), sum(max(c.height for c in row) for row in rows) + 0.4


def figure_of(shown: charts.Drawable, theme: Theme, figures: type[Figure]) -> Figure:
    """A chart, or several, as a figure of matplotlib."""
    width, height = inches(shown)
    figure = figures(figsize=(width, height), layout="constrained")
    wide = int(13 * width)
    if isinstance(shown, charts.Chart):
        _draw(shown, figure, figure.subplots(), theme)
        return figure
    assert isinstance(shown, charts.Panels)
    down = -(-len(shown.parts) // shown.across)
    heights = [shown.parts[n * shown.across].height for n in range(down)]
    grid = figure.subplots(down, shown.across, squeeze=False, height_ratios=heights, sharey=shown.same_y)
    for part, axes in zip(shown.parts, grid.flat, strict=False):
        _draw(part, figure, axes, theme, bar=False)
    for axes in list(grid.flat)[len(shown.parts) :]:
        axes.set_visible(False)
    images = [axes.collections[0] for axes, part in zip(grid.flat, shown.parts, strict=False) if _heat(part)]
    if images:
        figure.colorbar(images[0], ax=grid, shrink=0.8, label=_heat(shown.parts[0]).label)
    if shown.title:
        figure.suptitle(textwrap.fill(short(shown.title, 240), wide), fontsize=10.5, x=0.01, ha="left")
    return figure


def _heat(chart: charts.Chart) -> Any:
    return next((layer for layer in chart.layers if isinstance(layer, charts.HeatMap)), None)


def _draw(chart: charts.Chart, figure: Figure, axes: Axes, theme: Theme, bar: bool = True) -> None:
    for layer in chart.layers:
        _LAYERS[type(layer)](axes, layer, chart, theme)
    heat = _heat(chart)
    if heat is None:
        axes.grid(visible=True, axis="x" if chart.y.scale == "names" else "y" if chart.x.scale == "names" else "both")
        _ends(axes, chart)
    elif bar and heat.label:
        figure.colorbar(axes.collections[0], ax=axes, shrink=0.8, label=heat.label)
    axes.set_xlabel(short(chart.x.name, 80))
    axes.set_ylabel(short(chart.y.name, int(11 * chart.height)))
    beside = max(map(len, chart.y.names), default=0) if heat is None else 0
    axes.set_title(textwrap.fill(short(chart.title, 160), max(24, int(12 * chart.width) - 8 - min(beside, 24))))
    if any(getattr(layer, "label", "") for layer in chart.layers if not isinstance(layer, charts.HeatMap)):
        if chart.legend == "outside":
            figure.legend(loc="outside lower left")
        else:
            axes.legend(loc=chart.legend)


def _ends(axes: Axes, chart: charts.Chart) -> None:
    for axis, scale, limits, ticks, line in (
        (chart.x, axes.set_xscale, axes.set_xlim, axes.set_xticks, axes.xaxis),
        (chart.y, axes.set_yscale, axes.set_ylim, axes.set_yticks, axes.yaxis),
    ):
        if axis.scale == "log":
            scale("log")
            line.set_major_formatter(lambda value, place: number(value) if 1e-4 < value < 1e7 else f"{value:.0e}")
        if axis.scale == "names":
            _names(axis, ticks, axis is chart.x, chart.width)
            limits(-0.5, len(axis.names) - 0.5)
        elif axis.low is not None or axis.high is not None:
            limits(axis.low, axis.high)
        if axis.whole:
            axes.locator_params(axis="x" if axis is chart.x else "y", integer=True)
    axes.minorticks_off()


def _names(axis: charts.Axis, ticks: Any, across: bool, width: float, middle: float = 0.0) -> None:
    names = [short(name) for name in axis.names]
    turned = across and max(map(len, names)) * len(names) > TURNED * width
    every = math.ceil(len(names) / (5 * width)) if across else 1  # five an inch do not lie on each other
    ticks([n + middle for n in range(0, len(names), every)], names[::every], rotation=90 if turned else 0)


def _line(axes: Axes, layer: charts.Line, chart: charts.Chart, theme: Theme) -> None:
    n = layer.series % len(DASHES)
    colour, label = theme.series[n], short(layer.label, 60) or None
    if not layer.joined:
        face = theme.ground if layer.hollow else colour
        style: dict[str, Any] = {"linestyle": "", "markersize": 5.5, "markerfacecolor": face, "clip_on": False}
    else:
        style = {"linestyle": _dashes(n), "linewidth": 2.4 if layer.bold else 1.5, "markersize": 4}
        style["drawstyle"] = "steps-mid" if layer.step else "default"
    marker = MARKERS[n] if layer.marked or not layer.joined else ""
    axes.plot(layer.x, layer.y, color=colour, marker=marker, label=label, **style)


def _dashes(n: int) -> Any:
    return (0, DASHES[n]) if DASHES[n] else "-"


def _bars(axes: Axes, layer: charts.Bars, chart: charts.Chart, theme: Theme) -> None:
    colour = theme.series[layer.series % len(HATCHES)]
    style: dict[str, Any] = {
        "full": {"facecolor": colour, "edgecolor": colour},
        "pale": {"facecolor": theme.pale, "edgecolor": colour},
        "hatched": {"facecolor": theme.ground, "edgecolor": colour, "hatch": HATCHES[layer.series % len(HATCHES)]},
    }[layer.kind]
    style["linewidth"] = 0.9 if len(layer.at) <= MANY else 0.0
    lengths = [value - layer.start for value in layer.values]
    if chart.y.scale == "names":
        axes.barh(layer.at, lengths, layer.width, left=layer.start, **style)
    else:
        axes.bar(layer.at, lengths, layer.width, bottom=layer.start, **style)


def _range(axes: Axes, layer: charts.Range, chart: charts.Chart, theme: Theme) -> None:
    middle = [(a + b) / 2 for a, b in zip(layer.low, layer.high, strict=True)]
    half = [(b - a) / 2 for a, b in zip(layer.low, layer.high, strict=True)]
    style: dict[str, Any] = {"fmt": "none", "color": theme.series[layer.series]}
    style |= {"capsize": 4, "elinewidth": 1.3} if len(layer.at) <= MANY else {"capsize": 0, "elinewidth": 0.6}
    style |= {"label": short(layer.label, 60) or None, "zorder": 3}
    if layer.along == "y":
        axes.errorbar(layer.at, middle, yerr=half, **style)
    else:
        axes.errorbar(middle, layer.at, xerr=half, **style)


def _band(axes: Axes, layer: charts.Band, chart: charts.Chart, theme: Theme) -> None:
    span = axes.axvspan if layer.along == "x" else axes.axhspan
    style: dict[str, Any] = {
        "pale": {"facecolor": theme.pale},
        "shade": {"facecolor": theme.shade},
        "hatched": {"facecolor": "none", "edgecolor": theme.text, "hatch": HATCHES[0]},
    }[layer.kind]
    span(layer.low, layer.high, linewidth=0, label=short(layer.label, 60) or None, zorder=0.6, **style)


def _rule(axes: Axes, layer: charts.Rule, chart: charts.Chart, theme: Theme) -> None:
    across = axes.axhline if layer.along == "y" else axes.axvline
    n = layer.series % len(DASHES)
    style, colour = _dashes(n), theme.shade if layer.pale else theme.series[n]
    across(layer.at, color=colour, linestyle=style, linewidth=1.3, label=short(layer.label, 60) or None, zorder=1.5)


def _text(axes: Axes, layer: charts.Text, chart: charts.Chart, theme: Theme) -> None:
    axes.annotate(
        short(layer.words, 80),
        (layer.x, layer.y),
        textcoords="offset points",
        xytext=(layer.right, layer.up),
        ha=layer.align,
        va="center",
        fontsize=_SMALL,
    )


def _heat_map(axes: Axes, layer: charts.HeatMap, chart: charts.Chart, theme: Theme) -> None:
    from matplotlib.colors import ListedColormap

    top = layer.top or 1.0
    axes.pcolormesh(layer.values, cmap=ListedColormap(list(theme.ramp)), vmin=0, vmax=top, linewidth=0)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    _names(chart.x, axes.set_xticks, True, 0.8 * chart.width, 0.5)
    _names(chart.y, axes.set_yticks, False, chart.width, 0.5)
    axes.tick_params(length=0)
    for y, row in enumerate(layer.values if layer.written else ()):
        for x, value in enumerate(row):
            ink = theme.on_strong if value > STRONG * top else theme.on_weak
            axes.text(x + 0.5, y + 0.5, f"{value:.3f}", ha="center", va="center", color=ink, fontsize=8)


_LAYERS: Final[dict[type, Any]] = dict(
    zip(charts.LAYERS, (_line, _bars, _range, _band, _rule, _heat_map, _text), strict=True)
)


def inline_svg(shown: charts.Drawable, name: str) -> str:
    """An ``svg`` element for a page. Its colours are variables of the page, with the light ones where it has none."""
    from xml.etree import ElementTree

    file = io.StringIO()
    with drawing(LIGHT) as figures:
        figure_of(shown, LIGHT, figures).savefig(file, format="svg")
    root = ElementTree.fromstring(file.getvalue())
    for parent in list(root.iter()):
        for child in [c for c in parent if c.tag.endswith("metadata")]:
            parent.remove(child)
    colours = {colour: variable for variable, colour in LIGHT.variables.items()}
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            if key == "id" and element.tag == "g":
                continue  # nothing refers to groups, and two figures would share their names
            if key == "id":
                value = f"{name}-{value}"
            value = value.replace("url(#", f"url(#{name}-")
            if key.endswith("href"):
                value = f"#{name}-{value[1:]}"
            if key in ("style", "fill", "stroke"):
                for colour, variable in colours.items():
                    value = value.replace(colour, f"var({variable}, {colour})")
            element.set(key.rpartition("}")[2], value)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.set("role", "img")
    root.set("aria-label", shown.alt)
    root.set("style", f"width: 100%; max-width: {inches(shown)[0] * 96:.0f}px; height: auto")
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)
