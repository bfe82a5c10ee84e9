"""Whose turn it is: cheap work does not wait behind dear work, and dear work is not forgotten."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

CHEAP: Final = 0.5
"""Seconds of work that may be done out of turn."""
PATIENCE_FACTOR: Final = 10
"""Work of a second lets what came up to so many seconds later go first, if that takes no time; then it is due."""
_NAMES: Final = ("query", "model")


class Costs:
    """How many seconds work takes, learned from what it took before; what was never done is thought cheap."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[object, ...], float] = {}

    def expected(self, job: str, arguments: Mapping[str, Any]) -> float:
        """By the same question on the same model; then by the same question; then by the kind of work."""
        keys = self._keys(job, arguments)
        return next((self._seconds[key] for key in keys if key in self._seconds), CHEAP / 2)

    def learn(self, job: str, arguments: Mapping[str, Any], seconds: float) -> None:
        """What it took this time counts as much as all that is known."""
        for key in self._keys(job, arguments):
            self._seconds[key] = (self._seconds.get(key, seconds) + seconds) / 2
        while len(self._seconds) > 1000:
            del self._seconds[next(iter(self._seconds))]

    def _keys(self, job: str, arguments: Mapping[str, Any]) -> list[tuple[object, ...]]:
        names = [arguments.get(name) for name in _NAMES]
        return [(job, *names[:n]) for n in range(len(names), -1, -1)]


Cost = Callable[[], float]
"""Seconds that work is expected to take, by what is known when it is asked."""


@dataclass(frozen=True, eq=False)
class Waiting:
    """Somebody whose turn has not come."""

    since: float
    cost: Cost
    turn: asyncio.Future[None]

    @property
    def due(self) -> float:
        """When it should have its turn: later the more it takes."""
        return self.since + PATIENCE_FACTOR * self.cost()


class Turns:
    """One at a time, and the earliest due first."""

    def __init__(self) -> None:
        self._waiting: list[Waiting] = []
        self._taken = False
        self._running = 0.0

    @property
    def load(self) -> float:
        """Seconds that everybody here is expected to take."""
        return self._running + sum(waiting.cost() for waiting in self._waiting)

    @asynccontextmanager
    async def turn(self, cost: Cost = lambda: 0.0) -> AsyncIterator[None]:
        """Wait, and hold the turn until the end of the block."""
        await self._wait(cost)
        self._running = max(cost(), 1e-3)
        try:
            yield
        finally:
            self._running = 0.0
            self._pass_on()

    async def _wait(self, cost: Cost) -> None:
        if not self._taken:
            self._taken = True
            return
        waiting = Waiting(time.monotonic(), cost, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            else:
                self._pass_on()  # it had been this one's turn already
            raise

    def _pass_on(self) -> None:
        """Whose turn it is now. What others took meanwhile has taught something, so it is decided only here."""
        self._taken = bool(self._waiting)
        if self._waiting:
            first = min(self._waiting, key=lambda waiting: waiting.due)
            self._waiting.remove(first)
            first.turn.set_result(None)
