"""What a series looks like in a table, how its values become states, and what is counted. No data is read here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date, timedelta
from fractions import Fraction
from typing import Any, Final, get_args

from pufferdp.basics import checks
from pufferdp.basics.checks import DURATION, MICROSECONDS
from pufferdp.basics.errors import DataError
from pufferdp.basics.words import a_kind, did_you_mean, shorten
from pufferdp.data.ranges import EVERYTHING, Ranges, segment_words
from pufferdp.data.reading_options import ROWS as ROWS
from pufferdp.data.reading_options import MissingValues
from pufferdp.models.base import PAIR_MARK


@dataclass(frozen=True, kw_only=True)
class Distance:
    """A distance along the order column, exact: a step, or the gap after which a chain begins anew."""

    amount: Fraction
    """Microseconds for a duration, otherwise the unit of the order column."""
    is_duration: bool
    text: str
    """As it was written, for messages."""
    name: str
    """What it is, for messages: step or restart."""


def read_distance(distance: str | float, name: str) -> Distance:
    """Read ``"10min"``, ``"1.5h"`` or a bare number; ``name`` says in messages what it is."""
    text = str(distance)
    amount: Fraction | None = None
    match = DURATION.fullmatch(text) if isinstance(distance, str) else None
    try:
        if match and match[2] in MICROSECONDS:
            amount = checks.fraction(match[1]) * MICROSECONDS[match[2]]
        elif not match and not isinstance(distance, bool):
            # Through text, so that a gap of 0.1 is one tenth and not the double next to it.
            amount = checks.fraction(text)
    except (ValueError, ZeroDivisionError):
        amount = None
    if amount is None or amount <= 0:
        raise DataError(
            f"{name} is {distance!r:.80}; it must be above 0: a duration such as 10min, 2h, 30s, 1d or 500ms, "
            "or a number in the order column's unit",
            value=distance,
        )
    return Distance(amount=amount, is_duration=match is not None, text=text, name=name)


def distance_text(distance: Any, name: str = "restart") -> str | float:
    """A distance as it is written down: text or a number as they are, a timedelta as a duration."""
    if _kind(distance) == "m":  # its nanoseconds are whole numbers
        distance = distance.astype("timedelta64[us]")
    plain = _plain(distance)
    if isinstance(plain, timedelta):
        return duration_text(Fraction(plain // timedelta(microseconds=1)))
    if isinstance(plain, bool) or not isinstance(plain, (str, int, float)):
        raise DataError(
            f"{name} is {a_kind(distance)}; it must be a duration such as '8h', a timedelta, or a number in "
            "the order column's unit",
            value=distance,
        )
    return plain


def place_of(name: str, place: object) -> Place | None:
    """A place on the order column as it is named; numpy's numbers and times as Python's."""
    plain = str(place) if _kind(place) == "M" else _plain(place)
    if plain is not None and (isinstance(plain, bool) or not isinstance(plain, (str, int, float, date))):
        raise DataError(
            f"{name} is {a_kind(place)}; it must be a number, a date or a time, or text of one", value=place
        )
    return plain


def _kind(value: object) -> str:
    """The kind of a value of numpy; empty for any other."""
    return str(getattr(getattr(value, "dtype", None), "kind", ""))


def _plain(value: object) -> object:
    """A number or a time of numpy as Python's."""
    item = getattr(value, "item", None)
    return item() if callable(item) else value


def duration_text(microseconds: Fraction) -> str:
    """A duration in its largest whole unit: ``5min``, ``33h``, ``1500ms``."""
    for unit in ("d", "h", "min", "s", "ms", "us"):
        if (microseconds / MICROSECONDS[unit]).denominator == 1:
            return f"{microseconds / MICROSECONDS[unit]}{unit}"
    return f"{float(microseconds):.15g}us"


Place = str | float | date
"""A place on the order column as a user names it: a number, a date or a time."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a table are read, and as what."""

    roles: Mapping[str, str]
    """The name of a column for each role: value, and order, person or id."""
    key: str
    """The role that tells rows apart, order or id; a table without that column is read in its row order."""
    rows: bool = False
    """Whether the column row says which row of the source each one is, counted from 1, whatever the order."""
    first: Place | None = None
    """Rows before this place of the order may be left where they are."""
    last: Place | None = None
    """Rows after this place may be left where they are."""
    rows_in_order: bool | None = None
    """Whether the caller states that the rows are in time order; None where their order is not at stake."""

    def __post_init__(self) -> None:
        seen: dict[str, str] = {}
        for role, name in self.roles.items():
            parameter = option(role)
            if not isinstance(name, str) or not name:
                raise DataError(f"{parameter} is {name!r}; it must be the name of a column", value=name)
            if name in seen:
                raise DataError(f"{seen[name]} and {parameter} are both {name!r}; they must differ", value=name)
            seen[name] = parameter

    @property
    def numbered(self) -> bool:
        """Whether rows are numbered from 1, in the column order."""
        return self.key not in self.roles


