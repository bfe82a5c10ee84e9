"""Signals that would end the process, held back while what was charged is on its way to its owner."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

_NOT_HELD: Final = {
    getattr(signal, f"SIG{name}", None)
    for name in (
        *("KILL", "STOP"),  # cannot be caught
        *("CHLD", "CONT", "INFO", "TSTP", "TTIN", "TTOU", "URG", "WINCH"),  # do not end a process
        *("BUS", "EMT", "FPE", "ILL", "SEGV"),  # an instruction that fails would be tried again for ever
    )
}
_SIGNALS: Final = sorted(signal.valid_signals() - _NOT_HELD)
"""Signals that end a process and can be held back: whatever their source, a charge keeps its answer."""


class Interrupted(KeyboardInterrupt):
    """A signal that came where it may end what is going on."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class _Signals:
    """Who holds signals back, and which have come. There is one: signals are a matter of the whole process."""

    def __init__(self) -> None:
        self.holding: list[bool] = []
        """For each block that is open, innermost last: whether it holds signals back, or lets them end it."""
        self.prolonged = False
        self.pending: list[int] = []
        self.previous: dict[int, Any] = {}
        """The handlers that were replaced, by signal; none before anything is held."""

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self.holding and not self.holding[-1]:
            raise Interrupted(number)
        self.pending.append(number)

    def install(self) -> None:
        for number in _SIGNALS if not self.previous else ():
            # What is ignored stays so, as under nohup; a handler that Python has not set could not be put back.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self.previous[number] = signal.signal(number, self.handle)

    def restore(self) -> list[int]:
        """Put the handlers back; the signals that have come."""
        for number, handler in self.previous.items():
            signal.signal(number, handler)
        received = self.pending
        self.pending, self.previous = [], {}
        return received


_STATE: Final = _Signals()


def _elsewhere() -> bool:
    """Whether this is a thread that gets no signals."""
    return threading.current_thread() is not threading.main_thread()


def _end_where_allowed() -> None:
    """Raise a signal that was held back until now, where it may end what is going on."""
    if _STATE.holding and not _STATE.holding[-1] and _STATE.pending:
        raise Interrupted(_STATE.pending.pop(0))


def anything_held() -> bool:
    """Whether signals are held back inside ``until_delivered``: something was about to be charged, at least."""
    return _STATE.prolonged and bool(_STATE.previous)


@contextmanager
def held() -> Iterator[None]:
    """Hold signals back until the end of the block, or of the ``until_delivered`` that it stands in."""
    if _elsewhere():
        yield
        return
    _STATE.install()
    _STATE.holding.append(True)
    try:
        yield
    finally:
        _STATE.holding.pop()
        if not _STATE.holding and not _STATE.prolonged:
            for number in dict.fromkeys(_STATE.restore()):
                signal.raise_signal(number)
    _end_where_allowed()


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside ``held``: a signal raises Interrupted here, one that has come already at once."""
    if _elsewhere() or not _STATE.holding:
        yield
        return
    _STATE.holding.append(False)
    try:
        _end_where_allowed()
        yield
    finally:
        _STATE.holding.pop()


@contextmanager
def until_delivered() -> Iterator[list[int]]:
    """What is held inside this block is held until its end; the signals are then in the list, and not raised.

    Nothing is held before the first ``held``: as long as nothing is charged Ctrl-C ends at once.
    """
    received: list[int] = []
    if _elsewhere() or _STATE.prolonged:
        yield received
        return
    _STATE.prolonged = True
    try:
        yield received
    finally:
        _STATE.prolonged = False
        received += _STATE.restore()
