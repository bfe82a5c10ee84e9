"""Files on disk: read with words for what is wrong, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, Final

import rfc8785

from pufferdp.basics.checks import file_path
from pufferdp.basics.errors import InputError, ModelError, ParameterError
from pufferdp.basics.places import check_place

LONGEST: Final = 2**28
"""Characters of a JSON file that is read: one without an end must not fill the memory."""
MOST_VALUES: Final = 2**21
"""Values and names of a JSON file that is read. Python keeps up to 400 bytes for one that is not as it must be, so that
a stranger's file takes less than a gigabyte; a model of a thousand states has half as many."""
LARGEST_WHOLE: Final = 2**63
"""Whole numbers from here on fit into no database and no column."""


class JsonRuleError(ValueError):
    """A JSON text with more values than are read, or with one name twice, of which readers take different values."""


def parse_json(text: str) -> Any:
    """The content of a JSON text from outside. Raises ValueError, or RecursionError where it is nested too deep."""
    if _has_too_many(text):
        raise JsonRuleError(f"it has more than {MOST_VALUES:,} values and names, the most that are read")
    return json.loads(text, object_pairs_hook=_each_once)


def _has_too_many(text: str) -> bool:
    """Whether a JSON text has more values and names than are read; each comes after one of four characters."""
    if sum(map(text.count, "[{,:")) <= MOST_VALUES:
        return False
    # Texts may have these characters in them: only what is outside of quotes counts, and each text is a value.
    bare = text.replace("\\\\", "").replace('\\"', "")
    outside = "".join(bare.split('"', 2 * MOST_VALUES)[::2])
    return sum(map(outside.count, "[{,:")) > MOST_VALUES


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        times = Counter(name for name, _ in pairs)  # counted one by one, a million names take hours
        twice = next(name for name in content if times[name] > 1)
        raise JsonRuleError(f"{twice[:60]!r} is given twice; give every name once")
    return content


def read_text(path: str | os.PathLike[str], what: str, error: type[InputError], longest: int) -> str:
    """The text of a file from outside; rejects one that is not there, is no text or is too long."""
    try:
        # Some editors put a byte order mark first.
        with Path(file_path(path, what)).open(encoding="utf-8-sig") as file:
            text = file.read(longest + 1)
    except FileNotFoundError:
        raise error(f"{what} {str(path)!r} does not exist", value=path) from None
    except IsADirectoryError:
        raise error(f"{what} {str(path)!r} is a folder; name the JSON file in it", value=path) from None
    except UnicodeDecodeError:
        raise error(f"{what} {str(path)!r} is not text; it must be JSON in UTF-8", value=path) from None
    except OSError as failure:
        raise error(f"{what} {str(path)!r} cannot be read: {failure.strerror}", value=path) from None
    if len(text) > longest:
        raise error(f"{what} {str(path)!r} is longer than {longest:,} characters; none is", value=path)
    return text


def read_json(path: str | os.PathLike[str], what: str) -> object:
    """The content of a JSON file that a person wrote."""
    text = read_text(path, what, ModelError, LONGEST)
    if not text.strip():
        raise ModelError(f"{what} {str(path)!r} is empty; it must be JSON", value=path)
    try:
        return parse_json(text)
    except JsonRuleError as error:
        raise ModelError(f"{what} {str(path)!r}: {error}", value=path) from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ModelError(f"{what} {str(path)!r} is not JSON; the first mistake is at {where}", value=path) from None
    except (ValueError, RecursionError):
        raise ModelError(f"{what} {str(path)!r} is not JSON: a number is too long or the nesting too deep") from None


def check_values(content: object, error: type[InputError], what: str, *, finite: bool = False) -> None:
    """Refuse numbers and texts from JSON that no file of ours can hold: Python reads them, and nobody else does.

    With ``finite`` NaN and Infinity too, where nobody says so in better words later.
    """
    level = [content]
    while level:  # a level at a time: value by value, a table of two million entries takes seconds
        kinds = set(map(type, level))
        whole = _instances(level, kinds, int)
        if whole and not -LARGEST_WHOLE <= min(whole) <= max(whole) < LARGEST_WHOLE:
            value = next(value for value in whole if not -LARGEST_WHOLE <= value < LARGEST_WHOLE)
            raise error(f"{what} holds a whole number beyond 2^63; write it as a decimal, or correct it", value=value)
        for value in _instances(level, kinds, float) if finite else ():
            if not math.isfinite(value):
                raise error(f"{what} holds {value}, which JSON does not have; give a finite number", value=value)
        for value in _instances(level, kinds, str):
            if not value.isascii():
                try:
                    value.encode()
                except UnicodeEncodeError:
                    raise error(
                        f"{what} holds the text {ascii(value)[:60]}, which is not Unicode; correct it"
                    ) from None
        objects, lists = _instances(level, kinds, dict), _instances(level, kinds, (list, tuple))
        level = [*chain.from_iterable(objects), *chain.from_iterable(map(dict.values, objects))]
        level += chain.from_iterable(lists)


def _instances(values: list[Any], kinds: set[type], kind: type | tuple[type, ...]) -> list[Any]:
    """The values that are of a kind, where ``kinds`` are those of all of them."""
    if not any(issubclass(other, kind) for other in kinds):
        return []
    return values if len(kinds) == 1 else [value for value in values if isinstance(value, kind)]


def found_text(value: object) -> str:
    """A value as it stands in a JSON file, cut where it is long."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:60] + "…"


def canonical_json(value: object) -> str:
    """Canonical JSON by RFC 8785: one text for one content, and the same text in every language.

    Every number is a double there. Raises ValueError for a whole number that no double equals, and for NaN or infinity.
    """
    try:
        return rfc8785.dumps(value).decode()  # type: ignore[arg-type]
    except rfc8785.IntegerDomainError:
        return rfc8785.dumps(_large_as_doubles(value)).decode()


def _large_as_doubles(value: object) -> Any:
    """The content with whole numbers from 2^53 on as the doubles that they equal."""
    if isinstance(value, dict):
        return {key: _large_as_doubles(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_large_as_doubles(inner) for inner in value]
    if not isinstance(value, int) or abs(value) < 2**53:
        return value
    double = float(value) if abs(value) < 2**1000 else 0.0
    if value not in (int(double), int(Decimal(repr(double)))):  # as Python and as JSON write the double
        raise ValueError(f"the whole number {value} is no double; write it as text")
    return double


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
