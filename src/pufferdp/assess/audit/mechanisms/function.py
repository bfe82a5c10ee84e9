"""Runs a Python function in a child process, with a deadline: failures become sentences, hangs end.

The child inherits the function by fork, so that closures need not be pickled. Rows go to it and outputs come back as
raw numbers: nothing that the audited code sends is unpickled.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import struct
import sys
import time
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pufferdp.assess.audit.mechanisms.limits import LONGEST_TEXT, MOST_NUMBERS, LimitedMechanism
from pufferdp.assess.audit.mechanisms.ours import Outputs, Records
from pufferdp.assess.audit.mechanisms.supervisor import end_supervised, supervise
from pufferdp.basics import checks
from pufferdp.basics.errors import MechanismError, ParameterError, PufferdpError

_FLUSH_SECONDS: Final = 0.1
"""Outputs come back this often, so that slow runs can be distinguished from a hang."""
_AT_ONCE: Final = 10_000
"""Data sets handed to a batched function in one call."""
_ASKED, _ANSWERED = struct.Struct("<qq1s"), struct.Struct("<q")
"""Heads of messages: rows, records and type of the number; numbers in one output."""

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Loaded:
    """What a mechanism is made of once it is loaded."""

    function: Function
    dp_loss: float | None = None
    """The DP loss that the object itself claims."""
    batched: bool = False
    """Whether the function takes many data sets at once, one a row."""


@dataclass(eq=False, kw_only=True)
class GuardedFunction(LimitedMechanism):
    """A Python function as a mechanism, in a child process of its own; see ``outside_mechanism``."""

    load: Callable[[], Loaded] = field(repr=False)
    """Makes the function, in the child: importing a file may hang as well."""
    declared: float | None = None
    """The DP loss that the auditor declares; None takes what the object says."""
    _child: _Child | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not hasattr(os, "fork"):
            raise ParameterError(
                "this system cannot fork, so a Python function cannot be watched; audit it as a command: "
                "command:python FILE.py"
            )
        if self.declared is not None:
            self.declared = checks.epsilon(self.declared, "dp_loss")

    @property
    def dp_loss(self) -> float | None:
        """Declared, or what the object says of itself."""
        return self.declared if self.declared is not None else self._running(self.deadline).dp_loss

    def close(self) -> None:
        """End the child and all that it started."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _run(self, rows: Records, deadline: float) -> Outputs:
        child = self._running(deadline)
        kind = b"i" if rows.dtype.kind == "i" else b"f"
        with suppress(OSError):  # a child that has died says so below
            child.pipe.send_bytes(_ASKED.pack(*rows.shape, kind) + rows.tobytes())
        parts, done = list[Outputs](), 0
        while done < len(rows):
            message = self._next_message(child, deadline, done, len(rows))
            if message[:1] != b"r":
                raise MechanismError(f"{self.name}: {_text(message)}")
            (width,) = _ANSWERED.unpack_from(message, 1)
            parts.append(np.frombuffer(message, offset=1 + _ANSWERED.size).reshape(-1, width))
            done += len(parts[-1])
            self.progress(f"running {self.name}: {done:,} of {len(rows):,} runs")
        return np.concatenate(parts)

    def _running(self, deadline: float) -> _Child:
        if self._child is None:
            self._child = child = _Child(self)
            try:
                message = self._next_message(child, deadline, 0, 0)
                if message[:1] != b"h":
                    raise MechanismError(f"{self.name} {_text(message)}")
            except BaseException:
                self.close()
                raise
            child.dp_loss = json.loads(_text(message))
        return self._child

    def _next_message(self, child: _Child, deadline: float, done: int, m: int) -> bytes:
        """The next message; hangs and deaths become errors."""
        patience, calls = self.budget.patience, child.calls
        wait = min(patience, max(0.0, deadline - time.monotonic()))
        try:
            if child.pipe.poll(wait):
                return child.pipe.recv_bytes()
        except (EOFError, OSError):
            where = f"during call {int(calls[0]):,}" if calls[0] else "while it was loaded"
            raise MechanismError(f"{self.name} ended its process {where} ({child.status()})") from None
        if wait < patience:
            raise self.over(done, m)
        what = f"call {int(calls[0]):,} did not return" if calls[0] else "it was not loaded"
        raise MechanismError(
            f"{self.name}: {what} within {patience:g} s, and was stopped; if it is slow and not stuck, give it "
            "more patience"
        )


def _text(message: bytes) -> str:
    return message[1:].decode("utf-8", "replace")


