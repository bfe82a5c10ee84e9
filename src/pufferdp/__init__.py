"""Publish statistics from correlated data with a guarantee that survives the correlation.

The public names load when they are first used, so ``import pufferdp`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pufferdp.certificate import Certificate, Verification, read_certificate, verify
    from pufferdp.checks import Adversary
    from pufferdp.errors import (
        CertificateError,
        DataError,
        InputError,
        ModelError,
        NotApplicableError,
        ParameterError,
        PufferdpError,
        QueryError,
        RefusedError,
    )
    from pufferdp.fitting import Fit, fit
    from pufferdp.mechanisms import Calibration
    from pufferdp.models import BinaryInterval, MarkovChain, MarkovClass, MarkovInterval, load_model, save_model
    from pufferdp.planning import Candidate, Plan, plan
    from pufferdp.queries import Query
    from pufferdp.releasing import Release, release

_HOME = {
    "certificate": ("Certificate", "Verification", "read_certificate", "verify"),
    "checks": ("Adversary",),
    "errors": (
        "CertificateError",
        "DataError",
        "InputError",
        "ModelError",
        "NotApplicableError",
        "ParameterError",
        "PufferdpError",
        "QueryError",
        "RefusedError",
    ),
    "fitting": ("Fit", "fit"),
    "mechanisms": ("Calibration",),
    "models": ("BinaryInterval", "MarkovChain", "MarkovClass", "MarkovInterval", "load_model", "save_model"),
    "planning": ("Candidate", "Plan", "plan"),
    "queries": ("Query",),
    "releasing": ("Release", "release"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Adversary",
    "BinaryInterval",
    "Calibration",
    "Candidate",
    "Certificate",
    "CertificateError",
    "DataError",
    "Fit",
    "InputError",
    "MarkovChain",
    "MarkovClass",
    "MarkovInterval",
    "ModelError",
    "NotApplicableError",
    "ParameterError",
    "Plan",
    "PufferdpError",
    "Query",
    "QueryError",
    "RefusedError",
    "Release",
    "Verification",
    "fit",
    "load_model",
    "plan",
    "read_certificate",
    "release",
    "save_model",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'pufferdp' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"pufferdp.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
