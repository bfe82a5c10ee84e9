"""A DP loss for each record, from a file: a column of a CSV file, a JSON list, or lines of text."""

from __future__ import annotations

import csv
import math
from os import PathLike, fspath
from pathlib import Path
from typing import Final

from pufferdp.basics.errors import DataError
from pufferdp.basics.files import found_text, read_json

HEADER: Final = "loss"
_WAY_OUT: Final = "give one DP loss per record, a finite number, 0 or more"


def read_losses(path: str | PathLike[str]) -> list[float]:
    """The losses of a file, in its order; rows are counted from 1, with the header."""
    name = fspath(path)
    if name.lower().endswith(".json"):
        content = read_json(path, "losses file")
        if not isinstance(content, list):
            raise DataError(f"losses file {name!r} is {found_text(content)}; it must be a JSON list: {_WAY_OUT}")
        losses = [_loss(value, n, name, "entry") for n, value in enumerate(content, start=1)]
    else:
        losses = [_loss(value, n, name, "row") for n, value in _lines(path, name)]
    if not losses:
        raise DataError(f"losses file {name!r} has no loss; {_WAY_OUT}")
    return losses


def _lines(path: str | PathLike[str], name: str) -> list[tuple[int, str]]:
    """Rows with their numbers; a header is left out, and picks its column."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            rows = [(n, row) for n, row in enumerate(csv.reader(file), start=1) if any(cell.strip() for cell in row)]
    except FileNotFoundError:
        raise DataError(f"losses file {name!r} does not exist", value=name) from None
    except IsADirectoryError:
        raise DataError(f"losses file {name!r} is a folder; name a file in it", value=name) from None
    except UnicodeDecodeError:
        raise DataError(
            f"losses file {name!r} is not text; it must be CSV, JSON or lines in UTF-8", value=name
        ) from None
    except (OSError, csv.Error) as error:
        raise DataError(f"losses file {name!r} cannot be read: {error}", value=name) from None
    column = 0
    if rows and any(cell.strip().lower() == HEADER for cell in rows[0][1]):
        column = [cell.strip().lower() for cell in rows[0][1]].index(HEADER)
        rows = rows[1:]
    elif rows and len(rows[0][1]) > 1:
        raise DataError(
            f"row {rows[0][0]} of losses file {name!r} has {len(rows[0][1])} columns; give one, or a header that calls "
            f"one of them {HEADER}"
        )
    for n, row in rows:
        if column >= len(row) or (column == 0 and len(row) > 1 and len(rows[0][1]) == 1):
            raise DataError(f"row {n:,} of losses file {name!r} has {len(row)} columns; every row must have as many")
    return [(n, row[column].strip()) for n, row in rows]


def _loss(value: object, n: int, name: str, what: str) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError
        number = float(value)
    except (ValueError, OverflowError):
        shown = repr(value) if isinstance(value, str) else found_text(value)
        raise DataError(
            f"{what} {n:,} of losses file {name!r} is {shown}, not a number; {_WAY_OUT}", value=value
        ) from None
    if not (math.isfinite(number) and number >= 0):
        raise DataError(f"{what} {n:,} of losses file {name!r} is {number:g}; {_WAY_OUT}", value=number)
    return number
