"""The ledger: charges a second by one and by fifty processes, how evenly they get their turns, a million releases; a
hundred thousand on ranges, and a million people in one."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.timing import Report, processor_ratio, processor_seconds, seconds, sized
from pufferdp import Charge, Ledger, MarkovChain, plan, release
from pufferdp.data.ranges import Range, Ranges
from pufferdp.ledger import hash_chain
from pufferdp.ledger.totals import State
from pufferdp.publish.answers.kind import KIND, AnswerProblem

CHAIN = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"])
WAITERS, SECONDS, MANY = sized((50, 8.0, 1_000_000), (2, 0.5, 200))
RANGES, PEOPLE, SEGMENTS = sized((100_000, 1_000_000, 10_000), (200, 300, 10))
DAY = 86_400 * 10**9
WAIT, GO, STOP = range(3)


def run(report: Report) -> None:
    """All of it."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("PUFFERDP_BENCH_DISK")) as folder:
        _charges(report, Path(folder))
        _million(report, Path(folder))
        _ranges(report, Path(folder))
        _people(report, Path(folder))


def _charges(report: Report, folder: Path) -> None:
    """One process, then many on one data set for a while: what they get done, and how evenly."""
    place = folder / "charges.db"
    with Ledger(place, create=True) as ledger:
        ledger.create("series", model=CHAIN, adversary="dp", budget=1e6)
        report.title("charges: full transactions, each on disk before it is acknowledged")
        report.row("one process charges", _loop(lambda: ledger.charge("series", _tiny())), "a second")
    with _waiters(place) as (phase, done, longest):
        phase.value = GO
        time.sleep(SECONDS)
        phase.value = WAIT
        counts = list(done)
    report.row(f"{WAITERS} processes charge one data set", sum(counts) / SECONDS, "a second", 150, at_least=True)
    report.row(
        "  fewest charges of a process over the mean", min(counts) / statistics.mean(counts), "", 0.3, at_least=True
    )
    report.row("  most charges of a process over the mean", max(counts) / statistics.mean(counts), "", 3.0)
    report.row("  longest wait for a charge", max(longest), "s", 10)
    with Ledger(place) as ledger:
        assert ledger.dataset("series").releases >= sum(counts)


def _tiny() -> Charge:
    return Charge(kind="dp", dp_loss=1e-6, longest=50)


def _loop(step: Any) -> float:
    """How often something is done in a second."""
    began, n = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        step()
        n += 1
    return n / (time.perf_counter() - began)


@contextlib.contextmanager
def _waiters(place: Path) -> Any:
    context = multiprocessing.get_context("fork")
    # A number in shared memory: an Event would be one more lock that all fifty contend for.
    phase = context.RawValue("i", WAIT)
    done, longest = context.RawArray("l", WAITERS), context.RawArray("d", WAITERS)

    def work(n: int) -> None:
        charge = _tiny()
        with Ledger(place) as ledger:
            ledger.dataset("series")
            while phase.value != STOP:
                if phase.value == GO:
                    began = time.perf_counter()
                    ledger.charge("series", charge)
                    done[n] += 1
                    longest[n] = max(longest[n], time.perf_counter() - began)
                else:
                    time.sleep(0.01)
        os._exit(0)

    workers = [context.Process(target=work, args=(n,)) for n in range(WAITERS)]
    for worker in workers:
        worker.start()
    time.sleep(1.0)
    try:
        yield phase, done, longest
    finally:
        phase.value = STOP
        for worker in workers:
            worker.join()


def _million(report: Report, folder: Path) -> None:
    """A million releases of twenty kinds, written in bulk with the ledger's own hashes; then read as anybody would."""
    place = folder / "million.db"
    made = [plan(CHAIN, "histogram", epsilon=0.01 * n, length=50 + n) for n in range(1, 21)]
    quilts = [(AnswerProblem(problem=one.problem), one.candidate("quilt-exact").calibration) for one in made]
    charges = [KIND.charge(problem, calibration) for problem, calibration in quilts if calibration is not None]
    report.title(f"a ledger of {MANY:,} releases")
    with Ledger(place, create=True) as ledger:
        ledger.create("series", model=CHAIN, adversary="bdp", budget=1e9)
        began = time.perf_counter()
        ledger.charge_many([("series", charge) for charge in charges])
        _fill(ledger, charges)
        print(f"(written in {time.perf_counter() - began:.0f} s)")
    with Ledger(place) as ledger:
        report.row("ledger show", seconds(lambda: ledger.dataset("series"), 1), "s", 30)
        assert ledger.dataset("series").releases == MANY
    with Ledger(place) as ledger:
        took = seconds(lambda: ledger.verify(), 1)
        assert ledger.verify().valid
    report.row("ledger verify", took, "s", 30)
    size = sum(path.stat().st_size for path in folder.glob("million.db*"))
    report.row("size of the file", size / 1e9, "GB", 3)


