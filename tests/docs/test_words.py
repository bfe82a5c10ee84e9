"""The pages use the vocabulary of the field: they have no word that ``.ci/ratchet`` counts in the code."""

import re
import runpy
from pathlib import Path

import pytest

from tests.docs.test_docs import DOCS, ROOT

BANNED = runpy.run_path(str(ROOT / ".ci" / "ratchet"))["BANNED"]
READ = [*ROOT.glob("*.md"), *(p for p in DOCS.rglob("*") if p.suffix in {".md", ".ipynb", ".json", ".svg"})]
ALLOWED = {
    "flu.md": (r"[Rr]ooms?", "the colleagues of the example sit in rooms, and its file has a column 'room'"),
    "redaction.md": (r"['\",]room\b|--keep room", "the file of the example has a column 'room'"),
}
"""For a page of the guide the words that stay, as a pattern, and the reason."""


def misuses(page: Path) -> list[str]:
    """The banned words of a page, each with its line, without those that are allowed there."""
    allowed, _ = ALLOWED.get(page.name if page.parent.name == "guide" else "", (r"(?!)", ""))
    return [
        f"line {number}: {word[0]}: {line.strip()[:100]}"
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        for word in BANNED.finditer(re.sub(allowed, "", line))
    ]


@pytest.mark.parametrize("page", sorted(READ), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_have_no_banned_word(page: Path) -> None:
    assert not misuses(page)


@pytest.mark.parametrize("name", ALLOWED)
def test_every_exception_is_needed(name: str) -> None:
    allowed, reason = ALLOWED[name]
    kept = re.findall(allowed, (DOCS / "guide" / name).read_text(encoding="utf-8"))
    assert kept and all(BANNED.search(word) for word in kept), reason


def test_a_banned_word_is_found(tmp_path: Path) -> None:
    page = tmp_path / "flu.md"
    page.write_text("A guarantee.\nWhoever believes the model, in any room.\n")
    assert [word.split(": ")[1] for word in misuses(page)] == ["Whoever", "believes", "room"]
