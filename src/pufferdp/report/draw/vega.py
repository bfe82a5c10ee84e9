"""Charts as Vega-Lite specifications, for a page that draws them itself. Data stands inside; nothing is fetched."""

from __future__ import annotations

import math
from typing import Any, Final

from pufferdp.report import charts
from pufferdp.report.theme import DASHES, MANY, SHAPES, STRONG, TURNED, Theme

SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"
"""The name of the language; nothing is loaded from there."""
_PIXELS: Final = 72
_PLOT_SHARE: Final = 0.75
"""The share of a figure's width that is not labels."""


def specification(shown: charts.Drawable, theme: Theme) -> dict[str, Any]:
    """The whole specification of one chart or of several."""
    whole = {"$schema": SCHEMA, "description": shown.alt, "config": _config(theme)}
    if isinstance(shown, charts.Chart):
        return {**whole, **_chart(shown, theme)}
    assert isinstance(shown, charts.Panels)
    parts = [_chart(part, theme) for part in shown.parts]
    title = {"text": shown.title, "anchor": "start"} if shown.title else {"text": ""}
    # A legend is each panel's own; heat maps have the same ends, and so one meaning of shades.
    scale = dict.fromkeys(("color", "strokeDash", "shape"), "independent")
    scale["y"] = "shared" if shown.same_y else "independent"
    return {**whole, "title": title, "concat": parts, "columns": shown.across, "resolve": {"scale": scale}}


def _config(theme: Theme) -> dict[str, Any]:
    axis = {"gridColor": theme.grid, "domainColor": theme.text, "tickColor": theme.text}
    words = {"labelColor": theme.text, "titleColor": theme.text, "labelLimit": 240}
    return {
        "background": theme.ground,
        "axis": {**axis, **words, "titleFontWeight": "normal"},
        "legend": {**words, "orient": "bottom", "columns": 2, "symbolSize": 160, "title": None},
        "title": {"color": theme.text, "fontWeight": "normal", "anchor": "start"},
        "view": {"stroke": None},
    }


def _chart(chart: charts.Chart, theme: Theme) -> dict[str, Any]:
    layers = [part for layer in chart.layers for part in _LAYERS[type(layer)](layer, chart, theme)]
    return {
        "title": chart.title,
        "description": chart.alt,
        "width": round(chart.width * _PIXELS * _PLOT_SHARE),
        "height": round(chart.height * _PIXELS * _PLOT_SHARE),
        "layer": layers,
    }


def _place(axis: charts.Axis, value: float) -> Any:
    """A value as it stands in the data: a name on an axis of names; null where no number can be shown."""
    if axis.scale == "names":
        return axis.names[round(value)]
    return value if math.isfinite(value) and (axis.scale != "log" or value > 0) else None


def _words(axis: charts.Axis, width: float) -> dict[str, Any]:
    turned = max(map(len, axis.names)) * len(axis.names) > TURNED * width
    return {"title": axis.name or None, "axis": {"labelAngle": -90 if turned else 0, "labelOverlap": "greedy"}}


def _channel(axis: charts.Axis, field: str, side: str, width: float = 7.0) -> dict[str, Any]:
    if axis.scale == "names":
        # Places rise from the bottom, and lists begin at the top.
        order = list(axis.names) if side == "x" else list(reversed(axis.names))
        return {"field": field, "type": "nominal", "sort": order, **_words(axis, width)}
    scale: dict[str, Any] = {"type": axis.scale, "nice": not axis.low and axis.high is None}
    if axis.scale == "linear":
        scale["zero"] = False
    for key, end in (("domainMin", axis.low), ("domainMax", axis.high)):
        if end is not None:
            scale[key] = end
    made = {"field": field, "type": "quantitative", "scale": scale, "title": axis.name or None}
    return {**made, "axis": {"tickMinStep": 1, "format": "d"}} if axis.whole else made


def _xy(chart: charts.Chart) -> dict[str, Any]:
    return {"x": _channel(chart.x, "x", "x", chart.width), "y": _channel(chart.y, "y", "y", math.inf)}


Labelled = charts.Line | charts.Range | charts.Rule


def _is_joined(layer: Labelled) -> bool:
    return not isinstance(layer, charts.Line) or layer.joined


