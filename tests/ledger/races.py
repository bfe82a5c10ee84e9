"""Many processes against one budget, some of them killed at random points; what must hold afterwards.

``python -m tests.ledger.races ROUNDS`` is what ``make soak`` runs.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from pufferdp import BudgetError, Charge, Ledger, MarkovChain
from tests.postgres import server, why_not

CHAIN = MarkovChain(transition=[[0.882, 0.118], [0.305, 0.695]])
LOSS = 2.0**-10
"""A power of two: sums are exact, so that the number of releases that fit is known."""
RELEASES = 240
"""That many fit into the budget, and no more."""


def work(place: str, name: str, answers: Path, seed: int, go: Path) -> None:
    """Release until the budget is spent: charge, then publish an answer. As a process of its own."""
    try:
        jitter, parent = random.Random(seed), os.getppid()
        charge = Charge(kind="dp", dp_loss=LOSS, longest=50)
        with Ledger(place) as ledger, answers.open("ab", buffering=0) as out:
            while not go.exists():  # a file: whoever is killed cannot leave it locked
                assert os.getppid() == parent, "the race was called off"
                time.sleep(0.002)
            while True:
                receipt = ledger.charge(name, charge)
                out.write(f"{receipt.position} {receipt.head}\n".encode())  # the answer exists from here on
                time.sleep(jitter.random() * 0.05)
    except BudgetError:
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def race(place: str, folder: Path, seed: int, processes: int = 50) -> int:
    """One round; the number of processes that were killed while they ran. Raises AssertionError where a rule fails."""
    chance = random.Random(seed)
    name = f"round {seed}"
    with Ledger(place, create=True) as ledger:
        ledger.create(name, model=CHAIN, adversary="dp", budget=RELEASES * LOSS)
    context = multiprocessing.get_context("fork")  # everything is imported already: fifty are up in a blink
    folder.mkdir()
    go = folder.with_suffix(".go")  # so that all race at once, and none is killed before
    workers = [context.Process(target=work, args=(place, name, folder / str(n), n, go)) for n in range(processes)]
    for worker in workers:
        worker.start()
    go.touch()
    began = time.monotonic()
    while not any(path.stat().st_size for path in folder.iterdir()) and time.monotonic() - began < 60:
        time.sleep(0.001)  # until the first answer is out: who is killed then is killed at work
    killed = set()
    for worker in chance.sample(workers, processes // 2):
        time.sleep(chance.random() * 0.012)
        if worker.is_alive() and worker.pid is not None:
            os.kill(worker.pid, signal.SIGKILL)
            killed.add(worker.pid)
    for worker in workers:
        worker.join(120)
        ended_well = worker.exitcode == 0 or (worker.pid in killed and worker.exitcode == -signal.SIGKILL)
        assert ended_well, f"a process ended with {worker.exitcode}"
    check(place, name, folder)
    return sum(worker.exitcode == -signal.SIGKILL for worker in workers)


def check(place: str, name: str, folder: Path) -> None:
    """No answer without its charge, no charge lost, the budget kept, and the ledger opens and verifies."""
    with Ledger(place) as ledger:
        found, checked = ledger.dataset(name), ledger.verify()
        with ledger.store.reading() as session:
            rows = dict(session.rows("SELECT position, hash FROM ledger_entries WHERE dataset = ?", name))
    assert checked.valid, checked.problems
    # Everybody who was not killed went on until nothing fitted, so the budget is spent to the last release.
    assert found.releases == len(rows) == RELEASES
    assert found.leakage == found.spent_dp == found.budget
    answered = {}
    for path in folder.iterdir():
        # A process that was killed may have written half a line: that is no answer.
        for line in path.read_bytes().split(b"\n")[:-1]:
            position, head = line.decode().split()
            assert int(position) not in answered, "two answers for one charge"
            answered[int(position)] = head
    assert answered.items() <= rows.items(), "an answer without its charge"


def soak(rounds: int) -> None:
    """Rounds on both kinds of ledger, the server's left out with a word where it is not installed."""
    reason = why_not()
    if reason:
        print(f"PostgreSQL is left out: {reason}")
    with tempfile.TemporaryDirectory() as folder:
        killed = 0
        for n in range(rounds):
            killed += race(str(Path(folder) / f"{n}.db"), Path(folder) / f"sqlite{n}", n)
            print(f"\rSQLite: {n + 1} rounds, {killed} processes killed", end="", flush=True)
        print()
        if reason is None:
            killed = 0
            for first in range(0, rounds, 50):  # each round verifies the whole ledger: it must not grow for ever
                with server() as url:
                    for n in range(first, min(first + 50, rounds)):
                        killed += race(url, Path(folder) / f"server{n}", n)
                        print(f"\rPostgreSQL: {n + 1} rounds, {killed} processes killed", end="", flush=True)
            print()


if __name__ == "__main__":
    soak(int(sys.argv[1]))
