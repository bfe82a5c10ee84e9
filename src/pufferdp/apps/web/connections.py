"""Connections that do not come to the point are cut: the browser is on this machine, and nothing slow lies between."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

SLOW: Final = 10.0
"""Seconds that a connection has for the head of a request, and to take what is sent to it."""
RATE: Final = 2**20
"""Bytes a second that a body must come with, besides."""


def body_time(size: int) -> float:
    """Seconds that a body of this many bytes may take."""
    return SLOW + size / RATE


class PromptProtocol(H11Protocol):
    """HTTP where the head of a request must come within ``SLOW`` seconds of its first byte, or of the connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """A client has connected and must send a request."""
        super().__init__(*arguments, **options)
        self._due: asyncio.TimerHandle | None = None
        self._watch()

    def data_received(self, data: bytes) -> None:
        """A piece of a request; a next piece gives no new time."""
        super().data_received(data)
        if self._idle:
            self._watch()
        else:
            self._forgive()

    def connection_lost(self, exc: Exception | None) -> None:
        """A client that has gone is not waited for."""
        self._forgive()
        super().connection_lost(exc)

    @property
    def _idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        if self._due is None:
            self._due = self.loop.call_later(SLOW, self._cut)

    def _forgive(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _cut(self) -> None:
        self._due = None
        if self._idle and not self.transport.is_closing():
            self.transport.close()
