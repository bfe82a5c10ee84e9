"""The ratchet of ``make lint``: each measure is counted, one that rises fails with advice, one that falls is stored."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "ratchet"
MODULE = '''"""Distributions of noise."""
A: Final = 1
B, C = 2, -(2**6)
D: Final = (1, 2.5)
name = 4
TEXT: Final = "5"


def f(a, b, c, d, e, f, g, h, *, i, j, k, l, m):
    """Too short."""
    return "Whoever believes the promise; random_law, but not lawn"
'''


@pytest.fixture(name="ratchet")
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, for a package with one module."""
    loader = importlib.machinery.SourceFileLoader("ratchet", str(SCRIPT))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader("ratchet", loader))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    loader.exec_module(script)
    (tmp_path / "src" / "pufferdp" / "leakage").mkdir(parents=True)
    (tmp_path / "src" / "pufferdp" / "leakage" / "noise.py").write_text(MODULE)
    (tmp_path / "papers" / "src" / "pufferdp_papers").mkdir(parents=True)
    (tmp_path / "papers" / "src" / "pufferdp_papers" / "figures.py").write_text("one = 1\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_noise.py").write_text("one\ntwo\n")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setattr(script, "STORED", tmp_path / "ratchet.json")
    monkeypatch.setattr(script, "modules_of_a_release", lambda root: 7)
    return script


NUMBERS = {
    "banned words": 4,
    "docstrings under 25 characters": 2,
    "functions with more than 12 parameters": 1,
    "lines of leakage": 11,
    "lines of papers": 1,
    "lines of tests": 2,
    "modules entered by a release": 7,
    "modules with more than 3 numeric constants": 1,
    "numeric constants in leakage": 4,
    "numeric constants in papers": 0,
}


def test_equal_numbers_pass_and_change_nothing(ratchet: Any) -> None:
    ratchet.STORED.write_text(json.dumps(NUMBERS))
    ratchet.main()
    assert ratchet.STORED.read_text() == json.dumps(NUMBERS)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_rises_fails_with_advice(ratchet: Any, name: str) -> None:
    ratchet.STORED.write_text(json.dumps({**NUMBERS, name: NUMBERS[name] - 1}))
    with pytest.raises(SystemExit) as failure:
        ratchet.main()
    assert f"{name}: {NUMBERS[name] - 1} → {NUMBERS[name]}. To do: " in str(failure.value.code)
    assert json.loads(ratchet.STORED.read_text())[name] == NUMBERS[name] - 1


def test_a_number_that_falls_is_stored(ratchet: Any) -> None:
    ratchet.STORED.write_text(json.dumps({**NUMBERS, "lines of tests": 3, "lines of a layer that is gone": 5}))
    ratchet.main()
    assert json.loads(ratchet.STORED.read_text()) == NUMBERS
