"""The child process in which a mechanism from outside runs: it may fail, print or die without harm to the audit.

Records come in one shared file, outputs go out in another, and a pipe carries short messages only, so that neither
side ever waits for the other to empty a pipe. This is a guard against accidents, not against malice: the mechanism
runs with all rights of the user.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np
import numpy.typing as npt

MOST_NUMBERS: Final = 10_000
"""Numbers in one output; what is longer is a mistake, or too long to audit."""
_FLUSH_SECONDS: Final = 0.1
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
        _send(lines.pipe, b"f", f"could not be loaded: {_said(error)}")
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
            raise BadOutputError(f"raised {_said(error)}") from None

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
        """The same length every time, not too long, and all numbers."""
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
        found = np.asarray(back)
        if found.dtype.kind not in "biuf":
            raise ValueError
        return np.asarray(found, dtype=np.float64)
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


def _said(error: BaseException) -> str:
    """The kind of an error and the first line of its message."""
    try:
        words = " ".join(str(error).split())
    except BaseException:
        words = ""
    return type(error).__name__ + (f": {words}" if words else "")


def _send(pipe: Connection, kind: bytes, text: str) -> None:
    pipe.send_bytes(kind + text[:_LONGEST_TEXT].encode("utf-8", "replace"))


def _write(file: int, part: npt.NDArray[np.float64], at: int) -> None:
    data = memoryview(part.tobytes())
    while len(data):
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written
