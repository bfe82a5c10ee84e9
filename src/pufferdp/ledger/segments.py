"""Segments of an order column as people name them, and as they read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pufferdp.basics.errors import DataError, ParameterError
from pufferdp.data.ranges import EVERYTHING, Moment, Range, Ranges, moment_text, read_ends, read_last, read_moment
from pufferdp.ledger.record_sums import Cut


def named_ranges(
    name: str,
    unit: str | None,
    *,
    first: str | None,
    last: str | None,
    people: Sequence[str] | None,
    order: str | None,
    by: str | None,
) -> Ranges:
    """A segment of a data set, of some people or of everybody; everything where nothing is named.

    ``unit`` is what the data set measures its order in, where it knows.
    """
    if first is None and last is None and people is None:
        return EVERYTHING
    segment = first is not None or last is not None
    if segment and order is None:
        raise ParameterError(
            f"first= and last= are places in an order, and data set {name!r} has none yet: name the column with order="
        )
    if people is not None and by is None:
        raise ParameterError(
            f"people are named, and data set {name!r} does not know its records by people yet: name the column with by="
        )
    unit = (unit or _unit(first, last)) if segment else "number"
    return Ranges(
        unit=unit,
        order=order if segment else None,
        by=None if people is None else by,
        parts=(
            Range(
                first=read_moment(first, unit),
                last=read_last(last, unit),
                people=None if people is None else tuple(sorted(set(people))),
            ),
        ),
    )


def _unit(first: str | None, last: str | None) -> str:
    """What a segment is measured in, where nobody has said: the first unit in which both ends can be read."""
    try:
        return read_ends(first, last)[0]
    except DataError:
        wrong = first if first is not None else last
        message = f"{wrong!r} is neither a number nor a date or a time, such as 2024-05-01T13:30:00"
        raise DataError(message, value=wrong) from None


def ends_of(begin: Cut, end: Cut, unit: str) -> tuple[Moment | None, Moment | None]:
    """The first and the last place between two cuts; None where there is no end.

    Times are whole nanoseconds, so that the place after one is known. Between numbers there are always others: a
    segment that begins after a number is shown from that number on.
    """
    (first, after), (last, behind) = begin, end
    if unit != "number":
        first, last = first + after, last - (1 - behind)
    return None if math.isinf(first) else first, None if math.isinf(last) else last


def day_text(nanoseconds: float) -> str:
    """The day of a moment since 1970."""
    return str(moment_text(int(nanoseconds), "time"))[:10]


def place_text(place: object, last: bool = False) -> str:
    """A place as certificates have it; as a day where a segment begins with it, or ends with it."""
    text, edge = str(place), "T23:59:59.999999999" if last else "T00:00:00"
    whole = text.removesuffix("Z")
    return whole.removesuffix(edge) if whole.endswith(edge) else text


def segment_text(first: object, last: object) -> str:
    """``from … to …``, or ``on`` a day, or ``at`` a place; nothing for all of time."""
    if first is not None and first == last:
        return f"at {first}"
    begin, end = (place_text(place, last=n == 1) for n, place in enumerate((first, last)))
    if first is not None and begin == end:
        return f"on {begin}"
    return " ".join(
        f"{word} {text}" for word, text, place in (("from", begin, first), ("to", end, last)) if place is not None
    )
