"""The house rules, checked: who may import whom, and where randomness may come from."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pufferdp

SOURCE = Path(pufferdp.__file__).parent


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def files(*parts: str) -> list[Path]:
    return sorted(SOURCE.joinpath(*parts).rglob("*.py"))


def offenders(where: list[Path], forbidden: tuple[str, ...]) -> list[str]:
    return [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in where
        for name in sorted(imports_of(path))
        if any(name == f or name.startswith(f + ".") for f in forbidden)
    ]


UPPER = tuple(f"pufferdp.{n}" for n in ("data", "ledger", "publish", "assess", "report", "papers", "apps"))


def test_mathematics_knows_no_mechanism_and_no_file():
    assert not offenders(
        files("leakage"),
        (*UPPER, "pufferdp.publish.answers.mechanisms", "pufferdp.publish.noise", "duckdb", "json", "pathlib"),
    )


def test_mechanisms_open_no_file():
    above = (
        "pufferdp.data",
        "pufferdp.ledger",
        "pufferdp.assess",
        "pufferdp.report",
        "pufferdp.papers",
        "pufferdp.apps",
    )
    above += ("pufferdp.publish.answers.plan", "pufferdp.publish.answers.release", "pufferdp.publish.certificate")
    where = files("publish", "answers", "mechanisms")
    assert not offenders(where, (*above, "duckdb", "narwhals", "json", "pathlib", "os"))


def test_models_know_nothing_above_them():
    assert not offenders(
        files("models"), (*UPPER, "pufferdp.leakage", "pufferdp.publish.answers.mechanisms", "pufferdp.publish.noise")
    )


def test_the_data_engine_knows_no_privacy():
    assert not offenders(
        files("data"),
        (
            "pufferdp.leakage",
            "pufferdp.publish.answers.mechanisms",
            "pufferdp.publish.noise",
            "pufferdp.publish.answers.plan",
        ),
    )


def test_the_command_line_computes_nothing():
    assert not offenders(files("apps", "cli"), ("numpy", "scipy", "duckdb", "narwhals", "opendp", "pufferdp.leakage"))


def test_the_page_computes_nothing():
    assert not offenders(
        files("apps", "web"),
        ("numpy", "scipy", "duckdb", "narwhals", "opendp", "pufferdp.leakage", "pufferdp.publish.noise"),
    )


def test_nothing_needs_the_page():
    others = [
        path for path in files() if path not in files("apps", "web") and path != SOURCE / "apps" / "cli" / "serve.py"
    ]
    assert not offenders(others, ("pufferdp.apps.web", "starlette", "uvicorn"))


def test_randomness_enters_through_one_door():
    allowed = {
        SOURCE / "publish" / "noise.py",
        SOURCE / "apps" / "demo" / "simulate.py",
        SOURCE / "models" / "simulate.py",
    }
    allowed |= set(files("papers")) | set(files("assess"))  # experiments, with fixed seeds
    assert not offenders([*files("papers"), *files("assess")], ("random", "opendp", "pufferdp.publish.noise"))
    where = [p for p in files() if p not in allowed]
    assert not offenders(where, ("random", "numpy.random", "opendp"))
    assert not [p for p in where if "np.random" in p.read_text(encoding="utf-8")]


def test_imports_are_quick_to_come_by():
    """What ``import pufferdp`` and ``--help`` load: nothing heavy. A list of modules, not a stopwatch."""
    heavy = {"scipy", "opendp", "matplotlib", "pandas", "polars", "duckdb", "pydantic", "psycopg"}
    heavy |= {"starlette", "uvicorn", "jinja2"}
    for code in ("import pufferdp", "from pufferdp.apps.cli import app"):
        script = f"{code}; import sys; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
        out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        assert not heavy & set(out.split()), code
