"""Records that are real numbers: jointly normal with one covariance matrix, or with any that is limited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np

from pufferdp.basics.arrays import Floats, read_only
from pufferdp.basics.errors import ModelError
from pufferdp.models.base import record_names
from pufferdp.models.chain import number_array
from pufferdp.models.inference import connected

_SYMMETRIC: Final = 1e-9
"""How far two entries that should agree may differ, as a share of the standard deviations."""
_LEAST: Final = 1e-12
"""Eigenvalues of a correlation matrix below this cannot be told from 0 in doubles."""


class _Unstated:
    """What the rest of the code asks of a model with states, and what records without states answer."""

    labels: ClassVar[tuple[str, ...]] = ()
    """There are no states to name."""
    values: ClassVar[None] = None
    """The numbers are in the data."""
    bins: ClassVar[None] = None
    """Only series have bins."""
    size: ClassVar[int] = 0
    """Number of states."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Gaussian(_Unstated):
    """One family of records with a joint normal law; the data may hold many independent copies of it.

    >>> Gaussian(mean=[69, 64, 67], covariance=[[6.1, 0.4, 2.4], [0.4, 5.3, 1.7], [2.4, 1.7, 12.8]])
    Gaussian(3 records, largest correlation 0.272)
    """

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
            raise ModelError("mean must be a list of finite numbers, one a record", value=mean)
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
        """Records in one copy."""
        return len(self.records)

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The records in sets that are independent of each other: no covariance leads from one to another."""
        return tuple(connected([np.flatnonzero(row).tolist() for row in self.covariance]))

    def pearson(self, component: Sequence[int]) -> float:
        """The largest |correlation| between two of these records, rounded up."""
        part = self.covariance[np.ix_(component, component)]
        sd = np.sqrt(np.diag(part))
        found = np.abs(part) / sd[:, None] / sd * (1 + 2.0**-50)  # two roots and two quotients
        return min(1.0, float(found.max(where=~np.eye(len(part), dtype=bool), initial=0.0)))

    def spread(self, component: Sequence[int]) -> float:
        """The largest over the least standard deviation of these records, rounded up; 1 where variances are equal."""
        variance = np.diag(self.covariance)[list(component)]
        ratio = float(variance.max() / variance.min())
        return 1.0 if ratio == 1 else float(np.sqrt(ratio)) * (1 + 2.0**-50)

    def __repr__(self) -> str:
        n, rho = self.family, max(self.pearson(part) for part in self.components)
        return f"Gaussian({n} record{'s' * (n != 1)}, largest correlation {rho:.3g})"


@dataclass(frozen=True, kw_only=True, eq=False)
class LimitedCorrelation(_Unstated):
    """Every joint normal law of so many records with equal variances and no |Pearson| correlation above rho.

    It does not name its records: families of up to so many may be in the data, independent of each other.
    """

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

    def __repr__(self) -> str:
        n = self.records
        return f"LimitedCorrelation({n} record{'s' * (n != 1)}, correlations up to {self.rho:g})"


def _covariance(value: object, n: int) -> Floats:
    matrix = number_array(value, "covariance")
    if matrix.shape != (n, n):
        shape = "×".join(map(str, matrix.shape))
        raise ModelError(f"covariance is {shape}; mean has {n} numbers, so it must be {n}×{n}", value=value)
    if not np.isfinite(matrix).all():
        raise ModelError(f"covariance has an entry {matrix[~np.isfinite(matrix)][0]}; all must be finite", value=value)
    variance = np.diag(matrix)
    if not (variance > 0).all():
        i = int(np.argmin(variance))
        raise ModelError(
            f"the variance of record {i + 1} is {variance[i]:g}; it must be above 0: leave out a record that is known",
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
