"""How long and how often a mechanism from outside may run, and what is said when that is over."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pufferdp.assess.audit.mechanisms.ours import Outputs, Records
from pufferdp.basics import checks
from pufferdp.basics.errors import ParameterError, RefusedError
from pufferdp.basics.progress import Progress, silent

MOST_NUMBERS: Final = 10_000
"""Numbers in one output; what is longer is a mistake, or too long to audit."""
LONGEST_TEXT: Final = 300
"""Characters of an error of the mechanism that a message shows."""


class RunsEndedError(RefusedError):
    """The seconds or the calls that a mechanism may be run for are used up."""


@dataclass(frozen=True, kw_only=True)
class RunBudget:
    """How long and how often a mechanism from outside may run, all audits of it together."""

    seconds: float = 3600.0
    """Seconds that all calls together may take."""
    calls: int = 10_000_000
    """Data sets that all runs together may hand over."""
    patience: float = 30.0
    """Seconds without any answer after which the mechanism is taken to hang, and is ended."""
    memory: int = 4 * 2**30
    """Bytes that each of its processes may take, besides what it begins with."""
    processes: int = 256
    """Processes and threads that it may start; the system does not hold the superuser to it."""

    def __post_init__(self) -> None:
        for name in ("seconds", "patience"):
            checks.epsilon(getattr(self, name), name)
        for name in ("calls", "memory", "processes"):
            checks.length(getattr(self, name), name)


@dataclass(eq=False, kw_only=True)
class LimitedMechanism(ABC):
    """A mechanism from outside that keeps to a budget."""

    name: str = ""
    values: Sequence[object] | None = None
    """What stands for each state number; None hands over the numbers."""
    budget: RunBudget = field(default_factory=RunBudget, repr=False)
    progress: Progress = field(default=silent, repr=False)
    calls: int = field(default=0, init=False, repr=False)
    """Data sets it was run on so far."""
    _spent: float = field(default=0.0, init=False, repr=False)
    _deadline: float = field(default=math.inf, init=False, repr=False)

    @abstractmethod
    def _run(self, rows: Records, deadline: float) -> Outputs:
        """One output for each row, or RunsEndedError at the deadline by ``time.monotonic``."""

    @abstractmethod
    def close(self) -> None:
        """End what runs it."""

    def end_by(self, deadline: float) -> None:
        """Let nothing run past this time of ``time.monotonic``."""
        self._deadline = deadline

    def run(self, records: Records) -> Outputs:
        """One output for each row; failures are pufferdp errors."""
        given = np.asarray(records)
        if given.ndim != 2 or given.size == 0 or given.dtype.kind not in "iuf":
            raise ParameterError(f"records have shape {given.shape}; one data set a row, of numbers, is expected")
        rows: Records = given.astype(np.float64) if given.dtype.kind == "f" else given.astype(np.int64)
        if self.calls + len(rows) > self.budget.calls:
            raise RunsEndedError(
                f"{self.name} was run {self.calls:,} times, and {len(rows):,} runs more pass its budget of "
                f"{self.budget.calls:,} calls; give it more calls, or ask for fewer runs"
            )
        began, deadline = time.monotonic(), self.deadline
        try:
            if began >= deadline:
                raise self.over(0, len(rows))
            return self._run(rows, deadline)
        except BaseException:
            self.close()
            raise
        finally:
            self._spent += time.monotonic() - began
            self.calls += len(rows)

    @property
    def deadline(self) -> float:
        """When the next runs must end, by ``time.monotonic``."""
        return min(time.monotonic() + self.budget.seconds - self._spent, self._deadline)

    def over(self, done: int, m: int) -> RunsEndedError:
        """The error that says how many runs were done when time was up."""
        return RunsEndedError(
            f"{self.name} used up its time of {self.budget.seconds:g} s; {done:,} of {m:,} runs were done: "
            "give it more seconds, or ask for fewer runs"
        )
