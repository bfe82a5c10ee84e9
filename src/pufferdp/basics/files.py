"""Files on disk: read with words for what is wrong, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pufferdp.basics.errors import ModelError, ParameterError


def read_json(path: str | os.PathLike[str], what: str) -> object:
    """The content of a JSON file that a person wrote."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # some editors put a byte order mark first
    except FileNotFoundError:
        raise ModelError(f"{what} {str(path)!r} does not exist", value=path) from None
    except IsADirectoryError:
        raise ModelError(f"{what} {str(path)!r} is a folder; name the JSON file in it", value=path) from None
    except UnicodeDecodeError:
        raise ModelError(f"{what} {str(path)!r} is not text; it must be JSON in UTF-8", value=path) from None
    except OSError as error:
        raise ModelError(f"{what} {str(path)!r} cannot be read: {error.strerror}", value=path) from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ModelError(f"{what} {str(path)!r} is not JSON: it breaks off at {where}", value=path) from None
    except (ValueError, RecursionError):
        raise ModelError(f"{what} {str(path)!r} is not JSON: a number is too long or the nesting too deep") from None


def found_text(value: object) -> str:
    """A value as it stands in a JSON file, cut where it is long."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:60] + "…"


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces: one text for one content."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def check_file(path: str | os.PathLike[str], name: str, endings: tuple[str, ...] = ()) -> None:
    """Refuse a place where no file can be written, before the work that would fill it."""
    text, target = os.fspath(path), Path(path)
    if not target.name or target.is_dir():
        raise ParameterError(
            f"{name} is {text!r}, which is not a file name but a folder; name a file in it", value=path
        )
    if endings and not target.name.lower().endswith(endings):
        raise ParameterError(f"{name} is {text!r}; its name must end in one of {', '.join(endings)}", value=path)
    if not target.parent.is_dir():
        raise ParameterError(
            f"{name} is {text!r}, but there is no folder {str(target.parent)!r}; make it first", value=path
        )


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Another name in the same folder to write to, moved to ``target`` at the end, or removed where that fails."""
    beside = target.with_name(f".{os.getpid()}.part.{target.name}")  # the ending stays: some writers go by it
    try:
        yield beside
        beside.replace(target)
    finally:
        with suppress(OSError):
            beside.unlink()


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a file beside its place and move it there, so that nobody ever sees half of it."""
    check_file(path, "out")
    target = Path(path)
    try:
        with whole_file(target) as beside, beside.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        raise ParameterError(f"{str(target)!r} cannot be written: {error.strerror}", value=path) from None
