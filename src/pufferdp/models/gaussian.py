"""Records that are real numbers: jointly normal with one covariance matrix, or with any that is limited."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np

from pufferdp.basics.arrays import Floats, read_only
from pufferdp.basics.checks import LARGEST
from pufferdp.basics.errors import DataError, ModelError, ParameterError
from pufferdp.models.base import LayoutOptions, Lengths, Model, record_names, refuse_unnamed
from pufferdp.models.chain import number_array
from pufferdp.models.files.json import File, Row
from pufferdp.models.inference import connected

_SYMMETRIC: Final = 1e-9
"""How far two entries that should agree may differ, as a share of the standard deviations."""
_LEAST: Final = 1e-12
"""Eigenvalues of a correlation matrix below this cannot be told from 0 in doubles."""


class NumberModel(Model):
    """A model of families of records that are real numbers; families are independent of each other."""

    real_valued: ClassVar[bool] = True

    @property
    def labels(self) -> tuple[str, ...]:
        """There are no states to name; the numbers are in the data."""
        return ()

    @property
    @abstractmethod
    def family(self) -> int:
        """Records in the largest family."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the records of every family, where they have names; families are then whole."""
        return None

    @property
    def normal(self) -> Gaussian | None:
        """The only member, where it is one normal distribution."""
        return None

    @property
    def single(self) -> bool:
        """Whether the class is one normal distribution."""
        return self.normal is not None

    @abstractmethod
    def correlations(self) -> list[tuple[int, float, float]]:
        """Of each set of correlated records: how many, the largest |Pearson|, how far deviations differ."""

    @abstractmethod
    def example(self, clip: tuple[float, float]) -> Gaussian:
        """A normal distribution of the class to draw from."""

    def lengths(self, given: Lengths, divided: str | None = None) -> Lengths:
        """Independent families, one of them where nothing is said; each is whole where records have names."""
        n = self.family
        for length, _ in given:
            if length > n or (length < n and self.names is not None):
                whole = f"allows at most {n}" if self.names is None else f"has {n}"
                raise ParameterError(
                    f"length is {length}; a family of this model {whole} record{'s' * (n != 1)}: give a number for "
                    f"each independent family, as in lengths=[{n}, {n}]",
                    value=length,
                )
        return given or ((n, 1),)

    def check_reading(self, layout: LayoutOptions, missing: str, id: str | None) -> None:
        """A column tells families apart, and one says which record a row is where records have names."""
        for name in ("order", "restart"):
            value = layout[name]
            if value is not None:
                raise ParameterError(
                    f"{name} is {value!r}; it is for series, and families of numbers have no order: leave it out",
                    value=value,
                )
        if missing == "keep":
            raise ParameterError(
                f"missing is {missing!r}; it is for series, and a family has no unobserved steps: leave it out whole"
            )
        if self.names is None and id is not None:
            raise ParameterError(f"id is {id!r}; this class does not name its records: leave it out", value=id)
        if self.names is not None and id is None:
            refuse_unnamed(self.names)

    def check_groups(self, by: str | None, lengths: Sequence[Sequence[int]]) -> None:
        """Refuse families of another size than the model's."""
        longest = max((length for length, _ in lengths), default=0)
        whose = "the data" if by is None else f"a family of {by!r}"
        way = "tell families apart with by=" if by is None else "correct them, or leave the family out"
        n, least = self.family, min((length for length, _ in lengths), default=0)
        if self.names is not None and not least == longest == n:
            wrong = longest if least == n else least
            raise DataError(f"{whose} has {wrong} rows; the model has {n} records, one row each: {way}", value=wrong)
        if longest > n:
            raise DataError(f"{whose} has {longest} rows; the model allows at most {n} records: {way}", value=longest)
        if by is None and sum(count for _, count in lengths) > 1:
            raise DataError("there are several families, and no column tells them apart: name it with by=")

    def check_secrets(self) -> None:
        """There are no states to name."""
        raise ParameterError(
            "secrets of your own name states, and the records of this model are real numbers: leave them out"
        )

    def public_facts(self, records: int) -> list[str]:
        """How many there are, and who is of one family."""
        return [f"how many records there are ({records}), and which of them are a family"]


def numbers_of(model: Model) -> NumberModel | None:
    """The model as one of real numbers; None where records have states."""
    return model if isinstance(model, NumberModel) else None


