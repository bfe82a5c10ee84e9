"""Places that will be written: tried before the work that fills them, filled whole, never replaced unasked."""

from __future__ import annotations

import errno
import glob
import os
import secrets
import shutil
import stat
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Final, TypeVar

from pufferdp.basics.checks import file_path
from pufferdp.basics.errors import ParameterError
from pufferdp.basics.scratch import scratch
from pufferdp.basics.words import quoted_value

_LEDGER_FILES: Final = ("", "-wal", "-shm", "-journal")
"""What SQLite has beside a database."""
_UNLINKABLE: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
"""How a file system says that it has no hard links."""
_USUAL: Final = 1 << 14
"""Bytes that a place must have space for: an answer with its certificate takes 4,000 to 12,000."""
T = TypeVar("T")
_quoted: Final = partial(quoted_value, most=200)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one output goes. ``check_place`` makes it."""

    name: str
    """The option that named it."""
    path: str
    """The path as it was given."""
    target: Path
    """The file itself: links are followed."""
    overwrite: bool = False
    device: bool = False
    """/dev/null or a terminal: written to, and never moved over."""
    reserved: Path | None = field(default=None, repr=False)
    """A file beside it that holds the space until it is filled."""

    def fill(self, write: Callable[[Path], T]) -> T:
        """Let ``write`` make a file beside the place, and move it there: whole or not at all.

        Raises OSError; FileExistsError where a file has come to the place in the meantime.
        """
        if self.device:
            with scratch() as folder:
                made = folder / f"output{_endings(self.path)}"
                result = write(made)
                with made.open("rb") as source, self.target.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
            return result
        beside = self.reserved or _beside(self.target)
        try:
            result = write(beside)
            sync(beside)
            move(beside, self.target, self.overwrite)
            return result
        finally:
            with suppress(OSError):
                beside.unlink()

    @contextmanager
    def with_space(self, size: int) -> Iterator[Place]:
        """The same place, with space for so many bytes kept for it until the end of the block."""
        if self.device:
            yield self
            return
        with ExitStack() as stack:
            try:
                beside = stack.enter_context(_allocated_file(self.target, size))
            except OSError as error:
                raise ParameterError(
                    f"{self.name} is {self.path!r}, and there is no space for about {size:,} bytes: {error.strerror}; "
                    "make space, or name another folder",
                    value=self.path,
                ) from None
            yield replace(self, reserved=beside)


def check_place(
    path: str | os.PathLike[str],
    name: str,
    endings: tuple[str, ...] = (),
    *,
    overwrite: bool = False,
    sources: Mapping[str, Sequence[str]] | None = None,
    ledger: str | None = None,
    device: bool = True,
) -> Place:
    """Refuse a place that cannot be written, or must not be; really try, with a file beside it.

    Args:
        path: where the output goes.
        name: the option that says so.
        endings: what its name may end in; anything where there are none.
        overwrite: whether a file that is there may be replaced.
        sources: files that are read, by what they are; never replaced.
        ledger: the file of the ledger; neither it nor what lies beside it is ever replaced.
        device: whether it may be a device, such as /dev/null.
    """
    text = os.fspath(file_path(path, name))
    try:
        place = _place(text, name, endings, overwrite, device)
        _refuse_sources(place, sources or {}, ledger)
        if not place.device:
            with _allocated_file(place.target, _USUAL):  # or a full disk is only seen when it is charged already
                pass
        return place
    except OSError as error:
        reason = "its name is too long" if error.errno == errno.ENAMETOOLONG else error.strerror
        raise ParameterError(f"{name} is {_quoted(text)}, which cannot be written: {reason}", value=path) from None
    except ValueError:
        raise ParameterError(f"{name} is {_quoted(text)}, which is not a possible file name", value=path) from None


def check_apart(places: Sequence[Place]) -> None:
    """Refuse two outputs in one file."""
    for n, place in enumerate(places):
        for other in places[:n]:
            if not place.device and _same_place(place.target, other.target):
                raise ParameterError(
                    f"{place.name} and {other.name} are the same file, {place.path!r}; name two", value=place.path
                )


def check_streams(sources: Mapping[str, Sequence[str]], ledger: str | None) -> None:
    """Refuse a stdout or stderr that goes into a file that is read, as with >> books.db."""
    for name, there in _streams().items():
        for what, files in {**sources, "the ledger": _ledger_files(ledger)}.items():
            for file in files if stat.S_ISREG(there.st_mode) else ():
                status = _status(Path(file))
                if status is not None and os.path.samestat(there, status):
                    raise ParameterError(f"{name} goes into {what} itself, {file!r}; send it elsewhere", value=file)


def named_files(source: object) -> list[str]:
    """The files that a data source stands for: a file, a folder or a pattern of them, or a table of a SQLite file."""
    if not isinstance(source, (str, os.PathLike)):
        return []
    text = os.fspath(source)
    if "://" in text or text == "-":
        return []
    with suppress(OSError, ValueError):
        if os.path.isdir(text):
            return [os.path.join(folder, file) for folder, _, files in os.walk(text) for file in files]
        if os.path.lexists(text):
            return [text]
        database, mark, _ = text.partition("::")
        if mark and os.path.lexists(database):
            return [database + more for more in _LEDGER_FILES]
        if glob.has_magic(text):
            return sorted(glob.glob(text, recursive=True))
    return []


def move(source: Path, target: Path, overwrite: bool) -> None:
    """Move a file to its place in the same folder; where it must not replace anything, to a free one only."""
    if overwrite:
        source.replace(target)
    else:
        try:
            os.link(source, target)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno not in _UNLINKABLE:
                raise
            # No hard links here. The name is taken first, so that a process that comes in between is rejected.
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            try:
                source.replace(target)
            except OSError:
                target.unlink()
                raise
        else:
            source.unlink()
    with suppress(OSError):  # not every system opens folders
        sync(target.parent)


def sync(path: Path) -> None:
    """Wait until a file or a folder is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def spare_folders(ledger: str | None) -> Iterator[Path]:
    """Where something goes that cannot go to its place: beside the ledger, or else into the temporary folder."""
    if ledger is not None:
        with suppress(OSError):
            yield Path(os.path.realpath(ledger)).parent
    with suppress(OSError):  # there may be no folder at all that can be written
        yield Path(tempfile.gettempdir())


