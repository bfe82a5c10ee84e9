"""Charts as elements of a page: drawn by matplotlib, with colours that follow the reader's choice of light or dark."""

from __future__ import annotations

import io
from xml.etree import ElementTree

from pufferdp.report.charts import Chart, Panels
from pufferdp.report.drawing import drawing, figure_of, inches
from pufferdp.report.theme import LIGHT


def inline_svg(shown: Chart | Panels, name: str) -> str:
    """An ``svg`` element for a page. Its colours are variables of the page, with the light ones where it has none."""
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
