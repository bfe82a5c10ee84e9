"""Which group each record is in: a person, a value of a public column, a calendar period, or two of these together.

Groups share no record, and which group a record is in does not depend on its value: that is why a table costs what one
of its groups costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pufferdp.basics import checks
from pufferdp.basics.errors import DataError, ParameterError, QueryError
from pufferdp.basics.words import shorten
from pufferdp.data.matching import natural_order
from pufferdp.data.series import KeyedRecords
from pufferdp.publish.tables.questions import GroupRecords

PERIODS: Final = {"hour": 3_600, "day": 86_400, "week": 604_800}
"""Calendar periods and their seconds; weeks begin on Mondays."""
MOST_GROUPS: Final = 2_000_000
"""More groups than this are refused: a stray date makes very many periods."""
_GROUPS: Final = "names, such as ['a', 'b'], or the path of a file with one in a line"
_PER: Final = "a word or a list of them: person, day, hour, week, or a public column"
_MONDAY: Final = 4 * PERIODS["day"]
"""The first Monday after 1970 began, in seconds."""
_MOST_JITTER: Final = 0.05
_MOST_IRREGULAR: Final = 0.1
_COLUMN: Final = "column:"
"""Says that a word is a column, also where it is the name of a period."""


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """What tells the groups of a table apart; nothing: all records are one group."""

    person: bool = False
    """A group for each value of the column that tells people apart."""
    column: str | None = None
    """A group for each value of this column, which is public."""
    period: str | None = None
    """A group for each of these calendar periods; one of ``PERIODS``."""
    named: tuple[str, ...] | None = None
    """The people or the values of the column, where they were listed; None: those that are in the data."""

    def __post_init__(self) -> None:
        if self.person and self.column is not None:
            raise QueryError("a table is per person or per column; make another column of both", value=self.column)
        if self.named is not None:
            if not (self.person or self.column is not None):
                raise QueryError("groups are named, and the table is neither per person nor per column: use per=")
            if not self.named or len(set(self.named)) < len(self.named) or not all(self.named):
                raise QueryError("the named groups must be one or more different names", value=shorten(self.named))

    @classmethod
    def parse(
        cls, per: str | Sequence[str] | None, by: str | None, groups: str | Sequence[str] | None = None
    ) -> Grouping:
        """From the words of the command line: ``person``, ``day``, ``hour``, ``week`` or a column, with commas.

        ``by`` is the column that tells people apart. ``groups`` are names with commas, or a file with one in a line.
        """
        words = [] if per is None else [per] if isinstance(per, str) else checks.several(per, "per", _PER)
        words = [word.strip() for text in words for word in text.split(",")]
        words = ["person" if word == by else word for word in words]
        grouping = cls.of_words(words)
        if grouping.person and by is None:
            raise QueryError("a table per person needs the column that tells people apart: name it with by=")
        return grouping if groups is None else replace(grouping, named=tuple(_names(groups)))

    @classmethod
    def of_words(cls, words: Sequence[str]) -> Grouping:
        """From single words, as certificates and ledgers have them."""
        periods = [word for word in words if word in PERIODS]
        others = [word for word in words if word not in PERIODS]
        columns = [word.removeprefix(_COLUMN) for word in others if word != "person"]
        if not all(columns) or len(periods) > 1 or len(others) > 1:
            raise QueryError(
                f"per is {', '.join(words)!r}; it must be person or a column, or one of {', '.join(PERIODS)}, or one "
                "of each",
                value=words,
            )
        return cls(
            person="person" in others,
            column=columns[0] if columns else None,
            period=periods[0] if periods else None,
        )

    @property
    def per(self) -> list[str]:
        """Its words, as ``parse`` takes them and certificates have them."""
        column = [] if self.column is None else [self._column_word(self.column)]
        return ["person"] * self.person + column + ([] if self.period is None else [self.period])

    @staticmethod
    def _column_word(column: str) -> str:
        return f"{_COLUMN}{column}" if column in (*PERIODS, "person") else column

    def keys(self, by: str | None) -> tuple[str, ...]:
        """The columns of a table that say which group a row is."""
        first = [by or "person"] if self.person else [] if self.column is None else [self.column]
        return (*first, *([] if self.period is None else [self.period]))

    @property
    def zone(self) -> str | None:
        """Whose periods these are, before it is known whether the times have a zone; None without periods."""
        if self.period is None:
            return None
        return (
            f"{self.period.capitalize()}s are UTC {self.period}s where the times have a zone, and as written otherwise."
        )

    @property
    def words(self) -> str:
        """The groups in words, for sentences."""
        named = "person" if self.person else None if self.column is None else f"value of {self.column!r}"
        parts = [word for word in (named, self.period) if word is not None]
        return "each " + " and ".join(parts) if parts else "all records"


@dataclass(frozen=True, kw_only=True, repr=False)
class Groups:
    """The groups of a table with their exact records. Never printed: ``keys`` and ``sizes`` alone are public."""

    keys: tuple[tuple[str, ...], ...]
    """What each group is called, one name for each column of ``Grouping.keys``."""
    records: tuple[GroupRecords, ...]

    def __repr__(self) -> str:
        return f"Groups({len(self.keys)})"

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many records each group has: public."""
        return tuple(group.size for group in self.records)


