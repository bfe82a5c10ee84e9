"""A series: where it is, and the counts that may be asked of it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from pufferdp.basics.errors import DataError, ValuesError
from pufferdp.basics.words import rows_text, shorten
from pufferdp.data.expressions import (
    MISSING,
    UNKNOWN,
    chains,
    check_distance,
    coded,
    in_order,
    linked,
    moves,
    need_numbers,
    scaled,
    slot_moves,
    unscaled,
)
from pufferdp.data.files import reading
from pufferdp.data.layout import Coding, Counts, Layout, hides_values, read_distance
from pufferdp.data.matching import natural_order, plain, shown
from pufferdp.data.ranges import EVERYTHING, Moment, Range, Ranges, ranges_of_people
from pufferdp.data.sources import Frame, Source, arrays, need_values, rows
from pufferdp.data.tables import Table, open_table

MOST_STATES = 10_000
"""More distinct values than this are numbers that need bins, not states."""
_PLACES = 1024
"""Steps between the ends of many numbers, to see how they lie."""
_TURNS = 3
"""People who come back more often than this, on average, and never together, look like pieces of one series."""
_ENDS = nw.col("order").min().alias("first_place"), nw.col("order").max().alias("last_place")


def open_series(source: Source, layout: Layout, rows: bool = False) -> Series:
    """Open a file or a frame; columns and their types are checked now, records when they are counted."""
    table = open_table(source, layout, rows)
    if layout.restart is not None:
        check_distance(table.timed, layout.order, read_distance(layout.restart, "restart"))
    if layout.step is not None and layout.order is not None:
        check_distance(table.timed, layout.order, read_distance(layout.step, "step"))
    return Series(table)


@dataclass(frozen=True, repr=False)
class Series:
    """One column of a table as chains of records, counted where the table is."""

    table: Table
    """The columns in the engine that counts."""

    @property
    def layout(self) -> Layout:
        """How the column is read from its table."""
        return self.table.layout

    @property
    def _present(self) -> Frame:
        """The rows that have a value, missing ones left out."""
        return self.table.frame.filter(~nw.col("value").is_null())

    def __repr__(self) -> str:
        return f"Series({self.layout})"

    @reading()
    def counts(
        self,
        coding: Coding,
        *,
        clip: tuple[float, float] | None = None,
        transitions: bool = False,
        ranges: bool = False,
        pieces: bool = False,
    ) -> Counts:
        """Count records, chains and states.

        With ``clip`` also sum the numbers, with ``transitions`` count pairs, with ``ranges`` say which records were
        read. With ``pieces`` lengths are those of the pieces between unobserved steps.
        """
        frame, tally, total, ends = self._tally(coding, clip)
        missing = tally.pop(MISSING, 0)
        records = sum(tally.values())
        size = len(coding.labels)
        pairs: list[list[int]] | None = [[0] * size for _ in range(size)] if transitions else None
        alone = self._is_one_chain(missing)
        unobserved = 0 if alone else sum(self._unobserved(frame, missing > 0).values())
        plain = pairs is None and alone
        lengths, restarts = (((records, 1),), 0) if plain else self._lengths(frame, missing > 0, pairs, pieces)
        return Counts(
            records=records,
            lengths=lengths,
            missing=missing,
            restarts=restarts,
            unobserved=unobserved,
            histogram=tuple(tally.get(code, 0) for code in range(size)),
            transitions=None if pairs is None else tuple(tuple(row) for row in pairs),
            ranges=self._ranges(ends) if ranges else EVERYTHING,
            clipped=None if clip is None else unscaled(total, records, *clip),
        )

    @reading()
    def people(self, coding: Coding, *, clip: tuple[float, float] | None = None) -> dict[str, Counts]:
        """Count records, chains and states of each person, by name and in sorted order. Without transitions."""
        frame, tally_of_all, *_ = self._tally(coding, clip)
        missing = tally_of_all.get(MISSING, 0) > 0
        unobserved = self._unobserved(frame, missing)
        sums = frame.with_columns(total=nw.lit(0, nw.Int64) if clip is None or hides_values() else scaled(*clip))
        sums = sums.group_by("person", "code").agg(nw.len().alias("rows"), nw.col("total").sum(), *_ENDS)
        self._lengths(frame, missing)  # refuses duplicates
        tallies: dict[str, dict[int, tuple[int, int]]] = {}
        ends: dict[str, list[Any]] = {}
        for person, code, count, total, low, high in rows(sums):
            tallies.setdefault(_name(person), {})[int(code)] = (int(count), int(total or 0))
            ends.setdefault(_name(person), []).extend((low, high))
        each = chains(self.table, linked(self.table, frame, missing)).group_by("person", "length")
        lengths: dict[str, list[tuple[int, int]]] = {person: [] for person in tallies}
        for person, length, count in rows(each.agg(nw.len().alias("chains"))):
            if length > 0:
                lengths[_name(person)].append((int(length), int(count)))
        out: dict[str, Counts] = {}
        for person in sorted(tallies, key=natural_order):
            tally, mine = tallies[person], tuple(sorted(lengths[person]))
            records = sum(length * count for length, count in mine)
            total = sum(both[1] for code, both in tally.items() if code >= 0)
            out[person] = Counts(
                records=records,
                lengths=mine,
                missing=tally.get(MISSING, (0, 0))[0],
                restarts=max(0, sum(count for _, count in mine) - 1),
                unobserved=unobserved.get(person, 0),
                histogram=tuple(tally.get(code, (0, 0))[0] for code in range(len(coding.labels))),
                ranges=self._of_people({self._segment(min(ends[person]), max(ends[person])): [person]}),
                clipped=None if clip is None else unscaled(total, records, *clip),
            )
        return out

    @reading()
    def states(self, coding: Coding, pieces: bool = False) -> list[NDArray[np.int64]]:
        """The state indices of each chain, people in sorted order. This brings records to Python.

        With ``pieces`` a chain is cut at its unobserved steps, so that neighbours are one step apart.
        """
        missing = self._refuse(coding)
        of = self._records(coding, missing, pieces=pieces)
        return np.split(of["code"], np.flatnonzero(of["start"])[1:])

    @reading()
    def rows_of_states(self, coding: Coding) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """As ``states`` with pieces, each with the rows of its records in the source: opened with their numbers."""
        number = "row" if self.layout.order is not None or self.layout.by is not None else "order"
        missing = self._refuse(coding)
        of = self._records(coding, missing, {"number": nw.col(number)}, pieces=True)
        cuts = np.flatnonzero(of["start"])[1:]
        return list(zip(np.split(of["number"], cuts), np.split(of["code"], cuts), strict=True))

    def _refuse(self, coding: Coding) -> bool:
        """Refuse what cannot be counted, duplicates included; whether values are missing."""
        frame, tally, *_ = self._tally(coding, None)
        missing = tally.get(MISSING, 0)
        if not self._is_one_chain(missing):
            self._lengths(frame, missing > 0)
        return missing > 0

    def _records(
        self, coding: Coding, missing: bool, more: Mapping[str, nw.Expr] | None = None, pieces: bool = False
    ) -> dict[str, NDArray[Any]]:
        """Columns of all records in Python, people one after the other and each in order.

        code; start (1 where a chain begins); first (1 for the first record of a person); apart (time steps since the
        record before it, and at the start of a chain the rows that are missing before it); and ``more``.
        """
        links = moves(self.table, coded(self.table, coding), missing, pieces).sort(*self.table.people, "order")
        of = arrays(links.select("code", "start", "first", "apart", **(more or {})))
        return {name: column.astype(np.int64) if column.dtype.kind in "iu" else column for name, column in of.items()}

    def _people_in_order(self) -> list[str]:
        """The people in the order in which the engine sorts them; one empty name where nobody is distinguished."""
        if self.layout.by is None:
            return [""]
        present = self._present.select("person").unique()
        return [_name(name) for (name,) in rows(present.sort("person"))]

    @reading()
    def path(self, coding: Coding, *, numbers: bool = False) -> StatePath:
        """Every record with what the record before it, its place and its person say of it, people one after the other.

        With ``numbers`` also the number of each. This brings records to Python, as ``states`` does. Only for a coding
        that was counted: what ``counts`` refuses is not looked for again.
        """
        timed = self.table.timed
        more = {"ticks": nw.col("order")} if timed else {}
        if numbers:
            assert coding.bins is not None
            more["number"] = scaled(coding.bins[0], coding.bins[-1]).fill_null(0)
        of = self._records(coding, self.layout.missing == "keep", more)
        microseconds = of["ticks"] // (1000 if self.table.ticks == "ns" else 1) if timed else None
        apart = np.where(of["start"] == 1, 0, of["apart"])
        return StatePath(
            codes=of["code"],
            joined=apart == 1,
            persons=np.cumsum(of["first"]) - 1,
            by_person=self.layout.by is not None,
            hours=None if microseconds is None else microseconds // 3_600_000_000,
            numbers=of["number"] if numbers else None,
            apart=apart,
            microseconds=microseconds,
        )

    @reading()
    def keyed(self, coding: Coding, *, clip: tuple[float, float] | None = None) -> KeyedRecords:
        """Every record with whose it is, when and in which group, people one after the other and each in order.

        With ``clip`` also its number, clipped. This brings records to Python, as ``states`` does. Only for a coding
        that was counted: what ``counts`` refuses is not looked for again.
        """
        layout, timed = self.layout, self.table.timed
        if layout.group is not None:
            rule = "every row must belong to a group: fill it in or drop those rows"
            need_values(self.table.frame, "category", f"the column {layout.group!r}", rule)
        more = {"ticks": nw.col("order")} if timed else {}
        more |= {} if clip is None else {"clipped": nw.col("number").clip(*clip)}
        more |= {} if layout.group is None else {"group": nw.col("category")}
        of = self._records(coding, layout.missing == "keep", more, pieces=True)
        groups, places = _numbered(of["group"]) if layout.group is not None else ([""], np.zeros(0, dtype=np.int64))
        ((low, high),) = rows(self.table.frame.select(*_ENDS))
        return KeyedRecords(
            codes=of["code"],
            joined=of["start"] == 0,
            people=tuple(self._people_in_order()),
            persons=np.cumsum(of["first"]) - 1,
            group_names=tuple(groups),
            groups=places,
            ticks=of["ticks"] if timed else None,
            ticks_per_second=10**9 if self.table.ticks == "ns" else 10**6,
            ends=(int(low), int(high)) if timed else (0, 0),
            numbers=None if clip is None else np.clip(of["clipped"].astype(np.float64), *clip),
        )

    @reading()
    def found_states(self) -> tuple[str, ...]:
        """The distinct values as text, numbers in numeric order."""
        distinct = self._present.select("value").unique()
        values = rows(distinct.head(MOST_STATES + 1))
        if len(values) > MOST_STATES:
            raise DataError(
                f"the column {self.layout.column!r} has more than {MOST_STATES} distinct values; "
                "group them into states with bins="
            )
        if not values:
            raise self._nothing()
        return tuple(sorted({plain(value) for (value,) in values}, key=natural_order))

    @reading()
    def first_values(self, most: int) -> tuple[object, ...]:
        """So many values that are there, from all parts: what the column looks like."""
        present = self._present.select("value")
        return tuple(value for (value,) in rows(present.head(most)))

    @reading()
    def number_counts(self) -> dict[float, int] | None:
        """How often each number occurs; of more than ``MOST_STATES`` how often each of 1,024 steps between their ends.

        None where a value is no finite number.
        """
        if not self.table.numeric:
            return None
        present = self._present
        counted = rows(present.group_by("number").agg(nw.len().alias("rows")).head(MOST_STATES + 1))
        if any(number is None or not math.isfinite(number) for number, _ in counted):
            return None
        if len(counted) > MOST_STATES:
            strange = present.filter(nw.col("number").is_null() | ~nw.col("number").is_finite())
            if rows(strange.select("value").head(1)):
                return None
            low, high = self.number_range()
            step = (high - low) / _PLACES
            place = ((nw.col("number") - low) / step).floor().cast(nw.Int64)
            counted = rows(present.with_columns(place=place).group_by("place").agg(nw.len().alias("rows")))
            counted = [(low + number * step, count) for number, count in counted]
        return {float(number): int(count) for number, count in counted}

    @reading()
    def number_range(self) -> tuple[float, float]:
        """The smallest and the largest number."""
        need_numbers(self.table, "a range needs numbers")
        present = self._present
        ((low, high, count),) = rows(
            present.select(
                nw.col("number").min().alias("low"), nw.col("number").max().alias("high"), nw.len().alias("count")
            )
        )
        if not count:
            raise self._nothing()
        self.need_finite_numbers("bins need numbers")
        return float(low), float(high)

    def need_finite_numbers(self, why: str) -> None:
        """Refuse a column of text, and a value that is there but is no finite number."""
        need_numbers(self.table, why)
        if hides_values():
            return
        present = self._present
        strange = present.filter(nw.col("number").is_null() | ~nw.col("number").is_finite())
        for value, where in self._first(strange):
            raise ValuesError(f"{shown(value)} at {where} is not a finite number, and {why}; correct it or drop it")

    def _ranges(self, ends: tuple[Any, Any]) -> Ranges:
        """Which records were read: the first and the last place, each person's own where people are distinguished."""
        layout = self.layout
        if layout.by is None:
            first, last = self._segment(*ends)
            return EVERYTHING if layout.order is None else self._in_order(Range(first=first, last=last))
        # Few ends are shared by many people: each pair is turned into moments once.
        ends_of: defaultdict[tuple[Any, Any], list[str]] = defaultdict(list)
        for person, low, high in rows(self.table.frame.group_by("person").agg(*_ENDS)):
            ends_of[low, high].append(person if type(person) is str else _name(person))
        segments: dict[tuple[Moment | None, Moment | None], list[str]] = {}
        for pair, people in ends_of.items():
            segments.setdefault(self._segment(*pair), []).extend(people)
        return self._of_people(segments)

    def _segment(self, low: Any, high: Any) -> tuple[Moment | None, Moment | None]:
        """The ends of a segment as ranges have them; none where rows have no order but their own."""
        return (None, None) if self.layout.order is None else (self.table.moment(low), self.table.moment(high))

    def _in_order(self, part: Range) -> Ranges:
        return Ranges(unit=self.table.unit, order=self.layout.order, parts=(part,))

    def _of_people(self, segments: dict[tuple[Moment | None, Moment | None], list[str]]) -> Ranges:
        layout = self.layout
        assert layout.by is not None
        return ranges_of_people(segments, unit=self.table.unit, order=layout.order, by=layout.by)

    def _tally(
        self, coding: Coding, clip: tuple[float, float] | None
    ) -> tuple[Frame, dict[int, int], int, tuple[Any, Any]]:
        """First pass, no sorting: rows a code, the clipped total, and the first and the last place.

        After every refusal that needs no order.
        """
        table, layout = self.table, self.layout
        frame = coded(table, coding)
        if clip is not None:
            self.need_finite_numbers("a sum needs numbers")
            low, high = clip
            if not (low < high and math.isfinite(low) and math.isfinite(high - low)):
                raise DataError(f"clip is [{low:g}, {high:g}]; it must be two finite numbers, the lower first")
        # Only what can be there is asked for: each column costs a fraction of a millisecond, however few the rows.
        sums: dict[str, nw.Expr] = {}
        if clip is not None and not hides_values():
            sums["total"] = scaled(*clip)
        if layout.order is not None:
            sums["lost"] = table.lost.cast(nw.Int64)
        if layout.by is not None:
            sums["nobody"] = nw.col("person").is_null().cast(nw.Int64)
        summed = (frame.with_columns(**sums) if sums else frame).group_by("code")
        by_code = rows(summed.agg(nw.len().alias("rows"), *_ENDS, *(nw.col(name).sum() for name in sums)))
        if not by_code:
            raise self._nothing_there()
        tally = {int(code): int(count) for code, count, *_ in by_code}
        totals = [(int(code), dict(zip(sums, each, strict=True))) for code, _, _, _, *each in by_code]
        if lost := sum(int(each.get("lost") or 0) for _, each in totals):
            raise DataError(
                f"the order column {layout.order!r} is missing or infinite in {lost} rows; "
                "every row needs a finite one: fill it in or drop those rows"
            )
        if nobody := sum(int(each.get("nobody") or 0) for _, each in totals):
            raise DataError(
                f"the column {layout.by!r} is missing in {rows_text(nobody)}; "
                "every row must belong to an individual: fill it in or drop those rows"
            )
        if layout.missing == "refuse" and MISSING in tally:
            for _, where in self._first(frame.filter(nw.col("code") == MISSING)):
                raise DataError(
                    f"{layout.column!r} is missing in {rows_text(tally[MISSING])}, first at {where}; "
                    "to keep it as an unobserved time step, use missing='keep'"
                )
        if UNKNOWN in tally:
            for value, where in self._first(frame.filter(nw.col("code") == UNKNOWN)):
                raise ValuesError(_unknown(value, where, coding), value=value)
        if not any(code >= 0 for code in tally):
            raise self._nothing()
        ends = min(row[2] for row in by_code), max(row[3] for row in by_code)
        return frame, tally, sum(int(each.get("total") or 0) for code, each in totals if code >= 0), ends

    def _is_one_chain(self, missing: int) -> bool:
        return self.layout.order is None and self.layout.by is None and not missing

    @reading()
    def moves(self, coding: Coding) -> dict[str, set[tuple[int, int, int]]]:
        """Which states follow which a number of steps later, by person ("" where nobody is distinguished).

        EXACT, and never printed as a whole. At the start of a chain the state before is -1, and steps are the rows
        missing before the first record.
        """
        frame, tally, *_ = self._tally(coding, None)
        out: dict[str, set[tuple[int, int, int]]] = {}
        found = moves(self.table, frame, tally.get(MISSING, 0) > 0)
        found = found.select("before", "code", "apart", *self.table.people)
        for before, code, steps, *person in rows(found.unique()):
            out.setdefault(_name(person[0]) if person else "", set()).add((int(before), int(code), int(steps)))
        return out

    @reading()
    def slot_moves(self, coding: Coding, period: str | float, slots: int) -> dict[tuple[int, int, int, int], int]:
        """How often a state follows another so many steps later, from a slot of a period on: EXACT.

        By slot of the record before, state before, state and steps. At the start of a chain the state before is -1,
        and the slot is that of the first record.
        """
        counted = self.slot_moves_of_people(coding, period, slots).values()
        return dict(sum(map(Counter, counted), Counter[tuple[int, int, int, int]]()))

    @reading()
    def slot_moves_of_people(
        self, coding: Coding, period: str | float, slots: int
    ) -> dict[str, dict[tuple[int, int, int, int], int]]:
        """The same by person ("" where nobody is distinguished)."""
        frame, tally, *_ = self._tally(coding, None)
        long = read_distance(period, "period")
        check_distance(self.table.timed, self.layout.order, long)
        out: dict[str, dict[tuple[int, int, int, int], int]] = {}
        for x, y, steps, slot, count, *person in rows(
            slot_moves(self.table, frame, tally.get(MISSING, 0) > 0, long, slots)
        ):
            move = int(slot), int(x), int(y), int(steps)
            out.setdefault(_name(person[0]) if person else "", {})[move] = int(count)
        return out

    @reading()
    def timed_paths(self, coding: Coding) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
        """Each chain with whose it is: its states, and how many steps each came after the one before. EXACT.

        The first has the rows that are missing before it. This brings records to Python, as ``states`` does.
        """
        _, tally, *_ = self._tally(coding, None)
        of = self._records(coding, tally.get(MISSING, 0) > 0)
        cuts = np.flatnonzero(of["start"])
        names, whose = self._people_in_order(), np.cumsum(of["first"])[cuts] - 1
        paths = zip(np.split(of["code"], cuts[1:]), np.split(of["apart"], cuts[1:]), strict=True)
        return ((names[person], *path) for person, path in zip(whose.tolist(), paths, strict=True))

    @reading()
    def usual_step(self) -> str | float | None:
        """The distance between records that is by far the most frequent; None where there is none, or no order."""
        if self.layout.order is None:
            return None
        frame = self.table.frame.with_columns(
            distance=nw.col("order") - in_order(self.table, nw.col("order").shift(1))
        ).filter(~nw.col("distance").is_null())
        counted = frame.group_by("distance").agg(nw.len().alias("count")).sort("count", descending=True).head(1)
        for distance, _ in rows(counted.select("distance", "count")):
            return self.table.distance(distance) if distance > 0 else None
        return None

    @reading()
    def off_step(self, step: str | float) -> int:
        """How many records lie no whole number of steps behind the one before, but where a chain begins anew."""
        table = replace(self.table, layout=replace(self.layout, step=step))
        frame = table.frame.with_columns(code=nw.lit(0, nw.Int64))
        ((off,),) = rows(
            linked(table, frame, False).select(((nw.col("start") == 0) & (nw.col("off") == 1)).cast(nw.Int64).sum())
        )
        return int(off or 0)

    def _unobserved(self, frame: Frame, missing: bool) -> dict[str, int]:
        """Records that are missing inside chains, by person; "" where nobody is distinguished.

        Refuses a distance that is not a whole number of steps, and rows that are not there where they are refused.
        """
        layout = self.layout
        if not missing and (layout.step is None or layout.order is None):
            return {}
        links = linked(self.table, frame, missing).filter((nw.col("start") == 0) & (nw.col("record") == 1))
        links = links.filter(nw.col("twin") == 0)  # refused elsewhere, with their place
        for wrong, rule in ((nw.col("off") == 1, "off"), (nw.col("steps") > 1, "absent")):
            if rule == "absent" and layout.missing == "keep":
                continue
            for distance, where in self._first(links.filter(wrong), "distance"):
                raise self._step_error(rule, distance, where)
        lost = links.with_columns(lost=nw.col("steps") - 1)
        if layout.by is None:
            ((total,),) = rows(lost.select(nw.col("lost").sum()))
            return {"": int(total or 0)}
        return {_name(person): int(total) for person, total in rows(lost.group_by("person").agg(nw.col("lost").sum()))}

    def _step_error(self, rule: str, distance: Any, where: str) -> DataError:
        step, apart = self.layout.step, self.table.distance(distance)
        if rule == "off":
            return DataError(
                f"the record at {where} comes {apart} after the one before, which is not a whole number of the model's "
                f"steps of {step}; bring the times to that step, or use a model that was fitted at theirs",
                value=apart,
            )
        return DataError(
            f"the record at {where} comes {apart} after the one before, and the model's step is {step}: rows are "
            "missing between them; keep them as unobserved time steps with missing='keep', or, for a chain, assume "
            "that records after so long a gap are independent of those before it, with restart=",
            value=apart,
        )

    @reading()
    def sizes(self) -> dict[str, int]:
        """How many records each person has."""
        present = self._present.group_by("person").agg(nw.len().alias("count"))
        return {person if type(person) is str else _name(person): int(count) for person, count in rows(present)}

    @reading()
    def alternates(self, records: int) -> bool:
        """Whether people take turns along the order, and no two share a place: as if one series had been cut."""
        frame = self.table.frame.select("order", "person")
        ((places,),) = rows(frame.select(nw.col("order").n_unique()))
        if int(places) < records:
            return False
        changed = frame.with_columns(last=nw.col("person").shift(1).over(order_by="order"))
        switched = (nw.col("last") != nw.col("person")).cast(nw.Int64).sum()
        ((switches, people),) = rows(changed.select(switched.alias("switches"), nw.col("person").n_unique().alias("n")))
        # Hours of the day come back each day, however many records each has; people who sit in turn do not.
        return int(switches or 0) > min(records / 10, _TURNS * int(people))

    def _lengths(
        self, frame: Frame, missing: bool, pairs: list[list[int]] | None = None, pieces: bool = False
    ) -> tuple[tuple[tuple[int, int], ...], int]:
        """Second pass: (length, how many chains) and the number of chains that are not the first of a person.

        Transitions are counted into ``pairs``, a row for each state, in the same pass.
        """
        links = linked(self.table, frame, missing, pieces)
        counted = chains(self.table, links).group_by("length")
        groups = rows(counted.agg(nw.len().alias("chains"), nw.col("first").sum(), nw.col("twin").sum()))
        if pairs is not None:
            # Across an unobserved step there is no single step.
            single = (nw.col("record") == 1) & (nw.col("start") == 0) & (nw.col("steps") == 1)
            for before, code, count in rows(links.filter(single).group_by("before", "code").agg(nw.len().alias("n"))):
                pairs[int(before)][int(code)] += int(count)
        if any(row[3] for row in groups):
            for _, where in self._first(links.filter(nw.col("twin") == 1)):
                summer = "; the hour that summer time repeats needs times with a zone"
                raise DataError(
                    f"two rows have {where}; an order without ties is needed: drop one, or use a finer order column"
                    + ("" if self.layout.by else ", or name whose rows they are with by=")
                    + (summer if self.table.unit == "time" else "")
                )
        lengths = tuple(sorted((int(row[0]), int(row[1])) for row in groups if row[0] > 0))
        return lengths, sum(int(row[1] - row[2]) for row in groups if row[0] > 0)

    def _first(self, frame: Frame, shown: str = "value") -> list[tuple[Any, str]]:
        """The first row of a frame: its value, or its distance from the record before, and where it is."""
        if shown == "distance":
            frame = frame.with_columns(distance=nw.col("order") - nw.col("order_before"))
        names = [shown, "order", *self.table.people]
        first = rows(frame.select(*names).sort(*names[1:]).head(1))
        return [(value, self.table.place(*where)) for value, *where in first]

    def _nothing_there(self) -> DataError:
        layout = self.layout
        if not layout.is_part:
            return DataError("the data has no rows; at least one record is needed")
        return DataError(
            f"there is no record with {layout.order!r} {layout.segment}; choose a segment with at least one record",
            value=layout.segment,
        )

    def _nothing(self) -> DataError:
        layout = self.layout
        where = f" {layout.segment}" if layout.is_part else ""
        if not layout.is_part and not rows(self.table.frame.head(1)):
            return self._nothing_there()
        return DataError(f"every value of {layout.column!r}{where} is missing; at least one record is needed")


