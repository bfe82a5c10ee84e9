"""A series as a stream of text: a header, then one record a line, changed as they pass. Memory stays constant."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final

import numpy as np

from pufferdp.data.files import MISSING_TEXTS
from pufferdp.data.layout import Coding, Layout, shorten
from pufferdp.data.matching import keys_of, shown
from pufferdp.data.rows import Codes
from pufferdp.errors import DataError

_BLOCK: Final = 1 << 22
_ROWS: Final = 1 << 16
_MISSING, _UNKNOWN = -1, -2


@dataclass
class Passed:
    """What went through."""

    records: int = 0
    missing: int = 0
    line: int = field(default=1, repr=False)


def change_lines(
    source: BinaryIO,
    sink: BinaryIO,
    layout: Layout,
    coding: Coding,
    labels: Sequence[str],
    change: Callable[[Codes], Codes],
) -> Passed:
    """Read CSV lines, change the states and write them with the columns that say whose and when they are."""
    header = source.readline()
    if not header.strip():
        raise DataError("the stream is empty; a header and one record a line are needed")
    try:
        names = next(csv.reader([header.decode("utf-8-sig")]))
    except UnicodeDecodeError:
        raise DataError("the header of the stream is not UTF-8 text") from None
    wanted = [name for name in (layout.by, layout.order, layout.column) if name is not None]
    for name in wanted:
        if name not in names:
            raise DataError(f"there is no column {name!r}; the columns are {shorten(names)}", value=name)
    places, passed = [names.index(name) for name in wanted], Passed()
    coder, said = _Coder(coding, layout), [*labels, "", ""]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(wanted)
    sink.write(out.getvalue().encode())
    plain = not any(mark in label for label in labels for mark in ',"\n\r')
    for rows in _rows(source, len(names), passed):
        codes = coder([row[places[-1]] for row in rows], passed)
        passed.missing += int((codes < 0).sum())
        passed.records += int((codes >= 0).sum())
        changed = [said[code] for code in change(codes).tolist()]
        passed.line += len(rows)
        if plain and len(places) == 1:
            sink.write(("\n".join(changed) + "\n").encode())
            continue
        out = io.StringIO()
        kept = [[row[p] for p in places[:-1]] for row in rows]
        csv.writer(out, lineterminator="\n").writerows([*k, c] for k, c in zip(kept, changed, strict=True))
        sink.write(out.getvalue().encode())
    if not passed.records:
        raise DataError("the stream has no records; at least one is needed")
    sink.flush()
    return passed


def _rows(source: BinaryIO, width: int, passed: Passed) -> Iterator[list[list[str]]]:
    """Rows of equally many fields, a block at a time; lines with quotes go through the csv module."""
    rest = b""
    while block := source.read(_BLOCK):
        block = rest + block
        cut = block.rfind(b"\n") + 1
        rest, block = block[cut:], block[:cut]
        if b'"' in block or b'"' in rest:
            lines = itertools.chain(
                io.BytesIO(block + rest + source.readline()), iter(source.readline, b"")
            )  # a quoted field may go on over lines
            yield from _quoted((_text(line, passed) for line in lines), width, passed)
            return
        if block:
            yield _split(block, width, passed)
    if rest:
        yield _split(rest + b"\n", width, passed)


def _split(block: bytes, width: int, passed: Passed) -> list[list[str]]:
    text = _text(block, passed)
    lines = text.removesuffix("\n").split("\n")
    if "\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    if width == 1:
        return [[line] for line in lines]
    rows = [line.split(",") for line in lines]
    if any(len(row) != width for row in rows):
        wrong = next(n for n, row in enumerate(rows) if len(row) != width)
        raise _fields(passed.line + wrong + 1, len(rows[wrong]), width)
    return rows


def _quoted(lines: Iterator[str], width: int, passed: Passed) -> Iterator[list[list[str]]]:
    reader = csv.reader(lines)
    while rows := list(itertools.islice(reader, _ROWS)):
        for n, row in enumerate(rows):
            if len(row) != width:
                raise _fields(passed.line + n + 1, len(row), width)
        yield rows


def _fields(line: int, found: int, width: int) -> DataError:
    return DataError(f"line {line} has {found} fields; the header has {width}: give every line the same number")


def _text(block: bytes, passed: Passed) -> str:
    try:
        return block.decode()
    except UnicodeDecodeError:
        raise DataError(f"the stream is not UTF-8 text after line {passed.line}") from None


class _Coder:
    """Texts to states."""

    def __init__(self, coding: Coding, layout: Layout) -> None:
        self._coding, self._layout = coding, layout
        self._codes: dict[str, int] = {} if coding.bins is not None else dict(keys_of(coding.labels, text=True))
        self._codes.update(dict.fromkeys(MISSING_TEXTS, _MISSING))

    def __call__(self, texts: list[str], passed: Passed) -> Codes:
        """One code a text; refuses what is no state, and missing ones where they are refused."""
        get = self._codes.get if self._coding.bins is None else self._bin
        codes = np.fromiter((get(text, _UNKNOWN) for text in texts), dtype=np.int16, count=len(texts))
        least = int(codes.min(initial=0))
        if least == _UNKNOWN:
            n = int(np.argmax(codes == _UNKNOWN))
            raise DataError(
                f"{shown(texts[n])} on line {passed.line + n + 1} is not a state; "
                f"the states are {shorten(self._coding.labels)}",
                value=texts[n],
            )
        if least == _MISSING and self._layout.missing == "refuse":
            n = int(np.argmax(codes == _MISSING))
            raise DataError(
                f"{self._layout.column!r} is missing on line {passed.line + n + 1}; "
                "to start a new chain after each, use --missing break"
            )
        return codes

    def _bin(self, text: str, unknown: int) -> int:
        bins = self._coding.bins
        assert bins is not None
        if text in MISSING_TEXTS:
            return _MISSING
        try:
            number = float(text)
        except ValueError:
            return unknown
        if not bins[0] <= number <= bins[-1]:
            return unknown
        return min(int(np.searchsorted(bins, number, side="right")) - 1, len(bins) - 2)
