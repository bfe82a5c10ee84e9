"""The ledger: charges a second against what the disk can do in the same run, fairness, a million releases."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.timing import Report, seconds
from pufferdp import Charge, Ledger, MarkovChain, plan
from pufferdp.ledger import charge as hashes
from pufferdp.ledger.totals import State
from pufferdp.publish.answers.kind import charge_of

CHAIN = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"])
WAITERS, SECONDS, TURNS, MANY = 50, 1.0, 6, 1_000_000
WAIT, GO, STOP = range(3)


def run(report: Report) -> None:
    """All of it."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("PUFFERDP_BENCH_DISK")) as folder:
        _charges(report, Path(folder))
        _million(report, Path(folder))


def _charges(report: Report, folder: Path) -> None:
    """Disk and ledger take turns, so that both see the same disk; the medians are compared."""
    place = folder / "charges.db"
    with Ledger(place, create=True) as ledger:
        ledger.create("series", model=CHAIN, adversary="dp", budget=1e6)
        ledger.charge_many([("series", _tiny())] * 1000)  # past the first checkpoint: the log is as long as it gets
    report.title("charges: full transactions a second, beside plain writes of as many bytes and fdatasync")
    alone, waiting = _Rates(), _Rates()
    with Ledger(place) as ledger:
        for _ in range(TURNS):
            alone.add(_disk(folder), _loop(lambda: ledger.charge("series", _tiny())))
    report.row("fdatasync", statistics.median(alone.disk), "a second")
    report.row("one process charges", statistics.median(alone.charges), "a second")
    report.row("  as a share of fdatasync", alone.share, "")

    counts: list[int] = []
    with _waiters(place) as (phase, done):
        for _ in range(TURNS):
            disk = _disk(folder)
            before = list(done)
            phase.value = GO
            time.sleep(SECONDS)
            phase.value = WAIT
            time.sleep(0.1)
            made = [after - b for after, b in zip(list(done), before, strict=True)]
            counts = made if not counts else [a + b for a, b in zip(counts, made, strict=True)]
            waiting.add(disk, sum(made) / SECONDS)
    report.row("fdatasync", statistics.median(waiting.disk), "a second")
    report.row(f"{WAITERS} processes charge one data set", statistics.median(waiting.charges), "a second")
    report.row("  as a share of fdatasync", waiting.share, "", 0.8, at_least=True)
    report.row(
        "  fewest charges of a process over the mean", min(counts) / statistics.mean(counts), "", 0.5, at_least=True
    )
    report.row("  most charges of a process over the mean", max(counts) / statistics.mean(counts), "", 2.0)


class _Rates:
    """Rates of the disk and of the ledger, turn by turn."""

    def __init__(self) -> None:
        self.disk: list[float] = []
        self.charges: list[float] = []

    def add(self, disk: float, charges: float) -> None:
        self.disk.append(disk)
        self.charges.append(charges)

    @property
    def share(self) -> float:
        return statistics.median(self.charges) / statistics.median(self.disk)


def _tiny() -> Charge:
    return Charge(kind="dp", dp_loss=1e-6, longest=50)


def _loop(step: Any) -> float:
    """How often something is done in a second."""
    began, n = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        step()
        n += 1
    return n / (time.perf_counter() - began)


def _disk(folder: Path) -> float:
    """Writes of four pages into a file that has its size, each followed by fdatasync: what a commit costs at least."""
    size = 4 * 4120  # a page of the log and its header
    path = folder / "plain"
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(handle, bytes(1000 * size), 0)
        os.fsync(handle)
        at = 0

        def step() -> None:
            nonlocal at
            os.pwrite(handle, bytes(size), at * size)
            os.fdatasync(handle)
            at = (at + 1) % 1000

        return _loop(step)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _waiters(place: Path) -> Any:
    context = multiprocessing.get_context("fork")
    # A number in shared memory: an Event would be one more lock that all fifty contend for.
    phase, done = context.RawValue("i", WAIT), context.RawArray("l", WAITERS)

    def work(n: int) -> None:
        charge = _tiny()
        with Ledger(place) as ledger:
            ledger.dataset("series")
            while phase.value != STOP:
                if phase.value == GO:
                    ledger.charge("series", charge)
                    done[n] += 1
                else:
                    time.sleep(0.01)
        os._exit(0)

    workers = [context.Process(target=work, args=(n,)) for n in range(WAITERS)]
    for worker in workers:
        worker.start()
    time.sleep(1.0)
    try:
        yield phase, done
    finally:
        phase.value = STOP
        for worker in workers:
            worker.join()


def _million(report: Report, folder: Path) -> None:
    """A million releases of twenty kinds, written in bulk with the ledger's own hashes; then read as anybody would."""
    place = folder / "million.db"
    made = [plan(CHAIN, "histogram", epsilon=0.01 * n, length=50 + n) for n in range(1, 21)]
    charges = [charge_of(one.problem, one.candidate("quilt-exact")) for one in made]
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
        sql = "INSERT INTO ledger_entries (dataset, position, created, problem, hash) VALUES (?, ?, ?, ?, ?)"
        while state.releases < MANY:
            charge = charges[state.releases % len(charges)]
            head = hashes.link(state.head, state.position + 1, when, charge.problem)
            state = state.after(charge, head)
            session.run(sql, "series", state.position, when, charge.problem, head)
        session.run("UPDATE ledger_datasets SET state = ? WHERE name = ?", state.to_json(), "series")
