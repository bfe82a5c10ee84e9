"""Sums record by record: how much was charged on each segment of the order column, of everybody and of single people.

A record's sum is what was charged on everybody at its place, plus what was charged on its person there. People who were
always charged together are one crowd, with one step function for all of them. The largest sum at a place is everybody's
plus the largest of any crowd there, so the pointwise largest of all crowds is kept too: the peak. Sums only grow, so it
follows from each charge by itself, and a charge touches no more than the segments that it overlaps.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pufferdp.basics.words import normalised_identity
from pufferdp.data.ranges import Moment, Range, Ranges

Cut = tuple[Moment, int]
"""A place between two records: just before a value of the order column (0), or just after it (1). So segments that
share an end overlap there, and segments that do not are apart, however close they are."""
START: Final[Cut] = (-math.inf, 0)
END: Final[Cut] = (math.inf, 1)
Span = tuple[Cut, Cut]
"""From a cut to a later one."""
Piece = tuple[Cut, Cut, float]
"""A span with a sum that is the same all along it."""

EVERYBODY: Final = 0
"""In place of a crowd: charged on every person."""
MAX_OVER_CROWDS: Final = -1
"""In place of a crowd: the largest of all crowds."""
LOSS: Final = "loss"
DELTA: Final = "delta"


def add_up(a: float, b: float) -> float:
    """A + b, rounded up where it is not exact (Knuth's two-sum tells)."""
    total = a + b
    if math.isinf(total):
        return total
    back = total - a
    error = (a - (total - back)) + (b - back)
    return math.nextafter(total, math.inf) if error > 0 else total


class Steps:
    """A step function of the order column: 0 before its first cut, then a value from each cut to the next."""

    def __init__(self, cuts: Iterable[Cut] = (), values: Iterable[float] = ()) -> None:
        self.cuts, self.values = list(cuts), list(values)

    def copy(self) -> Steps:
        """One that changes by itself."""
        return Steps(self.cuts, self.values)

    def cut(self, at: Cut) -> int:
        """The number of a cut, which is made where there is none."""
        n = bisect_left(self.cuts, at)
        if n == len(self.cuts) or self.cuts[n] != at:
            self.cuts.insert(n, at)
            self.values.insert(n, self.values[n - 1] if n else 0.0)
        return n

    def add(self, span: Span, amount: float) -> None:
        """Add an amount along a span, never rounded down."""
        first = self.cut(span[0])
        for n in range(first, self.cut(span[1])):
            self.values[n] = add_up(self.values[n], amount)

    def raise_to(self, span: Span, value: float) -> None:
        """No less than a value along a span."""
        first = self.cut(span[0])
        for n in range(first, self.cut(span[1])):
            self.values[n] = max(self.values[n], value)

    def pieces(self, span: Span = (START, END)) -> Iterator[Piece]:
        """Its pieces inside a span, in order, those of 0 among them."""
        n = bisect_right(self.cuts, span[0])
        begin, value = span[0], self.values[n - 1] if n else 0.0
        while n < len(self.cuts) and self.cuts[n] < span[1]:
            yield begin, self.cuts[n], value
            begin, value, n = self.cuts[n], self.values[n], n + 1
        yield begin, span[1], value


def add_steps(one: Steps, other: Steps, span: Span = (START, END)) -> Iterator[Piece]:
    """The pieces of the sum of two functions."""
    if not other.cuts:
        yield from one.pieces(span)
        return
    for begin, end, value in one.pieces(span):
        for first, last, more in other.pieces((begin, end)):
            yield first, last, add_up(value, more)


def envelope(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pointwise largest of pieces that may overlap, from left to right."""
    waiting = sorted(pieces)
    active: list[tuple[float, Cut]] = []  # largest value first, with where it ends
    n, at = 0, START
    while n < len(waiting) or active:
        if not active:
            at = max(at, waiting[n][0])
        while n < len(waiting) and waiting[n][0] <= at:
            heapq.heappush(active, (-waiting[n][2], waiting[n][1]))
            n += 1
        while active and active[0][1] <= at:
            heapq.heappop(active)
        if active:
            end = active[0][1] if n == len(waiting) else min(active[0][1], waiting[n][0])
            yield at, end, -active[0][0]
            at = end


@dataclass(frozen=True)
class Reading:
    """What a publication read, each record once."""

    everybody: tuple[Span, ...]
    groups: tuple[tuple[tuple[str, ...], tuple[Span, ...]], ...]
    """People who have the same spans, and these, without what everybody has."""

    @classmethod
    def of(cls, ranges: Ranges) -> Reading:
        """Parts that overlap are read once."""
        everybody = union(_span(part, ranges.unit) for part in ranges.parts if part.people is None)
        # Two spellings of an ID are one person, so that nobody has two budgets.
        own = [
            (tuple(dict.fromkeys(map(normalised_identity, part.people))), _span(part, ranges.unit))
            for part in ranges.parts
            if part.people is not None
        ]
        if len(set().union(*(people for people, _ in own))) == sum(len(people) for people, _ in own):
            groups: list[tuple[tuple[str, ...], tuple[Span, ...]]] = [(people, (span,)) for people, span in own]
        else:  # a person has several parts
            parts: dict[str, tuple[int, ...]] = {}
            for n, (people, _) in enumerate(own):
                for person in people:
                    parts[person] = (*parts.get(person, ()), n)
            alike: dict[tuple[int, ...], list[str]] = {}
            for person, numbers in parts.items():
                alike.setdefault(numbers, []).append(person)
            groups = [(tuple(people), union(own[n][1] for n in numbers)) for numbers, people in alike.items()]
        if everybody:
            groups = [(people, _without(spans, everybody)) for people, spans in groups]
        return cls(everybody, tuple((people, spans) for people, spans in groups if spans))

    @property
    def hull(self) -> Span:
        """From the first cut to the last."""
        spans = [*self.everybody, *(span for _, spans in self.groups for span in spans)]
        return min(begin for begin, _ in spans), max(end for _, end in spans)


def _span(part: Range, unit: str) -> Span:
    first = -math.inf if part.first is None else _outwards(part.first, -math.inf)
    last = math.inf if part.last is None else _outwards(part.last, math.inf)
    begin = START if first == -math.inf else (first, 0)
    if last == math.inf:
        return begin, END
    # Times are whole nanoseconds: after one is before the next, so that one day ends where the next begins.
    return begin, (last, 1) if unit == "number" else (last + 1, 0)


def _outwards(moment: Moment, way: float) -> Moment:
    """The moment itself, but for a whole number of more than 64 bits: a double that lies no nearer to the middle."""
    if isinstance(moment, float) or abs(moment) < 2**63:
        return moment
    double = float(moment)
    return double if double == moment else math.nextafter(double, way)


def union(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same places by spans that are apart."""
    out: list[Span] = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], end)
        else:
            out.append((begin, end))
    return tuple(out)


