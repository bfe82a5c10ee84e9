"""Domains of the numbers people pass in, checked once, with messages that name value and rule."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final, SupportsFloat, SupportsIndex

from pufferdp.basics.adversary import Adversary
from pufferdp.basics.errors import ParameterError
from pufferdp.basics.words import a_kind, quoted_value

LARGEST: Final = 1e100
"""Numbers are clipped to no more than this: sums and noise for 2^53 records then still fit a double."""
MOST_RECORDS: Final = 2**53
"""The longest chain: whole numbers up to here are exact in a double."""
SMALLEST_EPSILON: Final = 1e-9
"""Influences are computed in doubles; an epsilon near their rounding could not be told from 0."""
MICROSECONDS: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "sec": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
DURATION: Final = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*")
"""A number and the unit after it, one of those above."""
_POWER: Final = re.compile(r"[eE]([+-]?\d+)\s*$")


def adversary(value: object, name: str = "adversary") -> Adversary:
    """Read an adversary by name."""
    try:
        return Adversary(str(value))
    except ValueError:
        raise ParameterError(
            f"{name} is {value!r}; it must be one of bdp (knows any set of records), "
            "pufferfish (knows none) or dp (knows all others)",
            value=value,
        ) from None


def any_number(name: str, value: SupportsFloat | SupportsIndex | str) -> float:
    """A number as a double, whatever it is; true and false are none."""
    try:
        if type(value).__name__ in ("bool", "bool_"):  # Python's and numpy's, which is not loaded for it
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name} is {quoted_value(value)}; it must be a number", value=value) from None


def flag(value: object, name: str) -> bool:
    """True or False; text such as 'no' would be taken for yes."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise ParameterError(f"{name} is {quoted_value(value)}; it must be True or False", value=value)
    return bool(value)


def file_path(path: object, name: str) -> str | os.PathLike[str]:
    """The path of a file, as text or as a Path."""
    if isinstance(path, (str, os.PathLike)):
        return path
    raise ParameterError(f"{name} is {a_kind(path)}; it must be the path of a file", value=path)


def several(value: object, name: str, what: str) -> list[Any]:
    """A list of things, or anything that can be made one; text is a thing by itself."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
        return list(value)
    raise ParameterError(f"{name} is {quoted_value(value)}; it must be {what}", value=value)


def _checkable(name: str, number: float, value: object) -> float:
    if number < SMALLEST_EPSILON:
        raise ParameterError(
            f"{name} is {number:g}; below {SMALLEST_EPSILON:g} the guarantee is finer than rounding lets anyone check",
            value=value,
        )
    return number


def epsilon(value: SupportsFloat | str, name: str = "epsilon") -> float:
    """A privacy parameter: finite and above zero."""
    number = any_number(name, value)
    if not math.isfinite(number) or number <= 0:
        raise ParameterError(f"{name} is {number:g}; it must be a finite number above 0, for example 1", value=value)
    if number > LARGEST:
        raise ParameterError(f"{name} is {number:g}; above {LARGEST:g} it guarantees nothing: try 1", value=value)
    return _checkable(name, number, value)


def total_variation(value: SupportsFloat | str, name: str = "tau") -> float:
    """A guarantee in total variation: above 0 and below 1, where everything would be allowed."""
    number = any_number(name, value)
    if not 0 < number < 1:
        raise ParameterError(
            f"{name} is {number:g}; a total variation lies between 0, which no release reaches, and 1, which "
            "guarantees nothing: give a number between them, for example 0.1",
            value=value,
        )
    return _checkable(name, number, value)


def radius(value: SupportsFloat | str, name: str = "eta") -> float:
    """The radius of an orbit in total variation: 0 (one kernel) or more, below 1 (every kernel)."""
    return _below_one(value, name, "for example 0.01")


def delta(value: SupportsFloat | str, name: str = "delta") -> float:
    """The delta of approximate DP: 0 or more, below 1."""
    usual = "and is usually far below one over the number of records, for example 1e-6"
    return _below_one(value, name, usual)


def _below_one(value: SupportsFloat | str, name: str, example: str) -> float:
    number = any_number(name, value)
    if not 0 <= number < 1:
        raise ParameterError(f"{name} is {number:g}; it must be 0 or more and below 1, {example}", value=value)
    return number


def probability(value: SupportsFloat | str, name: str) -> float:
    """A probability strictly between 0 and 1."""
    number = any_number(name, value)
    if not 0 < number < 1:
        raise ParameterError(f"{name} is {number:g}; it must lie strictly between 0 and 1", value=value)
    if number < 1e-300:  # what is divided among many coordinates must not become 0
        raise ParameterError(f"{name} is {number:g}; below 1e-300 it is too small to compute with", value=value)
    return number


def length(value: SupportsIndex | SupportsFloat | str, name: str = "length", least: int = 1) -> int:
    """A number of records: a whole number from ``least`` up to 2^53."""
    try:
        whole = int(value) if isinstance(value, (int, str)) else None  # exact where a double would round
    except ValueError:
        whole = None
    number = any_number(name, value) if whole is None else whole
    # In this order: a whole number may be too large for a double, and a double may be infinite.
    inside = least <= number <= MOST_RECORDS and number == int(number)
    if isinstance(value, bool) or not inside:
        raise ParameterError(
            f"{name} is {str(value)[:40]}; it must be a whole number from {least} to 2^53", value=value
        )
    return int(number)


def fraction(text: str) -> Fraction:
    """The number that is written there, exactly; a ValueError where there is none, or one of hundreds of digits.

    Python refuses thousands of digits in words of its own, and writes all of them out for 1e999999999.
    """
    most = 400  # all doubles have fewer before the point
    power = _POWER.search(text) if len(text) <= most else None
    if len(text) > most or (power is not None and abs(int(power[1])) > most):
        raise ValueError(f"a number has at most {most} digits")
    return Fraction(text)


def digits(text: str) -> int | None:
    """A whole number of up to 16 digits; None for any other text. Python reads no number of very many digits."""
    return int(text) if len(text) <= 16 and text.isascii() and text.isdigit() else None


def clip_pair(value: object) -> tuple[float, float]:
    """A clipping range as it is given: two numbers."""
    pair = list(value) if isinstance(value, Iterable) and not isinstance(value, (str, set, frozenset)) else []
    if len(pair) != 2:
        raise ParameterError(f"clip is {quoted_value(value)}; it must be two numbers, the lower one first", value=value)
    return clip_range(*pair)


def clip_range(low: SupportsFloat | str, high: SupportsFloat | str) -> tuple[float, float]:
    """A clipping range: two finite numbers, the lower first."""
    a, b = any_number("lower clip", low), any_number("upper clip", high)
    if not (math.isfinite(a) and math.isfinite(b)) or a >= b:
        raise ParameterError(
            f"clip range is [{a:g}, {b:g}]; it must be two finite numbers with the lower one first", value=(low, high)
        )
    if max(abs(a), abs(b)) > LARGEST:
        raise ParameterError(
            f"clip range is [{a:g}, {b:g}]; beyond {LARGEST:g} sums and noise are too large for a double",
            value=(low, high),
        )
    return a, b


def refuse_unknown(options: Mapping[str, object], declared: type) -> None:
    """Refuse an option that is not declared in a TypedDict, as Python does where options are named one by one."""
    unknown = options.keys() - declared.__annotations__.keys()
    if unknown:
        raise TypeError(f"{min(unknown)} is an unexpected keyword argument")
