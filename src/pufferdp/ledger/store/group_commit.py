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
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pufferdp.basics.errors import LedgerError

if sys.platform != "win32":
    import fcntl

LARGEST: Final = 1 << 16
"""Bytes of a request or an answer that fit into one message."""
_CHAIN: Final = 0.25
"""Seconds after which the lock is let go rather than handed on, for those who wait for the lock itself."""
_PEER: Final = struct.Struct("3i")
"""Process, user and group of whoever made a socket."""
_HANDED: Final = 200
"""Connections that are handed on at once; the system allows 253."""
_LINGER: Final = 0.002
"""Seconds to wait for somebody to hand on to, where others just came: they will come again."""

Write = Callable[[list[bytes]], list[bytes]]


def own(holder: socket.socket) -> bool:
    """Whether the socket was made by this user: in a folder that everybody may write to, others could make one."""
    said = holder.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return bool(_PEER.unpack(said)[1] == os.getuid())


def listen(address: str) -> socket.socket | None:
    """A socket for those who come while the lock is held; only its holder may make one."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with suppress(FileNotFoundError):
            os.unlink(address)  # of a holder that was killed
        listener.bind(address)
        listener.listen(256)
        listener.setblocking(False)
    except OSError:  # a file system without sockets: everybody takes the lock in turn
        listener.close()
        return None
    return listener


class Lead:
    """The place of the one who writes: the lock, the socket, and those who came to it."""

    def __init__(self, lock: int, listener: socket.socket | None, address: str, began: float) -> None:
        self._lock, self._listener, self._address, self._began = lock, listener, address, began
        self.waiting: list[socket.socket] = []
        self.linger, self.met = False, False

    def __enter__(self) -> Lead:
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()

    def settle(self, request: bytes, write: Write, sync: Callable[[], None]) -> bytes:
        """One's own request and all that have come, in one transaction; then hand on, wait for the disk, answer."""
        self._accept()
        requests, askers = [request], []
        try:
            came, self.waiting = self.waiting, []
            for asker in came:
                try:
                    said = asker.recv(LARGEST, socket.MSG_DONTWAIT)
                except BlockingIOError:  # connected, but its request is not there yet: for the next
                    self.waiting.append(asker)
                    continue
                if said:
                    requests.append(said)
                    askers.append(asker)
                else:
                    asker.close()
            answers = write(requests)
            self._accept()
            if self.waiting:
                self._hand_on()
            sync()
            for asker, answer in zip(askers, answers[1:], strict=True):
                try:
                    asker.send(answer, socket.MSG_DONTWAIT)
                except OSError:  # it gave up or was killed: charged, and no answer
                    continue
            self.met = bool(askers)
            if self._lock >= 0:
                self._hand_on()
        finally:  # also where the transaction failed: they see no answer and ask again
            for asker in askers:
                asker.close()
        return answers[0]

    def _accept(self) -> None:
        if self._listener is not None:
            with suppress(OSError):  # that was all
                while len(self.waiting) < _HANDED:
                    self.waiting.append(self._listener.accept()[0])

    def _hand_on(self) -> None:
        """Give lock and socket to one who came later, if there is one."""
        self._accept()
        if self._listener is None or time.monotonic() - self._began > _CHAIN:
            self._let_go()
            return
        if not self.waiting and (self.linger or self.met):
            select.select([self._listener], [], [], _LINGER)
            self._accept()
        while self.waiting:
            heir = self.waiting.pop(0)
            # Its own connection too: closed here with a request unread, it would be reset and what was sent lost.
            handles = [self._lock, self._listener.fileno(), *(one.fileno() for one in (heir, *self.waiting))]
            with heir, suppress(OSError):  # that one was killed
                socket.send_fds(heir, [repr(self._began).encode()], handles, socket.MSG_DONTWAIT)
                self._close()
                return
        self._let_go()

    def _let_go(self) -> None:
        """Let the lock go; whoever came too late asks again."""
        if self._lock < 0:
            return
        if self._listener is not None:
            with suppress(OSError):
                os.unlink(self._address)
            with suppress(OSError):  # a child that was forked meanwhile may hold it too
                self._listener.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        self._close()

    def _close(self) -> None:
        """Close this process's own handles: the lock itself stays with whoever else has them."""
        os.close(self._lock)
        self._lock = -1
        for one in (self._listener, *self.waiting):
            if one is not None:
                one.close()
        self._listener, self.waiting = None, []


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
