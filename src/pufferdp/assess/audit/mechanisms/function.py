"""Runs a Python function in a child process, with a deadline: failures become sentences, hangs end."""

from __future__ import annotations

import itertools
import json
import math
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
import numpy.typing as npt

from pufferdp.assess.audit.mechanisms.ours import Outputs, Records
from pufferdp.assess.audit.mechanisms.supervisor import supervise
from pufferdp.basics import checks
from pufferdp.basics.errors import MechanismError, ParameterError, PufferdpError, RefusedError
from pufferdp.basics.progress import Progress

MOST_NUMBERS: Final = 10_000
"""Numbers in one output; what is longer is a mistake, or too long to audit."""
_FLUSH_SECONDS: Final = 0.1
_ENDING: Final = 5.0
"""Seconds that a supervisor has to end everything."""
_LONGEST_TEXT: Final = 300

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Loaded:
    """What a mechanism is made of once it is loaded."""

    function: Function
    dp_loss: float | None = None
    """The DP loss that the object itself claims."""
    batched: bool = False
    """Whether the function takes many data sets at once, one a row."""


class BadOutputError(Exception):
    """What came back is no output; the message goes on after «call 3 »."""


@dataclass(frozen=True)
class Lines:
    """What parent and child share: two files, a pipe and the number of the call that is under way."""

    pipe: Connection
    records: int
    outputs: int
    call: mmap.mmap


def serve(lines: Lines, load: Callable[[], Loaded], values: Sequence[object] | None, at_once: int) -> None:
    """Load the mechanism, then run it on every set of rows that is asked for. Ends with the parent."""
    try:
        loaded = load()
        hello = {"dp_loss": None if loaded.dp_loss is None else float(loaded.dp_loss), "batched": loaded.batched}
    except BaseException as error:
        _send(lines.pipe, b"f", f"could not be loaded: {_error_text(error)}")
        return
    _send(lines.pipe, b"h", json.dumps(hello))
    runs = _Runs(lines, loaded, None if values is None else np.asarray(list(values)), at_once)
    while True:
        try:
            m, n, kind = struct.unpack("<qq1s", lines.pipe.recv_bytes())
        except EOFError:
            return
        try:
            runs.answer(m, n, np.dtype(np.int64 if kind == b"i" else np.float64))
        except BadOutputError as error:
            _send(lines.pipe, b"f", f"call {runs.calls:,} {error}")
            return
        _send(lines.pipe, b"d", "")


