"""The advice in messages works from where the package was installed."""

from __future__ import annotations

import importlib.metadata
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from pufferdp.basics.extras import install_advice

ROOT = Path(__file__).parents[1]
EXTRAS = ("report", "web", "frames", "spark", "postgres", "sign", "attack")
REQUIRES = [
    "numpy<3,>=2.0",
    "jinja2<4,>=3.1; extra == 'report'",
    'matplotlib<4,>=3.9 ; python_version > "3" and extra == "report"',
    "torch==2.13.0; extra == 'attack'",
]


def installed(monkeypatch: pytest.MonkeyPatch, direct_url: str | None) -> None:
    package = SimpleNamespace(read_text=lambda name: direct_url, requires=REQUIRES)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: package)


def test_from_a_checkout_it_names_the_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "my work"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    installed(monkeypatch, json.dumps({"url": folder.as_uri(), "dir_info": {}}))
    assert install_advice("report") == f"pip install '{folder}[report]'"


@pytest.mark.parametrize(
    "origin", [None, "not JSON", '{"url": "file:///gone"}', '{"url": "https://x.org/p.whl"}', "[]"]
)
def test_otherwise_it_names_what_the_extra_needs(monkeypatch: pytest.MonkeyPatch, origin: str | None) -> None:
    installed(monkeypatch, origin)
    assert install_advice("report") == "pip install 'jinja2<4,>=3.1' 'matplotlib<4,>=3.9'"
    assert install_advice("attack") == "pip install 'torch==2.13.0'"


def test_every_extra_that_a_message_names_is_there() -> None:
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r"install_advice\('(\w+)'\)", text))
        assert "pip install 'pufferdp" not in text, path  # no index has it yet
    assert named
    assert named <= set(EXTRAS)
    for extra in EXTRAS:
        assert "pip install '" in install_advice(extra)
