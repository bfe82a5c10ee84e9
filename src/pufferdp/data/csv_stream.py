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
from pufferdp.data.frames.times import SAMPLE, all_times
from pufferdp.data.layout import Coding, Layout, check_row_order, columns_of, hides_values, read_distance, shorten
from pufferdp.data.matching import keys_of, shown
from pufferdp.data.parts import LONGEST_LINE, MISSING_TEXTS, check_line
from pufferdp.data.ranges import EVERYTHING, Moment, Range, Ranges, moment_text, read_ends, read_last, read_moment
from pufferdp.data.rewrite import Codes
from pufferdp.models.chain import Move

_BLOCK: Final = 1 << 22
_MISSING, _UNKNOWN = -1, -2


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
    header = source.readline(LONGEST_LINE + 1)
    check_line(header.rstrip(b"\r\n"), 1, "the stream")
    if not header.strip():
        raise DataError("the stream is empty; a header and one record a line are needed")
    try:
        names = next(csv.reader([header.decode("utf-8-sig")]))
    except UnicodeDecodeError:
        raise DataError("the header of the stream is not UTF-8 text") from None
    except csv.Error:
        raise DataError("the header of the stream is not CSV: it has a line end inside a name; correct it") from None
    wanted = [name for name in (layout.by, layout.order, layout.column) if name is not None]
    for name in wanted:
        if name not in names:
            raise DataError(f"there is no column {name!r}; the columns are {shorten(names)}", value=name)
    places, passed = [names.index(name) for name in wanted], passed or Passed()
    coder, texts = _Coder(coding, layout), [*labels, "", ""]
    plain = not any(mark in label for label in labels for mark in ',"\n\r')
    segment = _Segment(layout) if layout.is_part else None
    begun = False
    links = None if refuse is None and (layout.step is None or layout.order is None) else _Links(layout)
    for block in _columns(source, len(names), passed):
        columns, lines = block, None
        if not begun:
            check_row_order(names, columns_of(layout), partial(_time_columns, names, block))
        if segment is not None:
            lines = segment.lines(block[names.index(str(layout.order))], passed)
            columns = [[column[n] for n in lines] for column in block]
        if not columns[0]:
            passed.line += len(block[0])
            continue
        first = not begun
        if first:
            begun = True
            begin(EVERYTHING if segment is None else segment.ranges)
        codes = coder(columns[places[-1]], passed, lines)
        if links is not None:
            moves = links(codes, *(None if n is None else columns[names.index(n)] for n in (layout.by, layout.order)))
            passed.unobserved = links.unobserved
            if refuse is not None:
                refuse(moves)
        if first:
            sink.write(csv_text([wanted]).encode())
        missing = int(np.count_nonzero(codes < 0))
        passed.missing += missing
        passed.records += len(codes) - missing
        passed.line += len(block[0])
        changed = map(texts.__getitem__, change(codes).tolist())
        if plain and len(places) == 1:
            text = "\n".join(changed) + "\n"
        else:
            text = csv_text(zip(*(columns[p] for p in places[:-1]), changed, strict=True))
        sink.write(text.encode())
        sink.flush()
    if not passed.records:
        where = f" with {layout.order!r} {layout.segment}" if layout.is_part else ""
        raise DataError(f"the stream has no records{where}; at least one is needed")
    return passed


def _columns(source: BinaryIO, width: int, passed: Passed) -> Iterator[list[Sequence[str]]]:
    """The columns of all records that are complete, each time that bytes have come.

    A device that sends a line a minute gets its answers as it goes: no record waits for a block to fill.
    """
    read: Callable[[int], bytes] = getattr(source, "read1", source.read)
    rest, ended = b"", False
    while not ended:
        block = read(_BLOCK)
        ended = not block
        block = rest + block if block else rest + b"\n" * bool(rest)  # the last line may have no end
        cut = block.rfind(b"\n") + 1
        text, rest = _text(block[:cut], passed), block[cut:]
        if '"' in text:
            rows, still_open = _quoted(text, passed)
            columns, rest = _transposed(rows, width, passed), still_open.encode() + rest
        else:
            lines = text.replace("\r\n", "\n").split("\n")[:-1]
            columns = [lines] if width == 1 else _transposed([line.split(",") for line in lines], width, passed)
        check_line(rest, passed.line + 1 + text.count("\n"), "the stream")
        if columns and columns[0]:
            yield columns
    if rest:
        raise _not_csv(passed)


def _time_columns(names: Sequence[str], block: Sequence[Sequence[str]]) -> list[str]:
    """The columns whose first fields are written as times."""
    fields = [[None if text in MISSING_TEXTS else text for text in column[:SAMPLE]] for column in block]
    return [name for name, values in zip(names, fields, strict=True) if all_times(values)]


