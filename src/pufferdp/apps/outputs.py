"""What a verb writes: every place tried before anything is charged, every answer delivered once it is.

A verb names its outputs first. What can fail is refused then, and nothing was charged. When the answer is there each
output is written, whatever happens to the others; if none of them has all of it in the end, the answer and its
certificate go to stderr, or into a file beside the ledger.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import quote

import typer

from pufferdp.apps.flags import flags
from pufferdp.basics.errors import DeliveryError, ParameterError, PufferdpError
from pufferdp.basics.extras import install_advice
from pufferdp.basics.interrupts import Interrupted
from pufferdp.basics.places import (
    Place,
    check_apart,
    check_place,
    check_streams,
    named_files,
    normalised_name,
    spare_folders,
    sync,
)
from pufferdp.basics.unexpected import describe_unexpected, system_reason
from pufferdp.basics.words import visible

if TYPE_CHECKING:
    from pufferdp.publish.signatures import Signer

R = TypeVar("R")
SCREEN: Final = threading.RLock()
"""Held by the thread that writes to a terminal: progress and results take turns."""
ON_SCREEN: Final[list[Callable[[], None]]] = []
"""What wipes the lines of progress that are on the terminal: a result begins on a line of its own."""
_ENDINGS: Final[dict[str, tuple[str, ...]]] = {"figure": (".png", ".svg", ".pdf"), "report": (".html",)}
_LIBRARIES: Final = {"figure": ("matplotlib.figure",), "report": ("jinja2", "matplotlib.figure")}
_TOLD: Final = 8
"""So many problems are told one by one."""
_LONGEST: Final = 200
"""Bytes of a file name that we make up; file systems take 255, some fewer."""


class Outputs:
    """The outputs of one run, by the options that name them."""

    def __init__(
        self,
        places: Mapping[str, str | None],
        *,
        sources: Mapping[str, str | None] | None = None,
        ledger: str | None = None,
        overwrite: bool = False,
        whole: Sequence[str] = ("out",),
        together: bool = False,
    ) -> None:
        """Refuse what could not be written, or must not be.

        Args:
            places: the file of each option; None where it was not given.
            sources: what is read, by what it is.
            ledger: where it is charged.
            overwrite: whether files that are there may be replaced.
            whole: the options whose file has the whole answer with its certificate; none where there is no answer.
            together: whether it takes all of these files to have it, and not any one.
        """
        self._ledger_file = None if ledger is None or "://" in ledger else ledger
        self._charged, self._overwrite, self._whole = ledger is not None, overwrite, whole
        self._together = together
        self._sources = {what: named_files(source) for what, source in (sources or {}).items()}
        self._places = {name: self.check(name, path) for name, path in places.items() if path is not None}
        check_apart(list(self._places.values()))
        check_streams(self._sources, self._ledger_file)
        for name in self._places:
            _check_libraries(name)
        if self._charged and whole and sys.stdout is None and not any(name in self._places for name in whole):
            raise ParameterError(
                f"stdout is closed, and no file is named for the answer; open it, or name a file with --{whole[0]}"
            )
        self.accident = ""
        """What went wrong while the answer was made."""
        self.problems: list[str] = []
        """What went wrong after that, and before it was delivered."""
        self.elsewhere: str | None = None
        """Where a series went that could not be written to its place."""
        self.stopped: int | None = None
        """The signal that has ended a stream."""

    def check(self, name: str, path: str) -> Place:
        """One place, after trying whether it can be written."""
        return check_place(
            path,
            name,
            _ENDINGS.get(name, ()),
            overwrite=self._overwrite,
            sources=self._sources,
            ledger=self._ledger_file,
        )

    def check_folder(self, name: str, folder: str, titles: Iterable[str]) -> dict[str, Place]:
        """A place in a folder for each title, tried."""
        names = file_names(titles)
        there = {normalised_name(file) for file in os.listdir(folder)}
        # Who lies in the folder already is looked at one by one; a free name is tried once for all.
        check_place(Path(folder) / file_names(["any"])["any"], name, overwrite=True)
        places = {}
        for title, file in names.items():
            path = os.path.join(folder, file)
            if normalised_name(file) in there:
                places[title] = self.check(name, path)
            else:
                target = Path(os.path.realpath(folder)) / file
                places[title] = Place(name=name, path=path, target=target, overwrite=self._overwrite)
        return places

    @contextmanager
    def reserved_spaces(self, name: str) -> Iterator[Callable[[int], None]]:
        """What reserves space for so many bytes at a place, until the block ends; refuses where there is none."""
        with ExitStack() as stack:

            def reserve(size: int) -> None:
                if name in self._places:
                    self._places[name] = stack.enter_context(self._places[name].with_space(size))

            yield reserve

    def make(self, work: Callable[[], R]) -> R:
        """What the work makes, also where it could not be delivered to its place."""
        try:
            return work()
        except DeliveryError as error:
            if error.result is None:
                raise
            self.accident = flags(str(error))
            self.elsewhere = None if error.value is None else str(error.value)
            if isinstance(error.__cause__, Interrupted):
                self.stopped = error.__cause__.number
            return cast(R, error.result)

    def content_of(self, result: Any) -> dict[str, Any]:
        """The whole answer as JSON has it; its certificate, which has the answer too, where it cannot be put so."""
        try:
            return cast(dict[str, Any], result.to_dict())
        except Exception as error:
            if not self._charged:
                raise
            self.problems.append(f"{describe_unexpected(error)}: of the answer only its certificate is left")
        try:
            return {"certificate": result.certificate.to_dict()}
        except Exception as error:
            reason = describe_unexpected(error)
            raise DeliveryError(f"it was charged, and made, and cannot be written: {reason}") from None

    def signature(self, signer: Signer | None, certificate: dict[str, Any]) -> dict[str, Any]:
        """The signature beside a certificate; none where nobody signs, or where that fails."""
        try:
            return {} if signer is None else {"signature": signer.sign(certificate)}
        except Exception as error:
            self.problems.append(f"the certificate could not be signed: {reason_of(error)}; use pufferdp sign")
            return {}

    @contextmanager
    def delivery(
        self, content: Mapping[str, Any], receipt: Mapping[str, Any] | None = None, *, published: bool = False
    ) -> Iterator[Delivery]:
        """Deliver a result: whatever fails inside is told at the end, when all else was tried.

        Args:
            content: the whole answer, as JSON has it.
            receipt: the row of the ledger; none where nothing was charged.
            published: whether it is an answer from data, which must not be lost.
        """
        delivery = Delivery(self._places, self._charged, published)
        delivery.problems += self.problems
        if self.accident:
            delivery.problems.append(self.accident)
        try:
            yield delivery
        except typer.Exit:
            raise
        except Exception as error:
            if not published:
                raise
            delivery.problems.append(f"an error in pufferdp, {reason_of(error)}")
        if not delivery.problems:
            return
        words, more = delivery.problems[:_TOLD], len(delivery.problems) - _TOLD
        words += [f"and {more:,} more"] if more > 0 else []
        if receipt is not None and not self.accident:
            words.append(f"data set {receipt['dataset']!r} was charged (row {receipt['position']})")
        elif self._charged and published and not self.accident:
            words.append("it was charged")
        if published:
            kept = delivery.kept(self._whole, self._together)
            words.append(f"the answer and its certificate are {kept or self._rescue(content, receipt)}")
        raise DeliveryError("; ".join(words))

    def show(
        self,
        content: Mapping[str, Any],
        text: str,
        as_json: bool,
        draw: Callable[[Path], object],
        *,
        words: Callable[[str], str] = "\n\nFigure: {}".format,
        report: object = None,
    ) -> None:
        """Show what is neither an answer nor charged, with its figure and its report where they were asked for."""
        with self.delivery(content) as delivery:
            if delivery.write("figure", draw):
                text += words(self._places["figure"].path)
            delivery.show(content, lambda: text, as_json)
            delivery.report(report)

    def _rescue(self, content: Mapping[str, Any], receipt: Mapping[str, Any] | None) -> str:
        """Bring an answer to its owner when nothing else did; where it is then."""
        text = json.dumps(content) + "\n"
        if sys.stderr is not None:
            try:
                sys.stderr.write(text)
                sys.stderr.flush()
                return "in the line of JSON above"
            except (OSError, ValueError):
                silence(sys.stderr)
        if self._charged:
            title = answer_title(os.path.basename(self._ledger_file or "pufferdp-ledger"), receipt)
            here = [] if self._ledger_file else [Path()]
            for folder in (*here, *spare_folders(self._ledger_file)):
                with suppress(OSError):
                    return f"in {str(write_new(folder, title, text.encode()))!r}"
        return "lost: nothing could be written"


class Delivery:
    """One result on its way to where it was asked for."""

    def __init__(self, places: Mapping[str, Place], charged: bool, published: bool) -> None:
        self._places, self._charged, self._published = places, charged, published
        self.problems: list[str] = []
        """What went wrong, in words."""
        self._written: list[str] = []
        self._shown_whole = False

    def kept(self, whole: Sequence[str], together: bool = False) -> str:
        """Where the whole answer is; empty where it is nowhere."""
        if self._shown_whole:
            return "on stdout"
        if together:
            places = [repr(self._places[name].path) for name in whole if name in self._written]
            return f"in {' and '.join(places)}" if places and len(places) == len(whole) else ""
        return next((f"in {self._places[name].path!r}" for name in whole if name in self._written), "")

    def has(self, name: str) -> bool:
        """Whether an output was written."""
        return name in self._written

    def write(self, name: str, write: Callable[[Path], object]) -> bool:
        """Let ``write`` make one output, where it was asked for; whether it is there now."""
        if name not in self._places:
            return False
        if self.fill(self._places[name], write):
            self._written.append(name)
        return name in self._written

    def fill(self, place: Place, write: Callable[[Path], object]) -> bool:
        """Fill one place; whether that went well."""
        try:
            place.fill(write)
        except Exception as error:
            if not self._published and not isinstance(error, OSError):
                raise
            self.problems.append(f"{place.name} {place.path!r} cannot be written: {reason_of(error)}")
            return False
        return True

    def json(self, name: str, content: object) -> bool:
        """Write one output as JSON that people can read."""
        return self.write(name, lambda path: write_json(path, content))

    def report(self, subject: object) -> bool:
        """Write the report, where one was asked for."""

        def write(path: Path) -> None:
            from pufferdp.report.html import write_report

            write_report(subject, path)

        return self.write("report", write)

    def show(self, content: Mapping[str, Any], text: Callable[[], str], as_json: bool, stream: Any = None) -> None:
        """One JSON object for machines, or text for people, on stdout unless another stream is named."""
        stream, name = (stream, "stderr") if stream is not None else (sys.stdout, "stdout")
        try:
            put(json.dumps(content, allow_nan=False) if as_json else visible(text()), stream)
            self._shown_whole = as_json and stream is not None
        except BrokenPipeError:
            silence(stream)
            if not self._charged:
                raise typer.Exit(141) from None  # as a program that SIGPIPE ends
            self.problems.append(f"the reader of {name} has gone")
        except Exception as error:
            if not self._published and not isinstance(error, OSError):
                raise
            silence(stream)
            self.problems.append(f"{name} cannot be written: {reason_of(error)}")


def put(text: str, stream: Any) -> None:
    """Write a text and have it gone. A stream that was closed from the start takes everything."""
    if stream is not None:
        with SCREEN:
            for wipe in ON_SCREEN:
                wipe()
            stream.write(text + "\n")
            stream.flush()


def write_json(path: Path, content: object) -> None:
    """Write JSON that people can read, in UTF-8; characters that this cannot spell are escaped."""
    try:
        data = json.dumps(content, indent=1, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        data = json.dumps(content, indent=1).encode()
    path.write_bytes(data + b"\n")


def plain_json(content: object) -> str:
    """JSON in one line for people: with signs as they are where the terminal can print them."""
    text = json.dumps(content, ensure_ascii=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(content)
    return text


def reason_of(error: Exception) -> str:
    """Why something failed; of errors that are not ours only the kind, because their message may repeat data."""
    if isinstance(error, OSError):
        return system_reason(error)
    return flags(str(error)) if isinstance(error, PufferdpError) else type(error).__name__


def silence(stream: Any) -> None:
    """Let a stream that failed end quietly: Python would write what is left of it once more at exit."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def file_names(titles: Iterable[str]) -> dict[str, str]:
    """A JSON file for each title: a name that every file system takes, and none twice whatever it does with case."""
    names = {title: quote(title, safe=" ", errors="surrogatepass").replace(".", "%2E") for title in titles}
    times = Counter(map(normalised_name, names.values()))
    fits = {t: bool(n.strip()) and len(n) <= _LONGEST and times[normalised_name(n)] == 1 for t, n in names.items()}
    return {title: f"{name if fits[title] else _short(title, name)}.json" for title, name in names.items()}


