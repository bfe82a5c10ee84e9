"""The pages use the vocabulary of the field: no word of them has a plainer one in ``.ci/ratchet``."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
from pathlib import Path

import pytest
from tests.docs.test_docs import DOCS, PAGES, ROOT

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
SCHEMAS = sorted(DOCS.glob("*.schema.json"))
READ = [*PAGES, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md")), *NOTEBOOKS, *SCHEMAS]

ALLOWED = {
    "docs/guide/flu.md": (r"[Rr]ooms?", "the colleagues of the example sit in rooms, and the file has a column 'room'"),
    "docs/guide/redaction.md": (r"['\",]room\b|--keep room", "the file of the example has a column 'room'"),
}
"""For a page the words that stay, as a pattern, and the reason."""


@pytest.fixture(name="banned", scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> re.Pattern[str]:
    """The words that the ratchet counts in the code."""
    copy = tmp_path_factory.mktemp("ratchet") / "ratchet.py"
    copy.write_bytes((ROOT / ".ci" / "ratchet").read_bytes())
    spec = importlib.util.spec_from_loader("ratchet", importlib.machinery.SourceFileLoader("ratchet", str(copy)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.BANNED
    assert isinstance(found, re.Pattern)
    return found


def misuses(page: Path, banned: re.Pattern[str]) -> list[str]:
    """The banned words of a page, each with its line, without those that are allowed there."""
    name = page.relative_to(ROOT).as_posix()
    allowed, _ = ALLOWED.get(name, (r"(?!)", ""))
    return [
        f"{name}:{number}: {word[0]}: {line.strip()[:100]}"
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        for word in banned.finditer(re.sub(allowed, "", line))
    ]


@pytest.mark.parametrize("page", READ, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_have_no_banned_word(page: Path, banned: re.Pattern[str]) -> None:
    assert not misuses(page, banned)


def test_every_exception_is_needed(banned: re.Pattern[str]) -> None:
    for name, (allowed, reason) in ALLOWED.items():
        kept = re.findall(allowed, (ROOT / name).read_text(encoding="utf-8"))
        assert kept and all(banned.search(word) for word in kept), f"{name}: {reason}"


def test_a_banned_word_is_found(banned: re.Pattern[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.docs.test_words.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("A guarantee.\nWhoever believes the model, anywhere.\n")
    assert [word.split(": ")[1] for word in misuses(page, banned)] == ["Whoever", "believes", "anywhere"]