def group_records(grouping: Grouping, read: KeyedRecords, states: int, values: Sequence[float] | None = None) -> Groups:
    """The records of each group, in one pass. ``values`` are the numbers of states, where these have some."""
    names, which = _named(grouping, read)
    periods, when = _periods(grouping, read)
    if len(names) * len(periods) > MOST_GROUPS:
        raise DataError(
            f"the table has {len(names) * len(periods):,} groups; it must have at most {MOST_GROUPS:,}: read a segment "
            "with first= and last=, or use longer periods"
        )
    index = which * len(periods) + when
    numbers = read.numbers if values is None else np.asarray(values, dtype=float)[read.codes]
    joined = read.joined.copy()
    joined[1:] &= index[1:] == index[:-1]  # a neighbour in another group is none
    order = np.argsort(index, kind="stable")
    ends = np.cumsum(np.bincount(index, minlength=len(names) * len(periods)))
    codes, joined = read.codes[order], joined[order]
    numbers = None if numbers is None else numbers[order]
    pieces = [slice(int(first), int(last)) for first, last in zip((0, *ends[:-1]), ends, strict=True)]
    records = tuple(
        GroupRecords(
            states=states,
            codes=codes[piece],
            numbers=None if numbers is None else numbers[piece],
            joined=joined[piece],
        )
        for piece in pieces
    )
    keys = tuple((*name, *period) for name in names for period in periods)
    return Groups(keys=keys, records=records)


def regular_step(read: KeyedRecords) -> bool:
    """Whether records come at a regular time step; true where no times are known.

    They do where at most a tenth of the distances between neighbouring records differ from a whole multiple of the
    median distance by more than 5 % of it. Missing records make multiples, and clocks that are a little off stay
    within 5 %; the beats of a heart do not. Otherwise a group of equal duration has as many records as events
    happened in it, and that number is a statistic of its own.
    """
    if read.ticks is None:
        return True
    distances = np.diff(read.ticks)[read.persons[1:] == read.persons[:-1]]
    if not len(distances) or not np.median(distances):
        return True
    steps = distances / np.median(distances)
    off = np.abs(steps - np.rint(steps)) > _MOST_JITTER
    return bool(off.mean() <= _MOST_IRREGULAR)


def _names(groups: str | Sequence[str]) -> list[str]:
    if not isinstance(groups, str):
        return [str(name) for name in checks.several(groups, "groups", _GROUPS)]
    if "," not in groups and Path(groups).is_file():
        lines = Path(groups).read_text(encoding="utf-8-sig").splitlines()
        return [line.strip() for line in lines if line.strip()]
    return [name.strip() for name in groups.split(",")]


def _named(grouping: Grouping, read: KeyedRecords) -> tuple[list[tuple[str, ...]], NDArray[np.int64]]:
    """The people or the values of the column in their order, and which of them each record has."""
    if not grouping.person and grouping.column is None:
        return [()], np.zeros(len(read.codes), dtype=np.int64)
    present, which = (read.people, read.persons) if grouping.person else (read.group_names, read.groups)
    listed = sorted(present, key=natural_order) if grouping.named is None else list(grouping.named)
    place = {name: n for n, name in enumerate(listed)}
    outside = next((name for name in present if name not in place), None)
    if outside is not None:
        raise DataError(
            f"the data has records of {outside!r}, which is not among the named groups: name it, or leave its rows out",
            value=outside,
        )
    places = np.array([place[name] for name in present], dtype=np.int64)
    return [(name,) for name in listed], places[which]


def _periods(grouping: Grouping, read: KeyedRecords) -> tuple[list[tuple[str, ...]], NDArray[np.int64]]:
    """All periods from the first record to the last, also those without any, and which of them each record is in."""
    if grouping.period is None:
        return [()], np.zeros(len(read.codes), dtype=np.int64)
    if read.ticks is None:
        raise DataError(
            f"a table per {grouping.period} needs times; name the column that has them with order=",
            value=grouping.period,
        )
    seconds = PERIODS[grouping.period]
    begins = _MONDAY if grouping.period == "week" else 0
    when = (read.ticks - begins * read.ticks_per_second) // (seconds * read.ticks_per_second)
    first, last = ((end - begins * read.ticks_per_second) // (seconds * read.ticks_per_second) for end in read.ends)
    if last - first >= MOST_GROUPS:
        raise DataError(
            f"from the first record to the last there are {last - first + 1:,} {grouping.period}s; there must be at "
            f"most {MOST_GROUPS:,}: read a segment with first= and last=, or use longer periods"
        )
    labels: list[tuple[str, ...]] = [(period_name(grouping.period, number),) for number in range(first, last + 1)]
    return labels, when - first


def period_name(period: str, number: int) -> str:
    """A calendar period: a date, of a week that of its Monday, or a date and an hour."""
    begins = _MONDAY if period == "week" else 0
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=number * PERIODS[period] + begins)
    return moment.strftime("%Y-%m-%dT%H:00" if period == "hour" else "%Y-%m-%d")


def check_period(grouping: Grouping, order: str | None) -> None:
    """Refuse periods where no column says when a record was."""
    if grouping.period is not None and order is None:
        raise ParameterError(
            f"a table per {grouping.period} needs the column that says when: name it with order=",
            value=grouping.period,
        )
