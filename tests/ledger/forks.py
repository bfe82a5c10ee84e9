"""Children of a test's process. They never come back into the test runner, whatever is raised in them."""

from __future__ import annotations

import os
from collections.abc import Callable


def start_child(work: Callable[[], object]) -> int:
    """Do the work in a forked child; its process id. It exits with 0, or with 1 where the work raised.

    A child that went on as a copy of the test runner would write into the pipes of its parent.
    """
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def exit_code(child: int) -> int:
    """How a child ended; the signal, negative, where one ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_child(work: Callable[[], object]) -> int:
    """Do the work in a forked child and wait for it: how it ended."""
    return exit_code(start_child(work))
