"""What jobs work on and how they speak: files and models by key, progress, and where a charged answer is kept."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from pufferdp.apps.web.charged import AnswerFolder
from pufferdp.basics.errors import CertificateError
from pufferdp.basics.files import JsonRuleError
from pufferdp.data.memory import MemoryFile
from pufferdp.models.base import Lengths, Model
from pufferdp.models.files.json import model_from_dict
from pufferdp.publish.answers.queries import Query
from pufferdp.publish.certificate import parse_certificate, unwrapped
from pufferdp.publish.reading import read_exact
from pufferdp.publish.series import Series

KEPT_LOOKS: Final = 20
"""Results that a process keeps for those who ask the same again. None of them holds an exact answer."""


class JobContext(Protocol):
    """How a job speaks while it works."""

    def __call__(self, words: str) -> None:
        """Tell the page what the job is at, in a few words."""

    def part(self, content: dict[str, Any]) -> None:
        """Something to show already."""


@dataclass
class Inputs:
    """Files and models of this process; a model keeps what was computed for it, so sliders are quick."""

    things: dict[str, object] = field(default_factory=dict)
    models: dict[str, Model] = field(default_factory=dict)
    lengths: dict[str, tuple[Lengths, bool]] = field(default_factory=dict)
    """Chain lengths and whether records are missing, by how they were read: public, and the same for every epsilon."""

    looks: OrderedDict[tuple[str, ...], dict[str, Any]] = field(default_factory=OrderedDict)
    """What was seen or planned, by the job, the files and models, and what was asked: who asks again does not wait."""

    def look(self, key: tuple[str, ...], work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What the work comes to; it is done once while the files and models that the key names are here."""
        if key not in self.looks:
            self.looks[key] = work()
            while len(self.looks) > KEPT_LOOKS:
                self.looks.popitem(last=False)
        self.looks.move_to_end(key)
        return self.looks[key]

    def keep(self, new: Mapping[str, object], needed: Collection[str]) -> None:
        """Things that a job names by their keys; what it does not need is forgotten until it is sent again."""
        self.things.update(new)
        for key in self.things.keys() - set(needed):
            del self.things[key]
            self.models.pop(key, None)
            for look in [look for look in self.looks if key in look]:
                del self.looks[look]

    def file(self, key: str) -> MemoryFile:
        """A file that the server sent before the job that names it."""
        upload = self.things[key]
        assert isinstance(upload, MemoryFile)
        return upload

    def model(self, key: str) -> Model:
        """A model that was kept, made once."""
        if key not in self.models:
            self.models[key] = model_from_dict(self.things[key])
        return self.models[key]

    def certificate(self, key: str) -> dict[str, Any]:
        """The content of a certificate that was kept."""
        content = self.things[key]
        assert isinstance(content, dict)
        return content

    def read_lengths(
        self, progress: JobContext, arguments: dict[str, Any], query: Query | None = None
    ) -> tuple[Lengths, bool]:
        """How long the chains of the data are, and whether records are missing; or the length that was asked about."""
        if arguments["data"] is None:
            return () if arguments["length"] is None else ((arguments["length"], 1),), False
        prior, record_column = self.model(arguments["model"]), arguments.get("id")
        file = self.file(arguments["data"])
        reading = Series(file, **arguments["reading"], id=record_column).reading(prior)
        reading.check(prior)
        query = query or Query.parse("histogram")
        key = json.dumps([*(arguments[name] for name in ("model", "data", "reading")), record_column, str(query)])
        if key not in self.lengths:
            progress("reading the data")
            exact = read_exact(file, prior, query, reading)
            self.lengths[key] = exact.lengths, exact.unobserved
        return self.lengths[key]


class Result(Protocol):
    """A plan or a release of any type."""

    def to_dict(self) -> dict[str, Any]:
        """Its content as JSON has it."""


Published = TypeVar("Published", bound=Result)


def publish(
    inputs: Inputs,
    progress: JobContext,
    arguments: Mapping[str, Any],
    make: Callable[..., Published],
    series: Callable[[Published], MemoryFile | None] = lambda made: None,
    **asked: Any,
) -> tuple[Published, dict[str, Any], list[str] | None]:
    """A release, its content, and the files that hold it where it was charged; None where nothing was.

    The folder for charged answers is tried before anything is made.

    Args:
        inputs: the files and models of this process.
        progress: told what is going on.
        arguments: the request: data, model, ledger and data set.
        make: the function of the library.
        series: the series that belongs to the answer, where one does.
        **asked: what else the function is given.
    """
    ledger = arguments["ledger"]
    answers = None if ledger is None else AnswerFolder.of(ledger)
    if answers is not None:
        answers.check()
    made = make(
        inputs.file(arguments["data"]),
        model=inputs.model(arguments["model"]),
        ledger=ledger,
        dataset=arguments["dataset"],
        progress=progress,
        **asked,
    )
    content = made.to_dict()
    kept = None if answers is None else answers.keep(content["certificate"]["ledger"], content, series(made))
    progress("writing the report")
    return made, content, kept


def decorate(parts: dict[str, Callable[[], Any]], charged: bool) -> dict[str, Any]:
    """Charts and reports. One that fails is left out of a charged answer, which must not be lost with it."""
    made: dict[str, Any] = {}
    for name, draw in parts.items():
        try:
            made[name] = draw()
        except Exception:
            if not charged:
                raise
            made[name] = None
    return made


def certificate_in(name: str, content: bytes) -> dict[str, Any]:
    """The content of a certificate; of a release its certificate, of a report the one that is embedded."""
    try:
        raw = parse_certificate(content.decode("utf-8-sig"), repr(name))
    except JsonRuleError as error:
        raise CertificateError(f"{name!r}: {error}") from None
    except (ValueError, RecursionError):
        raise CertificateError(
            f"{name!r} is neither a certificate nor a report that carries one; drop the .json or the .html file"
        ) from None
    raw = unwrapped(raw)
    if not isinstance(raw, dict):
        raise CertificateError(f"{name!r} holds no certificate: it must be a JSON object with a schema")
    return raw
