"""The process of a worker: reads jobs from stdin, writes what they say to stdout, ends when stdin does.

A message is eight bytes with the length of what follows, and a pickled tuple that begins with its kind.
"""

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

QUICK: Final = 0.1
"""Seconds between two words of progress."""


class StoppedError(Exception):
    """Nobody waits for this job any more."""


def framed(message: object) -> bytes:
    """A message as it is written to a pipe."""
    content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return len(content).to_bytes(8, "big") + content


class WorkerContext:
    """What one job may say while it works; saying anything is also where it stops when it should.

    Before a charge the server is asked. It says go, or stop; from go on the job runs to its end, whether anybody still
    listens or not.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._last = out, 0.0
        self._answered = threading.Event()
        self._stopped = False
        self.charged = False
        """Whether the job may have charged, and must go on to its end."""

    def __call__(self, words: str) -> None:
        """Progress, in a few words; quick steps are left out."""
        self._check()
        if words == CHARGING:
            if not self.charged:
                self.send(CHARGING, None)
                self._answered.wait()
                self._check()
        elif time.monotonic() - self._last > QUICK:
            self._last = time.monotonic()
            self.send("progress", words)

    def part(self, content: dict[str, Any]) -> None:
        """Something that can be shown already."""
        self._check()
        self.send("part", content)

    def stop(self) -> None:
        """Nobody waits for the job."""
        self._stopped = True
        self._answered.set()

    def allow(self) -> None:
        """The job may charge, and then goes on to its end."""
        self.charged = True
        self._answered.set()

    def _check(self) -> None:
        if self._stopped and not self.charged:
            raise StoppedError

    def send(self, kind: str, value: object) -> None:
        """Write a message for the server at once."""
        try:
            self._out.write(framed((kind, value)))
            self._out.flush()
        except OSError:
            if not self.charged:
                raise


Queued = tuple[WorkerContext, str, dict[str, Any], dict[str, object], list[str]]
"""A job: its context, name and arguments, what it needs for the first time, and the keys of all that it needs."""


def main() -> None:
    """Do jobs one after the other until stdin ends; what a job raises is a message like any other."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between messages
    jobs: SimpleQueue[Queued | None] = SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, jobs, out), daemon=True).start()
    from pufferdp.apps.web.inputs import Inputs
    from pufferdp.apps.web.jobs import JOBS

    inputs = Inputs()
    WorkerContext(out).send("ready", None)
    while (queued := jobs.get()) is not None:
        context, name, arguments, new, keys = queued
        inputs.keep(new, keys)
        del queued, new  # or an upload stays here until the next job
        with until_delivered() as signals:
            do(JOBS[name], inputs, context, arguments)
        if signals:
            break
        del arguments


def do(job: Callable[..., dict[str, Any]], inputs: Inputs, context: WorkerContext, arguments: dict[str, Any]) -> None:
    """One job, with a word of how it ended."""
    try:
        context("starting")
        context.send("done", job(inputs, context, **arguments))
    except StoppedError:
        context.send("done", None)
    except PufferdpError as error:
        context.send("refused", {"error": flags(str(error)), "kind": type(error).__name__, "exit": error.exit_code})
    except Exception as error:
        # Where, but not what: the words of an unexpected error may repeat data.
        sys.stderr.write(stack_text(error))
        charged = "; it may have been charged: look at the ledger" if context.charged else ""
        context.send("broken", f"something went wrong that should not have: {type(error).__name__}{charged}")


def _listen(source: BinaryIO, jobs: SimpleQueue[Queued | None], out: BinaryIO) -> None:
    """Queue jobs as they come, and tell the latest one to stop or to charge: the server sends one at a time."""
    context = WorkerContext(out)
    while len(head := source.read(8)) == 8:
        kind, *content = pickle.loads(source.read(int.from_bytes(head, "big")))
        if kind == "stop":
            context.stop()
        elif kind == "go":
            context.allow()
        else:
            context = WorkerContext(out)
            jobs.put((context, *content))
        del content
    context.stop()  # the server is gone
    jobs.put(None)


if __name__ == "__main__":
    try:
        if hasattr(os, "nice") and sys.argv[1:]:
            os.nice(int(sys.argv[1]))
        main()
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(1)
