"""The one place for how figures look: colours in light and dark, and what tells series apart without any colour.

The first series colours are those of Okabe and Ito, which people with any colour vision can distinguish, in two
strengths: at least 3 to 1 against their ground. Every series has its own dashes, marker and hatch, for print in grey.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

STRONG: Final = 0.6
"""From this share of the scale on, numbers in a heat map are written in the other ink."""
MANY: Final = 40
"""More bars than this have no outlines, which would be all there is to see."""
TURNED: Final = 11.0
"""More letters an inch than this, and the names along an axis are turned."""
DASHES: Final[tuple[tuple[float, ...], ...]] = (
    *((), (6, 3), (1.5, 2), (8, 2.5, 1.5, 2.5)),
    *((3, 1.5), (1, 4), (10, 3), (4, 2, 1, 2, 1, 2)),
)
"""Lengths on and off in points, one pattern a series; the first is solid."""
MARKERS: Final = ("o", "X", "s", "D", "^", "v", "<", ">")
"""One marker a series, by the names that matplotlib has for them."""
SHAPES: Final = (
    "circle",
    "cross",
    "square",
    "diamond",
    *(f"triangle-{side}" for side in ("up", "down", "left", "right")),
)
"""One marker a series, by the names that Vega has for them; in the order of ``MARKERS``."""
HATCHES: Final = ("///", "...", "\\\\\\", "xxx", "---", "ooo", "+++", "***")


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Colours by what they are for."""

    ground: str
    text: str
    grid: str
    pale: str
    """Bars and regions in the background."""
    shade: str
    """Regions that weigh more than pale ones."""
    series: tuple[str, ...]
    weak: str
    """The low end of the scale of a heat map."""
    strong: str
    """The high end of the scale of a heat map."""
    on_weak: str
    """What is written on weak cells."""
    on_strong: str
    """What is written on strong cells."""

    @cached_property
    def ramp(self) -> tuple[str, ...]:
        """The colours of a heat map, from weak to strong; ever darker or ever lighter, so it survives grey."""
        ends = [[int(colour[n : n + 2], 16) for n in (1, 3, 5)] for colour in (self.weak, self.strong)]
        steps = [n / 15 for n in range(16)]
        return tuple("#" + "".join(f"{round(a + (b - a) * s):02x}" for a, b in zip(*ends, strict=True)) for s in steps)

    @cached_property
    def variables(self) -> dict[str, str]:
        """Names for style sheets and their colours. All colours differ, so that a drawing can be recoloured."""
        named = {name: getattr(self, name) for name in ("ground", "text", "grid", "pale", "shade")}
        named |= {"on-weak": self.on_weak, "on-strong": self.on_strong}
        named |= {f"series-{n}": colour for n, colour in enumerate(self.series)}
        named |= {f"heat-{n}": colour for n, colour in enumerate(self.ramp)}
        return {f"--chart-{name}": colour for name, colour in named.items()}


LIGHT: Final = Theme(
    ground="#ffffff",
    text="#1c2430",
    grid="#dde2e9",
    pale="#dbe3ed",
    shade="#a9b5c7",
    series=("#1f3a5f", "#d55e00", "#009e73", "#0072b2", "#cc79a7", "#6b7280", "#7a5195", "#8a6d00"),
    weak="#fafcfe",
    strong="#0b2545",
    on_weak="#0c0c0c",
    on_strong="#fdfdfd",
)
DARK: Final = Theme(
    ground="#14181f",
    text="#e6eaf0",
    grid="#333c49",
    pale="#3d4a5e",
    shade="#66758c",
    series=("#b9d3f5", "#ff9e4a", "#3ecf9f", "#56b4e9", "#e69ac6", "#a3adba", "#c7a6ff", "#f0e442"),
    weak="#1b222c",
    strong="#9fb8dc",
    on_weak="#fefefe",
    on_strong="#0b0d10",
)


def style_sheet() -> str:
    """Colours for inline drawings: light, dark where the reader prefers it, and light again on paper."""
    light, dark = (
        " ".join(f"{name}: {colour};" for name, colour in theme.variables.items()) for theme in (LIGHT, DARK)
    )
    return f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
