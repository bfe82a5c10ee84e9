"""Rows as a frame, of whichever library of frames is there, and as CSV text.

Names in CSV text may be formulas that a spreadsheet would run (OWASP: CSV injection).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pufferdp.basics.errors import ParameterError
from pufferdp.basics.extras import install_advice

_BACKENDS: Final = ("pandas", "polars", "pyarrow")
_FORMULA: Final = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
"""Quotes before the sign count as well, so that the quote that is added can be taken off again."""


def frame(columns: Sequence[str], rows: Sequence[Sequence[Any]], backend: str | None = None) -> Any:
    """A frame of rows, of the library that is named, or that is there."""
    return frame_of({column: [row[n] for row in rows] for n, column in enumerate(columns)}, backend)


def frame_of(columns: Mapping[str, list[Any]], backend: str | None = None) -> Any:
    """A frame of columns, of the library that is named, or that is there."""
    import narwhals as nw

    if backend is not None and backend not in _BACKENDS:
        raise ParameterError(f"backend is {backend!r}; it must be one of {', '.join(_BACKENDS)}", value=backend)
    for name in _BACKENDS if backend is None else (backend,):
        try:
            return nw.from_dict(columns, backend=name).to_native()
        except ImportError:
            continue
    raise ParameterError(f"a frame needs pandas or polars; install one with: {install_advice('frames')}")


class _Lines(io.StringIO):
    """Takes rows that end in CR LF, and ends them with LF alone."""

    def write(self, row: str, /) -> int:
        return super().write(row.removesuffix("\r\n") + "\n")


def csv_text(rows: Iterable[Iterable[object]], delimiter: str = ",") -> str:
    """The rows as lines of CSV; None is an empty field."""
    text = _Lines()
    # Before Python 3.13 a writer quotes only the line ends that are its own, so both must be.
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    return text.getvalue()


def quote_formula(cell: object) -> object:
    """The cell with a single quote before it where it is a text that a spreadsheet would run; numbers stay."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) and not _is_number(cell) else cell


def unquote_formula(text: str) -> str:
    """The text that ``quote_formula`` was given."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
