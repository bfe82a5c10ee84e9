"""How long work says what it is at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pufferdp.basics.errors import ParameterError
from pufferdp.basics.words import a_kind

Progress = Callable[[str], None]
"""Called with a few words before each step that may take long. An exception raised there stops the work."""

CHARGING: Final = "charging"
"""The last word before a charge: the last one that can stop the work."""


def check_progress(progress: object) -> None:
    """Refuse what cannot be called."""
    if not callable(progress):
        raise ParameterError(
            f"progress is {a_kind(progress)}; it must be a function that takes a few words, such as print",
            value=progress,
        )


def silent(words: str) -> None:
    """Progress that nobody looks at."""
