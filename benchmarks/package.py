"""The package as a whole: how long it takes to come up, and a release of a month of minutes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.timing import Report, seconds


def run(report: Report) -> None:
    """All of it."""
    report.title("starting up: seconds, a new process each time")
    report.row("import pufferdp", seconds(lambda: _python("-c", "import pufferdp")), "s", 0.5)
    report.row("pufferdp --help", seconds(lambda: _run(Path(sys.executable).parent / "pufferdp", "--help")), "s", 0.7)

    folder = os.environ.get("PUFFERDP_DATA")
    if not folder:
        print("\nPUFFERDP_DATA is not set: the household power benchmark is left out")
        return
    from pufferdp import fit, plan, release
    from pufferdp.data.layout import Layout
    from pufferdp.data.series import open_series
    from pufferdp.publish.reading import coding_of

    path = Path(folder) / "power" / "household_minute.csv.gz"
    options = {"column": "global_active_power_kw", "order": "datetime", "missing": "break"}
    model = fit(path, bins="width:0.2:0:10.2", **options).model
    counts = open_series(path, Layout(**options)).counts(coding_of(model))

    report.title("household power, 40,963 minutes at 200 W: seconds")
    read = seconds(lambda: open_series(path, Layout(**options)).counts(coding_of(model)), 3)
    report.row("reading and counting", read, "s")
    for epsilon in (0.2, 1.0, 5.0):
        for adversary in ("pufferfish", "bdp"):
            total = seconds(
                lambda e=epsilon, a=adversary: release(
                    path, model=model, query="frequency", epsilon=e, adversary=a, **options
                ),
                3,
            )
            report.row(
                f"calibrated and released after reading, epsilon {epsilon:g}, {adversary}", total - read, "s", 1.0
            )
            best = plan(model, "frequency", epsilon=epsilon, lengths=counts.lengths, adversary=adversary).best
            error = best.calibration.law.expected_l1_error if best.calibration else float("nan")
            report.row(f"  expected L1 error, {best.mechanism}", error, "")


def _python(*arguments: str) -> None:
    _run(Path(sys.executable), *arguments)


def _run(program: Path, *arguments: str) -> None:
    subprocess.run([program, *arguments], check=True, capture_output=True)
