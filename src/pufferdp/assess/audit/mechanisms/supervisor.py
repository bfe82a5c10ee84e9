"""Watches over audited code: it gets so much memory and so many processes, and all that it started ends with it.

What it starts may leave its group with setsid, and may outlive whoever started it. So the supervisor is made the one
that orphans below it fall to, and ends everything below itself. Also runs alone, before a command:
``python -I -S supervisor.py MEMORY PROCESSES COMMAND…``; so nothing but the standard library is imported here.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

_SUBREAPER, _PARENT_DEATH = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG of Linux
_ROUNDS = 100


def supervise(work: Callable[[], None], memory: int, processes: int) -> None:
    """Fork, let the child do the work, and end as it ends, with all that it started. Never returns."""
    _prctl(_SUBREAPER, 1)
    _prctl(_PARENT_DEATH, signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    limits = _limits(memory, processes)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            _restrict(limits)
            work()
            code = 0
        finally:
            os._exit(code)
    _leave_streams()
    status = _wait_for(child)
    end_descendants()
    if os.WIFSIGNALED(status):
        _die_by(os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def end_descendants() -> None:
    """Kill whatever is below this process, as long as there is anything."""
    for _ in range(_ROUNDS):
        below = _descendants(os.getpid())
        for process in below:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not below:
            return
        time.sleep(0.01)


def _descendants(root: int) -> list[int]:
    """All processes below one, by what /proc says; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                    if fields[0] != b"Z" or int(fields[1]) != root:
                        children.setdefault(int(fields[1]), []).append(int(name))
    out, waiting = list[int](), [root]
    while waiting:
        below = children.pop(waiting.pop(), [])
        out += below
        waiting += below
    return out


def _stop(number: int, frame: object) -> None:
    end_descendants()
    os._exit(128 + number)


def _wait_for(child: int) -> int:
    while True:
        with suppress(InterruptedError):
            process, status = os.waitpid(-1, 0)
            if process == child:
                return status


def _leave_streams() -> None:
    """Have no end of a pipe here: whoever reads what the work writes must see it end with the work."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for handle in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else map(str, range(64)):
        with suppress(OSError):
            if int(handle) != nowhere:
                os.dup2(nowhere, int(handle))


def _die_by(number: int) -> None:
    signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), number)
    time.sleep(1)


def _limits(memory: int, processes: int) -> tuple[int, int]:
    """How much data and how many processes of this user there may be, with what is there already."""
    data, threads = 0, 0
    with suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        data = 1024 * next(int(line.split()[1]) for line in file if line.startswith("VmData"))
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with suppress(OSError, ValueError, IndexError):
                    if os.stat(f"/proc/{name}").st_uid == os.getuid():
                        with open(f"/proc/{name}/stat", "rb") as file:
                            threads += int(file.read().rpartition(b")")[2].split()[17])
    return data + memory, threads + processes


def _restrict(limits: tuple[int, int]) -> None:
    import resource

    names = ("RLIMIT_DATA", "RLIMIT_NPROC")
    for name, value in (*zip(names, limits, strict=True), ("RLIMIT_CORE", 0)):
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