def _short(title: str, name: str) -> str:
    digest = hashlib.sha256(title.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{name[: _LONGEST - 40]}~{digest}"


def answer_title(ledger: str, receipt: Mapping[str, Any] | None) -> str:
    """What a file with a charged answer is called, before its ending: by its ledger, its data set and its row."""
    if receipt is None:
        return f"{ledger}-answers"[:_LONGEST]
    name = file_names([str(receipt["dataset"])])[str(receipt["dataset"])].removesuffix(".json")
    return f"{ledger[:_LONGEST]}-{name}"[: _LONGEST + 20] + f"-row-{receipt['position']}"


def write_new(folder: Path, title: str, content: bytes, ending: str = ".json") -> Path:
    """Write a file that only its owner can read, under a name that is free; it is on disk when this returns."""
    for more in ("", *(f"-{n}" for n in range(2, 1000))):
        path = folder / f"{title}{more}{ending}"
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            continue
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            path.unlink()
            raise
        with suppress(OSError):  # not every system opens folders
            sync(folder)
        return path
    raise FileExistsError(f"every name like {title}{ending} is taken")


def _check_libraries(name: str) -> None:
    for module in _LIBRARIES.get(name, ()):
        try:
            importlib.import_module(module)
        except ImportError:
            raise ParameterError(
                f"a {name} needs {module.partition('.')[0]}; install it with: {install_advice('report')}"
            ) from None
