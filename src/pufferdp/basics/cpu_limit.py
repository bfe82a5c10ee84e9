"""Work on a problem from outside, ended after a limit of processor time: its author can make it as large as they like.

A watching thread measures the processor time of the working thread alone, so that a busy machine takes nothing away,
and ends the work between two steps of Python by an exception, as Ctrl-C does. A child process would be the simpler
limit, but it cannot be had in every thread and system, takes no functions that cannot be pickled, and loses what was
computed before (curves of the same model) for each certificate.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from pufferdp.basics.errors import PufferdpError

T = TypeVar("T")
_INTERVAL: Final = 0.1
"""Seconds between two looks at the clock."""
_REPEAT: Final = 1.0
"""Seconds until it is raised again: an exception is lost where none can be raised, as in the collection of garbage."""


class CpuLimitError(BaseException):
    """The limit is reached. Not an Exception, so that no handler of errors inside the work catches it."""


def run_with_cpu_limit(seconds: float, work: Callable[[], T], too_long: Callable[[], PufferdpError]) -> T:
    """What the work returns; raises ``too_long()`` once this thread has spent so much processor time on it.

    A function and no context manager: between a block and the end of its manager nobody would catch the exception.
    """
    watch = _Watch(seconds)
    try:
        watch.start()
        try:
            return work()
        finally:
            watch.stop()
    except (CpuLimitError, Exception):
        watch.stop()  # the exception may have come while the first call was under way
        if not watch.expired:
            raise
        # Also for other errors: some libraries turn any exception inside them into one of their own.
        raise too_long() from None


class _Watch(threading.Thread):
    """Looks at the clock of the thread that made it."""

    def __init__(self, seconds: float) -> None:
        super().__init__(name="pufferdp-cpu-limit", daemon=True)
        self._worker = threading.get_ident()
        self._end = _cpu_time(self._worker) + seconds
        self._finished, self._lock = threading.Event(), threading.Lock()
        self.expired = False
        """Whether the limit was reached before the work was done."""

    def run(self) -> None:
        interval = _INTERVAL
        while not self._finished.wait(interval):
            if _cpu_time(self._worker) >= self._end:
                with self._lock:
                    if not self._finished.is_set():
                        self.expired = True
                        _raise_in(self._worker)
                interval = _REPEAT

    def stop(self) -> None:
        """Raise nothing from here on. Called by the working thread.

        What was raised and has not arrived is taken back by raising it once more and catching it: before Python 3.12 to
        clear it is not enough, because the interpreter goes on looking for it under a profiler, debugger or coverage.
        """
        with self._lock:
            self._finished.set()
        if self.expired:
            try:
                _raise_in(threading.get_ident())
                while True:  # until the next step of Python
                    time.sleep(0)
            except CpuLimitError:
                return


def _cpu_time(thread: int) -> float:
    """Seconds of processor time of a thread; seconds that have passed where its clock cannot be asked."""
    clock_of = getattr(time, "pthread_getcpuclockid", None)
    return time.monotonic() if clock_of is None else time.clock_gettime(clock_of(thread))


def _raise_in(thread: int) -> None:
    """Let a thread raise CpuLimitError at its next step."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(CpuLimitError))
