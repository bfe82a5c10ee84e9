"""Errors that nobody foresaw: what kind and where is told. Their words may repeat data, and are not."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[1]


def describe_unexpected(error: BaseException) -> str:
    """The kind of an error, and the last place of ours that it came through."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(_PACKAGE):
            place = path.relative_to(_PACKAGE).as_posix()
            return f"an error in pufferdp, {_kind(error)} ({place}, line {frame.lineno})"
    return f"an error in pufferdp, {_kind(error)}"


def stack_text(error: BaseException) -> str:
    """Every place that an error came through, with the line of code there, for a maintainer."""
    return "".join(traceback.format_list(traceback.extract_tb(error.__traceback__)))


def system_reason(error: OSError) -> str:
    """What the system says; not a text that a caller has put into the error."""
    return type(error).__name__ if error.errno is None else os.strerror(error.errno)


def _kind(error: BaseException) -> str:
    return system_reason(error) if isinstance(error, OSError) else type(error).__name__
