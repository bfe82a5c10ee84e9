"""The ledger: charges a second by one and by fifty processes, how evenly they get their turns, a million releases."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.timing import Report, seconds, sized
from pufferdp import Charge, Ledger, MarkovChain, plan
from pufferdp.ledger import hash_chain
from pufferdp.ledger.totals import State
from pufferdp.publish.answers.kind import charge_of

CHAIN = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]], states=["rest", "active"])
WAITERS, SECONDS, MANY = sized((50, 8.0, 1_000_000), (2, 0.5, 200))
WAIT, GO, STOP = range(3)


def run(report: Report) -> None:
    """All of it."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("PUFFERDP_BENCH_DISK")) as folder:
        _charges(report, Path(folder))
        _million(report, Path(folder))


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
            head = hash_chain.link(state.head, state.position + 1, when, charge.problem)
            state = state.after(charge, head)
            session.run(sql, "series", state.position, when, charge.problem, head)
        session.run("UPDATE ledger_datasets SET state = ? WHERE name = ?", state.to_json(), "series")