class _GaussianFile(File):
    type: Literal["gaussian"]
    mean: Row
    covariance: list[Row]
    records: list[str | int] | None = None
    fitted: dict[str, Any] | None = None


class _LimitedFile(File):
    type: Literal["limited_correlation"]
    records: int
    rho: float
    fitted: dict[str, Any] | None = None


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Gaussian(NumberModel):
    """One family of records with a joint normal distribution; the data may hold many independent copies of it.

    >>> Gaussian(mean=[69, 64, 67], covariance=[[6.1, 0.4, 2.4], [0.4, 5.3, 1.7], [2.4, 1.7, 12.8]])
    Gaussian(3 records, largest correlation 0.272)
    """

    file_type: ClassVar[str | None] = "gaussian"

    mean: Floats
    """The expected value of each record."""
    covariance: Floats
    """Symmetric and positive definite, one row and one column a record."""
    records: tuple[str, ...]
    """Names of the records of a family."""
    fitted: dict[str, Any] | None = None
    """Where the model was estimated from, if it was."""

    def __init__(
        self,
        *,
        mean: Sequence[float] | Floats,
        covariance: Sequence[Sequence[float]] | Floats,
        records: Sequence[str] | None = None,
        fitted: dict[str, Any] | None = None,
    ) -> None:
        centre = number_array(mean, "mean")
        if centre.ndim != 1 or centre.size == 0 or not np.isfinite(centre).all():
            raise ModelError("mean must be a list of finite numbers, one for each record", value=mean)
        if np.abs(centre).max() > LARGEST:
            raise ModelError(f"mean has a number beyond {LARGEST:g}; measure the records in another unit", value=mean)
        fields = {
            "mean": read_only(centre),
            "covariance": read_only(_covariance(covariance, len(centre))),
            "records": record_names(records, len(centre)),
            "fitted": fitted,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def family(self) -> int:
        """How many records one copy of the distribution has."""
        return len(self.records)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the records of every copy."""
        return self.records

    @property
    def normal(self) -> Gaussian:
        """The model itself, the only member."""
        return self

    def dependent(self, longest: int) -> int:
        """The largest set of records that covariances link."""
        return max(len(component) for component in self.components)

    def correlations(self) -> list[tuple[int, float, float]]:
        """One entry for each set of records that covariances link."""
        return [(len(part), self.pearson(part), self.spread(part)) for part in self.components]

    def example(self, clip: tuple[float, float]) -> Gaussian:
        """Itself: a single distribution is its own example."""
        return self

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The records in sets that are independent of each other: no covariance leads from one to another."""
        return tuple(connected([np.flatnonzero(row).tolist() for row in self.covariance]))

    def pearson(self, component: Sequence[int]) -> float:
        """The largest |correlation| between two of these records, rounded up."""
        part = self.covariance[np.ix_(component, component)]
        sd = np.sqrt(np.diag(part))
        correlations = np.abs(part) / sd[:, None] / sd * (1 + 2.0**-50)  # two roots and two quotients
        return min(1.0, float(correlations.max(where=~np.eye(len(part), dtype=bool), initial=0.0)))

    def spread(self, component: Sequence[int]) -> float:
        """The largest over the least standard deviation of these records, rounded up; 1 where variances are equal."""
        variance = np.diag(self.covariance)[list(component)]
        ratio = float(variance.max() / variance.min())
        return 1.0 if ratio == 1 else float(np.sqrt(ratio)) * (1 + 2.0**-50)

    def to_dict(self) -> dict[str, Any]:
        """Mean and covariance, and how the records are called."""
        numbers = {"mean": self.mean.tolist(), "covariance": self.covariance.tolist()}
        out = {"type": self.file_type, **numbers, "records": list(self.records)}
        return out if self.fitted is None else {**out, "fitted": self.fitted}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> Gaussian:
        """The distribution of a ``gaussian`` file."""
        content = _GaussianFile.model_validate(raw)
        names = None if content.records is None else [str(name) for name in content.records]
        table = number_array(content.covariance, "covariance")
        return cls(mean=content.mean, covariance=table, records=names, fitted=content.fitted)

    def __repr__(self) -> str:
        n, rho = self.family, max(self.pearson(part) for part in self.components)
        return f"Gaussian({n} record{'s' * (n != 1)}, largest correlation {rho:.3g})"


@dataclass(frozen=True, kw_only=True, eq=False)
class LimitedCorrelation(NumberModel):
    """Joint normal distributions of ``records`` numbers with equal variances and no |Pearson| correlation above rho.

    It does not name its records: families of up to so many may be in the data, independent of each other.
    """

    file_type: ClassVar[str | None] = "limited_correlation"

    records: int
    """Most records in a family."""
    rho: float
    """Limit of the correlation between any two, from 0 to below 1."""
    fitted: dict[str, Any] | None = None
    """Where the class was estimated from, if it was."""

    def __post_init__(self) -> None:
        if isinstance(self.records, bool) or not isinstance(self.records, (int, np.integer)) or self.records < 1:
            raise ModelError(f"records is {self.records!r}; it must be a whole number of records, 1 or more")
        rho = number_array(self.rho, "rho")
        if rho.ndim != 0 or not 0 <= float(rho) < 1:
            raise ModelError(
                f"rho is {self.rho}; a limit of correlations lies from 0 to below 1: where records may determine "
                "each other, use groups",
                value=self.rho,
            )
        object.__setattr__(self, "records", int(self.records))
        object.__setattr__(self, "rho", float(rho))

    @property
    def family(self) -> int:
        """Records in the largest family."""
        return self.records

    def dependent(self, longest: int) -> int:
        """A whole family, unless nothing is correlated."""
        return 1 if self.rho == 0 else self.records

    def correlations(self) -> list[tuple[int, float, float]]:
        """A family of the largest size at the limit, with equal variances."""
        return [(self.records, self.rho, 1.0)]

    def example(self, clip: tuple[float, float]) -> Gaussian:
        """Every correlation at its limit, most of the mass inside the range."""
        alike = np.full((self.records, self.records), self.rho) + (1 - self.rho) * np.eye(self.records)
        spread = (clip[1] - clip[0]) / 4
        return Gaussian(mean=[sum(clip) / 2] * self.records, covariance=spread**2 * alike)

    def to_dict(self) -> dict[str, Any]:
        """How many records, and the limit."""
        out = {"type": self.file_type, "records": self.records, "rho": self.rho}
        return out if self.fitted is None else {**out, "fitted": self.fitted}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], folder: Path | None) -> LimitedCorrelation:
        """The class of a ``limited_correlation`` file."""
        content = _LimitedFile.model_validate(raw)
        return cls(records=content.records, rho=content.rho, fitted=content.fitted)

    def __repr__(self) -> str:
        n = self.records
        return f"LimitedCorrelation({n} record{'s' * (n != 1)}, correlations up to {self.rho:g})"


