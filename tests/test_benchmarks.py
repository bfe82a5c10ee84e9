"""Every benchmark runs, on sizes so small that only its code is tried: with the shared data where there are any."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.__main__ import MODULES

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.browser if name == "page" else pytest.mark.slow) for name in MODULES],
)
def test_every_benchmark_runs(name: str, tmp_path: Path) -> None:
    settings = {**os.environ, "PUFFERDP_BENCH_TINY": "1", "PUFFERDP_BENCH_DISK": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", name], cwd=ROOT, env=settings, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "0 goal(s) missed" in done.stdout
    assert "\n---" in done.stdout or "left out" in done.stdout


def test_every_module_with_a_run_is_listed() -> None:
    """``make bench`` runs all of them; optimum is a part of leakage."""
    with_run = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "\ndef run(report" in path.read_text()}
    assert with_run - {"optimum"} == set(MODULES)


@pytest.mark.slow
def test_what_is_unknown_is_refused_with_the_names() -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks", "nothing"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "nothing" in done.stderr and "tight" in done.stderr