def _transposed(rows: list[list[str]], width: int, passed: Passed) -> list[Sequence[str]]:
    for n, row in enumerate(rows):
        if len(row) != width:
            raise DataError(
                f"line {passed.line + n + 1} has {len(row)} fields; the header has {width}: give every line the same "
                "number"
            )
    return list(zip(*rows, strict=True))


def _quoted(text: str, passed: Passed) -> tuple[list[list[str]], str]:
    """The records of whole lines, and the text of the last one where a quote is still open: it goes on."""
    lines, asked_for_more = list(io.StringIO(text)), False

    def feed() -> Iterator[str]:
        nonlocal asked_for_more
        yield from lines
        asked_for_more = True

    rows, used, reader = list[list[str]](), 0, csv.reader(feed())
    try:
        for row in reader:
            if asked_for_more:
                break
            rows.append(row or [""])
            used = reader.line_num
    except csv.Error:  # its message may repeat data
        raise _not_csv(passed) from None
    return rows, "".join(lines[used:])


def _not_csv(passed: Passed) -> DataError:
    return DataError(
        f"the stream cannot be parsed after line {passed.line}: a field is too long, or a quote is not closed"
    )


def _text(block: bytes, passed: Passed) -> str:
    try:
        return block.decode()
    except UnicodeDecodeError:
        raise DataError(f"the stream is not UTF-8 text after line {passed.line}") from None


class _Segment:
    """Finds the lines of a segment. What the order is measured in is told by its first text."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._unit = ""
        self._first: Moment | None = None
        self._last: Moment | None = None

    @property
    def ranges(self) -> Ranges:
        """The records that may come: the segment that was asked for, of everybody."""
        part = Range(first=self._first, last=self._last)
        return Ranges(unit=self._unit, order=self._layout.order, by=self._layout.by, parts=(part,))

    def lines(self, texts: Sequence[str], passed: Passed) -> list[int]:
        """The numbers of the lines inside, counted from 0 in this block."""
        if not self._unit and len(texts):
            self._begin(texts[0])
        inside = []
        for n, text in enumerate(texts):
            try:
                place = _read_place(text, self._unit)
            except DataError as error:
                raise DataError(f"{self._layout.order!r} on line {passed.line + n + 1}: {error}", value=text) from None
            if (self._first is None or place >= self._first) and (self._last is None or place <= self._last):
                inside.append(n)
        return inside

    def _begin(self, text: str) -> None:
        layout = self._layout
        self._unit = _unit_of(text, layout)
        self._first, self._last = read_moment(layout.first, self._unit), read_last(layout.last, self._unit)
        if self._first is not None and self._last is not None and self._first > self._last:
            raise DataError(f"the segment goes {layout.segment}; its first place must come first", value=layout.segment)


def _unit_of(text: str, layout: Layout) -> str:
    """What the order is measured in, told by its first text."""
    try:
        return read_ends(text, None)[0]
    except DataError:
        message = f"{layout.order!r} begins with {shown(text)}, which is not a number, a date or a time"
        raise DataError(message, value=text) from None


def _read_place(text: str, unit: str) -> Moment:
    place = read_moment(text, unit)
    assert place is not None
    return place


@dataclass
class _Behind:
    """The last record of a person in a stream, and how many steps have gone by since."""

    code: int = -1
    steps: int = 0
    place: Moment | None = None


class _Links:
    """Follows a stream from each record to the next of the same person: which state came so many steps after which."""

    def __init__(self, layout: Layout) -> None:
        self._layout, self._unit = layout, ""
        self.unobserved = 0
        self._people: dict[str, _Behind] = {}
        self._step: Fraction | None = None

    def __call__(self, codes: Codes, people: Sequence[str] | None, texts: Sequence[str] | None) -> set[Move]:
        """The moves of a block: state before (-1 where none was), state, steps. Refuses rows that are off their step.

        As in a table, steps before the first record of a person are the rows without a value before it.
        """
        if people is None and texts is None and int(codes.min(initial=0)) >= 0:
            return self._follow(codes)
        places = None if texts is None else self._places(texts)
        moves = set[Move]()
        for n, code in enumerate(codes.tolist()):
            behind = self._people.setdefault("" if people is None else people[n], _Behind())
            behind.steps += 1 if places is None else self._distance(behind, places[n])
            behind.place = None if places is None else places[n]
            if code >= 0:
                began = behind.code >= 0
                self.unobserved += behind.steps - 1 if began else 0
                moves.add((behind.code, code, behind.steps if began else behind.steps - 1))
                behind.code, behind.steps = code, 0
        return moves

    def _follow(self, codes: Codes) -> set[Move]:
        """The same for one chain without unobserved steps, all at once."""
        behind = self._people.setdefault("", _Behind())
        began = behind.code >= 0
        first: Move = (behind.code, int(codes[0]), behind.steps + 1 if began else behind.steps)
        self.unobserved += behind.steps if began else 0
        size = int(codes.max()) + 1
        pairs = np.unique(codes[:-1].astype(np.int64) * size + codes[1:])
        behind.code, behind.steps = int(codes[-1]), 0
        return {first, *((pair // size, pair % size, 1) for pair in pairs.tolist())}

    def _places(self, texts: Sequence[str]) -> list[Moment]:
        if not self._unit:
            self._unit = _unit_of(texts[0], self._layout)
            self._step = self._step_amount()
        return [_read_place(text, self._unit) for text in texts]

    def _step_amount(self) -> Fraction | None:
        """The model's step in the unit of the order: nanoseconds for times."""
        if self._layout.step is None:
            return None
        step = read_distance(self._layout.step, "step")
        if step.is_duration == (self._unit == "number"):
            held = "numbers" if self._unit == "number" else "times"
            raise DataError(
                f"the model's step is {step.text}, and {self._layout.order!r} holds {held}; use a model whose step is "
                "measured as the order is",
                value=step.text,
            )
        return step.amount * 1000 if step.is_duration else step.amount

    def _distance(self, behind: _Behind, place: Moment) -> int:
        """Steps from the row before of the same person to this one."""
        if behind.place is None:
            return 1
        layout = self._layout
        where = f"{layout.order!r} {moment_text(place, self._unit)}"
        if place <= behind.place:
            raise DataError(
                f"the record at {where} does not come after the one before it; a stream must come in order", value=place
            )
        if self._step is None:
            return 1
        # Numbers are compared as they were written, up to the rounding of doubles.
        share = (Fraction(place) - Fraction(behind.place)) / self._step
        steps = round(share)
        slack = Fraction(abs(place)) * Fraction(1, 2**50) / self._step if isinstance(place, float) else Fraction(0)
        if abs(share - steps) > slack or steps < 1:
            raise DataError(
                f"the record at {where} is not a whole number of the model's steps of {layout.step} after the "
                f"one before; "
                "bring the times to that step, or use a model that was fitted at theirs",
                value=layout.step,
            )
        if steps > 1 and layout.missing != "keep":
            raise DataError(
                f"the record at {where} comes {steps} of the model's steps of {layout.step} after the one before: rows "
                "are missing between them; keep them as unobserved time steps with missing='keep'",
                value=layout.step,
            )
        return steps


