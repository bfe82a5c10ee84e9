"""Whose turn it is: cheap work does not wait behind dear work, and dear work is not forgotten.

Each worker has its turns, and all share the processors. So dear work is not begun, even by a worker that has nothing
else to do, while there is cheaper work for every processor.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

CHEAP: Final = 0.5
"""Seconds of work that may be done out of turn."""
PATIENCE_FACTOR: Final = 10
"""Work of a second lets what came up to so many seconds later go first, if that takes no time; then it is due."""
_NAMES: Final = ("query", "model")


class Costs:
    """How many seconds work takes, learned from what it took before; what was never done is thought cheap.

    While it is done for the first time, it is thought to take as long as it has taken until now.
    """

    def __init__(self) -> None:
        self._seconds: dict[tuple[object, ...], float] = {}
        self._begun: dict[tuple[object, ...], float] = {}

    def expected(self, job: str, arguments: Mapping[str, Any]) -> float:
        """By the same question on the same model; then by the same question; then by the kind of work."""
        keys = self._keys(job, arguments)
        known = next((self._seconds[key] for key in keys if key in self._seconds), None)
        if known is not None:
            return known
        begun = self._begun.get(keys[0])
        return CHEAP / 2 if begun is None else max(CHEAP / 2, time.monotonic() - begun)

    @contextmanager
    def doing(self, job: str, arguments: Mapping[str, Any]) -> Iterator[None]:
        """While the block runs, it is done."""
        key = self._keys(job, arguments)[0]
        alone = key not in self._begun
        self._begun.setdefault(key, time.monotonic())
        try:
            yield
        finally:
            if alone:
                del self._begun[key]

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
class Asked:
    """Work that somebody waits for."""

    since: float
    cost: Cost
    turn: asyncio.Future[Turns]
    """Whose turn it was taken from, once it has one."""

    @property
    def due(self) -> float:
        """When it should have its turn: later the more it takes."""
        return self.since + PATIENCE_FACTOR * self.cost()


class Processors:
    """What the workers of one machine share."""

    def __init__(self, number: int | None = None) -> None:
        self.number = number or os.cpu_count() or 1
        self.running: dict[Asked, float] = {}
        """What has its turn, and since when."""
        self.turns: list[Turns] = []

    def admits(self, asked: Asked) -> bool:
        """Whether it may begin: a processor is left by what is cheaper, or it is due.

        Nothing is cheaper than what it has taken already, whatever was expected.
        """
        cost, now = asked.cost(), time.monotonic()
        cheaper = sum(max(other.cost(), now - since) < cost for other, since in self.running.items())
        return cheaper < self.number or asked.due <= now

    def pass_on(self) -> None:
        """Something has come or ended: workers that do nothing begin with what waits for them, the cheapest first.

        Where nothing is admitted something runs, and is followed by the next call: nobody waits for ever.
        """
        waiting = list(self.turns)
        while waiting:
            offers = [(turns, first) for turns in waiting if (first := turns.first()) is not None]
            if not offers:
                return
            turns, first = min(offers, key=lambda offer: offer[1].cost())
            waiting.remove(turns)
            if self.admits(first):
                turns.give(first)
                self.running[first] = time.monotonic()


class Turns:
    """One at a time, and the earliest due first.

    Args:
        processors: what all workers share.
        most: only what is expected to take at most so many seconds has its turn here.
    """

    def __init__(self, processors: Processors | None = None, most: float = math.inf) -> None:
        self._processors = processors or Processors()
        self._processors.turns.append(self)
        self._most = most
        self._waiting: list[Asked] = []
        self._taken = False
        self._paused: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def turn(self, cost: Cost = lambda: 0.0, *, or_at: Turns | None = None) -> AsyncIterator[Turns]:
        """Wait, here and elsewhere, and hold the turn until the end of the block: it says which one."""
        asked = Asked(time.monotonic(), cost, asyncio.get_running_loop().create_future())
        places = (self,) if or_at is None else (self, or_at)
        try:
            for place in places:
                place._waiting.append(asked)
            self._processors.pass_on()
            yield await asked.turn
        finally:
            for place in places:
                place._waiting.remove(asked)
            if asked in self._processors.running:  # also where it was given the turn, and stopped waiting for it
                del self._processors.running[asked]
                asked.turn.result()._taken = False
            self._processors.pass_on()

    def pause(self, until: asyncio.Task[None]) -> None:
        """Whoever works here has to come to rest first."""
        self._paused = until
        until.add_done_callback(lambda _: self._processors.pass_on())

    def first(self) -> Asked | None:
        """Whose turn it would be. What others took meanwhile has taught something, so it is not decided before."""
        if self._taken or (self._paused is not None and not self._paused.done()):
            return None
        # Those who have a turn already, here or elsewhere, are on their way out.
        fitting = [asked for asked in self._waiting if not asked.turn.done() and asked.cost() <= self._most]
        return min(fitting, key=lambda asked: asked.due, default=None)

    def give(self, asked: Asked) -> None:
        """It is this one's turn."""
        self._taken = True
        asked.turn.set_result(self)