def _fill(ledger: Ledger, charges: list[Charge]) -> None:
    with ledger.store.writing() as session:
        ((text,),) = session.rows("SELECT state FROM ledger_datasets")
        state, when = State.from_json(text), "2026-01-01T00:00:00+00:00"
        sql = (
            "INSERT INTO ledger_entries (dataset, position, created, problem, identity, hash) VALUES (?, ?, ?, ?, ?, ?)"
        )
        while state.releases < MANY:
            charge = charges[state.releases % len(charges)]
            identity = f"{state.position + 1:032x}"
            head = hash_chain.link(state.head, state.position + 1, when, charge.problem, identity)
            state = state.after(charge, head)
            session.run(sql, "series", state.position, when, charge.problem, identity, head)
        session.run("UPDATE ledger_datasets SET state = ? WHERE name = ?", state.to_json(), "series")


def _ranges(report: Report, folder: Path) -> None:
    """Releases on segments of their own, with gaps between them: one after another, and in any order."""
    report.title(f"{RANGES:,} releases on ranges, in seconds of a processor")
    for words in ("in order", "in random order"):
        place, empty = folder / f"{words}.db", folder / f"{words}, empty.db"
        days = list(range(RANGES))
        if words != "in order":
            random.Random(1).shuffle(days)
        for path in (place, empty):
            with Ledger(path, create=True) as ledger:
                ledger.create("series", model=CHAIN, adversary="bdp", budget=1.0)
        with Ledger(place) as ledger:
            for begin in range(0, RANGES, 5000):
                ledger.charge_many([("series", _day(n)) for n in days[begin : begin + 5000]])
            with Ledger(empty) as fresh:
                compared = processor_ratio(_again(ledger, days), _again(fresh, days))
        report.row(f"{words}: a charge over one to an empty ledger", compared, "times", 3)
        with Ledger(place) as ledger:
            report.row("  ledger show", processor_seconds(lambda: ledger.dataset("series"), 3), "s", 1)
        with Ledger(place) as ledger:
            report.row("  ledger verify", processor_seconds(lambda: ledger.verify(), 1), "s")
            assert ledger.verify().valid


def _again(ledger: Ledger, days: list[int]) -> Callable[[], object]:
    """Charge a few more days of the past, each for the second time."""
    turns = iter(days[:50])
    return lambda: [ledger.charge("series", _day(next(turns), 0.25)) for _ in range(5)]


def _day(number: int, times: float = 1.0) -> Charge:
    """A loss on most of a day; not every day has the same."""
    segment = Range(first=number * DAY, last=(number + 1) * DAY - 300 * 10**9)
    loss = times * (1 + number % 7) * 2.0**-10
    return Charge(kind="dp", dp_loss=loss, longest=288, ranges=Ranges(unit="time", order="time", parts=(segment,)))


def _people(report: Report, folder: Path) -> None:
    """From a Parquet file to a charged answer with its certificate; once more, when everybody is in the ledger."""
    path, place = folder / "people.parquet", folder / "people.db"
    report.title(f"{PEOPLE:,} people in one release, on {SEGMENTS:,} segments, in seconds of a processor")
    duckdb.sql(
        f"COPY (SELECT 'p' || (i // 3) AS who, TIMESTAMP '2024-01-01' + INTERVAL (i % 3 + i // 3 % {SEGMENTS}) HOUR "
        f"AS t, CASE hash(i) % 3 WHEN 0 THEN 'active' ELSE 'rest' END AS state FROM range({3 * PEOPLE}) r(i)) "
        f"TO '{path}' (FORMAT parquet)"
    )
    with Ledger(place, create=True) as ledger:
        ledger.create("all", model=CHAIN, budget=5.0)
        for words in ("the first", "the second"):
            took = processor_seconds(
                lambda: release(
                    path, model=CHAIN, column="state", order="t", by="who", query="histogram", epsilon=1.0,
                    independent=True, ledger=ledger, dataset="all",
                ),
                1,
            )  # fmt: skip
            report.row(f"{words} release", took, "s", 20)
        report.row("ledger show", processor_seconds(lambda: ledger.dataset("all"), 1), "s", 1)
    with Ledger(place) as ledger:
        report.row("ledger verify", processor_seconds(lambda: ledger.verify(), 1), "s", 20)
        assert ledger.verify().valid