class _Codes(dict[str, int]):
    """A text that is no state has a code as well."""

    def __missing__(self, text: str) -> int:
        return _UNKNOWN


class _Coder:
    """Turns texts into numbers of states, by name or by bin."""

    def __init__(self, coding: Coding, layout: Layout) -> None:
        self._coding, self._layout = coding, layout
        self._codes = _Codes() if coding.bins is not None else _Codes(keys_of(coding.labels, text=True))
        self._codes.update(dict.fromkeys(MISSING_TEXTS, _MISSING))

    def __call__(self, texts: Sequence[str], passed: Passed, lines: Sequence[int] | None) -> Codes:
        """One code a text; refuses what is no state, and missing ones where they are refused.

        ``lines`` says which lines of the block the texts are from; None: all of them.
        """
        get = self._codes.__getitem__ if self._coding.bins is None else self._bin
        codes = np.fromiter(map(get, texts), dtype=np.int16, count=len(texts))
        if hides_values():
            codes[codes != _MISSING] = 0
        least = int(codes.min(initial=0))
        if least == _UNKNOWN:
            n = int(np.argmax(codes == _UNKNOWN))
            raise ValuesError(
                f"{shown(texts[n])} on line {passed.line + (n if lines is None else lines[n]) + 1} is not a state; "
                f"the states are {shorten(self._coding.labels)}",
                value=texts[n],
            )
        if least == _MISSING and self._layout.missing == "refuse":
            n = int(np.argmax(codes == _MISSING))
            raise DataError(
                f"{self._layout.column!r} is missing on line {passed.line + (n if lines is None else lines[n]) + 1}; "
                "to keep it as an unobserved time step, use missing='keep'"
            )
        return codes

    def _bin(self, text: str) -> int:
        bins = self._coding.bins
        assert bins is not None
        if text in MISSING_TEXTS:
            return _MISSING
        try:
            number = float(text)
        except ValueError:
            return _UNKNOWN
        if not bins[0] <= number <= bins[-1]:
            return _UNKNOWN
        return min(int(np.searchsorted(bins, number, side="right")) - 1, len(bins) - 2)
