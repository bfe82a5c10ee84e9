"""Work for a stranger, ended after so much processor time: the author of a problem can make it as large as they like.

How long a problem takes is known for few of them beforehand. So the time is measured, that of the thread alone, so that
a busy machine takes nothing away; and an exception ends the work between two steps of Python, as Ctrl-C does.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from pufferdp.basics.errors import PufferdpError

T = TypeVar("T")
_OFTEN: Final = 0.1
"""Seconds between two looks at the clock."""
_AGAIN: Final = 1.0
"""Seconds after which it is raised once more: where an exception cannot be raised, as while garbage is collected, it is
lost."""


class OutOfTime(BaseException):
    """The time is over. Not an Exception, so that nobody takes it for an error of what is worked out."""


def within(seconds: float, work: Callable[[], T], otherwise: Callable[[], PufferdpError]) -> T:
    """What the work gives back; ``otherwise`` is raised once this thread has spent so much processor time on it.

    A function and no context manager: between a block and the end of its manager the exception would find nobody.
    """
    watch = _Watch(seconds)
    try:
        watch.start()
        try:
            return work()
        finally:
            watch.stop()
    except (OutOfTime, Exception):
        watch.stop()  # it may have come while the first was on its way
        if not watch.ended:
            raise
        # Or what it has become: some libraries make errors of their own of whatever comes up in them.
        raise otherwise() from None


class _Watch(threading.Thread):
    """Looks at the clock of the thread that made it."""

    def __init__(self, seconds: float) -> None:
        super().__init__(name="pufferdp-patience", daemon=True)
        self._watched = threading.get_ident()
        self._end = _spent(self._watched) + seconds
        self._over, self._alone = threading.Event(), threading.Lock()
        self.ended = False
        """Whether the time was over before the work was."""

    def run(self) -> None:
        pause = _OFTEN
        while not self._over.wait(pause):
            if _spent(self._watched) < self._end:
                continue
            with self._alone:
                if not self._over.is_set():
                    self.ended = True
                    _raise_in(self._watched, OutOfTime)
            pause = _AGAIN

    def stop(self) -> None:
        """From here on nothing is raised. Called by the thread that is watched."""
        with self._alone:
            self._over.set()
        if self.ended:
            _take_back()


def _spent(thread: int) -> float:
    """Seconds of processor time that a thread has had; where its clock cannot be asked, seconds that have passed."""
    ask = getattr(time, "pthread_getcpuclockid", None)
    return time.monotonic() if ask is None else time.clock_gettime(ask(thread))


def _take_back() -> None:
    """Take back what this thread has been told to raise, whether it has raised it or not.

    To tell it to raise nothing is not enough: before Python 3.12 the interpreter then goes on looking for what it
    should raise, for ever where a profiler, a debugger or a measure of coverage is at work. So it raises it once more.
    """
    try:
        _raise_in(threading.get_ident(), OutOfTime)
        while True:  # until its next step
            time.sleep(0)
    except OutOfTime:
        return


def _raise_in(thread: int, error: type[BaseException]) -> None:
    """Let a thread raise an exception at its next step."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))
