"""A series: where it is, and the counts that may be asked of it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from pufferdp.basics.errors import DataError
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
    unscaled,
)
from pufferdp.data.files import reading
from pufferdp.data.layout import Coding, Counts, Layout, read_distance, shorten
from pufferdp.data.matching import plain, shown
from pufferdp.data.ranges import EVERYTHING, Moment, Range, Ranges, ranges_of_people
from pufferdp.data.sources import Frame, Source, integers, rows
from pufferdp.data.tables import Table, lost_order, open_table

MOST_STATES = 10_000
"""More distinct values than this are numbers that need bins, not states."""
_ENDS = nw.col("order").min().alias("first_place"), nw.col("order").max().alias("last_place")


def open_series(source: Source, layout: Layout, rows: bool = False) -> Series:
    """Open a file or a frame; columns and their types are checked now, records when they are counted."""
    table = open_table(source, layout, rows)
    if layout.restart is not None:
        check_distance(table, read_distance(layout.restart, "restart"))
    if layout.step is not None and layout.order is not None:
        check_distance(table, read_distance(layout.step, "step"))
    return Series(table=table)


@dataclass(frozen=True, kw_only=True, repr=False)
class Series:
    """One column of a table as chains of records, counted where the table is."""

    table: Table

    def __repr__(self) -> str:
        return f"Series({self.table.layout})"

    @reading()
    def counts(
        self,
        coding: Coding,
        *,
        clip: tuple[float, float] | None = None,
        transitions: bool = False,
        ranges: bool = False,
    ) -> Counts:
        """Count records, chains and states.

        With ``clip`` also sum the numbers, with ``transitions`` count pairs, with ``ranges`` say which records were
        read.
        """
        frame, tally, total, ends = self._tally(coding, clip)
        missing = tally.pop(MISSING, 0)
        records = sum(tally.values())
        size = len(coding.labels)
        pairs: list[list[int]] | None = [[0] * size for _ in range(size)] if transitions else None
        alone = self._is_one_chain(missing)
        holes = 0 if alone else sum(self._holes(frame, missing > 0).values())
        plain = pairs is None and alone
        lengths, restarts = (((records, 1),), 0) if plain else self._lengths(frame, missing > 0, pairs)
        self._check_people(lengths)
        return Counts(
            records=records,
            lengths=lengths,
            missing=missing,
            restarts=restarts,
            holes=holes,
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
        holes = self._holes(frame, missing)
        sums = frame.with_columns(total=nw.lit(0, nw.Int64) if clip is None else scaled(*clip))
        sums = sums.group_by("person", "code").agg(nw.len().alias("rows"), nw.col("total").sum(), *_ENDS)
        self._check_people(self._lengths(frame, missing)[0])
        tallies: dict[str, dict[int, tuple[int, int]]] = {}
        ends: dict[str, list[Any]] = {}
        for person, code, count, total, low, high in rows(sums):
            tallies.setdefault(_name(person), {})[int(code)] = (int(count), int(total or 0))
            ends.setdefault(_name(person), []).extend((low, high))
        each = self._chains(frame, missing).group_by("person", "length").agg(nw.len().alias("chains"))
        lengths: dict[str, list[tuple[int, int]]] = {person: [] for person in tallies}
        chain_rows = rows(each)
        for person, length, count in chain_rows:
            if length > 0:
                lengths[_name(person)].append((int(length), int(count)))
        out: dict[str, Counts] = {}
        for person in sorted(tallies, key=_natural):
            tally, mine = tallies[person], tuple(sorted(lengths[person]))
            records = sum(length * count for length, count in mine)
            total = sum(both[1] for code, both in tally.items() if code >= 0)
            out[person] = Counts(
                records=records,
                lengths=mine,
                missing=tally.get(MISSING, (0, 0))[0],
                restarts=max(0, sum(count for _, count in mine) - 1),
                holes=holes.get(person, 0),
                histogram=tuple(tally.get(code, (0, 0))[0] for code in range(len(coding.labels))),
                ranges=self._of_people({self._stretch(min(ends[person]), max(ends[person])): [person]}),
                clipped=None if clip is None else unscaled(total, records, *clip),
            )
        return out

    @reading()
    def states(self, coding: Coding, pieces: bool = False) -> list[NDArray[np.int64]]:
        """The state indices of each chain, people in sorted order. The only call that brings records to Python.

        With ``pieces`` a chain is cut at its holes, so that neighbours are one step apart.
        """
        frame, tally, *_ = self._tally(coding, None)
        missing = tally.get(MISSING, 0)
        if not self._is_one_chain(missing):
            self._lengths(frame, missing > 0)  # refuses duplicates, which have no order
        people = [] if self.table.layout.by is None else ["person"]
        records = linked(self.table, frame, missing > 0).filter(nw.col("record") == 1).sort(*people, "order")
        codes, starts, steps = integers(records.select("code", "start", nw.col("steps").fill_null(1)))
        return np.split(codes, np.flatnonzero((starts == 1) | (pieces & (steps != 1)))[1:])

    @reading()
    def found_states(self) -> tuple[str, ...]:
        """The distinct values as text, numbers in numeric order."""
        distinct = self.table.frame.filter(~nw.col("value").is_null()).select("value").unique()
        values = rows(distinct.head(MOST_STATES + 1))
        if len(values) > MOST_STATES:
            raise DataError(
                f"the column {self.table.layout.column!r} has more than {MOST_STATES} distinct values; "
                "group them into states with --bins"
            )
        if not values:
            raise self._nothing()
        return tuple(sorted({plain(value) for (value,) in values}, key=_natural))

    @reading()
    def number_range(self) -> tuple[float, float]:
        """The smallest and the largest number."""
        need_numbers(self.table, "a range needs numbers")
        present = self.table.frame.filter(~nw.col("value").is_null())
        ((low, high, count),) = rows(
            present.select(
                nw.col("number").min().alias("low"), nw.col("number").max().alias("high"), nw.len().alias("count")
            )
        )
        if not count:
            raise self._nothing()
        self._finite_numbers("bins need numbers")
        return float(low), float(high)

    def _finite_numbers(self, why: str) -> None:
        """Refuse a value that is there but is no finite number."""
        present = self.table.frame.filter(~nw.col("value").is_null())
        strange = present.filter(nw.col("number").is_null() | ~nw.col("number").is_finite())
        for value, where in self._first(strange):
            raise DataError(f"{shown(value)} at {where} is not a finite number, and {why}; correct it or drop it")

    def _ranges(self, ends: tuple[Any, Any]) -> Ranges:
        """Which records were read: the first and the last place, each person's own where people are told apart."""
        layout = self.table.layout
        if layout.by is None:
            first, last = self._stretch(*ends)
            return EVERYTHING if layout.order is None else self._in_order(Range(first=first, last=last))
        stretches: dict[tuple[Moment | None, Moment | None], list[str]] = {}
        for person, low, high in rows(self.table.frame.group_by("person").agg(*_ENDS)):
            stretches.setdefault(self._stretch(low, high), []).append(_name(person))
        return self._of_people(stretches)

    def _stretch(self, low: Any, high: Any) -> tuple[Moment | None, Moment | None]:
        """The ends of a stretch as ranges have them; none where rows have no order but their own."""
        return (None, None) if self.table.layout.order is None else (self.table.moment(low), self.table.moment(high))

    def _in_order(self, part: Range) -> Ranges:
        return Ranges(unit=self.table.unit, order=self.table.layout.order, parts=(part,))

    def _of_people(self, stretches: dict[tuple[Moment | None, Moment | None], list[str]]) -> Ranges:
        layout = self.table.layout
        assert layout.by is not None
        return ranges_of_people(stretches, unit=self.table.unit, order=layout.order, by=layout.by)

    def _tally(
        self, coding: Coding, clip: tuple[float, float] | None
    ) -> tuple[Frame, dict[int, int], int, tuple[Any, Any]]:
        """First pass, no sorting: rows a code, the clipped total, and the first and the last place.

        After every refusal that needs no order.
        """
        table, layout = self.table, self.table.layout
        frame = coded(table, coding)
        if clip is not None:
            need_numbers(table, "clipping needs numbers")
            self._finite_numbers("a sum needs numbers")
            low, high = clip
            if not (low < high and math.isfinite(low) and math.isfinite(high - low)):
                raise DataError(f"clip is [{low:g}, {high:g}]; it must be two finite numbers, the lower first")
        nobody = nw.lit(False) if layout.by is None else nw.col("person").is_null()
        by_code = rows(
            frame.with_columns(
                total=nw.lit(0, nw.Int64) if clip is None else scaled(*clip),
                lost=lost_order(table.exact).cast(nw.Int64),
                nobody=nobody.cast(nw.Int64),
            )
            .group_by("code")
            .agg(nw.len().alias("rows"), nw.col("total").sum(), nw.col("lost").sum(), nw.col("nobody").sum(), *_ENDS)
        )
        if not by_code:
            raise self._nothing_there()
        tally = {int(code): int(count) for code, count, *_ in by_code}
        if any(row[3] for row in by_code):
            raise DataError(
                f"the order column {layout.order!r} is missing or infinite in {sum(row[3] for row in by_code)} rows; "
                "every row needs a finite one: fill it in or drop those rows"
            )
        if any(row[4] for row in by_code):
            raise DataError(
                f"the column {layout.by!r} is missing in {sum(row[4] for row in by_code)} rows; "
                "every row must belong to someone: fill it in or drop those rows"
            )
        if layout.missing == "refuse" and MISSING in tally:
            for _, where in self._first(frame.filter(nw.col("code") == MISSING)):
                raise DataError(
                    f"{layout.column!r} is missing in {tally[MISSING]} rows, first at {where}; "
                    "where the chain goes on behind it, use --missing hole"
                )
        if UNKNOWN in tally:
            for value, where in self._first(frame.filter(nw.col("code") == UNKNOWN)):
                raise DataError(_unknown(value, where, coding), value=value)
        if not any(code >= 0 for code in tally):
            raise self._nothing()
        ends = min(row[5] for row in by_code), max(row[6] for row in by_code)
        return frame, tally, sum(int(row[2] or 0) for row in by_code if row[0] >= 0), ends

    def _is_one_chain(self, missing: int) -> bool:
        return self.table.layout.order is None and self.table.layout.by is None and not missing

    @reading()
    def moves(self, coding: Coding) -> dict[str, set[tuple[int, int, int]]]:
        """Which states follow which so many steps later, by person ("" where nobody is told apart).

        EXACT, and never printed as a whole. At the start of a chain the state before is -1, and 0 steps lie between.
        """
        frame, tally, *_ = self._tally(coding, None)
        out: dict[str, set[tuple[int, int, int]]] = {}
        for before, code, steps, *person in rows(moves(self.table, frame, tally.get(MISSING, 0) > 0)):
            out.setdefault(_name(person[0]) if person else "", set()).add((int(before), int(code), int(steps)))
        return out

    @reading()
    def usual_step(self) -> str | float | None:
        """The distance between records that is by far the most frequent; None where there is none, or no order."""
        if self.table.layout.order is None:
            return None
        frame = self.table.frame.with_columns(
            distance=nw.col("order") - in_order(self.table, nw.col("order").shift(1))
        ).filter(~nw.col("distance").is_null())
        counted = frame.group_by("distance").agg(nw.len().alias("count")).sort("count", descending=True).head(1)
        for distance, _ in rows(counted.select("distance", "count")):
            return self.table.distance(distance) if distance > 0 else None
        return None

    @reading()
    def on_step(self, step: str | float) -> bool:
        """Whether all records lie whole numbers of steps apart, but where a chain begins anew."""
        table = replace(self.table, layout=replace(self.table.layout, step=step))
        frame = table.frame.with_columns(code=nw.lit(0, nw.Int64))
        ((off,),) = rows(
            linked(table, frame, False).select(((nw.col("start") == 0) & (nw.col("off") == 1)).cast(nw.Int64).sum())
        )
        return not off

    def _holes(self, frame: Frame, missing: bool) -> dict[str, int]:
        """Records that are missing inside chains, by person; "" where nobody is told apart.

        Refuses a distance that is no whole number of steps, and rows that are not there where they are refused.
        """
        layout = self.table.layout
        if not missing and (layout.step is None or layout.order is None):
            return {}
        links = linked(self.table, frame, missing).filter((nw.col("start") == 0) & (nw.col("record") == 1))
        links = links.filter(nw.col("twin") == 0)  # refused elsewhere, with their place
        for wrong, rule in ((nw.col("off") == 1, "off"), (nw.col("steps") > 1, "absent")):
            if rule == "absent" and layout.missing == "hole":
                continue
            for distance, where in self._first(links.filter(wrong), "distance"):
                raise self._step_error(rule, distance, where)
        people = [] if layout.by is None else ["person"]
        lost = links.with_columns(lost=nw.col("steps") - 1)
        if not people:
            ((total,),) = rows(lost.select(nw.col("lost").sum()))
            return {"": int(total or 0)}
        return {_name(person): int(total) for person, total in rows(lost.group_by("person").agg(nw.col("lost").sum()))}

    def _step_error(self, rule: str, distance: Any, where: str) -> DataError:
        step, apart = self.table.layout.step, self.table.distance(distance)
        if rule == "off":
            return DataError(
                f"the record at {where} comes {apart} after the one before, which is no whole number of the model's "
                f"steps of {step}; bring the times to that step, or use a model that was fitted at theirs",
                value=apart,
            )
        return DataError(
            f"the record at {where} comes {apart} after the one before, and the model's step is {step}: rows are "
            "missing between them; say that the chain goes on behind a hole with --missing hole, or, where you believe "
            "that what follows so long a gap is independent of what went before, use --restart",
            value=apart,
        )

    def _check_people(self, lengths: tuple[tuple[int, int], ...]) -> None:
        """Refuse a column that cuts a series into pieces which do not look like people, unless somebody vouches."""
        layout = self.table.layout
        if layout.by is None or layout.independent:
            return
        records, chains = (sum(n * m for n, m in lengths), sum(m for _, m in lengths))
        believe = f"where you believe that different values of {layout.by!r} are independent all the same, say so with "
        believe += "--independent"
        single = dict(lengths).get(1, 0)
        if single and records > single:
            raise DataError(
                f"{single} chain(s) of {layout.by!r} have one record only; leave them out, or, {believe}", value=single
            )
        if chains > 1 and chains > records / 10:
            raise DataError(
                f"the column {layout.by!r} makes {chains} chains of {records} records; each counts as independent "
                f"of the others, and so many look like pieces of a few: {believe}",
                value=chains,
            )
        if layout.order is not None and chains > 1 and self._alternates(records):
            raise DataError(
                f"the values of {layout.by!r} alternate along {layout.order!r}, as if one series were cut into "
                f"several; {believe}",
                value=layout.by,
            )

    def _alternates(self, records: int) -> bool:
        """Whether one value follows another all the time along the order, and no two share a place."""
        frame = self.table.frame.select("order", "person")
        ((places,),) = rows(frame.select(nw.col("order").n_unique()))
        if int(places) < records:
            return False
        changed = frame.with_columns(last=nw.col("person").shift(1).over(order_by="order"))
        ((switches,),) = rows(changed.select((nw.col("last") != nw.col("person")).cast(nw.Int64).sum()))
        return int(switches or 0) > records / 10

    def _lengths(
        self, frame: Frame, missing: bool, pairs: list[list[int]] | None = None
    ) -> tuple[tuple[tuple[int, int], ...], int]:
        """Second pass: (length, how many chains) and the number of chains that are not the first of a person.

        Transitions are counted into ``pairs``, a row for each state, in the same pass.
        """
        sums = nw.len().alias("chains"), nw.col("first").sum(), nw.col("twin").sum()
        if pairs is None:
            groups = rows(self._chains(frame, missing).group_by("length").agg(*sums))
        else:
            both = self._chains(frame, missing, pairs=True).group_by("before", "code", "length")
            counted = rows(both.agg(*sums, nw.col("count").sum()))
            groups = [row[2:6] for row in counted]
            for before, code, *_, count in counted:
                if before is not None:
                    pairs[int(before)][int(code)] += int(count)
        if any(row[3] for row in groups):
            for _, where in self._first(linked(self.table, frame, missing).filter(nw.col("twin") == 1)):
                raise DataError(
                    f"two rows have {where}; an order without ties is needed: drop one, or use a finer order column"
                    + ("" if self.table.layout.by else ", or name whose rows they are with --by")
                )
        lengths = tuple(sorted((int(row[0]), int(row[1])) for row in groups if row[0] > 0))
        return lengths, sum(int(row[1] - row[2]) for row in groups if row[0] > 0)

    def _chains(self, frame: Frame, missing: bool, pairs: bool = False) -> Frame:
        """One row a chain: its length, and whether it is the first of its person; and rows of length 0 for twins."""
        return chains(self.table, frame, missing, pairs)

    def _first(self, frame: Frame, shown: str = "value") -> list[tuple[Any, str]]:
        """The first row of a frame: its value, or its distance from the record before, and where it is."""
        if shown == "distance":
            frame = frame.with_columns(distance=nw.col("order") - nw.col("order_before"))
        names = [shown, "order"] if self.table.layout.by is None else [shown, "order", "person"]
        first = rows(frame.select(*names).sort(*names[1:]).head(1))
        return [(value, self.table.place(*where)) for value, *where in first]

    def _nothing_there(self) -> DataError:
        layout = self.table.layout
        if not layout.is_part:
            return DataError("the data has no rows; at least one record is needed")
        return DataError(
            f"there is no record with {layout.order!r} {layout.stretch}; choose a stretch with at least one record",
            value=layout.stretch,
        )

    def _nothing(self) -> DataError:
        layout = self.table.layout
        where = f" {layout.stretch}" if layout.is_part else ""
        return DataError(f"every value of {layout.column!r}{where} is missing; at least one record is needed")


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


def _natural(name: str) -> tuple[Any, ...]:
    """Numbers first and by size; then text, with the numbers inside compared by size: s2 before s10."""
    try:
        return (0, float(name), name)
    except ValueError:
        parts = re.split(r"(\d+)", name)
        return (1, tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts), name)
