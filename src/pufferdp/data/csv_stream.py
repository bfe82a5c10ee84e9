"""A series as a stream of text: a header, then one record a line, changed as they pass. Memory stays constant."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import BinaryIO, Final

import numpy as np

from pufferdp.basics.errors import DataError, ValuesError
from pufferdp.basics.frames import csv_text
from pufferdp.basics.words import shorten
from pufferdp.data.expressions import MISSING, UNKNOWN, check_distance
from pufferdp.data.layout import Coding, Layout, check_row_order, columns_of, hides_values, read_distance
from pufferdp.data.matching import keys_of, shown
from pufferdp.data.parts import MISSING_TEXTS, check_line
from pufferdp.data.ranges import EVERYTHING, Moment, Range, Ranges, moment_text, read_ends, read_moment, read_segment
from pufferdp.data.rewrite import Codes
from pufferdp.data.times import SAMPLE, all_times
from pufferdp.models.chain import Move

_BLOCK: Final = 1 << 18
"""Bytes that are read at a time: few enough that Python does not search the fields of many lines for garbage."""
Lines = list[list[str]]  # the fields of some lines


@dataclass
class Passed:
    """How much of a stream has gone through so far."""

    records: int = 0
    missing: int = 0
    unobserved: int = 0
    """Steps between records at which there was none, counted where a caller follows the moves."""
    line: int = field(default=1, repr=False)


def change_lines(
    source: BinaryIO,
    sink: BinaryIO,
    layout: Layout,
    coding: Coding,
    labels: Sequence[str],
    change: Callable[[Codes], Codes],
    begin: Callable[[Ranges], None] = lambda ranges: None,
    passed: Passed | None = None,
    refuse: Callable[[set[Move]], None] | None = None,
) -> Passed:
    """Read CSV lines, change the states and write them with the columns that say whose and when they are.

    Lines outside the segment of the layout are passed over. ``begin`` is called with the records that may come, once
    the first of them are there, before any value is looked at and before anything is written. ``passed`` is kept up to
    date for callers that ask how far an interrupted stream came. ``refuse`` is called with the moves of
    each block before the block is written; without it nobody looks at moves.
    """
    passed = passed or Passed()
    places = _Places(layout)
    coder, texts = _Coder(coding, layout), [*labels, "", ""]
    # A missing value that stands alone is an empty line, where a writer of CSV would put quotes.
    cells = [*(csv_text([[label]]) for label in labels), "\n", "\n"]
    follows = refuse is not None or (layout.step is not None and layout.order is not None)
    links = _Links(layout, places) if follows else None
    wanted = [name for name in (layout.by, layout.order, layout.column) if name is not None]
    names, begun = list[str](), False

    def pass_on(lines: Lines) -> None:
        nonlocal begun
        columns = _columns(lines, len(names), passed)
        if not begun:
            check_row_order(names, columns_of(layout), partial(_time_columns, names, columns))
        inside: Sequence[int] = range(len(lines))
        if layout.is_part:
            inside = places.inside(columns[names.index(str(layout.order))], passed)
            columns = [[column[n] for n in inside] for column in columns]
        if inside:
            first, begun = not begun, True
            if first:
                begin(places.ranges if layout.is_part else EVERYTHING)
            codes = coder(columns[names.index(layout.column)], passed, inside)
            if links is not None:
                people, order = (None if n is None else columns[names.index(n)] for n in (layout.by, layout.order))
                moves = links(codes, people, None if order is None else places.read(order, passed))
                passed.unobserved = links.unobserved
                if refuse is not None:
                    refuse(moves)
            missing = int(np.count_nonzero(codes < 0))
            passed.missing += missing
            passed.records += len(codes) - missing
            others = [columns[names.index(name)] for name in wanted[:-1]]
            changed = change(codes).tolist()
            text = csv_text([wanted]) if first else ""
            if others:
                text += csv_text(zip(*others, map(texts.__getitem__, changed), strict=True))
            else:
                text += "".join(map(cells.__getitem__, changed))
            sink.write(text.encode())
            sink.flush()
        passed.line += len(lines)

    waiting: Lines = []
    reader = csv.reader(_lines(source, waiting, pass_on, passed), strict=True)
    try:
        names += next(reader, [])
        if not names:
            raise DataError("the stream is empty; a header and one record a line are needed")
        check_line(",".join(names).encode(), 1, "the stream")
        for name in wanted:
            if name not in names:
                raise DataError(f"there is no column {name!r}; the columns are {shorten(names)}", value=name)
        for row in reader:
            waiting.append(row or [""])
    except csv.Error:  # its message may repeat data
        where, what = f"the stream cannot be parsed after line {passed.line}", "a field is too long"
        if not names:
            where, what = "the header of the stream is not CSV", "it has a line end inside a name"
        raise DataError(f"{where}: {what}, or a quote is not closed; correct it") from None
    if not passed.records:
        where = f" with {layout.order!r} {layout.segment}" if layout.is_part else ""
        raise DataError(f"the stream has no records{where}; at least one is needed")
    return passed


def _lines(source: BinaryIO, waiting: Lines, pass_on: Callable[[Lines], None], passed: Passed) -> Iterator[str]:
    """The lines of a stream, each time that bytes have come; records that are complete are passed on first.

    A device that sends a line a minute gets its answers as it goes: no record waits for a block to fill.
    """
    read: Callable[[int], bytes] = getattr(source, "read1", source.read)
    rest, ended, encoding = b"", False, "utf-8-sig"
    while not ended:
        block = read(_BLOCK)
        ended = not block
        block = rest + block if block else rest + b"\n" * bool(rest)  # the last line may have no end
        cut = block.rfind(b"\n") + 1
        try:
            text, rest = block[:cut].decode(encoding), block[cut:]
        except UnicodeDecodeError:
            raise DataError(f"the stream is not UTF-8 text after line {passed.line}") from None
        encoding = "utf-8" if cut else encoding
        yield from io.StringIO(text, newline="\n")
        check_line(rest, passed.line + 1 + len(waiting), "the stream")
        if waiting:
            pass_on(waiting)
            waiting.clear()


def _columns(lines: Lines, width: int, passed: Passed) -> list[Sequence[str]]:
    if set(map(len, lines)) != {width}:
        n, line = next((n, line) for n, line in enumerate(lines) if len(line) != width)
        raise DataError(
            f"line {passed.line + n + 1} has {len(line)} fields; the header has {width}: give every line the same "
            "number"
        )
    return list(zip(*lines, strict=True))


def _time_columns(names: Sequence[str], columns: Sequence[Sequence[str]]) -> list[str]:
    """The columns whose first fields are written as times."""
    fields = [[None if text in MISSING_TEXTS else text for text in column[:SAMPLE]] for column in columns]
    return [name for name, values in zip(names, fields, strict=True) if all_times(values)]


class _Places:
    """Reads the order column of a stream. Its first text says what it is measured in."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.unit = ""
        self._first: Moment | None = None
        self._last: Moment | None = None

    @property
    def ranges(self) -> Ranges:
        """The records that may come: the segment that was asked for, of everybody."""
        part = Range(first=self._first, last=self._last)
        return Ranges(unit=self.unit, order=self._layout.order, by=self._layout.by, parts=(part,))

    def read(self, texts: Sequence[str], passed: Passed) -> list[Moment]:
        """The places of some lines."""
        if not self.unit:
            self._begin(texts[0])
        places = []
        for n, text in enumerate(texts):
            try:
                place = read_moment(text, self.unit)
            except DataError as error:
                raise DataError(f"{self._layout.order!r} on line {passed.line + n + 1}: {error}", value=text) from None
            assert place is not None
            places.append(place)
        return places

    def inside(self, texts: Sequence[str], passed: Passed) -> list[int]:
        """The numbers of the lines in the segment, counted from 0 in this block."""
        places = self.read(texts, passed)
        low = -np.inf if self._first is None else self._first
        high = np.inf if self._last is None else self._last
        return [n for n, place in enumerate(places) if low <= place <= high]

    def _begin(self, text: str) -> None:
        layout = self._layout
        try:
            self.unit = read_ends(text, None)[0]
        except DataError:
            message = f"{layout.order!r} begins with {shown(text)}, which is not a number, a date or a time"
            raise DataError(message, value=text) from None
        self._first, self._last = read_segment(layout.first, layout.last, self.unit)


