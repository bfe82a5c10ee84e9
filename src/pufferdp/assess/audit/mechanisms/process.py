"""A mechanism from outside, run in a child process within a budget: failures become sentences, hangs end.

The child inherits a function by fork, so that closures need not be pickled. Data sets go to it and outputs come back
as arrays of numbers: nothing that the audited code sends is unpickled.

A command reads one data set a line, values in the order of the records with commas between, and writes one output a
line: one number, or several with commas or blanks between. It is started once for each set of data sets and its input
ends after the last, so it may write its answers one by one or all at the end.
"""

from __future__ import annotations

import io
import json
import math
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.assess.audit.mechanisms import supervisor
from pufferdp.assess.audit.mechanisms.ours import Outputs, Records
from pufferdp.basics import checks
from pufferdp.basics.errors import MechanismError, ParameterError, PufferdpError, RefusedError
from pufferdp.basics.progress import Progress, silent

_MOST_NUMBERS: Final = 10_000
"""Numbers in one output: a longer one is a mistake, or takes too long to audit. Also data sets in one batch."""
_FLUSH_SECONDS: Final = 0.1
"""Outputs come back this often, so that slow runs can be distinguished from a hang."""
_SHOWN: Final = 300
"""Characters of an error of the mechanism that a message shows."""


class RunsEndedError(RefusedError):
    """The seconds or the calls that a mechanism may be run for are used up."""


class BadOutputError(Exception):
    """The mechanism gave back something that is no output; the message goes on after its name."""


@dataclass(frozen=True, kw_only=True)
class RunBudget:
    """How long and how often a mechanism from outside may run, all audits of it together."""

    seconds: float = 3600.0
    """Seconds that all calls together may take."""
    calls: int = 10_000_000
    """Data sets that all runs together may hand over."""
    patience: float = 30.0
    """Seconds without any output after which the mechanism counts as hanging, and is ended."""
    memory: int = 4 * 2**30
    """Bytes that each of its processes may take, besides what it begins with."""
    processes: int = 256
    """Processes and threads that it may start; the system does not hold the superuser to it."""

    def __post_init__(self) -> None:
        for name in ("seconds", "patience"):
            checks.epsilon(getattr(self, name), name)
        for name in ("calls", "memory", "processes"):
            checks.length(getattr(self, name), name)


@dataclass(frozen=True)
class Loaded:
    """A mechanism that is ready to run, in the child."""

    answers: Callable[[npt.NDArray[Any]], Iterable[Any]]
    """One answer after the other for data sets, one a row; for a batch of them where ``batched``."""
    dp_loss: float | None = None
    """The DP loss that the object itself claims."""
    batched: bool = False
    """Whether an answer is for as many data sets as ``batches`` hands over."""
    unit: str = "call"
    """What an answer is called in messages, as in "call 3 gave back nothing"."""