class _Child:
    """The child process and the pipe to it."""

    def __init__(self, mechanism: GuardedFunction) -> None:
        self.dp_loss: float | None = None
        self.calls: npt.NDArray[np.int64] = np.frombuffer(mmap.mmap(-1, 8), dtype=np.int64)
        """The number of the call that is under way, in memory that both processes share."""
        self.pipe, theirs = Pipe()
        with warnings.catch_warnings():
            # Python warns that other threads do not live on in the child: it needs none of them.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                self.pipe.close()
                server = _Server(theirs, self.calls, mechanism)
                supervise(server.serve, mechanism.budget.memory, mechanism.budget.processes)
            finally:
                os._exit(1)
        theirs.close()
        self._reaped: list[bool] = []
        self.end = weakref.finalize(self, _end, self.pid, self.pipe, self._reaped)

    def status(self) -> str:
        """How the process ended."""
        with suppress(ChildProcessError, ProcessLookupError):
            for _ in range(100):
                pid, code = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self._reaped.append(True)  # its number may be another process's from now on
                    code = os.waitstatus_to_exitcode(code)
                    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
                time.sleep(0.01)
        return "it no longer answers"


def _end(pid: int, pipe: Connection, reaped: list[bool]) -> None:
    """End the child and all that it started, and wait for it."""
    pipe.close()
    if not reaped:
        end_supervised(pid, lambda: os.waitpid(pid, os.WNOHANG)[0] != 0)


class BadOutputError(Exception):
    """What came back is no output; the message goes on after «call 3 »."""


class _Server:
    """The child's side: loads the mechanism, runs it on every set of rows that it gets, and ends with the parent."""

    def __init__(self, pipe: Connection, calls: npt.NDArray[np.int64], mechanism: GuardedFunction) -> None:
        self._pipe, self._calls, self._load = pipe, calls, mechanism.load
        self._values = None if mechanism.values is None else np.asarray(list(mechanism.values))
        self._width: int | None = None

    def serve(self) -> None:
        """Answer until nobody asks any more."""
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        # New objects: a lock that another thread held when we forked would never be released here.
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        np.random.seed()  # two children of one parent must not draw the same noise
        try:
            loaded = self._load()
            self._send(b"h", json.dumps(None if loaded.dp_loss is None else float(loaded.dp_loss)))
        except BaseException as error:
            self._send(b"f", f"could not be loaded: {_error_text(error)}")
            return
        with suppress(EOFError):
            while True:
                try:
                    self._answer(self._pipe.recv_bytes(), loaded)
                except BadOutputError as error:
                    self._send(b"f", f"call {int(self._calls[0]):,} {error}")
                    return

    def _send(self, kind: bytes, text: str) -> None:
        self._pipe.send_bytes(kind + text[:LONGEST_TEXT].encode("utf-8", "replace"))

    def _answer(self, message: bytes, loaded: Loaded) -> None:
        """Outputs for all rows, sent in small portions."""
        m, n, kind = _ASKED.unpack_from(message)
        rows = np.frombuffer(message, dtype=np.int64 if kind == b"i" else np.float64, offset=_ASKED.size).reshape(m, n)
        if self._values is not None:
            rows = self._values[rows.astype(np.int64)]
        waiting, last = list[Outputs](), time.monotonic()
        step = _AT_ONCE if loaded.batched else 1
        for first in range(0, m, step):
            self._calls[0] += 1
            some = np.array(rows[first : first + step])  # a copy: what the mechanism does to it is its own affair
            try:
                back = loaded.function(some if loaded.batched else some[0])
            except BaseException as error:
                raise BadOutputError(f"raised {_error_text(error)}") from None
            waiting.append(self._checked(back, len(some) if loaded.batched else None))
            if time.monotonic() - last >= _FLUSH_SECONDS or first + step >= m:
                part = np.concatenate(waiting)
                self._pipe.send_bytes(b"r" + _ANSWERED.pack(part.shape[1]) + part.tobytes())
                waiting, last = [], time.monotonic()

    def _checked(self, back: Any, batch: int | None) -> Outputs:
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
            raise BadOutputError(f"gave back {_about(back)}; {rule} is expected") from None
        width = out.shape[1]
        if not 1 <= width <= MOST_NUMBERS:
            raise BadOutputError(f"gave back {width:,} numbers; from 1 to {MOST_NUMBERS:,} are expected")
        if self._width is not None and width != self._width:
            raise BadOutputError(
                f"gave back {width:,} numbers, and the calls before {self._width:,}; an output has the same length "
                "every time"
            )
        if not np.isfinite(out).all():
            raise BadOutputError(f"gave back {out[~np.isfinite(out)][0]}; finite numbers are expected")
        self._width = width
        return out


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
    """The type of an error and its message on one line; of our own the message alone."""
    try:
        words = " ".join(str(error).split())
    except BaseException:
        words = ""
    if isinstance(error, PufferdpError):
        return words
    return type(error).__name__ + (f": {words}" if words else "")