def option(role: str) -> str:
    """What the column of a role is called by those who name it."""
    return {"value": "column", "second_value": "column", "person": "by", "category": "per"}.get(role, role)


def column_name(column: str | Sequence[str]) -> str:
    """The column that is read, as text: its name, or two names with a comma whose states are read as pairs."""
    if isinstance(column, str):
        return column
    if not isinstance(column, (list, tuple)):
        raise DataError(f"column is {a_kind(column)}; it must be the name of a column", value=column)
    names = list(column)
    if len(names) != 2 or not all(isinstance(name, str) and name and "," not in name for name in names):
        raise DataError(f"column is {names!r}; it must be a name, or two names without a comma", value=column)
    return ",".join(names)


def column_pair(column: str) -> tuple[str, str] | None:
    """The two columns of ``a,b``, one comma without a space; None for a single column, whose name may have others."""
    names = column.split(",") if isinstance(column, str) else []
    if len(names) != 2 or not all(name and name == name.strip() for name in names):
        return None
    return names[0], names[1]


def refuse_pair(layout: Layout) -> None:
    """Refuse two columns where a series is written again."""
    if column_pair(layout.column) is not None:
        raise DataError(
            f"column is {layout.column!r}; a series is written back as one column: name one of them",
            value=layout.column,
        )


def check_pair_states(column: str, states: Sequence[str]) -> None:
    """Refuse states that are no pairs where two columns are read as one, and names that run together."""
    if column_pair(column) is None:
        return
    single = next((name for name in states if name.count(PAIR_MARK) != 1), None)
    if single is not None:
        raise DataError(
            f"the columns {column} are read as pairs such as rest{PAIR_MARK}home, and {single!r} is none: the model "
            f"must be about pairs (fit it with column='{column}'), and no value of a column may have a {PAIR_MARK!r}",
            value=single,
        )


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the series is in its table."""

    column: str
    """The column with states or numbers; ``a,b`` reads the states of two columns as pairs."""
    order: str | None = None
    """Sort by this column: a number, a date or a time stamp. None: row order, for files and eager frames; ``"rows"``
    is the same, and sets ``rows_in_order``."""
    by: str | None = None
    """One independent chain for each value of this column, usually a person."""
    restart: str | float | None = None
    """What follows a larger gap than this is assumed to be independent of what went before: ``"8h"``, or a number in
    the order column's unit. Without it the chain goes on past every gap."""
    missing: str = "refuse"
    """``"refuse"``, or ``"keep"``: a missing value is an unobserved time step."""
    step: str | float | None = None
    """The time from one record to the next, where the model says it: an absent row is an unobserved step then."""
    independent: bool = False
    """Whether the caller has said that the values of ``by`` are independent although they do not look like people."""
    first: Place | None = None
    """Read from this place of the order column on, itself included; rows outside are not looked at."""
    last: Place | None = None
    """Read up to this place, itself included: a number, a time, or a date, which is the whole day."""
    group: str | None = None
    """A public column that says which group of a table a record is in."""
    rows_in_order: bool = False
    """Whether rows may be read as they come although a column holds times."""

    def __post_init__(self) -> None:
        if self.order == ROWS:
            object.__setattr__(self, "order", None)
            object.__setattr__(self, "rows_in_order", True)
        columns_of(self)
        if self.missing not in get_args(MissingValues):
            raise DataError(
                f"missing is {self.missing!r}; it must be refuse, or keep: a missing value is an unobserved time step",
                value=self.missing,
            )
        if self.restart is not None:
            read_distance(self.restart, "restart")
            if self.order is None:
                raise DataError(
                    f"restart is {self.restart!r} but no order column is given; name the column that says when, with "
                    "order=",
                    value=self.restart,
                )
        if self.step is not None:
            read_distance(self.step, "step")
        if self.independent and self.by is None and self.restart is None:
            raise DataError(
                "independent is given, but no column tells people apart; name it with by=, or leave independent out"
            )
        if self.is_part and self.order is None:
            raise DataError(
                f"a segment {self.segment} is asked for, but no order column is given; name the column that says when, "
                "with order=",
                value=self.segment,
            )

    @property
    def is_part(self) -> bool:
        """Whether a segment of the series is read, which goes on before and after it."""
        return self.first is not None or self.last is not None

    @property
    def segment(self) -> str:
        """The segment in words, as it was asked for."""
        return segment_words(self.first, self.last)


