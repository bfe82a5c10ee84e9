"""Large data: 50 million rows on two cores in little memory, Spark on a cut of them, and a model for each person."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.timing import TINY, Report, seconds, sized
from pufferdp.basics.adversary import Adversary
from pufferdp.bounds.quilts.chains import worst_record
from pufferdp.bounds.quilts.search import Score
from pufferdp.bounds.tight.chain import TightCurve
from pufferdp.models.chain import MarkovChain

ROWS = int(os.environ.get("PUFFERDP_ROWS", sized("50000000", "50000")))
CHAINS = sized(1000, 20)
STATES, PEOPLE = 51, 1000
CUT = ROWS // 50
MEMORY = "3GB"
"""For DuckDB; the process has its own besides."""

_COUNT = """
import json, resource, sys, time
from pufferdp.data.layout import Coding, Layout
from pufferdp.data.series import open_series
source, engine = sys.argv[1:3]
if engine == "spark":
    import os
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "3g")
    session = builder.config("spark.sql.shuffle.partitions", "8").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    source = session.read.parquet(source)
began = time.perf_counter()
layout = Layout(column="state", order="time", by="person", restart="10min", missing="keep")
coding = Coding(labels=tuple(f"s{n}" for n in range(51)))
counts = open_series(source, layout).counts(coding, transitions=True)
took = time.perf_counter() - began
found = [counts.records, counts.lengths, counts.missing, counts.restarts, counts.unobserved]
found += [counts.histogram, counts.transitions]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({"seconds": took, "gib": peak, "found": found}))
"""


def make_rows(folder: Path, rows: int) -> None:
    """A folder of Parquet files: minutes of people in no order, some half a second apart, with unobserved steps."""
    import duckdb

    each, parts = rows // PEOPLE, 10
    connection = duckdb.connect()
    connection.execute(f"SET temp_directory = '{folder}/spill'")
    for part in range(parts):
        first, last = rows * part // parts, rows * (part + 1) // parts
        connection.execute(
            f"""COPY (
              SELECT 'p' || (n % {PEOPLE}) AS person,
                make_timestamp(1600000000000000 + (n // {PEOPLE}) * 60000000 + (hash(n) % 500000)::BIGINT
                  + (n // {PEOPLE}) // 997 * 3600000000) AS time,
                CASE WHEN hash(n, 7) % 5000 > 0
                  THEN 's' || ((n // {PEOPLE}) // 7 + (hash(n, 3) % 9)::BIGINT) % {STATES} END AS state
              FROM (SELECT {first} + (range * 7919) % {last - first} AS n FROM range({last - first}))
            ) TO '{folder}/part-{part}.parquet'"""
        )
    connection.close()
    shutil.rmtree(folder / "spill", ignore_errors=True)
    assert each * PEOPLE == rows


def count_rows(source: Path, engine: str) -> dict[str, object]:
    """Counted in a process of its own, so that its peak of memory is known."""
    command = [sys.executable, "-c", _COUNT, str(source), engine]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PUFFERDP_MEMORY": MEMORY})
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def run(report: Report) -> None:
    """All of it."""
    _fleets(report)
    load = os.getloadavg()[0]
    folder = Path(tempfile.mkdtemp(prefix="pufferdp-rows-"))
    try:
        report.title(f"{ROWS:,} rows, {STATES} states, {PEOPLE} people with gaps; load {load:.1f}")
        (folder / "all").mkdir()
        make_rows(folder / "all", ROWS)
        found = count_rows(folder / "all", "duckdb")
        report.row("histogram, transitions and chain lengths, DuckDB", found["seconds"], "s", 40.0)
        report.row("peak memory of the process", found["gib"], "GiB", 4.0)
        shutil.rmtree(folder / "all")
        (folder / "cut").mkdir()
        make_rows(folder / "cut", CUT)
        ours = count_rows(folder / "cut", "duckdb")
        report.row(f"the same on {CUT:,} rows, DuckDB", ours["seconds"], "s")
        if shutil.which("java") is None or TINY:
            print("Spark is left out: Java is not installed, or sizes are tiny")
            return
        theirs = count_rows(folder / "cut", "spark")
        report.row(f"the same on {CUT:,} rows, Spark in local mode", theirs["seconds"], "s")
        report.row("counts that differ between the two", float(ours["found"] != theirs["found"]), "", 0.0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fleets(report: Report) -> None:
    report.title(f"a model for each of {CHAINS:,} people: two states, T = 1000, people a second")
    generator = np.random.default_rng(11)
    for name, low, high in (("moves .1 to .9", 0.1, 0.9), ("moves 0 to 1", 0.0, 1.0), ("moves .01 to .2", 0.01, 0.2)):
        chains = [
            MarkovChain(transition=[[1 - a, a], [b, 1 - b]]) for a, b in generator.uniform(low, high, (CHAINS, 2))
        ]
        for adversary in (Adversary.PUFFERFISH, Adversary.BDP):
            took = seconds(lambda c=chains, a=adversary: [worst_record(one, 1000, Score(1.0), a) for one in c], 1)
            report.row(f"{name}, {adversary}, quilt-exact", CHAINS / took, "a second", 20.0, at_least=True)
            took = seconds(
                lambda c=chains, a=str(adversary): [
                    TightCurve(one.transition, length=1000, adversary=a).inverse(1.0) for one in c
                ],
                1,
            )
            report.row(f"{name}, {adversary}, curve-tight", CHAINS / took, "a second", 20.0, at_least=True)
