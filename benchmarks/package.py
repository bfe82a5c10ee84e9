"""The package as a whole: how long it takes to come up, and a release of a month of minutes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.timing import Report, processor_seconds, seconds, sized


def run(report: Report) -> None:
    """All of it."""
    report.title("starting up: CPU of a new process, as a multiple of python -c pass")
    with TemporaryDirectory() as folder:
        _start_up(report, Path(folder))

    _loop(report)
    folder = os.environ.get("PUFFERDP_DATA")
    if not folder:
        print("\nPUFFERDP_DATA is not set: the household power benchmark is left out")
        return
    from pufferdp import fit, plan, release
    from pufferdp.data.layout import Layout
    from pufferdp.data.series import open_series
    from pufferdp.publish.reading import coding_of

    path = Path(folder) / "power" / "household_minute.csv.gz"
    options = {"column": "global_active_power_kw", "order": "datetime", "missing": "keep"}
    model = fit(path, bins="width:0.2:0:10.2", family="chain", checks=False, **options).model
    counts = open_series(path, Layout(**options)).counts(coding_of(model))

    report.title("household power, 40,963 minutes at 200 W: seconds")
    read = seconds(lambda: open_series(path, Layout(**options)).counts(coding_of(model)), 3)
    report.row("reading and counting", read, "s")
    for epsilon in sized((0.2, 1.0, 5.0), (1.0,)):
        for adversary in sized(("pufferfish", "bdp"), ("pufferfish",)):
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
            error = best.calibration.distribution.expected_l1_error if best.calibration else float("nan")
            report.row(f"  expected L1 error, {best.mechanism}", error, "")


def _loop(report: Report) -> None:
    """On a model that was calibrated before: what is left is reading, drawing and certifying."""
    import pandas as pd
    import polars as pl

    from pufferdp import MarkovChain, release

    model = MarkovChain(transition=[[0.7, 0.2, 0.1], [0.25, 0.55, 0.2], [0.15, 0.35, 0.5]])
    states = {"state": ["0", "1", "2", "1"] * 504}
    frames = {"pandas": pd.DataFrame(states), "polars": pl.DataFrame(states), "Arrow": pl.DataFrame(states).to_arrow()}
    times = sized(1000, 3)
    report.title(f"{times:,} releases in a loop from a frame of 2,016 records: processor time of each")
    for name, frame in frames.items():
        for query in ("histogram", "count:1"):

            def releases(n: int, frame: object = frame, query: str = query) -> None:
                for _ in range(n):
                    release(frame, model=model, column="state", query=query, epsilon=1.0)

            releases(1)
            took = processor_seconds(lambda f=releases: f(times), 1)
            report.row(f"{name}, {query}", 1e3 * took / times, "ms", 25.0)


def _start_up(report: Report, folder: Path) -> None:
    """On the bundled data. Limits are .15, .5 and .8 s where ``python -c pass`` takes .012 s."""
    verb = ("-m", "pufferdp")
    _cpu(*verb, "demo", "--out", str(folder))
    model, data = str(folder / "wearer.json"), str(folder / "week.csv")
    query = ("--query", "histogram", "--epsilon", "1")
    source = (data, "--model", model, "--column", "activity", "--order", "time")
    commands = {
        "import pufferdp": (("-c", "import pufferdp"), 3.0),
        "--help": ((*verb, "--help"), 12.5),
        "plan": ((*verb, "plan", model, "--length", "2016", *query), 42.0),
        "release": ((*verb, "release", *source, *query), 67.0),
    }
    nothing = min(_cpu("-c", "pass") for _ in range(sized(10, 1)))
    report.row("python -c pass", nothing, "s")
    for name, (arguments, limit) in commands.items():
        report.row(name, min(_cpu(*arguments) for _ in range(sized(5, 1))) / nothing, "x", limit)


def _cpu(*arguments: str) -> float:
    """Seconds that a new Python has used, in user and in system mode; waiting for other processes does not count."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Bytecode is kept, as it is after an installation. Threads of linear algebra that wait for work would count.
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    settings["OPENBLAS_NUM_THREADS"] = "1"
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=settings)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
