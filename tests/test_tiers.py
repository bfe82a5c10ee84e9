"""What keeps ``make test`` quick: a limit of its own, and examples in proportion to the profile."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

from tests.conftest import SECOND_TIER, TimeLimit, processor_seconds
from tests.strategies import examples

ROOT = Path(__file__).parents[1]


def outcome(limit: float, *markers: str) -> str | None:
    """What the limit says of a test that keeps the processor busy for a twentieth of a second."""
    item = SimpleNamespace(nodeid="test_it", get_closest_marker=lambda name: name in markers or None)
    running = TimeLimit(limit).pytest_runtest_call(item)
    next(running)
    began = processor_seconds()
    while processor_seconds() - began < 0.05:
        pass
    try:
        running.send(None)
    except StopIteration:
        return None
    except pytest.fail.Exception as failure:
        return str(failure)
    raise AssertionError("a wrapper yields once")


def test_a_test_that_takes_too_long_fails_and_is_named() -> None:
    said = outcome(0.01)
    assert said is not None
    assert re.match(r"test_it took 0\.\d s of processor time; a test of the first tier may take 0\.01 s\. ", said)
    assert "mark it slow" in said
    assert outcome(60) is None


@pytest.mark.parametrize("marker", SECOND_TIER)
def test_tests_of_the_second_tier_may_take_their_time(marker: str) -> None:
    assert outcome(0.01, marker) is None


def test_the_markers_are_the_same_everywhere() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert tuple(line.partition(":")[0] for line in options["markers"]) == SECOND_TIER
    first_tier = " and ".join(f"not {name}" for name in SECOND_TIER)
    assert f'-m "{first_tier}"' in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("profile", "counts"),
    [
        ("dev", {1: 1, 5: 3, 20: 5, 200: 50}),
        ("ci", {1: 1, 5: 3, 12: 6, 200: 100}),
        ("soak", {1: 15, 200: 3000}),
    ],
)
def test_examples_follow_the_profile(profile: str, counts: dict[int, int]) -> None:
    before = settings.get_current_profile_name()
    settings.load_profile(profile)
    try:
        assert {count: examples(count) for count in counts} == counts
    finally:
        settings.load_profile(before)
