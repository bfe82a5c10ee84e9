"""Tables: a year of forty people day by day, and a hundred thousand people, from a Parquet file to a certificate."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.timing import Report, sized
from pufferdp import Ledger, MarkovChain, TableRelease, release, verify

PEOPLE = sized(100_000, 50)
TWO = MarkovChain(transition=[[0.9, 0.1], [0.4, 0.6]], states=["rest", "active"], values=(0, 1))
THREE = MarkovChain(
    transition=[[0.70, 0.20, 0.10], [0.25, 0.55, 0.20], [0.15, 0.35, 0.50]], states=["rest", "light", "active"]
)


def run(report: Report) -> None:
    """All of it."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("PUFFERDP_BENCH_DISK")) as folder:
        report.title("tables: from a Parquet file to a table and its certificate, charged")
        year = _people(Path(folder) / "year.parquet", 40, sized(365, 2) * 24, 2)
        _table(report, folder, "365 days of 40 people, histogram and mean", 30, year, TWO, ["person", "day"], True)
        people = _people(Path(folder) / "people.parquet", PEOPLE, 30, 2)
        _table(report, folder, "10^5 people of 30 records, two states", 20, people, TWO, ["person"])
        states = _people(Path(folder) / "states.parquet", PEOPLE, 30, 3)
        _table(report, folder, "10^5 people of 30 records, three states", 20, states, THREE, ["person"])


def _people(path: Path, people: int, records: int, states: int) -> Path:
    """Records every hour, of people who share their places."""
    names = "CASE hash(i) % 3 WHEN 0 THEN 'active' WHEN 1 THEN 'rest' ELSE 'light' END"
    state = names if states == 3 else "CASE hash(i) % 3 WHEN 0 THEN 'active' ELSE 'rest' END"
    duckdb.sql(
        f"COPY (SELECT 'p' || (i // {records}) AS who, TIMESTAMP '2024-01-01' + INTERVAL (i % {records}) HOUR AS t, "
        f"{state} AS state FROM range({people * records}) r(i)) TO '{path}' (FORMAT parquet)"
    )
    return path


def _table(
    report: Report, folder: str, what: str, goal: float, path: Path, model: Any, per: list[str], mean: bool = False
) -> None:
    place = Path(folder) / f"{path.stem}.db"
    with Ledger(place, create=True) as ledger:
        ledger.create("all", model=model, budget=5.0)
        began, spent = time.perf_counter(), time.process_time()
        made = release(
            path, model=model, column="state", order="t", by="who", per=per, epsilon=1.0, ledger=ledger, dataset="all",
            query=["histogram", "mean"] if mean else ["histogram"],
        )  # fmt: skip
        took, worked = time.perf_counter() - began, time.process_time() - spent
    assert isinstance(made, TableRelease)
    assert verify(made.certificate, table=made.table).valid
    report.row(what, took, "s", goal)
    report.row("  of a processor", worked, "s")
    report.row("  memory of the process so far", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, "GiB")