class _Runs:
    """Runs the mechanism and counts its calls."""

    def __init__(self, lines: Lines, loaded: Loaded, values: npt.NDArray[Any] | None, at_once: int) -> None:
        self._lines, self._loaded, self._values, self._at_once = lines, loaded, values, at_once
        self._width: int | None = None
        self.calls = 0

    def answer(self, m: int, n: int, kind: np.dtype[Any]) -> None:
        """Outputs for m rows of n records, told in small portions."""
        rows = np.frombuffer(os.pread(self._lines.records, m * n * kind.itemsize, 0), dtype=kind).reshape(m, n)
        if self._values is not None:
            rows = self._values[rows.astype(np.int64)]
        done, waiting, last = 0, [], time.monotonic()
        step = self._at_once if self._loaded.batched else 1
        for first in range(0, m, step):
            self._count()
            some = np.array(rows[first : first + step])  # a copy: what the mechanism does to it is its own affair
            waiting.append(self._batch(some) if self._loaded.batched else self._one(some[0])[None])
            if time.monotonic() - last >= _FLUSH_SECONDS or first + step >= m:
                part = np.concatenate(waiting)
                _write(self._lines.outputs, part, done * part.shape[1] * part.itemsize)
                done, waiting, last = done + len(part), [], time.monotonic()
                _send(self._lines.pipe, b"r", json.dumps([done, part.shape[1]]))

    def _count(self) -> None:
        self.calls += 1
        self._lines.call[:8] = struct.pack("<q", self.calls)

    def _called(self, given: npt.NDArray[Any]) -> Any:
        try:
            return self._loaded.function(given)
        except BaseException as error:
            raise BadOutputError(f"raised {_error_text(error)}") from None

    def _one(self, row: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        back = self._called(row)
        out = _numbers(back, "a number, or a list of numbers")
        if out.ndim > 1:
            raise BadOutputError(f"gave back {_about(back)}; a number, or a list of numbers is expected")
        return self._checked(np.atleast_1d(out))

    def _batch(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        back = self._called(rows)
        rule = f"one row of numbers for each of the {len(rows):,} data sets"
        out = _numbers(back, rule)
        if out.ndim not in (1, 2) or len(out) != len(rows):
            raise BadOutputError(f"gave back {_about(back)}; {rule} is expected")
        return self._checked(out.reshape(len(rows), -1))

    def _checked(self, out: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Refuse outputs whose length changes, that are too long, or that hold what is no number."""
        width = out.shape[-1]
        if not 1 <= width <= MOST_NUMBERS:
            raise BadOutputError(f"gave back {width:,} numbers; from 1 to {MOST_NUMBERS:,} are expected")
        if self._width is not None and width != self._width:
            raise BadOutputError(
                f"gave back {width:,} numbers, and the calls before {self._width:,}; an output has the same length "
                "every time"
            )
        if not np.isfinite(out).all():
            bad = float(out[~np.isfinite(out)][0])
            raise BadOutputError(f"gave back {bad}; finite numbers are expected")
        self._width = width
        return out


def _numbers(back: Any, rule: str) -> npt.NDArray[np.float64]:
    try:
        array = np.asarray(back)
        if array.dtype.kind not in "biuf":
            raise ValueError
        return np.asarray(array, dtype=np.float64)
    except Exception:
        raise BadOutputError(f"gave back {_about(back)}; {rule} is expected") from None


def _about(back: Any) -> str:
    """A short description that never calls what a strange object might do when it is printed."""
    if back is None:
        return "nothing (None)"
    if isinstance(back, np.ndarray):
        return f"an array of shape {back.shape} and type {back.dtype}"
    if isinstance(back, str):
        return f"the text {back[:40]!r}"
    if isinstance(back, (list, tuple)):
        return f"a {type(back).__name__} of {len(back):,} items"
    return f"a {type(back).__name__}"


def _error_text(error: BaseException) -> str:
    """The kind of an error and its message on one line; of our own the message alone."""
    try:
        words = " ".join(str(error).split())
    except BaseException:
        words = ""
    if isinstance(error, PufferdpError):
        return words
    return type(error).__name__ + (f": {words}" if words else "")


def _send(pipe: Connection, kind: bytes, text: str) -> None:
    pipe.send_bytes(kind + text[:_LONGEST_TEXT].encode("utf-8", "replace"))


def _write(file: int, part: npt.NDArray[np.float64], at: int) -> None:
    data = memoryview(part.tobytes())
    while len(data):
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written


TWIN_RUNS, _TWIN_NUMBERS = 100, 16
"""Runs by which two processes are compared, and numbers of an output that are looked at."""
_ALIKE: Final = 0.5
"""The correlation of ranks from which on noise is taken to be shared: independent noise has it once in a million times.
"""


def shares_noise(first: Outputs, second: Outputs) -> bool:
    """Whether two processes answer one question alike, run by run: with the same numbers, or some that go along."""
    if np.array_equal(first, second):
        return True
    numbers = zip(first.T[:_TWIN_NUMBERS], second.T[:_TWIN_NUMBERS], strict=True)
    varying = [pair for pair in numbers if min(float(part.std()) for part in pair) > 0]
    return any(abs(float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])) > _ALIKE for one, other in varying)


def _ranks(numbers: Outputs) -> Outputs:
    """From the smallest to the largest, equal ones alike: a few that lie far out say no more than others."""
    ordered = np.sort(numbers)
    sides = [np.searchsorted(ordered, numbers), np.searchsorted(ordered, numbers, side="right")]
    return np.asarray(np.sum(sides, axis=0), dtype=np.float64)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


AT_ONCE: Final = 10_000
"""Data sets handed to a batched function in one call."""


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


@dataclass
class Spending:
    """What was used of a budget so far."""

    budget: RunBudget
    seconds: float = 0.0
    calls: int = 0
    deadline: float = math.inf
    """The end, by the clock of ``time.monotonic``: what goes by between runs counts too."""

    @property
    def seconds_left(self) -> float:
        """Seconds that the next runs may take."""
        return min(self.budget.seconds - self.seconds, self.deadline - time.monotonic())

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
    """A Python function as a mechanism; see ``outside_mechanism``. It runs in a child process of its own, or in two."""

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
    _children: list[_Child] = field(default_factory=list, init=False, repr=False)

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
        return self.declared if self.declared is not None else self._running()[0].dp_loss

    @property
    def calls(self) -> int:
        """Data sets it was run on so far."""
        return self._spent.calls

    def end_by(self, deadline: float) -> None:
        """Let nothing run past this time of ``time.monotonic``."""
        self._spent.deadline = deadline

    def close(self) -> None:
        """End what runs it."""
        while self._children:
            self._children.pop().end()

    @property
    def processes(self) -> int:
        """In how many processes it runs."""
        return len(self._children)

    def divide(self, record: Records) -> int:
        """Begin anew in two processes, which share the runs, where there are two cores and their noise is not the same.

        A generator that was seeded before they part gives both the same noise, and runs that share it are not
        independent. So both are asked about one data set, many times, before they are believed. Gives back how many
        runs that took.
        """
        rows = np.repeat(checked_rows(record)[:1], TWIN_RUNS, axis=0)
        if _cores() < 2:
            return 0
        self.close()
        self._running()
        self._start()
        answers = self.run(np.concatenate([rows, rows]))
        if shares_noise(answers[: len(rows)], answers[len(rows) :]):
            self._children.pop().end()
        return 2 * len(rows)

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
        children = self._running()[: len(rows)]
        deadline = time.monotonic() + self._spent.seconds_left
        cuts = [len(rows) * n // len(children) for n in range(len(children) + 1)]
        parts = [rows[begin:end] for begin, end in itertools.pairwise(cuts)]
        for child, part in zip(children, parts, strict=True):
            child.ask(part)
        outputs, before = list[Outputs](), 0
        for child, part in zip(children, parts, strict=True):
            outputs.append(self._collected(child, len(part), deadline, before, len(rows)))
            before += len(part)
        if len({part.shape[1] for part in outputs}) > 1:
            raise MechanismError(
                f"{self.name} gave back {outputs[0].shape[1]:,} numbers and {outputs[1].shape[1]:,}; an output has the "
                "same length every time"
            )
        return np.concatenate(outputs)

    def _collected(self, child: _Child, size: int, deadline: float, before: int, m: int) -> Outputs:
        """The outputs of one child, which has so many runs of all; others have done some before."""
        done, width = 0, 1
        while True:
            kind, text = self._next_message(child, deadline, before + done, m)
            if kind == b"r":
                done, width = json.loads(text)
                if self.progress is not None:
                    self.progress(f"running {self.name}: {before + done:,} of {m:,} runs")
            elif kind == b"d":
                return child.outputs(size, width)
            else:
                raise MechanismError(f"{self.name}: {text}")

    def _running(self) -> list[_Child]:
        if not self._children:
            self._start()
        return self._children

    def _start(self) -> None:
        child = _Child(self.load, self.values, self.budget)
        self._children.append(child)
        try:
            kind, text = self._next_message(child, time.monotonic() + self._spent.seconds_left, 0, 0)
            if kind != b"h":
                raise MechanismError(f"{self.name} {text}")
            child.dp_loss = json.loads(text)["dp_loss"]
        except BaseException:
            self.close()
            raise

    def _next_message(self, child: _Child, deadline: float, done: int, m: int) -> tuple[bytes, str]:
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
            f"{self.name}: {what} within {patience:g} s, and was stopped; if it is slow and not stuck, give it "
            "more patience"
        )


class _Child:
    """The child process, and the lines to it."""

    def __init__(self, load: Callable[[], Loaded], values: Sequence[object] | None, budget: RunBudget) -> None:
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
            _live(self.pipe, lines, load, values, budget)
        theirs.close()
        self._gone: list[bool] = []
        files.callback(self.pipe.close)
        self.end = weakref.finalize(self, _end, self.pid, files, self._gone)

    @property
    def call(self) -> int:
        """The number of the call that is under way."""
        return int(struct.unpack("<q", self._call[:8])[0])

    def ask(self, rows: Records) -> None:
        """Write rows to the shared file and say how many there are, and of which type."""
        self._records.seek(0)
        self._records.write(np.ascontiguousarray(rows).tobytes())
        self._records.flush()
        self.pipe.send_bytes(struct.pack("<qq1s", *rows.shape, b"i" if rows.dtype.kind == "i" else b"f"))

    def outputs(self, m: int, width: int) -> Outputs:
        """The outputs of ``m`` data sets, copied from the shared file."""
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


def _live(
    parent: Connection, lines: Lines, load: Callable[[], Loaded], values: Sequence[object] | None, budget: RunBudget
) -> Any:
    """The child's whole life; it never returns to what its parent was doing."""
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        parent.close()
        supervise(lambda: _work(lines, load, values), budget.memory, budget.processes)
    finally:
        os._exit(1)


def _work(lines: Lines, load: Callable[[], Loaded], values: Sequence[object] | None) -> None:
    """What the supervised process does: serve until nobody asks any more."""
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    import sys

    # New objects: a lock that another thread held when we forked would never be released here.
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    np.random.seed()  # two children of one parent must not draw the same noise
    serve(lines, load, values, AT_ONCE)


def _end(pid: int, files: ExitStack, gone: list[bool]) -> None:
    """End the child and all that it started, and wait for it."""
    files.close()
    if not gone:
        end_supervised(pid, lambda: os.waitpid(pid, os.WNOHANG)[0] != 0)


def end_supervised(pid: int, ended: Callable[[], bool]) -> None:
    """Have a supervisor end what is below it, and itself; kill its group where it does not."""
    with suppress(ProcessLookupError, PermissionError, ChildProcessError):
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _ENDING
        while not ended():
            if time.monotonic() > deadline:
                os.killpg(pid, signal.SIGKILL)
            time.sleep(0.005)


def checked_rows(records: Records) -> Records:
    """Records as rows of whole numbers or doubles."""
    rows = np.asarray(records)
    if rows.ndim != 2 or rows.size == 0 or rows.dtype.kind not in "iuf":
        raise ParameterError(f"records have shape {rows.shape}; one data set a row, of numbers, is expected")
    return rows.astype(np.float64) if rows.dtype.kind == "f" else rows.astype(np.int64)
