"""A clock: a Markov chain whose transitions depend on the time of the day, or of the week."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt

from pufferdp.basics.arrays import Mask, Matrix, read_only
from pufferdp.basics.checks import DURATION, MICROSECONDS, digits
from pufferdp.basics.errors import ModelError, ParameterError
from pufferdp.basics.words import shape_text
from pufferdp.models.base import LayoutOptions, Model
from pufferdp.models.chain import (
    MarkovChain,
    SeriesModel,
    StatesFile,
    StatesModel,
    number_array,
    probability_rows,
    time_step,
)
from pufferdp.models.files.json import Row

Tables = npt.NDArray[np.float64]
"""Several transition tables, (m, k, k)."""

MOST_STEPS: Final = 10_080
"""A week of minutes: more steps in a period are refused."""


def distance_amount(distance: str | float) -> tuple[Fraction, bool]:
    """A step or period that has been checked, exact, and whether it is a duration: then in microseconds."""
    match = DURATION.fullmatch(distance) if isinstance(distance, str) else None
    if match is None:
        return Fraction(str(distance)), False
    return Fraction(match[1]) * MICROSECONDS[match[2]], True


def steps_in(period: str | float, step: str | float | None) -> int:
    """How many steps a period has; refuses one that is not a whole number of them."""
    if step is None:
        raise ModelError("step is missing; a clock needs the time from one record to the next, such as 5min")
    try:
        whole, timed = distance_amount(time_step(period) or "")
    except ModelError:
        raise ModelError(
            f"period is {period!r}; it must be the time after which the rhythm repeats: a duration such as 24h or 7d, "
            "or a number above 0 in the order column's unit",
            value=period,
        ) from None
    part, part_timed = distance_amount(time_step(step) or "")
    if timed != part_timed:
        raise ModelError(
            f"step is {step} and period is {period}; give both as durations, such as 5min and 24h, or both as numbers",
            value=(step, period),
        )
    if (whole / part).denominator != 1:
        raise ModelError(
            f"period is {period} and step is {step}, which is {float(whole / part):g} steps; a period must be a whole "
            "number of steps: change one of them",
            value=(step, period),
        )
    if whole / part > MOST_STEPS:
        raise ModelError(
            f"period is {period} and step is {step}, which is {int(whole / part):,} steps; at most {MOST_STEPS:,} are "
            "worked out: use a longer step or a shorter period",
            value=(step, period),
        )
    return int(whole / part)


def share_evenly(tables: int, period: str | float, step: str | float | None) -> None:
    """Refuse a number of tables that does not divide the steps of a period."""
    many = steps_in(period, step)
    if many % tables:
        raise ModelError(
            f"a period of {period} has {many} steps of {step}, which {tables} tables cannot share evenly; take a "
            f"number of tables that divides {many}",
            value=(tables, many),
        )


def rhythm_of(clock: str | int) -> tuple[int, str]:
    """Slots and period of a rhythm by name: hours of the day, days of the week, or equal slots of a day."""
    if isinstance(clock, str) and clock in _RHYTHMS:
        return _RHYTHMS[clock]
    slots = None if isinstance(clock, bool) or not isinstance(clock, (str, int)) else digits(str(clock)[:20])
    if slots is not None and 2 <= slots <= MOST_STEPS:
        return slots, "24h"
    raise ParameterError(
        f"clock is {clock!r}; it must be hour (24 slots of a day), day (7 slots of a week) or a number of equal slots "
        f"of a day, 2 to {MOST_STEPS:,}",
        value=clock,
    )


_RHYTHMS: Final = {"hour": (24, "24h"), "day": (7, "7d")}
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def slot_name(slot: int, slots: int, period: str) -> str:
    """A slot of a rhythm in words."""
    if (slots, period) == _RHYTHMS["day"]:
        return f"on a {_DAYS[slot]}"
    ends = [Fraction(24 * 60, slots) * n for n in (slot, slot + 1)]
    first, last = (f"{int(end) // 60:02}:{int(end) % 60:02}" for end in ends)
    return f"from {first} to {last}"


class _ClockFile(StatesFile):
    type: Literal["markov_clock"]
    transitions: list[list[Row]]
    period: str | float
    start: str = "stationary"


@dataclass(frozen=True, kw_only=True, eq=False)
class MarkovClock(StatesModel):
    """A Markov chain whose transitions follow the clock, in the distribution that repeats with it.

    >>> day, night = [[0.9, 0.1], [0.4, 0.6]], [[0.5, 0.5], [0.1, 0.9]]
    >>> MarkovClock(transitions=[day, night], step="1h", period="24h", states=["rest", "active"])
    MarkovClock(2 states: rest, active; 2 slots in 24h, steps of 1h)
    """

    file_type: ClassVar[str | None] = "markov_clock"

    transitions: Tables
    """(m, k, k): tables that share the period evenly, from its beginning on. Row x of a table holds the probabilities
    of the next state after a record in state x in that part of the period."""
    period: str | float
    """The time after which the first table follows again: ``"24h"``, ``"7d"``, or a number."""
    start: str = "stationary"
    """``"stationary"``: the first record has the distribution that repeats with the period, whatever its slot is."""

    def __post_init__(self) -> None:
        tables = number_array(self.transitions, "transitions")
        if tables.ndim != 3 or not tables.size:
            shape = shape_text(tables.shape)
            raise ModelError(f"transitions is {shape}; it must be a list of square tables, one for each slot")
        share_evenly(len(tables), self.period, self.step)
        checked = [probability_rows(table, f"table {n} of transitions") for n, table in enumerate(tables, start=1)]
        k, set_field = tables.shape[1], object.__setattr__
        set_field(self, "transitions", read_only(np.stack(checked)))
        set_field(self, "period", time_step(self.period))
        if self.start != "stationary":
            raise ModelError(
                f'start is {self.start!r}; a clock starts at any slot, in the periodic distribution: "stationary"',
                value=self.start,
            )
        self.check_states(k)

    @property
    def size(self) -> int:
        """How many states the tables have, named or not."""
        return int(self.transitions.shape[1])

    @cached_property
    def steps(self) -> int:
        """The number of time steps in a period."""
        return steps_in(self.period, self.step)

    @property
    def clock(self) -> MarkovClock | None:
        """The model itself, unless all matrices are equal."""
        return self if self.chain is None else None

    @property
    def rhythm(self) -> Tables | None:
        """The table of each step of the period, (steps, k, k); None where all are one, and it is a chain."""
        return self.tables if self.chain is None else None

    @cached_property
    def tables(self) -> Tables:
        """The table of each step of the period, (steps, k, k)."""
        return read_only(np.repeat(self.transitions, self.steps // len(self.transitions), axis=0))

    @cached_property
    def distributions(self) -> Matrix:
        """The distribution of a record at each step of the period, (steps, k): it repeats with the period."""
        whole = np.eye(self.size)
        for table in self.tables:
            whole = whole @ table
        distributions = [MarkovChain(transition=whole / whole.sum(axis=1, keepdims=True)).stationary]
        for table in self.tables[:-1]:
            distributions.append(distributions[-1] @ table)
        return read_only(np.array(distributions))

    @property
    def chains(self) -> tuple[MarkovChain, ...]:
        """The chain that it is where all tables are one; otherwise none."""
        return () if self.chain is None else (self.chain,)

    @cached_property
    def chain(self) -> MarkovChain | None:
        """The chain that it is where all tables are one."""
        if (self.transitions != self.transitions[0]).any():
            return None
        return MarkovChain(transition=self.transitions[0], **self.names)

    @property
    def single(self) -> bool:
        """True: a time-of-day model is no class of models."""
        return True

    def dependent(self, longest: int) -> int:
        """A whole chain, unless each step forgets where it came from."""
        forgets = bool((self.transitions == self.transitions[:, :1]).all())
        return 1 if longest == 1 or self.size == 1 or forgets else longest

    @property
    def supports(self) -> tuple[tuple[Mask, Mask], ...]:
        """What is possible at some time of the period."""
        return ((np.asarray((self.transitions > 0).any(axis=0)), np.asarray((self.distributions > 0).any(axis=0))),)

    @property
    def rules_out(self) -> bool:
        """Whether some move, or some first record, is impossible at some time of the period."""
        return not bool((self.transitions > 0).all() and (self.distributions > 0).all())

    def allows_at(self, slot: int, before: int, state: int, steps: int) -> bool:
        """Whether a state can follow another so many steps later, from one step of the period on.

        With 0 steps: whether a series can begin with the state there.
        """
        if steps == 0:
            return bool(self.distributions[slot, state] > 0)
        periods, rest = divmod(steps, self.steps)
        reached = self._pattern(slot, rest)
        whole = self._pattern(slot + rest, self.steps) if periods else reached
        while periods:
            if periods % 2:
                reached = np.minimum(reached @ whole, 1.0)
            whole, periods = np.minimum(whole @ whole, 1.0), periods // 2
        return bool(reached[before, state] > 0)

    def _pattern(self, slot: int, steps: int) -> Matrix:
        """1 where a state can be reached from another within so many steps from one step of the period on, else 0."""
        reached = np.eye(self.size)
        for step in range(slot, slot + steps):
            reached = np.minimum(reached @ (self.tables[step % self.steps] > 0), 1.0)
        return reached

    def check_reading(self, layout: LayoutOptions, missing: str, id: str | None) -> None:
        """The slot of a record comes from the order column."""
        super().check_reading(layout, missing, id)
        if self.chain is None:
            check_clock_reading(layout)

    def public_facts(self, records: int) -> list[str]:
        """Also when the records were taken."""
        return [*super().public_facts(records), f"the time of each record within {self.period}"]

    def to_dict(self) -> dict[str, Any]:
        """The tables, step and period, and how the states are called."""
        return self.file_content(transitions=self.transitions.tolist(), period=self.period, start=self.start)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> MarkovClock:
        """The clock of a ``markov_clock`` file."""
        content = _ClockFile.model_validate(raw)
        tables = [number_array(table, f"table {n} of transitions") for n, table in enumerate(content.transitions, 1)]
        if len({table.shape for table in tables}) > 1:
            sizes = ", ".join(sorted({"×".join(map(str, table.shape)) for table in tables}))
            raise ModelError(f"the tables of transitions are {sizes}; all must have one row and one column per state")
        return cls(transitions=np.array(tables), period=content.period, start=content.start, **content.common())

    def __repr__(self) -> str:
        names = ", ".join(self.labels[:6]) + (", …" if self.size > 6 else "")
        slots = f"{len(self.transitions)} slots in {self.period}, steps of {self.step}"
        return f"MarkovClock({self.size} state{'s' * (self.size != 1)}: {names}; {slots})"


def check_clock_reading(layout: LayoutOptions) -> None:
    """Reject data without an order column, which a time-of-day model takes the slot of each record from."""
    if layout.get("order") is None:
        raise ParameterError(
            "order is missing; a clock takes the slot of a record from the column that says when: name it with order="
        )


def clock_of(model: Model) -> MarkovClock | None:
    """The model as a time-of-day chain of records with several matrices; None where it is something else."""
    clock = model.clock if isinstance(model, SeriesModel) else None
    return clock if isinstance(clock, MarkovClock) else None