def columns_of(layout: Layout, rows: bool = False) -> Columns:
    """The columns of a series; with ``rows`` also the number of each row."""
    others = {"order": layout.order, "person": layout.by, "category": layout.group}
    named = {role: name for role, name in others.items() if name is not None}
    pair = column_pair(layout.column)
    if rows:
        refuse_pair(layout)
    value = {"value": layout.column} if pair is None else {"value": pair[0], "second_value": pair[1]}
    roles = {**value, **named}
    stated = None if layout.order is not None else layout.rows_in_order
    return Columns(roles=roles, key="order", rows=rows, first=layout.first, last=layout.last, rows_in_order=stated)


@dataclass(frozen=True, kw_only=True)
class Coding:
    """How a value becomes a state."""

    labels: tuple[str, ...]
    """The names of the states, in order."""
    bins: tuple[float, ...] | None = None
    """Rising edges, one more than labels: x is state j when bins[j] <= x < bins[j+1]; the last bin has both edges."""

    def __post_init__(self) -> None:
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise DataError(f"the states are {shorten(self.labels)}; they must be one or more different names")
        if self.bins is None:
            return
        if len(self.bins) != len(self.labels) + 1:
            raise DataError(
                f"there are {len(self.bins)} bin edges for {len(self.labels)} states; there must be one edge more",
                value=self.bins,
            )
        rising = all(a < b for a, b in zip(self.bins, self.bins[1:], strict=False))
        if not rising or not all(math.isfinite(edge) for edge in self.bins):
            raise DataError(f"bins are {shorten(self.bins)}; they must be finite and rising", value=self.bins)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts. Records, lengths, missing, restarts and unobserved steps are public; the rest is EXACT, never printed."""

    records: int
    """Records that are not missing."""
    lengths: tuple[tuple[int, int], ...]
    """(length of a chain, how many chains have it), sorted by length."""
    missing: int
    """Rows dropped because their value is missing."""
    restarts: int
    """Chains that begin anew after a gap: all but the first of each person."""
    unobserved: int = 0
    """Records that are missing inside chains: rows without a value, and rows that are not there."""
    histogram: tuple[int, ...] = field(repr=False)
    """EXACT: records in each state."""
    transitions: tuple[tuple[int, ...], ...] | None = field(default=None, repr=False)
    """EXACT: pairs (from, to) of records one step apart; None when not asked for."""
    ranges: Ranges = field(default=EVERYTHING, repr=False)
    """Which records were read, where it was asked for: public."""
    clipped: Fraction | None = field(default=None, repr=False)
    """EXACT: sum of the clipped numbers, each rounded to 2^-30 of the clip range; None when not asked for."""


def check_columns(names: Sequence[str], columns: Columns) -> None:
    """Refuse a column that is not among the names of a table."""
    for role, name in columns.roles.items():
        if name not in names:
            hint = did_you_mean(name, [str(other) for other in names])
            known = f"the columns are {shorten(list(names))}" if len(names) else "the data has no columns"
            raise DataError(f"there is no column {name!r}{_named_by(role)}; {known}{hint}", value=name)


def check_row_order(names: Sequence[str], columns: Columns, times: Callable[[], Sequence[str]]) -> None:
    """Reject row order where a column holds times and nobody states that the rows are in time order.

    Args:
        names: the columns of the table.
        columns: those that are read.
        times: finds the columns that hold times.
    """
    if columns.rows_in_order and ROWS in names:
        raise DataError(
            f"order is {ROWS!r}, which reads the rows as they come, and the data have a column {ROWS!r}; rename it",
            value=ROWS,
        )
    found = [] if columns.rows_in_order is not False else list(times())
    named = [name for name in found if name not in (columns.roles["value"], columns.roles.get("second_value"))]
    if named:
        raise DataError(
            f"the column {str(named[0])!r} holds times, and no order is given; rows of data with times are not taken "
            f"as they come: sort by it with order={str(named[0])!r}, or state that the rows already are in time order "
            f"with order={ROWS!r}",
            value=named[0],
        )


def _named_by(role: str) -> str:
    """Which parameter names the column of a role, where it is not the column itself."""
    name = option(role)
    if name.isidentifier():
        return "" if name == "column" else f" ({name}=)"
    return f" {name.removeprefix('column').strip()}"


_HIDDEN: Final = ContextVar("values_hidden", default=False)


@contextmanager
def values_hidden() -> Iterator[None]:
    """Inside, every value that is there reads as the first state, and no value is rejected.

    How many records there are, whose and when they are, and which of them are missing is public. What is charged to a
    ledger follows from these facts. So a publication whose values are rejected reads the data again with every value
    hidden, and is charged as any other: what a ledger refuses does not depend on values.
    """
    token = _HIDDEN.set(True)
    try:
        yield
    finally:
        _HIDDEN.reset(token)


def hides_values() -> bool:
    """Whether values are hidden here."""
    return _HIDDEN.get()
