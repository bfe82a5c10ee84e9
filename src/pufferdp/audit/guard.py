"""Runs a Python function in a child process, with a deadline: failures become sentences, hangs end."""

from __future__ import annotations

import json
import mmap
import os
import signal
import struct
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, Any, Final

import numpy as np

from pufferdp import checks
from pufferdp.audit.mechanism import Outputs, Records
from pufferdp.audit.worker import Lines, Loaded, serve
from pufferdp.errors import MechanismError, ParameterError, RefusedError

AT_ONCE: Final = 10_000
"""Data sets handed to a batched function in one call."""
Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class RunBudget:
    """How long and how often a mechanism from outside may run, all audits of it together."""

    seconds: float = 3600.0
    """Time in all."""
    calls: int = 10_000_000
    """Data sets in all."""
    patience: float = 30.0
    """Seconds without any answer after which the mechanism is taken to hang, and is ended."""

    def __post_init__(self) -> None:
        for name in ("seconds", "patience"):
            checks.epsilon(getattr(self, name), name)
        checks.length(self.calls, "calls")


@dataclass
class Spending:
    """What was used of a budget so far."""

    budget: RunBudget
    seconds: float = 0.0
    calls: int = 0

    @property
    def seconds_left(self) -> float:
        """Time that is left."""
        return self.budget.seconds - self.seconds

    def admit(self, name: str, m: int) -> None:
        """Refuse runs that the budget has no room for."""
        if self.calls + m > self.budget.calls:
            raise RefusedError(
                f"{name} was run {self.calls:,} times, and {m:,} runs more pass its budget of "
                f"{self.budget.calls:,} calls; give it more calls, or ask for fewer runs"
            )
        if self.seconds_left <= 0:
            raise self.over(name, 0, m)

    def over(self, name: str, done: int, m: int) -> RefusedError:
        """What to say when time is up."""
        return RefusedError(
            f"{name} used up its time of {self.budget.seconds:g} s; {done:,} of {m:,} runs were done: "
            "give it more seconds, or ask for fewer runs"
        )