@dataclass
class _LastRecord:
    """The last record of a person in a stream, and how many steps have gone by since."""

    code: int = -1
    steps: int = 0
    place: Moment | None = None


class _Links:
    """Follows a stream from each record to the next of the same person: which state came so many steps after which."""

    def __init__(self, layout: Layout, places: _Places) -> None:
        self._layout, self._places = layout, places
        self.unobserved = 0
        self._people: dict[str, _LastRecord] = {}

    def __call__(self, codes: Codes, people: Sequence[str] | None, places: Sequence[Moment] | None) -> set[Move]:
        """The moves of a block: state before (-1 where none was), state, steps. Refuses rows that are off their step.

        As in a table, steps before the first record of a person are the rows without a value before it.
        """
        step = None if places is None else self._step_amount()
        moves = set[Move]()
        for n, code in enumerate(codes.tolist()):
            last = self._people.setdefault("" if people is None else people[n], _LastRecord())
            last.steps += 1 if places is None else self._distance(last, places[n], step)
            last.place = None if places is None else places[n]
            if code >= 0:
                began = last.code >= 0
                self.unobserved += last.steps - 1 if began else 0
                moves.add((last.code, code, last.steps if began else last.steps - 1))
                last.code, last.steps = code, 0
        return moves

    def _step_amount(self) -> Fraction | None:
        """The model's step in the unit of the order: nanoseconds for times."""
        if self._layout.step is None:
            return None
        step = read_distance(self._layout.step, "step")
        check_distance(self._places.unit != "number", self._layout.order, step)
        return step.amount * 1000 if step.is_duration else step.amount

    def _distance(self, last: _LastRecord, place: Moment, step: Fraction | None) -> int:
        """Steps from the row before of the same person to this one."""
        if last.place is None:
            return 1
        layout = self._layout
        where = f"the record at {layout.order!r} {moment_text(place, self._places.unit)}"
        if place <= last.place:
            raise DataError(f"{where} does not come after the one before it; a stream must come in order", value=place)
        if step is None:
            return 1
        # Numbers are compared as they were written, up to the rounding of doubles.
        share = (Fraction(place) - Fraction(last.place)) / step
        steps = round(share)
        slack = Fraction(abs(place)) * Fraction(1, 2**50) / step if isinstance(place, float) else Fraction(0)
        if abs(share - steps) > slack or steps < 1:
            raise DataError(
                f"{where} is not a whole number of the model's steps of {layout.step} after the one before; "
                "bring the times to that step, or use a model that was fitted at theirs",
                value=layout.step,
            )
        if steps > 1 and layout.missing != "keep":
            raise DataError(
                f"{where} comes {steps} of the model's steps of {layout.step} after the one before: rows "
                "are missing between them; keep them as unobserved time steps with missing='keep'",
                value=layout.step,
            )
        return steps


