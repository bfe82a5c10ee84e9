"""Small files of numbers: a DP loss for each record, or the pairs of a privacy profile, as CSV or as a JSON list."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from os import PathLike, fspath

from pufferdp.basics.errors import DataError
from pufferdp.basics.files import LONGEST, found_text, read_json, read_text


def read_losses(path: str | PathLike[str]) -> list[float]:
    """The DP losses of a file, in its order."""
    rule = "give one DP loss per record, a finite number, 0 or more"
    return [loss for (loss,) in read_numbers(path, "losses file", ("loss",), rule)]


def read_numbers(path: str | PathLike[str], what: str, names: tuple[str, ...], rule: str) -> list[tuple[float, ...]]:
    """The numbers of a file, row by row; each is finite, and 0 or more.

    Args:
        path: a JSON list, or CSV with or without a header.
        what: what messages call the file.
        names: the columns that are read. Without a header a row has just these.
        rule: what the file must hold, for messages.
    """
    place = f"{what} {fspath(path)!r}"
    text = read_text(path, what, DataError, LONGEST)
    if text.lstrip().startswith(("[", "{")):
        content = read_json(path, what)
        if not isinstance(content, list):
            raise DataError(f"{place} is {found_text(content)}; it must be a JSON list: {rule}")
        rows = [(f"entry {n:,} of {place}", _entry(item, names)) for n, item in enumerate(content, start=1)]
    else:
        rows = _csv_rows(text, place, names)
    if not rows:
        raise DataError(f"{place} has no {names[0]}; {rule}")
    for where, cells in rows:
        if len(cells) != len(names):
            raise DataError(f"{where} must be {' and '.join(names)}; {rule}", value=cells)
    return [
        tuple(_number(cell, f"{name} in {where}", rule) for name, cell in zip(names, cells, strict=True))
        for where, cells in rows
    ]


def _entry(item: object, names: Sequence[str]) -> list[object]:
    """The cells of an entry of a JSON list: an object with these names, a list, or one value."""
    if isinstance(item, Mapping):
        return [item[name] for name in names if name in item]
    return item if isinstance(item, list) else [item]


def _csv_rows(text: str, place: str, names: Sequence[str]) -> list[tuple[str, list[object]]]:
    """The cells of the named columns, and where they are: rows are counted from 1, with the header."""
    try:
        lines = [(n, row) for n, row in enumerate(csv.reader(io.StringIO(text)), start=1) if any(map(str.strip, row))]
    except csv.Error as error:
        raise DataError(f"{place} cannot be read: {error}", value=place) from None
    head = [cell.strip().lower() for cell in lines[0][1]] if lines else []
    if head and not _is_number(head[0]):
        if not set(names) <= set(head):
            raise DataError(f"{place} has the columns {', '.join(head)}; it must have {' and '.join(names)}")
        del lines[0]
    else:
        head = list(names)
    for n, row in lines:
        if len(row) != len(head):
            raise DataError(
                f"row {n:,} of {place} has {len(row)} columns; give {len(head)} in each row, or a header that names "
                f"{' and '.join(names)}",
                value=row,
            )
    return [(f"row {n:,} of {place}", [row[head.index(name)].strip() for name in names]) for n, row in lines]


def _number(value: object, what: str, rule: str) -> float:
    shown = repr(value) if isinstance(value, str) else found_text(value)
    if isinstance(value, bool) or not _is_number(value):
        raise DataError(f"{what} is {shown}, not a number; {rule}", value=value)
    number = float(str(value))
    if not (math.isfinite(number) and number >= 0):
        raise DataError(f"{what} is {number:g}; {rule}", value=number)
    return number


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True
