"""Work is done in processes beside the server: it stays responsive, and work that nobody waits for can be ended.

A worker is one process that does one job after the other. A job stops when its listener leaves: the job is told
to end at its next step, and its process is ended where that takes longer than ``PATIENCE``. A job that charges asks
before it does. Once it may, it is never ended: everything waits for it, also the end of the server.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final

from pufferdp.apps.web.worker import framed
from pufferdp.basics.progress import CHARGING
from pufferdp.basics.scratch import remove_abandoned

PATIENCE: Final = 0.5
"""Seconds a job has to end by itself; a new process takes about as long to start."""
ENDS: Final = ("done", "refused", "broken")
Message = tuple[str, Any]
"""What a job says: progress (words), part (something to show already), done, refused or broken."""
_GONE: Final = ("broken", "the work ended unexpectedly, perhaps because memory ran out")


class Worker:
    """One process, started when it is first needed. It does jobs in the order in which they come.

    Args:
        nice: how far the process stands back behind others where processors are scarce, as Unix counts it.
    """

    def __init__(self, nice: int = 0) -> None:
        self._turn, self._nice = asyncio.Lock(), nice
        self._process: asyncio.Task[Process] | None = None
        self._hearing: asyncio.Task[None] | None = None
        """Hears the latest job to its end."""
        self.settling: asyncio.Task[None] | None = None
        """What becomes of a job whose listener has left; the next job waits for it."""
        self._sent: set[str] = set()
        """Keys of the files and models that the process has: those of its latest job."""
        self._charging = False
        """Whether the latest job may have charged."""

    async def ready(self) -> Process:
        """The process at work, a new one where there is none. A caller that stops waiting leaves it to the next."""
        latest = self._process
        if latest is None or (latest.done() and (latest.exception() or latest.result().returncode is not None)):
            self._process = latest = asyncio.create_task(self._start())
        return await asyncio.shield(latest)

    async def _start(self) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # modules come from where Python is installed, never from the folder that the server started in
            "-m",
            "pufferdp.apps.web.worker",
            str(self._nice),
            stdin=PIPE,
            stdout=PIPE,
            limit=2**20,
            start_new_session=True,  # Ctrl-C is for the server, which ends its processes itself
        )
        self._sent.clear()
        await _message(process)  # it is ready
        return process

    async def run(self, job: str, arguments: dict[str, Any], needs: Mapping[str, object]) -> AsyncGenerator[Message]:
        """Do a job once those before it have ended, and say what it says.

        Args:
            job: its name.
            arguments: what it is asked.
            needs: files and models by their keys, sent unless the process has them from the job before.
        """
        async with self._turn, aclosing(self._run(job, arguments, needs)) as messages:
            async for message in messages:
                yield message

    async def _run(self, job: str, arguments: dict[str, Any], needs: Mapping[str, object]) -> AsyncGenerator[Message]:
        if self.settling is not None:
            await asyncio.shield(self.settling)  # it goes on, also where this one is not waited for any more
        process = await self.ready()
        assert process.stdin is not None
        if process.returncode is not None:  # it ended before it was ready
            yield _GONE
            return
        new = {key: thing for key, thing in needs.items() if key not in self._sent}
        self._charging, self._sent = False, set(needs)
        messages, kind = asyncio.Queue[Message](), ""
        self._hearing = asyncio.create_task(_hear(process, messages))
        try:
            process.stdin.write(framed(("run", job, arguments, new, list(needs))))
            with suppress(ConnectionError):  # a process that has died says so below
                await process.stdin.drain()
            while kind not in ENDS:
                kind, value = await messages.get()
                if kind == CHARGING:
                    # No wait between the two: from here on the job is not ended any more.
                    self._charging = True
                    process.stdin.write(framed(("go",)))
                yield kind, value
        finally:
            if kind not in ENDS:
                self.settling = asyncio.create_task(self._settle(process, self._hearing))

    async def _settle(self, process: Process, hearing: asyncio.Task[None]) -> None:
        """Let an abandoned job end, or end its process and have the next one ready."""
        assert process.stdin is not None
        try:
            if not self._charging:
                process.stdin.write(framed(("stop",)))
            async with asyncio.timeout(None if self._charging else PATIENCE):
                await asyncio.shield(hearing)
        except (TimeoutError, ConnectionError):
            await self.close()
            await self.ready()

    async def close(self) -> None:
        """End the process, unless it may have charged: then at its end. What it had still written is read."""
        if self._process is None:
            return
        process = await asyncio.shield(self._process)
        if self._charging and self._hearing is not None:
            await asyncio.shield(self._hearing)
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            await asyncio.to_thread(remove_abandoned)  # it could not do so itself
        if self._hearing is not None:
            await asyncio.shield(self._hearing)


async def _hear(process: Process, messages: asyncio.Queue[Message]) -> None:
    """Read the messages of a job whole, so that a listener cannot stop in the middle of one."""
    kind = ""
    while kind not in ENDS:
        message = await _message(process)
        messages.put_nowait(message)
        kind = message[0]


async def _message(process: Process) -> Message:
    """The next message of a process; its end is one too."""
    assert process.stdout is not None
    try:
        size = int.from_bytes(await process.stdout.readexactly(8), "big")
        message: Message = pickle.loads(await process.stdout.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        return _GONE
    return message
