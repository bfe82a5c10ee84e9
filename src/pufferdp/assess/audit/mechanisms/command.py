"""A command as a mechanism: it reads one data set a line and writes one output a line.

A line in: the values of the records in order, with commas between. A line out: one number, or several with commas or
blanks between. The command is started once for each set of rows and its input ends after the last, so it may write
its answers one by one or all at the end. What it writes to stderr is shown only where it fails.
"""

from __future__ import annotations

import errno
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from textwrap import shorten
from typing import IO, Final

import numpy as np

from pufferdp.assess.audit.mechanisms import supervisor
from pufferdp.assess.audit.mechanisms.function import MOST_NUMBERS, RunBudget, Spending, checked_rows, end_supervised
from pufferdp.assess.audit.mechanisms.ours import Outputs, Records
from pufferdp.basics import checks
from pufferdp.basics.errors import MechanismError, ParameterError
from pufferdp.basics.progress import Progress

_PORTION: Final = 1 << 16
_LONGEST_LINE: Final = 32 * MOST_NUMBERS
_LONGEST_TEXT: Final = 300


@dataclass(eq=False)
class CommandMechanism:
    """A command that maps lines to lines."""

    command: str
    name: str = ""
    dp_loss: float | None = None
    """The DP loss it claims."""
    values: Sequence[object] | None = None
    """What stands for each state number; None writes the numbers."""
    budget: RunBudget = field(default_factory=RunBudget)
    progress: Progress | None = field(default=None, repr=False)
    _spent: Spending = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.name = self.name or shorten(self.command, 60, placeholder=" …")
        if self.dp_loss is not None:
            self.dp_loss = checks.epsilon(self.dp_loss, "dp_loss")
        try:
            self._words = shlex.split(self.command)
        except ValueError as error:
            raise ParameterError(f"the command {self.command!r} cannot be read: {error}", value=self.command) from None
        if self.values is not None and any(set(str(v)) & set(",\n\r") for v in self.values):
            raise ParameterError("a value has a comma or a line break in it; a line holds one data set, with commas")
        self._spent = Spending(self.budget)

    @property
    def calls(self) -> int:
        """Data sets it was run on so far."""
        return self._spent.calls

    def end_by(self, deadline: float) -> None:
        """Let nothing run past this time of ``time.monotonic``."""
        self._spent.deadline = deadline

    def close(self) -> None:
        """Nothing to do: every run ends its own process."""

    def run(self, records: Records) -> Outputs:
        """One output for each row."""
        rows = checked_rows(records)
        self._spent.admit(self.name, len(rows))
        began = time.monotonic()
        try:
            return self._read(self._answers(self._text(rows), len(rows)), len(rows))
        finally:
            self._spent.seconds += time.monotonic() - began
            self._spent.calls += len(rows)

    def _text(self, rows: Records) -> bytes:
        if self.values is None:
            lines = [",".join(map(repr, row)) for row in rows.tolist()]
        else:
            words = [str(v) for v in self.values]
            lines = [",".join(words[int(x)] for x in row) for row in rows.tolist()]
        return ("\n".join(lines) + "\n").encode()

    def _answers(self, text: bytes, m: int) -> bytes:
        """Feed the command and collect what it writes, until it ends or the deadline comes."""
        if shutil.which(self._words[0] if self._words else "") is None:
            known = self._words and os.path.exists(self._words[0])
            reason = os.strerror(errno.EACCES if known else errno.ENOENT)
            first = self._words[0] if self._words else ""
            raise ParameterError(f"{first!r} cannot be started: {reason}", value=self.command)
        watch = [sys.executable, "-I", "-S", supervisor.__file__, str(self.budget.memory), str(self.budget.processes)]
        try:
            process = subprocess.Popen(
                watch + self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise ParameterError(
                f"{self._words[0]!r} cannot be started: {error.strerror}", value=self.command
            ) from None
        deadline = time.monotonic() + self._spent.seconds_left
        try:
            out, errors = self._exchange(process, text, m, deadline)
            code = process.wait(timeout=max(0.0, min(self.budget.patience, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            raise MechanismError(f"{self.name} closed its output but kept running, and was stopped") from None
        finally:
            _end(process)
        if code != 0:
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            words = " ".join(errors.decode("utf-8", "replace").split())[-_LONGEST_TEXT:]
            raise MechanismError(f"{self.name} ended with {how} on {m:,} data sets" + (f": {words}" if words else ""))
        return out

    def _exchange(self, process: subprocess.Popen[bytes], text: bytes, m: int, deadline: float) -> tuple[bytes, bytes]:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        waiting = memoryview(text)
        out, errors, lines = bytearray(), bytearray(), 0
        with selectors.DefaultSelector() as ready:
            for stream, event in (
                (process.stdin, selectors.EVENT_WRITE),
                (process.stdout, selectors.EVENT_READ),
                (process.stderr, selectors.EVENT_READ),
            ):
                os.set_blocking(stream.fileno(), False)
                ready.register(stream, event)
            while ready.get_map():
                wait = min(self.budget.patience, max(0.0, deadline - time.monotonic()))
                events = ready.select(wait)
                if not events or wait == 0.0:  # also one that writes for ever, to stderr
                    raise self._late_error(wait, lines, m)
                for key, _ in events:
                    if key.fileobj is process.stdin:
                        waiting = _feed(process.stdin, waiting)
                        if not waiting:
                            ready.unregister(process.stdin)
                            process.stdin.close()
                        continue
                    portion = os.read(key.fd, _PORTION)
                    if not portion:
                        ready.unregister(key.fileobj)
                    elif key.fileobj is process.stderr:
                        errors = (errors + portion)[-4 * _LONGEST_TEXT :]
                    else:
                        out += portion
                        lines += portion.count(b"\n")
                        self._check(out, lines, m)
                        if self.progress is not None:
                            self.progress(f"running {self.name}: {min(lines, m):,} of {m:,} runs")
        return bytes(out), bytes(errors)

    def _check(self, out: bytearray, lines: int, m: int) -> None:
        """A command that writes for ever is ended early."""
        if lines > m:
            raise MechanismError(
                f"{self.name} wrote more than {m:,} lines for {m:,} data sets; one line each is expected"
            )
        if len(out) - (out.rfind(b"\n") + 1) > _LONGEST_LINE:
            raise MechanismError(
                f"{self.name} wrote a line of more than {_LONGEST_LINE:,} characters; at most {MOST_NUMBERS:,} numbers "
                "a line are expected"
            )

    def _late_error(self, wait: float, lines: int, m: int) -> Exception:
        if wait < self.budget.patience:
            return self._spent.over(self.name, lines, m)
        return MechanismError(
            f"{self.name} wrote {lines:,} of {m:,} lines and then nothing for {wait:g} s, and was ended; where it is "
            "slow and not stuck, give it more patience"
        )

    def _read(self, out: bytes, m: int) -> Outputs:
        lines = out.decode("utf-8", "replace").splitlines()
        if len(lines) != m:
            raise MechanismError(
                f"{self.name} wrote {len(lines):,} lines for {m:,} data sets; one line each is expected"
            )
        rows: list[list[float]] = []
        for at, line in enumerate(lines, start=1):
            try:
                numbers = [float(word) for word in line.replace(",", " ").split()]
            except ValueError:
                numbers = []
            if not numbers or not np.isfinite(numbers).all():
                raise MechanismError(f"line {at:,} of {self.name} is {line[:60]!r}; finite numbers are expected")
            if len(numbers) != len(rows[0] if rows else numbers):
                raise MechanismError(
                    f"line {at:,} of {self.name} has {len(numbers):,} numbers, and line 1 has {len(rows[0]):,}; an "
                    "output has the same length every time"
                )
            rows.append(numbers)
        if len(rows[0]) > MOST_NUMBERS:
            raise MechanismError(
                f"{self.name} wrote {len(rows[0]):,} numbers a line; at most {MOST_NUMBERS:,} are expected"
            )
        return np.array(rows)


def _feed(stdin: IO[bytes], waiting: memoryview) -> memoryview:
    try:
        return waiting[os.write(stdin.fileno(), waiting[:_PORTION]) :]
    except BlockingIOError:
        return waiting
    except BrokenPipeError:
        return waiting[:0]  # it reads no further; whether its answers are complete shows at the end


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the command and of all that it started."""
    if process.returncode is None:  # nobody has waited for it, so its number is still its own
        end_supervised(process.pid, lambda: process.poll() is not None)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
