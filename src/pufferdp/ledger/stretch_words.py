"""Places and stretches of an order column as people read them."""

from __future__ import annotations

import math

from pufferdp.data.ranges import Moment, moment_text
from pufferdp.ledger.record_sums import Cut


def ends_of(begin: Cut, end: Cut, unit: str) -> tuple[Moment | None, Moment | None]:
    """The first and the last place between two cuts; None where there is no end.

    Times are whole nanoseconds, so that the place after one is known. Between numbers there are always others: a
    stretch that begins after a number is shown from that number on.
    """
    (first, after), (last, behind) = begin, end
    if unit != "number":
        first, last = first + after, last - (1 - behind)
    return None if math.isinf(first) else first, None if math.isinf(last) else last


def day_text(nanoseconds: float) -> str:
    """The day of a moment since 1970."""
    return str(moment_text(int(nanoseconds), "time"))[:10]


def place_text(place: object, last: bool = False) -> str:
    """A place as certificates have it; as a day where a stretch begins with it, or ends with it."""
    text, edge = str(place), "T23:59:59.999999999" if last else "T00:00:00"
    whole = text.removesuffix("Z")
    return whole.removesuffix(edge) if whole.endswith(edge) else text


def stretch_text(first: object, last: object) -> str:
    """``from … to …``, or ``on`` a day, or ``at`` a place; nothing for all of time."""
    if first is not None and first == last:
        return f"at {first}"
    begin, end = (place_text(place, last=n == 1) for n, place in enumerate((first, last)))
    if first is not None and begin == end:
        return f"on {begin}"
    return " ".join(
        f"{word} {text}" for word, text, place in (("from", begin, first), ("to", end, last)) if place is not None
    )