def home_folder() -> Path:
    """The user's own folder: ``PUFFERDP_HOME``, or one in the configuration folder. It may not be there yet."""
    if "PUFFERDP_HOME" in os.environ:
        return Path(os.environ["PUFFERDP_HOME"])
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "pufferdp"


def ignores_case(folder: Path) -> bool:
    """Whether a folder takes A and a for one name."""
    probe = folder / f".pufferdp-{secrets.token_hex(8)}-a"
    try:
        probe.open("xb").close()
        return os.path.lexists(folder / probe.name.upper())
    except OSError:
        return False
    finally:
        with suppress(OSError):
            probe.unlink()


def normalised_name(name: str) -> str:
    """The name in one spelling: names that are equal then may be one file, depending on the file system."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _place(text: str, name: str, endings: tuple[str, ...], overwrite: bool, device: bool) -> Place:
    given = Path(text)
    if not text or not given.name or text.endswith(("/", os.sep)) or given.is_dir():
        raise ParameterError(f"{name} is {_quoted(text)}, which is a folder; name a file in it", value=text)
    if endings and not given.name.lower().endswith(endings):
        raise ParameterError(
            f"{name} is {_quoted(text)}; its name must end in "
            f"{', '.join(endings[:-1])}{' or ' * (len(endings) > 1)}{endings[-1]}",
            value=text,
        )
    there = _status(given)
    if there is not None and not stat.S_ISREG(there.st_mode):
        if not stat.S_ISCHR(there.st_mode) or not device:
            raise ParameterError(
                f"{name} is {_quoted(text)}, which is {_kind(there.st_mode)} and not a file; name a file, or use "
                "to_dict()",
                value=text,
            )
        if not os.access(given, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return Place(name=name, path=text, target=given, overwrite=overwrite, device=True)
    if there is not None and any(os.path.samestat(there, stream) for stream in _streams().values()):
        raise ParameterError(
            f"{name} is {_quoted(text)}, where stdout or stderr goes; name another file, or use to_dict()",
            value=text,
        )
    target = Path(os.path.realpath(given))
    if not target.parent.is_dir():
        raise ParameterError(
            f"{name} is {_quoted(text)}, but there is no folder {_quoted(str(target.parent))}; make it first",
            value=text,
        )
    return Place(name=name, path=text, target=target, overwrite=overwrite)


def _refuse_sources(place: Place, sources: Mapping[str, Sequence[str]], ledger: str | None) -> None:
    if place.device:
        return
    for what, files in sources.items():
        if any(_same_place(place.target, Path(file)) for file in files):
            raise ParameterError(f"{place.name} is {_quoted(place.path)}, which is {what} itself; name another file")
    if any(_same_place(place.target, Path(file)) for file in _ledger_files(ledger)):
        raise ParameterError(f"{place.name} is {_quoted(place.path)}, which belongs to the ledger; name another file")
    if _status(place.target) is not None and not place.overwrite:
        raise ParameterError(
            f"{place.name} is {_quoted(place.path)}, which already exists; name another file, or use overwrite=True",
            value=place.path,
        )


def _ledger_files(ledger: str | None) -> list[str]:
    """The ledger and what SQLite has beside it, by the name that was given and by that of the file."""
    names = [] if ledger is None else [ledger, os.path.realpath(ledger)]
    return [name + more for name in names for more in _LEDGER_FILES]


def _same_place(one: Path, other: Path) -> bool:
    """Whether two names stand for one file, also where there is none yet."""
    first, second = _status(one), _status(other)
    if first is not None and second is not None:
        return os.path.samestat(first, second)
    if normalised_name(one.name) != normalised_name(other.name):
        return False
    above, below = _status(one.parent), _status(other.parent)
    same_folder = above is not None and below is not None and os.path.samestat(above, below)
    return same_folder and (one.name == other.name or ignores_case(one.parent))


@contextmanager
def _allocated_file(target: Path, size: int) -> Iterator[Path]:
    """A file beside the target with so many bytes on disk, removed at the end of the block."""
    beside = _beside(target)
    try:
        with beside.open("xb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, max(size, 1))
            else:
                file.writelines(repeat(bytes(2**20), size // 2**20 + 1))
        yield beside
    finally:
        with suppress(OSError):
            beside.unlink()


def _beside(target: Path) -> Path:
    """A new name in the same folder; it stays short, and keeps the ending: some writers go by it."""
    return target.with_name(f".pufferdp-{secrets.token_hex(8)}{_endings(target.name)}")


def _endings(name: str) -> str:
    return "".join(Path(name).suffixes[-2:])[-16:]


def _status(path: Path) -> os.stat_result | None:
    """What is there, links followed; None where nothing is."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _streams() -> dict[str, os.stat_result]:
    """Where stdout and stderr go, those that are open."""
    statuses = {}
    for handle, name in ((1, "stdout"), (2, "stderr")):
        with suppress(OSError):
            statuses[name] = os.fstat(handle)
    return statuses


def _kind(mode: int) -> str:
    return "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
