"""Aggregates of windows that come again and again: how often each record, or each period, is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pufferdp.basics.errors import ParameterError
from pufferdp.models.base import Model
from pufferdp.models.chain import series_of
from pufferdp.models.units import Unit, records_in


@dataclass(frozen=True, kw_only=True)
class Aggregates:
    """One aggregate every so often, each over the window of records before it, for ever.

    Losses add up record by record: each record loses as often as a window holds it, and no more (docs/theory/tight.md,
    Theorem 2). So what all aggregates together leak, for ever, is the tight curve at ``reads`` times the loss of one.
    """

    every: str
    window: str
    reads: int
    """The most aggregates that read one record, or touch one period where that is the unit."""

    @classmethod
    def of(cls, model: Model, every: object, window: object | None, unit: Unit | None) -> Aggregates:
        """From periods by the model's step, or from numbers of records."""
        if series_of(model) is None:
            raise ParameterError(
                f"every is {every!r}; aggregates over time need a series of states, and the model is not one",
                value=every,
            )
        apart = records_in(every, model, "every")
        wide = apart if window is None else records_in(window, model, "window")
        return cls(
            every=str(every).strip(),
            window=str(every if window is None else window).strip(),
            reads=most_reads(wide, apart, 1 if unit is None else unit.records),
        )

    @property
    def words(self) -> str:
        """What comes how often, in words."""
        over = "" if self.window == self.every else f" over the last {_period(self.window)}"
        return f"an aggregate every {_period(self.every)}{over}"

    def to_dict(self) -> dict[str, Any]:
        """The two periods and how often a record is read."""
        return {"every": self.every, "window": self.window, "reads": self.reads}


def _period(text: str) -> str:
    return f"{text} records" if text.isdecimal() else text


def most_reads(window: int, every: int, unit: int) -> int:
    """Windows of so many records, one ending behind every ``every`` records, that touch one block of ``unit`` records.

    A block is touched by the windows that end behind its first record and begin before its last one. Where windows end
    at borders of blocks alone, those that end inside the block fall away.

    >>> most_reads(24, 24, 1), most_reads(168, 24, 24), most_reads(24, 36, 24), most_reads(1, 1, 24)
    (1, 7, 2, 24)
    """
    ends = window if every % unit == 0 else window + unit - 1
    return -(-ends // every)
