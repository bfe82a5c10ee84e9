"""Which records are to be hidden, as people name them: rows of the data, times, and ranges of either."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Final

from pufferdp.basics import checks
from pufferdp.basics.errors import DataError, NotApplicableError, ParameterError
from pufferdp.data.ranges import read_ends

if TYPE_CHECKING:
    from pufferdp.data.layout import Layout
    from pufferdp.data.rewrite import Placement

Named = int | str | date
"""A row, counted from 1; ``"100-111"``; a time or a date; or a range of those, ``"2024-05-03..2024-05-05"``."""
MOST_ROWS: Final = 10_000
"""Rows that one name may stand for."""
_ROWS: Final = re.compile(r"\s*\d+\s*(-\s*\d+\s*)?")
_ROWS_LIKE: Final = re.compile(r"-?[\d.]+\s*(-\s*[\d.]+)?")
"""Numbers that may be wrong, and are then refused as such."""
_DATE: Final = re.compile(r"\s*\d{4}-\d\d-\d\d")
_TO: Final = ".."


@dataclass(frozen=True, kw_only=True)
class TimeRange:
    """Every record from one time to another, both included; of a date the whole day."""

    first: str
    last: str
    text: str
    """The range as it was asked for."""

    @classmethod
    def parse(cls, text: str) -> TimeRange:
        """Read ``A..B``, a time or a date; refuses what is none, before any data is read."""
        first, between, last = (part.strip() for part in text.partition(_TO))
        segment = cls(first=first, last=last if between else first, text=text.strip())
        try:
            _, low, high = read_ends(segment.first, segment.last, ("utc", "time"))
        except DataError as error:
            raise ParameterError(
                f"private is {segment.text!r}, and {error}; a range of them is A..B", value=text
            ) from None
        if low is None or high is None or low > high:
            raise ParameterError(f"private is {segment.text!r}; the first time comes first", value=text)
        return segment


@dataclass(frozen=True, kw_only=True)
class PrivateRecords:
    """What was asked for: rows that are known, and times whose rows the data says."""

    rows: tuple[int, ...]
    times: tuple[TimeRange, ...] = ()

    @classmethod
    def parse(cls, named: Named | Sequence[Named]) -> PrivateRecords:
        """Read rows and times in any mixture; a text may hold several, with commas between them."""
        if not isinstance(named, (int, str, date, Iterable)):
            raise ParameterError(f"private is {named!r}; it must be rows or times, or a list of them", value=named)
        rows: list[int] = []
        times: list[TimeRange] = []
        for name in [named] if isinstance(named, (int, str, date)) else named:
            if isinstance(name, date):
                name = name.isoformat() if isinstance(name, datetime) else str(name)
            if not isinstance(name, str):
                rows.append(checks.length(name, "private row"))
                continue
            for part in name.split(","):
                if _DATE.match(part) or (_TO in part and not _ROWS.fullmatch(part.partition(_TO)[0])):
                    times.append(TimeRange.parse(part))
                else:
                    rows += read_rows(part)
        return cls(rows=tuple(rows), times=tuple(times))

    @property
    def only_rows(self) -> tuple[int, ...]:
        """The rows; refuses times, where there is no data that has any."""
        if self.times:
            raise ParameterError(
                f"private is {self.times[0].text!r}, and a design reads no data that says when a record is: name rows",
                value=self.times[0].text,
            )
        return self.rows

    def check(self, layout: Layout) -> None:
        """Refuse times where no column says when a record is."""
        if self.times and layout.order is None:
            raise ParameterError(
                f"private is {self.times[0].text!r}, and no column says when a record is: name it with order=, or "
                "name rows",
                value=self.times[0].text,
            )

    def rows_in(self, placement: Placement) -> tuple[int, ...]:
        """All rows that are meant, those of times as well; refuses a time at which there is no row."""
        if not self.times:
            return self.rows
        table = placement.series.table
        if table.unit == "number":
            raise NotApplicableError(
                f"private is {self.times[0].text!r}, a time, and the order column {table.layout.order!r} holds "
                "numbers: name rows",
                value=self.times[0].text,
            )
        rows = set(self.rows)
        for segment in self.times:
            inside = placement.rows_between(segment.first, segment.last)
            if not inside:
                raise ParameterError(
                    f"private is {segment.text!r}, and no row has {table.layout.order!r} there: name a time that a row "
                    "has, or a range A..B with at least one row",
                    value=segment.text,
                )
            if len(inside) > MOST_ROWS:
                raise _too_many(segment.text)
            rows.update(inside)
        return tuple(sorted(rows))


def read_rows(text: str) -> list[int]:
    """The rows of ``5`` or of ``100-111``."""
    if _TO in text:
        raise ParameterError(
            f"rows are {text.strip()!r}; rows go as 100-111, and times as 2024-05-03T08:00..2024-05-03T09:00",
            value=text,
        )
    if not _ROWS_LIKE.fullmatch(text.strip()):
        raise ParameterError(
            f"private is {text.strip()!r}; it must be a row such as 100, rows such as 100-111, or times such as "
            "2024-05-03T08:00..2024-05-03T09:00",
            value=text,
        )
    first, dash, last = text.strip().partition("-")
    low = checks.length(first, "row")
    high = checks.length(last, "row") if dash else low
    if high < low or high - low >= MOST_ROWS:
        raise _too_many(text.strip())
    return list(range(low, high + 1))


def _too_many(text: str) -> ParameterError:
    return ParameterError(
        f"rows are {text!r}; the first comes first, and at most {MOST_ROWS:,} rows are hidden at once", value=text
    )