@dataclass(eq=False, kw_only=True)
class OutsideMechanism:
    """A function, a command or an object of another library, run in a child process; see ``outside_mechanism``."""

    name: str
    load: Callable[[], Loaded] = field(repr=False)
    """Makes the mechanism, in the child: importing a file may hang as well."""
    values: Sequence[object] | None = None
    """What stands for each state number; None hands over the numbers."""
    declared: float | None = None
    """The DP loss that the auditor declares; None takes what the object says."""
    budget: RunBudget = field(default_factory=RunBudget, repr=False)
    progress: Progress = field(default=silent, repr=False)
    calls: int = field(default=0, init=False, repr=False)
    """Data sets it was run on so far."""
    _spent: float = field(default=0.0, init=False, repr=False)
    _deadline: float = field(default=math.inf, init=False, repr=False)
    _child: _Child | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not hasattr(os, "fork"):
            raise ParameterError(
                "this system cannot fork, so a mechanism from outside cannot be watched; audit it on Linux or macOS"
            )
        if self.declared is not None:
            self.declared = checks.epsilon(self.declared, "dp_loss")

    @property
    def dp_loss(self) -> float | None:
        """Declared, or what the object says of itself."""
        return self.declared if self.declared is not None else self._running(self.deadline).dp_loss

    def end_by(self, deadline: float) -> None:
        """Let nothing run past this time of ``time.monotonic``."""
        self._deadline = deadline

    @property
    def deadline(self) -> float:
        """When the next runs must end, by ``time.monotonic``."""
        return min(time.monotonic() + self.budget.seconds - self._spent, self._deadline)

    def run(self, records: Records) -> Outputs:
        """One output for each row; failures are pufferdp errors."""
        given = np.asarray(records)
        if given.ndim != 2 or given.size == 0 or given.dtype.kind not in "iuf":
            raise ParameterError(f"records have shape {given.shape}; one data set a row, of numbers, is expected")
        if self.calls + len(given) > self.budget.calls:
            raise RunsEndedError(
                f"{self.name} was run {self.calls:,} times, and {len(given):,} runs more pass its budget of "
                f"{self.budget.calls:,} calls; give it more calls, or ask for fewer runs"
            )
        began, deadline = time.monotonic(), self.deadline
        try:
            if began >= deadline:
                raise self._time_is_up(0, len(given))
            return self._outputs(given.astype(np.float64 if given.dtype.kind == "f" else np.int64), deadline)
        except BaseException:
            self.close()
            raise
        finally:
            self._spent += time.monotonic() - began
            self.calls += len(given)

    def close(self) -> None:
        """End the child and all that it started."""
        if self._child is not None:
            self._child.pipe.close()
            self._child.process.end()
            self._child = None

    def _outputs(self, rows: npt.NDArray[Any], deadline: float) -> Outputs:
        child = self._running(deadline)
        with suppress(OSError):  # a child that has died says so below
            child.pipe.send_bytes(_packed(rows))
        parts, done = list[Outputs](), 0
        while done < len(rows):
            parts.append(_unpacked(self._next_message(child, deadline, done, len(rows))))
            done += len(parts[-1])
            self.progress(f"running {self.name}: {done:,} of {len(rows):,} runs")
        return np.concatenate(parts)

    def _running(self, deadline: float) -> _Child:
        if self._child is None:
            self._child = _Child(self)
            try:
                loaded = json.loads(self._next_message(self._child, deadline, 0, 0))
                self._child.dp_loss, self._child.unit = loaded["dp_loss"], loaded["unit"]
            except BaseException:
                self.close()
                raise
        return self._child

    def _next_message(self, child: _Child, deadline: float, done: int, m: int) -> bytes:
        """The next message of the child; failures, hangs and deaths become errors."""
        patience = self.budget.patience
        wait = min(patience, max(0.0, deadline - time.monotonic()))
        try:
            if child.pipe.poll(wait):
                message = child.pipe.recv_bytes()
                if message[:1] == _FAILED:
                    raise MechanismError(f"{self.name}: {message[1:].decode('utf-8', 'replace')}")
                return message[1:]
        except (EOFError, OSError):
            where = f"during {child.unit} {child.calls[0]:,}" if child.calls[0] else "while it was loaded"
            raise MechanismError(f"{self.name} ended its process {where} ({child.process.status()})") from None
        if wait < patience:
            raise self._time_is_up(done, m)
        what = f"{child.unit} {child.calls[0]:,} did not return" if child.calls[0] else "it was not loaded"
        raise MechanismError(
            f"{self.name}: {what} within {patience:g} s, and was stopped; if it is slow and not stuck, give it "
            "more patience"
        )

    def _time_is_up(self, done: int, m: int) -> RunsEndedError:
        return RunsEndedError(
            f"{self.name} used up its time of {self.budget.seconds:g} s; {done:,} of {m:,} runs were done: "
            "give it more seconds, or ask for fewer runs"
        )


_DONE, _FAILED = b"d", b"f"
"""First bytes of messages of the child."""


def _packed(array: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _unpacked(message: bytes) -> npt.NDArray[Any]:
    return np.asarray(np.load(io.BytesIO(message), allow_pickle=False))


class _Child:
    """The child process, the pipe to it, and what it says of itself."""

    def __init__(self, mechanism: OutsideMechanism) -> None:
        self.dp_loss: float | None = None
        self.unit = "call"
        self.calls: npt.NDArray[np.int64] = np.frombuffer(mmap.mmap(-1, 8), dtype=np.int64)
        """The number of the answer that is under way, in memory that both processes share."""
        self.pipe, theirs = Pipe()

        def work() -> None:
            self.pipe.close()
            _Server(theirs, self.calls, mechanism).serve()

        self.process = supervisor.SupervisedProcess(work, mechanism.budget.memory, mechanism.budget.processes)
        theirs.close()


class _Server:
    """The child's side: loads the mechanism, runs it on every set of rows that it gets, and ends with the parent."""

    def __init__(self, pipe: Connection, calls: npt.NDArray[np.int64], mechanism: OutsideMechanism) -> None:
        self._pipe, self._calls, self._load = pipe, calls, mechanism.load
        self._values = None if mechanism.values is None else np.asarray(list(mechanism.values))
        self._width: int | None = None

    def serve(self) -> None:
        """Answer until nobody asks any more."""
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        # New objects: a lock that another thread held at the fork would never be released here.
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        np.random.seed()  # two children of one parent must not draw the same noise
        try:
            loaded = self._load()
            dp_loss = None if loaded.dp_loss is None else float(loaded.dp_loss)
        except BaseException as error:
            self._fail(f"could not be loaded: {_error_text(error)}")
            return
        self._pipe.send_bytes(_DONE + json.dumps({"dp_loss": dp_loss, "unit": loaded.unit}).encode())
        with suppress(EOFError):
            while True:
                rows = _unpacked(self._pipe.recv_bytes())
                try:
                    self._answer(rows if self._values is None else self._values[rows.astype(np.int64)], loaded)
                except BadOutputError as error:
                    self._fail(str(error))
                    return
                except BaseException as error:
                    self._fail(f"{loaded.unit} {self._calls[0]:,} raised {_error_text(error)}")
                    return

    def _fail(self, text: str) -> None:
        self._pipe.send_bytes(_FAILED + text[:_SHOWN].encode("utf-8", "replace"))

    def _answer(self, rows: npt.NDArray[Any], loaded: Loaded) -> None:
        """Send outputs for all rows, in small portions; the last one when nothing more can go wrong."""
        done, waiting, last = 0, list[Outputs](), time.monotonic()
        self._calls[0] = 1 if loaded.unit == "line" else self._calls[0] + 1
        for answer in loaded.answers(rows):
            batch = min(_MOST_NUMBERS, len(rows) - done) if loaded.batched else None
            waiting.append(self._checked(answer, batch, f"{loaded.unit} {self._calls[0]:,} gave back"))
            done += len(waiting[-1])
            if done < len(rows):
                self._calls[0] += 1
                if time.monotonic() - last >= _FLUSH_SECONDS:
                    self._pipe.send_bytes(_DONE + _packed(np.concatenate(waiting)))
                    waiting, last = [], time.monotonic()
        self._pipe.send_bytes(_DONE + _packed(np.concatenate(waiting)))

    def _checked(self, back: Any, batch: int | None, gave: str) -> Outputs:
        """One row for each data set; outputs that are no numbers, not finite, too long or of another length fail."""
        rule = "a number, or a list of numbers"
        if batch is not None:
            rule = f"one row of numbers for each of the {batch:,} data sets"
        try:
            array = np.asarray(back)
            fits = array.ndim <= 1 if batch is None else array.ndim in (1, 2) and len(array) == batch
            if array.dtype.kind not in "biuf" or not fits:
                raise ValueError
            out = np.asarray(array, dtype=np.float64).reshape(1 if batch is None else batch, -1)
        except Exception:
            raise BadOutputError(f"{gave} {_about(back)}; {rule} is expected") from None
        width = out.shape[1]
        if not 1 <= width <= _MOST_NUMBERS:
            raise BadOutputError(f"{gave} {width:,} numbers; from 1 to {_MOST_NUMBERS:,} are expected")
        if width != (self._width or width):
            raise BadOutputError(
                f"{gave} {width:,} numbers, and those before {self._width:,}; an output has the same length every time"
            )
        if not np.isfinite(out).all():
            raise BadOutputError(f"{gave} {out[~np.isfinite(out)][0]}; finite numbers are expected")
        self._width = width
        return out


def batches(function: Callable[[Any], Any]) -> Callable[[npt.NDArray[Any]], Iterator[Any]]:
    """The answers of a function that takes many data sets at once, one a row."""
    return lambda rows: (function(rows[at : at + _MOST_NUMBERS].copy()) for at in range(0, len(rows), _MOST_NUMBERS))


def command_answers(words: Sequence[str], memory: int) -> Callable[[npt.NDArray[Any]], Iterator[list[float]]]:
    """The answers of a command: it is started once for all rows and ends with all that it started."""

    def answers(rows: npt.NDArray[Any]) -> Iterator[list[float]]:
        supervisor.become_subreaper()
        with tempfile.TemporaryFile() as given:
            given.writelines(",".join(map(str, row)).encode() + b"\n" for row in rows.tolist())
            given.seek(0)
            # It begins without what this process has, so its limit is the memory alone.
            limit = partial(supervisor.set_limits, {"RLIMIT_DATA": memory})
            process = subprocess.Popen(
                words, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit
            )
        assert process.stdout is not None
        assert process.stderr is not None
        written = deque[bytes](maxlen=2)  # the end of what it writes to stderr, read all the while
        readers = [
            Thread(target=written.extend, args=(iter(partial(os.read, process.stderr.fileno(), _SHOWN), b""),)),
            Thread(target=_end_with, args=(process,)),
        ]
        for reader in readers:
            reader.start()
        for line in range(1, len(rows) + 1):
            text = process.stdout.readline(_LONGEST_LINE + 1)
            if not text:
                break
            yield _numbers(text, line)
        else:
            line += 1
            if process.stdout.read(1):
                raise BadOutputError(
                    f"wrote more than {len(rows):,} lines for {len(rows):,} data sets; one line each is expected"
                )
        for reader in readers:
            reader.join()
        if process.returncode:
            said = " ".join(b"".join(written).decode("utf-8", "replace").split())[-_SHOWN:]
            how = supervisor.exit_words(process.returncode)
            raise BadOutputError(f"ended with {how} on {len(rows):,} data sets" + (f": {said}" if said else ""))
        if line <= len(rows):
            raise BadOutputError(f"wrote {line - 1:,} lines for {len(rows):,} data sets; one line each is expected")

    return answers


_LONGEST_LINE: Final = 32 * _MOST_NUMBERS


def _end_with(process: subprocess.Popen[bytes]) -> None:
    """End what a command leaves behind: it may hold the output open, which is read to its end."""
    process.wait()
    supervisor.end_children()


def _numbers(text: bytes, line: int) -> list[float]:
    if len(text) > _LONGEST_LINE:
        raise BadOutputError(
            f"wrote a line of more than {_LONGEST_LINE:,} characters; at most {_MOST_NUMBERS:,} numbers a line are "
            "expected"
        )
    words = text.decode("utf-8", "replace").strip()
    try:
        return [float(word) for word in words.replace(",", " ").split()]
    except ValueError:
        raise BadOutputError(f"line {line:,} is {words[:60]!r}; finite numbers are expected") from None


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
    """The type of an error and its message on one line; of errors of pufferdp the message alone."""
    try:
        words = " ".join(str(error).split())
    except BaseException:
        words = ""
    if isinstance(error, PufferdpError):
        return words
    return type(error).__name__ + (f": {words}" if words else "")
