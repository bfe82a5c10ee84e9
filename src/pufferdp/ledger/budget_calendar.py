"""A budget as a calendar: what the records of each segment were charged, whose that is, and what was asked about."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pufferdp.data.ranges import Moment, Ranges, moment_text, zone_text
from pufferdp.ledger.record_sums import END, EVERYBODY, LOSS, PEAK, RecordSums, Steps, add_up
from pufferdp.ledger.segments import ends_of
from pufferdp.ledger.store.base import Row, Session
from pufferdp.ledger.sums_table import TableSums, columns_of, cut_key, key_cut, sums_rows
from pufferdp.ledger.totals import State

MOST: Final = 1000
"""So many segments are listed: those with the largest sums."""
NAMED: Final = 20
"""So many people of a segment are named."""


KeyedPiece = tuple[bytes, bytes, float]
"""A segment by the keys of its cuts, which are in their order and are read only where they are shown."""
Columns = tuple[list[bytes], list[float]]


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A segment of the order column on which the largest sum of any record is the same."""

    first: Moment | None
    last: Moment | None
    by: tuple[str, ...] | None
    """Some of those whose records have that sum; None: everybody's."""
    people: int | None
    """How many they are."""
    dp_loss: float

    def to_dict(self, unit: str) -> dict[str, Any]:
        """As in ``ranges`` of ``ledger show --json``."""
        ends = {"from": moment_text(self.first, unit), "to": moment_text(self.last, unit)}
        by = None if self.by is None else list(self.by)
        return {**ends, "by": by, "people": self.people, "dp_loss": self.dp_loss}


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """What the records of a data set were charged, segment by segment."""

    order: str | None
    unit: str
    by: str | None
    everywhere: float
    """Charged on every record."""
    segments: tuple[Segment, ...]
    """Where more was charged, in order; the largest sums where there are very many."""
    count: int
    """How many segments there are."""
    keyed_pieces: tuple[KeyedPiece, ...]
    """All of them."""
    asked: Ranges | None = None
    asked_loss: float | None = None
    """The largest sum of the records that were asked about."""

    @classmethod
    def of(
        cls, session: Session, dataset: str, state: State, asked: Ranges | None = None, sums: RecordSums | None = None
    ) -> Calendar | None:
        """As it stands; None where everything was charged on every record and nothing was asked.

        With ``sums`` it is about these, and otherwise about those of the data set alone.
        """
        if not state.has_ranges and asked is None:
            return None
        everywhere = state.spent if state.everywhere is None else state.everywhere
        found: list[KeyedPiece] = []
        segments: list[Segment] = []
        asked_loss = None
        if state.has_ranges:
            kept = _Kept(session, dataset) if sums is None else _InMemory(sums)
            everybody, peak = (kept.columns(crowd) for crowd in (EVERYBODY, PEAK))
            found = _added(everybody, peak, everywhere)
            largest = sorted(heapq.nlargest(MOST, found, key=lambda piece: piece[2]))
            owners = _owners(kept, peak, largest) if state.crowds else [None] * len(largest)
            unit = state.unit or "number"
            segments = [_segment(piece, owner, unit) for piece, owner in zip(largest, owners, strict=True)]
        if asked is not None:
            all_sums = TableSums(session, dataset, state.crowds) if sums is None else sums
            more = all_sums.largest(asked)[2] if state.has_ranges else 0.0
            asked_loss = add_up(everywhere, more)
        return cls(
            order=state.order,
            unit=state.unit or (asked.unit if asked is not None else "number"),
            by=state.by,
            everywhere=everywhere,
            segments=tuple(segments),
            count=len(found),
            keyed_pieces=tuple(found),
            asked=asked,
            asked_loss=asked_loss,
        )

    @property
    def zone(self) -> str | None:
        """Whose days segments begin and end with; None where places are numbers."""
        return None if self.unit == "number" else zone_text("day", self.unit, self.order)

    @property
    def worst(self) -> Segment | None:
        """The first segment with the largest sum."""
        return max(self.segments, key=lambda segment: segment.dp_loss, default=None)

    def steps(self, most: int = 400) -> list[tuple[float, float, float]]:
        """Segments as (from, to, sum) for a figure; very many are gathered, with the largest sum of each gathering.

        Segments without an end go as far as the others do.
        """
        spans = [(key_cut(begin)[0], key_cut(end)[0], loss) for begin, end, loss in self.keyed_pieces]
        ends = [end for first, last, _ in spans for end in (first, last) if not math.isinf(end)] or [0, 1]
        low, high = min(ends), max(ends)
        if len(spans) <= most:
            return [(float(max(first, low)), float(min(last, high)), loss) for first, last, loss in spans]
        width = (high - low) / most
        gathered: dict[int, float] = {}
        for first, last, loss in spans:
            begin, end = max(first, low), min(last, high)
            for n in range(int((begin - low) / width), min(most - 1, int((end - low) / width)) + 1):
                gathered[n] = max(gathered.get(n, 0.0), loss)
        return [(low + n * width, low + (n + 1) * width, gathered[n]) for n in sorted(gathered)]


