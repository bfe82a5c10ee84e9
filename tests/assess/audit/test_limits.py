"""Audited code that takes too long, too much memory or too many processes, and what it leaves behind."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pufferdp import MarkovChain, MechanismError, RunBudget, audit_mechanism, outside_mechanism
from pufferdp.assess.audit.audit import AuditReport
from pufferdp.assess.audit.events import Bound
from pufferdp.assess.audit.search import CHECKPOINTS, Budget

CHAIN = MarkovChain(transition=[[0.8, 0.2], [0.3, 0.7]])
HANG = 100.0
"""Seconds: so many that only what hangs takes longer, on however busy a machine."""


def took(mechanism: Any, seconds: float, **more: Any) -> tuple[float, object]:
    """How long an audit took, and its result or its error."""
    started = time.monotonic()
    try:
        result: object = audit_mechanism(CHAIN, mechanism, length=6, dp_epsilon=1.0, seconds=seconds, **more)
    except MechanismError as error:
        result = error
    return time.monotonic() - started, result


def hang(row: Any) -> float:
    time.sleep(1000)
    return 0.0


def slow(row: Any) -> float:
    time.sleep(0.05)
    return float(row.sum() + np.random.laplace())


CALLS: list[int] = []


def stall(row: Any) -> float:
    CALLS.append(1)
    if len(CALLS) > 500:
        time.sleep(1000)
    return float(row.sum() + np.random.laplace())


def wide(row: Any) -> Any:
    return row.sum() + np.random.laplace(size=10_000)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [hang, slow, stall, wide])
def test_seconds_hold_for_functions(mechanism: Any) -> None:
    elapsed, result = took(mechanism, 6.0)
    assert elapsed < HANG, (elapsed, result)
    if mechanism is hang:
        assert isinstance(result, MechanismError)
        assert result.exit_code == 2  # 3 is for a claim that is wrong
    else:
        assert isinstance(result, AuditReport)
        assert result.calls > 0


def test_what_starting_took_is_part_of_the_seconds() -> None:
    """3 of 4 seconds are gone before anything runs: a mechanism that hangs is ended after one more and a bit."""
    elapsed, result = took(hang, 4.0, budget=Budget(1, 1.0, started=3.0))
    assert 0.5 < elapsed < HANG, elapsed
    assert isinstance(result, MechanismError)
    assert "no run finished within 4 s" in str(result)


class Timed:
    """A count with far too little noise, on a clock of its own: each run takes so many seconds, later runs longer."""

    name, dp_loss = "timed count", 1.0

    def __init__(self, seconds: float, *, fast_runs: float = math.inf, slower: float = 1.0) -> None:
        self.seconds, self.fast_runs, self.slower = seconds, fast_runs, slower
        self.now, self.runs, self.generator = 0.0, 0, np.random.default_rng(5)

    def clock(self) -> float:
        return self.now

    def run(self, records: Any) -> Any:
        fast = int(min(len(records), max(0, self.fast_runs - self.runs)))
        self.runs += len(records)
        self.now += self.seconds * (fast + self.slower * (len(records) - fast))
        return np.round(records.sum(axis=1) + self.generator.laplace(scale=0.1, size=len(records)), 6)

    def audit(self, seconds: float) -> AuditReport:
        budget = Budget(1, 1.0, clock=self.clock)
        return audit_mechanism(CHAIN, self, length=6, adversary="dp", seconds=seconds, budget=budget)


@pytest.mark.parametrize(("pace", "seconds"), [(0.01, 3.0), (0.1, 60.0)])
def test_few_runs_prove_something(pace: float, seconds: float) -> None:
    """A slow mechanism has time for 300 or 600 runs: they are enough for noise that is ten times too small."""
    mechanism = Timed(pace)
    found = mechanism.audit(seconds)
    assert mechanism.now <= 1.1 * seconds
    assert found.calls == mechanism.runs
    assert found.lower > 0.3
    assert found.refuted == (found.lower > 1.0)


@pytest.mark.parametrize("seconds", [1e-6, 0.01, 1.0])
def test_a_tiny_time_limit_gives_a_report_that_says_so(seconds: float) -> None:
    """The runs take 0.1 s: there is time for ten at most, and nothing can be proved of them."""
    found = Timed(0.1).audit(seconds)
    assert (found.lower, found.complete, found.tests) == (0.0, False, 0)
    assert found.calls >= 1
    assert found.upper is not None
    assert found.to_dict()["complete"] is False
    assert "it says nothing for or against the claim" in " ".join(str(found).split())


@pytest.mark.parametrize("fast_runs", [6_500, 8_000, 20_000])
def test_a_test_that_is_cut_short_proves_with_the_runs_it_has(fast_runs: int) -> None:
    """The mechanism takes 10,000 times longer after so many runs; the planned test has more than 5,000."""
    whole = Timed(1e-3).audit(12.0)
    assert whole.complete
    mechanism = Timed(1e-3, fast_runs=fast_runs, slower=10_000)
    found = mechanism.audit(12.0)
    assert found.complete == (fast_runs == 20_000)
    assert 1.0 < found.lower <= whole.lower
    if not found.complete:
        assert sum(found.attacks[0].runs) < sum(whole.attacks[0].runs)


def test_whenever_a_test_ends_its_bound_is_as_sure_as_stated() -> None:
    """Whoever stops at the checkpoint that proves most, after seeing all of them, is wrong with 10 % at most.

    200 tests with a fixed seed; more than a tenth and four deviations would be wrong with probability below 1e-4.
    """
    generator, repeats, size, error = np.random.default_rng(2), 200, 2_000, 0.1
    chances = np.array([0.3, 0.1])
    wrong = 0
    for hits in generator.random((repeats, size, 2)) < chances:
        bounds = []
        for share, part in CHECKPOINTS:
            runs = int(share * size)
            counts = hits[:runs].sum(axis=0)
            bounds.append(Bound(hits=(int(counts[0]), int(counts[1])), runs=(runs, runs), delta=part * error).lower)
        wrong += max(bounds) > math.log(3.0)
    assert sum(part for _, part in CHECKPOINTS) == pytest.approx(1.0)
    assert wrong <= error * repeats + 4 * math.sqrt(error * (1 - error) * repeats)


AGE = """
import time
from pufferdp.apps import start_up
start_up._BUSY = 2.0
assert start_up.seconds_since_start() == 0.0
start_up.note_start()
print(start_up.seconds_since_start(), time.process_time())
"""


def test_the_command_line_counts_from_where_its_process_began() -> None:
    """Not from where the process was something else: a shell slept in it before."""
    words = ["sh", "-c", 'sleep 2; exec "$0" -c "$1"', sys.executable, AGE]
    age, spent = map(float, subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    assert 0.9 * spent < age < 2 * spent + 1.0  # the shell's two seconds are none of it


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "sleep 1000",
        "yes >&2",
        "cat > /dev/null; exec >&-; sleep 1000",
        "while read -r line; do echo 1; sleep 0.2; done",
    ],
)
def test_seconds_hold_for_commands(script: str, tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(script + "\n")
    elapsed, result = took(f"command:sh {file}", 4.0)
    assert elapsed < HANG, (elapsed, result)
    assert isinstance(result, AuditReport if "echo" in script else MechanismError)


ESCAPE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", {marker!r}])
    os._exit(0)
"""


