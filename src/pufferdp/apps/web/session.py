"""What the page was given and what it made, in memory alone: gone when the server ends."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

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


@dataclass
class Session:
    """Files and models by an identifier that nobody can guess or choose."""

    files: OrderedDict[str, MemoryFile] = field(default_factory=OrderedDict)
    models: OrderedDict[str, SessionModel] = field(default_factory=OrderedDict)
    certificates: OrderedDict[str, SessionModel] = field(default_factory=OrderedDict)
    """Certificates of flipped series."""
    downloads: OrderedDict[str, dict[str, Download]] = field(default_factory=OrderedDict)
    bundled: set[str] = field(default_factory=set)
    """What the page comes with: it is never forgotten."""

    def keep_file(self, file: MemoryFile, key: str | None = None) -> str:
        """Keep an upload, or under a key what is bundled; the oldest uploads are deleted."""
        key = self._key(key)
        self.files[key] = file
        while sum(len(upload.content) for upload in self.files.values()) > MOST and self._forget(self.files, key):
            pass
        return key

    def keep_model(self, model: SessionModel, key: str | None = None) -> str:
        """Keep a model, or under a key a bundled one; the oldest is forgotten where there are too many."""
        key = self._key(key)
        self.models[key] = model
        while len(self.models) > RESULTS and self._forget(self.models, key):
            pass
        return key

    def keep_certificate(self, certificate: SessionModel) -> str:
        """Keep a certificate; the oldest is forgotten where there are too many."""
        key = _new()
        self.certificates[key] = certificate
        while len(self.certificates) > RESULTS:
            self.certificates.popitem(last=False)
        return key

    def _key(self, bundled: str | None) -> str:
        if bundled is None:
            return _new()
        self.bundled.add(bundled)
        return bundled

    def _forget(self, things: OrderedDict[str, T], latest: str) -> bool:
        """Forget the oldest that may be; False where there is none."""
        for key in things:
            if key not in self.bundled and key != latest:
                del things[key]
                return True
        return False

    def keep_downloads(self, downloads: dict[str, Download]) -> str:
        """Keep the files of one result, by their names."""
        key = _new()
        self.downloads[key] = downloads
        while len(self.downloads) > RESULTS:
            self.downloads.popitem(last=False)
        return key

    def file(self, key: str) -> MemoryFile:
        """An upload, or a word that it is gone."""
        if key not in self.files:
            raise DataError("the file is no longer here; choose it again")
        return self.files[key]

    def model(self, key: str) -> SessionModel:
        """A model, or a word that it is gone."""
        if key not in self.models:
            raise DataError("the model is no longer here; choose it again")
        return self.models[key]

    def certificate(self, key: str) -> SessionModel:
        """A certificate, or a word that it is gone."""
        if key not in self.certificates:
            raise DataError("the certificate is no longer here; choose it again")
        return self.certificates[key]

    def needs(
        self, *, data: str | None = None, model: str | None = None, certificate: str | None = None
    ) -> dict[str, object]:
        """What a job works on, by key."""
        inputs: dict[str, object] = {} if data is None else {data: self.file(data)}
        if model is not None:
            inputs[model] = self.model(model).content
        return inputs if certificate is None else inputs | {certificate: self.certificate(certificate).content}


def _new() -> str:
    return secrets.token_urlsafe(12)
