"""How far the scan that is running has come, for whoever watches it from another thread."""

from __future__ import annotations

import weakref
from typing import Any

_latest: list[weakref.ref[Any]] = []
"""The connection that was opened last: one scan runs at a time."""


def watch(connection: Any) -> None:
    """Ask this connection from now on."""
    _latest[:] = [weakref.ref(connection)]


def scanned() -> float | None:
    """The share of the running scan that is done, from 0 to 1; None where none runs or nobody knows."""
    connection = _latest[0]() if _latest else None
    percent = -1.0 if connection is None else float(connection.query_progress())
    return percent / 100 if 0 <= percent <= 100 else None
