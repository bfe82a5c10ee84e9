"""Reports in a browser: opened from a file, nothing fetched, the hash recomputed, and no fault that axe-core finds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pufferdp.basics.files import canonical_json
from pufferdp.report import html
from pufferdp.report.html import script_json
from tests.report.examples import EVIL, report

CHROMIUM = "/usr/bin/chromium"
QUIET = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
pytestmark = pytest.mark.skipif(not os.path.exists(CHROMIUM), reason=f"there is no {CHROMIUM}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


@pytest.mark.parametrize(
    ("name", "scheme"),
    [("release", "light"), ("redaction", "dark"), ("flip", "dark"), ("flow", "light"), ("plan", "dark")],
)
def test_a_report_opens_alone_and_is_accessible(name: str, scheme: str, browser: Any, tmp_path: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe

    path = tmp_path / "report.html"
    path.write_text(report(name), encoding="utf-8")
    page = browser.new_page(color_scheme=scheme)
    asked: list[str] = []
    told: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.goto(path.as_uri())
    assert [page.locator("h2").nth(n).inner_text() for n in range(3)] == [
        "The guarantee", "The accuracy", "Comparison with standard DP noise",
    ]  # fmt: skip
    if name == "release":
        assert EVIL in page.locator("table").first.inner_text()
    assert page.locator("svg[role=img]").count() >= 1
    text, ground = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    assert ground == ("rgb(20, 24, 31)" if scheme == "dark" else "rgb(255, 255, 255)")
    assert text != ground
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    if name != "plan":
        page.wait_for_function("document.getElementById('seal').textContent.startsWith('Hash: matches')")
    assert asked == [path.as_uri()]
    assert not told
    page.close()


@pytest.mark.parametrize("change", ["pufferdp", "epsilon"])
def test_a_browser_sees_that_a_certificate_was_changed(change: str, browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    text = report("release")
    changed = re.sub(rf'"{change}": "?', r"\g<0>1", text)  # also where the JSON is shown
    assert changed != text
    path.write_text(changed, encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_function("document.getElementById('seal').textContent.startsWith('Hash: DOES NOT MATCH')")
    page.close()


@pytest.mark.parametrize(
    "value",
    [
        [0.0, -0.0, 1.0, 1e21, 1e-7, 123456789012345680.0, 5e-324, 2.0**60, 0.1 + 0.2, -1.5e300, 2**53, 2**60, -7],
        {"é": 1, "e": '\u2028\x00\x1f"\\\t', "😀": True, "\ufb33": None, "": [[], {}], "10": 1, "9": 2},
    ],
)
def test_a_browser_writes_the_same_canonical_json(value: Any, browser: Any) -> None:
    """The program of the report, on numbers and texts whose form differs from language to language."""
    program = Path(html.__file__).with_name("templates") / "seal.js"
    canonical = program.read_text(encoding="utf-8").split("const { sha256")[0]
    page = browser.new_page()
    assert page.evaluate(f"{canonical}; canonical({script_json({'value': value})})") == canonical_json({"value": value})
    page.close()
