"""A budget as a calendar: what the records of each segment were charged, whose that is, and what was asked about."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pufferdp.basics.paged import json_values
from pufferdp.data.ranges import Moment, Ranges, moment_text, zone_text
from pufferdp.ledger.record_sums import EVERYBODY, LOSS, MAX_OVER_CROWDS, Piece, RecordSums, Steps, add_steps, add_up
from pufferdp.ledger.segments import ends_of
from pufferdp.ledger.totals import State

MOST: Final = 1000
"""So many segments are listed: those with the largest sums."""
NAMED: Final = 20
"""So many people of a segment are named."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A segment of the order column on which the largest sum of any record is the same."""

    first: Moment | None
    last: Moment | None
    by: tuple[str, ...] | None
    """Some of those whose records have that sum; None: everybody's."""
    people: int | None
    """How many people have that sum."""
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
    """The DP loss that was charged on every record."""
    segments: tuple[Segment, ...]
    """Where more was charged, in order; the largest sums where there are very many."""
    pieces: tuple[Piece, ...]
    """All segments, as cuts with the sum between them."""
    asked: Ranges | None = None
    asked_loss: float | None = None
    """The largest sum of the records that were asked about."""

    @classmethod
    def of(cls, state: State, sums: RecordSums, asked: Ranges | None = None) -> Calendar | None:
        """As it stands; None where everything was charged on every record and nothing was asked.

        Args:
            state: of the data set.
            sums: of its records, all in memory.
            asked: the records that are asked about.
        """
        if not state.has_ranges and asked is None:
            return None
        pieces = _pieces(sums, state.spent_on_all) if state.has_ranges else []
        largest = sorted(heapq.nlargest(MOST, pieces, key=lambda piece: piece[2]))
        owners = _owners(sums, largest)
        unit = state.unit or (asked.unit if asked is not None else "number")
        return cls(
            order=state.order,
            unit=unit,
            by=state.by,
            everywhere=state.spent_on_all,
            segments=tuple(_segment(*both, unit) for both in zip(largest, owners, strict=True)),
            pieces=tuple(pieces),
            asked=asked,
            asked_loss=None if asked is None else state.spent_on(asked, sums),
        )

    def to_dict(self) -> dict[str, Any]:
        """As in ``ledger show --json``; an infinite loss is null."""
        ranges = [segment.to_dict(self.unit) for segment in self.segments]
        return {**json_values(self, "order unit by everywhere"), "segments": self.count, "ranges": ranges}

    @property
    def count(self) -> int:
        """How many segments there are."""
        return len(self.pieces)

    @property
    def zone(self) -> str | None:
        """Whose days segments begin and end with; None where places are numbers."""
        return None if self.unit == "number" else zone_text("day", self.unit, self.order)

    def steps(self, most: int = 400) -> list[tuple[float, float, float]]:
        """Segments as (from, to, sum) for a figure; very many are gathered, with the largest sum of each gathering.

        Segments without an end go as far as the others do.
        """
        spans = [(begin[0], end[0], loss) for begin, end, loss in self.pieces]
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


def _pieces(sums: RecordSums, everywhere: float) -> list[Piece]:
    """The largest sum of any record from cut to cut, neighbours with the same sum as one; without those of nothing."""
    out: list[Piece] = []
    everybody, largest = (sums.functions.get((LOSS, crowd), Steps()) for crowd in (EVERYBODY, MAX_OVER_CROWDS))
    for begin, end, more in add_steps(everybody, largest):
        loss = add_up(everywhere, more)
        if more and out and out[-1][1:] == (begin, loss):
            out[-1] = out[-1][0], end, loss
        elif more:
            out.append((begin, end, loss))
    return out


def _segment(piece: Piece, owner: tuple[tuple[str, ...], int] | None, unit: str) -> Segment:
    first, last = ends_of(piece[0], piece[1], unit)
    by, people = (None, None) if owner is None else owner
    return Segment(first=first, last=last, by=by, people=people, dp_loss=piece[2])


def _owners(sums: RecordSums, pieces: Sequence[Piece]) -> list[tuple[tuple[str, ...], int] | None]:
    """Whose records have the largest sum at the beginning of each piece: some names, and how many people.

    None where everybody's records have it.
    """
    begins = [begin for begin, _, _ in pieces]
    largest = sums.functions.get((LOSS, MAX_OVER_CROWDS), Steps())
    most = [next(largest.pieces((begin, end)))[2] for begin, end, _ in pieces]
    people = defaultdict[int, list[str]](list)
    for person, crowd in sorted(sums.member.items()):
        people[crowd].append(person)
    owners: list[list[str]] = [[] for _ in pieces]
    counts = [0] * len(pieces)
    for (_, crowd), function in sorted((key, f) for key, f in sums.functions.items() if key[0] == LOSS and key[1] > 0):
        for begin, end, value in function.pieces():
            for n in range(bisect_left(begins, begin), bisect_left(begins, end)) if value else ():
                if value == most[n]:
                    owners[n] += people[crowd][: NAMED - len(owners[n])]
                    counts[n] += len(people[crowd])
    return [(tuple(sorted(o)), count) if loss else None for o, count, loss in zip(owners, counts, most, strict=True)]