def _legend(layer: Labelled, chart: charts.Chart, theme: Theme) -> dict[str, Any]:
    """What distinguishes a labelled layer, with its legend: lines by colour and dashes, points by colour and shape."""
    if not layer.label:
        return {}
    labelled = [other for other in chart.layers if isinstance(other, Labelled) and other.label]
    alike = [other for other in labelled if _is_joined(other) is _is_joined(layer)]
    colours: list[Any] = [theme.series[other.series] for other in alike]
    (field,) = _label(layer)
    encoding: dict[str, Any] = {"field": field, "type": "nominal", "title": None}
    if _is_joined(layer):
        encoding["legend"] = {"symbolType": "stroke"}
        by = {"color": colours, "strokeDash": [list(DASHES[other.series]) or [1, 0] for other in alike]}
    else:
        fill = [theme.ground if getattr(other, "hollow", False) else theme.series[other.series] for other in alike]
        by = {"stroke": colours, "fill": fill, "shape": [SHAPES[other.series] for other in alike]}
    domain = [other.label for other in alike]
    return {channel: {**encoding, "scale": {"domain": domain, "range": values}} for channel, values in by.items()}


def _line(layer: charts.Line, chart: charts.Chart, theme: Theme) -> list[dict[str, Any]]:
    colour, shape = theme.series[layer.series], SHAPES[layer.series]
    encoding = {**_xy(chart), **_legend(layer, chart, theme)}
    # Rows stay in their order, also where a line turns back.
    rows = [{**row, "n": n, **_label(layer)} for n, row in enumerate(_rows(chart, x=layer.x, y=layer.y))]
    mark: dict[str, Any] = {"color": colour, "tooltip": True}
    if layer.joined:
        mark |= {"type": "line", "strokeWidth": 3 if layer.bold else 1.8, **_dashes(layer)}
        mark |= {"interpolate": "step"} if layer.step else {}
        mark |= {"point": {"shape": shape, "color": colour, "size": 24}} if layer.marked else {}
        encoding["order"] = {"field": "n"}
    else:
        mark |= {"type": "point", "shape": shape, "size": 45, "fill": theme.ground if layer.hollow else colour}
    return [{"data": {"values": rows}, "mark": mark, "encoding": encoding}]


def _dashes(layer: Labelled) -> dict[str, Any]:
    return {"strokeDash": list(DASHES[layer.series])} if DASHES[layer.series] else {}


def _bars(layer: charts.Bars, chart: charts.Chart, theme: Theme) -> list[dict[str, Any]]:
    lying, colour = chart.y.scale == "names", theme.series[layer.series]
    mark: dict[str, Any] = {"type": "bar", "stroke": colour, "tooltip": True}
    mark["strokeWidth"] = 1.2 if len(layer.at) <= MANY else 0
    mark["fill"] = {"full": colour, "pale": theme.pale}.get(layer.kind, "transparent")
    if layer.kind == "hatched":  # Vega has no hatches
        mark["strokeDash"] = [4, 3]
    size: dict[str, Any] = {}
    if lying:
        rows = _rows(chart, x=layer.values, y=layer.at)
        size = {"x2": {"datum": layer.start}}
    elif chart.x.scale == "names":
        rows = _rows(chart, x=layer.at, y=layer.values)
        size = {"y2": {"datum": layer.start}}
    else:
        left = tuple(at - layer.width / 2 for at in layer.at)
        rows = _rows(chart, x=left, y=layer.values)
        rows = [{**row, "x2": at + layer.width / 2} for row, at in zip(rows, layer.at, strict=True)]
        size = {"x2": {"field": "x2"}, "y2": {"datum": layer.start}}
    if lying or chart.x.scale == "names":
        mark["height" if lying else "width"] = {"band": layer.width}
    return [{"data": {"values": rows}, "mark": mark, "encoding": {**_xy(chart), **size}}]


def _range(layer: charts.Range, chart: charts.Chart, theme: Theme) -> list[dict[str, Any]]:
    along = layer.along
    rows = _rows(chart, x=layer.at, y=layer.low) if along == "y" else _rows(chart, x=layer.low, y=layer.at)
    rows = [{**row, "end": end, **_label(layer)} for row, end in zip(rows, layer.high, strict=True)]
    encoding = {**_xy(chart), f"{along}2": {"field": "end"}, **_legend(layer, chart, theme)}
    mark = {"type": "rule", "strokeWidth": 1.6, "color": theme.series[layer.series], "tooltip": True}
    tick = {"type": "tick", "color": theme.series[layer.series], "size": 9, "thickness": 1.6}
    tick["orient"] = "horizontal" if along == "y" else "vertical"
    ends = [{**_xy(chart), along: {**_xy(chart)[along], "field": name}} for name in (along, "end")]
    data = {"values": rows}
    return [
        {"data": data, "mark": mark, "encoding": encoding},
        *({"data": data, "mark": tick, "encoding": e} for e in ends),
    ]


