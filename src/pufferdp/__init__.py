"""Publish statistics from correlated data with a guarantee that survives the correlation.

The public names load when they are first used, so ``import pufferdp`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pufferdp.answering import AnswerLaw, answer_law
    from pufferdp.beliefs import Robustness, robustness
    from pufferdp.certificate import Certificate, read_certificate
    from pufferdp.checks import Adversary
    from pufferdp.denoising import Denoised
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
    from pufferdp.leakage.bounds import best_curve, curves
    from pufferdp.leakage.curves import Curve
    from pufferdp.leaking import LeakageReport, leakage_of
    from pufferdp.limits import Limit
    from pufferdp.mechanisms import Calibration
    from pufferdp.models import (
        AnyGroups,
        BayesianNetwork,
        BinaryInterval,
        Gaussian,
        Groups,
        JointTable,
        LimitedCorrelation,
        MarkovChain,
        MarkovClass,
        MarkovInterval,
        Member,
        ModelClass,
        Node,
        Pedigree,
        load_model,
        save_model,
    )
    from pufferdp.planning import Candidate, Plan, plan
    from pufferdp.queries import Query
    from pufferdp.redacting import plan_redaction, redact
    from pufferdp.redaction_certificate import RedactionCertificate
    from pufferdp.redaction_result import Redaction
    from pufferdp.releasing import Release, release
    from pufferdp.secrets import Secret, Secrets, load_secrets
    from pufferdp.tilting import tilted_model
    from pufferdp.verification import Verification, verify

_HOME = {
    "answering": ("AnswerLaw", "answer_law"),
    "beliefs": ("Robustness", "robustness"),
    "certificate": ("Certificate", "read_certificate"),
    "checks": ("Adversary",),
    "denoising": ("Denoised",),
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
    "leakage.bounds": ("best_curve", "curves"),
    "leakage.curves": ("Curve",),
    "leaking": ("LeakageReport", "leakage_of"),
    "limits": ("Limit",),
    "mechanisms": ("Calibration",),
    "models": (
        "AnyGroups",
        "BayesianNetwork",
        "BinaryInterval",
        "Gaussian",
        "Groups",
        "JointTable",
        "LimitedCorrelation",
        "MarkovChain",
        "MarkovClass",
        "MarkovInterval",
        "Member",
        "ModelClass",
        "Node",
        "Pedigree",
        "load_model",
        "save_model",
    ),
    "planning": ("Candidate", "Plan", "plan"),
    "queries": ("Query",),
    "redacting": ("plan_redaction", "redact"),
    "redaction_certificate": ("RedactionCertificate",),
    "redaction_result": ("Redaction",),
    "releasing": ("Release", "release"),
    "secrets": ("Secret", "Secrets", "load_secrets"),
    "tilting": ("tilted_model",),
    "verification": ("Verification", "verify"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Adversary",
    "AnswerLaw",
    "AnyGroups",
    "BayesianNetwork",
    "BinaryInterval",
    "Calibration",
    "Candidate",
    "Certificate",
    "CertificateError",
    "Curve",
    "DataError",
    "Denoised",
    "Fit",
    "Gaussian",
    "Groups",
    "InputError",
    "JointTable",
    "LeakageReport",
    "Limit",
    "LimitedCorrelation",
    "MarkovChain",
    "MarkovClass",
    "MarkovInterval",
    "Member",
    "ModelClass",
    "ModelError",
    "Node",
    "NotApplicableError",
    "ParameterError",
    "Pedigree",
    "Plan",
    "PufferdpError",
    "Query",
    "QueryError",
    "Redaction",
    "RedactionCertificate",
    "RefusedError",
    "Release",
    "Robustness",
    "Secret",
    "Secrets",
    "Verification",
    "answer_law",
    "best_curve",
    "curves",
    "fit",
    "leakage_of",
    "load_model",
    "load_secrets",
    "plan",
    "plan_redaction",
    "read_certificate",
    "redact",
    "release",
    "robustness",
    "save_model",
    "tilted_model",
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
