"""The one who writes for all who wait: it settles what they ask for, waits for the disk once, and hands on.

Lock and socket are open files, and the system lets one process give such to another. So they are handed on without a
gap, and whatever a process holds is let go of when it ends, however it ends.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

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