def _band(layer: charts.Band, chart: charts.Chart, theme: Theme) -> list[dict[str, Any]]:
    axis = chart.x if layer.along == "x" else chart.y
    mark: dict[str, Any] = {"type": "rect", "fill": theme.shade if layer.kind == "shade" else theme.pale}
    if layer.kind == "hatched":
        mark |= {"fill": "transparent", "stroke": theme.text, "strokeDash": [4, 3]}
    channel = _channel(axis, "low", layer.along)
    encoding = {layer.along: channel, f"{layer.along}2": {"field": "high"}}
    return [{"data": {"values": [{"low": layer.low, "high": layer.high}]}, "mark": mark, "encoding": encoding}]


def _rule(layer: charts.Rule, chart: charts.Chart, theme: Theme) -> list[dict[str, Any]]:
    axis = chart.x if layer.along == "x" else chart.y
    mark: dict[str, Any] = {"type": "rule", "strokeWidth": 1.5, **_dashes(layer)}
    mark["color"] = theme.shade if layer.pale else theme.series[layer.series]
    encoding = {layer.along: _channel(axis, "at", layer.along), **_legend(layer, chart, theme)}
    rows = [{"at": _place(axis, layer.at), **_label(layer)}]
    return [{"data": {"values": rows}, "mark": mark, "encoding": encoding}]


def _text(layer: charts.Text, chart: charts.Chart, theme: Theme) -> list[dict[str, Any]]:
    mark = {"type": "text", "align": layer.align, "dx": layer.right, "dy": -layer.up, "color": theme.text}
    rows = [{**_rows(chart, x=(layer.x,), y=(layer.y,))[0], "words": layer.words}]
    return [{"data": {"values": rows}, "mark": mark, "encoding": {**_xy(chart), "text": {"field": "words"}}}]


def _heat_map(layer: charts.HeatMap, chart: charts.Chart, theme: Theme) -> list[dict[str, Any]]:
    top = layer.top or 1.0
    rows: list[dict[str, Any]] = [
        {"x": column, "y": row, "value": value}
        for row, values in zip(chart.y.names, layer.values, strict=True)
        for column, value in zip(chart.x.names, values, strict=True)
    ]
    places = {
        side: {"field": side, "type": "nominal", "sort": list(axis.names), **_words(axis, width)}
        for side, axis, width in (("x", chart.x, chart.width), ("y", chart.y, math.inf))
    }
    scale = {"domain": [0, top], "range": list(theme.ramp)}
    shade = {"field": "value", "type": "quantitative", "scale": scale, "title": layer.label or None}
    cells = {"mark": {"type": "rect", "tooltip": True}, "encoding": {**places, "color": shade}}
    words = {**places, "text": {"field": "value", "type": "quantitative", "format": ".3f"}}
    inks = ((theme.on_weak, False), (theme.on_strong, True)) if layer.written else ()
    written = [
        {
            "data": {"values": [row for row in rows if (row["value"] > STRONG * top) == strong]},
            "mark": {"type": "text", "color": ink},
            "encoding": words,
        }
        for ink, strong in inks
    ]
    return [{"data": {"values": rows}, **cells}, *written]


def _label(layer: Labelled) -> dict[str, str]:
    """Under a name of its own for points, which keeps their legend apart from that of lines."""
    return {"line" if _is_joined(layer) else "point": layer.label} if layer.label else {}


def _rows(chart: charts.Chart, x: tuple[float, ...], y: tuple[float, ...]) -> list[dict[str, Any]]:
    return [{"x": _place(chart.x, a), "y": _place(chart.y, b)} for a, b in zip(x, y, strict=True)]


_LAYERS: Final[dict[type, Any]] = dict(
    zip(charts.LAYERS, (_line, _bars, _range, _band, _rule, _heat_map, _text), strict=True)
)
