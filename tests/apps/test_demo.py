"""The simulated week is what its script makes, and the demo runs on it."""

from pathlib import Path

from pufferdp.apps import demo
from pufferdp.apps.demo.simulate import week


def test_the_week_is_what_the_script_makes():
    assert (Path(demo.__file__).parent / "week.csv").read_text(encoding="utf-8") == week()
