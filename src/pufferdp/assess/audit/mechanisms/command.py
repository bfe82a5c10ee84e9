"""A command as a mechanism: it reads one data set a line and writes one output a line.

A line in: the values of the records in order, with commas between. A line out: one number, or several with commas or
blanks between. The command is started once for each set of rows and its input ends after the last, so it may write
its answers one by one or all at the end. What it writes to stderr is shown only where it fails.
"""

from __future__ import annotations

import os
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Final

import numpy as np

from pufferdp.assess.audit.mechanisms import supervisor
from pufferdp.assess.audit.mechanisms.limits import LONGEST_TEXT, MOST_NUMBERS, LimitedMechanism
from pufferdp.assess.audit.mechanisms.ours import Outputs, Records
from pufferdp.basics import checks
from pufferdp.basics.errors import MechanismError, ParameterError

_PORTION: Final = 1 << 16
_LONGEST_LINE: Final = 32 * MOST_NUMBERS


@dataclass(eq=False, kw_only=True)
class CommandMechanism(LimitedMechanism):
    """A command that maps lines to lines."""

    command: str
    dp_loss: float | None = None
    """The DP loss it claims."""
    _words: list[str] = field(init=False, repr=False)

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

    def close(self) -> None:
        """Nothing to do: every run ends its own process."""

    def _run(self, rows: Records, deadline: float) -> Outputs:
        if not self._words or shutil.which(self._words[0]) is None:
            first = self._words[0] if self._words else ""
            reason = "Permission denied" if first and os.path.exists(first) else "No such file or directory"
            raise ParameterError(f"{first!r} cannot be started: {reason}", value=self.command)
        words = [str(v) for v in self.values] if self.values is not None else None
        lines = (",".join(map(repr, row) if words is None else (words[int(x)] for x in row)) for row in rows.tolist())
        watch = [sys.executable, "-I", "-S", supervisor.__file__, str(self.budget.memory), str(self.budget.processes)]
        with ExitStack() as stack:
            given = stack.enter_context(tempfile.TemporaryFile())
            given.write("".join(f"{line}\n" for line in lines).encode())
            given.seek(0)
            process = stack.enter_context(
                subprocess.Popen(
                    watch + self._words,
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            )
            stack.callback(_end, process)
            out, errors = self._collect(process, len(rows), deadline)
            try:
                code = process.wait(timeout=max(0.0, min(self.budget.patience, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                raise MechanismError(f"{self.name} closed its output but kept running, and was stopped") from None
        if code != 0:
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            said = " ".join(errors.decode("utf-8", "replace").split())[-LONGEST_TEXT:]
            raise MechanismError(
                f"{self.name} ended with {how} on {len(rows):,} data sets" + (f": {said}" if said else "")
            )
        return self._read(out, len(rows))

    def _collect(self, process: subprocess.Popen[bytes], m: int, deadline: float) -> tuple[bytes, bytes]:
        """What the command writes to stdout, and the end of what it writes to stderr, until both are closed."""
        out, errors, lines = bytearray(), bytearray(), 0
        with selectors.DefaultSelector() as ready:
            for stream in filter(None, (process.stdout, process.stderr)):
                ready.register(stream, selectors.EVENT_READ)
            while ready.get_map():
                wait = min(self.budget.patience, max(0.0, deadline - time.monotonic()))
                events = ready.select(wait)
                if not events or wait == 0.0:  # also one that writes for ever, to stderr
                    raise self._late_error(wait, lines, m)
                for key, _ in events:
                    portion = os.read(key.fd, _PORTION)
                    if not portion:
                        ready.unregister(key.fileobj)
                    elif key.fileobj is process.stderr:
                        errors = (errors + portion)[-4 * LONGEST_TEXT :]
                    else:
                        out += portion
                        lines += portion.count(b"\n")
                        self._check(out, lines, m)
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
            return self.over(lines, m)
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


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the command and of all that it started."""
    if process.returncode is None:  # nobody has waited for it, so its number is still its own
        supervisor.end_supervised(process.pid, lambda: process.poll() is not None)
