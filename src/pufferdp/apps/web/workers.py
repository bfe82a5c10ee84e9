"""Work is done in processes beside the server: it stays responsive, and work that nobody waits for can be ended.

A worker is one process that does one job after the other. A job stops when its listener leaves: the job is told
to end at its next step, and its process is ended where that takes longer than ``PATIENCE``. A job that charges asks
before it does. Once it may, it is never ended: everything waits for it, also the end of the server.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final

from pufferdp.apps.web.worker import READY
from pufferdp.basics.progress import CHARGING
from pufferdp.basics.scratch import remove_abandoned

PATIENCE: Final = 0.5
"""Seconds a job has to end by itself; a new process takes about as long to start."""
KEPT_BYTES: Final = 64 * 2**20
"""Bytes of files that a process keeps besides those of its job; the oldest are forgotten."""
KEPT_THINGS: Final = 20
"""Files and models that a process keeps."""
NICE: Final = 10
"""Such a process gets a tenth of what one gets that does not stand back, where both need it."""
ENDS: Final = ("done", "refused", "broken")
Message = tuple[str, Any]
"""What a job says: progress (words), part (something to show already), done, refused or broken."""


class Worker:
    """One process, started when it is first needed. It does jobs in the order in which they come.

    Args:
        nice: how far the process stands back behind others where processors are scarce, as Unix counts it.
    """

    def __init__(self, nice: int = 0) -> None:
        self._turn, self._nice = asyncio.Lock(), nice
        self._process: asyncio.subprocess.Process | None = None
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._pump: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._starting: asyncio.Task[asyncio.subprocess.Process] | None = None
        self._settling: asyncio.Task[None] | None = None
        self._sent: OrderedDict[str, int] = OrderedDict()
        """What the process keeps, the longest unused first, with its size in bytes."""
        self._jobs = 0
        self._charging: asyncio.Event | None = None
        """While a job may have charged: set once it has ended."""

    async def start(self) -> asyncio.subprocess.Process:
        """The process, a new one where there is none. A caller that stops waiting leaves it to the next."""
        if self._process is not None and self._process.returncode is None:
            return self._process
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(self._starting)

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # modules come from where Python is installed, never from the folder that the server started in
                "-m",
                "pufferdp.apps.web.worker",
                str(self._nice),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=2**20,
                start_new_session=True,  # Ctrl-C is for the server, which ends its processes itself
            )
        finally:
            self._starting = None
        self._ready = asyncio.Event()
        self._messages, self._sent, self._jobs = asyncio.Queue(), OrderedDict(), 0
        self._pump = asyncio.create_task(self._read(self._process, self._messages))
        return self._process

    async def _read(self, process: asyncio.subprocess.Process, messages: asyncio.Queue[Message]) -> None:
        """Whole messages from the process, so that a reader cannot stop in the middle of one."""
        assert process.stdout is not None
        alive = True
        while alive:
            try:
                size = int.from_bytes(await process.stdout.readexactly(8), "big")
                message = pickle.loads(await process.stdout.readexactly(size))
            except (asyncio.IncompleteReadError, ConnectionError):
                message, alive = ("broken", "the work ended unexpectedly, perhaps because memory ran out"), False
            self._ready.set()
            if message[0] == READY:
                continue
            if message[0] in ENDS and self._charging is not None:
                self._charging.set()
                self._charging = None
            messages.put_nowait(message)

    async def ready(self) -> None:
        """Start the process unless it is at work already."""
        async with self._turn:
            await self.start()

    async def run(self, job: str, arguments: dict[str, Any], needs: Mapping[str, object]) -> AsyncGenerator[Message]:
        """Do a job once those before it have ended, and say what it says.

        Args:
            job: its name.
            arguments: what it is asked.
            needs: files and models by their keys, sent once to a process.
        """
        async with self._turn, aclosing(self._run(job, arguments, needs)) as messages:
            async for message in messages:
                yield message

    async def _run(self, job: str, arguments: dict[str, Any], needs: Mapping[str, object]) -> AsyncGenerator[Message]:
        if self._settling is not None:
            await asyncio.shield(self._settling)  # it goes on, also where this one is not waited for any more
        process = await self.start()
        await self._ready.wait()
        assert process.stdin is not None
        self._send(process.stdin, needs)
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

    def _send(self, stdin: asyncio.StreamWriter, needs: Mapping[str, object]) -> None:
        """Send what a job needs and the process has not; what it has not needed for long is forgotten."""
        for key, thing in needs.items():
            if key not in self._sent:
                frame = _frame(("keep", key, thing))
                stdin.write(frame)
                self._sent[key] = len(frame)
            self._sent.move_to_end(key)
        for key in [key for key in self._sent if key not in needs]:
            if len(self._sent) <= KEPT_THINGS and sum(self._sent.values()) <= KEPT_BYTES:
                break
            stdin.write(_frame(("forget", key, None)))
            del self._sent[key]

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
            await self._ready.wait()

    async def close(self) -> None:
        """End the process, unless it may have charged: then at its end. What it had still written is read."""
        while self._charging is not None:
            await self._charging.wait()
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            await asyncio.to_thread(remove_abandoned)  # it could not do so itself
        if self._pump is not None:
            await self._pump


def _frame(message: object) -> bytes:
    content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return len(content).to_bytes(8, "big") + content


class Workers:
    """A worker for each kind of work, so that moving a slider does not wait for a file that is being read.

    Assessments and designs take longest, so their process stands back behind the others.
    """

    def __init__(self) -> None:
        self.plan, self.work, self.side = Worker(), Worker(), Worker(NICE)
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
