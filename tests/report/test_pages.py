"""One page per result: what a terminal prints, a notebook shows and a report has are the same words and numbers."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from html import unescape
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import pufferdp
from pufferdp.basics import plugins
from pufferdp.basics.errors import ParameterError
from pufferdp.basics.paged import Paged, rendered
from pufferdp.report.html import notebook
from pufferdp.report.page import Figure, Medium, Page, Section, Table, Words
from pufferdp.report.registry import page_of
from pufferdp.report.text import terminal
from tests.report.examples import CHAIN, SUBJECTS, attacked, subject

ROOT = Path(__file__).parents[2]


OTHERS: dict[str, Callable[[], Any]] = {
    "leakage": lambda: pufferdp.leakage_of(CHAIN, dp_epsilon=0.1, length=20, query="count:active"),
    "attack": attacked,
    "stream": lambda: pufferdp.stream_leakage(CHAIN, 0.1, length=20),
    "losses": lambda: pufferdp.leakage_of_losses(CHAIN, [0.1, 0.5, 0.2]),
    "stream budget": lambda: pufferdp.stream_budget(CHAIN, 1.0, length=20),
    "robustness": lambda: pufferdp.robustness(CHAIN, NEARBY, epsilon=1, length=10),
    "an attack of an audit": lambda: subject("audit").attacks[0],
}
NEARBY = pufferdp.MarkovChain(transition=[[0.88, 0.12], [0.4, 0.6]], states=["rest", "active"])


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SUBJECTS, *OTHERS])
def test_every_medium_has_the_same_tables_and_sentences(name: str) -> None:
    result = subject(name) if name in SUBJECTS else OTHERS[name]()
    page, text, shown = page_of(result), str(result), unescape(result._repr_html_())
    assert text == terminal(page)
    plain = re.sub(r"\s+", " ", text)
    blocks = [block for section in page.sections for block in section.blocks]
    for block in blocks:
        media = [plain] * (Medium.BRIEF in block.media) + [shown] * (Medium.NOTEBOOK in block.media)
        for medium in media:
            if isinstance(block, Table):
                assert all(cell in medium for row in (block.head, *block.rows) for cell in row)
            elif isinstance(block, Words):
                assert all(re.sub(r"\s+", " ", sentence) in medium for sentence in block.sentences)
    brief, pages = (
        {
            (b.rows if isinstance(b, Table) else b.sentences)
            for b in blocks
            if medium in b.media and not isinstance(b, Figure)
        }
        for medium in (Medium.BRIEF, Medium.NOTEBOOK)
    )
    assert brief & pages, "what is printed is also shown"


def test_every_result_has_a_page_and_no_page_is_idle() -> None:
    """The entry points name pages that exist, for classes that print by them."""
    registered = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    public = {name: getattr(pufferdp, name) for name in pufferdp._public_names()}
    paged = {name for name, kind in public.items() if isinstance(kind, type) and issubclass(kind, Paged)}
    certificates = {name for name in paged if name.endswith("Certificate")}
    assert paged - certificates == set(registered["pufferdp.pages"]) - {"Model", "Result", "SealedCertificate"}
    for group in ("pufferdp.pages", "pufferdp.renderers"):
        for name, value in registered[group].items():
            assert callable(EntryPoint(name, value, group).load())
            assert plugins.plugin(group, name) is EntryPoint(name, value, group).load()


def fresh(monkeypatch: pytest.MonkeyPatch, *entries: EntryPoint) -> None:
    """As if a package with these entry points were installed beside ours."""

    class Installed:
        def select(self, group: str) -> list[EntryPoint]:
            return [entry for entry in entries if entry.group == group]

    for function in (plugins.plugins, plugins.plugin, plugins._registered):
        function.cache_clear()
        monkeypatch.setattr(plugins, function.__name__, plugins.cache(function.__wrapped__))
    monkeypatch.setattr(plugins, "_installed", Installed)


class Weather(Paged):
    """A result of another package."""


def weather_page(weather: Weather) -> Page:
    section = Section(title="Today", blocks=(Words(("It <rains>.",)),))
    return Page(title="Weather", sections=(section,), data={})


def test_a_package_from_outside_adds_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    here = "tests.report.test_pages"
    fresh(
        monkeypatch,
        EntryPoint("Weather", f"{here}:weather_page", "pufferdp.pages"),
        EntryPoint("terminal", "pufferdp.report.text:terminal", "pufferdp.renderers"),
        EntryPoint("notebook", "pufferdp.report.html:notebook", "pufferdp.renderers"),
    )
    for name in ("plugin", "names"):
        monkeypatch.setattr(f"pufferdp.basics.paged.{name}", getattr(plugins, name))
    assert str(Weather()) == "It <rains>."
    assert "It &lt;rains&gt;." in Weather()._repr_html_()


def test_plugins_that_do_not_load_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh(
        monkeypatch,
        EntryPoint("b", "pufferdp.report.text:terminal", "good"),
        EntryPoint("a", "pufferdp.report.text:wrap_sentence", "good"),
        EntryPoint("gone", "pufferdp.nowhere:page", "bad"),
        EntryPoint("other", "pufferdp.report.text:nothing", "worse"),
        EntryPoint("twice", "pufferdp.report.text:terminal", "double"),
        EntryPoint("twice", "pufferdp.report.text:wrap_sentence", "double"),
    )
    assert list(plugins.plugins("good")) == ["a", "b"]
    assert plugins.plugins("empty") == {}
    with pytest.raises(ParameterError, match=r"'gone' of bad cannot be loaded from 'pufferdp.nowhere:page'"):
        plugins.plugins("bad")
    with pytest.raises(ParameterError, match="'other' of worse cannot be loaded"):
        plugins.plugin("worse", "other")
    with pytest.raises(ParameterError, match="'c' is not registered in good, which has a, b"):
        plugins.plugin("good", "c")
    with pytest.raises(ParameterError, match="'twice' is registered twice in double"):
        plugins.names("double")


def test_what_has_no_page_says_so() -> None:
    with pytest.raises(TypeError, match="Weather has no page"):
        rendered(Weather(), "terminal")


def test_media_are_kept_apart() -> None:
    media = (Medium.TERMINAL, Medium.BRIEF, Medium.VERBOSE, Medium.NOTEBOOK, Medium.REPORT)
    words = [Words((medium.name or "",), medium) for medium in media]
    listed = Words(("first " * 30,), heading="A list:")
    table = Table(caption="c", head=("a", "b"), rows=(("x", "1"),), below="… and 3 more")
    page = Page(title="t", opening=("opens",), sections=(Section(title="s", blocks=(*words, listed, table)),), data={})
    text, shown = terminal(page), notebook(page)
    assert text.startswith("opens\n\nTERMINAL\n\nBRIEF\n\nA list:\nfirst first")
    assert terminal(page, verbose=True).startswith("opens\n\nTERMINAL\n\nVERBOSE\n\nA list:\nfirst first")
    assert "\n  first" in text
    assert text.endswith("x  1\n… and 3 more")
    assert "NOTEBOOK" not in text
    assert "REPORT" not in text
    assert "TERMINAL" not in shown
    assert "<p>NOTEBOOK</p>" in shown
    assert [section.title for section in page.sections_for(Medium.REPORT)] == ["s"]
    assert not any(isinstance(block, Figure) for block in page.sections_for(Medium.TERMINAL)[0].blocks)
