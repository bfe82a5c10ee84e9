"""The process of a worker: reads jobs from stdin, writes what they say to stdout, ends when stdin does."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from pufferdp.apps.flags import flags
from pufferdp.basics.errors import PufferdpError
from pufferdp.basics.interrupts import until_delivered
from pufferdp.basics.progress import CHARGING
from pufferdp.basics.unexpected import stack_text

if TYPE_CHECKING:
    from pufferdp.apps.web.inputs import Inputs

READY: Final = "ready"
"""The first message of a process."""
QUICK: Final = 0.1
"""Seconds between two words of progress."""


class StoppedError(Exception):
    """Nobody waits for this job any more."""


class WorkerContext:
    """What a job may say while it works; saying anything is also where it stops when it should.

    Before a charge the server is asked. It says go, or stop; from go on the job runs to its end, whether anybody still
    listens or not.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._told = out, 0.0
        self._answered = threading.Condition()
        self.job = 0
        """The number of the job that is being done."""
        self._stopped = 0
        self._allowed = 0

    def begin(self) -> None:
        """The next job; its first word is told."""
        self.job, self._told = self.job + 1, 0.0

    def __call__(self, words: str) -> None:
        """Progress, in a few words; quick steps are not told."""
        self._check()
        if words == CHARGING:
            self._ask()
        elif time.monotonic() - self._told > QUICK:
            self._told = time.monotonic()
            self.send("progress", words)

    def part(self, content: dict[str, Any]) -> None:
        """Something that can be shown already."""
        self._check()
        self.send("part", content)

    def stop(self, job: int) -> None:
        """Nobody waits for the jobs up to this number."""
        with self._answered:
            self._stopped = max(self._stopped, job)
            self._answered.notify_all()

    def allow(self, job: int) -> None:
        """The job of this number may charge."""
        with self._answered:
            self._allowed = job
            self._answered.notify_all()

    @property
    def charged(self) -> bool:
        """Whether the job may have charged, and must go on to its end."""
        return self._allowed == self.job

    def _ask(self) -> None:
        if self.charged:
            return
        self.send(CHARGING, None)
        with self._answered:
            self._answered.wait_for(lambda: self.charged or self._stopped >= self.job)
        self._check()

    def _check(self) -> None:
        if self._stopped >= self.job and not self.charged:
            raise StoppedError

    def send(self, kind: str, value: object) -> None:
        """Write a message for the server at once: its length in eight bytes, then the pickle."""
        content = pickle.dumps((kind, value), protocol=pickle.HIGHEST_PROTOCOL)
        try:
            self._out.write(len(content).to_bytes(8, "big") + content)
            self._out.flush()
        except OSError:
            if not self.charged:
                raise


def main() -> None:
    """Do jobs one after the other until stdin ends; what a job raises is a message like any other."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between messages
    jobs: SimpleQueue[tuple[str, Any, Any] | None] = SimpleQueue()
    context = WorkerContext(out)
    threading.Thread(target=_listen, args=(sys.stdin.buffer, jobs, context), daemon=True).start()
    from pufferdp.apps.web.inputs import Inputs
    from pufferdp.apps.web.jobs import JOBS

    inputs = Inputs()
    context.send(READY, None)
    while (message := jobs.get()) is not None:
        kind, name, content = message
        del message  # or an upload stays here until the next job
        if kind == "keep":
            inputs.keep(name, content)
        elif kind == "forget":
            inputs.forget(name)
        else:
            context.begin()
            with until_delivered() as signals:
                _do(JOBS[name], inputs, context, content)
            if signals:
                break
        del content


def _do(job: Callable[..., dict[str, Any]], inputs: Inputs, context: WorkerContext, content: dict[str, Any]) -> None:
    """One job, with a word of how it ended."""
    try:
        context("starting")
        context.send("done", job(inputs, context, **content))
    except StoppedError:
        context.send("done", None)
    except PufferdpError as error:
        context.send("refused", {"error": flags(str(error)), "kind": type(error).__name__, "exit": error.exit_code})
    except Exception as error:
        # Where, but not what: the words of an unexpected error may repeat data.
        sys.stderr.write(stack_text(error))
        charged = "; it may have been charged: look at the ledger" if context.charged else ""
        context.send("broken", f"something went wrong that should not have: {type(error).__name__}{charged}")


def _listen(source: BinaryIO, jobs: SimpleQueue[tuple[str, Any, Any] | None], context: WorkerContext) -> None:
    while len(head := source.read(8)) == 8:
        message = pickle.loads(source.read(int.from_bytes(head, "big")))
        if message[0] == "stop":
            context.stop(message[1])
        elif message[0] == "go":
            context.allow(message[1])
        else:
            jobs.put(message)
        del message
    context.stop(sys.maxsize)  # the server is gone
    jobs.put(None)


if __name__ == "__main__":
    try:
        if hasattr(os, "nice") and sys.argv[1:]:
            os.nice(int(sys.argv[1]))
        main()
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(1)
