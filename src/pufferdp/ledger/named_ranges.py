"""Records as somebody names them on a command line: from when to when, and whose."""

from __future__ import annotations

from collections.abc import Sequence

from pufferdp.basics.errors import DataError, ParameterError
from pufferdp.data.ranges import EVERYTHING, UNITS, Range, Ranges, read_last, read_moment
from pufferdp.ledger.totals import State


def named_ranges(
    name: str,
    state: State,
    *,
    first: str | None,
    last: str | None,
    people: Sequence[str] | None,
    order: str | None,
    by: str | None,
) -> Ranges:
    """A stretch of a data set, of some people or of everybody; everything where nothing is named."""
    if first is None and last is None and people is None:
        return EVERYTHING
    stretch = first is not None or last is not None
    if stretch and order is None:
        raise ParameterError(
            f"first= and last= are places in an order, and data set {name!r} has none yet: name the column with order="
        )
    if people is not None and by is None:
        raise ParameterError(
            f"people are named, and data set {name!r} does not know its records by people yet: name the column with by="
        )
    unit = (state.unit or _unit(first, last)) if stretch else "number"
    return Ranges(
        unit=unit,
        order=order if stretch else None,
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
    """What a stretch is measured in, where nobody has said: the first unit in which both ends can be read."""
    for unit in UNITS:
        try:
            read_moment(first, unit)
            read_last(last, unit)
        except DataError:
            continue
        return unit
    wrong = first if first is not None else last
    raise DataError(f"{wrong!r} is neither a number nor a date or a time, such as 2024-05-01T13:30:00", value=wrong)