@dataclass(frozen=True, kw_only=True, repr=False)
class StatePath:
    """The records of all chains, one after the other. Never printed."""

    codes: NDArray[np.int64]
    """The state of each record."""
    joined: NDArray[np.bool_]
    """Whether it comes one step after the record before it, in the same chain."""
    persons: NDArray[np.int64]
    """Whose it is, counted from 0."""
    by_person: bool
    """Whether people are distinguished."""
    hours: NDArray[np.int64] | None
    """Hours since 1970, in UTC where the times have a zone; None where the order column holds no times."""
    numbers: NDArray[np.int64] | None
    """Its number, in steps of the range of the bins; None where it was not asked for."""
    apart: NDArray[np.int64] | None = None
    """Time steps since the record before it in the same chain; 0 where a chain begins."""
    microseconds: NDArray[np.int64] | None = None
    """The time since 1970, in UTC where the times have a zone; None where the order column holds no times."""

    @property
    def halves(self) -> NDArray[np.int64]:
        """0 in the first half of a person's records, 1 in the second."""
        sizes = np.bincount(self.persons)
        first = np.cumsum(sizes) - sizes
        place = np.arange(len(self.codes)) - first[self.persons]
        return np.asarray(2 * place >= sizes[self.persons], dtype=np.int64)


