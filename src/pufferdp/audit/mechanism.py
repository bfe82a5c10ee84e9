"""What an audit needs of a mechanism: it runs on many data sets at once, each run with fresh randomness."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[np.float64] | npt.NDArray[np.int64]
"""One data set a row: state numbers for models with states, values for real records."""
Outputs = npt.NDArray[np.float64]
"""One output a row, of d numbers."""


@runtime_checkable
class AuditedMechanism(Protocol):
    """Anything that turns data into output: a function, a command, another library's object."""

    @property
    def name(self) -> str:
        """What reports call it."""

    @property
    def dp_loss(self) -> float | None:
        """The DP loss it claims, towards a change of one record; None where it claims none."""

    def run(self, records: Records) -> Outputs:
        """One output for each row of records, shape (m, n) to (m, d); failures are ``pufferdp.errors``."""