def _without(spans: Sequence[Span], taken: Sequence[Span]) -> tuple[Span, ...]:
    """What is left of spans; both are in order and apart."""
    out = []
    for begin, end in spans:
        for first, last in taken:
            if last <= begin or first >= end:
                continue
            if first > begin:
                out.append((begin, first))
            begin = min(last, end)
        if begin < end:
            out.append((begin, end))
    return tuple(out)


def _by_crowd(people: Sequence[str], crowds: Sequence[int]) -> Mapping[int, Sequence[str]]:
    """People by the crowds that they are in, in the order of their first members."""
    if crowds.count(crowds[0]) == len(crowds):
        return {crowds[0]: people}
    parts: dict[int, list[str]] = {}
    for person, crowd in zip(people, crowds, strict=True):
        parts.setdefault(crowd, []).append(person)
    return parts


class RecordSums:
    """The sums of one data set, all of them in memory. Those of a ledger are read as they are needed."""

    def __init__(self, crowds: int = 0) -> None:
        self.crowds = crowds
        """How many there are; they are numbered from 1."""
        self.functions: dict[tuple[str, int], Steps] = {}
        self.member: dict[str, int] = {}
        """The crowd of each person."""
        self._size = Counter[int]()
        self._last_reading: tuple[Ranges, Reading] | None = None

    def charge(self, ranges: Ranges, amounts: Mapping[str, float]) -> dict[str, float]:
        """Add amounts, by quantity, on every record of some ranges; the largest sums of each quantity around there."""
        reading = self._reading(ranges)
        self._look_at(reading.hull)
        groups = self._refined(reading.groups)
        hull, largest = reading.hull, {}
        for quantity, amount in amounts.items():
            for span in reading.everybody:
                self._function(quantity, EVERYBODY).add(span, amount)
            raised: list[Piece] = []
            for crowd, spans in groups:
                for span in spans:
                    own = self._function(quantity, crowd)
                    own.add(span, amount)
                    raised += own.pieces(span)
            peak = self._function(quantity, MAX_OVER_CROWDS)
            for begin, end, value in envelope(raised):
                peak.raise_to((begin, end), value)
            largest[quantity] = max(v for _, _, v in add_steps(self._function(quantity, EVERYBODY), peak, hull))
        return largest

    def largest(self, ranges: Ranges, quantity: str = LOSS) -> Piece:
        """The largest sum of any record of some ranges, and where it is."""
        reading = self._reading(ranges)
        self._look_at(reading.hull)
        found: list[Piece] = []
        for span in reading.everybody:
            found += add_steps(self._function(quantity, EVERYBODY), self._function(quantity, MAX_OVER_CROWDS), span)
        for people, spans in reading.groups:
            crowds = sorted(set(self._crowds_of(people)))
            for span in spans:
                everybody = self._function(quantity, EVERYBODY)
                if 0 in crowds:
                    found += everybody.pieces(span)
                for crowd in filter(None, crowds):
                    found += add_steps(everybody, self._function(quantity, crowd), span)
        return max(found, key=lambda piece: piece[2])

    def several(self, ranges: Ranges) -> bool:
        """Whether a person whom these ranges are about was charged on more than one segment, these included."""
        reading = self._reading(ranges)
        if reading.everybody and (self.crowds or reading.groups):
            return True
        if reading.everybody:
            return len({*self._some_cuts(EVERYBODY), *(cut for span in reading.everybody for cut in span)}) > 2
        if self._some_cuts(EVERYBODY):
            return True
        for people, spans in reading.groups:
            new = {cut for span in spans for cut in span}
            if len(new) > 2:
                return True
            if any(len({*self._some_cuts(crowd), *new}) > 2 for crowd in {*self._crowds_of(people)} - {0}):
                return True
        return False

    def _reading(self, ranges: Ranges) -> Reading:
        """What ranges are; found once for one charge after another question about the same ones."""
        if self._last_reading is None or self._last_reading[0] is not ranges:
            self._last_reading = ranges, Reading.of(ranges)
        return self._last_reading[1]

    def _refined(self, groups: Sequence[tuple[Sequence[str], tuple[Span, ...]]]) -> list[tuple[int, tuple[Span, ...]]]:
        """The crowds that groups of people are; a crowd that is partly in a group is split, and both parts go on."""
        if not groups:
            return []
        crowds = self._crowds_of([person for people, _ in groups for person in people])
        sizes = self._sizes(set(crowds) - {0})
        out, n = [], 0
        for people, spans in groups:
            befores, n = crowds[n : n + len(people)], n + len(people)
            for before, part in _by_crowd(people, befores).items():
                if before and len(part) == sizes[before]:
                    out.append((before, spans))
                    continue
                self.crowds += 1
                self._move(part, before, self.crowds)
                if before:
                    sizes[before] -= len(part)
                out.append((self.crowds, spans))
        return out

    def _move(self, people: Sequence[str], before: int, crowd: int) -> None:
        """Make people a crowd of their own, with the sums of the one that they were in (0: none)."""
        self.member.update(dict.fromkeys(people, crowd))
        self._size[crowd] += len(people)
        self._size[before] -= len(people)
        for quantity in (LOSS, DELTA):
            if before and (function := self._whole(quantity, before)).cuts:
                self.functions[quantity, crowd] = function.copy()

    def _crowds_of(self, people: Sequence[str]) -> list[int]:
        """The crowd of each of some people, 0 for who has none."""
        return [self.member.get(person, 0) for person in people]

    def _sizes(self, crowds: set[int]) -> dict[int, int]:
        """How many people some crowds have."""
        return {crowd: self._size[crowd] for crowd in crowds}

    def _look_at(self, hull: Span) -> None:
        """Whatever is asked for next lies inside of it."""

    def _function(self, quantity: str, crowd: int) -> Steps:
        """A function, right inside the hull at least."""
        return self.functions.setdefault((quantity, crowd), Steps())

    def _whole(self, quantity: str, crowd: int) -> Steps:
        """A function for the whole of the order."""
        return self._function(quantity, crowd)

    def _some_cuts(self, crowd: int) -> list[Cut]:
        """The first three cuts of a crowd's losses."""
        return self._whole(LOSS, crowd).cuts[:3]
