"""Every error pufferdp raises on purpose.

    PufferdpError
    ├── InputError                what came in is wrong; nothing was done        (exit 2)
    │   ├── ParameterError        an option or argument: epsilon, length, beta
    │   ├── ModelError            a model, a class of models or a model file
    │   ├── QueryError            a query that does not exist or does not fit the model
    │   ├── DataError             a file, a frame, a column, a record
    │   │   └── ValuesError       a value: with a ledger it is told after the charge (exit 1)
    │   ├── CertificateError      a certificate that cannot be read
    │   ├── MechanismError        a mechanism from outside that fails, hangs or answers nonsense
    │   └── LedgerError           a ledger that cannot be opened, read or written
    ├── UnknownChargeError        nobody knows whether a charge was made         (exit 1)
    ├── DeliveryError             made, but not delivered as asked; a charge stays (exit 1)
    └── RefusedError              the input is fine, the guarantee cannot be kept  (exit 3)
        ├── NotApplicableError    the mechanism that was asked for gives no guarantee here
        └── BudgetError           the data set has too little of its budget left

A message names the value that was found, the rule it breaks and the way out, in one sentence or two.
"""

from __future__ import annotations

from typing import ClassVar


class PufferdpError(Exception):
    """Base of all errors raised on purpose; ``exit_code`` is what the command line returns."""

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, value: object = None) -> None:
        super().__init__(message)
        self.value = value
        """The offending object, where there is one."""


class InputError(PufferdpError):
    """What came in is wrong. Nothing was done and nothing was charged."""


class ParameterError(InputError):
    """An argument is outside its domain."""


class ModelError(InputError):
    """A model, a class of models or a model file is malformed."""


class QueryError(InputError):
    """A query does not exist or does not fit the model."""


class DataError(InputError):
    """A file, a frame, a column or a record cannot be used."""


class ValuesError(DataError):
    """A value of the data is no state, or the model rules it out. With a ledger this is told after the charge."""


class CertificateError(InputError):
    """A certificate cannot be read."""


class MechanismError(InputError):
    """A mechanism from outside fails, hangs or gives back something that is no output."""


class LedgerError(InputError):
    """A ledger cannot be opened, read or written, or has no such data set."""


class UnknownChargeError(PufferdpError):
    """A charge was sent off, and no answer came: it may have been made. The ledger can be asked by its identity."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, value: object = None, identity: str | None = None) -> None:
        super().__init__(message, value=value)
        self.identity = identity
        """What to ask for: ``Ledger.find``, or ``ledger show --charge``."""


class DeliveryError(PufferdpError):
    """Something went wrong after the charge, or on the way to where the output was to go. The charge stays."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, value: object = None, result: object = None) -> None:
        super().__init__(message, value=value)
        self.result = result
        """What was made, complete but for where it was to be written; None where nothing was."""


class RefusedError(PufferdpError):
    """The input is fine, but the guarantee that was asked for cannot be kept."""

    exit_code: ClassVar[int] = 3


class NotApplicableError(RefusedError):
    """The mechanism that was asked for gives no guarantee on this problem."""


class BudgetError(RefusedError):
    """The data set has too little of its budget left. Nothing was charged."""

    def __init__(self, message: str, *, value: object = None, left: float | None = None) -> None:
        super().__init__(message, value=value)
        self.left = left
        """The DP loss that a release like this one may have, where one fits."""
