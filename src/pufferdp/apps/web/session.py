"""What the page was given and what it made, in memory alone: gone when the server ends."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pufferdp.basics.errors import DataError
from pufferdp.data.memory import MemoryFile

T = TypeVar("T")
LARGEST: Final = 64 * 2**20
"""Bytes of one upload; more is for the command line."""
MOST: Final = 256 * 2**20
"""Bytes of all uploads together; the oldest are forgotten."""
RESULTS: Final = 100
"""Results that can still be downloaded."""


@dataclass(frozen=True)
class Download:
    """A file that was made here and can be downloaded until newer results take its place."""

    name: str
    media: str
    content: bytes


@dataclass(frozen=True)
class SessionModel:
    """The content of a model file, or of a certificate, and how it came here."""

    name: str
    content: dict[str, Any]
    fit: dict[str, Any] | None = None
    """What a fit was asked, where it is one."""


class Store(Generic[T]):
    """Things by an identifier that nobody can guess or choose; the oldest are forgotten where there are too many.

    Args:
        name: what messages call such a thing.
        most: the size of all of them together.
        size: the size of one; by default 1.
    """

    def __init__(self, name: str, most: int, size: Callable[[T], int] = lambda thing: 1) -> None:
        self.name, self.most, self.size = name, most, size
        self.things = dict[str, T]()
        self.bundled = set[str]()
        """What the page comes with: it is never forgotten."""

    def keep(self, thing: T, bundled: str | None = None) -> str:
        """Keep a thing, under a key of its own where it is bundled; its key."""
        key = bundled or secrets.token_urlsafe(12)
        if bundled is not None:
            self.bundled.add(bundled)
        self.things[key] = thing
        while sum(map(self.size, self.things.values())) > self.most:
            oldest = next((old for old in self.things if old not in self.bundled and old != key), None)
            if oldest is None:
                break
            del self.things[oldest]
        return key

    def __getitem__(self, key: str) -> T:
        if key not in self.things:
            raise DataError(f"the {self.name} is no longer here; choose it again")
        return self.things[key]


class Session:
    """What one run of the server was given and has made."""

    def __init__(self) -> None:
        self.files = Store[MemoryFile]("file", MOST, lambda file: len(file.content))
        self.models = Store[SessionModel]("model", RESULTS)
        self.certificates = Store[SessionModel]("certificate", RESULTS)
        """Certificates of flipped series."""
        self.downloads = Store[dict[str, Download]]("result", RESULTS)
        """The files of each result, by their names."""

    def needs(
        self, *, data: str | None = None, model: str | None = None, certificate: str | None = None
    ) -> dict[str, object]:
        """What a job works on, by key."""
        inputs: dict[str, object] = {} if data is None else {data: self.files[data]}
        if model is not None:
            inputs[model] = self.models[model].content
        return inputs if certificate is None else inputs | {certificate: self.certificates[certificate].content}
