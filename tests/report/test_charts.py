"""One visual language: every figure drawn both ways, with words for those who do not see it, without colour alone."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pufferdp.basics.errors import ParameterError
from pufferdp.report.charts import Axis, Chart, Line, Panels, Rule, points
from pufferdp.report.theme import DARK, DASHES, HATCHES, LIGHT, MARKERS, SHAPES, STRONG, Theme
from tests.report.examples import figures

FIGURES = (
    "plan", "plan of a flow", "leakage", "target", "bars", "attacks", "audit", "redaction", "flow", "flows",
    "budget", "table", "release",
)  # fmt: skip


@pytest.fixture(scope="module")
def made() -> dict[str, Chart | Panels]:
    found = figures()
    assert tuple(found) == FIGURES
    return found


@pytest.fixture(scope="module")
def drawn(made: dict[str, Chart | Panels]) -> dict[str, str]:
    return {name: chart.svg(name.replace(" ", "-")) for name, chart in made.items()}


def inside(spec: Any, key: str) -> Iterator[Any]:
    """Every value of a key, wherever it stands."""
    if isinstance(spec, dict):
        if key in spec:
            yield spec[key]
        for value in spec.values():
            yield from inside(value, key)
    elif isinstance(spec, list):
        for value in spec:
            yield from inside(value, key)


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_both_ways(name: str, made: dict[str, Chart | Panels], drawn: dict[str, str]) -> None:
    chart = made[name]
    assert len(chart.alt.split()) >= 8
    spec = chart.to_vega_lite()
    text = json.dumps(spec, allow_nan=False)
    assert spec["description"] == chart.alt
    assert not list(inside(spec, "url"))
    assert re.findall(r"https?:[^\"]*", text) == [spec["$schema"]]
    assert all(data["values"] for data in inside(spec, "data")), "a layer without data draws nothing"
    parts = chart.parts if isinstance(chart, Panels) else (chart,)
    assert len(spec.get("concat", [spec])) == len(parts)
    dark = chart.to_vega_lite(DARK)
    assert dark["config"]["background"] == DARK.ground
    assert LIGHT.series[0] not in json.dumps(dark)
    root = ElementTree.fromstring(drawn[name])  # well-formed
    assert root.get("role") == "img"
    assert root.get("aria-label") == chart.alt
    assert "http" not in drawn[name]
    words = " ".join(t for e in root.iter() if e.tag == "text" for t in e.itertext())
    for part in parts:
        assert part.x.name in words
        assert part.y.name in words


@pytest.mark.slow
def test_two_drawings_can_share_a_page(drawn: dict[str, str]) -> None:
    first, second = (ElementTree.fromstring(drawn[name]) for name in ("plan", "redaction"))
    ids = [e.get("id") for root in (first, second) for e in root.iter() if e.get("id")]
    assert len(ids) == len(set(ids)) > 0
    known = {f"#{i}" for i in ids}
    for root in (first, second):
        for element in root.iter():
            for value in element.attrib.values():
                for used in re.findall(r"url\((#[^)]*)\)", value):
                    assert used in known
            assert element.get("href", next(iter(known))) in known


def test_colours_of_a_drawing_follow_the_page(drawn: dict[str, str]) -> None:
    for text in drawn.values():
        used = set(re.findall(r"#[0-9a-f]{6}", text))
        bare = set(re.findall(r"(?<!, )#[0-9a-f]{6}", text))
        assert used <= set(LIGHT.variables.values())
        assert not bare, "a colour that a dark page cannot change"


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_what_is_drawn_can_be_seen(theme: Theme) -> None:
    """WCAG: 3 to 1 for lines and bars, 4.5 to 1 for words."""
    assert contrast(theme.text, theme.ground) >= 7
    for colour in theme.series:
        assert contrast(colour, theme.ground) >= 3
    lights = [luminance(colour) for colour in theme.ramp]
    assert lights == sorted(lights) or lights == sorted(lights, reverse=True)
    for n, colour in enumerate(theme.ramp):
        # A share lies in the n-th of the equal steps; the ink changes inside one of them.
        top, bottom = (n + 1) / len(theme.ramp), n / len(theme.ramp)
        if top <= STRONG:
            assert contrast(theme.on_weak, colour) >= 4.5
        elif bottom >= STRONG:
            assert contrast(theme.on_strong, colour) >= 4.5
    assert len(set(theme.variables.values())) == len(theme.variables), "two names for one colour cannot be told apart"


def test_series_are_told_apart_without_colour() -> None:
    count = len(LIGHT.series)
    for marks in (DARK.series, DASHES, MARKERS, SHAPES, HATCHES):
        assert len(set(marks)) == len(marks) == count


@pytest.mark.parametrize("matrix", ["protan", "deutan"])
def test_neighbouring_series_differ_without_red_or_green(matrix: str) -> None:
    """Viénot et al. 1999, as they see them: the first three series, which most figures have, stay far apart."""
    for theme in (LIGHT, DARK):
        seen = [dichromat(colour, matrix) for colour in theme.series[:3]]
        for n, one in enumerate(seen):
            for other in seen[n + 1 :]:
                assert math.dist(one, other) > 60  # of 441 at most


def test_what_cannot_be_shown_is_left_out_of_the_data() -> None:
    chart = Chart(
        title="t",
        x=Axis(name="x", scale="log"),
        y=Axis(name="y"),
        layers=(Line(x=(0.0, 1.0, 2.0), y=(1.0, math.inf, math.nan)), points([(1.0, 2.0)]), Rule(at=math.inf)),
        alt="numbers that are none",
    )
    rows = chart.to_vega_lite()["layer"][0]["data"]["values"]
    assert [(row["x"], row["y"]) for row in rows] == [(None, 1.0), (1.0, None), (2.0, None)]
    json.dumps(chart.to_vega_lite(), allow_nan=False)


def test_files(tmp_path: Path, made: dict[str, Chart | Panels]) -> None:
    for ending in ("png", "svg", "pdf"):
        made["flow"].save(tmp_path / f"f.{ending}", DARK)
    for name in ("f.gif", "no/f.png"):
        with pytest.raises(ParameterError):
            made["plan"].save(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {"f.png", "f.svg", "f.pdf"}


def channels(colour: str) -> list[float]:
    return [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]


def linear(colour: str) -> list[float]:
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels(colour)]


def luminance(colour: str) -> float:
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def dichromat(colour: str, kind: str) -> list[float]:
    """Viénot, Brettel & Mollon 1999: red and green become one, in linear light."""
    red, green, blue = linear(colour)
    if kind == "protan":
        mixed = 0.11238 * red + 0.88762 * green
        rest = 0.00401 * red - 0.00401 * green + blue
    else:
        mixed = 0.29275 * red + 0.70725 * green
        rest = -0.02234 * red + 0.02234 * green + blue
    return [255 * max(0.0, c) ** (1 / 2.2) for c in (mixed, mixed, rest)]
