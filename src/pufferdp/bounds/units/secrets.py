"""Secrets that are about an interval of a series: what all of it holds, or whether a state occurred in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Final

from pufferdp.basics.checks import MOST_RECORDS, digits
from pufferdp.basics.errors import ParameterError
from pufferdp.models.base import Model
from pufferdp.models.chain import series_of
from pufferdp.models.clock import distance_amount

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_WAY_OUT: Final = "write ever:STATE:FROM..TO or all:FROM..TO, with numbers of records, dates or times"


@dataclass(frozen=True, kw_only=True)
class SegmentSecret:
    """Consecutive records that are one secret together.

    >>> from pufferdp.models.chain import MarkovChain
    >>> hours = MarkovChain(transition=[[0.9, 0.1], [0.3, 0.7]], states=["home", "hospital"], step="1h")
    >>> SegmentSecret.parse("ever:hospital:2024-05-03", hours, None).words
    'whether it was hospital at some time on 2024-05-03'
    """

    text: str
    """The secret as the user wrote it, such as ``ever:hospital:2024-05-03``."""
    state: str | None
    """The state that occurs in the interval or does not; None: all that the interval holds."""
    records: int
    before: int | None
    """Records of the series before the interval; None: any number."""
    after: int | None
    words: str
    """What is secret, in words."""

    @classmethod
    def parse(cls, text: str, model: Model, length: int | None) -> SegmentSecret:
        """``ever:STATE:FROM..TO`` or ``all:FROM..TO``; places are numbers of records, dates or times.

        Args:
            text: the secret.
            model: a chain; dates and times go by its step.
            length: records of the series; None: it goes on before and after the interval.
        """
        kind, _, rest = str(text).partition(":")
        state: str | None = None
        if kind == "ever":
            state, rest = _state(text, rest, model)
        elif kind != "all" or not rest:
            raise ParameterError(f"secret is {text!r}; {_WAY_OUT}", value=text)
        first, dots, last = rest.partition("..")
        records, before = _interval(text, first.strip(), (last if dots else first).strip(), model)
        where = _where(first.strip(), last.strip() if dots else "")
        after = None
        if length is not None:
            if (before or 0) + records > length:
                raise ParameterError(
                    f"secret is {text!r}, which ends after record {(before or 0) + records:,}, and the series has "
                    f"{length:,}: take a shorter interval, or a longer series",
                    value=text,
                )
            # A date is somewhere in the series: as many records as are left may be before it, or behind it.
            after = length - records - (before or 0)
            before = after if before is None else before
        words = f"what the records {where} hold together" if state is None else f"whether it was {state} {where}"
        words = words if state is None or records == 1 else f"whether it was {state} at some time {where}"
        return cls(text=str(text), state=state, records=records, before=before, after=after, words=words)

    def to_dict(self) -> dict[str, Any]:
        """The fields that a certificate states, as JSON values."""
        return {"text": self.text, "state": self.state, "records": self.records, "words": self.words}


def _state(text: str, rest: str, model: Model) -> tuple[str, str]:
    """The state of an event, which may have a colon in its name itself, and what follows it."""
    if not model.labels:
        raise ParameterError(
            f"secret is {text!r}, about a state, and the records of this model are real numbers", value=text
        )
    for state in sorted(model.labels, key=len, reverse=True):
        if rest.startswith(f"{state}:") and len(rest) > len(state) + 1:
            return state, rest[len(state) + 1 :]
    known = ", ".join(model.labels[:10])
    raise ParameterError(f"secret is {text!r}; its state must be one of {known}: {_WAY_OUT}", value=text)


def _where(first: str, last: str) -> str:
    if last and last != first:
        return f"from {first} to {last}"
    return f"at record {first}" if first.isdecimal() else f"on {first}" if _DATE.fullmatch(first) else f"at {first}"


def _interval(text: str, first: str, last: str, model: Model) -> tuple[int, int | None]:
    """How many records an interval has, and how many are before it; None where it is given by times."""
    begin, end = digits(first), digits(last)
    if begin is not None and end is not None:
        if not 1 <= begin <= end <= MOST_RECORDS:
            raise ParameterError(
                f"secret is {text!r}; records are counted from 1, and the first must not come after the last"
            )
        return end - begin + 1, begin - 1
    try:
        begin_time, end_time = datetime.fromisoformat(first), datetime.fromisoformat(last)
    except ValueError:
        raise ParameterError(f"secret is {text!r}; {_WAY_OUT}", value=text) from None
    step = getattr(series_of(model), "step", None)
    amount, timed = (Fraction(0), False) if step is None else distance_amount(step)
    if not timed:
        raise ParameterError(
            f"secret is {text!r}, and the model does not say how long a step takes: add its step, such as "
            '"step": "1h", or give the interval in records',
            value=text,
        )
    if (begin_time.tzinfo is None) != (end_time.tzinfo is None):
        raise ParameterError(f"secret is {text!r}; give both times with a zone, or both without", value=text)
    if _DATE.fullmatch(last):
        # A date is a whole day.
        span, more = (end_time - begin_time + timedelta(days=1)) // timedelta(microseconds=1), 0
    else:
        span, more = (end_time - begin_time) // timedelta(microseconds=1), 1
    if span < 0 or (span == 0 and not more):
        raise ParameterError(f"secret is {text!r}; its first time comes after its last", value=text)
    # The largest number of records of a regular grid that the interval can hold.
    return max(1, -(-span // amount) if not more else int(span // amount) + 1), None
