"""How long work says what it is at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Progress = Callable[[str], None]
"""Called with a few words before each step that may take long. Whoever raises there stops the work."""

CHARGING: Final = "charging"
"""The last word before a charge: the last one that can stop the work."""


def silent(words: str) -> None:
    """Progress that nobody looks at."""
