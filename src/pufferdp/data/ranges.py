"""Which records a publication read: segments of the order column, and whose.

Losses add up record by record (docs/theory/tight.md), so a ledger has to know which records were read. A record is
known by its person and its value in the order column; both are public.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

from pufferdp.basics.errors import DataError
from pufferdp.basics.files import canonical_json

UNITS: Final = ("number", "time", "utc")
"""What a segment is measured in: plain numbers, time stamps without a time zone, time stamps in universal time. Dates
are time stamps at midnight."""
Moment = int | float
"""A place on the order column: a number, or nanoseconds since 1970."""
MOST_PARTS: Final = 10_000
"""Different segments of people that are distinguished."""
DAY: Final = 86_400 * 10**9
"""The nanoseconds of one day."""
_TIME: Final = re.compile(r"(.+?)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")
"""A date or a time without its fraction, the digits of the fraction, and the time zone."""
_DATE: Final = re.compile(r"(\d{4}-?(?:\d\d-?\d\d|W\d\d(?:-?\d)?))(Z|[+-]\d\d:?\d\d)?")
"""A whole day, and the time zone it is a day of."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """A segment of the order column, both ends included, of some people or of everybody."""

    first: Moment | None = None
    """None: from the beginning of time."""
    last: Moment | None = None
    """None: to the end of time."""
    people: tuple[str, ...] | None = None
    """Whose records, sorted; None: everybody's."""

    def __post_init__(self) -> None:
        for end in (self.first, self.last):
            if isinstance(end, bool) or (end is not None and not math.isfinite(end)):
                raise DataError(f"a range ends at {end!r}; it must be a finite number", value=end)
        if self.first is not None and self.last is not None and self.first > self.last:
            raise DataError(f"a range goes from {self.first} to {self.last}; the first must come first")
        if self.people is not None and (not self.people or not all(map(operator.lt, self.people, self.people[1:]))):
            raise DataError("the people of a range must be one or more different names, sorted")

    @cached_property
    def people_json(self) -> str:
        """Its people as canonical JSON, by whose digest a ledger knows many of them."""
        return canonical_json(self.people)


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """All records that a publication read. Without an order and without people it is everything."""

    unit: str = "number"
    """What ends are measured in: one of ``UNITS``."""
    order: str | None = None
    """The order column; None: every range is the whole of time."""
    by: str | None = None
    """The column that says whose a record is; None: every range is everybody's."""
    parts: tuple[Range, ...] = (Range(),)
    """One or more. They may overlap; a record that lies in several was still read once."""

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise DataError(f"unit is {self.unit!r}; it must be one of {', '.join(UNITS)}", value=self.unit)
        if not self.parts:
            raise DataError("there is no range; a publication reads at least one record")
        for part in self.parts:
            if self.order is None and (part.first is not None or part.last is not None):
                raise DataError("a range has ends, and no order column says of what")
            if self.by is None and part.people is not None:
                raise DataError("a range has people, and no column says who they are")

    def to_dict(self) -> dict[str, Any]:
        """As certificates and ledgers keep it; exact, so that it comes back the same."""
        return {
            "order": self.order,
            "unit": self.unit,
            "by": self.by,
            "parts": [
                {
                    "from": moment_text(part.first, self.unit),
                    "to": moment_text(part.last, self.unit),
                    "by": None if part.people is None else list(part.people),
                }
                for part in self.parts
            ],
        }

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Ranges:
        """The ranges that ``to_dict`` wrote."""
        unit = raw["unit"]
        parts = tuple(
            Range(
                first=read_moment(part["from"], unit),
                last=read_moment(part["to"], unit),
                people=None if part["by"] is None else tuple(part["by"]),
            )
            for part in raw["parts"]
        )
        return cls(unit=unit, order=raw["order"], by=raw["by"], parts=parts)


EVERYTHING: Final = Ranges()


def moment_text(moment: Moment | None, unit: str) -> str | float | None:
    """A place on the order column as people and JSON have it: ``2024-05-01T13:30:00``, with Z in universal time."""
    if moment is None or unit == "number":
        # JSON has doubles: a number that may be none of them is text.
        return str(moment) if abs(moment or 0) >= 2**53 else moment
    seconds, rest = divmod(int(moment), 10**9)
    try:
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        raise DataError(f"{moment} ns after 1970 is no year from 1 to 9999", value=moment) from None
    digits = f"{rest:09d}".rstrip("0")
    return (
        time.replace(tzinfo=None).isoformat(timespec="seconds")
        + (f".{digits}" if digits else "")
        + ("Z" if unit == "utc" else "")
    )


