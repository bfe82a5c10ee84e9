"""How long work says what it is at."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]
"""Called with a few words before each step that may take long."""


def silent(words: str) -> None:
    """Progress that nobody looks at."""
