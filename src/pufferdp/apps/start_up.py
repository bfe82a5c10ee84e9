"""How the command line begins: what its process prints of errors, and when it was.

What is told how many seconds it has in all must know that starting takes some of them.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from typing import Any, Final

_BUSY: Final = 10.0
"""Seconds that a second of processor time takes on a busy machine, at most. A process that was something else before
it became this one is older than it began."""
_began: list[float] = []


def note_start() -> None:
    """The process is the command line's own, and is here after what Python needed to start."""
    _began[:] = [time.monotonic() - min(_age(), _BUSY * time.process_time())]
    # Products of small matrices are slower on several threads, four times so where another process is busy.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def seconds_since_start() -> float:
    """Seconds since the process began; 0 where the command line runs in another process."""
    return time.monotonic() - _began[0] if _began else 0.0


def _age() -> float:
    """Seconds that this process is old; its processor time where the system does not tell (``/proc``, on Linux)."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])  # field 22 of proc(5): since the system started
        return max(time.process_time(), time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return time.process_time()


def tell_without_words() -> None:
    """Have errors that nobody can be told of, in threads and in objects that are taken apart, printed without words."""
    sys.unraisablehook = threading.excepthook = _unraised


def _unraised(unraised: Any) -> None:
    if unraised.exc_value is not None and not isinstance(unraised.exc_value, SystemExit):
        from pufferdp.basics.unexpected import describe_unexpected

        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"pufferdp: {describe_unexpected(unraised.exc_value)}\n")
