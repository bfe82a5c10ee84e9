"""Places and stretches of an order column as people read them."""

from __future__ import annotations

import math

from pufferdp.data.ranges import Moment
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


def place_text(place: object) -> str:
    """A place as certificates have it, shorter where it is the beginning or the end of a day."""
    text = str(place)
    for edge in ("T00:00:00", "T23:59:59.999999999"):
        text = text.removesuffix("Z").removesuffix(edge) if text.removesuffix("Z").endswith(edge) else text
    return text


def stretch_text(first: object, last: object) -> str:
    """``from … to …``, or ``on`` a day, or ``at`` a place; nothing for all of time."""
    if first is not None and last is not None and place_text(first) == place_text(last):
        return f"{'at' if first == last else 'on'} {place_text(first)}"
    ends = (("from", first), ("to", last))
    return " ".join(f"{word} {place_text(end)}" for word, end in ends if end is not None)
