"""How a series is read, said once: names, types, defaults, help and parsing for every command and for the page."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, Literal, get_args

from pufferdp.basics.errors import ParameterError

ROWS: Final = "rows"
"""The order of a table whose rows the caller states to be in time order already."""
MissingValues = Literal["refuse", "keep"]


@dataclass(frozen=True)
class Option:
    """What the command line calls an option, and what it says of it."""

    flag: str
    help: str
    choices: tuple[str, ...] = ()
    """All values that it takes; any where there are none."""


Order = Annotated[str | None, Option("--order", "Column to sort by; needed where a column of the data holds times.")]
RowsInOrder = Annotated[
    bool, Option("--rows-in-order", "In place of --order: state that the rows are in time order already.")
]
By = Annotated[str | None, Option("--by", "Column that tells people apart: one independent chain each.")]
Restart = Annotated[
    str | None,
    Option("--restart", "Treat what follows a longer gap as independent: 8h, or a number in the unit of --order."),
]
Independent = Annotated[
    bool, Option("--independent", "Treat what --by or --restart separates as independent, even if it does not look so.")
]
Missing = Annotated[
    str,
    Option(
        "--missing",
        "Missing values: reject them (refuse), or keep them as unobserved time steps (keep).",
        get_args(MissingValues),
    ),
]
First = Annotated[
    str | None,
    Option("--from", "Read from this place of --order on: a number, a date or a time. The series goes on before it."),
]
Last = Annotated[str | None, Option("--to", "Read up to and including this place of --order; a date is the whole day.")]
Bins = Annotated[str | None, Option("--bins", "Edges that turn numbers into states: 0,200,400 or width:200.")]


def parse_distance(value: object) -> object:
    """A text as a number where it is one: in the unit of the order column; otherwise a duration, as it is written."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


@dataclass(frozen=True, kw_only=True)
class OrderOptions:
    """In which order the rows of a series are, as it is typed."""

    order: Order = None
    rows_in_order: RowsInOrder = False

    def arguments(self) -> dict[str, Any]:
        """The arguments by which a Python function reads the series so."""
        if self.rows_in_order and self.order is not None:
            raise ParameterError(
                f"--order {self.order} and --rows-in-order are both given; use one of them", value=self.order
            )
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "rows_in_order"}
        return {**given, "order": ROWS if self.rows_in_order else self.order}


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(OrderOptions):
    """How a series is read, as it is typed."""

    by: By = None
    restart: Restart = None
    independent: Independent = False
    missing: Missing = "refuse"
    first: First = None
    last: Last = None
    bins: Bins = None

    def arguments(self) -> dict[str, Any]:
        """The arguments by which a Python function reads the series so."""
        return {**super().arguments(), "restart": parse_distance(self.restart)}

    def layout(self) -> dict[str, Any]:
        """The arguments that say how rows become series, whatever part of them is read."""
        return {name: value for name, value in self.arguments().items() if name not in ("first", "last", "bins")}