@dataclass(eq=False)
class GuardedFunction:
    """A Python function as a mechanism; see ``outside_mechanism``. It runs in a child process of its own."""

    name: str
    load: Callable[[], Loaded] = field(repr=False)
    """Makes the function, in the child: importing a file may hang as well."""
    declared: float | None = None
    """The DP loss that whoever audits declares; None takes what the object says."""
    values: Sequence[object] | None = None
    """What stands for each state number; None hands over the numbers."""
    budget: RunBudget = field(default_factory=RunBudget)
    progress: Progress | None = field(default=None, repr=False)
    _spent: Spending = field(init=False, repr=False)
    _child: _Child | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not hasattr(os, "fork"):
            raise ParameterError(
                "this system cannot fork, so a Python function cannot be watched; audit it as a command: "
                "command:python FILE.py"
            )
        if self.declared is not None:
            self.declared = checks.epsilon(self.declared, "dp_loss")
        self._spent = Spending(self.budget)

    @property
    def dp_loss(self) -> float | None:
        """Declared, or what the object says of itself."""
        return self.declared if self.declared is not None else self._started().dp_loss

    @property
    def calls(self) -> int:
        """Data sets it was run on so far."""
        return self._spent.calls

    def close(self) -> None:
        """End the child process."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def run(self, records: Records) -> Outputs:
        """One output for each row."""
        rows = checked_rows(records)
        self._spent.admit(self.name, len(rows))
        began = time.monotonic()
        try:
            return self._run(rows)
        except BaseException:
            self.close()
            raise
        finally:
            self._spent.seconds += time.monotonic() - began
            self._spent.calls += len(rows)

    def _run(self, rows: Records) -> Outputs:
        child, m = self._started(), len(rows)
        deadline = time.monotonic() + self._spent.seconds_left
        child.ask(rows)
        done, width = 0, 1
        while True:
            kind, text = self._heard(child, deadline, done, m)
            if kind == b"r":
                done, width = json.loads(text)
                if self.progress is not None:
                    self.progress(f"running {self.name}: {done:,} of {m:,} runs")
            elif kind == b"d":
                return child.outputs(m, width)
            else:
                raise MechanismError(f"{self.name}: {text}")

    def _started(self) -> _Child:
        if self._child is None:
            child = self._child = _Child(self.load, self.values)
            try:
                kind, text = self._heard(child, time.monotonic() + self._spent.seconds_left, 0, 0)
                if kind != b"h":
                    raise MechanismError(f"{self.name} {text}")
                child.dp_loss = json.loads(text)["dp_loss"]
            except BaseException:
                self.close()
                raise
        return self._child

    def _heard(self, child: _Child, deadline: float, done: int, m: int) -> tuple[bytes, str]:
        """The next message; hangs and deaths become errors."""
        patience = self.budget.patience
        wait = min(patience, max(0.0, deadline - time.monotonic()))
        try:
            if child.pipe.poll(wait):
                message = child.pipe.recv_bytes()
                return message[:1], message[1:].decode("utf-8", "replace")
        except (EOFError, OSError):
            where = f"during call {child.call:,}" if child.call else "while it was loaded"
            raise MechanismError(f"{self.name} ended its process {where} ({child.status()})") from None
        if wait < patience:
            raise self._spent.over(self.name, done, m)
        what = f"call {child.call:,} did not return" if child.call else "it was not loaded"
        raise MechanismError(
            f"{self.name}: {what} within {patience:g} s, and was ended; where it is slow and does not hang, give it "
            "more patience"
        )


class _Child:
    """The child process, and the lines to it."""

    def __init__(self, load: Callable[[], Loaded], values: Sequence[object] | None) -> None:
        self.dp_loss: float | None = None
        self.pipe, theirs = Pipe()
        files = ExitStack()
        self._records, self._outputs = _shared_file(files), _shared_file(files)
        self._call = mmap.mmap(-1, 8)
        lines = Lines(theirs, self._records.fileno(), self._outputs.fileno(), self._call)
        with warnings.catch_warnings():
            # Python warns that other threads do not live on in the child: it needs none of them.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            _live(self.pipe, lines, load, values)
        theirs.close()
        self._gone: list[bool] = []
        files.callback(self.pipe.close)
        self.end = weakref.finalize(self, _end, self.pid, files, self._gone)

    @property
    def call(self) -> int:
        """The number of the call that is under way."""
        return int(struct.unpack("<q", self._call[:8])[0])

    def ask(self, rows: Records) -> None:
        """Hand over rows."""
        self._records.seek(0)
        self._records.write(np.ascontiguousarray(rows).tobytes())
        self._records.flush()
        self.pipe.send_bytes(struct.pack("<qq1s", *rows.shape, b"i" if rows.dtype.kind == "i" else b"f"))

    def outputs(self, m: int, width: int) -> Outputs:
        """What came back."""
        data = os.pread(self._outputs.fileno(), m * width * 8, 0)
        return np.frombuffer(data, dtype=np.float64).reshape(m, width).copy()

    def status(self) -> str:
        """How the process ended."""
        with suppress(ChildProcessError, ProcessLookupError):
            for _ in range(100):
                pid, code = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self._gone.append(True)  # its number may be another process's from now on
                    code = os.waitstatus_to_exitcode(code)
                    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
                time.sleep(0.01)
        return "it no longer answers"


def _shared_file(files: ExitStack) -> IO[bytes]:
    return files.enter_context(tempfile.TemporaryFile())


def _live(parent: Connection, lines: Lines, load: Callable[[], Loaded], values: Sequence[object] | None) -> Any:
    """The child's whole life; it never returns to what its parent was doing."""
    code = 1
    try:
        os.setsid()  # what it starts is ended with it
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        parent.close()
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        import sys

        # New objects: a lock that another thread held when we forked would never be released here.
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        np.random.seed()  # two children of one parent must not draw the same noise
        serve(lines, load, values, AT_ONCE)
        code = 0
    finally:
        os._exit(code)


def _end(pid: int, files: ExitStack, gone: list[bool]) -> None:
    """Kill the child and all that it started, and wait for it."""
    files.close()
    if gone:
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # it may not have had the time to lead a group
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def checked_rows(records: Records) -> Records:
    """Records as rows of whole numbers or doubles."""
    rows = np.asarray(records)
    if rows.ndim != 2 or rows.size == 0 or rows.dtype.kind not in "iuf":
        raise ParameterError(f"records have shape {rows.shape}; one data set a row, of numbers, is expected")
    return rows.astype(np.float64) if rows.dtype.kind == "f" else rows.astype(np.int64)
