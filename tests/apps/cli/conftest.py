"""One way to run the command line in a folder of its own, and the inputs most tests start from."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pufferdp.apps.cli import main
from pufferdp.apps.cli.options import Progress

CHAIN: dict[str, Any] = {
    "type": "markov_chain",
    "transition": [[0.9, 0.1], [0.4, 0.6]],
    "start": "stationary",
    "states": ["rest", "active"],
}
"""A small chain; tests change one thing about it."""

_STATES = ["rest", "rest", "active", "rest", "rest", "active", "active", "rest", "rest", "rest", "active", "rest"]


def series(states: list[str] = _STATES) -> str:
    """A CSV file with a time, a person, a state and a number in each row."""
    lines = ["time,person,activity,steps"]
    for n, state in enumerate(states):
        lines.append(f"2024-01-01 {n // 60:02}:{n % 60:02}:00,{'ann' if n % 2 else 'bob'},{state},{n * 10}")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Result:
    """What a run left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on stdout; refuses NaN and infinities."""
        return json.loads(self.out, parse_constant=_refuse)


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} in JSON")


Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine, stderr holds nothing but the sentence."""
    monkeypatch.setattr(Progress, "_watch", lambda self: None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a run; the secret for digests is kept beside it."""
    monkeypatch.setenv("PUFFERDP_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``pufferdp`` with these arguments in this process, through its real entry point."""

    def call(*args: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["pufferdp", *(str(a) for a in args)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        code = stop.value.code
        return Result(code if isinstance(code, int) else 0 if code is None else 1, out, err)

    return call


def write(folder: Path, files: dict[str, Any]) -> None:
    """Write inputs: text and bytes as they are, None as a folder, the rest as JSON."""
    for name, content in files.items():
        path = folder / name
        if content is None:
            path.mkdir()
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8", newline="")


def listing(folder: Path) -> dict[str, str]:
    """Every file under a folder, hidden ones too, with a digest of its content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }
