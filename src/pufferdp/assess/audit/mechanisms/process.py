"""A mechanism from outside, run in a child process within a budget: failures become sentences, hangs end.

The child inherits a function by fork, so that closures need not be pickled. Data sets go to it and outputs come back
as arrays of numbers: nothing that the audited code sends is unpickled.

A command reads one data set a line, values in the order of the records with commas between, and writes one output a
line: one number, or several with commas or blanks between. It is started once for each set of data sets and its input
ends after the last, so it may write its answers one by one or all at the end.
"""

from __future__ import annotations

import io
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
from multiprocessing import current_process
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.assess.audit.mechanisms.ours import Outputs, Records
from pufferdp.assess.audit.mechanisms.supervisor import (
    SupervisedProcess,
    become_subreaper,
    end_children,
    exit_words,
    limit,
)
from pufferdp.basics import checks
from pufferdp.basics.errors import MechanismError, ParameterError, PufferdpError, RefusedError
from pufferdp.basics.progress import Progress, silent
from pufferdp.basics.words import a_kind

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
    unit: str = field(default="call", repr=False)
    """What an answer is called in messages: a "call" of a function, or a "line" of the one run of a command."""
    budget: RunBudget = field(default_factory=RunBudget, repr=False)
    progress: Progress = field(default=silent, repr=False)
    calls: int = field(default=0, init=False, repr=False)
    """Data sets it was run on so far."""
    _spent: float = field(default=0.0, init=False, repr=False)
    _deadline: float = field(default=math.inf, init=False, repr=False)
    _child: SupervisedProcess | None = field(default=None, init=False, repr=False)
    _claimed: float = field(default=math.nan, init=False, repr=False)
    """The DP loss that the loaded object claims."""
    _answer: npt.NDArray[np.int64] = field(init=False, repr=False)
    """The number of the answer that is under way, in memory that the child shares; 0 while it is loaded."""

    def __post_init__(self) -> None:
        if not hasattr(os, "fork") or current_process().daemon:
            raise ParameterError(
                "a mechanism from outside is watched from a process of its own, which cannot be started here; audit it "
                "on Linux or macOS, and outside of a multiprocessing.Pool"
            )
        if self.declared is not None:
            self.declared = checks.epsilon(self.declared, "dp_loss")
        self._answer = np.frombuffer(mmap.mmap(-1, 8), dtype=np.int64)

    @property
    def dp_loss(self) -> float | None:
        """Declared, or what the object says of itself."""
        if self.declared is None:
            self._running(self.deadline)
        return self.declared if self.declared is not None or math.isnan(self._claimed) else self._claimed

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
        began, deadline, parts = time.monotonic(), self.deadline, list[Outputs]()
        try:
            child, done = self._running(deadline, len(given)), 0
            with suppress(OSError):  # a child that has died says so below
                child.pipe.send_bytes(_packed(given.astype(np.float64 if given.dtype.kind == "f" else np.int64)))
            while done < len(given):
                parts.append(self._received(child, deadline, done, len(given)))
                done += len(parts[-1])
                self.progress(f"running {self.name}: {done:,} of {len(given):,} runs")
        except BaseException:
            self.close()
            raise
        finally:
            self._spent += time.monotonic() - began
            self.calls += len(given)
        return np.concatenate(parts)

    def close(self) -> None:
        """End the child and all that it started."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _running(self, deadline: float, runs: int = 0) -> SupervisedProcess:
        if self._child is None:
            self._answer[0] = 0
            self._child = SupervisedProcess(partial(_serve, self), self.budget.memory, self.budget.processes)
            try:
                self._claimed = float(self._received(self._child, deadline, 0, runs))
            except BaseException:
                self.close()
                raise
        return self._child

    def _received(self, child: SupervisedProcess, deadline: float, done: int, runs: int) -> Outputs:
        """The next numbers that the child sends; failures, hangs and deaths become errors."""
        patience = self.budget.patience
        wait = min(patience, deadline - time.monotonic())
        try:
            if wait > 0 and child.pipe.poll(wait):
                message = child.pipe.recv_bytes()
                if message[:1] == _FAILED:
                    raise MechanismError(f"{self.name}: {message[1:].decode('utf-8', 'replace')}")
                return np.asarray(_unpacked(message))
        except (EOFError, OSError):
            where = f"during {self.unit} {self._answer[0]:,}" if self._answer[0] else "while it was loaded"
            raise MechanismError(f"{self.name} ended its process {where} ({child.status()})") from None
        if wait < patience:
            raise RunsEndedError(
                f"{self.name} used up its time of {self.budget.seconds:g} s; {done:,} of {runs:,} runs were done: "
                "give it more seconds, or ask for fewer runs"
            )
        what = f"{self.unit} {self._answer[0]:,} did not return" if self._answer[0] else "it was not loaded"
        raise MechanismError(
            f"{self.name}: {what} within {patience:g} s, and was stopped; if it is slow and not stuck, give it "
            "more patience"
        )


_FAILED: Final = b"!"
"""How a message of the child begins that is an error text; all others are arrays, which begin as npy files do."""


def _packed(array: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _unpacked(message: bytes) -> npt.NDArray[Any]:
    return np.asarray(np.load(io.BytesIO(message), allow_pickle=False))


def _serve(mechanism: OutsideMechanism, pipe: Connection) -> None:
    """Load the mechanism and run it on every set of rows that comes, until it fails or is ended; the child's side."""
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    # New objects: a lock that another thread held at the fork would never be released here.
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    np.random.seed()  # two children of one parent must not draw the same noise
    number, unit = mechanism._answer, mechanism.unit
    values = None if mechanism.values is None else np.asarray(list(mechanism.values))
    try:
        loaded = mechanism.load()
        pipe.send_bytes(_packed(np.array(math.nan if loaded.dp_loss is None else float(loaded.dp_loss))))
        width = None
        while True:
            rows = _unpacked(pipe.recv_bytes())
            number[0] = 1 if unit == "line" else number[0] + 1
            done, waiting, last = 0, list[Outputs](), time.monotonic()
            for answer in loaded.answers(rows if values is None else values[rows.astype(np.int64)]):
                batch = min(_MOST_NUMBERS, len(rows) - done) if loaded.batched else None
                waiting.append(_checked(answer, batch, width, f"{unit} {number[0]:,} gave back"))
                width, done = waiting[-1].shape[1], done + len(waiting[-1])
                if done < len(rows):
                    number[0] += 1
                    if time.monotonic() - last >= _FLUSH_SECONDS:
                        pipe.send_bytes(_packed(np.concatenate(waiting)))
                        waiting, last = [], time.monotonic()
            pipe.send_bytes(_packed(np.concatenate(waiting)))  # the last ones when nothing more can go wrong
    except BaseException as error:
        text = str(error) if isinstance(error, BadOutputError) else _error_text(error)
        if not isinstance(error, BadOutputError):
            text = (f"{unit} {number[0]:,} raised " if number[0] else "could not be loaded: ") + text
        pipe.send_bytes(_FAILED + text[:_SHOWN].encode("utf-8", "replace"))


def _checked(back: Any, batch: int | None, length: int | None, gave: str) -> Outputs:
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
    if width != (length or width):
        raise BadOutputError(
            f"{gave} {width:,} numbers, and those before {length:,}; an output has the same length every time"
        )
    if not np.isfinite(out).all():
        raise BadOutputError(f"{gave} {out[~np.isfinite(out)][0]}; finite numbers are expected")
    return out


def batches(function: Callable[[Any], Any]) -> Callable[[npt.NDArray[Any]], Iterator[Any]]:
    """The answers of a function that takes many data sets at once, one a row."""
    return lambda rows: (function(rows[at : at + _MOST_NUMBERS].copy()) for at in range(0, len(rows), _MOST_NUMBERS))


def command_answers(words: Sequence[str], memory: int) -> Callable[[npt.NDArray[Any]], Iterator[list[float]]]:
    """The answers of a command: it is started once for all rows and ends with all that it started."""

    def answers(rows: npt.NDArray[Any]) -> Iterator[list[float]]:
        become_subreaper()
        with tempfile.TemporaryFile() as given:
            given.writelines(",".join(map(str, row)).encode() + b"\n" for row in rows.tolist())
            given.seek(0)
            # It begins without what this process has, so its limit is the memory alone.
            process = subprocess.Popen(
                words,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                preexec_fn=partial(limit, RLIMIT_DATA=memory),
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
        line = 0
        while text := process.stdout.readline(_LONGEST_LINE + 1):
            line += 1
            if line > len(rows):
                raise BadOutputError(
                    f"wrote more than {len(rows):,} lines for {len(rows):,} data sets; one line each is expected"
                )
            yield _numbers(text, line)
        for reader in readers:
            reader.join()
        if process.returncode:
            said = " ".join(b"".join(written).decode("utf-8", "replace").split())[-_SHOWN:]
            how = exit_words(process.returncode)
            raise BadOutputError(f"ended with {how} on {len(rows):,} data sets" + (f": {said}" if said else ""))
        if line < len(rows):
            raise BadOutputError(f"wrote {line:,} lines for {len(rows):,} data sets; one line each is expected")

    return answers


_LONGEST_LINE: Final = 32 * _MOST_NUMBERS


def _end_with(process: subprocess.Popen[bytes]) -> None:
    """End what a command leaves behind: it may hold the output open, which is read to its end."""
    process.wait()
    end_children()


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
    if isinstance(back, np.ndarray):
        return f"an array of shape {back.shape} and type {back.dtype}"
    if isinstance(back, str):
        return f"the text {back[:40]!r}"
    return a_kind(back) + (f" of {len(back):,} items" if isinstance(back, (list, tuple)) else "")


def _error_text(error: BaseException) -> str:
    """The type of an error and its message on one line; of errors of pufferdp the message alone."""
    try:
        words = " ".join(str(error).split())
    except BaseException:
        words = ""
    if isinstance(error, PufferdpError):
        return words
    return type(error).__name__ + (f": {words}" if words else "")