def _added(everybody: Columns, peak: Columns, everywhere: float) -> list[KeyedPiece]:
    """The largest sums of any record from cut to cut, neighbours with the same sum as one; without those of nothing."""
    if not everybody[0] or not peak[0]:
        keys, sums = everybody if everybody[0] else peak
        if everywhere:
            sums = [add_up(everywhere, value) if value else 0.0 for value in sums]
    else:
        keys = sorted({*everybody[0], *peak[0]})
        sums, places, lasts = [], [0, 0], [0.0, 0.0]
        for key in keys:
            for n, (cuts, values) in enumerate((everybody, peak)):
                if places[n] < len(cuts) and cuts[places[n]] == key:
                    lasts[n], places[n] = values[places[n]], places[n] + 1
            more = add_up(*lasts)
            sums.append(add_up(everywhere, more) if more else 0.0)
    # Where the sum changes; the last of them holds to the end of time.
    last, begins, kept = 0.0, list[bytes](), list[float]()
    for key, value in zip(keys, sums, strict=True):
        if value != last:
            begins.append(key)
            kept.append(value)
            last = value
    ends = [*begins[1:], cut_key(END)]
    return [piece for piece in zip(begins, ends, kept, strict=False) if piece[2] and piece[0] != piece[1]]


def _segment(piece: KeyedPiece, owner: tuple[tuple[str, ...], int] | None, unit: str) -> Segment:
    first, last = ends_of(key_cut(piece[0]), key_cut(piece[1]), unit)
    return Segment(
        first=first,
        last=last,
        by=None if owner is None else owner[0],
        people=None if owner is None else owner[1],
        dp_loss=piece[2],
    )


@dataclass(frozen=True)
class _Kept:
    """The sums of a data set in the tables of its ledger."""

    session: Session
    dataset: str

    def columns(self, crowd: int) -> Columns:
        """One function: the keys of its cuts, in order, and its values."""
        return columns_of(self.session, self.dataset, LOSS, crowd)

    def rows(self) -> Iterable[Row]:
        """The sums of all crowds: crowd, cut and value, in order."""
        sql = "SELECT crowd, cut, value FROM ledger_sums WHERE dataset = ? AND quantity = ? AND crowd > 0 "
        return self.session.rows(sql + "ORDER BY crowd, cut", self.dataset, LOSS)

    def sizes(self) -> dict[int, int]:
        """How many people each crowd has."""
        sql = "SELECT crowd, count(*) FROM ledger_members WHERE dataset = ? GROUP BY crowd"
        return dict(self.session.rows(sql, self.dataset))

    def names(self, crowd: int) -> tuple[str, ...]:
        """Some of them."""
        sql = "SELECT person FROM ledger_members WHERE dataset = ? AND crowd = ? ORDER BY person LIMIT ?"
        return tuple(row[0] for row in list(self.session.rows(sql, self.dataset, crowd, NAMED)))


@dataclass(frozen=True)
class _InMemory:
    """Sums that are in no table: of several data sets together."""

    sums: RecordSums

    def columns(self, crowd: int) -> Columns:
        """One function: the keys of its cuts, in order, and its values."""
        steps = self.sums.functions.get((LOSS, crowd), Steps())
        return [cut_key(cut) for cut in steps.cuts], steps.values

    def rows(self) -> Iterable[Row]:
        """The sums of all crowds: crowd, cut and value, in order."""
        return (row[1:] for row in sums_rows(self.sums) if row[0] == LOSS and row[1] > 0)

    def sizes(self) -> dict[int, int]:
        """How many people each crowd has."""
        return Counter(self.sums.member.values())

    def names(self, crowd: int) -> tuple[str, ...]:
        """Some of them."""
        return tuple(sorted(person for person, member in self.sums.member.items() if member == crowd)[:NAMED])


def _owners(
    kept: _Kept | _InMemory, peak: Columns, pieces: Sequence[KeyedPiece]
) -> list[tuple[tuple[str, ...], int] | None]:
    """Whose records have the largest sum at the beginning of each piece: some names, and how many people."""
    keys = [begin for begin, _, _ in pieces]
    most = [peak[1][n - 1] if (n := bisect_right(peak[0], key)) else 0.0 for key in keys]
    crowds: list[list[int]] = [[] for _ in pieces]
    # One pass over the sums of all crowds; each row holds up to the next.
    last: tuple[int, bytes, float] | None = None
    for crowd, cut, value in [*kept.rows(), (0, b"", 0.0)]:
        if last is not None and last[2]:
            end = bisect_left(keys, bytes(cut)) if crowd == last[0] else len(keys)
            for n in range(bisect_left(keys, last[1]), end):
                if most[n] == last[2]:
                    crowds[n].append(last[0])
        last = crowd, bytes(cut), value
    sizes = kept.sizes()
    names: dict[int, tuple[str, ...]] = {}
    out: list[tuple[tuple[str, ...], int] | None] = []
    for n, members in enumerate(crowds):
        if not most[n]:
            out.append(None)
            continue
        for crowd in members[:NAMED]:
            if crowd not in names:
                names[crowd] = kept.names(crowd)
        some = sorted(name for crowd in members[:NAMED] for name in names[crowd])[:NAMED]
        out.append((tuple(some), sum(sizes[crowd] for crowd in members)))
    return out