def _covariance(value: object, n: int) -> Floats:
    matrix = number_array(value, "covariance")
    if matrix.shape != (n, n):
        shape = "×".join(map(str, matrix.shape))
        raise ModelError(
            f"covariance is {shape}; mean has {n} number{'s' * (n != 1)}, so it must be {n}×{n}", value=value
        )
    if not np.isfinite(matrix).all():
        raise ModelError(f"covariance has an entry {matrix[~np.isfinite(matrix)][0]}; all must be finite", value=value)
    variance = np.diag(matrix)
    if not (variance > 0).all():
        i = int(np.argmin(variance))
        raise ModelError(
            f"the variance of record {i + 1} is {variance[i]:g}; it must be above 0: leave out a record that is known",
            value=value,
        )
    if variance.min() < 1 / LARGEST or np.abs(matrix).max() > LARGEST:
        raise ModelError(
            f"covariance has entries from {variance.min():g} to {np.abs(matrix).max():g}; variances below "
            f"{1 / LARGEST:g} and numbers beyond {LARGEST:g} are too small or too large to be multiplied: measure "
            "the records in another unit",
            value=value,
        )
    sd = np.sqrt(variance)
    off = np.abs(matrix - matrix.T) / sd[:, None] / sd
    if off.max() > _SYMMETRIC:
        i, j = (int(v) for v in np.argwhere(off == off.max())[0])
        raise ModelError(
            f"covariance[{i}][{j}] is {matrix[i, j]:g} and covariance[{j}][{i}] is {matrix[j, i]:g}; they must agree",
            value=value,
        )
    matrix = (matrix + matrix.T) / 2
    least = float(np.linalg.eigvalsh(matrix / sd[:, None] / sd)[0])
    if least <= _LEAST:
        raise ModelError(
            f"covariance is not positive definite: the least eigenvalue of its correlations is {least:.3g}; leave out "
            "a record that the others determine, or correct an entry",
            value=value,
        )
    return np.asarray(matrix)
