"""Work is done in processes beside the server: it stays responsive, and work that nobody waits for can be ended.

A worker is one process that does one job after the other. Whoever stops listening to a job stops it: the job is told
to end at its next step, and its process is ended where that takes longer than ``PATIENCE``. A job that charges asks
before it does. Once it may, it is never ended: everybody waits for it, also whoever ends the server.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Any, Final

from pufferdp.basics.progress import CHARGING
from pufferdp.basics.scratch import sweep

PATIENCE: Final = 0.5
"""Seconds a job has to end by itself; a new process takes about as long to start."""
ENDS: Final = ("done", "refused", "broken")
Message = tuple[str, Any]
"""What a job says: progress (words), part (something to show already), done, refused or broken."""


class Worker:
    """One process, started when it is first needed."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._pump: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[asyncio.subprocess.Process] | None = None
        self._settling: asyncio.Task[None] | None = None
        self._sent: set[str] = set()
        self._jobs = 0
        self._charging: asyncio.Event | None = None
        """While a job may have charged: set once it has ended."""

    async def start(self) -> asyncio.subprocess.Process:
        """The process, a new one where there is none. Whoever stops waiting for it leaves it to the next."""
        if self._process is not None and self._process.returncode is None:
            return self._process
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(self._starting)

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "pufferdp.apps.web.worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=2**20,
                start_new_session=True,  # Ctrl-C is for the server, which ends its processes itself
            )
        finally:
            self._starting = None
        self._messages, self._sent, self._jobs = asyncio.Queue(), set(), 0
        self._pump = asyncio.create_task(self._read(self._process, self._messages))
        return self._process

    async def _read(self, process: asyncio.subprocess.Process, messages: asyncio.Queue[Message]) -> None:
        """Whole messages from the process, so that whoever stops reading cannot stop in the middle of one."""
        assert process.stdout is not None
        alive = True
        while alive:
            try:
                size = int.from_bytes(await process.stdout.readexactly(8), "big")
                message = pickle.loads(await process.stdout.readexactly(size))
            except (asyncio.IncompleteReadError, ConnectionError):
                message, alive = ("broken", "the work ended unexpectedly, perhaps for want of memory"), False
            if message[0] in ENDS and self._charging is not None:
                self._charging.set()
                self._charging = None
            messages.put_nowait(message)

    async def ready(self) -> None:
        """Start the process unless it is at work already."""
        async with self._turn:
            await self.start()

    async def run(self, job: str, arguments: dict[str, Any], needs: Mapping[str, object]) -> AsyncGenerator[Message]:
        """Do a job and say what it says; ``needs`` are files and models by their keys, sent once to a process."""
        async with self._turn:
            if self._settling is not None:
                await asyncio.shield(self._settling)  # it goes on, also where this one is not waited for any more
            process = await self.start()
            assert process.stdin is not None
            for key in needs.keys() - self._sent:
                process.stdin.write(_frame(("keep", key, needs[key])))
                self._sent.add(key)
            process.stdin.write(_frame(("run", job, arguments)))
            self._jobs += 1
            ended = False
            try:
                await process.stdin.drain()
                while not ended:
                    message = await self._messages.get()
                    ended = message[0] in ENDS
                    if message[0] == CHARGING:
                        # No wait between the two: from here on the job is not ended any more.
                        self._charging = asyncio.Event()
                        process.stdin.write(_frame(("go", self._jobs, None)))
                    yield message
            finally:
                if not ended:
                    self._settling = asyncio.create_task(self._settle(process))

    async def _settle(self, process: asyncio.subprocess.Process) -> None:
        """Let an abandoned job end, or end its process and have the next one ready."""
        assert process.stdin is not None
        if self._charging is not None:
            await self._charging.wait()
            while not self._messages.empty():
                self._messages.get_nowait()
            return
        try:
            with suppress(ConnectionError):
                process.stdin.write(_frame(("stop", self._jobs, None)))
            async with asyncio.timeout(PATIENCE):
                while (await self._messages.get())[0] not in ENDS:
                    pass
        except TimeoutError:
            await self.close()
            await self.start()

    async def close(self) -> None:
        """End the process, unless it may have charged: then at its end. What it had still written is read."""
        while self._charging is not None:
            await self._charging.wait()
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            await asyncio.to_thread(sweep)  # it could not do so itself
        if self._pump is not None:
            await self._pump


def _frame(message: object) -> bytes:
    content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return len(content).to_bytes(8, "big") + content


class Workers:
    """Moving a slider must not wait for a file that is being read: each kind of work has its worker."""

    def __init__(self) -> None:
        self.plan, self.side, self.work = Worker(), Worker(), Worker()
        self._warming: asyncio.Task[None] | None = None

    def warm(self) -> None:
        """Have the other processes ready, once the first has work: a page was opened."""
        if self._warming is None:
            self._warming = asyncio.create_task(self._warm())

    async def _warm(self) -> None:
        for worker in (self.work, self.side):
            await worker.ready()

    async def close(self) -> None:
        """End every process, also those that are only just starting."""
        if self._warming is not None:
            await self._warming
        for worker in (self.plan, self.side, self.work):
            await worker.close()
