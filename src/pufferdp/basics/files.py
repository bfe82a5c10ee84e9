"""Files on disk: read with words for what is wrong, written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pufferdp.basics.errors import ModelError, ParameterError
from pufferdp.basics.places import check_place


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
    check_place(path, name, endings, overwrite=True)


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a file beside its place and move it there, so that nobody ever sees half of it."""
    place = check_place(path, "out", overwrite=True)
    try:
        place.fill(lambda beside: beside.write_text(text, encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"{str(path)!r} cannot be written: {error.strerror}", value=path) from None
