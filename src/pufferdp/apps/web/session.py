"""What the page was given and what it made, in memory alone: gone when the server ends."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

from pufferdp.basics.errors import DataError
from pufferdp.data.memory import MemoryFile

LARGEST: Final = 64 * 2**20
"""Bytes of one upload."""
MOST: Final = 256 * 2**20
"""Bytes of all uploads together; the oldest are forgotten."""
RESULTS: Final = 100
"""Results that can still be downloaded."""


@dataclass(frozen=True)
class Made:
    """A file to download."""

    name: str
    media: str
    content: bytes


@dataclass(frozen=True)
class KeptModel:
    """The content of a model file and how it came here."""

    name: str
    content: dict[str, Any]
    fit: dict[str, Any] | None = None
    """What a fit was asked, where it is one."""


@dataclass
class Shelf:
    """Files and models by an identifier that nobody can guess or choose."""

    files: OrderedDict[str, MemoryFile] = field(default_factory=OrderedDict)
    models: OrderedDict[str, KeptModel] = field(default_factory=OrderedDict)
    made: OrderedDict[str, dict[str, Made]] = field(default_factory=OrderedDict)

    def keep_file(self, file: MemoryFile, key: str | None = None) -> str:
        """Keep an upload; the oldest make room."""
        key = key or _new()
        self.files[key] = file
        while len(self.files) > 1 and sum(len(one.content) for one in self.files.values()) > MOST:
            self.files.popitem(last=False)
        return key

    def keep_model(self, model: KeptModel, key: str | None = None) -> str:
        """Keep a model."""
        key = key or _new()
        self.models[key] = model
        while len(self.models) > RESULTS:
            self.models.popitem(last=False)
        return key

    def keep_made(self, made: dict[str, Made]) -> str:
        """Keep what can be downloaded."""
        key = _new()
        self.made[key] = made
        while len(self.made) > RESULTS:
            self.made.popitem(last=False)
        return key

    def file(self, key: str) -> MemoryFile:
        """An upload, or a word that it is gone."""
        if key not in self.files:
            raise DataError("the file is not here any more; choose it again")
        return self.files[key]

    def model(self, key: str) -> KeptModel:
        """A model, or a word that it is gone."""
        if key not in self.models:
            raise DataError("the model is not here any more; choose it again")
        return self.models[key]

    def needs(self, *, data: str | None = None, model: str | None = None) -> dict[str, object]:
        """What a job works on, by key."""
        found: dict[str, object] = {} if data is None else {data: self.file(data)}
        return found if model is None else found | {model: self.model(model).content}


def _new() -> str:
    return secrets.token_urlsafe(12)
