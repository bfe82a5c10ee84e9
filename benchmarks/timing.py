"""Time a few calls and print what came out. Ratios within one run are what counts: machines differ and are noisy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
TINY = os.environ.get("PUFFERDP_BENCH_TINY") == "1"
"""Whether everything runs once on small sizes, to see that it runs: no time says anything then, and no goal counts."""


def sized(whole: T, tiny: T) -> T:
    """A size of a benchmark, and the one that is enough to see that it runs."""
    return tiny if TINY else whole


def seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """The least time of a few calls: noise only ever adds."""
    best = float("inf")
    for _ in range(sized(repeats, 1)):
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best


def ratio(top: Callable[[], Any], bottom: Callable[[], Any], repeats: int = 9) -> float:
    """Time of one call over another, taken in turns: a machine that slows down for a while slows down both."""
    times = [(seconds(top, 1), seconds(bottom, 1)) for _ in range(sized(repeats, 1))]
    return min(t for t, _ in times) / min(b for _, b in times)


def processor_seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """The least processor time of a few calls: other work on the machine hardly counts."""
    best = float("inf")
    for _ in range(sized(repeats, 1)):
        began = time.process_time()
        call()
        best = min(best, time.process_time() - began)
    return best


def processor_ratio(top: Callable[[], Any], bottom: Callable[[], Any], repeats: int = 5) -> float:
    """Processor time of one call over another, taken in turns."""
    times = [(processor_seconds(top, 1), processor_seconds(bottom, 1)) for _ in range(sized(repeats, 1))]
    return min(t for t, _ in times) / max(min(b for _, b in times), 1e-9)


def processor_clock() -> float:
    """Processor seconds of this process and of those below it: a minute by it is a minute of one core, however busy.

    Processes that have ended and were waited for count too. Without ``/proc`` those that still run do not.
    """
    ended = os.times()
    return time.process_time() + ended.children_user + ended.children_system + _running_below(os.getpid())


def _running_below(pid: int) -> float:
    total, ticks = 0.0, os.sysconf("SC_CLK_TCK")
    try:
        children = [child for task in Path(f"/proc/{pid}/task").iterdir() for child in _words(task / "children")]
        for child in children:
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            # Its own time and that of its children that have ended: fields 14 to 17 of proc(5).
            total += sum(map(int, fields[11:15])) / ticks + _running_below(int(child))
    except OSError:  # it has ended meanwhile
        pass
    return total


def _words(file: Path) -> list[str]:
    return file.read_text().split()


@dataclass
class Report:
    """Rows of a benchmark, and whether each goal was met."""

    missed: list[str] = field(default_factory=list)

    def title(self, text: str) -> None:
        print(f"\n{text}\n{'-' * len(text)}")

    def row(self, what: str, found: float, unit: str, goal: float | None = None, *, at_least: bool = False) -> None:
        goal = None if TINY else goal
        met = goal is None or (found >= goal if at_least else found <= goal)
        aim = (
            "" if goal is None else f"   goal {'≥' if at_least else '≤'} {goal:g} {unit}   {'met' if met else 'MISSED'}"
        )
        print(f"{what:<68} {found:10.4g} {unit}{aim}", flush=True)
        if not met:
            self.missed.append(what)