def sleepers(marker: str) -> list[str]:
    """Processes that sleep for just so long."""
    out = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"sleep", marker.encode()]:
                out.append(entry.name)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("end", ["return 1.0", "time.sleep(1000)", "os._exit(3)", "raise ValueError"])
def test_what_a_function_started_ends_with_it_also_after_setsid(end: str, tmp_path: Path) -> None:
    marker = f"9{abs(hash((end, str(tmp_path)))) % 10**6}"
    lines = "\n".join("    " + line for line in ESCAPE.format(marker=marker).strip().splitlines())
    (tmp_path / "mine.py").write_text(f"def escape(row):\n{lines}\n    time.sleep(0.2)\n    {end}\n")
    budget = RunBudget(patience=HANG if end == "return 1.0" else 2.0)
    mechanism = outside_mechanism(f"python:{tmp_path}/mine.py:escape", budget=budget)
    try:
        mechanism.run(np.zeros((1, 3), dtype=int))
        until = time.monotonic() + HANG
        while not sleepers(marker) and time.monotonic() < until:
            time.sleep(0.05)
        assert sleepers(marker)
    except MechanismError:
        assert end != "return 1.0"
    finally:
        mechanism.close()
    assert sleepers(marker) == []


@pytest.mark.slow
@pytest.mark.parametrize("end", ["print(1)", "time.sleep(1000)", "sys.exit(3)"])
def test_what_a_command_started_ends_with_it_also_after_setsid(end: str, tmp_path: Path) -> None:
    marker = f"8{abs(hash((end, str(tmp_path)))) % 10**6}"
    (tmp_path / "mine.py").write_text(f"{ESCAPE.format(marker=marker)}\ntime.sleep(0.2)\n{end}\n")
    budget = RunBudget(patience=HANG if end == "print(1)" else 2.0)
    mechanism = outside_mechanism(f"command:{sys.executable} {tmp_path}/mine.py", budget=budget)
    try:
        assert mechanism.run(np.zeros((1, 3), dtype=int)).tolist() == [[1.0]]
    except MechanismError:
        assert end != "print(1)"
    assert sleepers(marker) == []


def greedy(row: Any) -> float:
    return float(np.ones(2**27).sum())  # a gigabyte


def test_memory_is_limited(tmp_path: Path) -> None:
    budget = RunBudget(memory=2**28)
    mechanism = outside_mechanism(greedy, budget=budget)
    with pytest.raises(MechanismError, match="MemoryError"):
        mechanism.run(np.zeros((1, 3), dtype=int))
    mechanism.close()
    ballast = bytearray(2**30)  # what the auditing process has is no allowance of a command
    (tmp_path / "mine.py").write_text("x = bytearray(2**30)\nprint(1)\n")
    command = outside_mechanism(f"command:{sys.executable} {tmp_path}/mine.py", budget=budget)
    with pytest.raises(MechanismError, match=r"exit status 1.*MemoryError"):
        command.run(np.zeros((1, 3), dtype=int))
    assert len(ballast) == 2**30


def test_processes_are_limited(tmp_path: Path) -> None:
    """The superuser is not held to it, so it is only looked at what is asked of the system."""
    (tmp_path / "mine.py").write_text(
        "import resource as r\nprint(*(r.getrlimit(kind)[0] for kind in (r.RLIMIT_NPROC, r.RLIMIT_CORE)))"
    )
    budget = RunBudget(processes=10)
    command = outside_mechanism(f"command:{sys.executable} {tmp_path}/mine.py", budget=budget)
    most, core = command.run(np.zeros((1, 3), dtype=int))[0]
    assert 10 < most < 100_000
    assert core == 0
