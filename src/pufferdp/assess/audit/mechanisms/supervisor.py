"""Runs audited code in a process of its own with limits on memory and processes, and ends all that it started.

What audited code starts may leave its process group with ``setsid`` and outlive its parent. So a supervisor stands
between: orphans below it become its children (a "subreaper" of Linux), and it kills everything below itself when the
work ends, when it is told to end, and when the auditing process dies.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from glob import glob
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Final, NoReturn

_ENDING_SECONDS: Final = 5.0
"""A supervisor that has not killed its children after this time is killed with its process group."""


class SupervisedProcess:
    """A forked process that works at the other end of a pipe, and everything that it starts.

    All of it ends with ``end``, when this object goes, and when the auditing process ends.
    """

    def __init__(self, work: Callable[[Connection], None], memory: int, processes: int) -> None:
        self.pipe, theirs = Pipe()
        arguments = (work, self.pipe, theirs, memory, processes)
        self._process = get_context("fork").Process(target=_supervise, args=arguments)
        with warnings.catch_warnings():
            # Python warns that other threads do not live on in the child: it needs none of them.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        theirs.close()
        self._finalize = Finalize(self, _end, (self._process,), exitpriority=0)

    def end(self) -> None:
        """End the process and all that it started."""
        self.pipe.close()
        self._finalize()

    def status(self) -> str:
        """How the process ended, in words."""
        self._process.join(1.0)
        code = self._process.exitcode
        # A process that died by a signal is reported as 128 and its number, as shells do.
        return "it no longer answers" if code is None else exit_words(128 - code if code > 128 else code)


def exit_words(code: int) -> str:
    """An exit code in words; minus the number of a signal where a signal ended the process."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def end_children() -> None:
    """Kill the children of this process, and their orphans, which become children in turn, until none is left."""
    deadline = time.monotonic() + _ENDING_SECONDS / 2
    while time.monotonic() < deadline:
        for file in glob("/proc/[0-9]*/stat"):
            with suppress(OSError), open(file, "rb") as stat:
                # After the name, which ends with the last parenthesis, come the state and the parent.
                if int(stat.read().rpartition(b")")[2].split()[1]) == os.getpid():
                    os.kill(int(file.split("/")[2]), signal.SIGKILL)
        try:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(0.005)
        except ChildProcessError:
            return


def become_subreaper() -> None:
    """Have orphans below this process become its children."""
    _prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def limit(**limits: int) -> None:
    """Limit this process and those that it starts, by names of ``resource`` and as far as the system knows them."""
    import resource

    for name, value in limits.items():
        with suppress(ValueError, OSError, AttributeError):
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (value, value))


def _supervise(
    work: Callable[[Connection], None], ours: Connection, theirs: Connection, memory: int, processes: int
) -> NoReturn:
    """Let a child do the work, and end as it ends, with all that it started."""
    ours.close()
    os.setsid()
    become_subreaper()
    _prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: sent when the auditing process dies
    signal.signal(signal.SIGTERM, _stop)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _restrict(memory, processes)
            work(theirs)
            code = 0
        finally:
            os._exit(code)
    theirs.close()
    ended = status = 0
    while ended != child:
        ended, status = os.waitpid(-1, 0)
    end_children()
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _stop(number: int, frame: object) -> None:
    end_children()
    os.killpg(0, signal.SIGKILL)  # where there is no /proc, this ends what has not left the group


def _end(process: BaseProcess) -> None:
    """Have a supervisor end what is below it, and itself; kill its group where it does not."""
    process.terminate()
    process.join(_ENDING_SECONDS)
    if process.exitcode is None and process.pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.join(_ENDING_SECONDS)


def _restrict(memory: int, processes: int) -> None:
    """Limit memory beyond what this process has, and processes beyond those that its user has."""
    data, threads = 0, 0
    with suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        data = 1024 * next(int(line.split()[1]) for line in file if line.startswith("VmData"))
    for tasks in glob("/proc/[0-9]*/task"):
        with suppress(OSError):
            threads += len(os.listdir(tasks)) * (os.stat(tasks).st_uid == os.getuid())
    limit(RLIMIT_DATA=data + memory, RLIMIT_NPROC=threads + processes, RLIMIT_CORE=0)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with suppress(Exception):
            import ctypes

            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
