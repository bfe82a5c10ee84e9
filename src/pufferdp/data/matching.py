"""How a value is compared with names, of states or of records, how names are sorted, and how messages write a value."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import narwhals as nw

from pufferdp.basics.errors import DataError
from pufferdp.models.base import PAIR_MARK


@dataclass(frozen=True, kw_only=True)
class Comparable:
    """A column in the form in which it is compared with names."""

    value: nw.Expr
    """The value, null where it is missing; true and false are text."""
    number: nw.Expr | None
    """The value as Float64, where the type of the column has one."""
    text: bool
    """The values are compared as text, otherwise as numbers."""

    @property
    def key(self) -> nw.Expr:
        """What is looked up among the keys of the names."""
        return self.value if self.text or self.number is None else self.number


def comparable(kind: Any, role: str, column: str, what: str) -> Comparable:
    """The column of a role; refuse a type that has no names. ``what`` is what the values are: states or ids."""
    value = without_nan(kind, role)
    if kind.is_numeric():
        return Comparable(value=value, number=value.cast(nw.Float64), text=False)
    if isinstance(kind, nw.Boolean):
        text = nw.when(~value.is_null()).then(nw.when(value).then(nw.lit("true")).otherwise(nw.lit("false")))
        return Comparable(value=text, number=value.cast(nw.Int64).cast(nw.Float64), text=True)
    if isinstance(kind, (nw.Categorical, nw.Enum)):
        return Comparable(value=value.cast(nw.String), number=None, text=True)
    if isinstance(kind, nw.String):
        return Comparable(value=value, number=None, text=True)
    raise DataError(
        f"the column {column!r} holds {words(kind)}; {what} must be text, numbers or true and false", value=column
    )


def pair_of(first: Any, second: Any, names: tuple[str, str]) -> Comparable:
    """The states of the columns value and second_value as one, first|second; missing where either is."""
    parts = []
    for kind, role, name in ((first, "value", names[0]), (second, "second_value", names[1])):
        if kind.is_float() or kind.is_decimal():
            raise DataError(
                f"the column {name!r} holds decimal numbers, and pairs are of states: convert it to integers or text",
                value=name,
            )
        parts.append(comparable(kind, role, name, "states").value.cast(nw.String))
    return Comparable(value=nw.concat_str(*parts, separator=PAIR_MARK), number=None, text=True)


def without_nan(kind: Any, role: str) -> nw.Expr:
    """The column of a role, null where it is not a number: pandas has no other way to say missing."""
    return nw.when(~nw.col(role).is_nan()).then(nw.col(role)) if kind.is_float() else nw.col(role)


def person_of(kind: Any, role: str = "person") -> nw.Expr:
    """The column that tells people or groups apart, null where it is missing; categories as text."""
    person = without_nan(kind, role)
    return person.cast(nw.String) if isinstance(kind, (nw.Categorical, nw.Enum)) else person


def words(kind: Any) -> str:
    """What a column of this type holds."""
    names = {"String": "text", "Object": "Python objects", "Boolean": "true and false", "Time": "times without a date"}
    if isinstance(kind, (nw.Datetime, nw.Date)):
        return "times" if isinstance(kind, nw.Datetime) else "dates"
    return names.get(str(kind), f"values of type {kind}")


def keys_of(names: Sequence[str], *, text: bool, what: str = "labels") -> dict[Any, int]:
    """Where each name is, by every text or by the number that stands for it. ``what`` is what the names are of."""
    return _text_keys(names) if text else _number_keys(names, what)


def _text_keys(names: Sequence[str]) -> dict[str, int]:
    """Every way a name may be written: pandas turns 1 into 1.0 once a value is missing, and true into True."""
    keys = {name: index for index, name in enumerate(names)}
    for index, name in enumerate(names):
        digits = name.removesuffix(".0")
        if digits.removeprefix("-").isdecimal():
            keys.setdefault(digits, index)
            keys.setdefault(digits + ".0", index)
        if name.lower() in ("true", "false"):
            keys.setdefault(name.lower(), index)
            keys.setdefault(name.capitalize(), index)
    return keys


def _number_keys(names: Sequence[str], what: str) -> dict[float, int]:
    """The names that are finite numbers; refuse two that are the same one."""
    keys: dict[float, int] = {}
    for index, name in enumerate(names):
        try:
            number = float(name)
        except ValueError:
            continue
        if math.isfinite(number) and keys.setdefault(number, index) != index:
            raise DataError(
                f"the {what} {names[keys[number]]} and {name} are the same number; a column of numbers needs "
                f"{what} that differ as numbers",
                value=name,
            )
    return keys


def plain(value: object) -> str:
    """A value as the name it would have: 1.0 is 1."""
    if isinstance(value, str):
        return value.removesuffix(".0") if re.fullmatch(r"-?\d+\.0", value) else value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def quoted(name: str) -> str:
    """A name in a message, cut where it is long."""
    return repr(name if len(name) <= 40 else name[:40] + "…")


def shown(value: object) -> str:
    """A value of the data in a message."""
    return quoted(plain(value))


_NUMBER: Final = re.compile("[0-9]{1,400}")
"""Numbers of thousands of digits are text: Python does not read them."""


def natural_order(name: str) -> tuple[Any, ...]:
    """Numbers first and by size; then text, with the numbers inside compared by size: s2 before s10."""
    try:
        return (0, float(name), name)
    except ValueError:
        parts = re.split(r"(\d+)", name)
        return (1, tuple((int(part), "") if _NUMBER.fullmatch(part) else (-1, part) for part in parts), name)
