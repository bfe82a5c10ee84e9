"""Watches over audited code: it gets so much memory and so many processes, and all that it started ends with it.

What it starts may leave its group with setsid, and may outlive its parent. So the supervisor is made the one
that orphans below it fall to, and ends everything below itself. Also runs alone, before a command:
``python -I -S supervisor.py MEMORY PROCESSES COMMAND…``; so nothing but the standard library is imported here.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

_SUBREAPER, _PARENT_DEATH = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG of Linux
_ENDING = 5.0
"""Seconds that a supervisor has to end everything."""


def supervise(work: Callable[[], None], memory: int, processes: int) -> None:
    """Fork, let the child do the work, and end as it ends, with all that it started. Never returns."""
    _prctl(_SUBREAPER, 1)
    _prctl(_PARENT_DEATH, signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            _restrict(memory, processes)
            work()
            code = 0
        finally:
            os._exit(code)
    _leave_streams()
    ended = 0
    while ended != child:
        ended, status = os.waitpid(-1, 0)
    end_descendants()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:  # die by the signal that the work died by
        with suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        time.sleep(1)
    os._exit(code)


def end_descendants() -> None:
    """Kill what is below this process: children, whose orphans become children in turn, as long as there are any."""
    deadline = time.monotonic() + _ENDING / 2
    while time.monotonic() < deadline:
        children = [pid for pid, parent, _ in _processes() if parent == os.getpid()]
        for child in children:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not children:
            return
        time.sleep(0.01)


def end_supervised(pid: int, ended: Callable[[], bool]) -> None:
    """Have a supervisor end what is below it, and itself; kill its group where it does not."""
    with suppress(ProcessLookupError, PermissionError, ChildProcessError):
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _ENDING
        while not ended():
            if time.monotonic() > deadline:
                os.killpg(pid, signal.SIGKILL)
            time.sleep(0.005)


def _processes() -> Iterator[tuple[int, int, int]]:
    """The number, parent and count of threads of every process, by what /proc says; none where there is no /proc."""
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            yield int(name), int(fields[1]), int(fields[17])


def _stop(number: int, frame: object) -> None:
    end_descendants()
    os._exit(128 + number)


def _leave_streams() -> None:
    """Have no end of a pipe here: its reader must see it end with the work."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for handle in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else map(str, range(64)):
        with suppress(OSError):
            if int(handle) != nowhere:
                os.dup2(nowhere, int(handle))


def _restrict(memory: int, processes: int) -> None:
    """Limit memory beyond what this process has, and processes beyond those that its user has."""
    import resource

    data, threads = 0, 0
    with suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        data = 1024 * next(int(line.split()[1]) for line in file if line.startswith("VmData"))
    for pid, _, count in _processes():
        with suppress(OSError):
            threads += count * (os.stat(f"/proc/{pid}").st_uid == os.getuid())
    limits = {"RLIMIT_DATA": data + memory, "RLIMIT_NPROC": threads + processes, "RLIMIT_CORE": 0}
    for name, value in limits.items():
        with suppress(ValueError, OSError, AttributeError):
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (most, most))


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with suppress(Exception):
            import ctypes

            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _run_command() -> None:
    words = sys.argv[3:]
    try:
        os.execvp(words[0], words)
    except OSError as error:
        sys.stderr.write(f"{words[0]!r} cannot be started: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(127)


if __name__ == "__main__":
    supervise(_run_command, int(sys.argv[1]), int(sys.argv[2]))