@dataclass(frozen=True, kw_only=True, repr=False)
class KeyedRecords:
    """The records of all chains with what says which group of a table they are in. Never printed."""

    codes: NDArray[np.int64]
    """The state of each record."""
    joined: NDArray[np.bool_]
    """Whether it comes one step after the record before it, in the same chain."""
    people: tuple[str, ...]
    """The people who have records."""
    persons: NDArray[np.int64]
    """Whose it is, as a place among the people."""
    group_names: tuple[str, ...]
    """The values of the group column."""
    groups: NDArray[np.int64]
    """Which of them it has; empty where there is no such column."""
    ticks: NDArray[np.int64] | None
    """When, since 1970, in UTC where the times have a zone; None where the order column holds no times."""
    ticks_per_second: int
    ends: tuple[int, int]
    """The first and the last time of all rows, also of those without a value."""
    numbers: NDArray[np.float64] | None
    """Its number, clipped; None where it was not asked for."""


def _numbered(values: NDArray[Any]) -> tuple[list[str], NDArray[np.int64]]:
    """The different values by name, and which of them each is."""
    places: dict[Any, int] = {}
    which = np.fromiter((places.setdefault(v, len(places)) for v in values.tolist()), np.int64, len(values))
    return [_name(value) for value in places], which


def _name(person: object) -> str:
    """A person by name: text as it is, because 1 and 1.0 may be two people, and numbers as they are written."""
    return person if isinstance(person, str) else plain(person)


def _unknown(value: object, where: str, coding: Coding) -> str:
    if coding.bins is None:
        return f"{shown(value)} at {where} is not a state; the states are {shorten(coding.labels)}"
    low, high = coding.bins[0], coding.bins[-1]
    return (
        f"{shown(value)} at {where} is not a number from {low:g} to {high:g}, the range of the bins of the states "
        f"{shorten(coding.labels)}; correct it or widen the bins"
    )
