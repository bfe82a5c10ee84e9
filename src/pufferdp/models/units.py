"""What one secret is made of: a record, all records of a period such as a day, or all records of a person."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from pufferdp.basics.checks import MOST_RECORDS, digits
from pufferdp.basics.errors import ModelError, ParameterError
from pufferdp.models.base import Model
from pufferdp.models.chain import series_of, time_step
from pufferdp.models.clock import distance_amount

_PERIODS: Final = {"hour": "1h", "day": "1d", "week": "1w"}
_PERSON: Final = "person"
_COUNT: Final = re.compile(r"[0-9]+")


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A period as the unit of a guarantee: what all records of any one period hold is kept as one secret.

    >>> from pufferdp.models.chain import MarkovChain
    >>> hours = MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]], step="1h")
    >>> Unit.of("day", hours)
    Unit(name='day', records=24)
    """

    name: str
    """As it is written: day, 6h, person, or 24 for so many records."""
    records: int
    """Records of a whole period; the first and the last period of a series may have fewer. Of a person: no limit."""

    @classmethod
    def of(cls, value: object, model: Model) -> Unit:
        """From a word, a duration or a number of records; periods need a model that knows its step."""
        if isinstance(value, Unit):
            return value
        if isinstance(value, timedelta):
            if value <= timedelta(0):
                raise ParameterError(f"unit is {value!r}; it must be longer than no time at all", value=value)
            value = time_step(value)
        if series_of(model) is None:
            raise ParameterError(
                f"unit is {value!r}; periods as secrets are worked out for series of states, and the model is not one: "
                "leave the unit out",
                value=value,
            )
        name = str(value).strip()
        return cls(name=name, records=MOST_RECORDS if name == _PERSON else records_in(value, model, "unit"))

    @property
    def counted(self) -> bool:
        """Whether it is a number of records, and not a time."""
        return _COUNT.fullmatch(self.name) is not None

    @property
    def unlimited(self) -> bool:
        """Whether it is a whole person, of any number of records."""
        return self.name == _PERSON

    @property
    def noun(self) -> str:
        """In a sentence, behind "a" or "one"."""
        if self.unlimited:
            return "person's series"
        if self.counted:
            return f"block of {self.records:,} record{'s' * (self.records > 1)}"
        return self.name if self.name in _PERIODS else f"period of {self.name}"

    @property
    def words(self) -> str:
        """With its article: a whole day."""
        return "a person's whole series" if self.unlimited else f"a whole {self.noun}"

    @property
    def zone(self) -> str | None:
        """That a period may begin at any time, so that time zones do not matter; None for people and for records."""
        if self.counted or self.unlimited:
            return None
        long = {"hour": "60 minutes", "day": "24 hours", "week": "168 hours"}.get(self.name, self.name)
        longer = f"; a {self.name} in which clocks go back is longer" if self.name in ("day", "week") else ""
        article = "An" if self.name == "hour" else "A"
        return f"{article} {self.noun} is any {long} in a row, whatever the time zone{longer}."

    def to_dict(self) -> dict[str, Any]:
        """The content of the unit as JSON has it."""
        return {"name": self.name, "records": self.records}


def records_in(value: object, model: Model, name: str) -> int:
    """How many records a period has: hour, day, week or a duration by the model's step; a bare number counts records.

    Refuses what is not a whole number of steps.
    """
    text = str(value).strip()
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        text = ""
    if _COUNT.fullmatch(text):
        count = digits(text)
        if count is None or not 1 <= count <= MOST_RECORDS:
            raise ParameterError(f"{name} is {text[:40]}; it must be a number of records from 1 to 2^53", value=value)
        return count
    duration = _PERIODS.get(text, text)
    try:
        whole, timed = distance_amount(time_step(duration) or "")
    except ModelError:
        raise ParameterError(
            f"{name} is {value!r}; it must be hour, day, week, a duration such as 6h, or a number of records",
            value=value,
        ) from None
    step = getattr(series_of(model), "step", None)
    if step is None or not timed:
        raise ParameterError(
            f"{name} is {value}, and the model does not say how long a step takes: add its step, such as "
            f'"step": "5min", or give {name} as a number of records',
            value=value,
        )
    part, part_timed = distance_amount(step)
    if not part_timed:
        raise ParameterError(
            f"{name} is {value}, and the model's step is {step} in the order column's unit, which is not a time: give "
            f"{name} as a number of records",
            value=value,
        )
    if (whole / part).denominator != 1:
        raise ParameterError(
            f"{name} is {value} and the model's step is {step}, which is {float(whole / part):g} records; give a "
            "whole number of them",
            value=value,
        )
    return int(whole / part)
