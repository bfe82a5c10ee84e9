"""What a notebook shows: escaped, well-formed, the same without matplotlib but for the figure."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any
from xml.etree import ElementTree

import pytest

import pufferdp
from tests.report.examples import CHAIN, EVIL, subject
from tests.report.test_pages import OTHERS

SHOWN = ("plan", "release", "flip", "redaction", "flow", "flow plan", "redaction design", "audit")


DISPLAYS: dict[str, Callable[[], Any]] = {
    **{name: partial(subject, name, evil=True) for name in SHOWN},
    **{f"certificate of a {name}": lambda name=name: subject(name, evil=True).certificate for name in SHOWN[1:5]},
    "target": lambda: pufferdp.leakage_of(CHAIN, target=1.0, length=20),
    **{name: OTHERS[name] for name in ("leakage", "attack")},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DISPLAYS)
def test_everything_has_a_table_and_a_figure(name: str) -> None:
    text = DISPLAYS[name]()._repr_html_()
    root = ElementTree.fromstring(text)  # well-formed
    tags = [element.tag for element in root.iter()]
    assert "table" in tags or name.startswith(("redaction", "certificate of a redaction"))
    assert "svg" in tags, name
    assert "script" not in tags
    for element in root.iter():
        assert "src" not in element.attrib
        assert element.get("href", "#").startswith("#")
    assert EVIL not in text
    heads = [e for e in root.iter() if e.tag == "th"]
    assert all(e.get("scope") in ("col", "row") for e in heads)


def test_curves_are_rounded_to_the_safe_side() -> None:
    found = pufferdp.leakage_of(CHAIN, dp_epsilon=0.1, length=20)
    shown = re.search(
        rf'<th scope="row">{found.best}</th><td class="words">best</td><td>([\d.]+)</td>', found._repr_html_()
    )
    assert shown
    best = found.curves[found.best]
    assert best is not None
    assert best <= float(shown[1]) <= best * 1.001


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_without_the_extra(missing: str) -> None:
    """The table stays; and neither is loaded before something is shown."""
    program = f"""
import sys
sys.modules["{missing}"] = None
import pufferdp
chain = pufferdp.MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]])
plan = pufferdp.plan(chain, "histogram", epsilon=1, length=20)
str(plan)
assert "matplotlib.figure" not in sys.modules and "jinja2.environment" not in sys.modules
text = plan._repr_html_()
assert "<table>" in text
print("<svg" in text)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (str(missing == "jinja2"), "")
