"""Whose turn it is to write to a file, and one process that writes for all who wait.

SQLite makes waiters poll, with sleeps that grow: late comers overtake, and the disk idles. So whoever wants to write
first takes a lock on a file beside the ledger, which the system hands on when its holder ends, however it ends. The
lock is for order and speed alone: SQLite's own locks keep the ledger right without it.

Charges are small and many. Whoever finds the lock taken sends its request to the holder's socket beside the ledger;
the holder settles all that have come in one transaction, waits for the disk once, answers, and hands lock and socket
on to one who came meanwhile. Nobody waits for more than the batch before. Where a holder is killed the system closes
its socket: whoever had no answer asks again. A charge may then have been made without an answer, never the other way.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pufferdp.errors import LedgerError
from pufferdp.ledger.sharing import LARGEST, Lead, Write, listen, own

if sys.platform != "win32":  # there SQLite's own waiting has to do
    import fcntl

_RECENT: Final = 0.1
"""Seconds after others were met within which they are expected."""
_PAUSE: Final = 0.0001
"""Seconds before asking again; it doubles with each time, up to a hundredth."""


class Turns:
    """The lock beside one file."""

    def __init__(self, path: str, wait: float) -> None:
        self._path, self._wait = path, wait
        self._address = path + ".sock"
        self._handle: int | None = None
        self._owner = 0
        self._met = -_RECENT
        self.shares = sys.platform == "linux" and len(os.fsencode(self._address)) < 108
        """Whether one process may write for others: the system knows such sockets, and the name is not too long."""

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One's turn, or an error after waiting too long."""
        handle = self._open()
        if handle is None:
            yield
            return
        if not self._get(handle):
            self._handle = None  # the thread that still waits closes it
            raise self._busy()
        try:
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)

    def share(self, request: bytes, write: Write, sync: Callable[[], None]) -> bytes:
        """The answer to a request: from the one who writes for others now, or as the one who does.

        Args:
            request: one's own.
            write: settles requests in one transaction; their answers, in order.
            sync: waits until what was written is on disk.
        """
        deadline, pause = time.monotonic() + self._wait, _PAUSE
        while True:
            got = self._follow(request, deadline)
            if isinstance(got, bytes):
                self._met = time.monotonic()
                return got
            lead = got or self._take()
            if lead is not None:
                with lead:
                    lead.linger = got is not None or time.monotonic() - self._met < _RECENT
                    answer = lead.settle(request, write, sync)
                    if lead.met:
                        self._met = time.monotonic()
                    return answer
            self._met = time.monotonic()
            if time.monotonic() > deadline:
                raise self._busy()
            time.sleep(pause)  # the holder has no socket yet, or none any more
            pause = min(2 * pause, 0.01)

    def close(self) -> None:
        """Let go of the file."""
        if self._handle is not None and self._owner == os.getpid():
            os.close(self._handle)
        self._handle = None

    def _take(self) -> Lead | None:
        """The lock, if nobody has it."""
        try:
            lock = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise LedgerError(f"the folder of {self._path!r} cannot be written to: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        except OSError:  # a file system without such locks
            pass
        except BaseException:
            os.close(lock)
            raise
        return Lead(lock, listen(self._address), self._address, time.monotonic())

    def _follow(self, request: bytes, deadline: float) -> bytes | Lead | None:
        """The holder's answer, or its place; nothing where it has no socket or went away."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as holder:
            holder.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                holder.connect(self._address)
                if not own(holder):
                    return None
                holder.send(request)
                said, handles, _, _ = socket.recv_fds(holder, LARGEST, 253, socket.MSG_CMSG_CLOEXEC)
            except TimeoutError:
                raise self._busy() from None
            except OSError:
                return None
        if not handles:
            return said or None
        lock, listener, own_end, *waiting = handles
        os.close(own_end)
        lead = Lead(lock, socket.socket(fileno=listener), self._address, float(said))
        lead.waiting = [socket.socket(fileno=handle) for handle in waiting]
        return lead

    def _busy(self) -> LedgerError:
        return LedgerError(
            f"the ledger was busy for {self._wait:g} s; try again, and if it stays busy look for a process that "
            f"holds {self._path!r}"
        )

    def _open(self) -> int | None:
        """This process's own: a lock is shared with children that were forked."""
        if sys.platform == "win32":
            return None
        if self._handle is None or self._owner != os.getpid():
            try:
                self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                self._owner = os.getpid()
            except OSError:
                return None  # a folder that cannot be written: SQLite will say so
        return self._handle

    def _get(self, handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _Waiter(handle).wait(self._wait)
        except OSError:  # a file system without such locks
            return True
        return True


class _Waiter:
    """A lock that is waited for in a thread, because the system's call knows no time limit."""

    def __init__(self, handle: int) -> None:
        self._handle, self._mutex = handle, threading.Lock()
        self._has, self._gave_up = False, False

    def wait(self, seconds: float) -> bool:
        """Whether it came in time."""
        thread = threading.Thread(target=self._block, daemon=True)
        thread.start()
        try:
            thread.join(seconds)
        finally:  # also when the user stops it
            with self._mutex:
                self._gave_up = not self._has
        return self._has

    def _block(self) -> None:
        while True:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX)
                break
            except OSError:
                time.sleep(0.01)
        with self._mutex:
            self._has = not self._gave_up
        if not self._has:
            os.close(self._handle)
