"""A series of real numbers, each drawn towards the one before: a stationary AR(1) process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np

from pufferdp.basics.errors import ModelError, NotApplicableError, ParameterError
from pufferdp.models.base import LayoutOptions, Lengths, Model
from pufferdp.models.chain import json_object, number_array, time_step
from pufferdp.models.files.json import File
from pufferdp.models.gaussian import Gaussian

_MOST_TABLED: Final = 500
"""Records whose covariances are written out as a table, for audits."""


class _Ar1File(File):
    type: Literal["ar1"]
    coefficient: float | list[float]
    mean: float | None = None
    sd: float | None = None
    step: str | float | None = None
    fitted: dict[str, Any] | None = None
    checks: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Ar1(Model):
    """Normal numbers of which two, k steps apart, have the correlation coefficient^k; any number of them.

    The noise of a release follows from the coefficient alone, so the guarantee holds whatever the mean and the
    deviation are (docs/theory/ar1.md). Two coefficients are a class: every such process with a coefficient between
    them.

    >>> Ar1(coefficient=0.9, mean=70, sd=8, step="1min")
    Ar1(coefficient 0.9, step 1min)
    >>> Ar1(coefficient=(0.85, 0.93))
    Ar1(coefficients from 0.85 to 0.93)
    """

    file_type: ClassVar[str | None] = "ar1"
    real_valued: ClassVar[bool] = True
    needs_length: ClassVar[bool] = True
    takes_length: ClassVar[bool] = True

    coefficient: float | tuple[float, float]
    """The correlation of two records one step apart; or the least and the largest that it can be."""
    mean: float | None = None
    """The expected value of every record, where it is known."""
    sd: float | None = None
    """The standard deviation of every record, where it is known."""
    step: str | float | None = None
    """The time from one record to the next: a duration such as ``"1min"``, or a number in the order column's unit."""
    fitted: dict[str, Any] | None = field(default=None)
    """Where the model was estimated from, if it was."""
    checks: dict[str, Any] | None = field(default=None)
    """What the data said about the model, where ``fit`` compared them."""

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "coefficient", _coefficient(self.coefficient))
        for name in ("mean", "sd"):
            if getattr(self, name) is not None:
                set_field(self, name, _number(getattr(self, name), name, positive=name == "sd"))
        set_field(self, "step", time_step(self.step))
        set_field(self, "checks", json_object(self.checks, "checks"))

    @property
    def labels(self) -> tuple[str, ...]:
        """There are no states to name; the numbers are in the data."""
        return ()

    @property
    def coefficients(self) -> tuple[float, float]:
        """The least and the largest coefficient of the class."""
        return self.coefficient if isinstance(self.coefficient, tuple) else (self.coefficient, self.coefficient)

    @property
    def strongest(self) -> float:
        """The largest |coefficient| of the class: it decides, since every shift grows with it."""
        return max(map(abs, self.coefficients))

    @property
    def single(self) -> bool:
        """Whether the class has one coefficient."""
        return not isinstance(self.coefficient, tuple)

    def dependent(self, longest: int) -> int:
        """A whole series, unless each record forgets the one before."""
        return 1 if self.strongest == 0 else longest

    def lengths(self, given: Lengths, divided: str | None = None) -> Lengths:
        """One series or more, as given."""
        if not given:
            raise ParameterError("there is no series; a release needs at least one record")
        return given

    def check_reading(self, layout: LayoutOptions, missing: str, id: str | None) -> None:
        """Records have positions, and a series is never cut."""
        if id is not None:
            raise ParameterError(
                f"id is {id!r}; it says which record a row is, and a series has positions only: use order=", value=id
            )
        if layout["restart"] is not None:
            raise ParameterError(
                f"restart is {layout['restart']!r}; the noise of an ar1 series is enough for one that goes on past "
                "every gap, and hardly depends on its length: leave it out",
                value=layout["restart"],
            )

    def check_secrets(self) -> None:
        """There are no states to name."""
        raise ParameterError(
            "secrets of your own name states, and the records of this model are real numbers: leave them out"
        )

    def public_facts(self, records: int) -> list[str]:
        """How many records there are, whose they are, and which are missing."""
        return [
            f"how many records there are ({records}) and how they fall into series",
            "where gaps and missing values lie",
        ]

    def table(self, length: int, clip: tuple[float, float]) -> Gaussian:
        """``length`` consecutive records as one normal distribution, under the strongest coefficient; to draw from.

        Without a mean and a deviation most of the mass lies inside the range.
        """
        if length > _MOST_TABLED:
            raise NotApplicableError(
                f"length is {length}; a series of numbers is tabled for at most {_MOST_TABLED} records",
                value=length,
            )
        phi = max(self.coefficients, key=abs)
        steps = np.abs(np.subtract.outer(np.arange(length), np.arange(length)))
        sd = (clip[1] - clip[0]) / 4 if self.sd is None else self.sd
        mean = sum(clip) / 2 if self.mean is None else self.mean
        return Gaussian(mean=[mean] * length, covariance=sd**2 * phi**steps)

    def to_dict(self) -> dict[str, Any]:
        """The coefficients, and what else is known."""
        coefficient = list(self.coefficient) if isinstance(self.coefficient, tuple) else self.coefficient
        known = {name: getattr(self, name) for name in ("mean", "sd", "step", "fitted", "checks")}
        return {
            "type": self.file_type,
            "coefficient": coefficient,
            **{name: value for name, value in known.items() if value is not None},
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> Ar1:
        """The process of an ``ar1`` file."""
        content = _Ar1File.model_validate(raw)
        given = content.coefficient
        return cls(
            coefficient=_pair(given) if isinstance(given, list) else given,
            mean=content.mean,
            sd=content.sd,
            step=content.step,
            fitted=content.fitted,
            checks=content.checks,
        )

    def __repr__(self) -> str:
        low, high = self.coefficients
        which = f"coefficient {low:.4g}" if self.single else f"coefficients from {low:.4g} to {high:.4g}"
        return f"Ar1({which}{'' if self.step is None else f', step {self.step}'})"


def ar1_of(model: Model) -> Ar1 | None:
    """The model as a series of real numbers; None where it is about something else."""
    return model if isinstance(model, Ar1) else None


def _pair(value: Sequence[float]) -> tuple[float, float]:
    if len(value) != 2:
        raise ModelError(
            f"coefficient has {len(value)} numbers; it must be one, or the least and the largest", value=value
        )
    return value[0], value[1]


def _coefficient(value: object) -> float | tuple[float, float]:
    numbers = number_array(value, "coefficient")
    if numbers.ndim == 0:
        return _inside(float(numbers))
    if numbers.ndim != 1:
        raise ModelError("coefficient must be one number, or the least and the largest", value=value)
    low, high = (_inside(end) for end in _pair(numbers.tolist()))
    if low > high:
        raise ModelError(f"coefficient is [{low:g}, {high:g}]; the least comes first", value=value)
    return low, high


def _inside(value: float) -> float:
    if not -1 < value < 1:
        raise ModelError(
            f"coefficient is {value:g}; it must lie between -1 and 1, exclusive: at 1 a series wanders off and one "
            "record shows in all others forever, so use groups, or a model of the differences",
            value=value,
        )
    return value


def _number(value: object, name: str, positive: bool) -> float:
    number = number_array(value, name)
    if number.ndim != 0 or not math.isfinite(number) or (positive and not number > 0):
        rule = "a finite number above 0" if positive else "a finite number"
        raise ModelError(f"{name} is {value!r}; it must be {rule}", value=value)
    return float(number)