def read_moment(text: Any, unit: str) -> Moment | None:
    """A place on the order column that ``moment_text`` wrote or a user typed: a number, a date or a time.

    Where the column holds times with a zone, a place without one is rejected: nobody has said that it is in UTC.
    """
    if text is None:
        return None
    if unit == "number":
        try:
            number = float(text) if isinstance(text, float) else _number(text)
        except (TypeError, ValueError):
            raise DataError(f"{text!r} is not a number, and the order column holds numbers", value=text) from None
        if isinstance(text, bool) or not math.isfinite(number):
            raise DataError(f"{text!r} is not a finite number", value=text)
        return int(number) if isinstance(number, float) and number.is_integer() and abs(number) < 2**53 else number
    written = str(text).strip()
    parts = _TIME.fullmatch(_DATE.sub(r"\1T00:00\2", written) if _DATE.fullmatch(written) else written)
    whole, fraction, zone = ("", "", None) if parts is None else (parts[1], parts[2] or "", parts[3])
    try:
        time = datetime.fromisoformat(whole + (zone or ""))
        if time.tzinfo is not None and unit == "time":
            raise ValueError
    except ValueError:
        zones = "with a time zone or in universal time" if unit == "utc" else "without a time zone"
        raise DataError(
            f"{text!r} is not a date or a time {zones}, such as 2024-05-01 or 2024-05-01T13:30:00"
            + ("Z" if unit == "utc" else ""),
            value=text,
        ) from None
    if time.tzinfo is None and unit == "utc":
        raise DataError(
            f"{text!r} has no time zone, and the order column holds times with one; write {written}Z for UTC, or an "
            f"offset as in {written}-05:00",
            value=text,
        )
    span = time.replace(tzinfo=time.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (span.days * 86_400 + span.seconds) * 10**9 + int(fraction.ljust(9, "0") or 0)


def _number(text: Any) -> Moment:
    """A number with all its digits where it is whole: a double would round a count of nanoseconds."""
    try:
        whole = int(text)
    except ValueError:
        return float(text)
    return whole if abs(whole) < 10**300 else math.inf  # as a double of that size is


def read_last(text: Any, unit: str) -> Moment | None:
    """The last place of a segment: of a bare date the last moment of that day."""
    moment = read_moment(text, unit)
    if moment is None or unit == "number" or not _DATE.fullmatch(str(text).strip()):
        return moment
    return moment + DAY - 1


def read_segment(first: Any, last: Any, unit: str) -> tuple[Moment | None, Moment | None]:
    """The ends of a segment as a user typed them; rejects one that ends before it begins."""
    low, high = read_moment(first, unit), read_last(last, unit)
    if low is not None and high is not None and low > high:
        words = segment_words(first, last)
        raise DataError(f"the segment goes {words}; its first place must come first", value=words)
    return low, high


def read_ends(first: Any, last: Any, units: Iterable[str] = UNITS) -> tuple[str, Moment | None, Moment | None]:
    """The first unit in which both ends of a time range can be read, and the ends in that unit."""
    for unit in units:
        try:
            return unit, read_moment(first, unit), read_last(last, unit)
        except DataError as error:
            problem = error
    raise problem


def zone_text(period: str, unit: str, order: str | None) -> str:
    """A sentence that says whose hours, days or weeks these are, by the unit of the order column."""
    named = f"{period.capitalize()}s"
    return f"{named} are UTC {period}s." if unit == "utc" else f"{named} as written in {order!r} (no time zone)."


def segment_words(first: Any, last: Any) -> str:
    """A segment in a message, as it was asked for."""
    return " ".join([*([] if first is None else [f"from {first}"]), *([] if last is None else [f"to {last}"])])


def ranges_of_people(
    segments: Mapping[tuple[Moment | None, Moment | None], Iterable[str]], *, unit: str, order: str | None, by: str
) -> Ranges:
    """The ranges of people, by their segments; those with the same one together.

    More different segments than ``MOST_PARTS`` become the one that covers all of them: it is charged for more records
    than were read, never for fewer, and certificates and ledgers stay small.
    """
    if len(segments) > MOST_PARTS:
        low = min(first for first, _ in segments if first is not None)
        high = max(last for _, last in segments if last is not None)
        segments = {(low, high): [name for names in segments.values() for name in names]}
    parts = tuple(
        Range(first=first, last=last, people=tuple(sorted(set(names))))
        for (first, last), names in sorted(segments.items(), key=lambda item: (item[0][0] or 0, item[0][1] or 0))
    )
    return Ranges(unit=unit, order=order, by=by, parts=parts)