class _Coder:
    """Turns texts into numbers of states, by name or by bin."""

    def __init__(self, coding: Coding, layout: Layout) -> None:
        self._coding, self._layout = coding, layout
        self._codes = {} if coding.bins is not None else keys_of(coding.labels, text=True)
        self._codes |= dict.fromkeys(MISSING_TEXTS, MISSING)

    def __call__(self, texts: Sequence[str], passed: Passed, lines: Sequence[int]) -> Codes:
        """One code a text; refuses what is no state, and missing ones where they are refused.

        ``lines`` says which lines of the block the texts are from.
        """
        bins, others = self._coding.bins, set(texts) - self._codes.keys()
        known = self._codes | {text: UNKNOWN if bins is None else self._bin(text, bins) for text in others}
        codes = np.fromiter(map(known.__getitem__, texts), dtype=np.int16, count=len(texts))
        if hides_values():
            codes[codes != MISSING] = 0
        refused = [UNKNOWN, MISSING] if self._layout.missing == "refuse" else [UNKNOWN]
        for code in refused:
            for n in np.flatnonzero(codes == code)[:1]:
                raise self._error(code, texts[n], passed.line + lines[n] + 1)
        return codes

    def _error(self, code: int, text: str, line: int) -> DataError:
        if code == MISSING:
            return DataError(
                f"{self._layout.column!r} is missing on line {line}; "
                "to keep it as an unobserved time step, use missing='keep'"
            )
        return ValuesError(
            f"{shown(text)} on line {line} is not a state; the states are {shorten(self._coding.labels)}", value=text
        )

    @staticmethod
    def _bin(text: str, bins: Sequence[float]) -> int:
        try:
            number = float(text)
        except ValueError:
            return UNKNOWN
        if not bins[0] <= number <= bins[-1]:
            return UNKNOWN
        return min(int(np.searchsorted(bins, number, side="right")) - 1, len(bins) - 2)
